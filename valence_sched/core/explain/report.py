# SPDX-License-Identifier: Apache-2.0
"""Reports: decisions as documents, with the evaluations that they were made from in words."""

from __future__ import annotations

import msgspec

from valence_sched.core.alternatives import Attempt
from valence_sched.core.decision import Decision
from valence_sched.core.digest import digest, inventory_source
from valence_sched.core.evaluate import funnel
from valence_sched.core.explain.explain import explain as explain_decision
from valence_sched.core.explain.unknown_terms import unknown_terms
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.multi_request import Decisions
from valence_sched.model.decision import FunnelStep, InventorySummary, Report, Reports
from valence_sched.model.inventory import to_json


def decision_report(
    decision: Decision, source: InventorySummary | None = None, *, explain: bool = True
) -> Report:
    """Return a decision as a document; ``source`` is the inventory, where that is known.

    The explanation is the expensive part of it: without ``explain`` there is none.
    """
    policy = decision.context.bound.policy
    return Report(
        outcome=decision.outcome,
        requested=decision.request.count,
        placed=len(decision.placed_nodes),
        fitting=decision.fit_count,
        seed=decision.request.seed,
        request=decision.request,
        policy=policy,
        policy_digest=digest(to_json(policy)),
        inventory=source or inventory_source(decision.view, decision.skipped),
        placements=decision.placements,
        podms=tuple(Verdicts(decision).podm_verdicts() if decision.explainable else ()),
        funnel=funnel_steps(decision),
        warnings=tuple(decision_warnings(decision)),
        explanation=explain_decision(decision) if explain and decision.explainable else None,
    )


def decision_warnings(decision: Decision) -> list[str]:
    """Return plug-ins that broke their contract, and terms of the request that nothing reports."""
    notes = decision.batch.evaluation.notes
    return [*notes, *unknown_terms(decision.view, decision.request)]


def funnel_steps(decision: Decision, attempt: Attempt | None = None) -> tuple[FunnelStep, ...]:
    """Return the funnel of an attempt's first node: pools into and out of every filter."""
    if not decision.explainable:
        return ()
    context = (attempt or decision.main_attempt).context
    steps = funnel(context.bound, context.evaluation.verdicts, len(context.view))
    return tuple(
        FunnelStep(filter=name, came_in=came_in, went_on=went_on)
        for name, came_in, went_on in steps
    )


def decisions_report(decisions: Decisions, *, explain: bool = True) -> Reports:
    """Return all decisions as one document; of requests that failed, no node is placed."""
    source = inventory_source(decisions.view, decisions.skipped)
    reports = [decision_report(one, source, explain=explain) for one in decisions.decisions]
    if decisions.failure:
        reports[:-1] = map(_without_placements, reports[:-1])
    return Reports(
        outcome=decisions.outcome,
        requested=decisions.requested_count,
        placed=decisions.placed_count,
        inventory=source,
        decisions=tuple(reports),
        warnings=tuple(decisions_warnings(decisions)),
    )


def decisions_warnings(decisions: Decisions) -> list[str]:
    """Return the warnings of all decisions, each once."""
    notes = (note for decision in decisions.decisions for note in decision_warnings(decision))
    return list(dict.fromkeys(notes))


def _without_placements(report: Report) -> Report:
    """Return the report of a decision that another request has brought to nothing."""
    return msgspec.structs.replace(
        report,
        outcome="nothing_fits",
        placed=0,
        placements=(),
        podms=(),
        funnel=(),
        explanation=None,
    )
