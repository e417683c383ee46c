# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - the table has a line for each route
"""Routes: every path of the service with what answers it: those of the verbs, and its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from valence_sched.model.claim import Claim
from valence_sched.model.decision_summary import DecisionSummary
from valence_sched.model.quota import Quota, QuotaChange, QuotaLimits
from valence_sched.model.service_bodies import ApiVersions, EventBody, Health
from valence_sched.model.verbs import VERBS, Operation, Route
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.service.call import Call
from valence_sched.service.handlers import (
    catalogue,
    claims,
    decisions,
    events,
    nodes,
    offers,
    podms,
    quotas,
    ui,
    zone_claims,
    zones,
)
from valence_sched.service.handlers.verbs import verb_handler
from valence_sched.service.html import MEDIA_TYPE as HTML

Handler = Callable[[Call], Any]


def _route(
    handler: Handler, method: str, path: str, *words: Any, **named: Any
) -> tuple[Route, Handler]:
    """Return a route that is no verb, named and described by its handler."""
    version = "_v1" if path == "/v1" else ""
    operation = f"{handler.__module__.rpartition('.')[2]}_{handler.__name__}{version}"
    text = (inspect.getdoc(handler) or "").partition("\n")[0]
    return Route("", operation, method, path, text, *words, **named), handler


def _place(route: Route) -> tuple[bool, str]:
    """Return where a route stands in the table: by its path, the pages last."""
    return route.path.startswith("/ui"), route.path


_RECORDS = ("podm", "owner", "ended", "page")

# fmt: off
OWN = (
    _route(catalogue.versions, "GET", "/", None, ApiVersions),
    _route(catalogue.versions, "GET", "/v1", None, ApiVersions),
    _route(catalogue.health, "GET", "/healthcheck", None, Health),
    _route(catalogue.alive, "GET", "/healthcheck/alive", None, Health),
    _route(catalogue.metrics, "GET", "/metrics", None, str, "metrics:get", media="text/plain"),
    _route(catalogue.openapi, "GET", "/v1/openapi.json", None, dict[str, Any]),
    _route(decisions.decisions, "GET", "/v1/decisions", None, tuple[DecisionSummary, ...], "decisions:list", query=("limit", "skip")),
    _route(nodes.operation, "GET", "/v1/operations/{name}", None, Operation, "operations:get"),
    _route(quotas.set_default, "PUT", "/v1/quotas", QuotaLimits, Quota, "quotas:update", "admin"),
    _route(quotas.change_default, "PATCH", "/v1/quotas", QuotaChange, Quota, "quotas:update", "admin"),
    _route(events.receive, "POST", "/v1/events/{token}", EventBody, None, status=204),
    _route(offers.offers, "POST", "/v1/zones/offers", OfferQuery, ZoneAnswer, "zones:offers", "admin", reads=True),
    _route(offers.group_state, "POST", "/v1/zones/group_state", OfferQuery, GroupAnswer, "zones:offers", "admin", reads=True),
    _route(zone_claims.hold, "POST", "/v1/zones/claims", ZoneClaimBody, Claim, "zones:claims", "admin", 201),
    _route(ui.site, "GET", "/ui", None, str, "podms:list", query=("search", "page"), media=HTML),
    _route(ui.podm, "GET", "/ui/podms/{name}", None, str, "podms:get", media=HTML),
    _route(ui.decisions, "GET", "/ui/decisions", None, str, "decisions:list", query=("page",), media=HTML),
    _route(ui.decision, "GET", "/ui/decisions/{name}", None, str, "decisions:get", media=HTML),
    _route(ui.claims, "GET", "/ui/claims", None, str, "claims:list", query=_RECORDS, media=HTML),
    _route(ui.claim, "GET", "/ui/claims/{name}", None, str, "claims:get", media=HTML),
    _route(ui.nodes, "GET", "/ui/nodes", None, str, "nodes:list", query=_RECORDS, media=HTML),
)
# fmt: on

#: What answers a verb for which more is to be done than to call it.
VERB_HANDLERS: Mapping[str, Handler] = {
    "compile_request": decisions.compile_request,
    "select_destinations": decisions.select_destinations,
    "decision": decisions.decision,
    "refresh": decisions.refresh,
    "preview": decisions.preview,
    "claim": claims.claim,
    "claim_record": claims.claim_record,
    "release": claims.release,
    "renew": claims.renew,
    "compose": nodes.compose,
    "node_record": nodes.node_record,
    "delete_nodes": nodes.delete,
    "reconcile": nodes.reconcile,
    "quota": quotas.quota,
    "plugins": catalogue.plugins,
    "register": podms.register,
    "change_registration": podms.change_registration,
    "block_usage": podms.usage,
    "update_resource_stats": podms.update_stats,
    "zone_tree": zones.zone_tree,
    "blocks": podms.blocks,
    "block": podms.block,
}
ROUTES = sorted((*VERBS.values(), *(route for route, _ in OWN)), key=_place)
HANDLERS: Mapping[str, Handler] = {
    route.operation: VERB_HANDLERS.get(route.verb) or verb_handler(route)
    for route in VERBS.values()
} | {route.operation: handler for route, handler in OWN}
