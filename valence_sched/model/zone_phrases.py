# SPDX-License-Identifier: Apache-2.0
"""Zone phrases: in words, which zones had a part in a decision, and which had none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from valence_sched.model.decision_zones import DecisionZones, SilentZone
from valence_sched.model.quantity import format_count

MOST_SHOWN = 3  # zones of a line that are named


def zone_lines(zones: DecisionZones) -> Iterator[str]:
    """Yield a line each for the zones that gave no answer and for those that were not asked."""
    if zones.silent:
        yield f"no answer from {_listed(zones.silent)}: the choice may lack the best"
    if zones.excluded:
        yield f"not asked: {_listed(zones.excluded)}"


def missing_line(silent: Sequence[SilentZone], noun: str) -> str:
    """Return the line about the zones whose claims or nodes a list lacks."""
    whose = "its" if len(silent) == 1 else "their"
    return f"no answer from {_listed(silent)}: the list lacks {whose} {noun}"


def _listed(zones: Sequence[SilentZone]) -> str:
    named = "; ".join(f"{one.zone} ({one.reason})" for one in zones[:MOST_SHOWN])
    more = len(zones) - MOST_SHOWN
    rest = f"; and {more:,} more" if more > 0 else ""
    return f"{format_count(len(zones), 'zone')}: {named}{rest}"
