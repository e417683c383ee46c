# SPDX-License-Identifier: Apache-2.0
"""Exhaustion: which resource runs out first, by what the next node lacks on each podm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.capacity import Exhaustion, PodmCapacity
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


def exhausted(podms: Iterable[PodmCapacity]) -> tuple[Exhaustion, ...]:
    """Return the resources that run out first, with the podms on which they do.

    Those come first whose podms take most nodes. Where no node fits at all, they are what podms
    lack from the start.
    """
    ending = [one for one in podms if one.runs_out is not None]
    taking = [one for one in ending if one.nodes] or ending
    nodes: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for one in sorted(taking, key=lambda one: -one.nodes):
        assert one.runs_out is not None, "it is ending"
        nodes[one.runs_out] += max(1, one.nodes)
        names.setdefault(one.runs_out, []).append(one.podm)
    order = sorted(nodes, key=lambda resource: (-nodes[resource], resource))
    return tuple(Exhaustion(resource=one, podms=tuple(names[one])) for one in order)
