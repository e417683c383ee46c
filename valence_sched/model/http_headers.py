# SPDX-License-Identifier: Apache-2.0
"""HTTP headers: valid values, and the route and deadline of a request through zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

_UNSENDABLE = re.compile(r"[\r\n\0]|[^\0-\xff]")


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return the problem of an invalid header, without its value, which may be secret."""
    if not _UNSENDABLE.search("".join(headers.values())):
        return None
    found = ((name, _UNSENDABLE.search(value)) for name, value in headers.items())
    name, character = next((name, match[0]) for name, match in found if match)
    what = "a character beyond Latin-1" if character > "\xff" else "a line break or NUL"
    return f"header {name}: found {what}, expected one line of Latin-1"


ROUTE_HEADER = "X-Podm-Scheduler-Route"
DEADLINE_HEADER = "X-Podm-Scheduler-Deadline"
MOST_DEADLINE_S = 600.0
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_ROUTE = re.compile(r"[\w-]{1,64}(?:,[\w-]{1,64}){0,31}", re.ASCII)

#: The zones that the present request passed before it reached this zone.
ROUTE: ContextVar[tuple[str, ...]] = ContextVar("ROUTE", default=())


#: The seconds within which this zone, or a zone below it, must answer; None: no limit.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)


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


MOST_HOPS = 16  # levels of zones below the one that is asked first
