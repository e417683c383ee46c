# SPDX-License-Identifier: Apache-2.0
"""Alternatives: tries each alternative of a request, and each anchor of a group, in order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from valence_sched.core.batch import Batch
from valence_sched.core.evaluate import context_of
from valence_sched.core.evaluation import INFINITE_COST, EvaluationContext
from valence_sched.model.need import Alternative
from valence_sched.model.request import Request
from valence_sched.view.domains import domain_index
from valence_sched.view.view import Mask

Schedule = Callable[[EvaluationContext], Batch]

AttemptListener = Callable[[int, "list[Attempt]"], None]

MOST_ANCHORS = 64  # tried for one group; the one by which most nodes fit is taken


class Attempt(msgspec.Struct, frozen=True):
    """One alternative that was tried: the context it was decided from, and the nodes placed."""

    context: EvaluationContext
    batch: Batch


def try_anchors(context: EvaluationContext, schedule: Schedule) -> Attempt:
    """Place the nodes of a request; of a group that stays together, where most of them fit."""
    if not needs_anchor(context.request):
        return Attempt(context, schedule(context))

    def attempt(open_rows: Mask | None = None) -> list[Attempt]:
        narrowed = context if open_rows is None else with_anchor_rows(context, open_rows)
        return [Attempt(narrowed, schedule(narrowed))]

    return _best_by_anchor(context, attempt)[0]


def _best_by_anchor(
    context: EvaluationContext, attempt: Callable[..., list[Attempt]]
) -> list[Attempt]:
    """Return the attempts by the anchor at which most nodes fit; tried in the order of cost."""
    best = attempts = attempt()
    open_rows = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        nodes = [node for one in attempts for node in one.batch.nodes]
        if len(nodes) in (0, context.request.count):
            break
        open_rows &= ~rows_in_same_domains(context, nodes[0].chosen.row)
        attempts = attempt(open_rows)
        better = _count_nodes(attempts) > _count_nodes(best)
        best, other = (attempts, best) if better else (best, attempts)
        for attempt_ in other:  # it might have been the better one
            best[0].batch.undecided_rows.update(attempt_.batch.undecided_rows)
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


def try_alternatives(context: EvaluationContext, schedule: Schedule) -> list[Attempt]:
    """Return an attempt for each alternative, in order, up to the one that places the last node.

    Where a group that must stay together does not fit where one alternative fits best, the next
    anchors are tried with all alternatives, as :func:`try_anchors` does with one.
    """
    if not context.request.fallbacks or not needs_anchor(context.request):
        return _try_in_order(context, schedule)
    return _best_by_anchor(context, functools.partial(_try_in_order, context, schedule))


def _try_in_order(
    context: EvaluationContext, schedule: Schedule, open_rows: Mask | None = None
) -> list[Attempt]:
    """Try each alternative once; with ``open_rows`` the first node can only go to these rows."""
    attempts: list[Attempt] = []
    for alternative in (None, *context.request.fallbacks):
        missing = context.request.count - _count_nodes(attempts)
        if not missing:
            break
        current = context
        if alternative is not None:
            current = _next_context(attempts[-1], alternative, missing)
        if open_rows is None:
            attempts.append(try_anchors(current, schedule))
            continue
        if not _count_nodes(attempts):
            current = with_anchor_rows(current, open_rows)
        attempts.append(Attempt(current, schedule(current)))
    return attempts


def _count_nodes(attempts: list[Attempt]) -> int:
    return sum(len(attempt.batch.nodes) for attempt in attempts)


def _next_context(last: Attempt, alternative: Alternative, count: int) -> EvaluationContext:
    """Return the context of an alternative on what the last one left, with its group state."""
    needs, bonds, before = alternative.needs, alternative.bonds, last.batch.request
    request = msgspec.structs.replace(before, needs=needs, bonds=bonds, count=count, min_count=None)
    context = context_of(last.batch.view, request, last.context.bound, strict=last.context.strict,
                         other_nodes=last.context.other_nodes,
                         spending=last.context.spending)  # fmt: skip
    planned = last.context.planned
    return context if planned is None else replace(context, planned=planned[1:])
