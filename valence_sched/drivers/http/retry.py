# SPDX-License-Identifier: Apache-2.0
"""Pauses and attempts over HTTP: ``Retry-After``, reads that are tried again, and patience."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from valence_sched.drivers.http.exchange import Answer, Deadline, Unreachable

#: How often a read is tried, and the pause before the second time; then twice as long.
READ_ATTEMPTS = 4
READ_PAUSE_S = 0.1
#: Pauses of a :class:`Patience`.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: How often a node is looked for after a reply that was lost.
LATE_READS = 8
#: Answers that ask for another try.
BUSY_STATUSES = (429, 503)
#: Answers after which a write may still have its effect: those of a gateway that gave up.
GATEWAY_STATUSES = (408, 502, 504)


def retry_after_s(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds to wait; ``otherwise`` where the headers hold none that can be read.

    A date is compared with the server's own clock, which need not be ours.
    """
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return min(float(value), 1e6)
    until = _date(value)
    if until is None:
        return otherwise
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # it brings in much, and few answers have a date

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def read_with_retries(
    send: Callable[[], Answer], deadline: Callable[[], Deadline], ended: Callable[[], bool]
) -> Answer:
    """Return the answer to a read, which is sent again while the answer may come later.

    ``deadline`` is looked at each time, for closing a connection shortens it; after ``ended``
    nothing is sent again. An answer that asks for a longer pause than all of the time is returned;
    one that asks for longer than what is left is late. An Unreachable says that it makes no sense
    to wait for an answer.
    """
    for attempt in range(1, READ_ATTEMPTS + 1):
        pause_s = READ_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1)  # noqa: S311
        try:
            answer = send()
            if answer.status not in BUSY_STATUSES or attempt == READ_ATTEMPTS:
                return answer
            pause_s = retry_after_s(answer.headers, pause_s)
            if pause_s >= deadline().seconds:  # no reading is that patient
                return answer
        except Unreachable as error:
            if not error.retryable or attempt == READ_ATTEMPTS or ended():
                raise
        if pause_s >= deadline().left_s:
            raise deadline().error()
        time.sleep(pause_s)
    raise AssertionError("unreachable")


class Patience:
    """Pauses between reads, each half as long again as the one before, until a deadline."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._until, self._pause = clock() + seconds, FIRST_PAUSE_S

    def wait_as_told(self, headers: Mapping[str, str]) -> bool:
        """Sleep as ``Retry-After`` says; return False, at once, for none and for one too long."""
        told_s = retry_after_s(headers, -1.0)
        if told_s < 0 or told_s >= self._until - self._clock():
            return False
        return self.pause({"Retry-After": str(max(told_s, self._pause))})

    def pause(self, headers: Mapping[str, str] | None = None) -> bool:
        """Sleep before the next read; return False, at once, when there is no time for one.

        ``headers`` may ask for a longer pause; it never ends after the deadline.
        """
        left = self._until - self._clock()
        if left <= 0:
            return False
        self._sleep(min(left, retry_after_s(headers or {}, self._pause)))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True
