# SPDX-License-Identifier: Apache-2.0
"""The alternatives of a request, tried in order: each for the nodes that those before it left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluate import judge
from valence_sched.core.evaluation import NEVER, Case
from valence_sched.core.fit.fit import Plan
from valence_sched.core.ranking import ranked
from valence_sched.model.need import Ask
from valence_sched.model.request import Request
from valence_sched.view.domains import places
from valence_sched.view.view import Mask

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


def tried(case: Case, schedule: Callable[[Case], Batch]) -> list[Part]:
    """Return a part for each alternative, in order, up to the one that places the last node.

    Where a group that must stay together does not fit where one alternative fits best, the places
    that come next are tried with all alternatives, as ``founding`` does with one.
    """
    best = parts = _in_order(case, schedule)
    if not case.request.fallbacks or not founds(case.request):
        return best
    left = np.ones(len(case.view), dtype=bool)
    for _ in range(MOST_PLACES):
        placed = [node for part in parts for node in part.batch.placed]
        if len(placed) in (0, case.request.count):
            break
        left &= ~place_of(case, placed[0].chosen.row)
        parts = _in_order(case, schedule, left)
        if _nodes(parts) > _nodes(best):
            best = parts
    return best


def _in_order(
    case: Case, schedule: Callable[[Case], Batch], left: Mask | None = None
) -> list[Part]:
    """Return the parts of one try; with ``left`` the first node can only go to these rows."""
    parts: list[Part] = []
    for ask in (None, *case.request.fallbacks):
        wanted = case.request.count - _nodes(parts)
        if not wanted:
            break
        now = case if ask is None else _after(parts[-1], ask, wanted)
        if left is None:
            parts.append(founded(now, schedule))
            continue
        now = now if _nodes(parts) else begun_in(now, left)
        parts.append(Part(now, schedule(now)))
    return parts


def _nodes(parts: list[Part]) -> int:
    return sum(len(part.batch.placed) for part in parts)


def _after(last: Part, ask: Ask, count: int) -> Case:
    """Return the case of another alternative on what the last one left, in its company."""
    view = last.batch.view
    request = msgspec.structs.replace(
        last.batch.request, needs=ask.needs, bonds=ask.bonds, count=count, min_count=None
    )
    judgement = judge(view, request, last.case.bound, strict=last.case.strict)
    plan = Plan(request.needs, view.kinds, request.bonds)
    return replace(last.case, view=view, request=request, judgement=judgement, plan=plan)


def count_fits(case: Case, most: int) -> Iterator[tuple[int, int]]:
    """Yield ``(podm number, nodes)``: how many more nodes each podm makes one after another.

    At most ``most`` a podm. Placing one after another, least waste first, is a lower bound of
    what could be made: packing a whole pod at its best is a harder question.
    """
    first_row = case.view.first_row.tolist()
    for podm, (first, last) in enumerate(itertools.pairwise(first_row)):
        parts = tried(case.window(first, last, most), _best_first)
        yield podm, _nodes(parts)


def _best_first(case: Case) -> Batch:
    return place(case, ranked)
