# SPDX-License-Identifier: Apache-2.0
"""Verdicts: the outcome of each pod manager in a decision and the reasons against it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from valence_sched.core.decision import Decision
from valence_sched.core.evaluate import first_failures
from valence_sched.core.evaluation import INFINITE_COST
from valence_sched.core.fit.fit import Fit
from valence_sched.core.fit.spending import Undecided
from valence_sched.core.policy import BoundFilter
from valence_sched.errors import describe_error, one_line
from valence_sched.model.decision import PodmVerdict, Reason
from valence_sched.view.terms import Term
from valence_sched.view.view import View


class Verdicts:
    """Reads verdicts and reasons from the evaluation that a decision was made with."""

    def __init__(self, decision: Decision) -> None:
        self.decision, self.view, self.request = decision, decision.view, decision.request
        self.context, self.batch = decision.context, decision.batch

    def podm_verdicts(self) -> Iterator[PodmVerdict]:
        """Yield one verdict per pod manager: chosen, others best first, then the rejected."""
        reasons = [self.podm_verdict(podm) for podm in range(len(self.view.podms))]
        rank = {"chosen": 0, "alternate": 1, "fits": 2, "undecided": 3, "rejected": 4}
        yield from sorted(reasons, key=lambda v: (rank[v.outcome], -(v.score or 0.0), v.podm))

    def stop_reason(self, podm: int) -> Reason | None:
        """Return why a podm took no more nodes, None when no more were asked for."""
        if self.decision.outcome != "placed_in_part":
            return None
        first, last = int(self.view.first_row[podm]), int(self.view.first_row[podm + 1])
        return self.reasons(self.furthest_row(first, last))[0]

    def reasons(self, row: int) -> list[Reason]:
        """Return every reason against pool ``row`` in filter order, else why there is no fit."""
        one_row = self.batch.view.take([row])
        reasons: list[Reason] = []
        filters, verdicts = self.context.bound.filters, self.batch.evaluation.verdicts[:, row]
        for filter_, passed in zip(filters, verdicts.tolist(), strict=True):
            reasons += [] if passed else self._reasons_of(filter_, one_row)
        if not reasons:
            fit = self.context.fit(self.batch.view, row)
            if isinstance(fit, Undecided):
                states = f"{fit.states:,} for a pool"
                budget = "more than the budget of the policy"
                return [_reason("fit", "states to settle it", budget, states)]
            label, need, have = self.context.fitter.shortfall(self.batch.view, row)
            reasons.append(_reason("fit", label, need, have))
        return reasons

    def _reasons_of(self, filter_: BoundFilter, one_row: View) -> list[Reason]:
        """Return the reasons of a filter against a view of one row: one for each failed term."""
        if filter_.name in self.batch.evaluation.failed_plugins:
            return [_reason(filter_.name, "this filter", "an answer", "none: it failed")]
        plain = _reason(filter_.name, "this filter", "yes", "no")
        if filter_.terms is None:
            return [plain]
        try:
            terms = filter_.terms(one_row, self.batch.request)
            failed = [term for term in terms if not term.mask[0]]
        except Exception as error:  # its verdict stands
            text = f"filter {filter_.name!r} cannot explain itself: {describe_error(error)}"
            if one_line(text) not in self.batch.evaluation.notes:
                self.batch.evaluation.notes.append(one_line(text))
            return [plain]
        return [_reason_from_term(filter_.name, term) for term in failed] or [plain]

    def podm_verdict(self, podm: int) -> PodmVerdict:
        first, last = (int(self.view.first_row[podm]), int(self.view.first_row[podm + 1]))
        passed = int(self.context.evaluation.verdicts[:, first:last].all(axis=0).sum())
        common: dict[str, Any] = {
            "podm": self.view.podms[podm].id,
            "pools": last - first,
            "pools_passed": passed,
            "fitting": self.decision.fit_count_by_podm[podm],
        }
        chosen = self.decision.outcome_by_podm.get(podm)
        if chosen is not None:
            outcome, row, cost = chosen
            verdict = self._fitting_verdict(outcome, row, cost, common)
            reason = self.stop_reason(podm) if outcome == "chosen" else None
            return msgspec.structs.replace(verdict, reason=reason)
        costs = self.context.evaluation.cost
        cost_, row = min((int(costs[row]), row) for row in self._rows_with_fit(first, last))
        free_now = INFINITE_COST not in (cost_, self.batch.evaluation.cost[row])
        if free_now and isinstance(self.context.fit(self.batch.view, row), Fit):
            return self._fitting_verdict("fits", row, cost_, common)
        undecided = self._undecided_row(first, last)
        row = self.furthest_row(first, last) if undecided is None else undecided
        return PodmVerdict(
            pool=self.view.pools[row].id,
            outcome="rejected" if undecided is None else "undecided",
            score=None,
            behind=None,
            reason=self.reasons(row)[0],
            **common,
        )

    def _undecided_row(self, first: int, last: int) -> int | None:
        """Return a row of a podm that may make a node, which was not settled."""
        costs, view = self.batch.evaluation.cost, self.batch.view
        passed = (row for row in range(first, last) if costs[row] != INFINITE_COST)
        answers = ((row, self.context.fit(view, row)) for row in passed)
        return next((row for row, fit in answers if isinstance(fit, Undecided)), None)

    def _fitting_verdict(
        self, outcome: Any, row: int, cost: int, common: dict[str, Any]
    ) -> PodmVerdict:
        best = self.decision.placed_nodes[0][1].cost if self.decision.placed_nodes else cost
        behind = self.decision.score(best) - self.decision.score(cost)
        return PodmVerdict(
            pool=self.view.pools[row].id,
            outcome=outcome,
            score=self.decision.score(cost),
            behind=round(behind, 6),
            reason=None,
            **common,
        )

    def _rows_with_fit(self, first: int, last: int) -> Sequence[int]:
        """Return the rows of a podm that still make a node, or all when none does."""
        rows = range(first, last)
        passed = [row for row in rows if self.batch.evaluation.cost[row] != INFINITE_COST]
        fits = [row for row in passed if isinstance(self.context.fit(self.batch.view, row), Fit)]
        return fits or rows

    def furthest_row(self, first: int, last: int) -> int:
        """Return the pool of a podm that got through most filters before it was rejected."""
        failed = first_failures(self.batch.evaluation.verdicts[:, first:last])
        depth = [math.inf if index < 0 else index for index in failed]
        rows = range(last - first)
        return first + max(rows, key=lambda row: (depth[row], self._closeness(first + row)))

    def _closeness(self, row: int) -> float:
        """Return how many of the needs a pool's free blocks and stocks meet, as a sum of shares."""
        met = ((self.batch.view.free(need)[row], need.amount) for need in self.request.needs)
        return sum(min(1.0, float(free) / amount) for free, amount in met if amount)


def _reason(name: str, label: str, need: Any, have: Any, unit: str = "") -> Reason:
    return Reason(filter=name, label=label, need=need, have=have, unit=unit)


def _reason_from_term(name: str, term: Term) -> Reason:
    reason = _reason(name, term.label, _json_value(term.need), _json_value(term.have[0]), term.unit)
    if term.podm_have is None or term.podm_have[0] < term.need:
        return reason
    return msgspec.structs.replace(reason, podm_have=_json_value(term.podm_have[0]))


def _json_value(value: Any) -> Any:
    """Return a value as JSON holds it: numbers whole where they are, sets as sorted lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else value
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(str(item) for item in value)
    if isinstance(value, dict):
        return {str(key): [str(item) for item in items] for key, items in value.items()}
    return value
