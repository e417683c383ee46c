# SPDX-License-Identifier: Apache-2.0
"""The view cache: stores the views of large inventory files for later commands.

A cached view is ignored if its inventory changed, if other users can write it, or if it is damaged.
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
from valence_sched.errors import one_line, plain_reason
from valence_sched.view.columns import ALIGNMENT, decode_view, encode_view
from valence_sched.view.view import View

MIB = 1 << 20
MAX_VIEW_BYTES = 512 * MIB
MAX_CACHE_BYTES = 1024 * MIB  # size of all views together; above it, the oldest are deleted
#: A file is cached at this age: two changes within the clock resolution have the same times.
SETTLED_NS = 2_000_000_000
SAMPLES, SAMPLE_BYTES = 64, 4096
Now = Callable[[], int]  # returns nanoseconds since 1970
SUFFIX = ".view"
KEY_SIZE_BYTES = 4  # the length of the key, at the start of a cached view


class FileKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identifies the content of a file by its times and sampled bytes, and the release."""

    release: str
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sample: str


class CachedView(NamedTuple):
    """The key of a cached view, and the view, None if it is not cached."""

    key: FileKey
    view: View | None


class ViewCache:
    """The cached views of one user; ``problem`` receives a line about each that is unusable."""

    def __init__(
        self, folder: Path, problem: Callable[[str], object], *, now_ns: Now, min_bytes: int
    ) -> None:
        self._folder, self._problem = folder, problem
        self._now_ns, self._min_bytes = now_ns, min_bytes

    def load(self, source: str) -> CachedView | None:
        """Return key and cached view of an inventory file; None if it must not be cached."""
        key = self._key(source)
        if key is None:
            return None
        path = self._path(key)
        try:
            content = memoryview(files.read_private(path, MAX_VIEW_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return CachedView(key, None)
        except (OSError, ValueError) as error:
            return self._unusable(key, error)
        begin = KEY_SIZE_BYTES + int.from_bytes(content[:KEY_SIZE_BYTES], "little")
        try:
            if msgspec.json.decode(content[KEY_SIZE_BYTES:begin], type=FileKey) != key:
                return CachedView(key, None)  # the file has changed since the view was cached
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
        if path.exists() and not path.is_file():  # opening a pipe would wait for its reader
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(self._folder, MAX_CACHE_BYTES - size, path)
            with files.atomic(path, mode=0o600, sync=False) as stream:
                stream.writelines(pieces)
        except OSError as error:
            self._problem(one_line(f"{path}: could not be written: {plain_reason(error)}"))

    def _key(self, source: str) -> FileKey | None:
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):  # the reading of this file raises the error
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
            for number in range(SAMPLES):  # at equal distances, from the start to the end
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
        text = f"could not be used: {plain_reason(error)} (the inventory was read)"
        self._problem(one_line(f"{self._path(key)}: {text}"))
        return CachedView(key, None)


def _make_room(folder: Path, size: int, replaced: Path) -> None:
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process may delete the same files
            status = path.lstat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, path in found if path != replaced)
    for _, freed, path in sorted(found):
        if total <= size:
            return
        if path != replaced:
            path.unlink(missing_ok=True)
            total -= freed
