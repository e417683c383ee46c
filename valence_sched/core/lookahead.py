# SPDX-License-Identifier: Apache-2.0
"""What the pods that come next will look like once their node is taken, judged many at once.

Judging one pod again costs almost as much as judging sixty, so a batch that spreads over pods
looks ahead: it takes the next node of several pods in the draft, judges them together, and
keeps each answer until that pod's turn comes. A pod whose turn comes otherwise is put back as
it was. The outcome is the same to the bit as without looking ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from valence_sched.core.costs import add_up, row_weights
from valence_sched.core.evaluate import judge_again, judge_company
from valence_sched.core.evaluation import NEVER, Case, Judgement
from valence_sched.core.fit.fit import Fit
from valence_sched.core.group_state import COUNTING, joined, only_there
from valence_sched.core.ranking import by_lot
from valence_sched.model.request import Request
from valence_sched.view.overlay import Change, Draft
from valence_sched.view.view import Floats, Ints, Mask, View

FARTHEST = 64  # pods looked ahead at once, at most


@dataclass(slots=True)
class _Next:
    """A pod one node ahead: the fit that was taken, what gives it back, its rows judged after."""

    fit: Fit
    before: Change
    verdicts: Mask
    scores: Floats
    cost: Ints


class Lookahead:
    """The draft and the judgement of a batch; ``take`` moves both on by one node."""

    def __init__(self, case: Case, farthest: int = FARTHEST) -> None:
        self._case = case
        self._draft = Draft(case.view)
        self.view, self.judgement = self._draft.view, case.judgement.copy()
        self.moved: Sequence[int] | Ints = ()  # the rows whose costs the last node may have changed
        self._request = case.request
        self._joining: list[int] = []  # rows of nodes that the company does not know of yet
        self._ahead: dict[int, _Next] = {}
        social = self.judgement.social
        #: whoever looks at both must be asked of a view on which no pod was looked ahead at
        self._both = bool(social & self.judgement.moving)
        #: where a node's company matters to the rows of its own podm alone, that is looked ahead at
        self._only_there = social <= COUNTING and only_there(case.request) and not self._both
        self._weights = row_weights(case.view, case.bound) if social else None
        self._farthest = 1 if case.request.alternates or self._both else farthest
        self._far = 1
        self._hits = 0
        self._last = -1

    @property
    def request(self) -> Request:
        """Return the request with the company that its nodes have made up to now."""
        if self._joining:
            self._request = joined(self._case.view, self._request, self._joining)
            self._joining = []
        return self._request

    def fit(self, row: int) -> Fit | None:
        """Return the fit of a row as it stands, whether its pod was looked ahead at or not."""
        podm = int(self.view.podm_of[row])
        found = self._ahead.get(podm)
        if found is not None:
            if found.fit.row == row:
                return found.fit
            self._draft.put([self._ahead.pop(podm).before])
        return self._case.plan.fit(self.view, row)

    def take(self, fit: Fit) -> tuple[int, int]:
        """Take the blocks and amounts of a fit; return the rows that may have changed."""
        podm = int(self.view.podm_of[fit.row])
        if podm not in self._ahead:
            self._adapt(podm)
            self._look([fit, *self._likely(podm)])
        else:
            self._hits += 1
        self._last = podm
        found = self._ahead.pop(podm)
        first, last = self._draft.rows(podm)
        self.judgement.verdicts[:, first:last] = found.verdicts
        self.judgement.scores[:, first:last] = found.scores
        self.judgement.cost[first:last] = found.cost
        self.moved = range(first, last)
        if self.judgement.social:
            self._joining.append(fit.row)
            if not self._only_there:
                self.moved = self._judge_company(first, last)
        return first, last

    def _judge_company(self, first: int, last: int) -> Ints:
        """Judge every row again by the company that the request has now; return what changed."""
        view: View = self._case.view
        if self._both:
            view = replace(self.view, _kept={})
        case, judgement = self._case, self.judgement
        moved = judge_company(view, self.request, case.bound, judgement, strict=case.strict)
        moved[first:last] = True
        rows = moved.nonzero()[0]
        part = judgement.part(rows)
        self._add_up(part, rows)
        judgement.cost[rows] = part.cost
        return rows

    def close(self) -> None:
        """Put back every pod that was looked ahead at, so that the view shows what is."""
        self._draft.put([found.before for found in self._ahead.values()])
        self._ahead.clear()

    def _adapt(self, podm: int) -> None:
        """Look twice as far when that paid, or when pods take turns; else half as far."""
        paid = self._hits * 2 >= self._far - 1 if self._far > 1 else podm != self._last
        self._far = min(self._farthest, self._far * 2) if paid else max(1, self._far // 2)
        self._hits = 0

    def _likely(self, taken: int) -> list[Fit]:
        """Return the fits of the pods that are best now, at most as many as pay to look at."""
        wanted = self._far - 1
        if not wanted:
            return []
        cost = self.judgement.cost
        near = np.argpartition(cost, min(4 * wanted, len(cost) - 1))[: 4 * wanted]
        near = by_lot(self.view, near, self._case.request)
        near = near[np.argsort(cost[near], kind="stable")]
        near = near[cost[near] != NEVER]
        found: dict[int, Fit] = {}
        for row, podm in zip(near.tolist(), self.view.podm_of[near].tolist(), strict=True):
            if podm == taken or podm in found or podm in self._ahead:
                continue
            fit = self._case.plan.fit(self.view, row)
            if fit is not None:
                found[podm] = fit
                if len(found) == wanted:
                    break
        return list(found.values())

    def _look(self, fits: list[Fit]) -> None:
        """Take these fits in the draft and judge all their pods together."""
        taken = self._draft.less_each((fit.row, fit.blocks, fit.grants) for fit in fits)
        spans = [self._draft.rows(podm) for podm, *_ in taken]
        rows = np.array([row for first, last in spans for row in range(first, last)])
        part = self.judgement.part(rows)
        now = self._draft.window(*spans[0]) if len(fits) == 1 else self._draft.take(rows)
        now.count_free(self._case.request.needs)
        self._judge_again(now, fits, part, rows)
        low = 0
        for fit, before, (first, last) in zip(fits, taken, spans, strict=True):
            high = low + last - first
            self._ahead[before[0]] = _Next(
                fit,
                before,
                part.verdicts[:, low:high],
                part.scores[:, low:high],
                part.cost[low:high],
            )
            low = high

    def _judge_again(self, now: View, fits: list[Fit], part: Judgement, rows: Ints) -> None:
        """Judge ``rows`` as they stand ``now`` that these fits are taken."""
        bound, strict = self._case.bound, self._case.strict
        judge_again(now, self.request, bound, part, strict=strict)
        if part.social and self._only_there:
            request = joined(self._case.view, self.request, [fit.row for fit in fits])
            judge_company(now, request, bound, part, strict=strict)
            self._add_up(part, rows)

    def _add_up(self, part: Judgement, rows: Ints) -> None:
        weights = self._weights
        add_up(part, self._case.bound, None if weights is None else weights[:, rows])
