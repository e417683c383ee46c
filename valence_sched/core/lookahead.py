# SPDX-License-Identifier: Apache-2.0
"""What the pods that come next will look like once their node is taken, judged many at once.

Judging one pod again costs almost as much as judging sixty, so a batch that spreads over pods
looks ahead: it takes the next node of several pods in the draft, judges them together, and
keeps each answer until that pod's turn comes. A pod whose turn comes otherwise is put back as
it was. The outcome is the same to the bit as without looking ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from valence_sched.core.costs import row_weights, write_costs
from valence_sched.core.evaluate import reevaluate, reevaluate_group_state
from valence_sched.core.evaluation import INFINITE_COST, Evaluation, EvaluationContext
from valence_sched.core.fit.fit import Fit
from valence_sched.core.group_state import affects_own_podm_only, with_members
from valence_sched.core.ranking import order_by_lot
from valence_sched.model.request import Request
from valence_sched.view.overlay import Change, Overlay
from valence_sched.view.view import Floats, Ints, Mask, View

MOST_AHEAD = 64  # pods looked ahead at once, at most


@dataclass(slots=True)
class _NextNode:
    """A pod one node ahead: the fit that was taken, what gives it back, its rows judged after."""

    fit: Fit
    undo: Change
    verdicts: Mask
    scores: Floats
    cost: Ints


class Lookahead:
    """The draft and the judgement of a batch; ``take`` moves both on by one node."""

    def __init__(self, context: EvaluationContext, most_ahead: int = MOST_AHEAD) -> None:
        self._context = context
        self._overlay = Overlay(context.view)
        self.view, self.evaluation = self._overlay.view, context.evaluation.copy()
        self.changed_rows: (
            Sequence[int] | Ints
        ) = ()  # the rows whose costs the last node may have changed
        self._request = context.request
        self._new_member_rows: list[int] = []  # rows of nodes that the company does not know of yet
        self._ahead: dict[int, _NextNode] = {}
        social = self.evaluation.group_state_readers
        #: whoever looks at both must be asked of a view on which no pod was looked ahead at
        self._reads_both = bool(social & self.evaluation.availability_readers)
        #: where a node's company matters to the rows of its own podm alone, that is looked ahead at
        self._own_podm_only = not self._reads_both and affects_own_podm_only(
            context.request, context.bound, social
        )
        self._weights = row_weights(context.view, context.bound) if social else None
        self._most_ahead = 1 if context.request.alternates or self._reads_both else most_ahead
        self._count_ahead = 1
        self._hits = 0
        self._last = -1

    @property
    def request(self) -> Request:
        """Return the request with the company that its nodes have made up to now."""
        if self._new_member_rows:
            self._request = with_members(self._context.view, self._request, self._new_member_rows)
            self._new_member_rows = []
        return self._request

    def fit(self, row: int) -> Fit | None:
        """Return the fit of a row as it stands, whether its pod was looked ahead at or not."""
        podm = int(self.view.podm_of[row])
        found = self._ahead.get(podm)
        if found is not None:
            if found.fit.row == row:
                return found.fit
            self._overlay.apply([self._ahead.pop(podm).undo])
        return self._context.fitter.fit(self.view, row)

    def take(self, fit: Fit) -> tuple[int, int]:
        """Take the blocks and amounts of a fit; return the rows that may have changed."""
        podm = int(self.view.podm_of[fit.row])
        if podm not in self._ahead:
            self._adapt(podm)
            self._evaluate_ahead([fit, *self._likely_fits(podm)])
        else:
            self._hits += 1
        self._last = podm
        found = self._ahead.pop(podm)
        first, last = self._overlay.rows(podm)
        self.evaluation.verdicts[:, first:last] = found.verdicts
        self.evaluation.scores[:, first:last] = found.scores
        self.evaluation.cost[first:last] = found.cost
        self.changed_rows = range(first, last)
        if self.evaluation.group_state_readers:
            self._new_member_rows.append(fit.row)
            if not self._own_podm_only:
                self.changed_rows = self._reevaluate_group_state(first, last)
        return first, last

    def _reevaluate_group_state(self, first: int, last: int) -> Ints:
        """Judge every row again by the company that the request has now; return what changed."""
        view: View = self._context.view
        if self._reads_both:
            view = self.view.without_memo()
        case, judgement = self._context, self.evaluation
        moved = reevaluate_group_state(
            view, self.request, case.bound, judgement, strict=case.strict
        )
        moved[first:last] = True
        rows = moved.nonzero()[0]
        part = judgement.select(rows)
        self._write_costs(part, rows)
        judgement.cost[rows] = part.cost
        return rows

    def close(self) -> None:
        """Put back every pod that was looked ahead at, so that the view shows what is."""
        self._overlay.apply([found.undo for found in self._ahead.values()])
        self._ahead.clear()

    def _adapt(self, podm: int) -> None:
        """Look twice as far when that paid, or when pods take turns; else half as far."""
        paid = (
            self._hits * 2 >= self._count_ahead - 1 if self._count_ahead > 1 else podm != self._last
        )
        self._count_ahead = (
            min(self._most_ahead, self._count_ahead * 2) if paid else max(1, self._count_ahead // 2)
        )
        self._hits = 0

    def _likely_fits(self, chosen_podm: int) -> list[Fit]:
        """Return the fits of the pods that are best now, at most as many as pay to look at."""
        wanted = self._count_ahead - 1
        if not wanted:
            return []
        cost = self.evaluation.cost
        near = np.argpartition(cost, min(4 * wanted, len(cost) - 1))[: 4 * wanted]
        near = order_by_lot(self.view, near, self._context.request)
        near = near[np.argsort(cost[near], kind="stable")]
        near = near[cost[near] != INFINITE_COST]
        found: dict[int, Fit] = {}
        for row, podm in zip(near.tolist(), self.view.podm_of[near].tolist(), strict=True):
            if podm == chosen_podm or podm in found or podm in self._ahead:
                continue
            fit = self._context.fitter.fit(self.view, row)
            if fit is not None:
                found[podm] = fit
                if len(found) == wanted:
                    break
        return list(found.values())

    def _evaluate_ahead(self, fits: list[Fit]) -> None:
        """Take these fits in the draft and judge all their pods together."""
        taken = self._overlay.allocate_each((fit.row, fit.blocks, fit.grants) for fit in fits)
        spans = [self._overlay.rows(podm) for podm, *_ in taken]
        rows = np.array([row for first, last in spans for row in range(first, last)])
        part = self.evaluation.select(rows)
        now = self._overlay.window(*spans[0]) if len(fits) == 1 else self._overlay.take(rows)
        now.precompute_free(self._context.request.needs)
        self._reevaluate(now, fits, part, rows)
        low = 0
        for fit, before, (first, last) in zip(fits, taken, spans, strict=True):
            high = low + last - first
            self._ahead[before[0]] = _NextNode(
                fit,
                before,
                part.verdicts[:, low:high],
                part.scores[:, low:high],
                part.cost[low:high],
            )
            low = high

    def _reevaluate(self, now: View, fits: list[Fit], part: Evaluation, rows: Ints) -> None:
        """Judge ``rows`` as they stand ``now`` that these fits are taken."""
        bound, strict = self._context.bound, self._context.strict
        reevaluate(now, self.request, bound, part, strict=strict)
        if part.group_state_readers and self._own_podm_only:
            request = with_members(self._context.view, self.request, [fit.row for fit in fits])
            reevaluate_group_state(now, request, bound, part, strict=strict)
            self._write_costs(part, rows)

    def _write_costs(self, part: Evaluation, rows: Ints) -> None:
        weights = self._weights
        write_costs(part, self._context.bound, None if weights is None else weights[:, rows])
