# SPDX-License-Identifier: Apache-2.0
"""A recorded tree of Redfish documents, and the pod manager that its dialect reads from it."""

import contextlib
import os
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import msgspec

from valence_sched.drivers import document_shape, links
from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, TREE_STARTS
from valence_sched.drivers.dialect import Dialects, recognised_dialect
from valence_sched.drivers.document_shape import COUNT, MEMBERS, NEXT, current_form
from valence_sched.drivers.fields import MAX_TEXT, NO_NOTES, Json
from valence_sched.drivers.links import ROOT, DocumentNotes, LinkedDocuments, path_of
from valence_sched.drivers.redfish.schema import Collection
from valence_sched.errors import InputError, one_line, plain_reason
from valence_sched.model.codec import escape_json
from valence_sched.model.diagnostic import Diagnostic, Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.model.quantity import format_count

DOCUMENT = "index.json"
MAX_NAME_BYTES = 255


class RecordedTree:
    """Documents by URI, each as bytes or as a file; the URI is the path in the tree."""

    def __init__(self, documents: Mapping[str, bytes | Path]) -> None:
        self.documents = documents

    def get(self, uri: str) -> Json | None:
        """Return the document at a URI, None if missing; InputError if unreadable."""
        data = self.documents.get(uri)
        if isinstance(data, Path):
            try:
                with data.open("rb") as file:
                    data = file.read(MAX_DOCUMENT_BYTES + 1)
            except OSError as error:
                raise InputError(uri, "", plain_reason(error), "a document") from None
        if data is None:
            return None
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InputError(uri, "", "a larger document", f"at most {MAX_DOCUMENT_BYTES} bytes")
        return document_shape.check_content(document_shape.object_of(data, uri), uri)


def tree_of(documents: Mapping[str, bytes | Path]) -> RecordedTree:
    """Return the tree of the documents by URI, or of the ``index.json`` files below a folder."""
    found: dict[str, bytes | Path] = {}
    if all(name.startswith("/") for name in documents):
        for uri, document in documents.items():
            found.setdefault(path_of(uri), document)
        return RecordedTree(found)
    names = sorted(name for name in documents if name.rpartition("/")[2] == DOCUMENT)
    start = next(it for it in TREE_STARTS if any(name.startswith(it) for name in names))
    for name in filter(lambda name: name.startswith(start), names):
        place = name.removeprefix(start).removesuffix(DOCUMENT)
        found[path_of(f"{ROOT}/{place}")] = documents[name]
    return RecordedTree(found)


def podm_of(
    tree: RecordedTree, id_: str, file: str, diagnostics: Diagnostics, dialects: Dialects
) -> FullPodm:
    """Return the pod manager that its dialect reads; report faults to ``diagnostics``."""
    notes = DocumentNotes()
    service = LinkedDocuments(tree.get, notes, tree.documents)
    root = None
    with contextlib.suppress(InputError):  # the reader of the dialect notes it
        root = tree.get(ROOT)
    podm = recognised_dialect(root, dialects).inventory(service, id_)
    diagnostics.extend(notes.diagnostics(file))
    return podm


def tree_documents(
    tree: RecordedTree, file: str, diagnostics: Diagnostics
) -> Iterator[tuple[str, Json]]:
    """Yield URI and content of every document; report unreadable documents to ``diagnostics``."""
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


def write_tree(documents: Mapping[str, Json], folder: Path, note: Callable[[str], None]) -> int:
    """Write documents below a folder; return the number written, or raise OSError."""
    count = 0
    spelled: dict[str, str] = {}  # used paths by their lower-case form
    for uri, json in join_pages(documents).items():
        if fault := _uri_fault(uri, spelled):
            note(one_line(f"{uri[:200]}: {fault}, expected a URI that can be a file (left out)"))
            continue
        try:
            data = msgspec.json.format(escape_json(msgspec.json.encode(json)), indent=2) + b"\n"
        except (RecursionError, msgspec.MsgspecError, UnicodeEncodeError):
            data = b""
        if not 0 < len(data) <= MAX_DOCUMENT_BYTES:
            note(one_line(f"{uri}: found a document nested too deeply or too large (left out)"))
            continue
        place = folder.joinpath(*_parts(uri), DOCUMENT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        count += 1
    return count


def build_folder(folder: str, fill: Callable[[Path], None]) -> None:
    """Fill a temporary folder, then rename it to ``folder``; InputError on failure."""
    target = Path(folder)
    try:
        is_empty = target.is_dir() and not any(target.iterdir())
        if target.is_symlink() or (target.exists() and not is_empty):
            hint = "name a new folder, or remove this one"
            raise InputError(folder, "", "an existing file or folder", "a new path", hint)
        above = target.absolute().parent
        above.mkdir(parents=True, exist_ok=True)
        beside = above / f".{target.name}.{secrets.token_hex(8)}"
        beside.mkdir()
        try:
            fill(beside)
            beside.rename(target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise InputError(folder, "", plain_reason(error), "a writable folder") from None


def name_fault(name: str) -> str | None:
    plain = unquote(name)
    if not plain or plain.strip(".") == "":
        return "found an empty part, . or .."
    if "/" in name or "\\" in plain or not plain.isprintable():
        return "found a character that file names cannot have"
    if plain.casefold() == DOCUMENT:
        return f"found a part called {DOCUMENT}"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        return f"found a part of more than {MAX_NAME_BYTES} bytes"
    return None


def join_pages(documents: Mapping[str, Json]) -> dict[str, Json]:
    found = {path_of(uri): json for uri, json in documents.items()}
    later: set[str] = set()
    whole: dict[str, Json] = {}
    for uri, json in found.items():
        present = current_form(json)
        if "?" in uri or NEXT not in present or not isinstance(present.get(MEMBERS), list):
            continue
        members, seen = list(present[MEMBERS]), {uri}
        place = _next_place(uri, present, found)
        while place and place not in seen and len(seen) < links.MAX_PAGES:
            seen.add(place)
            page = current_form(found[place])
            more = page.get(MEMBERS)
            members += more if isinstance(more, list) else []
            place = _next_place(place, page, found)
        fields = {key: value for key, value in present.items() if key != NEXT}
        whole[uri] = fields | {COUNT: len(members), MEMBERS: members}
        later |= seen - {uri}
    return {uri: whole.get(uri, json) for uri, json in found.items() if uri not in later}


def _next_place(uri: str, page: Json, found: Mapping[str, Json]) -> str | None:
    link = links.link_path(Collection(uri, page, NO_NOTES).next_link)
    places = [link, *links.places_below(uri, link)] if link else []
    return next((place for place in places if place in found), None)


def _uri_fault(uri: str, spelled: dict[str, str]) -> str | None:
    """Add the path of a URI to the ``spelled`` paths, or return the reason why it conflicts."""
    if len(uri) > MAX_TEXT:
        return f"found a URI of {format_count(len(uri), 'character')}"
    if uri != ROOT and not uri.startswith(f"{ROOT}/"):
        return f"found a URI outside {ROOT}"
    if "?" in uri:
        return "found a query"
    parts = _parts(uri)
    if fault := next(filter(None, map(name_fault, parts)), None):
        return fault
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    folded = [unicodedata.normalize("NFC", path).casefold() for path in above]
    for path, key in zip(above, folded, strict=True):
        if spelled.get(key, path) != path:
            return f"found a URI that differs from {spelled[key]} in case only"
    spelled |= zip(folded, above, strict=True)
    return None


def _parts(uri: str) -> list[str]:
    return uri.strip("/").split("/")
