# SPDX-License-Identifier: Apache-2.0
"""Handlers of the routes that do more than call a verb."""

from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Annotated, Any, get_args
from urllib.parse import urlencode

from msgspec import Meta
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.model import verbs as nouns
from valence_sched.model.base import Noun, digest_of
from valence_sched.model.decision import DecisionSummary, Detail, Report, Reports
from valence_sched.model.hardware import BlockUsage
from valence_sched.model.inventory import OTHERS, to_json
from valence_sched.model.lifecycle import ClaimRecord, ClaimResult, Preview, ReconcileResult
from valence_sched.model.plan import Plan
from valence_sched.model.policy import PluginKind
from valence_sched.model.quota import Quota
from valence_sched.model.registration import PasswordReference
from valence_sched.model.request import Request, with_content_id
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer, silent_zones
from valence_sched.model.zone_registry import ZoneNode, ZoneTreeQuery
from valence_sched.service.call import NAME_IN_QUERY, VERSIONS, Call, CallResult, ServedZone
from valence_sched.service.operations import new_operation
from valence_sched.service.settings import is_source
from valence_sched.service.visibility import visible_claim, visible_error
from valence_sched.words.phrases import request_phrase


def claim(call: Call) -> CallResult:
    """Decide and hold the choice, or hold the blocks of a plan."""
    body = call.body
    with call.reading() as scheduler:
        if body.plan is not None:
            check_plan(call, scheduler, body.plan)
            held = scheduler.claim_plan(body.plan, key=call.key, ttl_s=body.ttl_s)
            result = ClaimResult(claim=held)
        else:
            request = call.compiled(scheduler, body.request or body.compiled, decides=True)
            result = scheduler.claim(request, key=call.key, ttl_s=body.ttl_s, detail=body.detail)
    if result.claim is None:
        return CallResult(result)
    id_ = result.claim.id
    # the path of a claim below has a slash, and the rest of it is the text of a child zone
    name = f"{NAME_IN_QUERY}?{urlencode({'name': id_})}" if "/" in id_ else id_
    return CallResult(result, 201, {"Location": f"/v1/claims/{name}"})


def claim_record(call: Call) -> ClaimRecord:
    """Show a claim with its nodes and events."""
    with call.parts.schedulers.changing() as scheduler:
        return visible_claim(scheduler, call.name(), call.user.owner)


def check_claim(call: Call, scheduler: Scheduler, claim_id: str) -> None:
    """Raise UnknownName for a claim of another user; accept an undecodable claim of this user."""
    if call.user.owner is None:
        return
    try:
        visible_claim(scheduler, claim_id, call.user.owner)
    except errors.Undecodable as error:
        if error.owner != call.user.owner:
            raise


def check_plan(call: Call, scheduler: Scheduler, plan: Plan) -> None:
    """Raise AccessDenied for a plan of another user, or without a valid signature."""
    request = call.checked(plan.decision.request)
    if call.user.owner is not None and request.owner != plan.decision.request.owner:
        raise errors.AccessDenied("the plan has no owner: plan again as the user that claims it")
    scheduler.check_plan(plan)


def compose(call: Call) -> CallResult:
    """Compose the nodes of a request, a plan or a claim."""
    body: nouns.NodesBody = call.body
    times = {"ttl_s": body.ttl_s, "wait_s": body.wait_s}
    with call.parts.schedulers.changing() as scheduler:
        if body.claim is not None:
            check_claim(call, scheduler, body.claim)
            work = methodcaller("compose_claim", body.claim, wait_s=body.wait_s)
        elif body.plan is not None:
            check_plan(call, scheduler, body.plan)
            work = methodcaller("compose_plan", body.plan, key=call.key, **times)
        else:
            asked = body.request or body.compiled
            assert asked is not None, "a body has one of its choices"
            request = call.compiled(scheduler, asked, decides=True)
            work = methodcaller("compose", request, key=call.key, detail=body.detail, **times)
    return start(call, "compose", work, repeat=body.claim is None)


def change_node(call: Call) -> CallResult:
    """Attach devices to a node, and detach others."""
    name, body = call.name(), call.body
    with call.parts.schedulers.changing() as scheduler:
        check_node(call, scheduler, name)
    options = {"key": call.key, "wait_s": body.wait_s, "dry_run": body.dry_run}
    work = methodcaller("change_node", name, body.change, **options)
    return start(call, "change", work, repeat=True)


def delete_nodes(call: Call) -> CallResult:
    """Decompose a node."""
    name = call.name()
    with call.parts.schedulers.changing() as scheduler:
        check_node(call, scheduler, name)
    wait_s = call.query_noun(nouns.WaitQuery).wait_s

    def work(scheduler: Scheduler) -> None:
        for error in scheduler.delete_nodes([name], wait_s=wait_s):
            raise error

    return start(call, "delete", work, repeat=True)


def reconcile(call: Call) -> CallResult:
    """Reconcile claims and nodes with the pod managers."""

    def work(scheduler: Scheduler) -> ReconcileResult:
        return scheduler.reconcile(dry_run=call.body.dry_run, keep_s=call.body.keep_s)

    return start(call, "reconcile", work, repeat=True)


def operation(call: Call) -> nouns.Operation:
    """Show an operation and, once it has ended, its result."""
    return call.parts.operations.get(call.name(), call.user.owner)


def start(call: Call, kind: str, work: Callable[[Scheduler], Any], *, repeat: bool) -> CallResult:
    user = call.user
    changed_name = f"nodes/{call.name()}" if "name" in call.path else None
    content = to_json(call.body)
    # work that may be repeated compares its key itself: another body has an operation of its own
    parts = call.key, changed_name, digest_of(content) if repeat else None
    key = call.key and "\0".join(filter(None, parts))
    begun = new_operation(kind, user.owner, key, content, user.consumer)

    def run() -> Any:
        changed, outcome = [changed_name or f"operations/{begun.id}"], "failed"
        try:
            with call.parts.schedulers.changing() as scheduler:
                result = call.completed(work(scheduler))
            outcome = "done"
            changed = [f"nodes/{one.id}" for one in getattr(result, "nodes", ())] or changed
        except (errors.UnknownName, errors.Undecodable) as error:
            outcome = error.code
            raise visible_error(error, user.owner) from None
        except errors.SchedulerError as error:
            outcome = error.code
            raise
        finally:
            for name in changed:
                call.record_change(name, outcome)
        return result

    running = call.parts.operations.start(begun, run, repeat=repeat)
    return CallResult(running, 202, {"Location": f"/v1/operations/{running.id}"})


def check_node(call: Call, scheduler: Scheduler, name: str) -> None:
    """Raise UnknownName for a node of another user, ServiceError if its zone does not answer."""
    owner = call.user.owner
    if owner is None:
        return
    found = scheduler.nodes(owner=owner)
    if any(name in (status.node.id, status.node.uri) for status in found):
        return
    for zone in silent_zones(found):
        if name.startswith(f"{zone.zone}/"):
            raise errors.ServiceError(f"zone {zone.zone}: {zone.reason}")
    raise errors.UnknownName("node", name, ())


MOST_SKIPPED = 1_000_000
MOST_PODMS, MOST_ASKED = 5, 400  # pod managers and characters of a request in a summary


class DecisionsQuery(Noun, frozen=True, kw_only=True):
    """The decisions to list: the newest ``limit``, without the first ``skip``."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    skip: Annotated[int, Meta(ge=0, le=MOST_SKIPPED)] = 0


def compile_request(call: Call) -> Request:
    """Compile a request with its flavor and places; with a seed, its id depends on its content."""
    spec = call.body.request
    with call.parts.schedulers.reading() as scheduler:
        request = call.compiled(scheduler, spec)
    return request if spec.seed is None else with_content_id(request)


def select_destinations(call: Call) -> CallResult:
    """Choose pool and blocks for every node of a request."""
    body = call.body
    with call.reading() as scheduler:
        request = call.compiled(scheduler, body.request or body.compiled, decides=True)
        detail: Detail = "report" if body.keep else body.detail
        result = scheduler.select_destinations(request, detail=detail)
    if not body.keep:
        return CallResult(result)
    report, document = result.report, to_json(result.report)
    podms = tuple(dict.fromkeys(one.chosen.podm for one in report.placements))
    asked = request_phrase(report.request)
    summary = DecisionSummary(
        id=digest_of(document),
        decided_at=0.0,  # the database sets the time
        owner=report.request.owner,
        request=asked if len(asked) <= MOST_ASKED else f"{asked[: MOST_ASKED - 1]}…",
        outcome=report.outcome,
        requested=report.requested,
        placed=report.placed,
        podms=podms[:MOST_PODMS],
        podm_count=len(podms),
    )
    dispatched = report if call.parts.dispatches else None
    call.parts.store().decisions.save(summary.id, document, summary, dispatched)
    return CallResult(result, headers={"Content-Location": f"/v1/decisions/{summary.id}"})


def decisions(call: Call) -> Sequence[DecisionSummary]:
    """List the newest saved decisions that the user may see."""
    page = call.query_noun(DecisionsQuery)
    stored = call.parts.store().decisions
    return stored.newest(page.limit, skip=page.skip, owner=call.user.owner)


def decision(call: Call) -> Report | Reports:
    """Return a stored decision."""
    decision_id = call.name()
    owner = call.user.owner
    try:
        with call.reading() as scheduler:
            report = scheduler.decision(decision_id)
    except errors.UnknownName:
        if owner is None:
            raise
        raise errors.UnknownName("decision", decision_id, ()) from None
    decided = report.decisions if isinstance(report, Reports) else (report,)
    if owner is not None and any(one.request.owner != owner for one in decided):
        raise errors.UnknownName("decision", decision_id, ())
    return report


def preview(call: Call) -> Sequence[Preview]:
    """Ask the chosen pod managers whether they would compose the nodes of a decision."""
    decision: Report = call.body.decision
    decision = replace(decision, request=call.checked(decision.request))
    with call.parts.schedulers.changing() as scheduler:
        return tuple(scheduler.preview(decision))


def block_usage(call: Call, podm: str | None = None) -> BlockUsage:
    """Show which blocks of a pod manager are in use, and by which claims."""
    owner = call.user.owner
    with call.parts.schedulers.changing() as scheduler:
        found = scheduler.block_usage(call.name() if podm is None else podm)
        own = {one.id for one in scheduler.claims(owner=owner)} if owner is not None else set()
    if owner is None:
        return found
    held = {uri: ids if ids in own else OTHERS for uri, ids in found.held.items()}
    return replace(found, held=held)


def check_reference(call: Call, _scheduler: Scheduler, _what: object) -> None:
    """Raise InputError unless the password is a reference to a variable or file of the service."""
    reference = getattr(call.body, "registration", call.body).password
    if isinstance(reference, PasswordReference) and not is_source(reference):
        expected = "exactly one of env and file"
        raise errors.InputError("the body", "$.password", "no reference", expected)


def update_resource_stats(call: Call) -> nouns.Generation:
    """Store the statistics that a pod manager reports."""
    with call.parts.schedulers.changing() as scheduler:
        generation = scheduler.update_resource_stats(call.name(), call.body.stats)
    return nouns.Generation(generation=generation)


def receive(call: Call) -> CallResult:
    """Receive an event from the pod manager that has this token; it is read again soon."""
    events = call.parts.events
    assert events is not None, "without events there is no token"
    events.take(call.user.name, call.body.records)
    return CallResult(status=204)


def zone_tree(call: Call) -> ZoneNode:
    """Show the zone of the service and the zones below it, with the amounts of each."""
    query = call.query_noun(ZoneTreeQuery)
    with call.reading() as scheduler:
        own = scheduler.zone_tree(hops=0)
    # the shared scheduler is free during the queries to zones below
    with call.parts.schedulers.changing() as scheduler:
        above = tuple(filter(None, query.route.split(",")))
        branches = scheduler.zone_branches(
            hops=query.hops, deadline_s=query.deadline_s, route=above
        )
        return replace(own, children=tuple(branches))


def offers(call: Call) -> ZoneAnswer:
    """Offer nodes of this zone and the zones below it to the parent zone, for a request."""
    zone = served_zone(call)
    return zone.tree(call.user.tenant).offers(_bounded(call, zone))


def group_state(call: Call) -> GroupAnswer:
    """Return the nodes of a group and the supplies for a mix, in this zone and zones below it."""
    zone = served_zone(call)
    return zone.tree(call.user.tenant).group_state(_bounded(call, zone))


def served_zone(call: Call) -> ServedZone:
    zone = call.parts.zone
    if zone is None:
        hint = "set enable_zone_routing: true in the section zones of its settings"
        raise errors.AccessDenied(f"this zone makes no offers to a zone above: {hint}")
    return zone


def _bounded(call: Call, zone: ServedZone) -> OfferQuery:
    query: OfferQuery = call.body
    call.check_limits(query.request)
    return replace(
        query,
        limit=min(query.limit, call.parts.limits.nodes + call.parts.limits.alternates),
        hops=min(query.hops, zone.most_hops),
        deadline_s=min(query.deadline_s, zone.deadline_s),
    )


def hold(call: Call) -> CallResult:
    """Hold offers of this zone and the zones below it for the parent zone, all or none."""
    zone, body = served_zone(call), call.body
    hops, deadline_s = min(body.hops, zone.most_hops), min(body.deadline_s, zone.deadline_s)
    body = replace(body, request=call.checked(body.request), hops=hops, deadline_s=deadline_s)
    claim = zone.hold_offers(call.user.tenant, body, call.key)
    return CallResult(claim, 201, {"Location": f"/v1/claims/{claim.id}"})


def versions(_call: Call) -> nouns.ApiVersions:
    """List the versions of the API."""
    one = nouns.ApiVersion(
        id="v1",
        status="CURRENT",
        min_version=VERSIONS[0],
        version=VERSIONS[-1],
        links=({"rel": "self", "href": "/v1"},),
    )
    return nouns.ApiVersions(versions=(one,))


def openapi(call: Call) -> CallResult:
    """Describe the API as OpenAPI 3.1."""
    return CallResult(call.parts.openapi(), headers={"Content-Type": "application/json"})


def health(call: Call) -> CallResult:
    """Show whether the service can decide."""
    found = call.parts.health()
    return CallResult(found, 200 if found.status in ("ok", "degraded") else 503)


def alive(_call: Call) -> nouns.Health:
    """Return 200 while the process runs, even if the service cannot decide."""
    return nouns.Health(status="ok")


def metrics(call: Call) -> CallResult:
    """Show counters and times in the text format of Prometheus."""
    media_type, text = call.parts.metrics()
    return CallResult(text, headers={"Content-Type": media_type})


def set_default(call: Call) -> Quota:
    """Set the default limits, for all owners without limits of their own."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.set_quota(None, call.body.limits)


def change_default(call: Call) -> Quota:
    """Change default limits, for all owners without limits of their own; null removes a limit."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.change_quota(None, call.body.limits)


def check_quota(call: Call, _scheduler: Scheduler, owner: str) -> None:
    if call.user.owner not in (None, owner):
        raise errors.UnknownName("owner", owner, ())


def check_kind(_call: Call, _scheduler: Scheduler, kind: str) -> None:
    if kind not in get_args(PluginKind):
        raise errors.UnknownName("kind of plug-ins", kind, get_args(PluginKind))


#: The checks of verbs without a handler. They check the name in the path, or the first argument if
#: the path has no name.
CHECKS: Mapping[str, Callable[[Call, Scheduler, Any], None]] = {
    "renew": check_claim,
    "release": check_claim,
    "node_record": check_node,
    "refresh": check_plan,
    "register": check_reference,
    "change_registration": check_reference,
    "quota": check_quota,
    "plugins": check_kind,
}
