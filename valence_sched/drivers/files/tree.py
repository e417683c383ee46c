# SPDX-License-Identifier: Apache-2.0
"""A recorded tree of Redfish documents, and the pod manager that its dialect reads from it.

The place of a document in the tree is its URI, whatever the document itself says. Documents are
decoded when a link leads to them, so a document that no other links costs nothing and is not
checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, error_text
from valence_sched.drivers.dialect import Dialects, recognised_dialect
from valence_sched.drivers.document_shape import check_content, object_of
from valence_sched.drivers.fields import Json
from valence_sched.drivers.identity import told_identity
from valence_sched.drivers.links import ROOT, DocumentNotes, LinkedDocuments, path_of
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostic, Diagnostics
from valence_sched.model.inventory import FullPodm

#: Where in a folder a tree may begin.
STARTS = ("redfish/v1/", "redfish/", "v1/", "")

#: A folder is a tree when one of these documents stands in it.
TREE_MARKERS = tuple(
    f"{start}{part}index.json"
    for start in STARTS
    for part in ("", "CompositionService/", "Systems/", "Chassis/")
)


class RecordedTree:
    """Documents by URI, each as its bytes or as the file that holds them."""

    def __init__(self, documents: Mapping[str, bytes | Path]) -> None:
        self.documents = documents

    def get(self, uri: str) -> Json | None:
        """Return the document at a URI, None when there is none; InputError for a bad one."""
        data = self.documents.get(uri)
        if isinstance(data, Path):
            data = _read(data, uri)
        if data is None:
            return None
        if len(data) > MAX_DOCUMENT_BYTES:
            expected = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", expected)
        return check_content(object_of(data, uri), uri)


def tree_of_files(files: Mapping[str, bytes | Path]) -> RecordedTree:
    """Return the tree of the ``index.json`` files at these places below one folder."""
    names = sorted(name for name in files if name.rpartition("/")[2] == "index.json")
    start = next(start for start in STARTS if any(name.startswith(start) for name in names))
    documents = {}
    for name in filter(lambda name: name.startswith(start), names):
        place = name.removeprefix(start).removesuffix("index.json")
        documents[path_of(f"{ROOT}/{place}")] = files[name]
    return RecordedTree(documents)


def tree_of_map(documents: Mapping[str, bytes]) -> RecordedTree:
    """Return the tree of a map from URI to document."""
    found: dict[str, bytes | Path] = {}
    for uri, document in documents.items():
        found.setdefault(path_of(uri), document)
    return RecordedTree(found)


def podm_of(
    tree: RecordedTree, id_: str, file: str, diagnostics: Diagnostics, dialects: Dialects
) -> FullPodm:
    """Return the pod manager that its dialect reads; ``diagnostics`` gets faults of documents."""
    notes = DocumentNotes()
    service = LinkedDocuments(tree.get, notes, tree.documents)
    root = None
    with contextlib.suppress(InputError):  # the reader of the dialect notes it
        root = tree.get(ROOT)
    dialect = recognised_dialect(root, dialects)
    podm = dialect.inventory(service, id_)
    if podm.identity is None:
        podm = replace(podm, identity=told_identity(tree.get, service))
    diagnostics.extend(notes.diagnostics(file))
    return podm


def tree_documents(
    tree: RecordedTree, file: str, diagnostics: Diagnostics
) -> Iterator[tuple[str, Json]]:
    """Yield URI and content of every document; ``diagnostics`` gets each that cannot be read."""
    for uri in tree.documents:
        try:
            json = tree.get(uri)
        except InputError as error:
            fault = Diagnostic("skipped", f"{file}: {error}")
            if fault not in diagnostics:
                diagnostics.extend([fault])
            continue
        if json is not None:
            yield uri, json


def is_tree(names: Iterable[str]) -> bool:
    """Return whether a folder with these files is a tree."""
    return not set(TREE_MARKERS).isdisjoint(names)


def _read(path: Path, uri: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InputError(uri, "", error_text(error), "a document") from None
