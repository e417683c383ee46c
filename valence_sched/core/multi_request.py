# SPDX-License-Identifier: Apache-2.0
"""Several requests together: each decided as if the nodes of those before it had been composed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from valence_sched.core.alternatives import Attempt, try_alternatives
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.group_state import EarlierNodes
from valence_sched.core.ledger import Ledger
from valence_sched.model.decision import Outcome
from valence_sched.model.request import Request
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View


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
        last = self.decisions[-1] if self.decisions else None
        return last if last and len(last.placed_nodes) < last.request.required_count else None

    @property
    def requested_count(self) -> int:
        """Return how many nodes are asked for in all."""
        return sum(request.count for request in self.requests)

    @property
    def placed_count(self) -> int:
        """Return how many nodes are placed in all."""
        return 0 if self.failure else sum(len(decision.placed_nodes) for decision in self.decisions)

    @property
    def outcome(self) -> Outcome:
        """Return how it ended."""
        if not self.placed_count:
            return "nothing_fits"
        return "placed" if self.placed_count == self.requested_count else "placed_in_part"


def decide_all(
    view: View,
    requests: Sequence[Request],
    context_of: Callable[[Ledger, Request, EarlierNodes], EvaluationContext],
    schedule: Callable[[EvaluationContext], Batch],
    skipped: Sequence[str] = (),
) -> Decisions:
    """Decide on requests in order, up to the first that cannot have what it must."""
    ledger = Ledger(view)
    found = Decisions(requests, view, skipped)
    earlier: list[tuple[Request, int]] = []
    every = sum(request.count for request in requests)
    for request in requests:
        case = replace(context_of(ledger, request, earlier), other_nodes=every - request.count)
        decision = Decision(try_alternatives(case, schedule), skipped)
        found.decisions.append(decision)
        if found.failure or len(requests) == 1:
            break
        if len(decision.placed_nodes) < request.count or len(decision.attempts) > 1:
            decision.attempts = _with_copies(decision.attempts, ledger.view)
        else:
            decision.explainable = False
        for _, node in decision.placed_nodes:
            ledger.take(node.chosen)
            earlier.append((request, int(view.podm_of[node.chosen.row])))
    _drop_conflicting_alternates(found.decisions)
    return found


def _drop_conflicting_alternates(decisions: Sequence[Decision]) -> None:
    """Leave out of each decision the alternates on podms that take nodes of the others."""
    taking = Counter(podm for decision in decisions for podm in decision.fit_count_by_podm)
    for decision in decisions:
        if decision.request.alternates:
            own = decision.fit_count_by_podm
            others = (podm for podm, number in taking.items() if number > (podm in own))
            decision.podms_of_others = frozenset(others)
            vars(decision).pop("placed_nodes", None)


def _with_copies(attempts: Sequence[Attempt], current: View) -> list[Attempt]:
    """Return the parts with copies of what goes on changing, so that words can wait."""
    still = Overlay(current).view
    return [
        Attempt(
            replace(
                part.context,
                view=still if part.context.view is current else part.context.view,
                evaluation=part.context.evaluation.copy(),
            ),
            replace(
                part.batch,
                view=still if part.batch.view is current else part.batch.view,
                evaluation=part.batch.evaluation.copy(),
            ),
        )
        for part in attempts
    ]
