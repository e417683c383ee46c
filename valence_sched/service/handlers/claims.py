# SPDX-License-Identifier: Apache-2.0
"""Handlers of claims and nodes: hold, compose, delete; what takes long is an operation."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

from valence_sched.errors import (
    AccessDenied,
    SchedulerError,
    ServiceError,
    Undecodable,
    UnknownName,
    one_line,
)
from valence_sched.model.claim import Claim
from valence_sched.model.inventory import to_json
from valence_sched.model.lifecycle import ClaimRecord, ClaimResult, NodeRecord, ReconcileResult
from valence_sched.model.plan import Plan
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.verbs import NodesBody, Operation, WaitQuery
from valence_sched.model.zone import silent_zones
from valence_sched.service.call import Call, CallResult
from valence_sched.service.operations import new_operation
from valence_sched.service.visibility import visible_error


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


def compose(call: Call) -> CallResult:
    """Have pod managers compose a request, a plan or a claim."""
    body: NodesBody = call.body
    times = {"ttl_s": body.ttl_s, "wait_s": body.wait_s}
    with call.parts.schedulers.changing() as scheduler:
        if body.claim is not None:
            check_claim(call, scheduler, body.claim)
            work = methodcaller("compose_claim", body.claim, wait_s=body.wait_s)
        elif body.plan is not None:
            check_plan(call, scheduler, body.plan)
            work = methodcaller("compose_plan", body.plan, key=call.key, **times)
        else:
            request = call.deciding(scheduler, body)
            work = methodcaller("compose", request, key=call.key, detail=body.detail, **times)
    return start(call, "compose", work, repeat=body.claim is None)


def node_record(call: Call) -> NodeRecord:
    """Show a node as its pod manager has it."""
    with call.parts.schedulers.changing() as scheduler:
        check_node(call, scheduler, call.name())
        return scheduler.node_record(call.name())


def delete_nodes(call: Call) -> CallResult:
    """Have a node decomposed."""
    name = call.name()
    with call.parts.schedulers.changing() as scheduler:
        check_node(call, scheduler, name)
    wait_s = call.query_noun(WaitQuery).wait_s

    def work(scheduler: Scheduler) -> None:
        for error in scheduler.delete_nodes([name], wait_s=wait_s):
            raise error

    return start(call, "delete", work, repeat=True)


def reconcile(call: Call) -> CallResult:
    """Make claims and nodes agree with the pod managers."""

    def work(scheduler: Scheduler) -> ReconcileResult:
        return scheduler.reconcile(dry_run=call.body.dry_run, keep_s=call.body.keep_s)

    return start(call, "reconcile", work, repeat=True)


def operation(call: Call) -> Operation:
    """Show an operation and, once it has ended, what came of it."""
    return call.parts.operations.get(call.name(), call.user.owner)


def start(call: Call, kind: str, work: Callable[[Scheduler], Any], *, repeat: bool) -> CallResult:
    """Begin an operation, and answer where to poll it."""
    user = call.user
    changed_name = f"nodes/{call.name()}" if "name" in call.path else None
    begun = new_operation(kind, user.owner, call.key, to_json(call.body), user.consumer)

    def run() -> Any:
        changed, outcome = [changed_name or f"operations/{begun.id}"], "failed"
        try:
            with call.parts.schedulers.changing() as scheduler:
                result = call.visible(work(scheduler))
            outcome = "done"
            changed = [f"nodes/{one.id}" for one in getattr(result, "nodes", ())] or changed
        except (UnknownName, Undecodable) as error:
            outcome = error.code
            raise visible_error(error, user.owner) from None
        except SchedulerError as error:
            outcome = error.code
            raise
        finally:
            for name in changed:
                call.record_change(name, outcome)
        return result

    running = call.parts.operations.start(begun, run, repeat=repeat)
    return CallResult(running, 202, {"Location": f"/v1/operations/{running.id}"})


def check_node(call: Call, scheduler: Scheduler, name: str) -> None:
    """Raise UnknownName for a node of another user, ServiceError where its zone is silent."""
    owner = call.user.owner
    if owner is None:
        return
    found = scheduler.nodes(owner=owner)
    if any(name in (status.node.id, status.node.uri) for status in found):
        return
    for zone in silent_zones(found):
        if name.startswith(f"{zone.zone}/"):
            raise ServiceError(one_line(f"zone {zone.zone}: {zone.reason}"))
    raise UnknownName("node", name, ())
