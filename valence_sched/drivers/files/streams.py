# SPDX-License-Identifier: Apache-2.0
"""Detects the format of a byte stream (text, tar, zip) and decompresses it."""

from __future__ import annotations

import gzip
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, NamedTuple

import zstandard

from valence_sched.drivers.bounds import (
    BUFFER_BYTES,
    MAX_STREAM_BYTES,
    BoundedStream,
    buffered_reader,
    error_text,
)
from valence_sched.errors import InputError

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
        unpacked = _decompress(buffered_reader(whole), head)
        head = _read_head(unpacked)
        whole = BoundedStream(unpacked, file, MAX_STREAM_BYTES, head)
    form = _form(head, file)
    if compressed and (form == "zip" or head.startswith((_GZIP, _ZSTD))):
        found = "a compressed archive that is compressed again"
        raise InputError(file, "", found, "one layer", "unpack it first")
    if form == "zip" and at == 0:
        return Stream(form, source)
    return Stream(form, _spool(whole, file) if form == "zip" else buffered_reader(whole))


@contextmanager
def input_errors(file: str) -> Iterator[None]:
    """Turn whatever a damaged or unreadable stream raises into one line."""
    try:
        yield
    except OSError as error:
        expected = "a file that can be read" if error.errno else "a whole file"
        raise InputError(file, "", error_text(error), expected, _hint(error)) from None
    except _damage() as error:
        raise InputError(file, "", error_text(error), "a whole file", "was it cut off?") from None


def _damage() -> tuple[type[Exception], ...]:
    """Return what a damaged file raises: RuntimeError is of an encrypted zip, and of nesting."""
    import tarfile  # an error alone looks them up
    import zipfile

    return (EOFError, zlib.error, zstandard.ZstdError, tarfile.TarError, zipfile.BadZipFile,
            RuntimeError, OverflowError, struct.error, ValueError)  # fmt: skip


def _form(head: bytes, file: str) -> Form:
    magic, at = _TAR
    if head[at:].startswith(magic):
        return "tar"
    if head.startswith(_ZIP):
        return "zip"
    for start, name in _OTHERS.items():
        if head.startswith(start):
            hint = "unpack it first, or use gzip or zstd"
            raise InputError(file, "", f"a {name} file", "JSON, zip, tar, gzip or zstd", hint)
    return "text"


def _decompress(source: BinaryIO, head: bytes) -> BinaryIO:
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=source, mode="rb")  # type: ignore[return-value]
    unpack = zstandard.ZstdDecompressor().stream_reader
    return unpack(source, read_size=BUFFER_BYTES, read_across_frames=True)


def _read_head(source: BinaryIO) -> bytes:
    head = b""
    while len(head) < _HEAD_BYTES and (piece := source.read(_HEAD_BYTES - len(head))):
        head += piece
    return head


def _spool(stream: BoundedStream, file: str) -> BinaryIO:
    """Return a copy on disk, since the directory of a zip stands at its end."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    counted = buffered_reader(BoundedStream(buffered_reader(stream), file, MAX_STREAM_BYTES))
    while piece := counted.read(BUFFER_BYTES):
        spool.write(piece)
    spool.seek(0)
    return spool


def _hint(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the path, or use - for standard input"
    if isinstance(error, PermissionError):
        return "check who may read it"
    return ""
