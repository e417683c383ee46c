# SPDX-License-Identifier: Apache-2.0
"""The document cache: documents of a pod manager that rarely change, in a file between reads.

It holds devices only: the devices of a block rarely change, its use changes all the time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec
import zstandard

from valence_sched import files
from valence_sched.drivers.bounds import MIB
from valence_sched.drivers.fields import Json, Link
from valence_sched.model.quantity import format_count

#: A document that was read longer ago is read again.
MAX_AGE_S = 24 * 3600.0
MAX_CACHE_BYTES = 256 * MIB
MAX_FILE_BYTES = 64 * MIB
VERSION = 1


class CacheFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file: documents by folded URI, with the time each was read."""

    version: int
    url: str
    documents: dict[str, tuple[float, Json]]


class DocumentCache:
    """The cached documents of one pod manager; without a folder there are none.

    ``identity`` is what the service tells of itself: another one at the same URL has other
    documents. ``now_s`` is seconds since 1970. ``problem`` is the reason why a file could not be
    used.
    """

    def __init__(
        self,
        folder: Path | None,
        url: str,
        user: str | None,
        now_s: float,
        identity: str | None = None,
    ) -> None:
        place = f"{user or ''} {url}"
        self._now_s, self._place = now_s, place
        self._url = f"{place} {identity}" if identity else place
        self._path = folder / f"{_digest(place)}.json.zst" if folder else None
        self._documents: dict[str, tuple[float, Json]] = {}
        self.problem: str | None = None
        #: When the first of the documents is due that were saved, seconds since 1970.
        self.until_s = float("inf")

    @property
    def enabled(self) -> bool:
        """Whether documents are written for the next read."""
        return self._path is not None

    def load(self) -> None:
        """Read the file, if there is one that can be used."""
        if self._path is None or not self._path.exists():
            return
        try:
            content = self._read(self._path)
        except (OSError, ValueError, zstandard.ZstdError, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.problem = f"{self._path}: could not be used: {reason} (all was read anew)"
            return
        if content.url != self._url:  # of a service that was at this address before
            return
        oldest = self._now_s - MAX_AGE_S
        entries = content.documents.items()
        self._documents = {uri: entry for uri, entry in entries if oldest < entry[0] <= self._now_s}

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what tells the present file from one that is written later, None for none."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def get(self, key: str) -> Json | None:
        """Return a document by its folded URI."""
        entry = self._documents.get(key)
        return entry and entry[1]

    def levels(self, link: Link) -> int:
        """Return how many levels to ask for below a link: not those that are cached."""
        return link.levels_kept if self._documents else link.levels

    def save(self, documents: Iterable[tuple[str, Json]]) -> None:
        """Write these documents, new ones with the present time."""
        if self._path is None:
            return
        entries = {}
        for uri, json in sorted(documents, key=lambda item: item[0]):
            entry = self._documents.get(uri)
            entries[uri] = entry if entry and entry[1] is json else (self._now_s, json)
        self.until_s = min((at for at, _ in entries.values()), default=float("inf")) + MAX_AGE_S
        if not entries and not self._path.exists():
            return
        data = msgspec.json.encode(CacheFile(VERSION, self._url, entries))
        if len(data) > MAX_CACHE_BYTES:
            self.problem = f"{self._path}: {format_count(len(data), 'byte')} are too many to keep"
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with files.atomic(self._path, mode=0o600, sync=False) as stream:
                stream.write(zstandard.compress(data, 1))
        except OSError as error:
            self.problem = f"{self._path}: could not be written: {error.strerror}"

    def _read(self, path: Path) -> CacheFile:
        with path.open("rb") as file:
            owner = os.fstat(file.fileno())
            if owner.st_uid != os.geteuid() or stat.S_IMODE(owner.st_mode) & 0o077:
                raise ValueError("others can read or write it")
            packed = file.read(MAX_FILE_BYTES + 1)
        if len(packed) > MAX_FILE_BYTES:
            raise ValueError("it is too large")
        if zstandard.frame_content_size(packed) > MAX_CACHE_BYTES:
            raise ValueError("it holds too much")
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_CACHE_BYTES)
        content = msgspec.json.decode(data, type=CacheFile)
        is_of_place = f"{content.url} ".startswith(f"{self._place} ")
        if content.version != VERSION or not is_of_place:
            raise ValueError("it is of another version or pod manager")
        return content


def _digest(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:32]
