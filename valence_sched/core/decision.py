# SPDX-License-Identifier: Apache-2.0
"""A decision as it was made: the matrices are kept, the words are made when somebody asks."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from valence_sched.core.alternatives import Attempt
from valence_sched.core.batch import Batch, PlacedNode
from valence_sched.core.evaluation import COST_SCALE, INFINITE_COST, EvaluationContext
from valence_sched.core.fit.fit import Fit
from valence_sched.core.group_state import substitute_rows, with_members
from valence_sched.model.decision import BlockRef, Candidate, GrantRef, Outcome, Placement
from valence_sched.model.request import Request
from valence_sched.view.view import View


@dataclass
class Decision:
    """What was chosen for a request, with all that the explanation is read from.

    ``parts`` has an element for each alternative of the request that was tried, in order: a
    later one is tried for the nodes that those before it left. The words are about ``told``.
    What was decided on is no longer there to give reasons from where it is not ``whole``.
    ``elsewhere`` are the podms that take nodes of requests decided on together with this one.
    """

    attempts: Sequence[Attempt]
    skipped: Sequence[str] = ()
    explainable: bool = True
    podms_of_others: frozenset[int] = frozenset()

    @property
    def main_attempt(self) -> Attempt:
        """Return the first part that placed a node, the first of all when none did."""
        return next((part for part in self.attempts if part.batch.nodes), self.attempts[0])

    @property
    def context(self) -> EvaluationContext:
        """Return what the told part was decided from."""
        return self.main_attempt.context

    @property
    def batch(self) -> Batch:
        """Return what came of the told part."""
        return self.main_attempt.batch

    @property
    def request(self) -> Request:
        """Return the request as it was decided on."""
        return self.attempts[0].context.request

    @property
    def fit_count(self) -> int:
        """Return how many nodes fit, be they too few to be placed."""
        return sum(len(part.batch.nodes) for part in self.attempts)

    @functools.cached_property
    def placed_nodes(self) -> list[tuple[int, PlacedNode]]:
        """Return the nodes in order, each with its part; none when fewer fit than must be.

        No alternate is on a pod manager that takes a node of the request, or of one decided on
        with it: what it would be made of may be that node's by then. None breaks a rule of the
        group beside the other nodes.
        """
        if self.fit_count < self.request.required_count:
            return []
        return [
            (number, self._with_free_alternates(part, placed))
            for number, part in enumerate(self.attempts)
            for placed in part.batch.nodes
        ]

    def _with_free_alternates(self, attempt: Attempt, node: PlacedNode) -> PlacedNode:
        if not node.alternates:
            return node
        taking = self.podms_of_others.union(self.fit_count_by_podm)
        spare = [other for other in node.alternates if self._podm(other[0]) not in taking]
        group = self.request.group
        if spare and group is not None and group.hard and self.fit_count > 1:
            rows = [fit.row for fit, *_ in spare]
            may = substitute_rows(attempt.context, self._with_all_members, node.chosen.row, rows)
            spare = [other for other in spare if other[0].row in may]
        return msgspec.structs.replace(node, alternates=tuple(spare[: self.request.alternates]))

    @functools.cached_property
    def _with_all_members(self) -> Request:
        """Return the request in the company of all the nodes that fit."""
        placed = [node for part in self.attempts for node in part.batch.nodes]
        return with_members(self.view, self.request, [node.chosen.row for node in placed])

    @property
    def view(self) -> View:
        """Return the snapshot that was decided on."""
        return self.attempts[0].context.view

    @property
    def failed_attempts(self) -> list[tuple[int, Attempt]]:
        """Return the parts that were tried before the told one and placed nothing, numbered."""
        first = next((n for n, part in enumerate(self.attempts) if part.batch.nodes), 0)
        return list(enumerate(self.attempts[:first], 1))

    @property
    def outcome(self) -> Outcome:
        """Return how it ended."""
        if not self.placed_nodes:
            return "nothing_fits"
        return "placed" if len(self.placed_nodes) == self.request.count else "placed_in_part"

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Return the nodes in the order in which they were placed."""
        return tuple(
            Placement(
                node=number,
                choice=part + 1,
                chosen=self._candidate(placed.chosen, placed.cost, placed.scores),
                alternates=tuple(self._candidate(*other) for other in placed.alternates),
            )
            for number, (part, placed) in enumerate(self.placed_nodes, 1)
        )

    def candidate(self, row: int) -> Candidate | None:
        """Return what pool ``row`` would have made at first, None when it makes no node."""
        cost = int(self.context.evaluation.cost[row])
        fit = self.context.fitter.fit(self.view, row) if cost != INFINITE_COST else None
        if fit is None:
            return None
        return self._candidate(fit, cost, self.context.evaluation.scores_of(row))

    def row_of(self, podm: str, pool: str) -> int:
        """Return the row of a pool."""
        first, last = self.view.rows_of(podm)
        return next(row for row in range(first, last) if self.view.pools[row].id == pool)

    def chosen_podms(self) -> list[int]:
        """Return the podms that took nodes, each once, in the order of their first."""
        rows = [placed.chosen.row for _, placed in self.placed_nodes]
        return list(dict.fromkeys(self.view.podm_of[rows].tolist()))

    @functools.cached_property
    def outcome_by_podm(self) -> dict[int, tuple[str, int, int]]:
        """Return the outcome, row and cost of a podm's first node, else of its first alternate."""
        found: dict[int, tuple[str, int, int]] = {}
        for _, node in self.placed_nodes:
            found.setdefault(self._podm(node.chosen), ("chosen", node.chosen.row, node.cost))
        for _, node in self.placed_nodes:
            for fit, cost, _ in node.alternates:
                found.setdefault(self._podm(fit), ("alternate", fit.row, cost))
        return found

    @functools.cached_property
    def fit_count_by_podm(self) -> Counter[int]:
        """Return how many nodes fit on each podm."""
        return Counter(
            self._podm(node.chosen) for part in self.attempts for node in part.batch.nodes
        )

    def _podm(self, fit: Fit) -> int:
        return int(self.view.podm_of[fit.row])

    def _candidate(self, fit: Fit, cost: int, scores: tuple[float, ...]) -> Candidate:
        shelf = self.view.block_tables[self.view.podm_of[fit.row]]
        kinds = self.view.kinds.kinds
        stocks = [(shelf.stocks[number], amount) for number, amount in fit.grants]
        names = [weigher.name for weigher in self.context.bound.weighers]
        return Candidate(
            podm=self.view.podm(fit.row).id,
            pool=self.view.pools[fit.row].id,
            score=self.score(cost),
            cost=cost,
            scores={n: round(score, 6) for n, score in zip(names, scores, strict=True)},
            blocks=tuple(
                BlockRef(uri=shelf.uris[b], type=kinds[shelf.kinds[b]].types) for b in fit.blocks
            ),
            grants=tuple(
                GrantRef(uri=s.uri, resource=s.resource, amount=amount, unit=s.unit)
                for s, amount in stocks
            ),
            waste=fit.waste,
        )

    def score(self, cost: int) -> float:
        """Return the score 0..1 that a cost stands for."""
        worst = self.context.bound.worst_cost * COST_SCALE
        return round(1.0 - cost / worst, 6) if worst else 1.0
