# SPDX-License-Identifier: Apache-2.0
"""How long a pod manager asks to be left alone: ``Retry-After``, as seconds or as a date."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime


def retry_after_s(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds to wait; ``otherwise`` where nothing that can be read is said.

    A date is held against the server's own clock, which need not be ours.
    """
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.replace(".", "", 1).isdigit():
        return min(float(said), 1e6)
    until = _date(said)
    if until is None:
        return otherwise
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # it brings in much, and few answers have a date

    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


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
