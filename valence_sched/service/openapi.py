# SPDX-License-Identifier: Apache-2.0
"""OpenAPI: the description of the API, made from the table of routes and its nouns."""

import functools
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from valence_sched.model.http import MEDIA_TYPE, Problem
from valence_sched.model.inventory import to_json
from valence_sched.model.verbs import RequestBody, Route
from valence_sched.service.call import GREATEST_VERSION, KEY_HEADER, SERVICE_TYPE, VERSION_HEADER
from valence_sched.service.handlers.ui import HTML
from valence_sched.service.routes import FLAGS, ROUTES

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
    nouns = (noun for route in ROUTES for noun in (route.body, route.answer))
    kinds = [kind for noun in nouns for kind in _members(noun)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=REFERENCE)
    for route in ROUTES:
        if isinstance(route.body, type) and issubclass(route.body, RequestBody):
            _require_one(components[route.body.__name__], route.body.choices)
    named = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        body = _schema([next(named) for _ in _members(route.body)])
        answer = _schema([next(named) for _ in _members(route.answer)])
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, body, answer)
    info = {
        "title": "Pod manager scheduler",
        "version": str(GREATEST_VERSION),
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


def _operation(route: Route, body: Any, answer: Any) -> dict[str, Any]:
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


def _parameters(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", route.path)
    words: Sequence[str] = (*route.words, "name") if names else route.words
    version = {"type": "string", "examples": [f"{SERVICE_TYPE} {GREATEST_VERSION}"]}
    found: list[tuple[str, str, Mapping[str, Any]]] = [
        *((name, "path", {"type": "string", "minLength": 1}) for name in names),
        *((word, "query", QUERY_SCHEMAS.get(word, {"type": "string"})) for word in words),
        (VERSION_HEADER, "header", version),
    ]
    if route.method == "POST":
        found.append((KEY_HEADER, "header", {"type": "string", "minLength": 1, "maxLength": 255}))
    return [
        {"name": name, "in": place, "required": place == "path", "schema": schema}
        for name, place, schema in found
    ]


def _responses(route: Route, answer: Any) -> dict[str, Any]:
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
