# SPDX-License-Identifier: Apache-2.0
"""A recorded tree of Redfish documents, and the pod manager it shows.

The place of a document in the tree is its URI, whatever the document itself says. Documents are
decoded when a link leads to them, so what nobody links costs nothing and is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, error_text
from valence_sched.drivers.dialect import Dialect, dialect_name
from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT, LinkedDocuments, Notes, path_of
from valence_sched.drivers.redfish.reader import redfish
from valence_sched.drivers.rsd.reader import rsd
from valence_sched.errors import InputError
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm

#: Where in a folder a tree may begin.
STARTS = ("redfish/v1/", "redfish/", "v1/", "")

#: A folder is a tree when one of these documents stands in it.
TREE_MARKERS = tuple(
    f"{start}{part}index.json"
    for start in STARTS
    for part in ("", "CompositionService/", "Systems/", "Chassis/")
)


#: What a recorded tree may speak, by the name that its service root tells.
DIALECTS: Mapping[str, Callable[[], Dialect]] = {"redfish": redfish, "rsd": rsd}


class RecordedTree:
    """Documents by URI, each as its bytes or as the file that holds them."""

    def __init__(self, documents: Mapping[str, bytes | Path]) -> None:
        self.documents = documents

    def get(self, uri: str) -> Json | None:
        """Return the document at a URI, None when there is none.

        Raises:
            InputError: the document cannot be read.
        """
        found = self.documents.get(uri)
        if isinstance(found, Path):
            found = _read(found, uri)
        if found is None:
            return None
        if len(found) > MAX_DOCUMENT_BYTES:
            expected = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", expected)
        return decode(found.removeprefix(b"\xef\xbb\xbf"), dict, uri, "")


def tree_of_files(files: Mapping[str, bytes | Path]) -> RecordedTree:
    """Return the tree of the ``index.json`` files at these places below one folder."""
    names = sorted(name for name in files if name.rpartition("/")[2] == "index.json")
    start = next(start for start in STARTS if any(name.startswith(start) for name in names))
    return RecordedTree(
        {
            path_of(f"{ROOT}/{name.removeprefix(start).removesuffix('index.json')}"): files[name]
            for name in names
            if name.startswith(start)
        }
    )


def tree_of_map(documents: Mapping[str, bytes]) -> RecordedTree:
    """Return the tree of a map from URI to document."""
    found: dict[str, bytes | Path] = {}
    for uri, document in documents.items():
        found.setdefault(path_of(uri), document)
    return RecordedTree(found)


def podm_of(tree: RecordedTree, id_: str, file: str, problems: list[str]) -> FullPodm:
    """Return the pod manager that a tree shows; ``problems`` gets a line for each fault.

    A line that is a :class:`~valence_sched.errors.Remark` left nothing out.
    """
    notes = Notes()
    service = LinkedDocuments(tree.get, notes.add, tree.documents)
    speak = DIALECTS.get(dialect_name(_root(tree)), redfish)
    dialect = speak()
    podm = dialect.read(service, id_, dialect.name)
    problems += notes.lines(file)
    return podm


def _root(tree: RecordedTree) -> Json | None:
    try:
        return tree.get(ROOT)
    except InputError:
        return None  # whoever reads the tree says so


def is_tree(names: Iterable[str]) -> bool:
    """Return whether a folder with these files is a tree."""
    return not set(TREE_MARKERS).isdisjoint(names)


def _read(path: Path, uri: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InputError(uri, "", error_text(error), "a document") from None
