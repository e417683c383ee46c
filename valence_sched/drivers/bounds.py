# SPDX-License-Identifier: Apache-2.0
"""Limits on one inventory source, the stream that enforces them, and the marks of a tree."""

import io
from typing import BinaryIO

from valence_sched.errors import InputError

#: Subfolders in which a Redfish tree may begin.
TREE_STARTS = ("redfish/v1/", "redfish/", "v1/", "")
_TREE_PARTS = ("", "CompositionService/", "Systems/", "Chassis/")
#: A folder with one of these documents is a Redfish tree.
TREE_MARKERS = [f"{it}{part}index.json" for it in TREE_STARTS for part in _TREE_PARTS]
MIB = 1 << 20
#: Bytes of one document in a tree (a larger document is left out), and of all documents together.
MAX_DOCUMENT_BYTES, MAX_TREE_BYTES = 16 * MIB, 512 * MIB
MAX_DOCUMENTS = 200_000
#: The maximum number of files, folders and links in one folder or archive.
MAX_MEMBERS = 1_000_000
#: Bytes of one JSON inventory or map of documents, and of one line of JSON Lines.
MAX_JSON_BYTES, MAX_LINE_BYTES = 512 * MIB, 64 * MIB
#: Bytes of a stream after decompression, and of an archive that comes from standard input.
MAX_STREAM_BYTES = 8192 * MIB
#: Faults of one tree that are listed separately; the rest are counted.
MAX_NOTES = 100
BUFFER_BYTES = 1 * MIB


class BoundedStream(io.RawIOBase):
    """Reads ``head`` and then ``source``; raises InputError after more than ``most`` bytes."""

    def __init__(self, source: BinaryIO, file: str, most: int, head: bytes = b"") -> None:
        self._source, self._file, self._most, self._head = source, file, most, head
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._head:
            data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            data = self._source.read(min(len(buffer), BUFFER_BYTES))
        buffer[: len(data)] = data
        self._count += len(data)
        if self._count > self._most:
            hint = "this may be an archive bomb: unpack it and name the part to read"
            raise InputError(self._file, "", "a larger stream", f"at most {self._most} bytes", hint)
        return len(data)


def bounded_reader(source: BinaryIO, file: str, most: int, head: bytes = b"") -> BinaryIO:
    return io.BufferedReader(BoundedStream(source, file, most, head), BUFFER_BYTES)
