# SPDX-License-Identifier: Apache-2.0
"""Lookahead: evaluates the next node of several pods in one call.

Evaluating one pod again costs almost as much as evaluating sixty, so a batch that spreads over
pods looks ahead: it takes the next node of several pods on the overlay, evaluates them together,
and stores each result until that pod's turn comes. A pod from which another node is taken is
put back as it was. The outcome is the same to the bit as without looking ahead.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from valence_sched.core.evaluate import reevaluate, reevaluate_group_state
from valence_sched.core.evaluation import (
    INFINITE_COST,
    Evaluation,
    EvaluationContext,
    row_weights,
    write_costs,
)
from valence_sched.core.fit.fit import Fit
from valence_sched.core.fit.spending import Undecided
from valence_sched.core.group_state import affects_own_podm_only, with_members
from valence_sched.core.ranking import order_by_lot
from valence_sched.model.request import Request
from valence_sched.view.overlay import Change, Overlay
from valence_sched.view.view import Floats, Ints, Mask, View

MOST_AHEAD = 128  # pods looked ahead at once, at most


class _NextNode(Struct, frozen=True, gc=False):
    """A pod one node ahead: the fit that was taken, its undo, and its rows evaluated after it.

    They are ``rows`` of the evaluation of all pods that were evaluated together.
    """

    fit: Fit
    undo: Change
    verdicts: Mask
    scores: Floats
    cost: Ints
    rows: slice


class Lookahead:
    """The overlay and the evaluation of a batch; ``take`` updates both by one node."""

    def __init__(self, context: EvaluationContext, most_ahead: int = MOST_AHEAD) -> None:
        self._context = context
        self._overlay = Overlay(context.view)
        self.view, self.evaluation = self._overlay.view, context.evaluation.copy()
        self._verdicts, self._scores = self.evaluation.verdicts, self.evaluation.scores
        #: the rows whose costs the last node may have changed
        self.changed_rows: Sequence[int] | Ints = ()
        self._request = context.request
        self._new_member_rows: list[int] = []  # rows of nodes that are not counted yet
        self._ahead: dict[int, _NextNode] = {}
        group_readers = self.evaluation.group_state_readers
        #: such plug-ins are called with a view on which no pod is one node ahead
        self._reads_both = bool(group_readers & self.evaluation.availability_readers)
        #: then the group state of the next node can be evaluated ahead, too
        own_only = affects_own_podm_only(context.request, context.bound, group_readers)
        self._own_podm_only = own_only and not self._reads_both
        self._weights = row_weights(context.view, context.bound) if group_readers else None
        self._most_ahead = 1 if context.request.alternates or self._reads_both else most_ahead
        self._count_ahead = 1
        self._hits = 0
        self._left = context.request.count - 1  # nodes to take: the last one is only chosen
        self._last = -1

    @property
    def request(self) -> Request:
        """Return the request with a group state that counts the nodes placed up to now."""
        if self._new_member_rows:
            self._request = with_members(self._context.view, self._request, self._new_member_rows)
            self._new_member_rows = []
        return self._request

    def fit(self, row: int) -> Fit | Undecided | None:
        """Return the fit of a row as it is now, whether its pod is one node ahead or not."""
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
            self._adapt(podm)
            self._evaluate_ahead([fit, *self._likely_fits(podm)])
        else:
            self._hits += 1
        self._last = podm
        self._left -= 1
        ahead = self._ahead.pop(podm)
        first, last = self._overlay.rows(podm)
        rows, part = slice(first, last), ahead.rows
        self._verdicts[:, rows] = ahead.verdicts[:, part]
        self._scores[:, rows] = ahead.scores[:, part]
        self.evaluation.cost[rows] = ahead.cost[part]
        self.changed_rows = range(first, last)
        if self.evaluation.group_state_readers:
            self._new_member_rows.append(fit.row)
            if not self._own_podm_only:
                self.changed_rows = self._reevaluate_group_state(first, last)
        return first, last

    def _reevaluate_group_state(self, first: int, last: int) -> Ints:
        """Evaluate every row again with the present group state; return which costs changed."""
        context, evaluation = self._context, self.evaluation
        view = self.view.without_memo() if self._reads_both else context.view
        bound, strict = context.bound, context.strict
        changed = reevaluate_group_state(view, self.request, bound, evaluation, strict)
        changed[first:last] = True
        rows = changed.nonzero()[0]
        part = evaluation.select(rows)
        self._write_costs(part, rows)
        evaluation.cost[rows] = part.cost
        return rows

    def close(self) -> None:
        """Put back every pod that is one node ahead, so that the view shows the present state."""
        self._overlay.apply([ahead.undo for ahead in self._ahead.values()])
        self._ahead.clear()

    def _adapt(self, podm: int) -> None:
        """Look twice as far ahead when that paid, or when pods take turns; else half as far."""
        count = self._count_ahead
        paid = self._hits * 2 >= count - 1 if count > 1 else podm != self._last
        self._count_ahead = min(self._most_ahead, count * 2) if paid else max(1, count // 2)
        self._hits = 0

    def _likely_fits(self, chosen_podm: int) -> list[Fit]:
        """Return the fits of the pods that are best now, at most as many as to look ahead at.

        No more than nodes are left, and only those that a short search settles: the others are left
        to their turn.
        """
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
        """Take these fits on the overlay and evaluate all their pods together."""
        changes = self._overlay.allocate_each((fit.row, fit.blocks, fit.grants) for fit in fits)
        spans = [self._overlay.rows(change[0]) for change in changes]
        rows = np.array([row for first, last in spans for row in range(first, last)])
        evaluation = self.evaluation.select(rows)
        view = self._overlay.window(*spans[0]) if len(fits) == 1 else self._overlay.take(rows)
        view.precompute_free(self._context.request.needs)
        self._reevaluate(view, fits, evaluation, rows)
        tables = evaluation.verdicts, evaluation.scores, evaluation.cost
        low = 0
        for fit, change, (first, last) in zip(fits, changes, spans, strict=True):
            high = low + last - first
            self._ahead[change[0]] = _NextNode(fit, change, *tables, slice(low, high))
            low = high

    def _reevaluate(self, view: View, fits: list[Fit], evaluation: Evaluation, rows: Ints) -> None:
        bound, strict = self._context.bound, self._context.strict
        reevaluate(view, self.request, bound, evaluation, strict=strict)
        if evaluation.group_state_readers and self._own_podm_only:
            request = with_members(self._context.view, self.request, [fit.row for fit in fits])
            reevaluate_group_state(view, request, bound, evaluation, strict=strict)
            self._write_costs(evaluation, rows)

    def _write_costs(self, evaluation: Evaluation, rows: Ints) -> None:
        weights = self._weights
        write_costs(evaluation, self._context.bound, None if weights is None else weights[:, rows])
