# SPDX-License-Identifier: Apache-2.0
"""Alternatives: tries each alternative of a request, and each anchor of a group, in order."""

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

MOST_ANCHORS = 64  # tried for one group; the one by which most nodes fit is taken


@dataclass(frozen=True, slots=True)
class Attempt:
    """One alternative that was tried: the context it was decided from, and the nodes placed."""

    context: EvaluationContext
    batch: Batch


def try_anchors(
    context: EvaluationContext, schedule: Callable[[EvaluationContext], Batch]
) -> Attempt:
    """Place the nodes of a request; of a group that stays together, where most of them fit."""
    best = tried = Attempt(context, schedule(context))
    if not needs_anchor(context.request):
        return best
    open_rows = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        nodes = tried.batch.nodes
        if len(nodes) in (0, context.request.count):
            break
        open_rows &= ~rows_in_same_domains(context, nodes[0].chosen.row)
        narrowed = with_anchor_rows(context, open_rows)
        tried = Attempt(narrowed, schedule(narrowed))
        if len(tried.batch.nodes) > len(best.batch.nodes):
            best = tried
    return best


def needs_anchor(request: Request) -> bool:
    """Return whether the first node of a request decides where all the others must be."""
    group, members = request.group, request.company.members
    return group is not None and bool(group.affinity) and not any(map(members.get, group.affinity))


def rows_in_same_domains(context: EvaluationContext, row: int) -> Mask:
    """Return the rows that share the values of a row in every domain of the group's affinity."""
    same = np.ones(len(context.view), dtype=bool)
    for domain in context.request.group.affinity if context.request.group else ():
        numbers = domain_index(context.view, domain).numbers
        same &= (numbers == numbers[row]).all(axis=1)
    return same


def with_anchor_rows(context: EvaluationContext, rows: Mask) -> EvaluationContext:
    """Return the context in which the first node can only go to some rows."""
    evaluation = context.evaluation.copy()
    for number, filter_ in enumerate(context.bound.filters):
        if any("group" in declared.fields for declared in filter_.reads):
            evaluation.verdicts[number] &= rows
    evaluation.cost[~rows] = INFINITE_COST
    return replace(context, evaluation=evaluation)


def try_alternatives(
    context: EvaluationContext, schedule: Callable[[EvaluationContext], Batch]
) -> list[Attempt]:
    """Return an attempt for each alternative, in order, up to the one that places the last node.

    Where a group that must stay together does not fit where one alternative fits best, the next
    anchors are tried with all alternatives, as :func:`try_anchors` does with one.
    """
    best = attempts = _try_in_order(context, schedule)
    if not context.request.fallbacks or not needs_anchor(context.request):
        return best
    open_rows = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        nodes = [node for attempt in attempts for node in attempt.batch.nodes]
        if len(nodes) in (0, context.request.count):
            break
        open_rows &= ~rows_in_same_domains(context, nodes[0].chosen.row)
        attempts = _try_in_order(context, schedule, open_rows)
        if _count_nodes(attempts) > _count_nodes(best):
            best = attempts
    return best


def _try_in_order(
    context: EvaluationContext,
    schedule: Callable[[EvaluationContext], Batch],
    open_rows: Mask | None = None,
) -> list[Attempt]:
    """Try each alternative once; with ``open_rows`` the first node can only go to these rows."""
    attempts: list[Attempt] = []
    for alternative in (None, *context.request.fallbacks):
        missing = context.request.count - _count_nodes(attempts)
        if not missing:
            break
        current = (
            context if alternative is None else _next_context(attempts[-1], alternative, missing)
        )
        if open_rows is None:
            attempts.append(try_anchors(current, schedule))
            continue
        current = current if _count_nodes(attempts) else with_anchor_rows(current, open_rows)
        attempts.append(Attempt(current, schedule(current)))
    return attempts


def _count_nodes(attempts: list[Attempt]) -> int:
    return sum(len(attempt.batch.nodes) for attempt in attempts)


def _next_context(last: Attempt, alternative: Alternative, count: int) -> EvaluationContext:
    """Return the context of an alternative on what the last one left, with its group state."""
    view = last.batch.view
    request = msgspec.structs.replace(
        last.batch.request,
        needs=alternative.needs,
        bonds=alternative.bonds,
        count=count,
        min_count=None,
    )
    evaluation = evaluate(view, request, last.context.bound, strict=last.context.strict)
    fitter = Fitter(request.needs, view.kinds, request.bonds)
    return replace(last.context, view=view, request=request, evaluation=evaluation, fitter=fitter)


def count_fits(context: EvaluationContext, most: int) -> Iterator[tuple[int, int]]:
    """Yield ``(podm number, nodes)``: how many more nodes each podm makes one after another.

    At most ``most`` a podm. Placing one after another, least waste first, gives a lower bound:
    packing a whole pod at its best is a harder problem.
    """
    first_row = context.view.first_row.tolist()
    for podm, (first, last) in enumerate(itertools.pairwise(first_row)):
        attempts = try_alternatives(context.window(first, last, most), _place_best_first)
        yield podm, _count_nodes(attempts)


def _place_best_first(context: EvaluationContext) -> Batch:
    return place(context, rank_rows)
