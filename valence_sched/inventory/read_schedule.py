# SPDX-License-Identifier: Apache-2.0
"""Read schedule: when each pod manager is read next, after how many failures, and how many at once.

Times are seconds of any clock that the caller uses throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from valence_sched.model.read_pace import ReadPace


@dataclass(slots=True)
class _Entry:
    due: float
    failures: int = 0
    running: bool = False
    started: float = -math.inf
    hinted: bool = False


class ReadSchedule:
    """The pod managers that are read, each with its next time; ``draw`` returns 0..1."""

    def __init__(self, pace: ReadPace, draw: Callable[[], float]) -> None:
        self._pace, self._draw = pace, draw
        self._entries: dict[str, _Entry] = {}

    def set_names(self, names: Collection[str], now: float) -> None:
        """Read these pod managers from now on: new ones at once, others as before."""
        for gone in self._entries.keys() - set(names):
            del self._entries[gone]
        for name in names:
            self._entries.setdefault(name, _Entry(now))

    def hasten(self, name: str, now: float) -> None:
        """Read a pod manager at once: it changed, or its registration did."""
        if name in self._entries:
            known = self._entries[name]
            self._entries[name] = _Entry(now, running=known.running, started=known.started)

    def hint(self, name: str, now: float) -> None:
        """Read a pod manager soon: it may have changed, since its last reading began at least."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.hinted = entry.running
            earliest = entry.started + self._pace.hinted_pause_s(entry.failures)
            entry.due = min(entry.due, max(now, earliest))

    def start_due(self, now: float, most: int) -> Iterator[str]:
        """Yield at most so many pod managers that are due, the longest first; they run then."""
        due = [name for name, one in self._entries.items() if one.due <= now and not one.running]
        probing = any(one.running and self._is_open(one) for one in self._entries.values())
        for name in sorted(due, key=lambda name: self._entries[name].due):
            if most <= 0:
                return
            entry = self._entries[name]
            if self._is_open(entry):
                if probing:
                    continue
                probing = True
            entry.running, entry.started, entry.hinted = True, now, False
            most -= 1
            yield name

    def end(self, name: str, now: float, *, failed: bool) -> None:
        """Note that a reading ended, and when the next one is due."""
        entry = self._entries.get(name)
        if entry is None:  # it was taken out meanwhile
            return
        entry.running = False
        entry.failures = entry.failures + 1 if failed else 0
        entry.due = now + self._pace.pause_s(entry.failures, self._draw())
        if entry.hinted:  # by an event that the reading may have missed
            self.hint(name, now)

    def is_open(self, name: str) -> bool:
        """Return whether the circuit breaker of a pod manager is open."""
        return name in self._entries and self._is_open(self._entries[name])

    def wait_s(self, now: float) -> float | None:
        """Return the seconds until the next reading is due, None while none is."""
        due = [one.due for one in self._entries.values() if not one.running]
        return max(0.0, min(due) - now) if due else None

    def _is_open(self, entry: _Entry) -> bool:
        return entry.failures >= self._pace.open_after
