# SPDX-License-Identifier: Apache-2.0
"""Renders a pod manager of an inventory as Redfish documents for the ``redfish`` driver.

``Oem/ValenceSched`` of a document has the properties that Redfish lacks. Of these, the driver reads
only the zones and the largest grant of a stock.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT, fold_uri, path_of
from valence_sched.drivers.redfish import describe
from valence_sched.drivers.redfish.describe import DeviceNoun, device_json
from valence_sched.drivers.redfish.schema import DriveDevice
from valence_sched.drivers.redfish.stocks import GIB, PERSISTENT, STORAGE, VOLATILE
from valence_sched.model import inventory
from valence_sched.model.podm_address import UUID_KIND

OEM = "ValenceSched"
_GOOD = {"State": "Enabled", "Health": "OK"}
#: The most documents for devices of one kind in one block; an inventory may count more.
MAX_DEVICES = 4096
_FABRIC = re.compile(r"(?P<fabric>/(?:.*/)?Fabrics/[^/?#]+)", re.IGNORECASE)
_SWITCH = re.compile(_FABRIC.pattern + r"/Switches/[^/?#]+", re.IGNORECASE)
_PARTS_OF_A_CPU = ("cpu", "core", "thread")
_IN_CHASSIS = re.compile(r"(?P<chassis>/(?:.*/)?Chassis/[^/?#]+)/MemoryDomains/[^/?#]+", re.I)
_IN_STORAGE = re.compile(
    r"(?P<holder>/(?:.*/)?(?:Storage|StorageServices)/[^/?#]+)/StoragePools/[^/?#]+", re.I
)
SERVICE = f"{ROOT}/CompositionService"
BLOCKS, ZONES = f"{SERVICE}/ResourceBlocks", f"{SERVICE}/ResourceZones"


class DocumentWriter:
    """Documents by URI. A URI is reserved before its document is written."""

    def __init__(self) -> None:
        self.documents: dict[str, Json] = {}
        self._uris: set[str] = set()
        self._folded: set[str] = set()

    def inventory_uri(self, uri: str) -> str:
        """Reserve and return a URI of the inventory, extended if it is already reserved."""
        return self._unique(path_of(uri), self._uris)

    def new_uri(self, uri: str) -> str:
        return self._unique(uri, self._folded)

    def put(self, uri: str, type_: str, name: str | None, body: Json) -> str:
        """Write the document of a reserved URI; the default name is the Id."""
        self.documents[uri] = resource_document(uri, type_, name, **_known(body))
        return uri

    def collection(self, uri: str, type_: str, members: Iterable[str], **body: object) -> str:
        found = collection_document(uri, f"{type_}Collection", f"{type_} Collection", members)
        self.documents[uri] = found | body
        return uri

    def _unique(self, uri: str, reserved: set[str]) -> str:
        number, found = 1, uri
        while (fold_uri(found) if reserved is self._folded else found) in reserved:
            number += 1
            found = f"{uri}-{number}"
        self._uris.add(found)
        self._folded.add(fold_uri(found))
        return found


def _link(uri: str) -> Json:
    return {"@odata.id": uri}


def links_to(uris: Iterable[str]) -> list[Json]:
    return [_link(uri) for uri in uris]


def resource_document(uri: str, type_: str, name: str | None = "", **properties: Any) -> Json:
    last, kind = uri.rpartition("/")[2], f"#{type_}.{type_.partition('.')[0]}"
    return {"@odata.id": uri, "@odata.type": kind, "Id": last, "Name": name or last, **properties}


def collection_document(uri: str, type_: str, name: str, members: Iterable[str] = ()) -> Json:
    head = {"@odata.id": uri, "@odata.type": f"#{type_}.{type_}", "Name": name}
    links = links_to(members)
    return head | {"Members@odata.count": len(links), "Members": links}


def _known(values: Json) -> Json:
    return {key: it for key, it in values.items() if it is not None and it not in ({}, [], ())}


def _oem(**facts: object) -> Json | None:
    """Return an ``Oem`` object with the properties that Redfish lacks, None if empty."""
    found: Json = msgspec.json.decode(msgspec.json.encode(_known(facts)))
    return {OEM: {"@odata.type": f"#{OEM}.v1_0_0.{OEM}"} | found} if found else None


def _write_block(
    writer: DocumentWriter, uri: str, noun: inventory.FullBlock, chassis: str | None
) -> None:
    devices = noun.devices or inventory.NO_DEVICES
    places = noun.places or {}
    ends: Json = {}
    if (fabric := _fabric_of(places)) is not None:
        ends["ConnectedSwitchPorts" if fabric[1] else "Endpoints"] = [_link(_end_of(*fabric))]
    kinds: tuple[tuple[str, str, Iterable[DeviceNoun], Callable[..., Json]], ...] = (
        ("Processors", "Processor.v1_16_0", devices.processors, describe.processor_json),
        ("Processors", "Processor.v1_16_0", devices.accelerators, _accelerator),
        ("Memory", "Memory.v1_15_0", devices.memory, describe.memory_json),
        ("Drives", "Drive.v1_15_0", devices.drives, _drive),
        ("EthernetInterfaces", "EthernetInterface.v1_8_0", devices.nics, describe.nic_json),
    )
    groups: dict[str, list[str]] = {}
    uncounted: list[str] = []
    for name, type_, lines, json_of in kinds:
        each = (line for line in lines for _ in range(min(line.count or 0, MAX_DEVICES)))
        for number, line in enumerate(itertools.islice(each, MAX_DEVICES), 1):
            place = writer.new_uri(f"{uri}/{name}/{type(line).__name__}-{number}")
            status = _known({"State": line.state, "Health": line.health})
            json = json_of(line) | ({"Status": status} if status else {}) | {"Links": ends}
            groups.setdefault(name, []).append(writer.put(place, type_, None, json))
        uncounted += [type_.partition(".")[0] for line in lines if line.count is None]
    linked = {"chassis"} if chassis else set()
    if ends and devices != inventory.NO_DEVICES:
        linked |= {"fabric", "switch"}
    others = {name: value for name, value in places.items() if name not in linked}
    body: Json = {
        "ResourceBlockType": list(noun.type),
        **_status(noun.status or inventory.FREE_STATUS),
        **{name: links_to(uris) for name, uris in groups.items()},
        "Links": {"Chassis": links_to([chassis])} if chassis else None,
        "Oem": _oem(places=others, of_unknown_count=uncounted),
    }
    writer.put(uri, "ResourceBlock.v1_4_0", noun.name, body)


def _chassis_of(noun: inventory.FullBlock) -> str | None:
    uri = (noun.places or {}).get("chassis")
    return uri if uri and path_of(uri) == uri else None


def _fabric_of(places: dict[str, str]) -> tuple[str, str | None] | None:
    switch, fabric = places.get("switch"), places.get("fabric") or ""
    match = _FABRIC.fullmatch(fabric) if switch is None else _SWITCH.fullmatch(switch)
    return (fabric, switch) if match and match["fabric"] == fabric else None


def _end_of(fabric: str, switch: str | None) -> str:
    return f"{switch}/Ports/1" if switch else f"{fabric}/Endpoints/1"


def _status(status: inventory.Status) -> Json:
    state = "Enabled" if status.enabled else status.resource_state or "Disabled"
    composition = {
        "CompositionState": status.state,
        "Reserved": status.reserved,
        "SharingCapable": status.shareable,
        "SharingEnabled": status.shareable or None,
        "MaxCompositions": status.max_compositions,
        "NumberOfCompositions": status.compositions,
    }
    own = {"State": None if status.enabled is None else state, "Health": status.health}
    return {
        "Status": _known(own),
        "CompositionStatus": _known(composition),
        "Pool": "Active" if status.active else None,
        "Client": status.client,
    }


def _accelerator(card: inventory.Accelerator) -> Json:
    sizes = {"TotalMemorySizeMiB": card.memory_mib}
    hidden = card.kind.casefold() in _PARTS_OF_A_CPU  # such a kind would be read as a part of a CPU
    return {
        "ProcessorType": "OEM" if hidden else card.kind,
        "Model": card.model,
        "MemorySummary": None if card.memory_mib is None else sizes,
        "Oem": _oem(kind=card.kind if hidden else None),
    }


def _drive(drive: inventory.Drive) -> Json:
    names = ("capacity_bytes", "media", "protocol", "rpm", "model")
    return {**device_json(DriveDevice, drive, names), "Oem": _oem(remote=drive.remote)}


def _has_documents(stock: inventory.Stock, podm: inventory.FullPodm) -> str | None:
    """Return the kind of documents for a stock: memory in whole MiB, storage in whole bytes."""
    if not stock.pools or not set(stock.pools) <= {pool.id for pool in podm.pools}:
        return None
    sizes = (stock.total or 0.0, stock.used, stock.min, stock.step, stock.max or 0.0)
    if stock.resource in (VOLATILE, PERSISTENT) and stock.unit == "MiB":
        return "memory" if all(float(size).is_integer() for size in sizes) else None
    in_bytes = [size * GIB for size in sizes]
    whole = all(math.isclose(size, round(size), abs_tol=1e-6) for size in in_bytes)
    return "storage" if stock.resource == STORAGE and stock.unit == "GiB" and whole else None


def _own_part(stock: inventory.Stock, zones: Mapping[str, str], **sizes: int | None) -> Json | None:
    some = list(stock.pools) != list(zones)
    return _oem(Zones=links_to(zones[id_] for id_ in stock.pools) if some else None, **sizes)


def _domain_chassis(uri: str) -> str | None:
    found = _IN_CHASSIS.fullmatch(uri)
    return found["chassis"] if found else None


class _RenderUris:
    def __init__(self, writer: DocumentWriter, podm: inventory.FullPodm) -> None:
        def placed(kind: str) -> list[tuple[str, inventory.Stock]]:
            stocks = (stock for stock in podm.stocks if _has_documents(stock, podm) == kind)
            return [(writer.inventory_uri(stock.uri), stock) for stock in stocks]

        writer.inventory_uri(ROOT)
        self.blocks = {block.uri: writer.inventory_uri(block.uri) for block in podm.blocks}
        self.nodes = [writer.inventory_uri(node.uri) for node in podm.nodes]
        self.domains, self.storage = placed("memory"), placed("storage")
        codes = str.maketrans({"/": "%2F", "?": "%3F", "#": "%23"})  # they end a part of a URI
        ids = [pool.id for pool in podm.pools]
        self.zones = [writer.inventory_uri(f"{ZONES}/{id_.translate(codes)}") for id_ in ids]
        self.zone_uris = dict(zip(ids, self.zones, strict=True))
        holders = [_domain_chassis(uri) for uri, _ in self.domains]
        holders += [_chassis_of(block) for block in podm.blocks]
        self.chassis = {uri: writer.inventory_uri(uri) for uri in dict.fromkeys(holders) if uri}


def _write_domain(
    writer: DocumentWriter, uri: str, stock: inventory.Stock, zones: Mapping[str, str]
) -> str:
    def mib(amount: float | None) -> int | None:
        return None if amount is None else int(amount)

    chunks, sets = [], None
    if stock.used:
        kind = "PMEM" if stock.resource == PERSISTENT else "Volatile"
        size: Json = {"MemoryChunkSizeMiB": mib(stock.used), "AddressRangeType": kind}
        place = writer.new_uri(f"{uri}/MemoryChunks/InUse")
        chunks.append(writer.put(place, "MemoryChunks.v1_5_0", None, size))
    collection = writer.new_uri(f"{uri}/MemoryChunks")
    writer.collection(collection, "MemoryChunks", chunks)
    if stock.resource == PERSISTENT:  # without chunks only its modules show that it is persistent
        module: Json = {"MemoryType": "NVDIMM_P", "CapacityMiB": mib(stock.total)}
        place = writer.put(writer.new_uri(f"{uri}/Memory/1"), "Memory.v1_15_0", None, module)
        sets = [{"MemorySet": links_to([place])}]
    body = {
        "Status": _GOOD,
        "AllowsMemoryChunkCreation": True,
        "AllowsBlockProvisioning": False,
        "MemorySizeMiB": mib(stock.total),
        "MinMemoryChunkSizeMiB": mib(stock.min) or None,
        "MemoryChunkIncrementMiB": mib(stock.step) or None,
        "MemoryChunks": _link(collection),
        "InterleavableMemorySets": sets,
        "Oem": _own_part(stock, zones, MaxMemoryChunkSizeMiB=mib(stock.max)),
    }
    return writer.put(uri, "MemoryDomain.v1_4_0", stock.name, body)


def _write_storage(writer: DocumentWriter, places: _RenderUris) -> str | None:
    if not places.storage:
        return None
    collection = writer.new_uri(f"{ROOT}/Storage")
    holders: dict[str, list[str]] = {}
    for uri, stock in places.storage:
        found = _IN_STORAGE.fullmatch(uri)
        holders.setdefault(found["holder"] if found else f"{collection}/Pools", []).append(uri)
        sizes = (stock.total, stock.used, stock.min or None, stock.max, stock.step or None)
        total, used, least, most, step = (None if it is None else round(it * GIB) for it in sizes)
        volumes = writer.collection(writer.new_uri(f"{uri}/AllocatedVolumes"), "Volume", ())
        size = _known({"AllocatedBytes": total, "ConsumedBytes": used})
        bounds = {"MinVolumeSizeBytes": least, "MaxVolumeSizeBytes": most}
        own = _own_part(stock, places.zone_uris, **bounds, VolumeIncrementBytes=step)
        body: Json = {"Status": _GOOD, "Capacity": {"Data": size}}
        body |= {"AllocatedVolumes": _link(volumes), "Oem": own}
        writer.put(uri, "StoragePool.v1_9_0", stock.name, body)
    members = []
    for holder, pools in holders.items():
        place = writer.inventory_uri(holder)
        inside = writer.collection(writer.new_uri(f"{place}/StoragePools"), "StoragePool", pools)
        body = {"Status": _GOOD, "StoragePools": _link(inside)}
        members.append(writer.put(place, "Storage.v1_15_0", None, body))
    return writer.collection(collection, "Storage", members)


def _write_capabilities(
    writer: DocumentWriter, systems: str, podm: inventory.FullPodm, zones: Sequence[str]
) -> Json:
    """Return the composition properties of systems; pools of equal limits share a capability."""
    stated: dict[bytes, tuple[Json, list[str]]] = {}
    for zone, pool in zip(zones, podm.pools, strict=True) if zones else ((None, None),):
        if found := _limits(pool, podm.blocks):
            key = msgspec.json.encode(found, order="sorted")
            stated.setdefault(key, (found, []))[1].extend([zone] if zone else [])
    members = []
    for limits, limited in stated.values():
        body = {
            "@Redfish.ResourceBlockLimits": limits,
            "Name@Redfish.RequiredOnCreate": True,
            "Links@Redfish.RequiredOnCreate": True,
            "Links": {"ResourceBlocks@Redfish.RequiredOnCreate": True},
        }
        uri = writer.new_uri(f"{systems}/Capabilities")
        place = writer.put(uri, "ComputerSystem.v1_19_0", "Capabilities", body)
        ways: Json = {"TargetCollection": _link(systems)}
        ways |= {"RelatedItem": links_to(limited)} if limited else {}
        member = {"CapabilitiesObject": _link(place), "UseCase": "ComputerSystemComposition"}
        members.append({**member, "Links": ways})
    type_ = "#CollectionCapabilities.v1_4_0.CollectionCapabilities"
    capabilities = {"@odata.type": type_, "Capabilities": members}
    return {"@Redfish.CollectionCapabilities": capabilities} if members else {}


def _limits(pool: inventory.Pool | None, blocks: Iterable[inventory.FullBlock]) -> Json:
    """Return limits with all maxima of compute units: for a missing one a driver assumes 1."""
    known = dict(pool.limits) if pool else {}
    here = [block for block in blocks if pool is None or pool.id in block.pools]
    for kind in inventory.SINGLE_PER_NODE:
        count = sum(kind in block.type for block in here)
        limit = known.get(kind, inventory.Limit())
        if limit.max is None and count:
            known[kind] = inventory.Limit(limit.min, max(count, limit.min, 1))
    found: Json = {}
    for kind, limit in known.items():
        found |= _known({f"Min{kind}": limit.min or None, f"Max{kind}": limit.max})
    return found


def _write_chassis(writer: DocumentWriter, places: _RenderUris) -> str | None:
    if not places.chassis and not places.domains:
        return None
    uri = writer.new_uri(f"{ROOT}/Chassis")
    known, members = set(places.chassis.values()), []
    below: dict[str, list[str]] = {place: [] for place in places.chassis.values()}
    for place, stock in places.domains:
        holder = places.chassis.get(_domain_chassis(place) or "", f"{uri}/Memory")
        domain = _write_domain(writer, place, stock, places.zone_uris)
        below.setdefault(holder, []).append(domain)
    for holder, memory in below.items():
        place = holder if holder in known else writer.new_uri(holder)
        body: Json = {"ChassisType": "Other", "Status": _GOOD}
        if memory:
            inside = writer.new_uri(f"{place}/MemoryDomains")
            body["MemoryDomains"] = _link(writer.collection(inside, "MemoryDomain", memory))
        members.append(writer.put(place, "Chassis.v1_20_0", None, body))
    return writer.collection(uri, "Chassis", members)


def _write_fabrics(writer: DocumentWriter, blocks: Iterable[inventory.FullBlock]) -> str | None:
    def stub(uri: str, type_: str, body: Json) -> str:
        if uri not in writer.documents:
            writer.put(writer.inventory_uri(uri), type_, None, body)
        return uri

    found = [_fabric_of(block.places or {}) for block in blocks]
    ends: dict[str, list[str]] = {}
    for fabric, switch in dict.fromkeys(item for item in found if item):
        ends.setdefault(fabric, []).extend([switch] if switch else [])
        if not switch:
            stub(_end_of(fabric, None), "Endpoint.v1_7_0", {})
    for fabric, switches in ends.items():
        body: Json = {"FabricType": "Ethernet"}
        for switch in switches:
            port = stub(_end_of(fabric, switch), "Port.v1_8_0", {})
            ports = writer.collection(writer.new_uri(f"{switch}/Ports"), "Port", [port])
            stub(switch, "Switch.v1_9_0", {"Ports": _link(ports)})
        if switches:
            place = writer.collection(writer.new_uri(f"{fabric}/Switches"), "Switch", switches)
            body["Switches"] = _link(place)
        stub(fabric, "Fabric.v1_3_0", body)
    return writer.collection(writer.new_uri(f"{ROOT}/Fabrics"), "Fabric", ends) if ends else None


def documents_of(podm: inventory.FullPodm) -> dict[str, Json]:
    """Return the documents of a pod manager by URI, the service root first."""
    sheet = DocumentWriter()
    places = _RenderUris(sheet, podm)
    sheet.documents[ROOT] = {}  # first in order, written last
    roots = {
        "CompositionService": _write_service(sheet, podm, places),
        "Systems": _write_systems(sheet, podm, places),
        "Chassis": _write_chassis(sheet, places),
        "Storage": _write_storage(sheet, places),
        "Fabrics": _write_fabrics(sheet, podm.blocks),
    }
    body: Json = {name: _link(uri) for name, uri in roots.items() if uri}
    identity = podm.identity or ""
    uuid = identity.removeprefix(UUID_KIND) if identity.startswith(UUID_KIND) else None
    head = {"Id": "RootService", "RedfishVersion": "1.18.0", "UUID": uuid}
    names = ("id", "status", "enabled", "zone", "aggregates", "capabilities", "traits", "facts")
    stocks = [stock for stock in podm.stocks if _has_documents(stock, podm) is None]
    own = _oem(**{name: getattr(podm, name) for name in names}, stocks=stocks)
    root = {**head, **body, "Links": {}, "Oem": own}
    sheet.put(ROOT, "ServiceRoot.v1_14_0", podm.name or podm.id, root)
    return sheet.documents


def _write_service(writer: DocumentWriter, podm: inventory.FullPodm, places: _RenderUris) -> str:
    uri = writer.new_uri(SERVICE)
    blocks, zones = writer.new_uri(BLOCKS), writer.new_uri(ZONES)
    body: Json = {"ServiceEnabled": True, "Status": _GOOD}
    body |= {"ResourceBlocks": _link(blocks), "ResourceZones": _link(zones)}
    writer.put(uri, "CompositionService.v1_2_0", "Composition Service", body)
    writer.collection(blocks, "ResourceBlock", places.blocks.values())
    writer.collection(zones, "Zone", places.zones)
    for block in podm.blocks:
        chassis = places.chassis.get(_chassis_of(block) or "")
        _write_block(writer, places.blocks[block.uri], block, chassis)
    for place, pool in zip(places.zones, podm.pools, strict=True):
        members = [places.blocks[it.uri] for it in podm.blocks if pool.id in it.pools]
        zone: Json = {"Status": _GOOD, "ZoneType": "ZoneOfResourceBlocks"}
        zone |= {"Links": {"ResourceBlocks": links_to(members)}, "Oem": _oem(traits=pool.traits)}
        writer.put(place, "Zone.v1_6_1", pool.name, zone)
    return uri


def _write_systems(writer: DocumentWriter, podm: inventory.FullPodm, places: _RenderUris) -> str:
    uri = writer.new_uri(f"{ROOT}/Systems")
    extra = _write_capabilities(writer, uri, podm, places.zones)
    writer.collection(uri, "ComputerSystem", places.nodes, **extra)
    for place, node in zip(places.nodes, podm.nodes, strict=True):
        blocks = [places.blocks.get(block, block) for block in node.blocks]
        body: Json = {"SystemType": "Composed", "Links": {"ResourceBlocks": links_to(blocks)}}
        body["Oem"] = _oem(owner=node.owner, group=node.group)
        writer.put(place, "ComputerSystem.v1_19_0", node.name, body)
    return uri
