# SPDX-License-Identifier: Apache-2.0
"""Composes by POST to Systems and decomposes by DELETE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from valence_sched.drivers.links import ROOT
from valence_sched.model.quantity import format_count
from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.blocks import zones
from valence_sched.simulator.redfish.system import (
    COLLECTIONS,
    devices_of,
    put_system,
    remove_system,
)
from valence_sched.simulator.server.documents import (
    MISSING,
    WRONG_TYPE,
    DocumentTree,
    Json,
    RequestRefused,
    SimulatedReply,
    array_of,
    composition_service,
    not_found,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.habits import Habits

SPECIFIC = "ComputerSystemComposition"
CONSTRAINED = "ComputerSystemConstrainedComposition"


class SimulatedCapability(NamedTuple):
    """One way to compose: for what, in which zones (none means all), to which collection."""

    use_case: str
    zones: tuple[str, ...]
    target: str
    object: Json


def capabilities(documents: DocumentTree) -> list[SimulatedCapability]:
    """Return the capabilities that collections and zones state."""
    root, service = documents.get(ROOT), composition_service(documents)
    links = [value_at(root, name) for name in ("Systems", "ResourceBlocks")]
    links += [value_at(service, name) for name in ("ResourceBlocks", "ResourceZones")]
    found = [one for link in links for one in _stated(documents, uri_of(link), ())]
    for uri, _, _ in zones(documents):
        found += _stated(documents, uri, (uri,))
    return found


def _stated(
    documents: DocumentTree, holder: str, zone: tuple[str, ...]
) -> Iterator[SimulatedCapability]:
    stated = value_at(documents.get(holder), "@Redfish.CollectionCapabilities", "Capabilities")
    for json in stated if isinstance(stated, list) else []:
        related = zone or tuple(uris(value_at(json, "Links", "RelatedItem")))
        target = uri_of(value_at(json, "Links", "TargetCollection"))
        document = documents.get(uri_of(value_at(json, "CapabilitiesObject"))) or {}
        yield SimulatedCapability(str(value_at(json, "UseCase")), related, target, document)


def check_required(every: Iterable[SimulatedCapability], use_case: str, body: Json) -> None:
    """Refuse a body without a property that all capabilities of a use case require."""
    mark = "@Redfish.RequiredOnCreate"
    required = [
        {key.removesuffix(mark) for key, value in one.object.items()
         if value is True and key.endswith(mark) and key != mark}
        for one in every if one.use_case == use_case
    ]  # fmt: skip
    for name in sorted(set.intersection(*required)) if required else []:
        if name not in body:
            text = f"The property {name} is required to compose a system."
            raise RequestRefused(400, MISSING, text, name)


def limit_violation(
    every: Iterable[SimulatedCapability], zone: str, kinds: Iterable[Iterable[str]]
) -> str:
    """Return the fault of the number of blocks of a type in a zone, empty for none."""
    counts = Counter(str(kind) for types in kinds for kind in types)
    for one in every:
        if one.use_case not in (SPECIFIC, CONSTRAINED) or (one.zones and zone not in one.zones):
            continue
        for name, limit in _limits(one.object):
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


#: Properties of a shape in which more is as good, if the client accepts more.
AMOUNTS = (
    "TotalCores",
    "TotalThreads",
    "MaxSpeedMHz",
    "CapacityMiB",
    "CapacityBytes",
    "OperatingSpeedMhz",
    "SpeedMbps",
)


class DeviceRequest(NamedTuple):
    """Devices that a system is to have: kind, how many, properties, whether more will do."""

    kind: str
    wanted: int
    properties: Json
    more: bool


def device_requests(body: Json) -> list[DeviceRequest]:
    """Return the devices that a body requests; RequestRefused if a count is no number."""
    found: list[DeviceRequest] = []
    for kind in COLLECTIONS:
        requested = body.get(kind)
        rows = requested.get("Members") if isinstance(requested, dict) else requested
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                found += _device_requests(kind, row)
    return found


def _device_requests(kind: str, row: Json) -> Iterator[DeviceRequest]:
    count = row.get("@Redfish.RequestedCount", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
        text = f"@Redfish.RequestedCount of {kind} is {count!r}, expected 1 or more."
        raise RequestRefused(400, WRONG_TYPE, text, str(count), "@Redfish.RequestedCount")
    more = row.get("@Redfish.AllowOverprovisioning") is True
    inner = row.get("Drives") if kind == "Storage" else row.get("Devices")
    if isinstance(inner, list) and inner:
        for drive in inner:
            if isinstance(drive, dict):
                yield from (
                    shape._replace(kind="Drives", wanted=shape.wanted * count, more=more)
                    for shape in _device_requests("Drives", drive)
                )
        return
    plain = {key: value for key, value in row.items() if "@" not in key}
    yield DeviceRequest(kind, count, plain, more)


def choose_blocks(
    documents: DocumentTree,
    requests: Sequence[DeviceRequest],
    free: Sequence[str],
    named: Sequence[str],
) -> tuple[str, ...]:
    """Return blocks that together have the devices, empty when the greedy way finds none."""
    devices = {uri: _flat_devices(documents, uri) for uri in free}
    found = list(named)
    for shape in requests:
        for uri in free:
            if _count(shape, devices, found) >= shape.wanted:
                break
            some = 0 if uri in found else _count(shape, devices, [uri])
            too_many = not shape.more and _count(shape, devices, found) + some > shape.wanted
            if some and not too_many:
                found.append(uri)
        have = _count(shape, devices, found)
        if have < shape.wanted or (have > shape.wanted and not shape.more):
            return ()
    return tuple(found)


def _flat_devices(documents: DocumentTree, uri: str) -> list[tuple[str, Json]]:
    found = devices_of(documents, documents.get(uri) or {})
    flat = [(kind, json) for kind, devices in found.items() for json in devices.values()]
    for json in found["Storage"].values():
        flat += [("Drives", drive) for _, drive in documents.linked(json.get("Drives"))]
    for json in found["SimpleStorage"].values():
        flat += [("Drives", one) for one in array_of(json, "Devices") if isinstance(one, dict)]
    return flat


def _count(
    shape: DeviceRequest, devices: dict[str, list[tuple[str, Json]]], found: Sequence[str]
) -> int:
    return sum(_fits(shape, kind, one) for uri in found for kind, one in devices[uri])


def _fits(shape: DeviceRequest, kind: str, device: Json) -> bool:
    return kind == shape.kind and all(
        _value_fits(key, value, device.get(key), shape.more)
        for key, value in shape.properties.items()
        if not isinstance(value, (dict, list))
    )


def _value_fits(key: str, wanted: Any, found: Any, more: bool) -> bool:
    if key == "ProcessorType" and found is None:
        found = "CPU"
    if key in AMOUNTS and more:
        return isinstance(found, (int, float)) and found >= wanted
    return bool(found == wanted)


class CompositionPlan(NamedTuple):
    """A composition that can be done: the blocks, and the properties of the system."""

    blocks: tuple[str, ...]
    body: Json


class Composition:
    """Nodes that come and go.

    ``owners`` is the client that set ``Reserved`` of each block here; a block that was reserved
    before belongs to another client. ``reservations`` is block to reservation.
    """

    def __init__(self, documents: DocumentTree, habits: Habits) -> None:
        self._documents, self._habits = documents, habits
        self.owners: dict[str, str] = {}
        self.reservations: dict[str, str] = {}

    @property
    def systems(self) -> str:
        """Return the URI of the collection of systems."""
        return uri_of(value_at(self._documents.get(ROOT), "Systems"))

    def targets(self) -> set[str]:
        """Return the collections to which a system is posted."""
        stated = {one.target for one in capabilities(self._documents)}
        return {uri for uri in (self.systems, *stated) if uri and uri in self._documents}

    def plan(self, body: Json, client: str = "", reservation: str = "") -> CompositionPlan:
        """Return what would be composed; RequestRefused if it cannot be. Nothing is changed."""
        named = _named_blocks(body)
        every = capabilities(self._documents)
        shapes = device_requests(body)
        if not named and not shapes:
            text = "A system is composed of Links.ResourceBlocks, or of devices it is to have."
            raise RequestRefused(400, MISSING, text, "Links/ResourceBlocks")
        for uri in named:
            self._check(uri, client, reservation)
        if not shapes:
            check_required(every, SPECIFIC, body)
            self._check_zones(named, every)
            return CompositionPlan(self._habits.with_equals(named), body)
        found = self._choose_blocks(named, shapes, body, every, client, reservation)
        return CompositionPlan(found, body)

    def compose(self, plan: CompositionPlan) -> str:
        """Compose and return the URI of the system."""
        wanted = str(plan.body.get("Name") or "") or None
        uri = self._free_uri(self._habits.id_of(wanted) or "Composed")
        name = self._habits.name_of(wanted) or "Composed System"
        for block in plan.blocks:
            self._attach(block, uri)
        put_system(self._documents, uri, name, plan.blocks, plan.body)
        self._documents.list_member(self.systems, uri)
        return uri

    def decompose(self, uri: str) -> SimulatedReply:
        """Take a composed system apart: 204, or why not."""
        json = self._documents.get(uri)
        if json is None:
            return not_found(uri)
        if json.get("SystemType") != "Composed":
            text = f"{uri} is no composed system and cannot be deleted."
            raise RequestRefused(405, "ResourceCannotBeDeleted", text)
        for block in uris(value_at(json, "Links", "ResourceBlocks")):
            blocks.detach(self._documents, block, uri)
            self.owners.pop(block, None)
        self._documents.unlist_member(self.systems, uri)
        remove_system(self._documents, uri)
        return SimulatedReply(204)

    def change(self, uri: str, wanted: Sequence[str], client: str = "") -> None:
        """Make a composed system one of these blocks, or refuse it and change nothing."""
        json = self._documents.get(uri) or {}
        had = uris(value_at(json, "Links", "ResourceBlocks"))
        come = [block for block in wanted if block not in had]
        for block in come:
            self._check(block, client, "")
        self._check_zones(wanted, capabilities(self._documents))
        for block in had:
            if block not in wanted:
                blocks.detach(self._documents, block, uri)
        for block in come:
            self._attach(block, uri)
        put_system(self._documents, uri, str(json.get("Name")), wanted, json)

    def _attach(self, block: str, uri: str) -> None:
        if not self._habits.stays_unused(block):
            blocks.attach(self._documents, block, uri)

    def _check(self, uri: str, client: str, reservation: str) -> None:
        json = self._documents.get(uri)
        if json is None:
            text = f"There is no resource block {uri}."
            raise RequestRefused(400, "ResourceBlockNotFound", text, uri)
        if not blocks.is_block(json):
            raise RequestRefused(400, "ResourceBlockInvalid", f"{uri} is no resource block.", uri)
        blocks.check_sound(uri, json)
        if not blocks.has_room(json) and "double-book" not in self._habits:
            text = f"The resource block {uri} is in use."
            raise RequestRefused(409, "ResourceBlockInUse", text, uri)
        held = self.reservations.get(uri)
        if held and held != reservation:
            text = f"The resource block {uri} is reserved by {held}."
            raise RequestRefused(409, "SpecifiedResourceAlreadyReserved", text, uri, held)
        reserved = json["CompositionStatus"].get("Reserved") is True
        if reserved and not held and self.owners.get(uri) != client:
            text = f"The resource block {uri} is reserved by another client."
            raise RequestRefused(409, "ResourceBlockInUse", text, uri)

    def _check_zones(self, named: Sequence[str], every: Sequence[SimulatedCapability]) -> None:
        zones = blocks.zones(self._documents)
        common = [zone for zone, _, inside in zones if set(named) <= set(inside)]
        if zones and not common:
            text = f"No zone has all of the resource blocks {', '.join(named)}."
            raise RequestRefused(400, "IncompatibleZone", text, ", ".join(named))
        kinds = [array_of(self._documents.get(uri), "ResourceBlockType") for uri in named]
        faults = [limit_violation(every, zone, kinds) for zone in common or [""]]
        if all(faults):
            text = f"The limits do not allow {faults[0]}."
            raise RequestRefused(400, "PropertyValueError", text, "Links/ResourceBlocks")

    def _choose_blocks(
        self,
        named: Sequence[str],
        shapes: Sequence[DeviceRequest],
        body: Json,
        every: Sequence[SimulatedCapability],
        client: str,
        reservation: str,
    ) -> tuple[str, ...]:
        offers = [one for one in every if one.use_case == CONSTRAINED]
        if not offers:
            text = "Systems are composed of Links.ResourceBlocks only."
            raise RequestRefused(400, "PropertyUnknown", text, shapes[0].kind)
        check_required(every, CONSTRAINED, body)
        affinity = body.get("@Redfish.ZoneAffinity")
        for zone, json, inside in blocks.zones(self._documents):
            offered = any(not one.zones or zone in one.zones for one in offers)
            if not offered or (affinity is not None and str(json.get("Id")) != str(affinity)):
                continue
            if not set(named) <= set(inside):
                continue
            free = [uri for uri in inside if uri in named or self._free(uri, client, reservation)]
            found = choose_blocks(self._documents, shapes, free, named)
            kinds = [array_of(self._documents.get(uri), "ResourceBlockType") for uri in found]
            if found and not limit_violation(every, zone, kinds):
                return found
        raise RequestRefused(400, "NoResourceMatch", "No zone has free resource blocks like that.")

    def _free(self, uri: str, client: str, reservation: str) -> bool:
        try:
            self._check(uri, client, reservation)
        except RequestRefused:
            return False
        return True

    def _free_uri(self, name: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:64] or "Composed"
        uri, number = f"{self.systems}/{stem}", 1
        while uri in self._documents:
            number += 1
            uri = f"{self.systems}/{stem}-{number}"
        return uri


def _named_blocks(body: Json) -> list[str]:
    links = value_at(body, "Links", "ResourceBlocks")
    if links is None:
        return []
    if not isinstance(links, list) or not all(uri_of(link) for link in links):
        text = "Links.ResourceBlocks is not an array of links."
        raise RequestRefused(400, WRONG_TYPE, text, str(links)[:200], "ResourceBlocks")
    found = uris(links)
    if len(found) < len(links):
        text = "Links.ResourceBlocks names a resource block twice."
        raise RequestRefused(400, "PropertyValueConflict", text, "ResourceBlocks", "ResourceBlocks")
    return found
