# SPDX-License-Identifier: Apache-2.0
"""Ages: parsed, formatted, and measured from a timestamp."""

import datetime
import math
import re

from valence_sched.errors import InputError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

#: How far ahead of ours the clock of another machine may be.
MAX_CLOCK_SKEW_S = 300.0

_AGE_PATTERN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def parse_age(text: str) -> float:
    """Parse ``90``, ``30s``, ``10m``, ``2h`` or ``1d`` into seconds; ValueError for other texts."""
    match = _AGE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be an age such as 30s, 10m, 2h or 1d, got {text[:40]!r}")
    return float(match[1]) * UNITS[match[2] or "s"]


def parse_age_limit(text: str) -> float:
    """Parse an age in seconds; ``0`` and ``never`` are infinite. ValueError for other texts."""
    if text.strip().casefold() == "never":
        return math.inf
    try:
        return parse_age(text) or math.inf
    except ValueError:
        example = "an age such as 30s, 10m, 2h or 1d"
        raise ValueError(f"{text[:40]!r} is neither never nor {example}") from None


def format_age(seconds: float) -> str:
    """Format an age in the largest unit of which it has at least two: ``35s``, ``10m``, ``3d``."""
    unit = next((unit for unit in "dhm" if seconds >= 2 * UNITS[unit]), "s")
    return f"{int(seconds // UNITS[unit])}{unit}"


def check_time(text: str | None, file: str, place: str) -> None:
    """Raise InputError for a timestamp that is not one of ISO 8601; None is none at all."""
    try:
        if text is not None:
            datetime.datetime.fromisoformat(text)
    except ValueError:
        expected = "a time such as 2026-01-05T06:00:00Z"
        raise InputError(file, place, repr(text), expected) from None


def format_utc(text: str) -> str:
    """Return a timestamp in UTC with a Z; one that is invalid as it is."""
    try:
        then = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    aware = then if then.tzinfo is not None else then.replace(tzinfo=datetime.UTC)
    return aware.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def age_s(read_at: str | None, now: datetime.datetime) -> float | None:
    """Return how many seconds ago a timestamp was; None if it is missing or invalid.

    Without a zone it is UTC. One that is ahead of ``now`` by more than clocks differ is invalid.
    """
    if read_at is None:
        return None
    try:
        then = datetime.datetime.fromisoformat(read_at)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    seconds = (now - then).total_seconds()
    return max(0.0, seconds) if seconds > -MAX_CLOCK_SKEW_S else None
