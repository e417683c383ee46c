# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers: yields one record for each pod manager of a source.

A source is a JSON inventory, JSON Lines, a map from URI to Redfish document, a Redfish tree
(folder, zip or tar), or a folder or archive of several of these; ``-`` is standard input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from valence_sched.drivers.files.folders import children, files_below
from valence_sched.drivers.files.json_inventory import NotAnInventory, Record, text_records
from valence_sched.drivers.files.streams import input_errors, open_stream
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics

if TYPE_CHECKING:
    from valence_sched.drivers.dialect import Dialects
    from valence_sched.drivers.files.tree import RecordedTree

__all__ = ["Record", "records"]

#: An archive in an archive is read, one more level is not.
MAX_NESTING = 1

_SUFFIXES = {"json", "jsonl", "ndjson", "gz", "tgz", "zst", "zip", "tar"}


class Child(NamedTuple):
    """One entry of a folder or archive: a tree, or a file that may be an inventory."""

    name: str
    tree: Callable[[], RecordedTree | None]
    open: Callable[[], BinaryIO]


def records(
    source: str, stdin: BinaryIO, diagnostics: Diagnostics, dialects: Dialects
) -> Iterator[Record]:
    """Yield every pod manager of a source.

    ``diagnostics`` gets what is left out or doubtful; ``dialects`` read the trees, and are not
    looked at where there is none. A source that cannot be read as a whole raises InputError.
    """
    reader = RecordReader(diagnostics, dialects)
    with input_errors("stdin" if source == "-" else source):
        if source == "-":
            yield from reader.read_stream(stdin, "stdin", "stdin")
            return
        path = Path(source)
        if path.is_dir():
            yield from reader.read_folder(path, source)
            return
        path.stat()
        if not path.is_file():
            hint = "for a pipe, name - and redirect it to standard input"
            raise InputError(source, "", "no regular file", "a file or a folder", hint)
        with path.open("rb") as file:
            yield from reader.read_stream(file, source, stem(path))


def stem(path: Path) -> str:
    """Return the id of the pod manager that a path is named after."""
    path = path.absolute()
    while path.name in ("redfish", "v1", "..", "."):
        path = path.resolve().parent if path.name in ("redfish", "v1") else path.resolve()
    stem, suffix = path.name, path.suffix
    while suffix[1:].lower() in _SUFFIXES:
        stem = stem.removesuffix(suffix)
        suffix = Path(stem).suffix
    return stem or path.name or "root"


class RecordReader:
    """Reads the records of one source, whatever it nests."""

    def __init__(self, diagnostics: Diagnostics, dialects: Dialects) -> None:
        self._diagnostics, self._dialects = diagnostics, dialects

    def read_stream(
        self, source: BinaryIO, file: str, id_: str, nesting: int = 0
    ) -> Iterator[Record]:
        """Yield the pod managers of a text or an archive; errors as for :func:`records`."""
        stream = open_stream(source, file)
        if stream.form == "text":
            yield from text_records(stream.bytes, file, id_, self._diagnostics, self._tree_record)
            return
        if nesting > MAX_NESTING:
            raise InputError(file, "", "an archive in an archive", "a tree", "unpack it first")
        from valence_sched.drivers.files.archives import tar_members, zip_members

        members = zip_members if stream.form == "zip" else tar_members
        with nullcontext() if stream.bytes is source else stream.bytes:
            files = members(stream.bytes, file, self._diagnostics)
        yield from self._archive(files, file, id_, nesting)

    def read_folder(self, path: Path, file: str) -> Iterator[Record]:
        """Yield the pod managers of a folder; errors as for :func:`records`."""
        tree = self._folder_tree(path, file)
        if tree:
            yield self._tree_record(tree, stem(path), file)
            return
        entries = (
            Child(child.name, partial(self._folder_tree, child), partial(_open, child))
            for child in children(path, file, self._diagnostics)
        )
        yield from self._children(entries, file, 0)

    def _archive(
        self, files: Mapping[str, bytes], file: str, id_: str, nesting: int
    ) -> Iterator[Record]:
        if tree := _packed_tree(files):
            yield self._tree_record(tree, id_, file)
            return
        groups: dict[str, dict[str, bytes]] = {}
        for name in sorted(files):
            top, _, rest = name.partition("/")
            groups.setdefault(top, {})[rest] = files[name]
        if len(groups) == 1:
            (top, below), *_ = groups.items()
            if "" not in below:  # one folder was packed, and its content is meant
                yield from self._archive(below, f"{file}/{top}", top, nesting)
                return
        entries = (
            Child(top, partial(_packed_tree, below), partial(BytesIO, below.get("", b"")))
            for top, below in groups.items()
        )
        yield from self._children(entries, file, nesting)

    def _children(self, entries: Iterable[Child], file: str, nesting: int) -> Iterator[Record]:
        """Yield the pod managers of children; one that cannot be read does not stop the rest."""
        from valence_sched.drivers.files.archives import is_inventory_name

        known = False
        for child in entries:
            name = f"{file.rstrip('/')}/{child.name}"
            try:
                for record in self._child(child, name, nesting):
                    known = True
                    yield record
                known = known or is_inventory_name(child.name)
            except NotAnInventory:
                continue  # a folder of captures holds other JSON too
            except InputError as error:
                known = True
                self._diagnostics.skip(error)
        if not known:
            hint = "name a tree with an index.json, or a folder of trees and inventory files"
            raise InputError(file, "", "nothing that is one", "recorded inventories or trees", hint)

    def _child(self, child: Child, name: str, nesting: int) -> Iterator[Record]:
        from valence_sched.drivers.files.archives import is_inventory_name

        id_ = stem(Path(child.name))
        with input_errors(name):
            if tree := child.tree():
                yield self._tree_record(tree, id_, name)
            elif is_inventory_name(child.name):
                with child.open() as stream:
                    yield from self.read_stream(stream, name, id_, nesting + 1)

    def _tree_record(self, tree: RecordedTree, id_: str, file: str) -> Record:
        from valence_sched.drivers.files.tree import podm_of  # dialects: only for trees

        podm = podm_of(tree, id_, file, self._diagnostics, self._dialects)
        return Record(podm, file, "$", tree=tree)

    def _folder_tree(self, path: Path, file: str = "") -> RecordedTree | None:
        from valence_sched.drivers.files.tree import TREE_MARKERS, tree_of_files

        if not path.is_dir() or not any((path / mark).is_file() for mark in TREE_MARKERS):
            return None
        return tree_of_files(files_below(path.resolve(), file or str(path), self._diagnostics))


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _packed_tree(files: Mapping[str, bytes]) -> RecordedTree | None:
    from valence_sched.drivers.files.tree import is_tree, tree_of_files

    return tree_of_files(files) if is_tree(files) else None
