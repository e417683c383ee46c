# SPDX-License-Identifier: Apache-2.0
"""Caches of reads: documents of devices, which rarely change, and whole readings."""

import contextlib
import hashlib
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from valence_sched import files
from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, MIB
from valence_sched.drivers.fields import Json, Link
from valence_sched.drivers.http.exchange import Answer
from valence_sched.errors import plain_reason
from valence_sched.model.diagnostic import Diagnostic
from valence_sched.model.inventory import FullPodm
from valence_sched.model.quantity import format_count

MAX_AGE_S = 24 * 3600.0
MAX_CACHE_BYTES = 256 * MIB
MAX_FILE_BYTES = 64 * MIB
VERSION = 1
#: Starts work in another thread if enough requests wait; returns whether it has started.
Start = Callable[[Callable[[], None], int], bool]
#: The approximate maximum bytes of a ReadingMemory; a result of 40 blocks takes about 10,000.
MAX_BYTES = 64 * MIB
#: Approximate bytes of a remembered request with its digest, but without its URI.
REQUEST_BYTES = 350
_decode = msgspec.json.Decoder(FullPodm).decode


class CacheFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a cache file: documents by case-folded URI, each with its time of reading."""

    version: int
    url: str
    documents: dict[str, tuple[float, Json]]


class DocumentCache:
    """The cached documents of one pod manager, empty without a folder.

    ``identity`` identifies the service: another service at the same URL has other documents.
    ``now_s`` is seconds since 1970. ``problem`` is the reason why a file could not be used.
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
        digest = hashlib.sha256(place.encode()).hexdigest()[:32]
        self._path = folder / f"{digest}.json.zst" if folder else None
        self._documents: dict[str, tuple[float, Json]] = {}
        self.problem: str | None = None
        #: When the first of the saved documents expires, seconds since 1970.
        self.until_s = float("inf")

    @property
    def enabled(self) -> bool:
        return self._path is not None

    def load(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            content = self._read(self._path)
        except (OSError, ValueError, zstandard.ZstdError, msgspec.MsgspecError) as error:
            found = f"could not be used: {plain_reason(error)}"
            self.problem = f"{self._path}: {found} (reading all documents)"
            return
        if content.url == self._url:  # otherwise from an earlier service at this address
            oldest, items = self._now_s - MAX_AGE_S, content.documents.items()
            self._documents = {it: entry for it, entry in items if oldest < entry[0] <= self._now_s}

    def stamp(self) -> tuple[int, int, int] | None:
        """Return the version of the present file, None without a file."""
        with contextlib.suppress(OSError):
            if self._path and (found := self._path.stat()):
                return found.st_ino, found.st_mtime_ns, found.st_size
        return None

    def get(self, key: str) -> Json | None:
        entry = self._documents.get(key)
        return entry and entry[1]

    def levels(self, link: Link) -> int:
        return link.cached if self._documents else link.levels

    def save(self, documents: Mapping[str, Json]) -> None:
        if self._path is None:
            return
        entries = {}
        for uri in sorted(documents):
            entry, json = self._documents.get(uri), documents[uri]
            entries[uri] = entry if entry and entry[1] is json else (self._now_s, json)
        self.until_s = min((at for at, _ in entries.values()), default=float("inf")) + MAX_AGE_S
        if not entries and not self._path.exists():
            return
        data = msgspec.json.encode(CacheFile(VERSION, self._url, entries))
        if len(data) > MAX_CACHE_BYTES:
            size = format_count(len(data), "byte")
            self.problem = f"{self._path}: {size} exceed the limit of the cache"
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with files.atomic(self._path, mode=0o600, sync=False) as stream:
                stream.write(zstandard.compress(data, 1))
        except OSError as error:
            self.problem = f"{self._path}: could not be written: {plain_reason(error)}"

    def _read(self, path: Path) -> CacheFile:
        packed = files.read_private(path, MAX_FILE_BYTES)
        if zstandard.frame_content_size(packed) > MAX_CACHE_BYTES:
            raise ValueError("its content is too large")
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_CACHE_BYTES)
        content = msgspec.json.decode(data, type=CacheFile)
        if content.version != VERSION or not f"{content.url} ".startswith(f"{self._place} "):
            raise ValueError("it belongs to another version or pod manager")
        return content


class ReadRequest(NamedTuple):
    """A request of a reading: the arguments of a connection."""

    uri: str
    most: int
    share: float


class Answers:
    """The answers of one reading, by request.

    A reading is not ``certain``, and not cached, if a request fails or gets two different answers.
    """

    def __init__(self, get: Callable[..., Answer]) -> None:
        self._get = get
        self._early: dict[ReadRequest, Answer | Exception] = {}
        self.digests: dict[ReadRequest, bytes] = {}
        self.certain = True

    def get(self, uri: str, most: int = MAX_DOCUMENT_BYTES, share: float = 1.0) -> Answer:
        """Return the answer, prefetched the first time, else new; errors as for a connection."""
        request = ReadRequest(uri, most, share)
        found = self._early.pop(request, None)
        try:
            if isinstance(found, Exception):
                raise found
            answer = found or self._get(uri, most, share)
        except Exception:
            self.certain = False
            raise
        digest = _digest(answer)
        if self.digests.setdefault(request, digest) != digest:
            self.certain = False
        return answer

    def are(self, expected: dict[ReadRequest, bytes], start: Start, parallel: int) -> bool:
        """Prefetch the answers, some in parallel; return whether all have the expected digests."""
        todo, ended = deque(expected), queue.SimpleQueue[None]()

        def work() -> None:
            while todo:
                try:
                    request = todo.popleft()
                except IndexError:  # another thread sends it
                    break
                try:
                    self._early[request] = self._get(*request)
                except Exception as error:
                    self._early[request] = error
            ended.put(None)

        helpers = 0
        while helpers < min(parallel, len(expected)) - 1 and start(work, len(todo)):
            helpers += 1
        work()
        for _ in range(helpers + 1):
            ended.get()
        answers = [(self._early[request], digest) for request, digest in expected.items()]
        return all(not isinstance(it, Exception) and _digest(it) == at for it, at in answers)


class RememberedReading(NamedTuple):
    """The result of a reading as a document, with digests of the answers.

    ``basis`` has the other inputs; cached documents expire at ``until_s``, seconds since 1970.
    """

    basis: Hashable
    digests: dict[ReadRequest, bytes]
    document: bytes
    diagnostics: tuple[Diagnostic, ...]
    until_s: float

    @property
    def size(self) -> int:
        return len(self.document) + sum(REQUEST_BYTES + len(it.uri) for it in self.digests)

    def podm(self) -> FullPodm:
        return _decode(self.document)


class ReadingMemory:
    """The latest result for each URL and name, up to ``most_bytes``; thread-safe."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._found: OrderedDict[tuple[str, str], RememberedReading] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: tuple[str, str], basis: Hashable, now_s: float) -> RememberedReading | None:
        with self._lock:
            found = self._found.get(key)
            if found is None or found.basis != basis or now_s >= found.until_s:
                return None
            self._found.move_to_end(key)
            return found

    def put(self, key: tuple[str, str], reading: RememberedReading) -> None:
        with self._lock:
            if (before := self._found.pop(key, None)) is not None:
                self._bytes -= before.size
            self._found[key] = reading
            self._bytes += reading.size
            while self._bytes > self._most_bytes:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= oldest.size


def _digest(answer: Answer) -> bytes:
    return hashlib.blake2b(answer.body, digest_size=16, salt=b"%d" % answer.status).digest()
