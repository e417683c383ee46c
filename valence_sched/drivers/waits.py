# SPDX-License-Identifier: Apache-2.0
"""How long a pod manager asks to be left alone: ``Retry-After``, as seconds or as a date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds to wait; ``otherwise`` where nothing that can be read is said.

    A date is held against the server's own clock, which need not be ours.
    """
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.replace(".", "", 1).isdigit():
        return min(float(said), 1e6)
    until = _date(said)
    if until is None:
        return otherwise
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
