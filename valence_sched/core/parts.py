# SPDX-License-Identifier: Apache-2.0
"""The alternatives of a request, tried in order: each for the nodes that those before it left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import numpy as np

from valence_sched.core.batch import Batch, place
from valence_sched.core.case import Case
from valence_sched.core.fit import Plan
from valence_sched.core.founding import MOST_PLACES, Part, begun_in, founded, founds, place_of
from valence_sched.core.judge import judge
from valence_sched.core.rank import ranked
from valence_sched.model.need import Ask
from valence_sched.model.view import Mask


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
