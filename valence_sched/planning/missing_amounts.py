# SPDX-License-Identifier: Apache-2.0
"""Missing amounts: what the next node lacks on each podm, the scarcest first."""

from __future__ import annotations

from collections.abc import Iterable

from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.decision import Reason
from valence_sched.model.reason_phrases import is_amount


def missing_amounts(verdicts: Verdicts, podm: int) -> tuple[Reason, ...]:
    """Return the reasons against the pool of a podm that comes nearest to one node more."""
    return tuple(scarcest_first(verdicts.reasons(verdicts.furthest_row(podm))))


def scarcest_first(reasons: Iterable[Reason]) -> list[Reason]:
    """Return reasons that are no amounts, then the amounts, the least part of the need first.

    More of a resource does not help against the former.
    """
    return sorted(reasons, key=_part)


def _part(reason: Reason) -> float:
    if not is_amount(reason):
        return -1.0
    return float(str(reason.have)) / float(str(reason.need)) if reason.need else 1.0
