# SPDX-License-Identifier: Apache-2.0
"""Bounds on what is read from one source, and the stream that enforces them.

What is counted are the bytes that really come, never what a header promises.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from valence_sched.errors import InputError

MIB, GIB = 1 << 20, 1 << 30

#: Bytes of one document in a tree; a larger one is left out.
MAX_DOCUMENT_BYTES = 16 * MIB
#: Bytes of all documents of a tree or an archive together.
MAX_TREE_BYTES = 512 * MIB
#: Documents of a tree or an archive.
MAX_DOCUMENTS = 200_000
#: Files, folders and links of a folder or an archive, documents or not.
MAX_MEMBERS = 1_000_000
#: Bytes of one JSON document: an inventory, or a map from URI to document.
MAX_JSON_BYTES = 512 * MIB
#: Bytes of one line of JSON Lines; a longer one is left out.
MAX_LINE_BYTES = 64 * MIB
#: Bytes of a stream after decompression, and of an archive that comes from standard input.
MAX_STREAM_BYTES = 8 * GIB
#: Faults of one tree that are listed one by one.
MAX_NOTES = 100

BUFFER_BYTES = 1 * MIB


class BoundedStream(io.RawIOBase):
    """A stream that begins with ``head``, goes on with ``source`` and ends with an error."""

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
            hint = "is it an archive bomb? unpack it and name what you need of it"
            expected = f"at most {self._most} bytes"
            raise InputError(self._file, "", "more than that", expected, hint)
        return len(data)


def buffered_reader(stream: BoundedStream) -> BinaryIO:
    """Return the stream with lines and large reads."""
    return io.BufferedReader(stream, BUFFER_BYTES)


def error_text(error: BaseException) -> str:
    """Return what an error of the system says, in a few words."""
    strerror = getattr(error, "strerror", None)
    return str(strerror or error or type(error).__name__).lower()
