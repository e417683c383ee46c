# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers: yields one record for each pod manager of a source.

A source is a JSON inventory, JSON Lines, a map from URI to Redfish document, a Redfish tree
(folder, zip or tar), or a folder or archive of several of these; ``-`` is standard input.
"""

from __future__ import annotations

import gzip
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

import zstandard

from valence_sched.drivers.bounds import (
    BUFFER_BYTES,
    MAX_DOCUMENTS,
    MAX_MEMBERS,
    MAX_STREAM_BYTES,
    MAX_TREE_BYTES,
    BoundedStream,
    buffered_reader,
    error_text,
)
from valence_sched.drivers.files.json_inventory import (
    SUFFIXES,
    NotAnInventory,
    Record,
    is_inventory_name,
    text_records,
)
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics

if TYPE_CHECKING:
    from valence_sched.drivers.dialect import Dialects
    from valence_sched.drivers.files.tree import RecordedTree

Form = Literal["text", "tar", "zip"]

_HEAD_BYTES = 512
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7z", b"Rar!": "rar"}
_TAR = (b"ustar", 257)


class Stream(NamedTuple):
    """A decompressed stream from its beginning, and its format."""

    form: Form
    bytes: BinaryIO


def open_stream(source: BinaryIO, file: str) -> Stream:
    """Return what ``source`` holds, decompressed; an InputError says why it cannot be read."""
    at = source.tell() if source.seekable() else None
    head = _read_head(source)
    if not head:
        raise InputError(file, "", "an empty file", "an inventory", "was the capture finished?")
    whole = BoundedStream(source, file, sys.maxsize, head)
    compressed = head.startswith((_GZIP, _ZSTD))
    if compressed:
        packed_bytes, unpack = buffered_reader(whole), zstandard.ZstdDecompressor().stream_reader
        unpacked: BinaryIO
        if head.startswith(_GZIP):
            unpacked = gzip.GzipFile(fileobj=packed_bytes, mode="rb")  # type: ignore[assignment]
        else:
            unpacked = unpack(packed_bytes, read_size=BUFFER_BYTES, read_across_frames=True)
        head = _read_head(unpacked)
        whole = BoundedStream(unpacked, file, MAX_STREAM_BYTES, head)
    magic, magic_at = _TAR
    form: Form = "tar" if head[magic_at:].startswith(magic) else "text"
    if head.startswith(_ZIP) and form != "tar":
        form = "zip"
    packed = next((name for start, name in _OTHERS.items() if head.startswith(start)), None)
    if packed and form == "text":
        hint = "unpack it first, or use gzip or zstd"
        raise InputError(file, "", f"a {packed} file", "JSON, zip, tar, gzip or zstd", hint)
    if compressed and (form == "zip" or head.startswith((_GZIP, _ZSTD))):
        found = "a compressed archive that is compressed again"
        raise InputError(file, "", found, "one layer", "unpack it first")
    if form != "zip":
        return Stream(form, buffered_reader(whole))
    if at == 0:
        return Stream(form, source)
    spool = tempfile.TemporaryFile()  # noqa: SIM115  the directory of a zip stands at its end
    counted = buffered_reader(BoundedStream(buffered_reader(whole), file, MAX_STREAM_BYTES))
    while piece := counted.read(BUFFER_BYTES):
        spool.write(piece)
    spool.seek(0)
    return Stream(form, spool)  # the caller closes it


@contextmanager
def input_errors(file: str) -> Iterator[None]:
    """Turn whatever a damaged or unreadable stream raises into one line."""
    try:
        yield
    except OSError as error:
        expected = "a file that can be read" if error.errno else "a whole file"
        hint = "check who may read it" if isinstance(error, PermissionError) else ""
        if isinstance(error, FileNotFoundError):
            hint = "check the path, or use - for standard input"
        raise InputError(file, "", error_text(error), expected, hint) from None
    except _damage() as error:
        raise InputError(file, "", error_text(error), "a whole file", "was it cut off?") from None


def _damage() -> tuple[type[Exception], ...]:
    """Return what a damaged file raises: RuntimeError is of an encrypted zip, and of nesting."""
    import tarfile  # an error alone looks them up
    import zipfile

    of_archives = (tarfile.TarError, zipfile.BadZipFile, zlib.error, zstandard.ZstdError)
    return (*of_archives, EOFError, RuntimeError, OverflowError, struct.error, ValueError)


def _read_head(source: BinaryIO) -> bytes:
    head = b""
    while len(head) < _HEAD_BYTES and (piece := source.read(_HEAD_BYTES - len(head))):
        head += piece
    return head


def children(folder: Path, file: str, diagnostics: Diagnostics) -> list[Path]:
    """Return the files and folders in a folder, by name; what leads out of it is noted."""
    root = folder.resolve()
    found = []
    for path in _entries(folder, file, diagnostics):
        if not _is_inside(path, root, file, diagnostics):
            continue
        if path.is_dir() or path.is_file():
            found.append(path)
        else:
            fault = InputError(file, path.name, "no regular file", "a file or folder", "left out")
            diagnostics.skip(fault)
    return found


def files_below(root: Path, file: str, diagnostics: Diagnostics) -> dict[str, Path]:
    """Return every ``index.json`` below ``root`` by its place; ``root`` must be resolved."""
    found: dict[str, Path] = {}
    seen = size = 0
    for path in _walk(root, file, diagnostics):
        seen += 1
        if seen > MAX_MEMBERS:
            raise InputError(file, "", "more files and folders", f"at most {MAX_MEMBERS}")
        if path.name != "index.json" or path.is_dir():
            continue
        if not path.is_file():
            fault = InputError(file, _relative_path(path, root), "no regular file", "a document")
            diagnostics.skip(fault)
            continue
        size += path.stat().st_size
        found[_relative_path(path, root)] = path
        if size > MAX_TREE_BYTES:
            raise InputError(file, "", "more bytes of documents", f"at most {MAX_TREE_BYTES}")
        if len(found) > MAX_DOCUMENTS:
            raise InputError(file, "", "more documents", f"at most {MAX_DOCUMENTS}")
    return found


def _walk(root: Path, file: str, diagnostics: Diagnostics) -> Iterator[Path]:
    """Yield all below ``root``, parents first; a link to a folder around itself is noted."""
    waiting: list[tuple[Path, tuple[Path, ...]]] = [(root, (root,))]
    while waiting:
        here, around = waiting.pop()
        for path in _entries(here, file, diagnostics):
            if not _is_inside(path, root, file, diagnostics):
                continue
            yield path
            if not path.is_dir():
                continue
            real = path.resolve() if path.is_symlink() else around[-1] / path.name
            if real in around:
                found = "a link to a folder that it stands in"
                place = _relative_path(path, root)
                diagnostics.skip(InputError(file, place, found, "a tree", "not followed"))
            else:
                waiting.append((path, (*around, real)))


def _entries(folder: Path, file: str, diagnostics: Diagnostics) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        fault = InputError(file, folder.name, error_text(error), "a folder that can be read")
        diagnostics.skip(fault)
        return []


def _is_inside(path: Path, root: Path, file: str, diagnostics: Diagnostics) -> bool:
    """Return whether a path is inside ``root``, following links; if not, note it."""
    if not path.is_symlink():
        return True
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        what = f"a link that leads nowhere ({error_text(error)})"
    else:
        if target.is_relative_to(root):
            return True
        what = f"a link out of the tree, to {target}"
    place = _relative_path(path, root)
    diagnostics.skip(InputError(file, place, what, "links within it", "not followed"))
    return False


def _relative_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


__all__ = ["Record", "records"]

#: An archive in an archive is read, one more level is not.
MAX_NESTING = 1


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
    while suffix.lower() in SUFFIXES:
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
        known = False
        for child in entries:
            name, id_ = f"{file.rstrip('/')}/{child.name}", stem(Path(child.name))
            try:
                with input_errors(name):
                    if tree := child.tree():
                        known = True
                        yield self._tree_record(tree, id_, name)
                    elif is_inventory_name(child.name):
                        with child.open() as stream:
                            for record in self.read_stream(stream, name, id_, nesting + 1):
                                known = True
                                yield record
                        known = True
            except NotAnInventory:
                continue  # a folder of captures holds other JSON too
            except InputError as error:
                known = True
                self._diagnostics.skip(error)
        if not known:
            hint = "name a tree with an index.json, or a folder of trees and inventory files"
            raise InputError(file, "", "nothing that is one", "recorded inventories or trees", hint)

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
