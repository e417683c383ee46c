# SPDX-License-Identifier: Apache-2.0
"""Handlers of claims: hold, list, show, renew, release."""

from __future__ import annotations

from valence_sched.errors import AccessDenied, Undecodable, UnknownName
from valence_sched.model.claim import Claim
from valence_sched.model.lifecycle import ClaimRecord, ClaimResult
from valence_sched.model.plan import Plan
from valence_sched.model.scheduler import Scheduler
from valence_sched.service.call import Call, CallResult


def claim(call: Call) -> CallResult:
    """Decide and hold what was chosen, or hold the very blocks of a plan."""
    body = call.body
    with call.reading() as scheduler:
        if body.plan is not None:
            check_plan(call, scheduler, body.plan)
            held = scheduler.claim_plan(body.plan, key=call.key, ttl_s=body.ttl_s)
            result = ClaimResult(claim=held)
        else:
            request = call.deciding(scheduler, body)
            result = scheduler.claim(request, key=call.key, ttl_s=body.ttl_s, detail=body.detail)
    if result.claim is None:
        return CallResult(result)
    return CallResult(result, 201, {"Location": f"/v1/claims/{result.claim.id}"})


def claim_record(call: Call) -> ClaimRecord:
    """Show a claim with its nodes and events."""
    with call.parts.schedulers.changing() as scheduler:
        return visible_claim(call, scheduler, call.name())


def renew(call: Call) -> Claim:
    """Let a claim that is held end later."""
    with call.parts.schedulers.changing() as scheduler:
        check_claim(call, scheduler, call.name())
        return scheduler.renew(call.name(), call.body.ttl_s)


def release(call: Call) -> CallResult:
    """Release a claim."""
    with call.parts.schedulers.changing() as scheduler:
        check_claim(call, scheduler, call.name())
        for error in scheduler.release([call.name()]):
            raise error
    return CallResult(status=204)


def visible_claim(call: Call, scheduler: Scheduler, claim_id: str) -> ClaimRecord:
    """Return a claim that the user may see; UnknownName for any other, which names none."""
    owner = call.user.owner
    if owner is None:
        return scheduler.claim_record(claim_id)
    try:
        record = scheduler.claim_record(claim_id)
    except UnknownName:
        record = None
    if record is None or record.claim.owner != owner:
        raise UnknownName("claim", claim_id, ())
    return record


def check_claim(call: Call, scheduler: Scheduler, claim_id: str) -> None:
    """Raise UnknownName for a claim that is another user's.

    One of the user's own that cannot be decoded can be released all the same.
    """
    if call.user.owner is None:
        return
    try:
        visible_claim(call, scheduler, claim_id)
    except Undecodable as error:
        if error.owner != call.user.owner:
            raise


def check_plan(call: Call, scheduler: Scheduler, plan: Plan) -> None:
    """Raise AccessDenied for a plan of another user, or that no scheduler here signed as it is."""
    request = call.checked(plan.decision.request)
    if call.user.owner is not None and request.owner != plan.decision.request.owner:
        raise AccessDenied("the plan has no owner: make it again as the user that claims it")
    scheduler.check_plan(plan)
