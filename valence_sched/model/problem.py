# SPDX-License-Identifier: Apache-2.0
"""Problems: errors as documents of RFC 9457, and texts of other services in messages.

Operators see texts of other services, tenants do not.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from valence_sched import errors
from valence_sched.errors import SchedulerError, ServiceError, one_line

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:valence-sched:error:"


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
        text = f"{url}: HTTP {status} without an error document: is it a scheduler's service?"
        return ServiceError(text)
    return error_of(problem)


MOST_FOREIGN = 60  # characters shown of one text of another service
#: Each with its replacement; a message may be cut within a text.
_HIDDEN = (
    (re.compile(r"an answer of '[^']*(?:'|$)"), "an answer of another kind"),
    (re.compile(r"a redirect to '[^']*(?:'|$)"), "a redirect to another host"),
    (re.compile(r" \(called '[^']*(?:'\)|$)"), ""),
    (re.compile(r", of server '[^']*(?:'|$)"), ""),
)


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
