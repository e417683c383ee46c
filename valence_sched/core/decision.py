# SPDX-License-Identifier: Apache-2.0
"""Decision: the result for one request, with the evaluation behind its explanation."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from valence_sched.core.batch import Attempt, Batch, PlacedNode, candidate_of, score_of
from valence_sched.core.evaluation import EvaluationContext, reevaluate_group_state
from valence_sched.core.fit.fit import Fit
from valence_sched.core.group_state import with_members
from valence_sched.core.policy import INFINITE_COST
from valence_sched.model.decision import Outcome, Placement, PoolRef, outcome_of
from valence_sched.model.request import Request
from valence_sched.view.view import View

MIN_ROWS = 64  # with this many passing rows or more, one shared search is faster

RowFit = Literal["fits", "none", "undecided"]


@dataclass
class Decision:
    """The nodes chosen for a request, with one attempt by alternative and its explanation.

    It is not ``explainable`` if its evaluation was changed later. ``podms_of_others`` take nodes of
    requests that were decided together with this one.
    """

    attempts: Sequence[Attempt]
    skipped: Sequence[str] = ()
    explainable: bool = True
    podms_of_others: frozenset[int] = frozenset()

    @property
    def main_attempt(self) -> Attempt:
        """Return the first attempt that placed a node, else the first attempt."""
        return next((one for one in self.attempts if one.batch.nodes), self.attempts[0])

    @property
    def context(self) -> EvaluationContext:
        return self.main_attempt.context

    @property
    def batch(self) -> Batch:
        return self.main_attempt.batch

    def row_fit(self, row: int) -> RowFit:
        """Return whether the next node fits in a row, regardless of the filters."""
        known = self.known_fits.get(row)
        if known is None:
            fit = self.context.fit(self.batch.view, row)
            known = "none" if fit is None else "fits" if isinstance(fit, Fit) else "undecided"
            self.known_fits[row] = known
        return known

    @functools.cached_property
    def known_fits(self) -> dict[int, RowFit]:
        # one search for all pools, where that is faster, answers for most rows
        batch, fitter = self.batch, self.context.fitter
        passing = (batch.evaluation.cost != INFINITE_COST).nonzero()[0]
        if len(passing) < MIN_ROWS or not fitter.covers_blocks_alone:
            return {}
        from valence_sched.core.fit.pool_covers import PoolCovers  # only for many rows

        has_cover, known = PoolCovers(fitter, batch.view).settle(passing)
        left = known & ~np.isin(passing, list(batch.undecided_rows))
        rows, fits = passing[left].tolist(), has_cover[left].tolist()
        return {row: "fits" if fit else "none" for row, fit in zip(rows, fits, strict=True)}

    @property
    def request(self) -> Request:
        return self.attempts[0].context.request

    @property
    def fit_count(self) -> int:
        return len(self.fitting_nodes)

    @property
    def fitting_nodes(self) -> list[PlacedNode]:
        """Return the nodes that fit, even if they are too few to be placed."""
        return [node for attempt in self.attempts for node in attempt.batch.nodes]

    @functools.cached_property
    def placed_nodes(self) -> list[tuple[int, PlacedNode]]:
        """Return the nodes in order, each with its attempt; empty if fewer fit than required.

        Alternates are on pod managers without nodes, and keep the rules of the group.
        """
        if self.fit_count < self.request.required_count:
            return []
        return [
            (number, self._with_free_alternates(attempt, node))
            for number, attempt in enumerate(self.attempts)
            for node in attempt.batch.nodes
        ]

    def _with_free_alternates(self, attempt: Attempt, node: PlacedNode) -> PlacedNode:
        if not node.alternates:
            return node
        taken = self.podms_of_others.union(self.fit_count_by_podm)
        others = [other for other in node.alternates if self._podm(other[0]) not in taken]
        group = self.request.group
        if others and group is not None and group.hard and self.fit_count > 1:
            rows, counted = [fit.row for fit, *_ in others], self._with_all_members
            allowed = substitute_rows(attempt.context, counted, node.chosen.row, rows)
            others = [other for other in others if other[0].row in allowed]
        return msgspec.structs.replace(node, alternates=tuple(others[: self.request.alternates]))

    @functools.cached_property
    def _with_all_members(self) -> Request:
        rows = [node.chosen.row for node in self.fitting_nodes]
        return with_members(self.view, self.request, rows)

    @property
    def view(self) -> View:
        return self.attempts[0].context.view

    def exclude_alternates_on(self, podms: frozenset[int]) -> None:
        """Drop the alternates on podms that take nodes of other requests."""
        self.podms_of_others = podms
        vars(self).pop("placed_nodes", None)  # computed before these podms were known

    @property
    def failed_attempts(self) -> list[tuple[int, Attempt]]:
        """Return the attempts before the main attempt, numbered from 1; they placed no node."""
        first = next((n for n, attempt in enumerate(self.attempts) if attempt.batch.nodes), 0)
        return list(enumerate(self.attempts[:first], 1))

    @functools.cached_property
    def undecided_rows(self) -> list[int]:
        """Return the rows with an incomplete search that might have been chosen."""
        return sorted(set().union(*(one.batch.undecided_rows for one in self.attempts)))

    @property
    def undecided(self) -> tuple[PoolRef, ...]:
        return tuple(self.view.pool_ref(row) for row in self.undecided_rows)

    @property
    def outcome(self) -> Outcome:
        placed, undecided = len(self.placed_nodes), bool(self.undecided_rows)
        return outcome_of(placed, self.request.count, undecided=undecided)

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(
            Placement(
                node=number,
                choice=index + 1,
                chosen=candidate_of(self.context, node.chosen, node.cost, node.scores),
                alternates=tuple(candidate_of(self.context, *other) for other in node.alternates),
            )
            for number, (index, node) in enumerate(self.placed_nodes, 1)
        )

    def chosen_podms(self) -> list[int]:
        """Return the podms that took nodes, each once, in the order of their first nodes."""
        return list(dict.fromkeys(self._podm(node.chosen) for _, node in self.placed_nodes))

    @functools.cached_property
    def outcome_by_podm(self) -> dict[int, tuple[str, int, int]]:
        """Return the outcome, row and cost of a podm's first node, else of its first alternate."""
        nodes = [node for _, node in self.placed_nodes]
        found = [("chosen", node.chosen, node.cost) for node in nodes]
        found += [("alternate", fit, cost) for node in nodes for fit, cost, _ in node.alternates]
        outcomes: dict[int, tuple[str, int, int]] = {}
        for word, fit, cost in found:  # the first entry of each podm counts
            outcomes.setdefault(self._podm(fit), (word, fit.row, cost))
        return outcomes

    @functools.cached_property
    def fit_count_by_podm(self) -> Counter[int]:
        return Counter(self._podm(node.chosen) for node in self.fitting_nodes)

    def _podm(self, fit: Fit) -> int:
        return int(self.view.podm_of[fit.row])

    def score(self, cost: int) -> float:
        return score_of(self.context.bound, cost)


def substitute_rows(
    context: EvaluationContext, with_all_members: Request, replaced_row: int, rows: Sequence[int]
) -> set[int]:
    """Return the ``rows`` that keep the rules of the group in place of ``replaced_row``."""
    state = with_members(context.view, with_all_members, [replaced_row], -1).group_state
    request = msgspec.structs.replace(context.request, group_state=state)
    index = np.unique(rows)
    evaluation, view = context.evaluation.select(index), context.view.take(index)
    reevaluate_group_state(view, request, context.bound, evaluation, context.strict)
    # free hardware was checked when the alternates were found
    fixed = evaluation.group_state_readers - evaluation.availability_readers
    fixed_filters = [filter_.name in fixed for filter_ in context.bound.filters]
    return set(index[evaluation.verdicts[fixed_filters].all(axis=0)].tolist())
