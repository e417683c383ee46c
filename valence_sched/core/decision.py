# SPDX-License-Identifier: Apache-2.0
"""A decision as it was made: the matrices are kept, the words are made when somebody asks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from valence_sched.core.batch import Batch
from valence_sched.core.case import Case
from valence_sched.core.fit import Fit
from valence_sched.core.judge import NEVER, SCALE, first_failures, funnel
from valence_sched.core.policies import BoundFilter
from valence_sched.errors import one_line
from valence_sched.model import decision as words
from valence_sched.model.inventory import to_json
from valence_sched.model.opinion import Term
from valence_sched.model.request import Request
from valence_sched.model.view import View


@dataclass(slots=True)
class Decision:
    """What was chosen for a request, with all that the explanation is read from."""

    case: Case
    batch: Batch
    skipped: Sequence[str] = ()

    @property
    def request(self) -> Request:
        """Return the request as it was decided on."""
        return self.case.request

    @property
    def view(self) -> View:
        """Return the snapshot that was decided on."""
        return self.case.view

    @property
    def warnings(self) -> list[str]:
        """Return what the judging had to say: plugins that broke their contract."""
        return self.batch.judgement.notes

    @property
    def outcome(self) -> words.Outcome:
        """Return how it ended."""
        if not self.batch.placed:
            return "nothing_fits"
        return "placed" if len(self.batch.placed) == self.request.count else "placed_in_part"

    @property
    def placements(self) -> tuple[words.Placement, ...]:
        """Return the nodes in the order in which they were placed."""
        return tuple(
            words.Placement(
                node=number,
                chosen=self._candidate(placed.chosen, placed.cost, placed.scores),
                alternates=tuple(self._candidate(*other) for other in placed.alternates),
            )
            for number, placed in enumerate(self.batch.placed, 1)
        )

    def candidate(self, row: int) -> words.Candidate | None:
        """Return what pool ``row`` would have made at first, None when it makes no node."""
        cost = int(self.case.judgement.cost[row])
        fit = self.case.plan.fit(self.view, row) if cost != NEVER else None
        if fit is None:
            return None
        return self._candidate(fit, cost, tuple(self.case.judgement.scores[:, row].tolist()))

    def row_of(self, podm: str, pool: str) -> int:
        """Return the row of a pool."""
        first, last = self.view.rows_of(podm)
        return next(row for row in range(first, last) if self.view.pools[row].id == pool)

    def verdicts(self) -> Iterator[words.PodmVerdict]:
        """Yield one verdict per pod manager: chosen, others best first, then the rejected."""
        found = [self._verdict(podm) for podm in range(len(self.view.podms))]
        rank = {"chosen": 0, "alternate": 1, "fits": 2, "rejected": 3}
        yield from sorted(found, key=lambda v: (rank[v.outcome], -(v.score or 0.0), v.podm))

    def funnel(self) -> tuple[words.Step, ...]:
        """Return the funnel of the first node: pools into and out of every filter."""
        steps = funnel(self.case.bound, self.case.judgement.verdicts, len(self.view))
        return tuple(words.Step(filter=name, came_in=a, went_on=b) for name, a, b in steps)

    def report(self) -> words.Report:
        """Return the decision as a document."""
        return words.Report(
            outcome=self.outcome,
            requested=self.request.count,
            placed=len(self.batch.placed),
            seed=self.request.seed,
            request=self.request,
            policy=self.case.bound.policy,
            policy_digest=digest(to_json(self.case.bound.policy)),
            inventory=words.Source(
                digest=inventory_digest(self.view),
                podms=len(self.view.podms),
                pools=len(self.view),
                blocks=self.view.block_count,
                skipped=tuple(self.skipped),
            ),
            placements=self.placements,
            podms=tuple(self.verdicts()),
            funnel=self.funnel(),
            warnings=tuple(self.warnings),
        )

    def reasons(self, row: int) -> list[words.Reason]:
        """Return every reason against pool ``row`` in filter order, else why there is no fit."""
        part = self.batch.view.take([row])
        found: list[words.Reason] = []
        for filter_, verdict in zip(
            self.case.bound.filters, self.batch.judgement.verdicts, strict=True
        ):
            if verdict[row]:
                continue
            found += self._reasons_of(filter_, part)
        if not found:
            label, need, have = self.case.plan.shortfall(self.batch.view, row)
            found.append(_reason("fit", label, need, have))
        return found

    def no_more(self, podm: int) -> words.Reason | None:
        """Return why a podm took no more nodes, None when no more were asked for."""
        if self.outcome != "placed_in_part":
            return None
        first, last = int(self.view.first_row[podm]), int(self.view.first_row[podm + 1])
        return self.reasons(self._furthest(first, last))[0]

    def chosen_podms(self) -> list[int]:
        """Return the podms that took nodes, each once, in the order of their first."""
        return list(dict.fromkeys(int(self.view.podm_of[p.chosen.row]) for p in self.batch.placed))

    def _reasons_of(self, filter_: BoundFilter, part: View) -> list[words.Reason]:
        """Return what a filter has against a view of one row, in as many words as it has."""
        plain = _reason(filter_.name, "this filter", "yes", "no")
        if filter_.terms is None or filter_.name in self.batch.judgement.failed:
            return [plain]
        try:
            terms = [term for term in filter_.terms(part, self.request) if not term.mask[0]]
        except Exception as error:  # it could judge, so its verdict stands
            text = f"filter {filter_.name!r} cannot explain itself: {type(error).__name__}: {error}"
            if one_line(text) not in self.warnings:
                self.warnings.append(one_line(text))
            return [plain]
        return [_from_term(filter_.name, term) for term in terms] or [plain]

    def _verdict(self, podm: int) -> words.PodmVerdict:
        first, last = int(self.view.first_row[podm]), int(self.view.first_row[podm + 1])
        passed = int(self.case.judgement.verdicts[:, first:last].all(axis=0).sum())
        common: dict[str, Any] = {
            "podm": self.view.podms[podm].id,
            "pools": last - first,
            "pools_passed": passed,
        }
        chosen = self._placed_on(podm)
        if chosen is not None:
            outcome, row, cost = chosen
            verdict = self._fitting(outcome, row, cost, common)
            reason = self.no_more(podm) if outcome == "chosen" else None
            return msgspec.structs.replace(verdict, reason=reason)
        cost_, row = min((int(self.case.judgement.cost[r]), r) for r in self._by_fit(first, last))
        if cost_ != NEVER and self.case.plan.fit(self.batch.view, row) is not None:
            return self._fitting("fits", row, cost_, common)
        row = self._furthest(first, last)
        return words.PodmVerdict(pool=self.view.pools[row].id, outcome="rejected", score=None,
                                 behind=None, reason=self.reasons(row)[0], **common)  # fmt: skip

    def _fitting(
        self, outcome: Any, row: int, cost: int, common: dict[str, Any]
    ) -> words.PodmVerdict:
        best = self.batch.placed[0].cost if self.batch.placed else cost
        behind = self._score(best) - self._score(cost)
        return words.PodmVerdict(
            pool=self.view.pools[row].id,
            outcome=outcome,
            score=self._score(cost),
            behind=round(behind, 6),
            reason=None,
            **common,
        )

    def _by_fit(self, first: int, last: int) -> Sequence[int]:
        """Return the rows of a podm that still make a node, or all when none does."""
        rows = range(first, last)
        passed = [row for row in rows if self.batch.judgement.cost[row] != NEVER]
        return [row for row in passed if self.case.plan.fit(self.batch.view, row)] or rows

    def _placed_on(self, podm: int) -> tuple[str, int, int] | None:
        """Return the outcome, row and cost of the first node, else alternate, on this podm."""
        for placed in self.batch.placed:
            if self.view.podm_of[placed.chosen.row] == podm:
                return "chosen", placed.chosen.row, placed.cost
        for placed in self.batch.placed:
            for fit, cost, _ in placed.alternates:
                if self.view.podm_of[fit.row] == podm:
                    return "alternate", fit.row, cost
        return None

    def _furthest(self, first: int, last: int) -> int:
        """Return the pool of a podm that got through most filters before it was rejected."""
        failed = first_failures(self.batch.judgement.verdicts[:, first:last])
        far = [math.inf if index < 0 else index for index in failed]
        return first + max(
            range(last - first), key=lambda row: (far[row], self._closeness(first + row))
        )

    def _closeness(self, row: int) -> float:
        """Return how many of the needs a pool's free blocks and stocks meet, parts included."""
        met = ((self.batch.view.free(need)[row], need.amount) for need in self.request.needs)
        return sum(min(1.0, float(free) / amount) for free, amount in met if amount)

    def _candidate(self, fit: Fit, cost: int, scores: tuple[float, ...]) -> words.Candidate:
        shelf = self.view.shelves[self.view.podm_of[fit.row]]
        kinds = self.view.kinds.kinds
        stocks = [(shelf.stocks[number], amount) for number, amount in fit.grants]
        names = [weigher.name for weigher in self.case.bound.weighers]
        return words.Candidate(
            podm=self.view.podm(fit.row).id,
            pool=self.view.pools[fit.row].id,
            score=self._score(cost),
            cost=cost,
            scores={n: round(score, 6) for n, score in zip(names, scores, strict=True)},
            blocks=tuple(
                words.BlockRef(uri=shelf.uris[b], type=kinds[shelf.kinds[b]].types)
                for b in fit.blocks
            ),
            grants=tuple(
                words.GrantRef(uri=s.uri, resource=s.resource, amount=amount, unit=s.unit)
                for s, amount in stocks
            ),
            waste=fit.waste,
        )

    def _score(self, cost: int) -> float:
        worst = self.case.bound.worst * SCALE
        return round(1.0 - cost / worst, 6) if worst else 1.0


def inventory_digest(view: View) -> str:
    """Return a digest of all that the View was built from, whatever kind of file held it."""
    total = hashlib.blake2b(digest_size=16)
    order = [kind.order for kind in view.kinds.kinds]
    for podm, shelf in zip(view.podms, view.shelves, strict=True):
        total.update(to_json(podm))
        total.update("\0".join(shelf.uris).encode())
        total.update(b"\0".join(order[kind] for kind in shelf.kinds))
        total.update(repr((shelf.slots, shelf.pools, shelf.stock_pools)).encode())
        total.update(to_json(shelf.stocks))
    return total.hexdigest()


def digest(data: bytes) -> str:
    """Return a short digest of a document."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _reason(name: str, label: str, need: Any, have: Any, unit: str = "") -> words.Reason:
    return words.Reason(filter=name, label=label, need=need, have=have, unit=unit)


def _from_term(name: str, term: Term) -> words.Reason:
    reason = _reason(name, term.label, _plain(term.need), _plain(term.have[0]), term.unit)
    if term.podm_have is None or term.podm_have[0] < term.need:
        return reason
    return msgspec.structs.replace(reason, podm_have=_plain(term.podm_have[0]))


def _plain(value: Any) -> Any:
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
