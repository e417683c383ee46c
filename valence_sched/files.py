# SPDX-License-Identifier: Apache-2.0
"""Reads files whole and bounded, and writes them whole or not at all."""

import contextlib
import errno
import gzip
import io
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec
import zstandard

from valence_sched.errors import InputError, one_line, plain_reason, shown_name
from valence_sched.model.codec import MAX_HUMAN_BYTES, escape_json
from valence_sched.model.inventory import SCHEMA, VERSION, FullPodm, InventoryHeader, to_json

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Most bytes of a report, a plan or a replay; the report of a million nodes has a quarter of that.
MAX_DOCUMENT_BYTES = 2 << 30
#: Most bytes of a stream that is copied to disk because it can be read only once.
MAX_SPOOLED_BYTES = 8 << 30
PIECE_BYTES = 1 << 20
BUFFER_BYTES = 1 << 18
PACKED_BYTES = 1 << 10  # of packed data for one step: it may expand many thousand times


def read(file: str) -> bytes:
    """Read a human-written file up to one byte beyond the limit; InputError."""
    try:
        with open(file, "rb") as stream:
            return stream.read(MAX_HUMAN_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None


def read_private(path: Path, most_bytes: int) -> bytes:
    """Read a file that only its user may read; ValueError if it is unsafe, OSError for a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ValueError("other users can read or write it")
        if status.st_size > most_bytes:
            raise ValueError("it is too large")
        return file.read()


def read_document(file: str, stdin: BinaryIO, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read a document of a program, ``-`` from ``stdin``; InputError if unreadable or too long."""
    try:
        with contextlib.nullcontext(stdin) if file == "-" else open(file, "rb") as stream:
            if file != "-" and stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):
                raise InputError(file, "", "a special file", "a file that can be read")
            pieces, size = [], 0
            while piece := stream.read(PIECE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    hint = "is this the right file?"
                    found = f"over {limit:,} bytes"
                    raise InputError(shown_name(file), "", found, "a smaller document", hint)
            return b"".join(pieces)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: str, error: Exception) -> InputError:
    return InputError(file, "", _reason(error), "a readable file")


def _reason(error: Exception) -> str:
    return "a directory" if isinstance(error, IsADirectoryError) else plain_reason(error)


@contextlib.contextmanager
def decompressed(file: str, source: BinaryIO | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading in pieces; gzip and zstd, known by their first bytes, are unpacked.

    ``source``, if given, is read from its beginning instead, and stays open. InputError if a read
    fails or the packed data is damaged.
    """
    try:
        with contextlib.ExitStack() as opened:
            raw: Any = source or opened.enter_context(_opened(file))
            if source is not None:
                source.seek(0)
            head = raw.peek(len(_ZSTD))[: len(_ZSTD)]
            if head.startswith(_GZIP):
                yield opened.enter_context(gzip.GzipFile(fileobj=raw, mode="rb"))  # type: ignore[misc]
            elif head == _ZSTD:
                yield io.BufferedReader(ZstdFrames(raw), BUFFER_BYTES)
            else:
                yield raw
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        found = one_line(str(error))
        raise InputError(file, "", found, "a whole file", "it may be truncated") from None
    except OSError as error:
        raise _unreadable(file, error) from None


class ZstdFrames(io.RawIOBase):
    """The content of zstd frames; EOFError if the last frame is truncated."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed, self._rest, self._content = packed, b"", b""
        self._frame: Any = None  # the unfinished frame

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            data = self._rest or self._packed.read(PACKED_BYTES)
            if not data:
                if self._frame is not None:
                    raise EOFError("an end within a frame")
                return 0
            frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._content = frame.decompress(data)
            self._frame, self._rest = (None, frame.unused_data) if frame.eof else (frame, b"")
        size = min(len(buffer), len(self._content))
        buffer[:size], self._content = self._content[:size], self._content[size:]
        return size


def spooled(file: str, stdin: BinaryIO, most_bytes: int = MAX_SPOOLED_BYTES) -> BinaryIO | None:
    """Copy ``-`` or a pipe to disk; None for another file. InputError if it is too long."""
    if file != "-" and not Path(file).is_fifo():
        return None
    copy: Any = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with contextlib.nullcontext(stdin) if file == "-" else decompressed(file) as stream:
        while piece := stream.read(PIECE_BYTES):
            copy.write(piece)
            if copy.tell() > most_bytes:
                copy.close()
                hint = "save it to a file, and give the name of the file"
                found = f"over {most_bytes:,} bytes"
                raise InputError(shown_name(file), "", found, "a smaller stream", hint)
    return copy  # type: ignore[no-any-return]


def _opened(file: str) -> BinaryIO:
    try:
        return open(file, "rb")
    except ValueError as error:  # a name with a null byte
        raise _unreadable(file, error) from None


def write_json(document: object, file: str) -> None:
    """Write a document as indented JSON with a stable order, whole or not at all."""
    with pending(file) as write:
        write(json_text(document, file))


def json_text(document: object, file: str = "stdout") -> bytes:
    """Return a document as the indented JSON of a file; InputError for a value that JSON lacks."""
    try:
        return msgspec.json.format(escape_json(to_json(document)), indent=2) + b"\n"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(file, "", one_line(str(error), 200), "values of JSON") from None


def write_inventory(podms: Iterable[FullPodm], file: str) -> tuple[int, int]:
    """Write podms as one inventory file and return its numbers of podms and blocks.

    ``.jsonl`` has a header and a line for each podm, ``.json`` is one document; ``.gz`` and
    ``.zst`` compress. InputError, and no file, for another extension or a failed write.
    """
    plain = file.removesuffix(".gz").removesuffix(".zst")
    if not plain.endswith((".json", ".jsonl")):
        hint = "end it in .json or .jsonl, with .gz or .zst to compress"
        raise InputError(file, "", "a name without a known extension", hint=hint)
    lines = plain.endswith(".jsonl")
    with _output_errors(file), atomic(file) as raw, _compressor(raw, file) as stream:
        return write_podms(podms, stream.write, lines=lines)


def write_podms(
    podms: Iterable[FullPodm], write: Callable[[bytes], object], *, lines: bool
) -> tuple[int, int]:
    """Write podms as one inventory, a document or ``lines``; return the podm and block counts."""
    head = to_json(InventoryHeader(schema=SCHEMA, version=VERSION))
    count = blocks = 0
    write(head + b"\n" if lines else head[:-1] + b',"podms":[\n')
    for podm in podms:
        if count:
            write(b"" if lines else b",\n")
        write(escape_json(to_json(podm)) + (b"\n" if lines else b""))
        count, blocks = count + 1, blocks + len(podm.blocks)
    write(b"" if lines else b"\n]}\n")
    return count, blocks


class AtomicFile:
    """A file opened for writing that gets its name only after it is written whole.

    Its permissions are ``mode``, by default as for the replaced file, else as for a new file. With
    ``sync``, it is on disk before it gets its name. A pipe, a terminal or an output stream of the
    program is written directly. A link keeps its place and its target is written, except with
    ``mode``, which replaces it. OSError: it cannot be written; an earlier file of this name is
    untouched.
    """

    def __init__(self, file: str | Path, *, mode: int | None = None, sync: bool = True) -> None:
        self._path, self._mode, self._sync = Path(file), mode, sync
        if str(file).endswith(os.sep):  # which Path would drop
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        self._temporary = ""
        self.stream: IO[bytes]
        descriptor = _output_stream(self._path) if mode is None else None
        if descriptor is not None:
            self.stream = open(os.dup(descriptor), "wb")  # noqa: SIM115
            return
        if self._path.exists() and not self._path.is_file():  # a pipe or a device is not replaced
            self.stream = open(self._path, "wb")  # noqa: SIM115
            return
        if mode is None:
            self._path = Path(os.path.realpath(file))
        prefix = f".{self._path.name}."
        self.stream = tempfile.NamedTemporaryFile(  # noqa: SIM115
            dir=self._path.parent, prefix=prefix, delete=False
        )
        self._temporary = self.stream.name

    def commit(self) -> None:
        try:
            self.stream.flush()
            if self._temporary:
                if self._sync:
                    os.fsync(self.stream.fileno())
                self.stream.close()
                mode = _usual_mode(self._path) if self._mode is None else self._mode
                os.chmod(self._temporary, mode)
                os.replace(self._temporary, self._path)
                self._temporary = ""
        finally:
            self.discard()

    def discard(self) -> None:
        """Delete the written file unless it has its name; may be called again."""
        with contextlib.suppress(OSError):  # of a pipe without a reader
            self.stream.close()
        if self._temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
            self._temporary = ""


@contextlib.contextmanager
def atomic(file: str | Path, *, mode: int | None = None, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing as :class:`AtomicFile`, with its errors; commit it at the end."""
    opened = AtomicFile(file, mode=mode, sync=sync)
    try:
        yield opened.stream
    except BaseException:
        opened.discard()
        raise
    opened.commit()


@contextlib.contextmanager
def pending(file: str) -> Iterator[Callable[[bytes], None]]:
    """Open a file before an effect; yield the function that writes it whole afterwards.

    Without a write, the file is unchanged. InputError if it cannot be opened or written.
    """
    with _output_errors(file):
        opened = AtomicFile(file)

    def write(data: bytes) -> None:
        with _output_errors(file):
            opened.stream.write(data)
            opened.commit()

    try:
        yield write
    finally:
        opened.discard()


@contextlib.contextmanager
def _output_errors(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(file, "", _reason(error), "a writable file") from None


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


def _output_stream(path: Path) -> int | None:
    """Return the descriptor of standard output or standard error if a path names it, else None."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
    return None


def _usual_mode(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
