# SPDX-License-Identifier: Apache-2.0
"""Batches: places the nodes of one request one after another on a private overlay.

The alternatives of the request are tried in order. If a group must stay together, its first node
fixes one domain value for all nodes: the anchor. Other anchors are tried if nodes do not fit.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import Struct, structs

from valence_sched.core import plugins
from valence_sched.core.evaluation import (
    Evaluation,
    EvaluationContext,
    context_of,
    reevaluate,
    reevaluate_group_state,
    row_weights,
    write_costs,
)
from valence_sched.core.fit.fit import Fit, Undecided
from valence_sched.core.group_state import affects_own_podm_only, with_members
from valence_sched.core.policy import COST_SCALE, INFINITE_COST, BoundPolicy
from valence_sched.core.ranking import FitFinder, RowOrder, alternate_fits, choose_fit, order_by_lot
from valence_sched.model.decision import BlockRef, Candidate, GrantRef
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.view.overlay import Change, Overlay
from valence_sched.view.view import Ints, Mask, View, domain_index

#: The number of alternates found beyond the requested number, because some are dropped at the end.
SPARE_ALTERNATES = 16
MOST_AHEAD = 128  # the largest number of podms that are evaluated ahead together
Schedule = Callable[[EvaluationContext], "Batch"]
AttemptListener = Callable[[int, "list[Attempt]"], None]

MOST_ANCHORS = 64  # anchors tried for one group; the anchor with most nodes is used


class PlacedNode(Struct, frozen=True, gc=False):
    """One node: the chosen fit, its cost and scores, and the fits of its alternates."""

    chosen: Fit
    cost: int
    scores: tuple[float, ...]
    alternates: tuple[tuple[Fit, int, tuple[float, ...]], ...] = ()


@dataclass(slots=True)
class Batch:
    """The placed nodes, and the view, evaluation and request after the last node.

    The ``undecided_rows`` might have been chosen. ``bound`` is a proven upper bound, if known.
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
    with plugins.plugin_errors(f"scheduler {context.bound.policy.scheduler!r}"):
        batch: Batch = context.bound.scheduler().schedule(context)
    return batch


def goes_by_cost(policy: Policy) -> bool:
    """Return whether the scheduler of a policy takes the pools in the order of their cost."""
    scheduler = plugins.load(plugins.SCHEDULERS).get(policy.scheduler)
    return bool(getattr(scheduler, "goes_by_cost", False))


def place(context: EvaluationContext, order: RowOrder) -> Batch:
    """Place the ``count`` nodes of a request, or as many as fit, as if each were composed.

    An overlay takes each node; only rows that it affects are evaluated again (``Lookahead``). The
    fits of a plan in the context are placed unless a filter rejects them.
    """
    request = context.request
    batch = Batch([], context.view, context.evaluation, request)
    ahead: Lookahead | None = None
    fits: FitFinder = functools.partial(context.fit, context.view)
    planned = None if context.planned is None else iter(context.planned[0])
    if context.earlier:
        ahead = Lookahead(context, 1)
        for fit_ in context.earlier:
            ahead.take(fit_)
        batch.view, batch.evaluation, fits = ahead.view, ahead.evaluation, ahead.fit
    for turn in range(context.turn, context.turn + request.count):
        if planned is not None:
            cost = batch.evaluation.cost
            fit = next((one for one in planned if cost[one.row] != INFINITE_COST), None)
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
            rest, group = request.count - 1 + context.other_nodes, request.group
            if rest and group is not None and group.hard:
                rest = SPARE_ALTERNATES
            most = request.alternates + min(rest, SPARE_ALTERNATES)
            others = alternate_fits(batch.view, rows, fits, fit, most)
        cost, scores_of = batch.evaluation.cost, batch.evaluation.scores_of
        alternates = tuple([(one, int(cost[one.row]), scores_of(one.row)) for one in others])
        batch.nodes.append(PlacedNode(fit, int(cost[fit.row]), scores_of(fit.row), alternates))
        if len(batch.nodes) < request.count:
            if ahead is None:
                # Lookahead cannot foresee the fits of a plan
                ahead = Lookahead(context, MOST_AHEAD if planned is None else 1)
                batch.view, batch.evaluation, fits = ahead.view, ahead.evaluation, ahead.fit
            first, last = ahead.take(fit)
            batch.rows_without_fit.difference_update(range(first, last))
    if ahead is not None:
        ahead.close()
        batch.request = ahead.request
    return batch


def ranked_nodes(
    context: EvaluationContext, order: RowOrder, limit: int, *, per_podm: bool = False
) -> tuple[list[PlacedNode], list[int]]:
    """Return the nodes on the ``limit`` best pools (one ``per_podm``), and the undecided rows."""
    view, evaluation = context.view, context.evaluation
    find_fit: FitFinder = functools.partial(context.fit, view)
    if context.earlier and limit:
        ahead = Lookahead(context, 1)
        for fit in context.earlier:
            ahead.take(fit)
        view, evaluation, find_fit = ahead.view, ahead.evaluation, ahead.fit
    nodes: list[PlacedNode] = []
    open_rows: list[int] = []
    podms: set[int] = set()
    for row in order(view, evaluation.cost, context.request, context.turn):
        if len(nodes) == limit:
            break
        podm = int(view.podm_of[row])
        if per_podm and podm in podms:
            continue
        found = find_fit(row)
        if isinstance(found, Undecided):
            open_rows.append(row)
        elif found is not None:
            nodes.append(PlacedNode(found, int(evaluation.cost[row]), evaluation.scores_of(row)))
            podms.add(podm)
    return nodes, open_rows


def candidate_of(
    context: EvaluationContext, fit: Fit, cost: int, scores: tuple[float, ...]
) -> Candidate:
    """Return a fit on a pool of a context as a candidate, with its score, blocks and amounts."""
    view, bound = context.view, context.bound
    table, kinds = view.block_tables[view.podm_of[fit.row]], view.kinds.kinds
    stocks = [(table.stocks[number], amount) for number, amount in fit.grants]
    names = [weigher.name for weigher in bound.weighers]
    return Candidate(
        podm=view.podm(fit.row).id,
        pool=view.pools[fit.row].id,
        score=score_of(bound, cost),
        cost=cost,
        scores={n: round(score, 6) for n, score in zip(names, scores, strict=True)},
        blocks=tuple(
            BlockRef(uri=table.uris[block], type=kinds[table.kinds[block]].types)
            for block in fit.blocks
        ),
        grants=tuple(
            GrantRef(uri=one.uri, resource=one.resource, amount=amount, unit=one.unit)
            for one, amount in stocks
        ),
        waste=fit.waste,
    )


def score_of(bound: BoundPolicy, cost: int) -> float:
    """Return the score 0..1 of a cost under a policy."""
    worst = bound.worst_cost * COST_SCALE
    return round(1.0 - cost / worst, 6) if worst else 1.0


class Attempt(Struct, frozen=True):
    """One alternative that was tried: its context, and the nodes placed."""

    context: EvaluationContext
    batch: Batch


def _best_by_anchor(
    context: EvaluationContext, attempt: Callable[..., list[Attempt]]
) -> list[Attempt]:
    """Return the attempts at the anchor where most nodes fit; cheap anchors are tried first."""
    best = attempts = attempt()
    open_rows = np.ones(len(context.view), dtype=bool)
    for _ in range(MOST_ANCHORS):
        nodes = [node for one in attempts for node in one.batch.nodes]
        if len(nodes) in (0, context.request.count):
            break
        row, same = nodes[0].chosen.row, np.ones(len(context.view), dtype=bool)
        for domain in context.request.group.affinity if context.request.group else ():
            numbers = domain_index(context.view, domain).numbers
            same &= (numbers == numbers[row]).all(axis=1)
        open_rows &= ~same  # leaves the rows outside the domain values already tried
        attempts = attempt(open_rows)
        better = _count_nodes(attempts) > _count_nodes(best)
        best, other = (attempts, best) if better else (best, attempts)
        for one in other:  # an anchor with an undecided pool might have been better
            best[0].batch.undecided_rows.update(one.batch.undecided_rows)
    return best


def needs_anchor(request: Request) -> bool:
    """Return whether the domain value of the first node fixes the value of all other nodes."""
    group = request.group
    return group is not None and not all(map(request.group_state.decides, group.affinity))


def with_anchor_rows(context: EvaluationContext, rows: Mask) -> EvaluationContext:
    """Return the context in which only some rows can take the first node."""
    evaluation = context.evaluation.copy()
    for number, filter_ in enumerate(context.bound.filters):
        if any("group" in declared.fields for declared in filter_.reads):
            evaluation.verdicts[number] &= rows
    evaluation.cost[~rows] = INFINITE_COST
    return replace(context, evaluation=evaluation)


def try_alternatives(context: EvaluationContext, schedule: Schedule) -> list[Attempt]:
    """Return an attempt for each alternative, in order, up to the one that places the last node."""
    attempt = functools.partial(_try_in_order, context, schedule)
    if context.request.other_alternatives and needs_anchor(context.request):
        return _best_by_anchor(context, attempt)
    return attempt()


def _try_in_order(
    context: EvaluationContext, schedule: Schedule, open_rows: Mask | None = None
) -> list[Attempt]:
    """Try each alternative once; with ``open_rows``, only these rows can take the first node."""
    attempts: list[Attempt] = []
    for alternative in (None, *context.request.other_alternatives):
        missing = context.request.count - _count_nodes(attempts)
        if not missing:
            break
        current = context
        if alternative is not None:  # it continues where the alternative before it ended
            before, last = attempts[-1].context, attempts[-1].batch
            request = structs.replace(
                last.request,
                needs=alternative.needs,
                topology=alternative.topology,
                count=missing,
                min_count=None,
            )
            current = replace(
                context_of(last.view, request, before.bound, strict=before.strict),
                other_nodes=before.other_nodes,
                spending=before.spending,
                planned=None if before.planned is None else before.planned[1:],
            )
        if open_rows is None and needs_anchor(current.request):
            attempts += _best_by_anchor(current, functools.partial(_attempt, current, schedule))
        elif _count_nodes(attempts):  # the first node is placed: its anchor is fixed
            attempts += _attempt(current, schedule)
        else:
            attempts += _attempt(current, schedule, open_rows)
    return attempts


def _attempt(
    context: EvaluationContext, schedule: Schedule, open_rows: Mask | None = None
) -> list[Attempt]:
    if open_rows is not None:
        context = with_anchor_rows(context, open_rows)
    return [Attempt(context, schedule(context))]


def _count_nodes(attempts: list[Attempt]) -> int:
    return sum(len(attempt.batch.nodes) for attempt in attempts)


class _NextNode(Struct, frozen=True, gc=False):
    """The next node of a podm, taken ahead of its turn, and the evaluation of the podm."""

    fit: Fit
    undo: Change
    evaluation: Evaluation


class Lookahead:
    """The overlay and the evaluation of a batch; ``take`` updates both by one node.

    Evaluating one podm costs almost as much as sixty. So the overlay takes the next node of several
    podms, and stores each result until its podm is chosen; the outcome is the same.
    """

    def __init__(self, context: EvaluationContext, most_ahead: int = MOST_AHEAD) -> None:
        self._context = context
        self._overlay = Overlay(context.view)
        self.view, self.evaluation = self._overlay.view, context.evaluation.copy()
        self._request = context.request
        self._new_member_rows: list[int] = []  # rows of nodes that are not counted yet
        self._ahead: dict[int, _NextNode] = {}
        group_readers = self.evaluation.group_state_readers
        #: a plug-in that reads free capacity and the group must not see nodes taken ahead
        self._reads_both = bool(group_readers & self.evaluation.availability_readers)
        #: if a node affects only its own podm, its group state can be evaluated ahead, too
        own_only = affects_own_podm_only(context.request, context.bound, group_readers)
        self._own_podm_only = own_only and not self._reads_both
        self._weights = row_weights(context.view, context.bound) if group_readers else None
        self._most_ahead = 1 if context.request.alternates or self._reads_both else most_ahead
        self._count_ahead, self._hits = 1, 0
        self._last = -1  # the podm of the last node
        self._left = context.request.count - 1  # the last node is chosen but not taken

    @property
    def request(self) -> Request:
        """Return the request whose group state counts the nodes placed so far."""
        if self._new_member_rows:
            self._request = with_members(self._context.view, self._request, self._new_member_rows)
            self._new_member_rows = []
        return self._request

    def fit(self, row: int) -> Fit | Undecided | None:
        """Return the present fit of a row, even if the next node of its podm was taken ahead."""
        podm = int(self.view.podm_of[row])
        ahead = self._ahead.get(podm)
        if ahead is not None:
            if ahead.fit.row == row:
                return ahead.fit
            self._overlay.apply([self._ahead.pop(podm).undo])
        return self._context.fit(self.view, row)

    def take(self, fit: Fit) -> tuple[int, int]:
        """Take the blocks and amounts of a fit; return the rows that may have changed."""
        podm = int(self.view.podm_of[fit.row])
        if podm not in self._ahead:
            # double the count if half of these podms were used, or podms alternate; else halve it
            count = self._count_ahead
            paid = self._hits * 2 >= count - 1 if count > 1 else podm != self._last
            self._count_ahead = min(self._most_ahead, count * 2) if paid else max(1, count // 2)
            self._hits = 0
            self._evaluate_ahead([fit, *self._likely_fits(podm)])
        else:
            self._hits += 1
        self._last = podm
        self._left -= 1
        ahead = self._ahead.pop(podm)
        first, last = self._overlay.rows(podm)
        self.evaluation.write(slice(first, last), ahead.evaluation)
        if self.evaluation.group_state_readers:
            self._new_member_rows.append(fit.row)
            if not self._own_podm_only:
                context, evaluation = self._context, self.evaluation
                view = self.view.without_memo() if self._reads_both else context.view
                bound, strict = context.bound, context.strict
                changed = reevaluate_group_state(view, self.request, bound, evaluation, strict)
                changed[first:last] = True
                again = changed.nonzero()[0]
                part = evaluation.select(again)
                self._write_costs(part, again)
                evaluation.cost[again] = part.cost
        return first, last

    def close(self) -> None:
        """Undo all nodes taken ahead, so that the view shows the present state."""
        self._overlay.apply([ahead.undo for ahead in self._ahead.values()])
        self._ahead.clear()

    def _likely_fits(self, chosen_podm: int) -> list[Fit]:
        """Return the present fits of the best podms, if the short search finds them."""
        count = min(self._count_ahead, self._left) - 1
        if count < 1:
            return []
        cost = self.evaluation.cost
        rows = np.argpartition(cost, min(4 * count, len(cost) - 1))[: 4 * count]
        rows = order_by_lot(self.view, rows, self._context.request)
        rows = rows[np.argsort(cost[rows], kind="stable")]
        rows = rows[cost[rows] != INFINITE_COST]
        ahead: dict[int, Fit] = {}
        for row, podm in zip(rows.tolist(), self.view.podm_of[rows].tolist(), strict=True):
            if podm == chosen_podm or podm in ahead or podm in self._ahead:
                continue
            fit = self._context.fitter.quick_fit(self.view, row)
            if fit is not None:
                ahead[podm] = fit
                if len(ahead) == count:
                    break
        return list(ahead.values())

    def _evaluate_ahead(self, fits: list[Fit]) -> None:
        changes = self._overlay.allocate_each((fit.row, fit.blocks, fit.grants) for fit in fits)
        spans = [self._overlay.rows(change[0]) for change in changes]
        rows = np.array([row for first, last in spans for row in range(first, last)])
        evaluation = self.evaluation.select(rows)
        view = self.view.window(*spans[0]) if len(fits) == 1 else self.view.take(rows)
        view.precompute_free(self._context.request.needs)
        bound, strict = self._context.bound, self._context.strict
        reevaluate(view, self.request, bound, evaluation, strict=strict)
        if evaluation.group_state_readers and self._own_podm_only:
            request = with_members(self._context.view, self.request, [fit.row for fit in fits])
            reevaluate_group_state(view, request, bound, evaluation, strict=strict)
            self._write_costs(evaluation, rows)
        low = 0
        for fit, change, (first, last) in zip(fits, changes, spans, strict=True):
            high = low + last - first
            self._ahead[change[0]] = _NextNode(fit, change, evaluation.select(slice(low, high)))
            low = high

    def _write_costs(self, evaluation: Evaluation, rows: Ints) -> None:
        weights = self._weights
        write_costs(evaluation, self._context.bound, None if weights is None else weights[:, rows])
