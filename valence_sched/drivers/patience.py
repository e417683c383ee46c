# SPDX-License-Identifier: Apache-2.0
"""How long to wait for a pod manager that answers first and works afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from valence_sched.drivers.waits import retry_after_s

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

    def pause(self, headers: Mapping[str, str] | None = None) -> bool:
        """Sleep before the next look; return False, at once, when there is no time for one.

        ``headers`` may ask to be left alone for so long; never past the deadline.
        """
        left = self._until - self._clock()
        if left <= 0:
            return False
        self._sleep(min(left, retry_after_s(headers or {}, self._pause)))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True
