# SPDX-License-Identifier: Apache-2.0
"""Reads files whole and bounded, and writes them whole or not at all."""

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from valence_sched.errors import InputError
from valence_sched.model.codec import MAX_HUMAN_BYTES
from valence_sched.model.inventory import SCHEMA, VERSION, FullPodm, InventoryHeader, to_json


def read(file: str, limit: int = MAX_HUMAN_BYTES + 1) -> bytes:
    """Read a file up to the size of one that a person writes, or with a negative limit all of it.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with open(file, "rb") as stream:
            return stream.read(limit)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(file, "", reason.lower(), "a readable file") from None


def write_json(document: object, file: str) -> None:
    """Write a document as indented JSON with a stable order, whole or not at all."""
    with _output(file) as stream:
        stream.write(json_text(document))


def json_text(document: object) -> bytes:
    """Return a document as indented JSON with a stable order."""
    return msgspec.json.format(to_json(document), indent=2) + b"\n"


def write_inventory(podms: Iterable[FullPodm], file: str) -> tuple[int, int]:
    """Write podms as one inventory file and return how many podms and blocks it holds.

    ``.jsonl`` has a header and a podm a line, ``.json`` is one document; ``.gz`` and ``.zst``
    compress. Whole or not at all.

    Raises:
        InputError: the name ends otherwise, or the file cannot be written.
    """
    plain = file.removesuffix(".gz").removesuffix(".zst")
    if not plain.endswith((".json", ".jsonl")):
        hint = "end it in .json or .jsonl, with .gz or .zst to compress"
        raise InputError(file, "", "a name that does not say which form", hint=hint)
    lines = plain.endswith(".jsonl")
    head = to_json(InventoryHeader(schema=SCHEMA, version=VERSION))
    count = blocks = 0
    with _output(file) as raw, _compressor(raw, file) as stream:
        stream.write(head + b"\n" if lines else head[:-1] + b',"podms":[\n')
        for podm in podms:
            if count:
                stream.write(b"" if lines else b",\n")
            stream.write(to_json(podm) + (b"\n" if lines else b""))
            count, blocks = count + 1, blocks + len(podm.blocks)
        stream.write(b"" if lines else b"\n]}\n")
    return count, blocks


@contextlib.contextmanager
def atomic(file: str | Path, *, mode: int | None = None, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only when all of it is written.

    Its permissions are ``mode``, by default those of any new file. With ``sync`` it is on disk
    before it takes its name. A pipe or a terminal is written to as it is.

    Raises:
        OSError: it cannot be written; an earlier file of this name is untouched.
    """
    path = Path(file)
    if path.exists() and not path.is_file():  # a pipe or a terminal has nothing to replace
        with open(path, "wb") as stream:
            yield stream
        return
    temporary = ""
    try:
        prefix = f".{path.name}."
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=prefix, delete=False) as stream:
            temporary = stream.name
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask() if mode is None else mode)
        os.replace(temporary, path)
        temporary = ""
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


@contextlib.contextmanager
def _output(file: str) -> Iterator[IO[bytes]]:
    """Open a file that a person named, as :func:`atomic`; InputError if it cannot be written."""
    try:
        with atomic(file) as stream:
            yield stream
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(file, "", reason, "a place to write to") from None


@contextlib.contextmanager
def _compressor(stream: IO[bytes], file: str) -> Iterator[Any]:
    if file.endswith(".gz"):
        with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
            yield packed
    elif file.endswith(".zst"):
        with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as packed:
            yield packed
    else:
        yield stream


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
