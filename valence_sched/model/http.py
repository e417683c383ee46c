# SPDX-License-Identifier: Apache-2.0
"""HTTP between services: errors as documents of RFC 9457, headers, and texts of other services."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from valence_sched import errors
from valence_sched.errors import SchedulerError, ServiceError, one_line

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:valence-sched:error:"
#: Operators see texts of other services, tenants do not.
MOST_FOREIGN = 60  # characters shown of one text of another service
#: Each with its replacement; a message may be cut within a text.
_HIDDEN = (
    (re.compile(r"an answer of '[^']*(?:'|$)"), "an answer of another kind"),
    (re.compile(r"a redirect to '[^']*(?:'|$)"), "a redirect to another host"),
    (re.compile(r" \(called '[^']*(?:'\)|$)"), ""),
    (re.compile(r", of server '[^']*(?:'|$)"), ""),
)
_UNSENDABLE = re.compile(r"[\r\n\0]|[^\0-\xff]")
ROUTE_HEADER = "X-Podm-Scheduler-Route"
DEADLINE_HEADER = "X-Podm-Scheduler-Deadline"
MOST_DEADLINE_S = 600.0
MOST_HOPS = 16  # levels of zones below the one that is asked first
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_ROUTE = re.compile(r"[\w-]{1,64}(?:,[\w-]{1,64}){0,31}", re.ASCII)

ROUTE: ContextVar[tuple[str, ...]] = ContextVar("ROUTE", default=())  # zones passed before this one
#: The seconds within which this zone, or a zone below it, must answer; None: no limit.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as in RFC 9457, with the ``code`` and ``exit_code`` of the library.

    ``members`` are the other attributes of the error.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    exit_code: int = 1
    request_id: str = ""
    members: dict[str, Any] = {}


def problem_of(error: SchedulerError, request_id: str = "") -> Problem:
    """Return the document of an error, with its public text."""
    plain = (str, int, float, bool)
    members = {name: value for name, value in vars(error).items() if isinstance(value, plain)}
    return Problem(
        type=f"{TYPE}{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        detail=one_line(error.public_text),
        code=error.code,
        exit_code=error.exit_code,
        request_id=request_id,
        members=members,
    )


def http_problem(status: int, title: str, detail: str, request_id: str = "") -> Problem:
    """Return the document of an HTTP error, such as an unknown path."""
    code, text = f"http_{status}", one_line(detail)
    kind = f"{TYPE}{code}"
    return Problem(
        type=kind, title=title, status=status, detail=text, code=code, request_id=request_id
    )


def error_of(problem: Problem) -> SchedulerError:
    """Return the error of a document, of the same class and text."""
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    known = {one.code: one for one in classes if issubclass(one, SchedulerError)}
    kind = known.get(problem.code, ServiceError)
    error = kind.__new__(kind)
    error.args = (one_line(problem.detail),)
    for name, value in problem.members.items():
        if isinstance(name, str) and name.isidentifier() and not name.startswith("_"):
            error.__dict__[name] = value
    return error


def problem_error(content: bytes, status: int, url: str) -> SchedulerError:
    """Return the error of an answer; ServiceError if the answer is not an error document."""
    try:
        problem = msgspec.json.decode(content, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = f"HTTP {status} without an error document"
        return ServiceError(f"{url}: {found}: is it a scheduler's service?")
    return error_of(problem)


def answer_of(text: str) -> str:
    """Return the phrase for an unexpected answer."""
    return f"an answer of {_quoted(text)}"


def redirect_to(host: str) -> str:
    """Return the phrase for a redirect to another host."""
    return f"a redirect to {_quoted(host)}"


def called(name: str) -> str:
    """Return the phrase for a name in another service."""
    return f" (called {_quoted(name)})"


def of_server(name: str) -> str:
    """Return the phrase for a server of another service."""
    return f", of server {_quoted(name)}"


def without_foreign_texts(message: str) -> str:
    """Return a message without the texts of other services."""
    if "'" in message:
        for pattern, words in _HIDDEN:
            message = pattern.sub(words, message)
    return message


def _quoted(text: str) -> str:
    flat = " ".join(text.split()).replace("'", "`")
    return f"'{flat[:MOST_FOREIGN]}'"


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return the problem of an invalid header, without its value, which may be secret."""
    if not _UNSENDABLE.search("".join(headers.values())):
        return None
    found = ((name, _UNSENDABLE.search(value)) for name, value in headers.items())
    name, character = next((name, match[0]) for name, match in found if match)
    what = "a character beyond Latin-1" if character > "\xff" else "a line break or NUL"
    return f"header {name}: found {what}, expected one line of Latin-1"


def parse_deadline(text: str | None) -> float | None:
    """Return the seconds in a header; ValueError if they are invalid."""
    if not text:
        return None
    if not _SECONDS.fullmatch(text) or not 0.0 < float(text) <= MOST_DEADLINE_S:
        raise ValueError(f"{DEADLINE_HEADER}: expected seconds, at most {MOST_DEADLINE_S:.0f}")
    return float(text)


def parse_route(text: str | None) -> tuple[str, ...]:
    """Return the zone ids in a header; ValueError if they are invalid."""
    if not text:
        return ()
    if not _ROUTE.fullmatch(text):
        raise ValueError(f"{ROUTE_HEADER}: expected up to 32 ids of zones, comma-separated")
    return tuple(text.split(","))
