# SPDX-License-Identifier: Apache-2.0
"""Decision results: the report and the details of a decision at the requested level."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report, funnel_steps
from valence_sched.core.explain.unknown import decision_warnings
from valence_sched.model import decision as nouns
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.planning.batches import Decisions


def decision_result(
    decision: Decision, detail: nouns.Detail = "placements"
) -> nouns.DecisionResult:
    """Return a decision with its details and the report at the level ``detail``."""
    report = decision_report(decision) if detail == "report" else _short_report(decision, detail)
    return nouns.DecisionResult(report=report, details=_details(decision))


def decision_results(
    decisions: "Decisions", detail: nouns.Detail = "placements"
) -> nouns.DecisionResults:
    """Return several decisions with their report and details."""
    report = decisions.report() if detail == "report" else _short_reports(decisions, detail)
    return nouns.DecisionResults(report=report, details=tuple(map(_details, decisions.decisions)))


def _short_report(decision: Decision, detail: nouns.Detail) -> nouns.Report:
    """Return the report without the slow parts: funnel, explanation, digest of the inventory."""
    placements = decision.placements
    verdicts = tuple(_short_verdicts(decision)) if detail == "summary" else ()
    return nouns.Report(
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


def _short_verdicts(decision: Decision) -> Iterable[nouns.PodmVerdict]:
    """Return all verdicts if no node fits or the inventory is small.

    Otherwise return the verdicts on the chosen podms if only some nodes are placed, else none.
    """
    from valence_sched.core.explain.verdicts import Verdicts  # only on request

    if not decision.placed_nodes or len(decision.view.podms) <= nouns.MAX_LISTED_PODMS:
        return Verdicts(decision).podm_verdicts()
    if decision.outcome != "placed_in_part":
        return ()
    return map(Verdicts(decision).podm_verdict, decision.chosen_podms()[: nouns.MAX_LISTED_PODMS])


def _short_reports(decisions: "Decisions", detail: nouns.Detail) -> nouns.Reports:
    reports = [_short_report(decision, detail) for decision in decisions.decisions]
    if decisions.failure:
        nothing: dict[str, Any] = {"outcome": "nothing_fits", "placed": 0}
        nothing |= {"placements": (), "podms": ()}
        reports[:-1] = [replace(report, **nothing) for report in reports[:-1]]
    return nouns.Reports(
        outcome=decisions.outcome,
        requested=decisions.requested_count,
        placed=decisions.placed_count,
        inventory=inventory_summary(decisions.view),
        decisions=tuple(reports),
        warnings=tuple(decisions.warnings()),
    )


def inventory_summary(view: View) -> nouns.InventorySummary:
    """Return the size of the inventory without its slow digest."""
    sizes = {"podms": len(view.podms), "pools": len(view), "blocks": view.block_count}
    return nouns.InventorySummary(digest="", skipped=(), **sizes)


def _details(decision: Decision) -> nouns.DecisionDetails | None:
    if not decision.explainable:
        return None
    failed = ((number, funnel_steps(decision, one)) for number, one in decision.failed_attempts)
    choices = tuple(nouns.FailedChoice(choice=number, funnel=funnel) for number, funnel in failed)
    return nouns.DecisionDetails(failed_choices=choices)
