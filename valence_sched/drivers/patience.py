# SPDX-License-Identifier: Apache-2.0
"""How long to wait for a pod manager that answers first and works afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Patience:
    """Pauses between looks, each half as long again as the one before, until a deadline."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._until = clock() + seconds
        self._pause = FIRST_PAUSE_S

    def pause(self, asked_s: float | None = None) -> bool:
        """Sleep before the next look; return False, at once, when there is no time for one.

        ``asked_s`` is how long the pod manager asks to be left alone; never past the deadline.
        """
        left = self._until - self._clock()
        if left <= 0:
            return False
        self._sleep(min(left, asked_s if asked_s is not None else self._pause))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True


def retry_after_s(word: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None for neither."""
    if not word:
        return None
    try:
        return max(0.0, float(word))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(word)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())
