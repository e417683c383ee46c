# SPDX-License-Identifier: Apache-2.0
"""Verdicts: the outcome of each pod manager in a decision and the reasons against it."""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import first_failures
from valence_sched.core.fit.fit import Undecided
from valence_sched.core.policy import INFINITE_COST, BoundFilter
from valence_sched.errors import describe_error, one_line
from valence_sched.model.decision import MAX_LISTED_PODMS, PodmVerdict, PoolReasons, Reason
from valence_sched.view.terms import Term
from valence_sched.view.view import Floats, Mask

_RANK = {"chosen": 0, "alternate": 1, "fits": 2, "undecided": 3, "rejected": 4}


def in_order(verdicts: Iterable[PodmVerdict]) -> list[PodmVerdict]:
    """Return the verdicts with the chosen pod managers first, then the best of the others."""
    return sorted(verdicts, key=lambda one: (_RANK[one.outcome], -(one.score or 0.0), one.podm))


class Verdicts:
    """Reads verdicts and reasons from the evaluation of a decision."""

    def __init__(self, decision: Decision) -> None:
        self.decision, self.view, self.request = decision, decision.view, decision.request
        self.context, self.batch = decision.context, decision.batch
        self._bounds: list[int] = self.view.first_row.tolist()
        self._terms: dict[str, list[tuple[Term, Mask]]] = {}

    def podm_verdicts(self) -> list[PodmVerdict]:
        """Return one verdict per pod manager, in order."""
        return in_order(map(self.podm_verdict, range(len(self.view.podms))))

    def stop_reason(self, podm: int) -> Reason | None:
        """Return the reason why a podm took no more nodes, None if no more were requested."""
        if self.decision.outcome != "placed_in_part":
            return None
        return next(self._reasons(self.furthest_row(podm), full=True))

    def reasons(self, row: int) -> list[Reason]:
        """Return every reason against pool ``row`` in filter order, else the fit's shortfall."""
        return list(self._reasons(row))

    def pool_reasons(self, podm: int) -> tuple[PoolReasons, ...]:
        """Return every reason against each pool of a rejected podm, the nearest pool first."""
        fit_of, pools = self.decision.row_fit, self.view.pools
        return tuple(
            PoolReasons(pool=pools[row].id, reasons=tuple(self._reasons(row, full=True)))
            for row in self._by_nearness(podm)
            if not (self._passes[row] and fit_of(row) == "fits")
        )

    def podm_verdict(self, podm: int) -> PodmVerdict:
        """Return the verdict on a podm; on a small site with the reasons against each pool."""
        rows = self._rows(podm)
        chosen = self.decision.outcome_by_podm.get(podm)
        if chosen is not None:
            outcome, row, cost = chosen
            reason = self.stop_reason(podm) if outcome == "chosen" else None
            return self._verdict(podm, row, outcome, reason, cost)
        costs: list[int] = self.context.evaluation.cost[rows.start : rows.stop].tolist()
        fit_of = self.decision.row_fit
        passing = [row for row in rows if self._passes[row]]
        fitting = [(costs[row - rows.start], row) for row in passing if fit_of(row) == "fits"]
        cost_, row = min(fitting, default=(INFINITE_COST, -1))
        if cost_ != INFINITE_COST:
            return self._verdict(podm, row, "fits", None, cost_)
        undecided = next((row for row in passing if fit_of(row) == "undecided"), None)
        row = self.furthest_row(podm) if undecided is None else undecided
        few = len(self.view.podms) <= MAX_LISTED_PODMS
        pool_reasons = self.pool_reasons(podm) if few else ()
        reason = next(self._reasons(row, full=few))
        word = "rejected" if undecided is None else "undecided"
        verdict = self._verdict(podm, row, word, reason)
        return msgspec.structs.replace(verdict, pool_reasons=pool_reasons)

    def furthest_row(self, podm: int) -> int:
        """Return the row of a podm's pool that passed the most filters before it was rejected."""
        return self._by_nearness(podm)[0]

    def _by_nearness(self, podm: int) -> list[int]:
        """Return the rows of a podm, the nearest first; the order of the inventory is ignored."""
        nearness, pools = self._nearness, self.view.pools
        return sorted(self._rows(podm), key=lambda row: (-nearness[row], pools[row].id))

    def _rows(self, podm: int) -> range:
        return range(self._bounds[podm], self._bounds[podm + 1])

    @functools.cached_property
    def _best_score(self) -> float | None:
        nodes = self.decision.placed_nodes
        return self.decision.score(nodes[0][1].cost) if nodes else None

    @functools.cached_property
    def _passed_before(self) -> list[int]:
        """For each row, the number of earlier rows that pass every filter for the first node."""
        passed = np.logical_and.reduce(self.context.evaluation.verdicts, axis=0)
        return [0, *np.cumsum(passed).tolist()]

    @functools.cached_property
    def _nearness(self) -> Floats:
        """The nearness of each row: the number of filters passed, then the share of met needs."""
        met = np.zeros(len(self.view))
        needs = [need for need in self.request.needs if need.amount]
        for need in needs:
            met += np.fmin(1.0, self.batch.view.free(need) / need.amount)
        failures = np.array(first_failures(self.batch.evaluation.verdicts), dtype=np.int64)
        passed = np.where(failures < 0, len(self.context.bound.filters), failures)
        nearness: Floats = passed + met / (len(needs) + 1)
        return nearness

    @functools.cached_property
    def _passes(self) -> list[bool]:
        return (self.batch.evaluation.cost != INFINITE_COST).tolist()  # type: ignore[no-any-return]

    def _reasons(self, row: int, *, full: bool = False) -> Iterator[Reason]:
        """Yield the reasons against a row; with ``full``, also the models that the pool has."""
        rejected = False
        filters, verdicts = self.context.bound.filters, self.batch.evaluation.verdicts[:, row]
        for filter_, passed in zip(filters, verdicts.tolist(), strict=True):
            if passed:
                continue
            rejected = True
            if filter_.name in self.batch.evaluation.failed_plugins:
                yield _reason(filter_.name, "this filter", "an answer", "an error")
                continue
            terms = (term for term, holds in self._terms_of(filter_) if not holds[row])
            found = [_reason_from_term(filter_.name, term, row, full=full) for term in terms]
            yield from found or [_reason(filter_.name, "this filter", "yes", "no")]
        if rejected:
            return
        fit = self.context.fit(self.batch.view, row)
        if isinstance(fit, Undecided):
            budget, states = "more than the budget of the policy", f"{fit.states:,} for a pool"
            yield _reason("fit", "search states", budget, states)
        else:
            yield _reason("fit", *self.context.fitter.shortfall(self.batch.view, row))

    def _terms_of(self, filter_: BoundFilter) -> list[tuple[Term, Mask]]:
        if filter_.terms is not None and filter_.name not in self._terms:
            self._terms[filter_.name] = []
            try:
                terms = filter_.terms(self.batch.view, self.batch.request)
                self._terms[filter_.name] = [(term, term.mask) for term in terms]
            except Exception as error:  # the verdict of the filter remains valid
                text = f"filter {filter_.name!r} cannot explain itself: {describe_error(error)}"
                if one_line(text) not in self.batch.evaluation.notes:
                    self.batch.evaluation.notes.append(one_line(text))
        return self._terms.get(filter_.name, [])

    def _verdict(
        self, podm: int, row: int, outcome: Any, reason: Reason | None, cost: int | None = None
    ) -> PodmVerdict:
        first, last = self._bounds[podm], self._bounds[podm + 1]
        score = None if cost is None else self.decision.score(cost)
        best = score if self._best_score is None else self._best_score
        return PodmVerdict(
            podm=self.view.podms[podm].id,
            pools=last - first,
            pools_passed=self._passed_before[last] - self._passed_before[first],
            fitting=self.decision.fit_count_by_podm[podm],
            pool=self.view.pools[row].id,
            outcome=outcome,
            score=score,
            behind=None if score is None or best is None else round(best - score, 6),
            reason=reason,
        )


def _reason(name: str, label: str, need: Any, have: Any, unit: str = "") -> Reason:
    return Reason(filter=name, label=label, need=need, have=have, unit=unit)


def _reason_from_term(name: str, term: Term, row: int, *, full: bool) -> Reason:
    have = term.have[row]
    more: dict[str, Any] = {}
    if term.podm_have is not None and term.podm_have[row] >= term.need:
        more["podm_have"] = _json_value(term.podm_have[row])
    if full and term.instead is not None and not have:
        more["instead"] = dict(term.instead(row))
    if full and term.uncounted is not None and (found := term.uncounted(row)):
        more["uncounted"] = found
    reason = _reason(name, term.label, _json_value(term.need), _json_value(have), term.unit)
    return msgspec.structs.replace(reason, **more)


def _json_value(value: Any) -> Any:
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
