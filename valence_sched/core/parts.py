# SPDX-License-Identifier: Apache-2.0
"""The alternatives of a request, tried in order: each for the nodes that those before it left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from valence_sched.core.batch import Batch, place
from valence_sched.core.case import Case
from valence_sched.core.fit import Plan
from valence_sched.core.founding import Part, founded
from valence_sched.core.judge import judge
from valence_sched.core.rank import ranked
from valence_sched.model.need import Ask


def tried(case: Case, schedule: Callable[[Case], Batch]) -> list[Part]:
    """Return a part for each alternative, in order, up to the one that places the last node."""
    parts = [founded(case, schedule)]
    for ask in case.request.fallbacks:
        left = case.request.count - sum(len(part.batch.placed) for part in parts)
        if not left:
            break
        after = _after(parts[-1], ask, left)
        parts.append(founded(after, schedule))
    return parts


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
        yield podm, sum(len(part.batch.placed) for part in parts)


def _best_first(case: Case) -> Batch:
    return place(case, ranked)
