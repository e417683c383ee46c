# SPDX-License-Identifier: Apache-2.0
"""Compose methods: what a service offers to compose a node, and the request in the best way.

Specific composition names the blocks and so does a manifest; a constrained composition names
what they hold, and the service chooses them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from valence_sched.drivers.composer import Session, get_document
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, text
from valence_sched.drivers.links import ROOT, collection_pages, link_path
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.render_documents import memory_json, nic_json, processor_json
from valence_sched.errors import PodmError
from valence_sched.model.composition import CompositionRequest
from valence_sched.model.inventory import Devices

_REQUIRED = "@Redfish.RequiredOnCreate"
_OPTIONAL = "@Redfish.OptionalOnCreate"
_COUNT = "@Redfish.RequestedCount"

DeviceTemplate = tuple[int | None, dict[str, Any]]


class UseCase(NamedTuple):
    """One way to create: what for, where to post, in which zones (none: in all), its rules."""

    name: str
    target: str
    zones: tuple[str, ...]
    rules: Json


class ComposeCapabilities(NamedTuple):
    """All ways of a service; ``systems`` is the collection of systems."""

    systems: str | None
    compose_target: str | None
    zone_affinity: bool
    use_cases: tuple[UseCase, ...]


def device_templates(devices: Devices, rules: Json) -> Json | str:
    """Return the body for these devices, or why these rules cannot say it."""
    body: Json = {}
    for name, templates in _collections(devices, rules):
        members = []
        stated = rules[name].get("Members") if isinstance(rules.get(name), dict) else None
        first = stated[0] if isinstance(stated, list) and stated else {}
        for count, known in templates:
            member = _member_template(known, first if isinstance(first, dict) else {})
            if isinstance(member, str):
                return f"{name}: {member}"
            members.append({_COUNT: count, **member})
        if members and name not in rules:
            return f"it composes no {name} by what they are"
        if members:
            body[name] = {"Members": members}
    return body or "nothing is asked for that it could compose by what it is"


def _collections(devices: Devices, rules: Json) -> Iterator[tuple[str, list[DeviceTemplate]]]:
    processors = [(cpu.count, processor_json(cpu)) for cpu in devices.processors]
    for card in devices.accelerators:
        known = {"ProcessorType": card.kind, "Model": card.model}
        processors.append((card.count, known))
    yield "Processors", processors
    yield "Memory", [(module.count, memory_json(module)) for module in devices.memory]
    yield "EthernetInterfaces", [(nic.count, nic_json(nic)) for nic in devices.nics]
    drives = []
    for it in devices.drives:
        drive = {"CapacityBytes": it.capacity_bytes, "MediaType": it.media, "Protocol": it.protocol}
        drives.append({_COUNT: it.count, **{k: v for k, v in drive.items() if v is not None}})
    is_older = "SimpleStorage" in rules and "Storage" not in rules
    name, inner = ("SimpleStorage", "Devices") if is_older else ("Storage", "Drives")
    yield name, [(1, {inner: drives})] if drives else []


def _member_template(known: dict[str, Any], template: Json) -> Json | str:
    """Return the properties that a template names; without a template all that are known."""
    required = {key.removesuffix(_REQUIRED) for key in template if key.endswith(_REQUIRED)}
    named = {key.partition("@")[0] for key in template if key.endswith((_REQUIRED, _OPTIONAL))}
    shown = {key: known[key] for key in known if key in named or not named}
    found = {key: value for key, value in shown.items() if value is not None}
    if "TotalCores" in required and known.get("ProcessorType") != "CPU":
        found.setdefault("TotalCores", 1)  # cores say nothing of a card
    lacking = sorted(required - found.keys() - {"StorageControllers"})
    return f"{', '.join(lacking)} must be given, and is not known" if lacking else found


SPECIFIC, CONSTRAINED = "ComputerSystemComposition", "ComputerSystemConstrainedComposition"
_ALLOWED = "@Redfish.AllowableValues"


class ComposeMethod(NamedTuple):
    """One request that makes the node; with ``exact`` it is made of the very blocks."""

    name: str
    target: str
    body: Json
    exact: bool


def choose_method(
    capabilities: ComposeCapabilities, request: CompositionRequest, reservation: str | None = None
) -> ComposeMethod | str:
    """Return the first way that is offered, or why there is none."""
    specific = _use_case(capabilities, SPECIFIC, request.pool)
    constrained = _use_case(capabilities, CONSTRAINED, request.pool)
    problem = ""
    if specific or not (capabilities.compose_target or constrained):
        target = specific.target if specific else capabilities.systems
        extra, problem = _required_properties(specific.rules if specific else {}, request)
        if target and not problem:
            return ComposeMethod("specific", target, _specific_body(request) | extra, True)
    if capabilities.compose_target:
        body = manifest(request, "Apply", reservation)
        return ComposeMethod("manifest", capabilities.compose_target, body, True)
    if constrained:
        templates = device_templates(request.devices, constrained.rules)
        if isinstance(templates, str):
            return templates
        body = {"Name": request.name, **templates}
        if capabilities.zone_affinity and request.pool:
            body["@Redfish.ZoneAffinity"] = request.pool.rpartition("/")[2]
        return ComposeMethod("constrained", constrained.target, body, False)
    return problem or "it offers no way to compose: no systems collection, no Compose action"


def composes_exact_blocks(capabilities: ComposeCapabilities, request: CompositionRequest) -> bool:
    """Return whether the node is made of the very blocks that are wanted."""
    way = choose_method(capabilities, request)
    return isinstance(way, ComposeMethod) and way.exact


def manifest(request: CompositionRequest, kind: str, reservation: str | None = None) -> Json:
    """Return the body of a Compose action with one stanza."""
    stanza = {"StanzaType": "ComposeSystem", "StanzaId": "node", "Request": _specific_body(request)}
    body: Json = {
        "RequestFormat": "Manifest",
        "RequestType": kind,
        "Manifest": {"Expand": "None", "Stanzas": [stanza]},
    }
    return body | ({"ReservationId": reservation} if reservation else {})


def _use_case(capabilities: ComposeCapabilities, name: str, pool: str | None) -> UseCase | None:
    for case in capabilities.use_cases:
        zones = {zone.rpartition("/")[2] for zone in case.zones} | set(case.zones)
        if case.name.casefold() == name.casefold() and (not zones or pool in zones):
            return case
    return None


def _specific_body(request: CompositionRequest) -> Json:
    blocks = [{"@odata.id": uri} for uri in request.blocks]
    return {"Name": request.name, "Links": {"ResourceBlocks": blocks}}


def _required_properties(rules: Json, request: CompositionRequest) -> tuple[Json, str]:
    """Return what else a body must have, or the problem that no value for it is known."""
    found: Json = {}
    for key, stated in rules.items():
        name = key.removesuffix(_REQUIRED)
        if name == key or not stated or name in ("Name", "Links"):
            continue
        allowed, inner = rules.get(name + _ALLOWED), rules.get(name)
        if isinstance(allowed, list) and allowed:
            found[name] = allowed[0]
        elif name in ("HostName", "Description", "AssetTag"):
            found[name] = request.name
        elif isinstance(inner, dict) and (made := _required_properties(inner, request))[0]:
            found[name] = made[0]
        else:
            return {}, f"it requires {name!r} to compose, and allows no known value for it"
    return found, ""


class _CompositionServiceActions(Resource):
    compose = Field("Actions/#CompositionService.Compose/target", text, "where manifests go; "
                    "follow it as it is")  # fmt: skip
    zone_affinity = Field("AllowZoneAffinity", flag, "whether a zone can be named by its Id")


class _TargetCollection(Resource):
    target = Field("Links/TargetCollection/@odata.id", text, "where to post")


def read_capabilities(
    session: Session, request: CompositionRequest | None = None
) -> ComposeCapabilities:
    """Read what a service offers, for a request only until it is served; PodmError for no root."""
    root = schema.ServiceRoot(ROOT, get_document(session, ROOT) or {}, NO_NOTES)
    systems = next(filter(None, (link_path(link) for link in root.systems)), None)
    cases: list[UseCase] = []
    for link in root.systems:
        cases += _use_cases(session, _first_document(session, (link,)), link_path(link) or "")
    early = ComposeCapabilities(systems, None, False, tuple(cases))
    if request and _use_case(early, SPECIFIC, request.pool):
        way = choose_method(early, request)
        if isinstance(way, ComposeMethod) and way.exact:
            return early
    service = _first_document(session, root.composition)
    actions = _CompositionServiceActions(ROOT, service, NO_NOTES)
    parts = schema.CompositionService(ROOT, service, NO_NOTES)
    for link in parts.blocks:
        cases += _use_cases(session, _first_document(session, (link,)), link_path(link) or "")
    pool = request.pool if request else None
    for link in parts.zones:
        cases += _zones_use_cases(session, link_path(link) or "", systems, pool)
    target = link_path(actions.compose)
    return ComposeCapabilities(systems, target, bool(actions.zone_affinity), tuple(cases))


def _zones_use_cases(
    session: Session, uri: str, systems: str | None, pool: str | None
) -> Iterator[UseCase]:
    """Yield what a collection of zones offers, and each of its zones, or only that of a pool."""
    pages = tuple(collection_pages(functools.partial(get_document, session), uri))
    for page in pages[:1]:
        yield from _use_cases(session, page.json, uri)
    links = [link for page in pages for link in page.members]
    of_pool = [link for link in links if pool in (link_path(link), link.rpartition("/")[2])]
    for zone in of_pool or links:
        held, zones = _document_or_empty(session, zone), (link_path(zone) or "",)
        for case in _use_cases(session, held, systems or ""):
            yield case._replace(zones=zones, target=systems or case.target)


def _first_document(session: Session, links: Iterable[str]) -> Json:
    found = (get_document(session, link_path(link)) for link in links)
    return next((json for json in found if json is not None), {})


def _document_or_empty(session: Session, link: str) -> Json:
    try:
        return get_document(session, link_path(link)) or {}
    except PodmError:
        return {}


def _use_cases(session: Session, json: Json, collection: str) -> Iterator[UseCase]:
    for stated in schema.Collection(ROOT, json, NO_NOTES).capabilities:
        capability = schema.CollectionCapability(ROOT, stated, NO_NOTES)
        documents = (_document_or_empty(session, link) for link in capability.object)
        if rules := next(filter(None, documents), None):
            target = link_path(_TargetCollection(ROOT, stated, NO_NOTES).target) or collection
            zones = tuple(filter(None, map(link_path, capability.zones)))
            yield UseCase(capability.use_case or "", target, zones, rules)
