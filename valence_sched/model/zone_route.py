# SPDX-License-Identifier: Apache-2.0
"""The route of a request through zones: the ids of those that it has passed, which end a circle.

With it the time that it has: what a zone asks below it comes back before the zone itself is due.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

HEADER = "X-Podm-Scheduler-Route"
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
        raise ValueError(f"{HEADER}: expected up to 32 ids of zones, with commas between them")
    return tuple(text.split(","))
