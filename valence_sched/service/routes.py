# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - the table has a line for each route
"""Routes: each path of the service with its handler, for verbs and for the service itself."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from valence_sched.model import claim, decision, quota, zone
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.verbs import VERBS, ApiVersions, EventBody, Health, Operation, Route
from valence_sched.service.call import Call, CallResult
from valence_sched.service.handlers import ui, verbs
from valence_sched.service.handlers.ui import HTML

Handler = Callable[[Call], Any]


FLAGS = ("free", "live", "ended")  # query parameters that are true or false


def verb_handler(route: Route) -> Callable[[Call], CallResult]:
    """Return the handler of a route: it calls its verb with the arguments of a call."""
    parameters = list(inspect.signature(getattr(Scheduler, route.verb)).parameters.values())[1:]
    named = parameters.pop(0) if "{name}" in route.path else None
    names = [one.name for one in parameters if one.name != "password"]
    check = verbs.CHECKS.get(route.verb)

    def handle(call: Call) -> CallResult:
        name = None if named is None else call.name()
        words: list[Any] = [] if named is None else [[name] if route.several else name]
        schedulers = call.reading() if route.reading else call.parts.schedulers.changing()
        with schedulers as scheduler:
            arguments = {one: _argument(route, call, scheduler, one) for one in names}
            if check is not None:
                first = next(iter(arguments.values()), None) if named is None else name
                check(call, scheduler, first)
            found = getattr(scheduler, route.verb)(*words, **arguments)
            for error in found if route.several else ():
                raise error
            if route.lists:
                silent = zone.silent_zones(found)
                headers = {zone.SILENT_HEADER: zone.silent_header(silent)} if silent else {}
                return CallResult(tuple(found), headers=headers)
            return CallResult(None if route.several else found, route.status)

    return handle


def _argument(route: Route, call: Call, scheduler: Scheduler, name: str) -> Any:
    if name == "request":
        compiled = call.deciding if route.decides else call.compiled
        return compiled(scheduler, call.body)
    if name == "requests":
        all_compiled = call.deciding_all if route.decides else call.compiled_all
        return all_compiled(scheduler, call.body)
    if isinstance(route.query, type):
        return call.query_noun(route.query)
    if name == "owner":
        return call.user.owner or call.text(name)  # a user with an owner cannot select another
    if name in route.query:
        return call.flag(name) if name in FLAGS else call.text(name)
    return getattr(call.body, name) if name in route.body.__struct_fields__ else call.body


def _route(
    operation: str, handler: Handler, method: str, path: str, *words: Any, **named: Any
) -> tuple[Route, Handler]:
    text = (inspect.getdoc(handler) or "").partition("\n")[0]
    return Route("", operation, method, path, text, *words, **named), handler


_RECORDS = ("podm", "owner", "ended", "page")

# fmt: off
OWN = (
    _route("catalogue_versions", verbs.versions, "GET", "/", None, ApiVersions),
    _route("catalogue_versions_v1", verbs.versions, "GET", "/v1", None, ApiVersions),
    _route("catalogue_health", verbs.health, "GET", "/healthcheck", None, Health),
    _route("catalogue_alive", verbs.alive, "GET", "/healthcheck/alive", None, Health),
    _route("catalogue_metrics", verbs.metrics, "GET", "/metrics", None, str, "metrics:get", media="text/plain"),
    _route("catalogue_openapi", verbs.openapi, "GET", "/v1/openapi.json", None, dict[str, Any]),
    _route("decisions_decisions", verbs.decisions, "GET", "/v1/decisions", None, tuple[decision.DecisionSummary, ...], "decisions:list", query=("limit", "skip")),
    _route("nodes_operation", verbs.operation, "GET", "/v1/operations/{name}", None, Operation, "operations:get"),
    _route("quotas_set_default", verbs.set_default, "PUT", "/v1/quotas", quota.QuotaLimits, quota.Quota, "quotas:update", "admin"),
    _route("quotas_change_default", verbs.change_default, "PATCH", "/v1/quotas", quota.QuotaChange, quota.Quota, "quotas:update", "admin"),
    _route("events_receive", verbs.receive, "POST", "/v1/events/{token}", EventBody, None, status=204),
    _route("offers_offers", verbs.offers, "POST", "/v1/zones/offers", zone.OfferQuery, zone.ZoneAnswer, "zones:offers", "admin", reads=True),
    _route("offers_group_state", verbs.group_state, "POST", "/v1/zones/group_state", zone.OfferQuery, zone.GroupAnswer, "zones:offers", "admin", reads=True),
    _route("zone_claims_hold", verbs.hold, "POST", "/v1/zones/claims", zone.ZoneClaimBody, claim.Claim, "zones:claims", "admin", 201),
    _route("ui_site", ui.site, "GET", "/ui", None, str, "podms:list", query=("search", "page"), media=HTML),
    _route("ui_podm", ui.podm, "GET", "/ui/podms/{name}", None, str, "podms:get", media=HTML),
    _route("ui_block", ui.block, "GET", "/ui/blocks/{name}", None, str, "blocks:get", query=("podm",), media=HTML),
    _route("ui_fit", ui.fit, "GET", "/ui/fit", None, str, "decisions:create", query=ui.FitQuery, media=HTML),
    _route("ui_decisions", ui.decisions, "GET", "/ui/decisions", None, str, "decisions:list", query=("page",), media=HTML),
    _route("ui_decision", ui.decision, "GET", "/ui/decisions/{name}", None, str, "decisions:get", media=HTML),
    _route("ui_claims", ui.claims, "GET", "/ui/claims", None, str, "claims:list", query=_RECORDS, media=HTML),
    _route("ui_claim", ui.claim, "GET", "/ui/claims/{name}", None, str, "claims:get", media=HTML),
    _route("ui_node", ui.node, "GET", "/ui/nodes/{name}", None, str, "nodes:get", query=("podm",), media=HTML),
    _route("ui_nodes", ui.nodes, "GET", "/ui/nodes", None, str, "nodes:list", query=_RECORDS, media=HTML),
)
# fmt: on

#: The handlers that do more than call a verb, by the name of the verb.
VERB_HANDLERS: Mapping[str, Handler] = {
    name: found for name in VERBS if inspect.isfunction(found := getattr(verbs, name, None))
}
#: All routes by path; the pages come last.
ROUTES = sorted(
    (*VERBS.values(), *(route for route, _ in OWN)),
    key=lambda route: (route.path.startswith("/ui"), route.path),
)
HANDLERS: Mapping[str, Handler] = {
    route.operation: VERB_HANDLERS.get(route.verb) or verb_handler(route)
    for route in VERBS.values()
} | {route.operation: handler for route, handler in OWN}
