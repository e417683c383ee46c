# SPDX-License-Identifier: Apache-2.0
"""The view cache: stores views of large inventory files as columns in files for later commands.

A view is not used if the file changed, if other users can write the view, or if it is damaged.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from valence_sched import files
from valence_sched.errors import one_line
from valence_sched.view.columns import ALIGNMENT, decode_view, encode_view
from valence_sched.view.view import View

MIB = 1 << 20
MAX_VIEW_BYTES = 512 * MIB
MAX_CACHE_BYTES = 1024 * MIB  # of all views; the oldest are deleted
#: A file that changes twice within the resolution of its times looks the same after each change.
SETTLED_NS = 2_000_000_000
SAMPLES, SAMPLE_BYTES = 64, 4096
Now = Callable[[], int]  # the nanoseconds since 1970
SUFFIX = ".view"
KEY_SIZE_BYTES = 4  # before the key


class FileKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version of a file, with a digest of sampled bytes, and the release that made its view."""

    release: str
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sample: str


class CachedView(NamedTuple):
    """The key that a view is cached under, and the view if there is one."""

    key: FileKey
    view: View | None


class ViewCache:
    """The cached views of one user; ``problem`` gets a line if one cannot be used or written."""

    def __init__(
        self, folder: Path, problem: Callable[[str], object], *, now_ns: Now, min_bytes: int
    ) -> None:
        self._folder, self._problem = folder, problem
        self._now_ns, self._min_bytes = now_ns, min_bytes

    def load(self, source: str) -> CachedView | None:
        """Return the cached view of an inventory file, None if the file must not be cached."""
        key = self._key(source)
        if key is None:
            return None
        path = self._path(key)
        try:
            content = memoryview(_read(path))
        except (FileNotFoundError, NotADirectoryError):
            return CachedView(key, None)
        except (OSError, ValueError) as error:
            return self._unusable(key, error)
        begin = KEY_SIZE_BYTES + int.from_bytes(content[:KEY_SIZE_BYTES], "little")
        try:
            if msgspec.json.decode(content[KEY_SIZE_BYTES:begin], type=FileKey) != key:
                return CachedView(key, None)  # the file has changed since
            return CachedView(key, decode_view(content[begin:]))
        except (ValueError, LookupError, TypeError, msgspec.MsgspecError) as error:
            return self._unusable(key, error)

    def save(self, key: FileKey, view: View) -> None:
        """Cache the view of a file, unless the file has changed since its key was made."""
        if self._key(key.path) != key:
            return
        text = msgspec.json.encode(key)
        text += b" " * (-(KEY_SIZE_BYTES + len(text)) % ALIGNMENT)
        try:
            pieces = [len(text).to_bytes(KEY_SIZE_BYTES, "little"), text, *encode_view(view)]
        except (ValueError, OverflowError) as error:
            self._problem(one_line(f"{key.path}: cannot be cached: {error}"))
            return
        size = sum(map(len, pieces))
        if size > MAX_VIEW_BYTES:
            return
        path = self._path(key)
        if path.exists() and not path.is_file():  # writing to a pipe would wait for a reader
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(self._folder, MAX_CACHE_BYTES - size, path)
            with files.atomic(path, mode=0o600, sync=False) as stream:
                stream.writelines(pieces)
        except OSError as error:
            self._problem(one_line(f"{path}: could not be written: {error.strerror}"))

    def _key(self, source: str) -> FileKey | None:
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):  # reading it raises the error
            return None
        with open(descriptor, "rb", buffering=0):
            status = os.fstat(descriptor)
            changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
            if not stat.S_ISREG(status.st_mode) or status.st_size < self._min_bytes:
                return None
            if changed_ns + SETTLED_NS > self._now_ns():
                return None
            digest, size = hashlib.blake2b(digest_size=16), status.st_size
            last = max(0, size - SAMPLE_BYTES)
            for number in range(SAMPLES):  # at even distances, including beginning and end
                digest.update(os.pread(descriptor, SAMPLE_BYTES, last * number // (SAMPLES - 1)))
            return FileKey(
                release=importlib.metadata.version("valence-sched"),
                path=os.path.realpath(source),
                size=size,
                mtime_ns=status.st_mtime_ns,
                ctime_ns=status.st_ctime_ns,
                inode=status.st_ino,
                sample=digest.hexdigest(),
            )

    def _path(self, key: FileKey) -> Path:
        name = hashlib.sha256(os.fsencode(key.path)).hexdigest()[:32]
        return self._folder / f"{name}{SUFFIX}"

    def _unusable(self, key: FileKey, error: Exception) -> CachedView:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"could not be used: {reason} (the inventory was read)"
        self._problem(one_line(f"{self._path(key)}: {text}"))
        return CachedView(key, None)


def _read(path: Path) -> bytes:
    """Return a cached file; ValueError if another user may have written it, OSError for a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ValueError("other users can read or write it")
        if status.st_size > MAX_VIEW_BYTES:
            raise ValueError("it is too large")
        return file.read()


def _make_room(folder: Path, size: int, replaced: Path) -> None:
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process deleted files, too
            status = path.lstat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, path in found if path != replaced)
    for _, freed, path in sorted(found):
        if total <= size:
            return
        if path != replaced:
            path.unlink(missing_ok=True)
            total -= freed
