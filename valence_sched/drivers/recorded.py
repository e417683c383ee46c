# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers: yields one record for each pod manager of a source.

Archives are not trusted: files are not unpacked to disk, links are not followed, and every bound
counts the bytes that arrive.
"""

from __future__ import annotations

import gzip
import io
import shutil
import stat
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
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import zstandard

from valence_sched.drivers import bounds
from valence_sched.drivers.bounds import BUFFER_BYTES, MAX_STREAM_BYTES, bounded_reader
from valence_sched.drivers.files import json_inventory
from valence_sched.drivers.files.json_inventory import Record as Record
from valence_sched.errors import InputError, plain_reason
from valence_sched.files import ZstdFrames
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.quantity import format_count

if TYPE_CHECKING:
    from valence_sched.drivers.dialect import Dialects

Documents = Mapping[str, bytes | Path]
_HEAD_BYTES = 512
#: Errors of a damaged file; an encrypted zip and deep nesting raise RuntimeError.
_DAMAGE: tuple[type[Exception], ...] = (EOFError, RuntimeError, OverflowError, ValueError)
_DAMAGE += (BadZipFile, zlib.error, zstandard.ZstdError, struct.error)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7z", b"Rar!": "rar"}
_TAR_AT = 257  # offset of the tar magic
_CENTRAL = b"PK\x01\x02"  # starts each entry of a zip's directory
_ENCRYPTED = 0x1
#: An archive in an archive is read; deeper nesting is an error.
MAX_NESTING = 1


def open_stream(source: BinaryIO, file: str) -> tuple[Literal["text", "tar", "zip"], BinaryIO]:
    """Return the form of a source and its decompressed stream; InputError: empty or unknown."""
    at = source.tell() if source.seekable() else None
    if not (head := _read_head(source)):
        hint = "check that the capture finished"
        raise InputError(file, "", "an empty file", "an inventory", hint)
    whole = bounded_reader(source, file, sys.maxsize, head)
    compressed = head.startswith((_GZIP, _ZSTD))
    if compressed:
        unpacked: BinaryIO
        if head.startswith(_GZIP):
            unpacked = gzip.GzipFile(fileobj=whole, mode="rb")  # type: ignore[assignment]
        else:
            unpacked = io.BufferedReader(ZstdFrames(whole), BUFFER_BYTES)
        head = _read_head(unpacked)
        whole = bounded_reader(unpacked, file, MAX_STREAM_BYTES, head)
    zip_or_text: Literal["zip", "text"] = "zip" if head.startswith(_ZIP) else "text"
    form = "tar" if head[_TAR_AT:].startswith(b"ustar") else zip_or_text
    packed = next((name for start, name in _OTHERS.items() if head.startswith(start)), None)
    if packed and form == "text":
        hint = "unpack it first, or use gzip or zstd"
        raise InputError(file, "", f"a {packed} file", "JSON, zip, tar, gzip or zstd", hint)
    if compressed and (form == "zip" or head.startswith((_GZIP, _ZSTD))):
        found = "an archive that is compressed twice"
        raise InputError(file, "", found, "one layer of compression", "unpack it first")
    if form != "zip" or at == 0:
        return form, source if form == "zip" else whole
    spool = tempfile.TemporaryFile()  # noqa: SIM115  the directory of a zip stands at its end
    shutil.copyfileobj(bounded_reader(whole, file, MAX_STREAM_BYTES), spool, BUFFER_BYTES)
    spool.seek(0)
    return form, spool  # the caller closes it


@contextmanager
def input_errors(file: str) -> Iterator[None]:
    """Raise the errors of a damaged or unreadable stream as InputError."""
    try:
        yield
    except OSError as error:
        expected = "a file that can be read" if error.errno else "a whole file"
        hint = "check its permissions" if isinstance(error, PermissionError) else ""
        if isinstance(error, FileNotFoundError):
            hint = "check the path, or use - for standard input"
        raise InputError(file, "", plain_reason(error), expected, hint) from None
    except _DAMAGE as error:
        hint = "it may be truncated"
        raise InputError(file, "", plain_reason(error), "a whole file", hint) from None


def _read_head(source: BinaryIO) -> bytes:
    head = b""
    while len(head) < _HEAD_BYTES and (piece := source.read(_HEAD_BYTES - len(head))):
        head += piece
    return head


def children(folder: Path, file: str, diagnostics: Diagnostics) -> list[Path]:
    """Return the files and folders in a folder in the order of names; note links out of it."""
    found = []
    for path in _entries(folder, folder.resolve(), file, diagnostics):
        if path.is_dir() or path.is_file():
            found.append(path)
        else:
            fault = InputError(file, path.name, "a special file", "a file or folder", "left out")
            diagnostics.skip(fault)
    return found


def files_below(root: Path, file: str, diagnostics: Diagnostics) -> dict[str, Path]:
    """Return every ``index.json`` below the resolved path ``root`` by its relative path."""
    found: dict[str, Path] = {}
    size = 0
    for seen, path in enumerate(_walk(root, file, diagnostics), 1):
        _check_bound(file, seen, bounds.MAX_MEMBERS, "files and folders")
        if path.name != "index.json" or path.is_dir():
            continue
        place = _relative_path(path, root)
        if not path.is_file():
            diagnostics.skip(InputError(file, place, "a special file", "a document"))
            continue
        size += path.stat().st_size
        found[place] = path
        _check_bound(file, size, bounds.MAX_TREE_BYTES, "bytes of documents")
        _check_bound(file, len(found), bounds.MAX_DOCUMENTS, "documents")
    return found


def _check_bound(file: str, count: int, most: int, what: str) -> None:
    if count > most:
        raise InputError(file, "", f"more {what}", f"at most {most}")


def _walk(root: Path, file: str, diagnostics: Diagnostics) -> Iterator[Path]:
    waiting: list[tuple[Path, tuple[Path, ...]]] = [(root, (root,))]
    while waiting:
        here, around = waiting.pop()
        for path in _entries(here, root, file, diagnostics):
            yield path
            if not path.is_dir():
                continue
            real = path.resolve() if path.is_symlink() else around[-1] / path.name
            if real in around:
                found, expected = "a link to its parent folder", "a tree without loops"
                place = _relative_path(path, root)
                diagnostics.skip(InputError(file, place, found, expected, "not followed"))
            else:
                waiting.append((path, (*around, real)))


def _entries(folder: Path, root: Path, file: str, diagnostics: Diagnostics) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        fault = InputError(file, folder.name, plain_reason(error), "a folder that can be read")
        diagnostics.skip(fault)
        return
    for path in entries:
        try:
            target = path.resolve(strict=True) if path.is_symlink() else root
            found = "" if target.is_relative_to(root) else f"a link out of the tree, to {target}"
        except (OSError, RuntimeError) as error:
            found = f"a dangling link ({plain_reason(error)})"
        if found:
            place, expected = _relative_path(path, root), "links within the tree"
            diagnostics.skip(InputError(file, place, found, expected, "not followed"))
        else:
            yield path


def _relative_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def zip_members(stream: BinaryIO, file: str, diagnostics: Diagnostics) -> dict[str, bytes]:
    """Return the documents of a zip by name; ``stream`` must be able to seek."""
    members = _ArchiveMembers(file, diagnostics)
    stream.seek(0)
    count, tail = 0, b""  # count the directory entries before zipfile loads them
    while piece := stream.read(BUFFER_BYTES):
        count += (tail + piece).count(_CENTRAL)
        _check_bound(file, count, bounds.MAX_MEMBERS, "members")
        tail = piece[-3:]
    stream.seek(0)
    with ZipFile(stream) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            special = bool(stat.S_IFMT(mode)) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
            name = members.admit(info.filename, special)
            if name is None or info.is_dir():
                continue
            if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                expected = "a plain stored or deflated file"
                members.fault(name, "an encrypted or unusually compressed file", expected)
                continue
            with archive.open(info) as member:
                members.keep(name, member.read)
    return members.finish()


def tar_members(stream: BinaryIO, file: str, diagnostics: Diagnostics) -> dict[str, bytes]:
    """Return the documents of a tar by name in one forward pass; ValueError if damaged."""
    import tarfile  # few sources are tar archives

    members = _ArchiveMembers(file, diagnostics)
    forward: BinaryIO = _ForwardStream(stream, file)  # type: ignore[assignment]
    try:
        with tarfile.open(fileobj=forward, mode="r:") as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # otherwise the list would hold every member
                name = members.admit(info.name, not (info.isreg() or info.isdir()))
                member = archive.extractfile(info) if name and info.isreg() else None
                if name and member:
                    members.keep(name, member.read)
    except tarfile.TarError as error:
        raise ValueError(error) from None
    return members.finish()


class _ArchiveMembers:
    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        self._file, self._diagnostics = file, diagnostics
        self._files: dict[str, bytes] = {}
        self._special: list[str] = []
        self._count = self._bytes = 0

    def admit(self, name: str, special: bool) -> str | None:
        name = name.replace("\\", "/")
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or name[1:2] == ":":
            expected, hint = "a path inside the archive", "do not trust this archive"
            raise InputError(self._file, "", f"a member named {name!r}", expected, hint)
        self._count += 1
        _check_bound(self._file, self._count, bounds.MAX_MEMBERS, "members")
        if special:
            self._special.append(name)
            return None
        name = "/".join(part for part in parts if part not in ("", "."))
        index = name.rpartition("/")[2] == "index.json"
        whole = name.count("/") <= 1 and json_inventory.is_inventory_name(name.rpartition("/")[2])
        return name if (index or whole) and not name.startswith("__MACOSX/") else None

    def keep(self, name: str, read: Callable[[int], bytes]) -> None:
        index = name.rpartition("/")[2] == "index.json"
        most = bounds.MAX_DOCUMENT_BYTES if index else bounds.MAX_TREE_BYTES
        room = bounds.MAX_TREE_BYTES - self._bytes
        pieces, left = [], min(most, room) + 1
        while left > 0 and (piece := read(min(left, BUFFER_BYTES))):
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        if len(data) > room:
            hint = "this may be an archive bomb: unpack it and name the part to read"
            expected = f"at most {bounds.MAX_TREE_BYTES} bytes"
            raise InputError(self._file, "", "more bytes of documents", expected, hint)
        if len(data) > most:
            self.fault(name, f"more than {most} bytes", "a smaller document")
            return
        self._files[name] = data
        self._bytes += len(data)
        _check_bound(self._file, len(self._files), bounds.MAX_DOCUMENTS, "documents")

    def fault(self, name: str, found: str, expected: str) -> None:
        self._diagnostics.skip(InputError(self._file, name, found, expected, "left out"))

    def finish(self) -> dict[str, bytes]:
        if self._special:
            count = format_count(len(self._special), "link or device", "links or devices")
            found = f"{count} ({', '.join(self._special[:5])})"
            fault = InputError(self._file, "", found, "files and folders", "not followed")
            self._diagnostics.skip(fault)
        return self._files


class _ForwardStream:
    """A stream that makes tarfile read forward, in pieces of bounded size."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._stream, self._file, self._at = stream, file, 0

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._at:
            raise ValueError("members that overlap")
        while self._at < offset and self.read(min(offset - self._at, BUFFER_BYTES)):
            pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= bounds.MAX_DOCUMENT_BYTES:  # tarfile reads long names whole
            raise InputError(self._file, "", f"a header of {size} bytes", "a valid archive")
        data = self._stream.read(size)
        self._at += len(data)
        return data


class Entry(NamedTuple):
    """One entry of a folder or archive: the documents of a tree, or a file."""

    name: str
    documents: Callable[[], Documents | None]
    content: Path | bytes


def records(
    source: str, stdin: BinaryIO, diagnostics: Diagnostics, dialects: Dialects
) -> Iterator[Record]:
    """Yield every pod manager of a source; InputError if the whole source is unreadable.

    Faults and doubts are added to ``diagnostics``; ``dialects`` are loaded only for a tree.
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
            hint = "for a pipe, use - and redirect it to standard input"
            raise InputError(source, "", "a special file", "a file or a folder", hint)
        with path.open("rb") as file:
            yield from reader.read_stream(file, source, stem(path))


def stem(path: Path) -> str:
    """Return the id of the pod manager from the name of its path."""
    path = path.absolute()
    while path.name in ("redfish", "v1", "..", "."):
        path = path.resolve().parent if path.name in ("redfish", "v1") else path.resolve()
    stem, suffix = path.name, path.suffix
    while suffix.lower() in json_inventory.SUFFIXES:
        stem = stem.removesuffix(suffix)
        suffix = Path(stem).suffix
    return stem or path.name or "root"


class RecordReader:
    """Reads the records of one source and of its nested archives and folders."""

    def __init__(self, diagnostics: Diagnostics, dialects: Dialects) -> None:
        self._diagnostics, self._dialects = diagnostics, dialects

    def read_stream(
        self, source: BinaryIO, file: str, id_: str, nesting: int = 0
    ) -> Iterator[Record]:
        (form, stream), noted = open_stream(source, file), self._diagnostics
        if form == "text":
            yield from json_inventory.text_records(stream, file, id_, noted, self._tree_record)
            return
        if nesting > MAX_NESTING:
            found = "archives nested too deeply"
            raise InputError(file, "", found, "at most one in another", "unpack it first")
        members = zip_members if form == "zip" else tar_members
        with nullcontext() if stream is source else stream:
            files = members(stream, file, noted)
        yield from self._archive(files, file, id_, nesting)

    def read_folder(self, path: Path, file: str) -> Iterator[Record]:
        if documents := self._documents_below(path, file):
            yield self._tree_record(documents, stem(path), file)
            return
        places = children(path, file, self._diagnostics)
        entries = (Entry(it.name, partial(self._documents_below, it), it) for it in places)
        yield from self._read_entries(entries, file, 0)

    def _archive(
        self, files: Mapping[str, bytes], file: str, id_: str, nesting: int
    ) -> Iterator[Record]:
        if _if_tree(files):
            yield self._tree_record(files, id_, file)
            return
        groups: dict[str, dict[str, bytes]] = {}
        for name in sorted(files):
            top, _, rest = name.partition("/")
            groups.setdefault(top, {})[rest] = files[name]
        if len(groups) == 1:
            (top, below), *_ = groups.items()
            if "" not in below:  # a single packed folder: read its content
                yield from self._archive(below, f"{file}/{top}", top, nesting)
                return
        parts = groups.items()
        entries = (Entry(top, partial(_if_tree, of), of.get("", b"")) for top, of in parts)
        yield from self._read_entries(entries, file, nesting)

    def _read_entries(self, entries: Iterable[Entry], file: str, nesting: int) -> Iterator[Record]:
        known = False
        for entry in entries:
            name, id_ = f"{file.rstrip('/')}/{entry.name}", stem(Path(entry.name))
            try:
                with input_errors(name):
                    if documents := entry.documents():
                        known = True
                        yield self._tree_record(documents, id_, name)
                    elif json_inventory.is_inventory_name(entry.name):
                        with _opened(entry.content) as stream:
                            for record in self.read_stream(stream, name, id_, nesting + 1):
                                known = True
                                yield record
                        known = True
            except json_inventory.NotAnInventory:
                continue  # a folder of captures may hold other JSON files
            except InputError as error:
                known = True
                self._diagnostics.skip(error)
        if not known:
            hint = "name a tree with an index.json, or a folder of trees and inventory files"
            raise InputError(file, "", "no inventory or Redfish tree", "at least one", hint)

    def _tree_record(self, documents: Documents, id_: str, file: str) -> Record:
        from valence_sched.drivers.files import tree  # loads dialects: only for trees

        found = tree.tree_of(documents)
        podm = tree.podm_of(found, id_, file, self._diagnostics, self._dialects)
        return Record(podm, file, "$", tree=found)

    def _documents_below(self, path: Path, file: str = "") -> Documents | None:
        is_tree = path.is_dir() and any((path / it).is_file() for it in bounds.TREE_MARKERS)
        place = file or str(path)
        return files_below(path.resolve(), place, self._diagnostics) if is_tree else None


def _opened(content: Path | bytes) -> BinaryIO:
    return content.open("rb") if isinstance(content, Path) else BytesIO(content)


def _if_tree(files: Mapping[str, bytes]) -> Documents | None:
    return None if files.keys().isdisjoint(bounds.TREE_MARKERS) else files
