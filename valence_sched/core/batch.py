# SPDX-License-Identifier: Apache-2.0
"""Batches: places the nodes of one request one after another on a private overlay."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from valence_sched.core import plugins
from valence_sched.core.evaluation import INFINITE_COST, Evaluation, EvaluationContext
from valence_sched.core.fit.fit import Fit
from valence_sched.core.ranking import CostListener, FitFinder, RowOrder, alternate_fits, choose_fit
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.core.lookahead import Lookahead

#: Alternates found beyond those asked for: the ones that other nodes rule out are dropped at last.
SPARE_ALTERNATES = 16


class PlacedNode(Struct, frozen=True, gc=False):
    """One node: the fit that was chosen, its scores, cost, and the fits of its alternates."""

    chosen: Fit
    cost: int
    scores: tuple[float, ...]
    alternates: tuple[tuple[Fit, int, tuple[float, ...]], ...] = ()


@dataclass(slots=True)
class Batch:
    """The outcome: nodes in order; view, evaluation and request as the last node left them.

    ``undecided_rows`` are those that would have been chosen if they made the node, which was not
    settled. No placement has more nodes than ``bound``, where a scheduler proves one.
    """

    nodes: list[PlacedNode]
    view: View
    evaluation: Evaluation
    request: Request
    rows_without_fit: set[int] = field(default_factory=set)
    undecided_rows: set[int] = field(default_factory=set)
    bound: int | None = None


def schedule(context: EvaluationContext) -> Batch:
    """Place the nodes of a request by the scheduler that its policy names."""
    batch: Batch = _scheduler_class(context)().schedule(context)
    return batch


def goes_by_cost(context: EvaluationContext) -> bool:
    """Return whether the scheduler of a policy takes the pools in the order of their cost."""
    return bool(getattr(_scheduler_class(context), "goes_by_cost", False))


def plans_batches(policy: Policy) -> bool:
    """Return whether the scheduler of a policy plans several requests as one."""
    scheduler = plugins.load(plugins.SCHEDULERS).get(policy.scheduler)
    return bool(getattr(scheduler, "plans_batches", False))


def _scheduler_class(context: EvaluationContext) -> Any:
    return plugins.load(plugins.SCHEDULERS).get(context.bound.policy.scheduler)


def place(
    context: EvaluationContext, order: RowOrder, cost_listener: CostListener = lambda rows: None
) -> Batch:
    """Place as many nodes as the request asks for, or as many as fit.

    Each node is chosen as if those before it had been composed. The shared view is never
    written: an overlay takes the nodes, and only the rows of the podm that gave blocks are
    evaluated again, several podms at a time (``lookahead``). Plug-ins that read the group state of
    the request evaluate every row again. ``cost_listener`` gets the rows whose costs may change.
    Of a context with a plan the planned nodes are placed, but for those that a filter now rejects.
    """
    request = context.request
    batch = Batch([], context.view, context.evaluation, request)
    ahead: Lookahead | None = None
    fits: FitFinder = functools.partial(context.fit, context.view)
    planned = None if context.planned is None else iter(context.planned[0])
    if context.earlier:
        ahead = _look_ahead(context, far=False)
        for fit_ in context.earlier:
            ahead.take(fit_)
        batch.view, batch.evaluation, fits = ahead.view, ahead.evaluation, ahead.fit
    for turn in range(context.turn, context.turn + request.count):
        if planned is not None:
            fit = _next_planned(planned, batch.evaluation)
        else:
            rows = order(batch.view, batch.evaluation.cost, request, turn)
            best_of, unfit = context.bound.policy.pick.best_of, batch.rows_without_fit
            undecided = batch.undecided_rows
            fit = choose_fit(batch.view, rows, fits, request, best_of, turn, unfit, undecided)
        if fit is None:
            break
        others: list[Fit] = []
        if request.alternates:
            rows = order(batch.view, batch.evaluation.cost, request, turn)
            most = request.alternates + _spare_alternates(context)
            others = alternate_fits(batch.view, rows, fits, fit, most)
        batch.nodes.append(_placed_node(batch.evaluation, fit, others))
        if len(batch.nodes) < request.count:
            if ahead is None:
                # the fits of a plan are not those that a look ahead expects
                ahead = _look_ahead(context, far=planned is None)
                batch.view, batch.evaluation, fits = ahead.view, ahead.evaluation, ahead.fit
            first, last = ahead.take(fit)
            batch.rows_without_fit.difference_update(range(first, last))
            cost_listener(ahead.changed_rows)
    if ahead is not None:
        ahead.close()
        batch.request = ahead.request
    return batch


def _next_planned(planned: Iterator[Fit], evaluation: Evaluation) -> Fit | None:
    return next((fit for fit in planned if evaluation.cost[fit.row] != INFINITE_COST), None)


def _spare_alternates(context: EvaluationContext) -> int:
    request, others = context.request, context.request.count - 1 + context.other_nodes
    ruled = request.group is not None and request.group.hard
    return SPARE_ALTERNATES if ruled and others else min(others, SPARE_ALTERNATES)


def _look_ahead(context: EvaluationContext, *, far: bool) -> Lookahead:
    from valence_sched.core.lookahead import MOST_AHEAD, Lookahead  # only for several nodes

    return Lookahead(context, MOST_AHEAD if far else 1)


def _placed_node(evaluation: Evaluation, fit: Fit, others: list[Fit]) -> PlacedNode:
    alternates = tuple([(other, *_cost_and_scores(evaluation, other.row)) for other in others])
    return PlacedNode(fit, *_cost_and_scores(evaluation, fit.row), alternates)


def _cost_and_scores(evaluation: Evaluation, row: int) -> tuple[int, tuple[float, ...]]:
    return int(evaluation.cost[row]), evaluation.scores_of(row)
