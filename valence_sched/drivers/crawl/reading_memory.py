# SPDX-License-Identifier: Apache-2.0
"""Reading memory: what the answers of a pod manager meant, for when they are the same again.

What is read of a pod manager depends on its answers and on little else. A process that reads again
and again sends the same requests each time; where every answer is the same, byte by byte, none is
parsed, and the result is that of before.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, MIB
from valence_sched.drivers.crawl.crawler import Start
from valence_sched.drivers.http.exchange import Answer
from valence_sched.model.diagnostic import Diagnostic
from valence_sched.model.inventory import FullPodm, to_json

#: Bytes of all that is remembered, about; a result of 40 blocks takes some 10,000.
MAX_BYTES = 64 * MIB
#: Bytes that a request takes with its digest, beside its URI.
REQUEST_BYTES = 350
_decode = msgspec.json.Decoder(FullPodm).decode


class ReadRequest(NamedTuple):
    """A request of a reading, as a connection takes it."""

    uri: str
    most: int
    share: float


class Answers:
    """The answers of one reading by request; ``get`` asks the pod manager, once each.

    ``digests`` has what was answered. A reading whose answers are not ``certain``, since one did
    not come or came in two forms, must not be remembered.
    """

    def __init__(self, get: Callable[..., Answer]) -> None:
        self._get = get
        self._early: dict[ReadRequest, Answer | Exception] = {}
        self.digests: dict[ReadRequest, bytes] = {}
        self.certain = True

    def get(self, uri: str, most: int = MAX_DOCUMENT_BYTES, share: float = 1.0) -> Answer:
        """Return an answer, one that came early only once; errors as of a connection."""
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
        """Send requests early, some in parallel, and return whether all answers are as expected.

        Where they are not, the answers and errors are those of the first :meth:`get` of each.
        """
        todo, ended = deque(expected), queue.SimpleQueue[None]()

        def work() -> None:
            while todo:
                try:
                    request = todo.popleft()
                except IndexError:  # another thread was faster
                    return
                try:
                    self._early[request] = self._get(*request)
                except Exception as error:
                    self._early[request] = error

        def help_out() -> None:
            try:
                work()
            finally:
                ended.put(None)

        helpers = 0
        while helpers < min(parallel, len(expected)) - 1 and start(help_out, len(todo)):
            helpers += 1
        work()
        for _ in range(helpers):
            ended.get()
        found = self._early
        return all(
            not isinstance(answer := found[request], Exception) and _digest(answer) == digest
            for request, digest in expected.items()
        )


class RememberedReading(NamedTuple):
    """The result of a reading, as a document, and all that it came from.

    ``basis`` is what counts beside the answers. From ``until_s`` on, seconds since 1970, documents
    are due that were not requested for it.
    """

    basis: Hashable
    digests: dict[ReadRequest, bytes]
    document: bytes
    diagnostics: tuple[Diagnostic, ...]
    until_s: float

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        requests = sum(REQUEST_BYTES + len(request.uri) for request in self.digests)
        return len(self.document) + requests

    def podm(self) -> FullPodm:
        """Return the pod manager that was read, without what its registration adds."""
        return _decode(self.document)


class ReadingMemory:
    """Results by URL and name, the latest of each, up to ``most_bytes``; threads may share it."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._found: OrderedDict[tuple[str, str], RememberedReading] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: tuple[str, str], basis: Hashable, now_s: float) -> RememberedReading | None:
        """Return a result that came from the same, but for its answers, None if there is none."""
        with self._lock:
            found = self._found.get(key)
            if found is None or found.basis != basis or now_s >= found.until_s:
                return None
            self._found.move_to_end(key)
            return found

    def put(
        self, key: tuple[str, str], basis: Hashable, answers: Answers, podm: FullPodm,
        diagnostics: Sequence[Diagnostic], until_s: float,
    ) -> None:  # fmt: skip
        """Remember a reading in place of the one before, and forget others beyond the bytes."""
        document, digests = to_json(podm), dict(answers.digests)
        reading = RememberedReading(basis, digests, document, tuple(diagnostics), until_s)
        with self._lock:
            if (before := self._found.pop(key, None)) is not None:
                self._bytes -= before.size
            self._found[key] = reading
            self._bytes += reading.size
            while self._bytes > self._most_bytes:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= oldest.size


def _digest(answer: Answer) -> bytes:
    digest = hashlib.blake2b(answer.body, digest_size=16, salt=b"%d" % answer.status)
    return digest.digest()
