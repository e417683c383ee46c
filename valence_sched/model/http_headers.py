# SPDX-License-Identifier: Apache-2.0
"""HTTP headers: which values can be sent, and the route of a request through zones.

The route has the ids of the zones that the request has passed, which end a circle. With it goes the
time that it has: what a zone asks below it comes back before the zone itself is due.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

_UNSENDABLE = re.compile(r"[\r\n\0]|[^\0-\xff]")


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return which header cannot be sent and why, without its value, a secret; None for none."""
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

#: The zones that the request which is being answered has passed before this one.
ROUTE: ContextVar[tuple[str, ...]] = ContextVar("ROUTE", default=())


#: How many seconds what is asked of a zone below has, or what this zone answers; None: any.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)


def parse_deadline(text: str | None) -> float | None:
    """Return the seconds that a header has; ValueError where they are none."""
    if not text:
        return None
    if not _SECONDS.fullmatch(text) or not 0.0 < float(text) <= MOST_DEADLINE_S:
        raise ValueError(f"{DEADLINE_HEADER}: expected seconds, at most {MOST_DEADLINE_S:.0f}")
    return float(text)


def parse_route(text: str | None) -> tuple[str, ...]:
    """Return the ids of zones that a header has; ValueError where it is no route."""
    if not text:
        return ()
    if not _ROUTE.fullmatch(text):
        raise ValueError(
            f"{ROUTE_HEADER}: expected up to 32 ids of zones, with commas between them"
        )
    return tuple(text.split(","))


MOST_HOPS = 16  # levels of zones below the one that is asked first
