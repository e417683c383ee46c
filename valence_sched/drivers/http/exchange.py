# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange: a request, and its answer or the error of the network; and the deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import BOM, object_of
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError, PodmError
from valence_sched.model.http_header import header_problem

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
