# SPDX-License-Identifier: Apache-2.0
"""Reports: decisions as documents, with the evaluations behind them, and the digests in them."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.core.batch import Attempt
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import funnel
from valence_sched.core.explain.undecided import undecided_text
from valence_sched.core.explain.unknown_terms import unknown_terms
from valence_sched.model.decision import FunnelStep, InventorySummary, Report
from valence_sched.model.quantity import format_count
from valence_sched.view.digest import inventory_digest
from valence_sched.view.view import View


def decision_report(
    decision: Decision, source: InventorySummary | None = None, *, explain: bool = True
) -> Report:
    """Return a decision as a document; ``source`` is the inventory, where that is known.

    The explanation is the expensive part of it: without ``explain`` there is none.
    """
    from valence_sched.core.explain.explain import explain as explain_decision  # takes long
    from valence_sched.core.explain.verdicts import Verdicts

    policy = decision.context.bound.policy
    return Report(
        outcome=decision.outcome,
        requested=decision.request.count,
        placed=len(decision.placed_nodes),
        fitting=decision.fit_count,
        seed=decision.request.seed,
        request=decision.request,
        policy=policy,
        policy_digest=decision.context.bound.digest,
        inventory=source or inventory_source(decision.view, decision.skipped),
        placements=decision.placements,
        podms=tuple(Verdicts(decision).podm_verdicts() if decision.explainable else ()),
        funnel=funnel_steps(decision),
        warnings=tuple(decision_warnings(decision)),
        explanation=explain_decision(decision) if explain and decision.explainable else None,
        undecided=decision.undecided,
    )


def decision_warnings(decision: Decision) -> list[str]:
    """Return plug-ins that broke their contract, terms that nothing reports, undecided pools."""
    notes = [*decision.batch.evaluation.notes, *unknown_terms(decision.view, decision.request)]
    if decision.undecided_rows:
        notes.append(undecided_text(decision.undecided, decision.context.bound.policy))
    bounds = [one.batch.bound for one in decision.attempts if one.batch.bound is not None]
    if bounds and len(decision.attempts) == 1:
        notes += bound_notes(bounds[0], decision.fit_count, decision.request.count)
    return notes


def bound_notes(bound: int, fitting: int, requested: int) -> list[str]:
    """Return how far the nodes that fit are from the most, where they are not all."""
    if fitting >= requested or bound >= requested:
        return []
    most = f"no placement has more than {bound:,} of the {format_count(requested, 'node')}"
    if fitting == bound:
        return [most]
    return [f"{most}; {fitting:,} were found"]


def funnel_steps(decision: Decision, attempt: Attempt | None = None) -> tuple[FunnelStep, ...]:
    """Return the funnel of an attempt's first node: pools into and out of every filter."""
    if not decision.explainable:
        return ()
    attempt = attempt or decision.main_attempt
    context, undecided = attempt.context, len(attempt.batch.undecided_rows)
    steps = [
        FunnelStep(filter=name, came_in=i, went_on=out)
        for name, i, out in funnel(context.bound, context.evaluation.verdicts, len(context.view))
    ]
    if undecided:
        passed = steps[-1].went_on if steps else len(context.view)
        left = max(0, passed - undecided)
        steps.append(FunnelStep(filter="fit", came_in=passed, went_on=left, undecided=undecided))
    return tuple(steps)


def inventory_source(view: View, skipped: Sequence[str]) -> InventorySummary:
    """Return the summary of the inventory that a View was built from, as reports hold it."""
    return InventorySummary(
        digest=inventory_digest(view),
        podms=len(view.podms),
        pools=len(view),
        blocks=view.block_count,
        skipped=tuple(skipped),
    )
