# SPDX-License-Identifier: Apache-2.0
"""Methods: the ways in which a service composes a node, or changes its blocks, and their writes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from valence_sched.drivers.actions import action_parameters, find_action
from valence_sched.drivers.composer import Session, Uris, get_document, read_resource
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, text
from valence_sched.drivers.links import ROOT, fold_uri, link_path, link_paths, whole_collection
from valence_sched.drivers.redfish import describe, schema
from valence_sched.drivers.redfish.describe import memory_json, nic_json, processor_json
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.inventory import Devices

_REQUIRED = "@Redfish.RequiredOnCreate"
_OPTIONAL = "@Redfish.OptionalOnCreate"
_COUNT = "@Redfish.RequestedCount"
DeviceTemplate = tuple[int | None, dict[str, Any]]
SPECIFIC, CONSTRAINED = "ComputerSystemComposition", "ComputerSystemConstrainedComposition"
_ALLOWED = "@Redfish.AllowableValues"


class UseCase(NamedTuple):
    """One use case to create a system: name, POST target, zones (empty for all), and rules."""

    name: str
    target: str
    zones: tuple[str, ...]
    rules: Json


class Host(NamedTuple):
    """A system that is not composed: its own blocks, and the blocks attached to it."""

    uri: str
    own: tuple[str, ...]
    attached: tuple[str, ...]


class ComposeCapabilities(NamedTuple):
    """The collection of systems, the Compose action, and the use cases of a service.

    ``service`` is the document of the CompositionService, with the actions of a vendor. The
    ``methods`` of a vendor are tried before the standard methods. ``host`` returns the host with a
    compute block of a request. The service ``places`` nodes on its systems if it neither has a
    CompositionService nor lists blocks.
    """

    systems: str | None
    compose_target: str | None
    zone_affinity: bool
    use_cases: tuple[UseCase, ...]
    service: Json | None = None
    methods: tuple[ComposeMethod, ...] = ()
    host: Callable[[CompositionRequest], Host | None] = lambda _request: None
    places: bool = False

    @property
    def composes(self) -> bool:
        """Whether the service offers to compose systems."""
        return bool(self.use_cases or self.compose_target)


class ComposeWrite(NamedTuple):
    """One POST that composes the node, from exactly the requested blocks if ``exact``.

    With ``on_host``, a PATCH of the host that becomes the node, or of the node to change. Without
    a ``body`` nothing is sent: the node is its ``target``.
    """

    name: str
    target: str
    body: Json | None
    exact: bool
    on_host: bool = False


Offer = ComposeWrite | str | None


class ComposeMethod(Protocol):
    """One way to compose: a function of the capabilities and the request."""

    def __call__(self, capabilities: ComposeCapabilities, request: CompositionRequest, /) -> Offer:
        """Return the write, the text of a refusal, or None if the way is not offered."""


class RemainingChange(NamedTuple):
    """What remains of the change of a node: the blocks to attach and those to detach.

    ``json`` and ``present`` are the present document of the node, and its blocks. Without
    ``tagged``, writes name no ETags, since the service has refused them.
    """

    session: Session
    node: str
    json: Json
    present: tuple[str, ...]
    attach: tuple[str, ...]
    detach: tuple[str, ...]
    tagged: bool = True

    @property
    def size(self) -> int:
        return len(self.attach) + len(self.detach)

    @property
    def result(self) -> tuple[str, ...]:
        """The blocks of the node after the change."""
        gone = set(map(fold_uri, self.detach))
        return tuple(uri for uri in (*self.present, *self.attach) if fold_uri(uri) not in gone)

    def lost(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the blocks that are not present any more, although they are not to be detached."""
        known = set(map(fold_uri, (*present, *self.detach)))
        return tuple(uri for uri in self.present if fold_uri(uri) not in known)

    def etag(self, uri: str) -> str | None:
        found: Any = self.json.get("@odata.etag") if uri == self.node else None
        if not found:
            reply = self.session.get(uri)
            found = reply.headers.get("ETag") or (reply.body or {}).get("@odata.etag")
        return found if isinstance(found, str) and found and self.tagged else None


def remaining_change(
    session: Session, node: str, json: Json, present: Uris, attach: Uris, detach: Uris
) -> RemainingChange:
    """Return what remains of a change; the present blocks are spelled as the change spells them."""
    spelled = {fold_uri(uri): uri for uri in (*detach, *attach)}
    found = {fold_uri(uri): spelled.get(fold_uri(uri), uri) for uri in present}
    coming = tuple(uri for uri in dict.fromkeys(attach) if fold_uri(uri) not in found)
    leaving = tuple(uri for uri in dict.fromkeys(detach) if fold_uri(uri) in found)
    return RemainingChange(session, node, json, tuple(found.values()), coming, leaving)


class ChangeMethod(Protocol):
    """One way to change the blocks of a node: a function of what remains of the change."""

    def __call__(self, change: RemainingChange, /) -> Offer:
        """Return the next write, the text of a refusal, or None if the way is not offered.

        It is called again with the rest of the change until all blocks are attached and detached.
        """


def device_templates(devices: Devices, rules: Json) -> Json | str:
    body: Json = {}
    for name, templates in _collections(devices, rules):
        members = []
        stated = rules[name].get("Members") if isinstance(rules.get(name), dict) else None
        first = stated[0] if isinstance(stated, list) and stated else {}
        template = first if isinstance(first, dict) else {}
        required = {key.removesuffix(_REQUIRED) for key in template if key.endswith(_REQUIRED)}
        named = {key.partition("@")[0] for key in template if key.endswith((_REQUIRED, _OPTIONAL))}
        for count, known in templates:
            shown = {key: known[key] for key in known if key in named or not named}
            member = {key: value for key, value in shown.items() if value is not None}
            if "TotalCores" in required and known.get("ProcessorType") != "CPU":
                member.setdefault("TotalCores", 1)  # cores do not describe a card
            if lacking := sorted(required - member.keys() - {"StorageControllers"}):
                return f"{name}: required but unknown: {', '.join(lacking)}"
            members.append({_COUNT: count, **member})
        if members and name not in rules:
            return f"the service cannot compose {name} by properties"
        if members:
            body[name] = {"Members": members}
    return body or "the request has no device that the service can compose by properties"


def _collections(devices: Devices, rules: Json) -> Iterator[tuple[str, list[DeviceTemplate]]]:
    cpus = [(cpu.count, processor_json(cpu)) for cpu in devices.processors]
    every = devices.accelerators
    cards = [(it.count, {"ProcessorType": it.kind, "Model": it.model}) for it in every]
    yield "Processors", [*cpus, *cards]
    yield "Memory", [(module.count, memory_json(module)) for module in devices.memory]
    yield "EthernetInterfaces", [(nic.count, nic_json(nic)) for nic in devices.nics]
    drives = []
    for it in devices.drives:
        drive = describe.device_json(
            schema.DriveDevice, it, ("capacity_bytes", "media", "protocol")
        )
        drives.append({_COUNT: it.count, **{k: v for k, v in drive.items() if v is not None}})
    is_older = "SimpleStorage" in rules and "Storage" not in rules
    name, inner = ("SimpleStorage", "Devices") if is_older else ("Storage", "Drives")
    yield name, [(1, {inner: drives})] if drives else []


def choose_write(
    capabilities: ComposeCapabilities, request: CompositionRequest
) -> ComposeWrite | str:
    """Return the write of the first method that can compose the node, or the first refusal."""
    problem = ""
    for method in (*capabilities.methods, *STANDARD_METHODS):
        found = method(capabilities, request)
        if isinstance(found, ComposeWrite):
            return found
        problem = problem or found or ""
    neither = "it has neither a Systems collection nor a Compose action"
    return problem or f"the service cannot compose: {neither}"


def composes_exact_blocks(capabilities: ComposeCapabilities, request: CompositionRequest) -> bool:
    found = choose_write(capabilities, request)
    return isinstance(found, ComposeWrite) and found.exact


def placed(capabilities: ComposeCapabilities, request: CompositionRequest) -> Offer:
    """Return no write for the host of the request; its other blocks are attached to the host."""
    systems = fold_uri(str(capabilities.systems))
    hosts = [uri for uri in request.blocks if fold_uri(uri).rpartition("/")[0] == systems]
    if not (capabilities.places and hosts):
        return None
    if len(hosts) > 1:
        return "a node is one host, because the service has no CompositionService"
    return ComposeWrite("placed", hosts[0], None, True)


def attached(capabilities: ComposeCapabilities, request: CompositionRequest) -> Offer:
    """Return a write that attaches the blocks to the host with the compute block of the request."""
    host = None if capabilities.composes else capabilities.host(request)
    if host is None:
        return None
    body = links_body((*host.own, *request.blocks))
    return ComposeWrite("attached", host.uri, body, True, on_host=True)


def specific(capabilities: ComposeCapabilities, request: CompositionRequest) -> Offer:
    """Return a write with the URIs of the blocks.

    A use case must offer this, unless the service states neither use cases nor a Compose action.
    """
    case = _use_case(capabilities, SPECIFIC, request.pool)
    target = case.target if case else capabilities.systems
    if capabilities.places and request.blocks:
        return None
    stated = capabilities.compose_target or _use_case(capabilities, CONSTRAINED, request.pool)
    if not target or (stated and not case):
        return None
    extra, problem = _required_properties(case.rules if case else {}, request)
    return problem or ComposeWrite("specific", target, specific_body(request) | extra, True)


def manifest(capabilities: ComposeCapabilities, request: CompositionRequest) -> ComposeWrite | None:
    body, target = manifest_body(request, "Apply"), capabilities.compose_target
    return ComposeWrite("manifest", target, body, True) if target else None


def constrained(capabilities: ComposeCapabilities, request: CompositionRequest) -> Offer:
    if (case := _use_case(capabilities, CONSTRAINED, request.pool)) is None:
        return None
    templates = device_templates(request.devices, case.rules)
    if isinstance(templates, str):
        return templates
    body = {"Name": request.name, **templates}
    if capabilities.zone_affinity and request.pool:
        body["@Redfish.ZoneAffinity"] = request.pool.rpartition("/")[2]
    return ComposeWrite("constrained", case.target, body, False)


STANDARD_METHODS: tuple[ComposeMethod, ...] = (placed, attached, specific, manifest, constrained)


def choose_change(
    change: RemainingChange, ways: Iterable[ChangeMethod], closed: Container[str] = ()
) -> ComposeWrite | str:
    """Return the next write of the first method that offers one, or the first refusal.

    ``closed`` has names and targets of writes that the service does not offer.
    """
    problem = ""
    for method in ways:
        found = method(change)
        if isinstance(found, str):
            problem = problem or found
        elif found and found.name not in closed and found.target not in closed:
            return found
    return problem or f"the service offers no way to change the blocks of {change.node}"


def by_action(change: RemainingChange) -> Offer:
    """Return a POST of the action for the next block: first all are attached, then detached."""
    return _action_write(change, "by action", lambda uri: {"@odata.id": uri})


def by_action_with_text(change: RemainingChange) -> Offer:
    """Return the POST of :func:`by_action` with the bare URI of the block in place of a link."""
    return _action_write(change, "by action with text", lambda uri: uri)


def by_list(change: RemainingChange) -> Offer:
    """Return a PATCH of the whole list of blocks."""
    return ComposeWrite("by list", change.node, links_body(change.result), True, on_host=True)


def _action_write(change: RemainingChange, name: str, form: Callable[[str], Any]) -> Offer:
    verb = "AddResourceBlock" if change.attach else "RemoveResourceBlock"
    block = (*change.attach, *change.detach)[0]
    tags = {"ComputerSystemETag": change.node, "ResourceBlockETag": block}
    action, body = find_action(change.json, verb), {"ResourceBlock": form(block)}
    return tagged_write(change, name, action, body, tags)


def tagged_write(
    change: RemainingChange, name: str, action: Json | None, body: Json, tags: Mapping[str, str]
) -> ComposeWrite | None:
    """Return a POST of an action with those ETags that it takes: ``tags`` are their documents."""
    if action is None:
        return None
    stated = action_parameters(change.session, action)
    for parameter, uri in tags.items():
        if (not stated or parameter in stated) and (etag := change.etag(uri)):
            body[parameter] = etag
    return ComposeWrite(name, link_path(action["target"]) or "", body, True)


CHANGE_METHODS: tuple[ChangeMethod, ...] = (by_action, by_action_with_text, by_list)


def manifest_body(request: CompositionRequest, kind: str) -> Json:
    stanza = {"StanzaType": "ComposeSystem", "StanzaId": "node", "Request": specific_body(request)}
    manifest = {"Expand": "None", "Stanzas": [stanza]}
    return {"RequestFormat": "Manifest", "RequestType": kind, "Manifest": manifest}


def _use_case(capabilities: ComposeCapabilities, name: str, pool: str | None) -> UseCase | None:
    for case in capabilities.use_cases:
        zones = {zone.rpartition("/")[2] for zone in case.zones} | set(case.zones)
        if case.name.casefold() == name.casefold() and (not zones or pool in zones):
            return case
    return None


def specific_body(request: CompositionRequest) -> Json:
    """Return the body that names the node and its blocks."""
    return {"Name": request.name, **links_body(request.blocks)}


def links_body(blocks: Iterable[str]) -> Json:
    links = [{"@odata.id": uri} for uri in dict.fromkeys(blocks)]
    return {"Links": {"ResourceBlocks": links}}


def _required_properties(rules: Json, request: CompositionRequest) -> tuple[Json, str]:
    """Return the other required properties of a body, or a problem if a value is unknown."""
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
            return {}, f"the service requires {name!r}, but states no allowed value"
    return found, ""


class _Actions(Resource):
    compose = Field("Actions/#CompositionService.Compose/target", text, "the target of manifests")
    zone_affinity = Field("AllowZoneAffinity", flag, "whether a zone can be named by its Id")
    target = Field("Links/TargetCollection/@odata.id", text, "the POST target of a capability")


def read_capabilities(
    session: Session, request: CompositionRequest | None = None, own: tuple[ComposeMethod, ...] = ()
) -> ComposeCapabilities:
    """Read the capabilities; without vendor methods, stop at a use case for the request."""
    root = read_resource(session, schema.ServiceRoot, ROOT)
    systems = next(link_paths(root.systems), None)
    cases: list[UseCase] = []
    for uri in map(link_path, root.systems):
        cases += _use_cases(session, get_document(session, uri) or {}, uri or "")
    early = ComposeCapabilities(systems, None, False, tuple(cases), places=bool(root.hosts))
    is_specific = request and not own and _use_case(early, SPECIFIC, request.pool)
    if request and is_specific and composes_exact_blocks(early, request):
        return early
    services = (get_document(session, link_path(link)) for link in root.composition)
    service = next((json for json in services if json is not None), {})
    actions = _Actions(ROOT, service, NO_NOTES)
    parts = schema.CompositionService(ROOT, service, NO_NOTES)
    for uri in map(link_path, parts.blocks):
        cases += _use_cases(session, get_document(session, uri) or {}, uri or "")
    pool = request.pool if request else None
    for uri in (link_path(link) or "" for link in parts.zones):
        pages = tuple(whole_collection(functools.partial(get_document, session), uri))
        for page in pages[:1]:
            cases += _use_cases(session, page.json, uri)
        links = [link for page in pages for link in page.members]
        of_pool = [link for link in links if pool in (link_path(link), link.rpartition("/")[2])]
        for zone in of_pool or links:
            of_zone = _use_cases(session, _document_or_empty(session, zone), systems or "")
            zones = (link_path(zone) or "",)
            cases += [it._replace(zones=zones, target=systems or it.target) for it in of_zone]
    target, affinity = link_path(actions.compose), bool(actions.zone_affinity)
    found = early._replace(compose_target=target, zone_affinity=affinity, use_cases=tuple(cases))
    return found._replace(service=service, methods=own)


def _document_or_empty(session: Session, link: str) -> Json:
    with contextlib.suppress(PodmError):
        return get_document(session, link_path(link)) or {}
    return {}


def _use_cases(session: Session, json: Json, collection: str) -> Iterator[UseCase]:
    for stated in schema.Collection(ROOT, json, NO_NOTES).capabilities:
        capability = schema.CollectionCapability(ROOT, stated, NO_NOTES)
        documents = (_document_or_empty(session, link) for link in capability.object)
        if rules := next(filter(None, documents), None):
            target = link_path(_Actions(ROOT, stated, NO_NOTES).target) or collection
            zones = tuple(link_paths(capability.zones))
            yield UseCase(capability.use_case or "", target, zones, rules)
