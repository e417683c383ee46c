# SPDX-License-Identifier: Apache-2.0
"""Handlers of decisions: select destinations, rank, count, plan, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from valence_sched.errors import UnknownName
from valence_sched.model.base import Noun
from valence_sched.model.decision import DecisionSummary, Detail, Report, Reports
from valence_sched.model.inventory import to_json
from valence_sched.model.lifecycle import PlanRefresh, Preview
from valence_sched.model.request import Request, with_content_id
from valence_sched.service.call import Call, CallResult
from valence_sched.service.handlers.claims import check_plan
from valence_sched.service.records import digest

MOST_SKIPPED = 1_000_000


class DecisionsQuery(Noun, frozen=True, kw_only=True):
    """Which decisions to list: ``limit`` of them, after ``skip`` newer ones."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    skip: Annotated[int, Meta(ge=0, le=MOST_SKIPPED)] = 0


def compile_request(call: Call) -> Request:
    """Compile a request with its flavor and places; one with a seed gets its id, decided alike."""
    spec = call.body.request
    with call.parts.schedulers.reading() as scheduler:
        request = call.compiled_spec(scheduler, spec)
    return request if spec.seed is None else with_content_id(request)


def select_destinations(call: Call) -> CallResult:
    """Choose pool and blocks for every node of a request."""
    body = call.body
    with call.reading() as scheduler:
        request = call.deciding(scheduler, body)
        detail: Detail = "report" if body.keep else body.detail
        result = scheduler.select_destinations(request, detail=detail)
    if not body.keep:
        return CallResult(result)
    document = to_json(result.report)
    decision_id = digest(document)
    call.parts.records.save_decision(decision_id, result.report, document)
    return CallResult(result, headers={"Content-Location": f"/v1/decisions/{decision_id}"})


def decisions(call: Call) -> Sequence[DecisionSummary]:
    """List the newest decisions that were kept, of those that the user may see."""
    page = call.query_noun(DecisionsQuery)
    return call.parts.records.newest_decisions(page.limit, page.skip, call.user.owner)


def decision(call: Call) -> Report | Reports:
    """Return a decision that was kept."""
    decision_id = call.name()
    owner = call.user.owner
    try:
        with call.reading() as scheduler:
            report = scheduler.decision(decision_id)
    except UnknownName:
        if owner is None:
            raise
        raise UnknownName("decision", decision_id, ()) from None
    decided = report.decisions if isinstance(report, Reports) else (report,)
    if owner is not None and any(one.request.owner != owner for one in decided):
        raise UnknownName("decision", decision_id, ())
    return report


def refresh(call: Call) -> PlanRefresh:
    """Decide again what a plan decided."""
    with call.parts.schedulers.changing() as scheduler:
        check_plan(call, scheduler, call.body.plan)
        return scheduler.refresh(call.body.plan)


def preview(call: Call) -> Sequence[Preview]:
    """Ask the chosen pod managers whether they would compose the nodes of a decision."""
    decision: Report = call.body.decision
    decision = replace(decision, request=call.checked(decision.request))
    with call.parts.schedulers.changing() as scheduler:
        return tuple(scheduler.preview(decision))
