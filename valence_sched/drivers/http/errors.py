# SPDX-License-Identifier: Apache-2.0
"""Errors of the network below HTTP, and the deadline of a pod manager."""

from __future__ import annotations

import time

from valence_sched.errors import PodmError


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not to be trusted.

    ``again`` is whether a read may be tried again; ``sent`` is whether the request may have
    reached the pod manager, so that a write may have had its effect.
    """

    def __init__(self, text: str, *, retryable: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.retryable, self.sent = retryable, sent


class Slow(Unreachable):
    """One answer takes too long; others may still come."""


class Cut(Unreachable):
    """One answer does not come whole, however often it is requested; others may still come."""


class Deadline:
    """The moment until which a pod manager must have answered everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """The seconds that are left; 0 or less when it has passed."""
        return self._ends - time.monotonic()

    def error(self) -> Unreachable:
        """Return the error to raise when it has passed."""
        what = f"no complete answer within {self.seconds:g} s"
        return Unreachable(f"{what} (allow it more with --timeout)")
