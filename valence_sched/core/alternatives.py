# SPDX-License-Identifier: Apache-2.0
"""The alternatives of a request, tried in order: each for the nodes that those before it left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluate import evaluate
from valence_sched.core.evaluation import INFINITE_COST, EvaluationContext
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.ranking import rank_rows
from valence_sched.model.need import Alternative
from valence_sched.model.request import Request
from valence_sched.view.domains import domain_index
from valence_sched.view.view import Mask

MOST_ANCHORS = 64  # tried for one group; what fits best among them is taken


@dataclass(frozen=True, slots=True)
class Attempt:
    """One alternative that was tried: what it was decided from, and what came of it."""

    context: EvaluationContext
    batch: Batch


def try_anchors(
    context: EvaluationContext, schedule: Callable[[EvaluationContext], Batch]
) -> Attempt:
    """Return the nodes of a request; of a group that stays together, where most of them fit."""
    best = tried = Attempt(context, schedule(context))
    if not needs_anchor(context.request):
        return best
    left = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        placed = tried.batch.nodes
        if len(placed) in (0, context.request.count):
            break
        left &= ~rows_in_same_domains(context, placed[0].chosen.row)
        within = with_anchor_rows(context, left)
        tried = Attempt(within, schedule(within))
        if len(tried.batch.nodes) > len(best.batch.nodes):
            best = tried
    return best


def needs_anchor(request: Request) -> bool:
    """Return whether the first node of a request says where all the others must be."""
    group, members = request.group, request.company.members
    return group is not None and bool(group.affinity) and not any(map(members.get, group.affinity))


def rows_in_same_domains(context: EvaluationContext, row: int) -> Mask:
    """Return the rows that stand where a row does, in every domain that the group shares."""
    same = np.ones(len(context.view), dtype=bool)
    for domain in context.request.group.affinity if context.request.group else ():
        numbers = domain_index(context.view, domain).numbers
        same &= (numbers == numbers[row]).all(axis=1)
    return same


def with_anchor_rows(context: EvaluationContext, rows: Mask) -> EvaluationContext:
    """Return the case in which the first node can only go to some rows."""
    judgement = context.evaluation.copy()
    for number, filter_ in enumerate(context.bound.filters):
        if any("group" in declared.fields for declared in filter_.reads):
            judgement.verdicts[number] &= rows
    judgement.cost[~rows] = INFINITE_COST
    return replace(context, evaluation=judgement)


def try_alternatives(
    context: EvaluationContext, schedule: Callable[[EvaluationContext], Batch]
) -> list[Attempt]:
    """Return a part for each alternative, in order, up to the one that places the last node.

    Where a group that must stay together does not fit where one alternative fits best, the places
    that come next are tried with all alternatives, as ``founding`` does with one.
    """
    best = parts = _try_in_order(context, schedule)
    if not context.request.fallbacks or not needs_anchor(context.request):
        return best
    left = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        placed = [node for part in parts for node in part.batch.nodes]
        if len(placed) in (0, context.request.count):
            break
        left &= ~rows_in_same_domains(context, placed[0].chosen.row)
        parts = _try_in_order(context, schedule, left)
        if _count_nodes(parts) > _count_nodes(best):
            best = parts
    return best


def _try_in_order(
    context: EvaluationContext,
    schedule: Callable[[EvaluationContext], Batch],
    left: Mask | None = None,
) -> list[Attempt]:
    """Return the parts of one try; with ``left`` the first node can only go to these rows."""
    parts: list[Attempt] = []
    for ask in (None, *context.request.fallbacks):
        wanted = context.request.count - _count_nodes(parts)
        if not wanted:
            break
        now = context if ask is None else _next_context(parts[-1], ask, wanted)
        if left is None:
            parts.append(try_anchors(now, schedule))
            continue
        now = now if _count_nodes(parts) else with_anchor_rows(now, left)
        parts.append(Attempt(now, schedule(now)))
    return parts


def _count_nodes(attempts: list[Attempt]) -> int:
    return sum(len(part.batch.nodes) for part in attempts)


def _next_context(last: Attempt, alternative: Alternative, count: int) -> EvaluationContext:
    """Return the case of another alternative on what the last one left, in its company."""
    view = last.batch.view
    request = msgspec.structs.replace(
        last.batch.request,
        needs=alternative.needs,
        bonds=alternative.bonds,
        count=count,
        min_count=None,
    )
    judgement = evaluate(view, request, last.context.bound, strict=last.context.strict)
    plan = Fitter(request.needs, view.kinds, request.bonds)
    return replace(last.context, view=view, request=request, evaluation=judgement, fitter=plan)


def count_fits(context: EvaluationContext, most: int) -> Iterator[tuple[int, int]]:
    """Yield ``(podm number, nodes)``: how many more nodes each podm makes one after another.

    At most ``most`` a podm. Placing one after another, least waste first, is a lower bound of
    what could be made: packing a whole pod at its best is a harder question.
    """
    first_row = context.view.first_row.tolist()
    for podm, (first, last) in enumerate(itertools.pairwise(first_row)):
        parts = try_alternatives(context.window(first, last, most), _place_best_first)
        yield podm, _count_nodes(parts)


def _place_best_first(context: EvaluationContext) -> Batch:
    return place(context, rank_rows)
