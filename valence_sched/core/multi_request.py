# SPDX-License-Identifier: Apache-2.0
"""Multi-request decisions: each is decided as if the nodes of the earlier ones were composed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from valence_sched.core.alternatives import Attempt
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.succession import Succession
from valence_sched.model.decision import Outcome
from valence_sched.model.request import Request
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

Part = TypeVar("Part", EvaluationContext, Batch)


@dataclass
class Decisions:
    """The decisions on several requests, in order; after one that fails there are none.

    A request that must have more nodes than fit fails them all: nothing of them is placed.
    """

    requests: Sequence[Request]
    view: View
    skipped: Sequence[str] = ()
    decisions: list[Decision] = field(default_factory=list)

    @property
    def failure(self) -> Decision | None:
        """Return the decision for which fewer nodes fit than must be placed."""
        failed = (one for one in self.decisions[-1:]
                  if len(one.placed_nodes) < one.request.required_count)  # fmt: skip
        return next(failed, None)

    @property
    def requested_count(self) -> int:
        return sum(request.count for request in self.requests)

    @property
    def placed_count(self) -> int:
        return 0 if self.failure else sum(len(decision.placed_nodes) for decision in self.decisions)

    @property
    def outcome(self) -> Outcome:
        if not self.placed_count:
            decided = [self.failure] if self.failure else self.decisions
            undecided = any(decision.undecided_rows for decision in decided)
            return "undecided" if undecided else "nothing_fits"
        return "placed" if self.placed_count == self.requested_count else "placed_in_part"


def decide_all(succession: Succession, requests: Sequence[Request]) -> Decisions:
    """Decide on requests in order, up to the first that fails: all of them are one decision.

    They share what the most generous of their policies has to spend on hard questions.
    """
    decisions = Decisions(requests, succession.view, succession.skipped)
    total = sum(request.count for request in requests)
    spending = succession.spending(requests)
    for request in requests:
        others = total - request.count
        decision = succession.decide(request, other_nodes=others, spending=spending)
        decisions.decisions.append(decision)
        if decisions.failure or len(requests) == 1:
            break
        if len(decision.placed_nodes) < request.count or len(decision.attempts) > 1:
            decision.attempts = _with_copies(decision.attempts, succession.current_view)
        else:
            decision.explainable = False
        for _, node in decision.placed_nodes:
            succession.take(request, node.chosen)
    _drop_conflicting_alternates(decisions.decisions)
    return decisions


def _drop_conflicting_alternates(decisions: Sequence[Decision]) -> None:
    """Leave out of each decision the alternates on podms that take nodes of the others."""
    counts = Counter(podm for decision in decisions for podm in decision.fit_count_by_podm)
    for decision in decisions:
        if decision.request.alternates:
            own = decision.fit_count_by_podm
            others = (podm for podm, number in counts.items() if number > (podm in own))
            decision.exclude_alternates_on(frozenset(others))


def _with_copies(attempts: Sequence[Attempt], current: View) -> list[Attempt]:
    """Return attempts with copies of all that later requests change, for a later explanation."""
    frozen_view = Overlay(current).view

    def with_copies(part: Part) -> Part:
        view = frozen_view if part.view is current else part.view
        return replace(part, view=view, evaluation=part.evaluation.copy())

    return [Attempt(with_copies(one.context), with_copies(one.batch)) for one in attempts]
