# SPDX-License-Identifier: Apache-2.0
"""Read pace: how often a background reader reads a pod manager, and one that fails."""

from msgspec import Struct


class ReadPace(Struct, frozen=True, kw_only=True):
    """How often pod managers are read.

    Each is read ``interval_s`` after it was read last, drawn by up to the part ``jitter`` sooner or
    later, so that many do not stay in step. After a failure that time doubles, up to ``backoff_s``.
    After ``open_after`` failures in a row the circuit breaker of a pod manager opens: of all whose
    breaker is open one at a time is probed. A probe that succeeds closes it. With ``events`` one
    that sends events is read when it sends one, and no sooner than ``event_pause_s`` after its last
    reading began; that time doubles with each failure, up to the interval.
    """

    interval_s: float = 60.0
    jitter: float = 0.1
    backoff_s: float = 900.0
    open_after: int = 5
    events: bool = True
    event_pause_s: float = 5.0

    def pause_s(self, failures: int, draw: float) -> float:
        """Return the seconds to the next reading after so many failures; ``draw`` is 0..1."""
        doubled = self.interval_s * 2.0 ** min(failures, 30)
        pause_s = max(self.interval_s, min(self.backoff_s, doubled)) if failures else doubled
        return pause_s * (1.0 + self.jitter * (2.0 * draw - 1.0))

    def hinted_pause_s(self, failures: int) -> float:
        """Return the seconds between the beginnings of two readings that events ask for."""
        doubled = self.event_pause_s * 2.0 ** min(failures, 30)
        return max(self.event_pause_s, min(self.interval_s, doubled))
