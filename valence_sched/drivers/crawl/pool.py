# SPDX-License-Identifier: Apache-2.0
"""The reader pool: reads many live pod managers in parallel, each within its deadline."""

import itertools
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from valence_sched.drivers.crawl.reading import PodmReader, Reading, ReadSettings, ReadTarget
from valence_sched.drivers.dialect import Dialects
from valence_sched.drivers.http.connection import LOGOUT_S
from valence_sched.drivers.http.exchange import TlsContexts
from valence_sched.drivers.links import Shared
from valence_sched.model.diagnostic import MAX_AWAITED, NoProgress, Progress

__all__ = ["ReadSettings", "ReadTarget", "ReaderPool", "now", "read"]
#: The most pod managers read in parallel, and the most extra threads for their parallel requests.
MAX_PODMS, MAX_HELPERS = 256, 256
#: Pod managers to read in parallel at first: more would wait for the same processor. If no result
#: arrives for a while, these pod managers are slow, and the pool starts as many more.
FIRST_PODMS, STALL_S = 64, 0.25
#: With this many pod managers in parallel the processor is busy: an extra thread costs more than it
#: saves, unless this many requests wait.
BUSY_PODMS, MIN_WAITING_REQUESTS = 8, 4
#: Seconds after its deadline in which the reader of a pod manager must end.
GRACE_S = 0.5
Clock = Callable[[], datetime]
Targets = Sequence[ReadTarget]


def now() -> datetime:
    return datetime.now(UTC)


def read(
    targets: Targets,
    dialects: Dialects,
    settings: ReadSettings,
    progress: Progress | None = None,
    clock: Clock = now,
) -> Iterator[Reading]:
    """Yield a reading of each pod manager, in the order of ``targets``.

    ``progress`` gets the number of read pod managers and the names of the others. At the end, or
    after an error, the sessions are deleted, which may take a few seconds.
    """
    receiver = NoProgress() if progress is None else progress
    pool = ReaderPool(targets, dialects, settings, clock)
    done: dict[int, Reading] = {}
    # Popping the first key of a plain dict gets slower with each pop.
    unanswered = OrderedDict((number, one.registered.name) for number, one in enumerate(targets))
    following = 0

    def report() -> None:
        names = tuple(itertools.islice(unanswered.values(), MAX_AWAITED))
        receiver.count_podms(len(targets) - len(unanswered), len(targets), names)

    try:
        pool.start_more()
        report()
        while following < len(targets):
            index, reading = pool.next()
            done[index] = reading
            del unanswered[index]
            report()
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        pool.end()


class ReaderPool:
    """All pod managers of one run, and the threads that read them."""

    def __init__(
        self, targets: Targets, dialects: Dialects, settings: ReadSettings, clock: Clock
    ) -> None:
        self._dialects, self._settings, self._clock = dialects, settings, clock
        self._todo = deque(enumerate(targets))
        self._tls = TlsContexts()
        self._shared: Shared = {}
        self._helpers = threading.Semaphore(MAX_HELPERS)
        self._results: queue.SimpleQueue[tuple[int, Reading] | Exception] = queue.SimpleQueue()
        self._running: dict[int, PodmReader] = {}
        self._reported: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._last = time.monotonic()

    def start_more(self) -> None:
        self._last = time.monotonic()
        for _ in range(min(FIRST_PODMS, len(self._todo), MAX_PODMS - len(self._running))):
            self._start_thread()

    def next(self) -> tuple[int, Reading]:
        """Return the next result and the index of its pod manager; raise the error of a thread."""
        while True:
            try:
                result = self._results.get(timeout=self._pause_s())
            except queue.Empty:
                self._cut_overdue()
                if time.monotonic() - self._last > STALL_S:
                    self.start_more()
                continue
            if isinstance(result, Exception):
                raise result
            index, reading = result
            self._last = time.monotonic()
            if index not in self._reported:
                self._reported.add(index)
                return index, reading

    def end(self) -> None:
        """Stop the readers that still run, and wait for the deletion of sessions."""
        self._todo.clear()
        for reader in list(self._running.values()):
            reader.cut()
        until = time.monotonic() + LOGOUT_S + GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, daemon=True, name="podm")
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        settings, shared = self._settings, (self._start_helper, self._tls, self._shared)
        try:
            while True:
                try:
                    index, target = self._todo.popleft()
                except IndexError:
                    return
                self._running[index] = reader = PodmReader(target, settings, self._clock(), *shared)
                reading = reader.read(self._dialects)
                if not settings.raw:
                    reading.documents.clear()
                self._running.pop(index, None)
                self._results.put((index, reading))
                del reading  # frees the memory before the session is deleted
                reader.log_out()
        except Exception as error:  # else the caller would wait for this thread forever
            self._results.put(error)

    def _start_helper(self, work: Callable[[], None], waiting: int) -> bool:
        is_busy = len(self._running) >= BUSY_PODMS and waiting < MIN_WAITING_REQUESTS
        if is_busy or not self._helpers.acquire(blocking=False):
            return False

        def run() -> None:
            try:
                work()
            finally:
                self._helpers.release()

        threading.Thread(target=run, daemon=True, name="podm-help").start()
        return True

    def _pause_s(self) -> float:
        left = [reader.left_s for reader in list(self._running.values())]
        left += [STALL_S] if self._todo else []
        return max(0.01, min(left, default=0.05))

    def _cut_overdue(self) -> None:
        for index, reader in list(self._running.items()):
            if reader.left_s <= -GRACE_S and index not in self._reported:
                self._results.put((index, reader.timeout_result()))
                self._start_thread()  # its thread may hang for long
            elif reader.left_s <= 0:
                reader.cut()
