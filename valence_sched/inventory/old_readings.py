# SPDX-License-Identifier: Apache-2.0
"""Old readings: finds pod managers whose readings may be outdated."""

import datetime
import heapq
import math

from valence_sched.errors import InventoryStale, one_line
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.quantity import age_s, format_age


class ReadingAges:
    """Finds the readings older than a limit; a reading without a valid time is in ``unknown``."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = math.inf if limit_s is None else limit_s
        self._read_at: dict[str, str | None] = {}
        self._due: dict[str, float] = {}  # the time at which each becomes old
        self._queued: dict[str, float] = {}  # the time of the next check of each
        self._queue: list[tuple[float, str]] = []
        self._old: set[str] = set()
        self.unknown: set[str] = set()

    def note(self, podm: str, read_at: str | None, now: datetime.datetime) -> None:
        self.forget(podm)
        self._read_at[podm] = read_at
        if (age := age_s(read_at, now)) is None:
            self.unknown.add(podm)
        else:
            self._due[podm] = now.timestamp() - age + self._limit_s
            self._enqueue(podm)

    def _enqueue(self, podm: str) -> None:
        due = self._due.get(podm, math.inf)
        if due < self._queued.get(podm, math.inf):
            self._queued[podm] = due
            heapq.heappush(self._queue, (due, podm))

    def forget(self, podm: str) -> None:
        self._read_at.pop(podm, None)
        self._due.pop(podm, None)
        self._old.discard(podm)
        self.unknown.discard(podm)

    def older(self, now: datetime.datetime) -> set[str]:
        at = now.timestamp()
        while self._queue and self._queue[0][0] < at:
            queued, podm = heapq.heappop(self._queue)
            if self._queued.get(podm) == queued:
                del self._queued[podm]
                if self._due.get(podm, math.inf) < at:
                    self._old.add(podm)
                else:  # read again since, or removed
                    self._enqueue(podm)
        return set(self._old)

    def read_at(self, podm: str) -> str | None:
        return self._read_at.get(podm)


def stale_error(
    podm: str, read_at: str | None, limit_s: float, now: datetime.datetime
) -> InventoryStale:
    age = age_s(read_at, now)
    if age is not None:
        known = f"read {format_age(age)} ago"
    elif read_at is None:
        known = "read at an unknown time"
    else:
        known = f"read at {read_at}, which is in the future (compare the clocks)"
    text = f"pod manager {podm!r}: {known}, the maximum age is {format_age(limit_s)}"
    return InventoryStale(text)


class OldReadings:
    """Collects the readings of one inventory that are older than a limit, None for no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._ages_s: dict[str, float] = {}

    def note(self, podm: str, read_at: str | None, now: datetime.datetime) -> None:
        """Note when a pod manager was read; an unknown time is not old."""
        if self._limit_s is None:
            return
        age = age_s(read_at, now)
        if age is not None and age > self._limit_s:
            self._ages_s[podm] = age

    def warn(self, diagnostics: Diagnostics) -> None:
        if not self._ages_s or self._limit_s is None:
            return
        oldest = max(self._ages_s, key=self._ages_s.__getitem__)
        age, count = format_age(self._ages_s[oldest]), len(self._ages_s)
        text = f"{oldest} was read {age} ago: read it again"
        if count > 1:
            start = f"{count:,} pod managers were read over {format_age(self._limit_s)} ago"
            text = f"{start}, {oldest} {age} ago: read them again"
        diagnostics.warn(one_line(f"{text} (--warn-age)"))
