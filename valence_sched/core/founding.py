# SPDX-License-Identifier: Apache-2.0
"""Where a group that must stay together begins: elsewhere, when all of it does not fit there.

The first node of a group founds its place, and it goes where it is best for one node. When the
others do not fit there, the places that come next are tried, best first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from valence_sched.core.batch import Batch
from valence_sched.core.case import Case
from valence_sched.core.judgement import NEVER
from valence_sched.model.domain import places
from valence_sched.model.request import Request
from valence_sched.model.view import Mask

MOST_PLACES = 64  # tried for one group; what fits best among them is taken
KEEPER = "spread"  # the filter that keeps a group together


@dataclass(frozen=True, slots=True)
class Part:
    """One alternative that was tried: what it was decided from, and what came of it."""

    case: Case
    batch: Batch


def founded(case: Case, schedule: Callable[[Case], Batch]) -> Part:
    """Return the nodes of a request; of a group that stays together, where most of them fit."""
    best = tried = Part(case, schedule(case))
    if not founds(case.request):
        return best
    left = np.ones(len(case.view), dtype=bool)
    for _ in range(MOST_PLACES):
        placed = tried.batch.placed
        if len(placed) in (0, case.request.count):
            break
        left &= ~place_of(case, placed[0].chosen.row)
        within = begun_in(case, left)
        tried = Part(within, schedule(within))
        if len(tried.batch.placed) > len(best.batch.placed):
            best = tried
    return best


def founds(request: Request) -> bool:
    """Return whether the first node of a request says where all the others must be."""
    group, members = request.group, request.company.members
    return group is not None and bool(group.affinity) and not any(map(members.get, group.affinity))


def place_of(case: Case, row: int) -> Mask:
    """Return the rows that stand where a row does, in every domain that the group shares."""
    same = np.ones(len(case.view), dtype=bool)
    for domain in case.request.group.affinity if case.request.group else ():
        numbers = places(case.view, domain).numbers
        same &= (numbers == numbers[row]).all(axis=1)
    return same


def begun_in(case: Case, rows: Mask) -> Case:
    """Return the case in which the first node can only go to some rows."""
    judgement = case.judgement.copy()
    for number, filter_ in enumerate(case.bound.filters):
        if filter_.name == KEEPER:
            judgement.verdicts[number] &= rows
    judgement.cost[~rows] = NEVER
    return replace(case, judgement=judgement)
