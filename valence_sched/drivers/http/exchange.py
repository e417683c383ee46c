# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange: its request, its answer or error, its deadline, and when it is tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import BOM, object_of
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError, PodmError
from valence_sched.model.http_headers import header_problem

#: Headers by which a body that is cut off differs from a whole one.
_LENGTHS = frozenset(("content-length", "transfer-encoding"))
#: Statuses of a document that is not there.
GONE = (404, 410)
#: Statuses below 500 of a service that does not answer now, or not this user, whatever is asked.
_OUTAGES = (403, 408, 429)


def is_outage(status: int) -> bool:
    """Return whether a status says nothing of the document: the service does not answer now."""
    return status >= 500 or status in _OUTAGES


class PodmRequest(NamedTuple):
    """A request to send once; of a body of more than ``most`` bytes one byte more is read."""

    method: str
    path: str
    headers: Mapping[str, str]
    timeout_s: float
    most: int
    body: Json | None = None

    def check_headers(self) -> None:
        """Raise Unreachable where a header cannot be sent: the service named its value."""
        if problem := header_problem(self.headers):
            hint = "the pod manager named it: report it to its vendor"
            raise Unreachable(f"{problem} ({hint})", sent=False)


class Answer(NamedTuple):
    """An answer: its status, its headers in whatever case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ends_early(self) -> bool:
        """Whether JSON without an announced length is cut off: nothing else tells where it ends."""
        if self.status != 200 or not _LENGTHS.isdisjoint(map(str.lower, self.headers)):
            return False
        try:
            msgspec.json.decode(self.body.removeprefix(BOM))
        except msgspec.DecodeError as error:
            return "truncated" in str(error)
        except RecursionError:
            pass  # said where the document is read
        return False

    def json(self, uri: str) -> Json:
        """Return the body as an object; errors as for :func:`object_of`, and of a large body."""
        if len(self.body) > MAX_DOCUMENT_BYTES:
            most = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", most)
        return object_of(self.body, uri)


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not to be trusted.

    ``retryable`` is whether a read may be tried again; ``sent`` is whether the request may have
    reached the pod manager, so that a write may have had its effect.
    """

    def __init__(self, text: str, *, retryable: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.retryable, self.sent = retryable, sent


class Slow(Unreachable):
    """One answer takes too long; others may still come."""


class Cut(Unreachable):
    """One answer does not come whole, however often it is requested; others may still come."""


class MalformedBody(HTTPException):
    """An answer whose head is one of HTTP, and whose body is none."""


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
        hint = "(allow it more with --request-timeout)"
        return Unreachable(f"no complete answer within {self.seconds:g} s {hint}")


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
    """Return the seconds to wait, a date by the server's own clock; ``otherwise`` without any."""
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
