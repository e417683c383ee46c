# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - the table has a line for each route
"""Routes: each path of the service with its handler, for verbs and for the service itself.

``document`` describes them in OpenAPI.
"""

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from valence_sched.model import claim, decision, quota, verbs as nouns, zone
from valence_sched.model.http import MEDIA_TYPE, Problem
from valence_sched.model.inventory import to_json
from valence_sched.model.scheduler import Scheduler
from valence_sched.service import call as calls
from valence_sched.service.handlers import ui, verbs
from valence_sched.service.handlers.ui import HTML

Handler = Callable[[calls.Call], Any]


FLAGS = ("free", "live", "ended")  # query parameters that are true or false


def verb_handler(route: nouns.Route) -> Callable[[calls.Call], calls.CallResult]:
    """Return the handler of a route: it calls its verb with the arguments of a call."""
    parameters = list(inspect.signature(getattr(Scheduler, route.verb)).parameters.values())[1:]
    named = parameters.pop(0) if "{name}" in route.path else None
    names = [one.name for one in parameters if one.name != "password"]
    check = verbs.CHECKS.get(route.verb)

    def handle(call: calls.Call) -> calls.CallResult:
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
                return calls.CallResult(tuple(found), headers=headers)
            return calls.CallResult(None if route.several else found, route.status)

    return handle


def _argument(route: nouns.Route, call: calls.Call, scheduler: Scheduler, name: str) -> Any:
    if name == "request":
        asked = call.body.request or call.body.compiled
        return call.compiled(scheduler, asked, decides=route.decides)
    if name == "requests":
        return call.compiled_all(scheduler, decides=route.decides)
    if isinstance(route.query, type):
        return call.query_noun(route.query)
    if name == "owner":
        return call.user.owner or call.text(name)  # a user with an owner cannot select another
    if name in route.query:
        return call.flag(name) if name in FLAGS else call.text(name)
    return getattr(call.body, name) if name in route.body.__struct_fields__ else call.body


def _route(
    operation: str, handler: Handler, method: str, path: str, *words: Any, **named: Any
) -> tuple[nouns.Route, Handler]:
    text = (inspect.getdoc(handler) or "").partition("\n")[0]
    return nouns.Route("", operation, method, path, text, *words, **named), handler


_RECORDS = ("podm", "owner", "ended", "page")

# fmt: off
OWN = (
    _route("catalogue_versions", verbs.versions, "GET", "/", None, nouns.ApiVersions),
    _route("catalogue_versions_v1", verbs.versions, "GET", "/v1", None, nouns.ApiVersions),
    _route("catalogue_health", verbs.health, "GET", "/healthcheck", None, nouns.Health),
    _route("catalogue_alive", verbs.alive, "GET", "/healthcheck/alive", None, nouns.Health),
    _route("catalogue_metrics", verbs.metrics, "GET", "/metrics", None, str, "metrics:get", media="text/plain"),
    _route("catalogue_openapi", verbs.openapi, "GET", "/v1/openapi.json", None, dict[str, Any]),
    _route("decisions_decisions", verbs.decisions, "GET", "/v1/decisions", None, tuple[decision.DecisionSummary, ...], "decisions:list", query=("limit", "skip")),
    _route("nodes_operation", verbs.operation, "GET", "/v1/operations/{name}", None, nouns.Operation, "operations:get"),
    _route("quotas_set_default", verbs.set_default, "PUT", "/v1/quotas", quota.QuotaLimits, quota.Quota, "quotas:update", "admin"),
    _route("quotas_change_default", verbs.change_default, "PATCH", "/v1/quotas", quota.QuotaChange, quota.Quota, "quotas:update", "admin"),
    _route("events_receive", verbs.receive, "POST", "/v1/events/{token}", nouns.EventBody, None, status=204),
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
    name: found for name in nouns.VERBS if inspect.isfunction(found := getattr(verbs, name, None))
}
#: All routes by path; the pages come last.
ROUTES = sorted(
    (*nouns.VERBS.values(), *(route for route, _ in OWN)),
    key=lambda route: (route.path.startswith("/ui"), route.path),
)
HANDLERS: Mapping[str, Handler] = {
    route.operation: VERB_HANDLERS.get(route.verb) or verb_handler(route)
    for route in nouns.VERBS.values()
} | {route.operation: handler for route, handler in OWN}


VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
#: The errors of all routes: the request is invalid, or the service cannot answer it now.
PROBLEMS = (400, 401, 403, 404, 405, 406, 409, 413, 415, 429, 500, 502, 503)
#: The schemas of query parameters that are not strings.
QUERY_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"type": "boolean"} for name in FLAGS},
    "page": {"type": "integer", "minimum": 1},
    "limit": {"type": "integer", "minimum": 1},
    "skip": {"type": "integer", "minimum": 0},
    "wait_s": {"type": "number", "minimum": 0},
}
CLAIM_OPERATIONS = ("claims_claim_record", "claims_renew", "claims_release")
#: The links of answers, by method and path: the JSON pointer of a name, and its operations.
LINKS: Mapping[tuple[str, str], tuple[str, Sequence[str]]] = {
    ("POST", "/v1/claims"): ("/claim/id", CLAIM_OPERATIONS),
    ("POST", "/v1/nodes"): ("/id", ("nodes_operation",)),
    ("DELETE", "/v1/nodes/{name}"): ("/id", ("nodes_operation",)),
    ("POST", "/v1/reconciliations"): ("/id", ("nodes_operation",)),
    ("POST", "/v1/podms"): (
        "/registration/name",
        ("podms_registration", "podms_change_registration", "podms_usage", "podms_unregister"),
    ),
    ("GET", "/v1/podms"): ("/0/podm/id", ("podms_podm", "podms_usage", "podms_update_stats")),
    ("GET", "/v1/claims"): ("/0/id", CLAIM_OPERATIONS),
    ("GET", "/v1/policies"): ("/0/name", ("catalogue_podm_reads",)),
}


@functools.cache
def document() -> bytes:
    stated = (noun for route in ROUTES for noun in (route.body, route.answer))
    kinds = [kind for noun in stated for kind in _members(noun)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REFERENCE)
    for route in ROUTES:
        if isinstance(route.body, type) and issubclass(route.body, nouns.RequestBody):
            _require_one(components[route.body.__name__], route.body.choices)
    named = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        body = _schema([next(named) for _ in _members(route.body)])
        answer = _schema([next(named) for _ in _members(route.answer)])
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, body, answer)
    info = {
        "title": "Pod manager scheduler",
        "version": calls.VERSIONS[-1],
        "description": "Choose the pod manager, the pool and the blocks of each node.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }
    security = {
        "basic": {"type": "http", "scheme": "basic"},
        "keystone": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
    }
    parts = {"schemas": components, "securitySchemes": security}
    return to_json({"openapi": VERSION, "info": info, "paths": paths, "components": parts})


def _require_one(schema: dict[str, Any], choices: Sequence[str]) -> None:
    for name in choices:
        field = schema["properties"][name]
        field.pop("default", None)
        members = [one for one in field.get("anyOf", ()) if one != {"type": "null"}]
        if len(members) == 1:
            schema["properties"][name] = members[0]
    schema["oneOf"] = [{"required": [name]} for name in choices]


def _members(noun: Any) -> tuple[Any, ...]:
    if isinstance(noun, types.UnionType):
        return get_args(noun)
    return () if noun is None else (noun,)


def _schema(members: list[Any]) -> Any:
    return {"anyOf": members} if len(members) > 1 else next(iter(members), None)


def _operation(route: nouns.Route, body: Any, answer: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.text,
        "parameters": _parameters(route),
        "responses": _responses(route, answer),
    }
    if route.rule:
        operation["security"] = [{"basic": []}, {"keystone": []}, {}]
        forced = f" Rule {route.force} to force it: role admin." if route.force else ""
        operation["description"] = f"Rule {route.rule}: role {route.role}.{forced}"
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return operation


def _parameters(route: nouns.Route) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", route.path)
    words: Sequence[str] = (*route.words, "name") if names else route.words
    version = {"type": "string", "examples": [f"{calls.SERVICE_TYPE} {calls.VERSIONS[-1]}"]}
    found: list[tuple[str, str, Mapping[str, Any]]] = [
        *((name, "path", {"type": "string", "minLength": 1}) for name in names),
        *((word, "query", QUERY_SCHEMAS.get(word, {"type": "string"})) for word in words),
        (calls.VERSION_HEADER, "header", version),
    ]
    if route.method == "POST":
        found.append(
            (calls.KEY_HEADER, "header", {"type": "string", "minLength": 1, "maxLength": 255})
        )
    return [
        {"name": name, "in": place, "required": place == "path", "schema": schema}
        for name, place, schema in found
    ]


def _responses(route: nouns.Route, answer: Any) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done."}
    if answer is not None:
        success["content"] = {route.media: {"schema": answer}}
    if link := LINKS.get((route.method, route.path)):
        found = {"name": f"$response.body#{link[0]}"}
        success["links"] = {one: {"operationId": one, "parameters": found} for one in link[1]}
    problem: dict[str, Any] = {
        "description": "A problem document (RFC 9457).",
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
    }
    if route.media == HTML:
        problem["content"] |= {HTML: {"schema": {"type": "string"}}}
    statuses = {route.status}
    if route.path == "/v1/claims" and route.method == "POST":
        statuses.add(200)  # status 200 if no node fits
    responses = {str(status): success for status in sorted(statuses)}
    health = route.path == "/healthcheck"
    return responses | {str(one): success if health and one == 503 else problem for one in PROBLEMS}
