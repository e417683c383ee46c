# SPDX-License-Identifier: Apache-2.0
"""Reads documents out of zip and tar archives without trusting them.

Nothing is unpacked to disk, links are not followed, a name that leads out of the archive is an
error, and every bound counts the bytes that really come.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Callable
from typing import BinaryIO

from valence_sched.drivers import bounds
from valence_sched.drivers.bounds import BUFFER_BYTES, MAX_DOCUMENT_BYTES, MAX_TREE_BYTES
from valence_sched.drivers.files.json_inventory import is_inventory_name
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.quantity import format_count

_CENTRAL = b"PK\x01\x02"  # every entry of a zip's directory begins with this
_ENCRYPTED = 0x1
_BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def zip_members(stream: BinaryIO, file: str, diagnostics: Diagnostics) -> dict[str, bytes]:
    """Return the documents of a zip by name; ``stream`` must be able to seek."""
    members = _ArchiveMembers(file, diagnostics)
    stream.seek(0)
    count, tail = 0, b""  # the entries of its directory, before zipfile holds them all
    while piece := stream.read(BUFFER_BYTES):
        count += (tail + piece).count(_CENTRAL)
        if count > bounds.MAX_MEMBERS:
            raise InputError(file, "", "more members", f"at most {bounds.MAX_MEMBERS}")
        tail = piece[-3:]
    stream.seek(0)
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            special = bool(stat.S_IFMT(mode)) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
            name = members.admit(info.filename, special)
            if name is None or info.is_dir():
                continue
            if info.flag_bits & _ENCRYPTED or info.compress_type not in _BOUNDED_METHODS:
                expected = "a plain stored or deflated file"
                members.fault(name, "an encrypted or unusually compressed file", expected)
                continue
            with archive.open(info) as member:
                members.keep(name, member.read)
    return members.finish()


def tar_members(stream: BinaryIO, file: str, diagnostics: Diagnostics) -> dict[str, bytes]:
    """Return the documents of a tar by name, read once, forward; ValueError if it is damaged."""
    members = _ArchiveMembers(file, diagnostics)
    forward: BinaryIO = _ForwardStream(stream, file)  # type: ignore[assignment]
    try:
        with tarfile.open(fileobj=forward, mode="r:") as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # it would grow and grow
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
            hint = "do not trust this archive"
            raise InputError(self._file, "", f"a member named {name!r}", "names below it", hint)
        self._count += 1
        if self._count > bounds.MAX_MEMBERS:
            raise InputError(self._file, "", "more members", f"at most {bounds.MAX_MEMBERS}")
        if special:
            self._special.append(name)
            return None
        name = "/".join(part for part in parts if part not in ("", "."))
        index = name.rpartition("/")[2] == "index.json"
        whole = name.count("/") <= 1 and is_inventory_name(name.rpartition("/")[2])
        return name if (index or whole) and not name.startswith("__MACOSX/") else None

    def keep(self, name: str, read: Callable[[int], bytes]) -> None:
        index = name.rpartition("/")[2] == "index.json"
        most = MAX_DOCUMENT_BYTES if index else MAX_TREE_BYTES
        room = MAX_TREE_BYTES - self._bytes
        pieces, left = [], min(most, room) + 1
        while left > 0 and (piece := read(min(left, BUFFER_BYTES))):
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        if len(data) > room:
            hint = "is it an archive bomb? unpack it and name what you need of it"
            expected = f"at most {MAX_TREE_BYTES} bytes of documents"
            raise InputError(self._file, "", "more than that", expected, hint)
        if len(data) > most:
            self.fault(name, f"more than {most} bytes", "a smaller document")
            return
        self._files[name] = data
        self._bytes += len(data)
        if len(self._files) > bounds.MAX_DOCUMENTS:
            raise InputError(self._file, "", "more documents", f"at most {bounds.MAX_DOCUMENTS}")

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
    """A stream that tarfile can only read forward, in pieces of bounded size."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._stream, self._file, self._at = stream, file, 0

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._at:
            raise tarfile.ReadError("members that overlap")
        while self._at < offset and self.read(min(offset - self._at, BUFFER_BYTES)):
            pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_DOCUMENT_BYTES:  # tarfile reads long names and attributes whole
            raise InputError(self._file, "", f"a header of {size} bytes", "a sane archive")
        data = self._stream.read(size)
        self._at += len(data)
        return data
