# SPDX-License-Identifier: Apache-2.0
"""Resource blocks of a simulated pod manager, composed by POST to Systems, decomposed by DELETE."""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from valence_sched.drivers.fields import objects
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.methods import CONSTRAINED, SPECIFIC, UseCase
from valence_sched.model.quantity import format_count
from valence_sched.simulator.redfish import system as machines
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, HttpReply, Json, RequestRefused
from valence_sched.simulator.server.faults import Faults

#: Properties that distinguish equal devices.
_OWN = ("Id", "Name", "SerialNumber", "UUID", "PartNumber", "MACAddress", "PermanentMACAddress")
#: Requested properties that a device may exceed if the client accepts more.
AMOUNTS: tuple[str, ...] = ("TotalCores", "TotalThreads", "MaxSpeedMHz", "OperatingSpeedMhz")
AMOUNTS += ("CapacityMiB", "CapacityBytes", "SpeedMbps")


def is_block(json: Json | None) -> bool:
    return isinstance(docs.value_at(json, "CompositionStatus"), dict)


def blocks(documents: DocumentTree) -> Iterator[tuple[str, Json]]:
    for uri in documents:
        if is_block(json := documents.get(uri) or {}):
            yield uri, json


def _is_shareable(json: Json) -> bool:
    status = json["CompositionStatus"]
    return status.get("SharingCapable") is True and status.get("SharingEnabled") is not False


def _has_room(json: Json) -> bool:
    status, shareable = json["CompositionStatus"], _is_shareable(json)
    state = status.get("CompositionState")
    if state == "Unused":
        return shareable or json.get("Pool") != "Active"
    count = docs.number_of(status.get("NumberOfCompositions"))
    return state == "ComposedAndAvailable" and shareable and count < _most(status)


def _most(status: Json) -> int:
    return docs.number_of(status.get("MaxCompositions"), 1_000_000)


def set_status(documents: DocumentTree, uri: str, **changes: Any) -> None:
    status = {**docs.object_of(documents.get(uri), "CompositionStatus"), **changes}
    documents.update(uri, CompositionStatus=status)


def _attach_block(documents: DocumentTree, uri: str, system: str) -> None:
    if (json := documents.get(uri)) is None:
        return
    status, shareable = {**json["CompositionStatus"]}, _is_shareable(json)
    count = docs.number_of(status.get("NumberOfCompositions")) + 1
    more = shareable and count < _most(status)
    status["CompositionState"] = "ComposedAndAvailable" if more else "Composed"
    if "NumberOfCompositions" in status or "MaxCompositions" in status or shareable:
        status["NumberOfCompositions"] = count
    links = docs.object_of(json, "Links")
    systems = [*docs.array_of(links, "ComputerSystems"), *docs.links_to([system])]
    documents.update(uri, CompositionStatus=status, Links={**links, "ComputerSystems": systems})
    _move_to_pool(documents, uri, "Active")


def _detach_block(documents: DocumentTree, uri: str, system: str) -> None:
    json = documents.get(uri)
    if json is None or not is_block(json):
        return
    status, count = {**json["CompositionStatus"]}, 0
    if _is_shareable(json):
        count = max(0, docs.number_of(status.get("NumberOfCompositions"), 1) - 1)
    status["CompositionState"] = "ComposedAndAvailable" if count else "Unused"
    if "NumberOfCompositions" in status:
        status["NumberOfCompositions"] = count
    if status.get("Reserved"):
        status["Reserved"] = False
    links = docs.object_of(json, "Links")
    systems = docs.array_of(links, "ComputerSystems")
    others = {"ComputerSystems": [link for link in systems if docs.uri_of(link) != system]}
    documents.update(uri, CompositionStatus=status, Links={**links, **others})
    if not count:
        _move_to_pool(documents, uri, "Free")


def _move_to_pool(documents: DocumentTree, uri: str, name: str) -> None:
    service = docs.composition_service(documents)
    names = ("Free", "Active")
    pools = {word: docs.uri_at(service, f"{word}Pool") for word in names}
    if "Pool" in (documents.get(uri) or {}) or any(pools.values()):
        documents.update(uri, Pool=name)
    for word, collection in pools.items():
        if collection:
            change = documents.list_member if word == name else documents.unlist_member
            change(collection, uri)


def zones(documents: DocumentTree) -> list[tuple[str, Json, list[str]]]:
    zones = docs.uri_at(docs.composition_service(documents), "ResourceZones")
    usual = "ZoneOfResourceBlocks"
    return [
        (uri, json, docs.uris_at(json, "Links", "ResourceBlocks"))
        for uri in documents.member_uris(zones)
        if (json := documents.get(uri)) is not None and json.get("ZoneType", usual) == usual
    ]


def consume(documents: DocumentTree, pool: str, size: int) -> None:
    capacity = docs.object_of(documents.get(pool), "Capacity")
    data = docs.object_of(capacity, "Data")
    used = max(0, int(data.get("ConsumedBytes") or 0) + size)
    documents.update(pool, Capacity={**capacity, "Data": {**data, "ConsumedBytes": used}})


def node_name(faults: Faults, wanted: str | None) -> str | None:
    """Return the name of a new node, None if the pod manager generates one."""
    return None if "own-names" in faults or "uri-names" in faults else wanted


def _equal_blocks(documents: DocumentTree, named: Sequence[str]) -> tuple[str, ...]:
    """Return, for each named block, another free, equal block of its zones, else the block."""

    def content(uri: str) -> Any:
        json = documents.get(uri) or {}
        devices = {
            kind: sorted(str(sorted(content_of(one).items())) for one in found.values())
            for kind, found in machines.devices_of(documents, json).items()
        }
        return devices, docs.array_of(json, "ResourceBlockType"), _is_shareable(json)

    inside = [set(members) for _, _, members in zones(documents)]
    roomy = ((uri, json) for uri, json in blocks(documents) if _has_room(json))
    free = [uri for uri, json in roomy if not json["CompositionStatus"].get("Reserved")]
    found: list[str] = []
    for uri in named:
        used, wanted = {*named, *found}, content(uri)
        equal = (it for it in free if it not in used and content(it) == wanted)
        near = [it for it in equal if all((it in zone) == (uri in zone) for zone in inside)]
        found.append(near[-1] if near else uri)
    return tuple(found)


def content_of(device: Json) -> Json:
    plain = ((key, value) for key, value in device.items() if not isinstance(value, dict | list))
    return {key: value for key, value in plain if key not in _OWN and not key.startswith("@")}


def _capabilities(documents: DocumentTree) -> Iterator[UseCase]:
    root, service = documents.get(ROOT), docs.composition_service(documents)
    links = [docs.value_at(root, name) for name in ("Systems", "ResourceBlocks")]
    links += [docs.value_at(service, name) for name in ("ResourceBlocks", "ResourceZones")]
    holders: list[tuple[str, tuple[str, ...]]] = [(docs.uri_of(link), ()) for link in links]
    holders += [(uri, (uri,)) for uri, _, _ in zones(documents)]
    for holder, zone in holders:
        stated = docs.object_of(documents.get(holder), "@Redfish.CollectionCapabilities")
        for json in docs.array_of(stated, "Capabilities"):
            related = zone or tuple(docs.uris_at(json, "Links", "RelatedItem"))
            target = docs.uri_at(json, "Links", "TargetCollection")
            document = documents.get(docs.uri_at(json, "CapabilitiesObject")) or {}
            use_case = str(docs.value_at(json, "UseCase"))
            yield UseCase(use_case, target, related, document)


def _check_required(every: Iterable[UseCase], use_case: str, body: Json) -> None:
    mark = "@Redfish.RequiredOnCreate"
    stated = (one.rules.items() for one in every if one.name == use_case)
    required = [
        {key.removesuffix(mark) for key, value in items if value is True and key.endswith(mark)}
        for items in stated
    ]
    for name in sorted(set.intersection(*required) - {""}) if required else []:
        if name not in body:
            text = f"The property {name} is required to compose a system."
            raise RequestRefused(400, docs.MISSING, text, name)


def _limit_violation(every: Iterable[UseCase], zone: str, kinds: Iterable[Iterable[str]]) -> str:
    counts = Counter(str(kind) for types in kinds for kind in types)
    for one in every:
        if one.name not in (SPECIFIC, CONSTRAINED) or (one.zones and zone not in one.zones):
            continue
        for name, limit in _limits(one.rules):
            count = counts[name[3:]]
            if (name[:3] == "Max" and count > limit) or (name[:3] == "Min" and count < limit):
                return f"{format_count(count, 'block')} of type {name[3:]}, and {name} is {limit}"
    return ""


def _limits(json: Json) -> Iterator[tuple[str, int]]:
    stated: Any = json.get("@Redfish.ResourceBlockLimits") or {}
    for limits in stated if isinstance(stated, list) else [stated]:
        for name, limit in limits.items() if isinstance(limits, dict) else ():
            if name[:3] in ("Min", "Max") and isinstance(limit, int):
                yield name, limit


class DeviceRequest(NamedTuple):
    """Requested devices: kind, number, properties, and whether amounts may be exceeded."""

    kind: str
    wanted: int
    properties: Json
    more: bool

    def fits(self, kind: str, device: Json) -> bool:
        if kind != self.kind:
            return False
        for key, wanted in self.properties.items():
            if isinstance(wanted, (dict, list)):
                continue
            found = device.get(key)
            if key == "ProcessorType" and found is None:
                found = "CPU"
            if key in AMOUNTS and self.more:
                if not isinstance(found, (int, float)) or found < wanted:
                    return False
            elif found != wanted:
                return False
        return True


def _device_requests(kind: str, row: Json) -> Iterator[DeviceRequest]:
    """Yield the devices that a row of a body requests; RequestRefused for a wrong count."""
    count = row.get("@Redfish.RequestedCount", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
        text = f"@Redfish.RequestedCount of {kind} is {count!r}, expected 1 or more."
        raise RequestRefused(400, docs.WRONG_TYPE, text, str(count), "@Redfish.RequestedCount")
    more = row.get("@Redfish.AllowOverprovisioning") is True
    inner = row.get("Drives") if kind == "Storage" else row.get("Devices")
    if isinstance(inner, list) and inner:
        for drive in objects(inner):
            for shape in _device_requests("Drives", drive):
                yield shape._replace(wanted=shape.wanted * count, more=more)
        return
    plain = {key: value for key, value in row.items() if "@" not in key}
    yield DeviceRequest(kind, count, plain, more)


def _choose_blocks(
    documents: DocumentTree, requests: Sequence[DeviceRequest], free: list[str], named: list[str]
) -> tuple[str, ...]:
    """Return blocks that together have the devices, found greedily; empty if there are none."""
    devices: dict[str, list[tuple[str, Json]]] = {}
    for uri in free:
        by_kind = machines.devices_of(documents, documents.get(uri) or {})
        devices[uri] = flat = [(kind, it) for kind, of in by_kind.items() for it in of.values()]
        for json in by_kind["Storage"].values():
            flat += [("Drives", drive) for _, drive in documents.linked(json.get("Drives"))]
        for json in by_kind["SimpleStorage"].values():
            flat += [("Drives", it) for it in objects(docs.array_of(json, "Devices"))]

    def count(shape: DeviceRequest, blocks: Sequence[str]) -> int:
        return sum(shape.fits(kind, one) for uri in blocks for kind, one in devices[uri])

    found = list(named)
    for shape in requests:
        for uri in free:
            have = count(shape, found)
            if have >= shape.wanted:
                break
            some = 0 if uri in found else count(shape, [uri])
            if some and (shape.more or have + some <= shape.wanted):
                found.append(uri)
        have = count(shape, found)
        if have < shape.wanted or (have > shape.wanted and not shape.more):
            return ()
    return tuple(found)


class Composition:
    """Composes and decomposes nodes.

    ``owners`` maps a block to the client that set ``Reserved``; blocks that were recorded as
    reserved belong to another client. ``reservations`` maps a block to its reservation.
    """

    def __init__(self, documents: DocumentTree, faults: Faults) -> None:
        self.documents, self._faults = documents, faults
        self.owners: dict[str, str] = {}
        self.reservations: dict[str, str] = {}

    @property
    def systems(self) -> str:
        return docs.uri_at(self.documents.get(ROOT), "Systems")

    def targets(self) -> set[str]:
        stated = {one.target for one in _capabilities(self.documents)}
        return {uri for uri in (self.systems, *stated) if uri and uri in self.documents}

    def plan(self, body: Json, client: str = "", reservation: str = "") -> tuple[str, ...]:
        """Return the blocks of a composition without changes; RequestRefused if impossible."""
        links = docs.value_at(body, "Links", "ResourceBlocks")
        named = [] if links is None else docs.linked_by(body, "ResourceBlocks")
        if len(named) < len(links or ()):
            text = "Links.ResourceBlocks names a resource block twice."
            args = ("ResourceBlocks", "ResourceBlocks")
            raise RequestRefused(400, "PropertyValueConflict", text, *args)
        every = list(_capabilities(self.documents))
        shapes: list[DeviceRequest] = []
        for kind in machines.COLLECTIONS:
            requested = body.get(kind)
            rows = requested.get("Members") if isinstance(requested, dict) else requested
            for row in objects(rows if isinstance(rows, list) else []):
                shapes += _device_requests(kind, row)
        if not named and not shapes:
            text = "A system needs Links.ResourceBlocks, or the devices that it is composed of."
            raise RequestRefused(400, docs.MISSING, text, "Links/ResourceBlocks")
        self._check(named, client, reservation)
        if not shapes:
            _check_required(every, SPECIFIC, body)
            self._check_zones(named, every)
            is_changed = "equal-device" in self._faults
            return _equal_blocks(self.documents, named) if is_changed else tuple(named)
        return self._find_blocks(named, shapes, body, every, client, reservation)

    def compose(self, blocks: Sequence[str], body: Json) -> str:
        """Compose a system of blocks with the properties of a body, and return its URI."""
        wanted = str(body.get("Name") or "") or None
        id_ = "Composed" if "own-names" in self._faults or not wanted else wanted
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", id_).strip(".-")[:64] or "Composed"
        uri, number = f"{self.systems}/{stem}", 1
        while uri in self.documents:
            number += 1
            uri = f"{self.systems}/{stem}-{number}"
        name = node_name(self._faults, wanted) or "Composed System"
        self._attach(blocks, uri)
        machines.put_system(self.documents, uri, name, blocks, body)
        self.documents.list_member(self.systems, uri)
        return uri

    def decompose(self, uri: str) -> HttpReply:
        json = self.documents.get(uri)
        if json is None:
            return docs.not_found(uri)
        if json.get("SystemType") != "Composed":
            text = f"{uri} is not a composed system and cannot be deleted."
            raise RequestRefused(405, "ResourceCannotBeDeleted", text)
        for block in docs.uris_at(json, "Links", "ResourceBlocks"):
            _detach_block(self.documents, block, uri)
            self.owners.pop(block, None)
        self.documents.unlist_member(self.systems, uri)
        machines.remove_system(self.documents, uri)
        return HttpReply(204)

    def check_change(self, uri: str, wanted: Sequence[str], client: str = "") -> None:
        """Refuse blocks that a composed system cannot have."""
        present = docs.uris_at(self.documents.get(uri), "Links", "ResourceBlocks")
        self._check([block for block in wanted if block not in present], client, "")
        self._check_zones(wanted, list(_capabilities(self.documents)))

    def change(self, uri: str, wanted: Sequence[str]) -> None:
        """Replace the blocks of a composed system."""
        json = self.documents.get(uri) or {}
        present = docs.uris_at(json, "Links", "ResourceBlocks")
        for block in present:
            if block not in wanted:
                _detach_block(self.documents, block, uri)
        self._attach([block for block in wanted if block not in present], uri)
        machines.put_system(self.documents, uri, str(json.get("Name")), wanted, json)

    def check_host_change(self, uri: str, wanted: Sequence[str]) -> None:
        """Refuse blocks that a host cannot have; its own block, which is the first, must stay."""
        present = docs.uris_at(self.documents.get(uri), "Links", "ResourceBlocks")
        for block in wanted:
            if not is_block(self.documents.get(block)):
                text = f"There is no resource block {block}."
                raise RequestRefused(404, "ResourceBlockNotFound", text, block)
        if present[0] not in wanted:
            text = f"{uri} cannot be without {present[0]}."
            raise RequestRefused(406, "PropertyValueConflict", text, "ResourceBlocks", uri)
        for block in wanted:
            users = docs.uris_at(self.documents.get(block), "Links", "ComputerSystems")
            if block not in present and users:
                raise RequestRefused(409, "ResourceBlockInUse", f"{block} is in use.", block)

    def change_host(self, uri: str, wanted: Sequence[str]) -> None:
        """Replace the blocks of a host; the blocks stay Unused."""
        links = docs.object_of(self.documents.get(uri), "Links")
        present = docs.uris_at(links, "ResourceBlocks")
        for block in dict.fromkeys((*wanted, *present)):
            own = docs.object_of(self.documents.get(block), "Links")
            held = docs.links_to([uri] if block in wanted else [])
            self.documents.update(block, Links={**own, "ComputerSystems": held})
        ordered = [present[0], *(it for it in wanted if it != present[0])]
        self.documents.update(uri, Links={**links, "ResourceBlocks": docs.links_to(ordered)})

    def _attach(self, blocks: Iterable[str], uri: str) -> None:
        unused = self._faults.paths("stays-unused")
        for block in blocks:
            names = (block, block.rpartition("/")[2])
            if not any(fnmatch.fnmatchcase(name, it) for it in unused for name in names):
                _attach_block(self.documents, block, uri)

    def _check(self, blocks: Iterable[str], client: str, reservation: str) -> None:
        for uri in blocks:
            if refused := self._refusal(uri, client, reservation):
                raise refused

    def _refusal(self, uri: str, client: str, reservation: str) -> RequestRefused | None:
        json = self.documents.get(uri)
        if json is None:
            text = f"There is no resource block {uri}."
            return RequestRefused(400, "ResourceBlockNotFound", text, uri)
        if not is_block(json):
            text = f"{uri} is not a resource block."
            return RequestRefused(400, "ResourceBlockInvalid", text, uri)
        status = json["CompositionStatus"]
        state = status.get("CompositionState")
        if state not in ("Failed", "Unavailable"):
            state = docs.value_at(json, "Status", "State")
        if state not in (None, "Enabled"):
            text = f"{uri} is {state} and cannot be composed."
            return RequestRefused(400, "ResourceBlockInvalid", text, uri)
        if not _has_room(json) and "double-book" not in self._faults:
            return RequestRefused(409, "ResourceBlockInUse", f"{uri} is in use.", uri)
        owner = self.reservations.get(uri)
        if owner and owner != reservation:
            text = f"{uri} is reserved by {owner}."
            return RequestRefused(409, "SpecifiedResourceAlreadyReserved", text, uri, owner)
        if status.get("Reserved") is True and not owner and self.owners.get(uri) != client:
            text = f"{uri} is reserved by another client."
            return RequestRefused(409, "ResourceBlockInUse", text, uri)
        return None

    def _kinds(self, blocks: Iterable[str]) -> list[list[Any]]:
        return [docs.array_of(self.documents.get(uri), "ResourceBlockType") for uri in blocks]

    def _check_zones(self, named: Sequence[str], every: Sequence[UseCase]) -> None:
        found = zones(self.documents)
        common = [zone for zone, _, inside in found if set(named) <= set(inside)]
        if found and not common:
            text = f"No zone has all of the resource blocks {', '.join(named)}."
            raise RequestRefused(400, "IncompatibleZone", text, ", ".join(named))
        faults = [_limit_violation(every, zone, self._kinds(named)) for zone in common or [""]]
        if all(faults):
            text = f"The limits do not allow {faults[0]}."
            raise RequestRefused(400, "PropertyValueError", text, "Links/ResourceBlocks")

    def _find_blocks(
        self,
        named: list[str],
        shapes: Sequence[DeviceRequest],
        body: Json,
        every: Sequence[UseCase],
        client: str,
        reservation: str,
    ) -> tuple[str, ...]:
        offers = [one for one in every if one.name == CONSTRAINED]
        if not offers:
            text = "Systems are composed of Links.ResourceBlocks only."
            raise RequestRefused(400, "PropertyUnknown", text, shapes[0].kind)
        _check_required(every, CONSTRAINED, body)
        affinity = body.get("@Redfish.ZoneAffinity")
        for zone, json, inside in zones(self.documents):
            offered = any(not one.zones or zone in one.zones for one in offers)
            if not offered or (affinity is not None and str(json.get("Id")) != str(affinity)):
                continue
            if not set(named) <= set(inside):
                continue
            refused = {uri for uri in inside if self._refusal(uri, client, reservation)}
            free = [uri for uri in inside if uri in named or uri not in refused]
            found = _choose_blocks(self.documents, shapes, free, named)
            if found and not _limit_violation(every, zone, self._kinds(found)):
                return found
        raise RequestRefused(400, "NoResourceMatch", "No zone has free resource blocks that match.")
