# SPDX-License-Identifier: Apache-2.0
"""The route of a request through zones: the ids of those that it has passed, which end a circle."""

from __future__ import annotations

import re
from contextvars import ContextVar

HEADER = "X-Podm-Scheduler-Route"
_ROUTE = re.compile(r"[\w-]{1,64}(?:,[\w-]{1,64}){0,31}", re.ASCII)

#: The zones that the request which is being answered has passed before this one.
ROUTE: ContextVar[tuple[str, ...]] = ContextVar("ROUTE", default=())


def parse_route(text: str | None) -> tuple[str, ...]:
    """Return the ids of zones that a header has; ValueError where it is no route."""
    if not text:
        return ()
    if not _ROUTE.fullmatch(text):
        raise ValueError(f"{HEADER}: expected up to 32 ids of zones, with commas between them")
    return tuple(text.split(","))
