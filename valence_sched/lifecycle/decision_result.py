# SPDX-License-Identifier: Apache-2.0
"""Decision results: the report and the details of a decision at the requested level."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report, funnel_steps
from valence_sched.core.explain.unknown import decision_warnings
from valence_sched.model.decision import (
    MAX_LISTED_PODMS,
    DecisionDetails,
    DecisionResult,
    DecisionResults,
    Detail,
    FailedChoice,
    InventorySummary,
    PodmVerdict,
    Report,
    Reports,
)
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.planning.batches import Decisions


def decision_result(decision: Decision, detail: Detail = "placements") -> DecisionResult:
    report = decision_report(decision) if detail == "report" else _short_report(decision, detail)
    return DecisionResult(report=report, details=_details(decision))


def decision_results(decisions: "Decisions", detail: Detail = "placements") -> DecisionResults:
    report = decisions.report() if detail == "report" else _short_reports(decisions, detail)
    return DecisionResults(report=report, details=tuple(map(_details, decisions.decisions)))


def _short_report(decision: Decision, detail: Detail) -> Report:
    """Return the report without the slow parts: funnel, explanation, digest of the inventory."""
    placements = decision.placements
    verdicts = tuple(_short_verdicts(decision)) if detail == "summary" else ()
    return Report(
        outcome=decision.outcome,
        requested=decision.request.count,
        placed=len(placements),
        fitting=decision.fit_count,
        seed=decision.request.seed,
        request=decision.request,
        policy=decision.context.bound.policy,
        policy_digest=decision.context.bound.digest,
        inventory=inventory_summary(decision.view),
        placements=placements,
        podms=verdicts,
        funnel=(),
        warnings=tuple(decision_warnings(decision)),
        undecided=decision.undecided,
    )


def _short_verdicts(decision: Decision) -> Iterable[PodmVerdict]:
    """Return all verdicts if no node fits or the inventory is small.

    Otherwise return the verdicts on the chosen podms if only some nodes are placed, else none.
    """
    from valence_sched.core.explain.verdicts import Verdicts  # only on request

    if not decision.placed_nodes or len(decision.view.podms) <= MAX_LISTED_PODMS:
        return Verdicts(decision).podm_verdicts()
    if decision.outcome != "placed_in_part":
        return ()
    verdicts = Verdicts(decision)
    return map(verdicts.podm_verdict, decision.chosen_podms()[:MAX_LISTED_PODMS])


def _short_reports(decisions: "Decisions", detail: Detail) -> Reports:
    reports = [_short_report(decision, detail) for decision in decisions.decisions]
    if decisions.failure:
        nothing: dict[str, Any] = {"outcome": "nothing_fits", "placed": 0}
        nothing |= {"placements": (), "podms": ()}
        reports[:-1] = [replace(report, **nothing) for report in reports[:-1]]
    return Reports(
        outcome=decisions.outcome,
        requested=decisions.requested_count,
        placed=decisions.placed_count,
        inventory=inventory_summary(decisions.view),
        decisions=tuple(reports),
        warnings=tuple(decisions.warnings()),
    )


def inventory_summary(view: View) -> InventorySummary:
    """Return the size of the inventory without its slow digest."""
    sizes = {"podms": len(view.podms), "pools": len(view), "blocks": view.block_count}
    return InventorySummary(digest="", skipped=(), **sizes)


def _details(decision: Decision) -> DecisionDetails | None:
    if not decision.explainable:
        return None
    failed = ((number, funnel_steps(decision, one)) for number, one in decision.failed_attempts)
    choices = tuple(FailedChoice(choice=number, funnel=funnel) for number, funnel in failed)
    return DecisionDetails(failed_choices=choices)
