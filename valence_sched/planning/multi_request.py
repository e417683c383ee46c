# SPDX-License-Identifier: Apache-2.0
"""Multi-request decisions: several requests are planned together, all of them or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from valence_sched.core.batch import plans_batches
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import (
    bound_notes,
    decision_report,
    decision_warnings,
    inventory_source,
)
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.decision import Outcome, Reports
from valence_sched.model.request import Request
from valence_sched.planning.succession import Succession
from valence_sched.view.view import View


@dataclass
class Decisions:
    """The decisions on several requests, in order; after one that fails there are none.

    A request that must have more nodes than fit fails them all: nothing of them is placed. No
    placement has more nodes than ``bound``.
    """

    requests: Sequence[Request]
    view: View
    skipped: Sequence[str] = ()
    decisions: list[Decision] = field(default_factory=list)
    bound: int | None = None

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

    def report(self, *, explain: bool = True) -> Reports:
        """Return all decisions as one document; of requests that failed, no node is placed."""
        source = inventory_source(self.view, self.skipped)
        reports = [decision_report(one, source, explain=explain) for one in self.decisions]
        if self.failure:
            reports[:-1] = [
                msgspec.structs.replace(report, outcome="nothing_fits", placed=0, placements=(),
                                        podms=(), funnel=(), explanation=None)
                for report in reports[:-1]
            ]  # fmt: skip
        return Reports(
            outcome=self.outcome,
            requested=self.requested_count,
            placed=self.placed_count,
            inventory=source,
            decisions=tuple(reports),
            warnings=tuple(self.warnings()),
        )

    def warnings(self) -> list[str]:
        """Return the warnings of all decisions, each once."""
        notes = (note for decision in self.decisions for note in decision_warnings(decision))
        unique = list(dict.fromkeys(notes))
        if self.bound is not None and len(self.requests) > 1:
            placed = self.bound if self.failure else self.placed_count
            unique += bound_notes(self.bound, placed, self.requested_count)
        return unique


def decide_all(decider: Decider, requests: Sequence[Request]) -> Decisions:
    """Decide on requests that are known at once: all of them are one decision.

    Several are planned together (``batch_plan``); one is decided as by itself. They share what
    the most generous of their policies has to spend. Where some request gets fewer nodes than it
    must have, the decisions are those in the order asked, up to the first that fails. Errors as
    of ``Decider.select_destinations``, with the number of the request.
    """
    succession, sealed = Succession(decider), []
    for number, request in enumerate(requests, 1):
        try:
            sealed.append(succession.prepare(request))
        except (RequestError, UnknownName) as error:
            raise (error if len(requests) == 1 else error.at(f"request {number}")) from None
    decisions = _decide_together(succession, sealed)
    for decision in decisions.decisions:
        decider.check_decided(decision.undecided, decision.context.bound.policy)
    return decisions


def _decide_together(succession: Succession, requests: Sequence[Request]) -> Decisions:
    decisions = Decisions(requests, succession.view, succession.skipped)
    trial = None
    if len(requests) > 1:
        # the optimiser is loaded where something is planned: most commands decide on one request
        from valence_sched.planning.batch_plan import BatchPlan
        from valence_sched.planning.joint_plan import plan_requests

        plan = BatchPlan(succession, requests, succession.budget(requests))
        policies = [succession.policy(one) for one in requests]
        if all(map(plans_batches, policies)):
            joint = plan_requests(plan, policies[0].goals)
            trial, decisions.bound = joint.trial, joint.bound
        else:
            trial, decisions.bound = plan.best(), plan.bound
    if trial is not None and not trial.is_short:
        decisions.decisions = trial.decisions
    else:
        decisions.decisions = _decide_in_order(succession, requests)
    _drop_conflicting_alternates(decisions.decisions)
    return decisions


def _decide_in_order(succession: Succession, requests: Sequence[Request]) -> list[Decision]:
    """Return the decisions up to the first by which fewer nodes fit than must be placed."""
    decisions: list[Decision] = []
    total, spending = sum(one.count for one in requests), succession.spending(requests)
    for request in requests:
        others = total - request.count
        decision = succession.decide(request, other_nodes=others, spending=spending)
        decisions.append(decision)
        for attempt in decision.attempts if len(requests) > 1 else ():
            attempt.batch.bound = None  # that of all requests is stated
        if len(requests) == 1 or decision.fit_count < request.required_count:
            break
        from valence_sched.planning.batch_plan import keep_explainable

        keep_explainable(decision, succession.current_view)
        for node in decision.fitting_nodes:
            succession.take(request, node.chosen)
    return decisions


def _drop_conflicting_alternates(decisions: Sequence[Decision]) -> None:
    """Leave out of each decision the alternates on podms that take nodes of the others."""
    counts = Counter(podm for decision in decisions for podm in decision.fit_count_by_podm)
    for decision in decisions:
        if decision.request.alternates:
            own = decision.fit_count_by_podm
            others = (podm for podm, number in counts.items() if number > (podm in own))
            decision.exclude_alternates_on(frozenset(others))
