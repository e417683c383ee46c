# SPDX-License-Identifier: Apache-2.0
"""Renders a pod manager of an inventory as the Redfish documents that its driver reads.

Reading the documents with the ``redfish`` driver gives the pod manager back. URIs of blocks,
nodes, stocks and pools stay what they are as far as links can spell them. What Redfish has no
word for stands in ``Oem/ValenceSched`` of the document it belongs to and is not read back:

- of the pod manager: id, url, an identity that is no UUID, driver, status, whether it is enabled,
  zone, aggregates, capabilities, traits, facts, generation and when it was read,
- that there may be more devices, where their number is unknown,
- traits of pools; owner and group of nodes; places of a block that are no chassis and no URI of
  a fabric or switch,
- stocks that are neither memory in whole MiB nor storage in whole bytes. Which zones reach a
  stock, and its largest grant, stands there too, and is read back.

What is read back otherwise: a missing name becomes the Id; whether a drive is remote
follows from its protocol; a block that nodes link is composed at least as often as they do; a
pool that states no largest number of Compute or ComputerSystem blocks gets one that does not
bind, because a driver would assume 1; a memory module of 0 MiB is none. ``round_trip_losses``
lists the differences of one pod manager.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from valence_sched.drivers.fields import NO_NOTES, Json, Notes
from valence_sched.drivers.identity import root_identity
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.render_documents import (
    DocumentWriter,
    chassis_of,
    end_of,
    fabric_of,
    link,
    links,
    oem,
    segment,
    write_block,
)
from valence_sched.drivers.redfish.stocks import GIB, PERSISTENT, STORAGE, VOLATILE
from valence_sched.model.inventory import SINGLE_PER_NODE, FullBlock, FullPodm, Limit, Pool, Stock
from valence_sched.model.podm_address import UUID_KIND

_IN_CHASSIS = re.compile(r"(?P<chassis>/(?:.*/)?Chassis/[^/?#]+)/MemoryDomains/[^/?#]+", re.I)

_IN_STORAGE = re.compile(
    r"(?P<holder>/(?:.*/)?(?:Storage|StorageServices)/[^/?#]+)/StoragePools/[^/?#]+", re.I
)
STORAGES = f"{ROOT}/Storage"


def is_memory(stock: Stock, podm: FullPodm) -> bool:
    """Return whether a memory domain can say what a stock is: Redfish has no parts of a MiB."""
    amounts = (stock.total or 0.0, stock.used, stock.min, stock.step, stock.max or 0.0)
    whole = all(amount.is_integer() for amount in map(float, amounts))
    kinds = (VOLATILE, PERSISTENT)
    return stock.resource in kinds and stock.unit == "MiB" and whole and _has_pools(stock, podm)


def is_storage(stock: Stock, podm: FullPodm) -> bool:
    """Return whether a storage pool can say what the inventory says of a stock: whole bytes."""
    amounts = (stock.total or 0.0, stock.used, stock.min, stock.step, stock.max or 0.0)
    whole = all(math.isclose(amount * GIB, round(amount * GIB), abs_tol=1e-6) for amount in amounts)
    return stock.resource == STORAGE and stock.unit == "GiB" and whole and _has_pools(stock, podm)


def _has_pools(stock: Stock, podm: FullPodm) -> bool:
    return set(stock.pools) <= {pool.id for pool in podm.pools} and bool(stock.pools)


def _own_part(stock: Stock, zones: Mapping[str, str], **sizes: int | None) -> Json | None:
    """Return what Redfish has no word for: the zones that reach a stock, and sizes of a grant."""
    some = list(stock.pools) != list(zones)
    return oem(Zones=links(zones[id_] for id_ in stock.pools) if some else None, **sizes)


def domain_chassis(uri: str) -> str | None:
    """Return the chassis that the URI of a memory domain is below, None without one."""
    found = _IN_CHASSIS.fullmatch(uri)
    return found["chassis"] if found else None


def write_domain(writer: DocumentWriter, uri: str, stock: Stock, zones: Mapping[str, str]) -> str:
    """Write a memory domain and its chunk; return its URI."""
    chunks = []
    if stock.used:
        kind = "PMEM" if stock.resource == PERSISTENT else "Volatile"
        size = {"MemoryChunkSizeMiB": _mib(stock.used), "AddressRangeType": kind}
        place = writer.new_uri(f"{uri}/MemoryChunks/InUse")
        chunks.append(writer.put(place, "MemoryChunks", None, size))
    held = writer.new_uri(f"{uri}/MemoryChunks")
    body = {
        "Status": {"State": "Enabled", "Health": "OK"},
        "AllowsMemoryChunkCreation": True,
        "AllowsBlockProvisioning": False,
        "MemorySizeMiB": _mib(stock.total),
        "MinMemoryChunkSizeMiB": _mib(stock.min) or None,
        "MemoryChunkIncrementMiB": _mib(stock.step) or None,
        "MemoryChunks": link(writer.collection(held, "MemoryChunks", chunks)),
        "InterleavableMemorySets": _sets(writer, uri, stock),
        "Oem": _own_part(stock, zones, MaxMemoryChunkSizeMiB=_mib(stock.max)),
    }
    return writer.put(uri, "MemoryDomain", stock.name, body)


def write_storage(
    writer: DocumentWriter, stocks: Sequence[tuple[str, Stock]], zones: Mapping[str, str]
) -> str | None:
    """Write storage systems with their pools; return their collection, None without any pool."""
    if not stocks:
        return None
    collection = writer.new_uri(STORAGES)
    holders: dict[str, list[str]] = {}
    for uri, stock in stocks:
        found = _IN_STORAGE.fullmatch(uri)
        holders.setdefault(found["holder"] if found else f"{collection}/Pools", []).append(uri)
        _write_pool(writer, uri, stock, zones)
    members = []
    for holder, pools in holders.items():
        place = writer.inventory_uri(holder)
        inside = writer.collection(writer.new_uri(f"{place}/StoragePools"), "StoragePool", pools)
        body: Json = {"Status": {"State": "Enabled", "Health": "OK"}, "StoragePools": link(inside)}
        members.append(writer.put(place, "Storage", None, body))
    return writer.collection(collection, "Storage", members)


def _write_pool(writer: DocumentWriter, uri: str, stock: Stock, zones: Mapping[str, str]) -> None:
    volumes = writer.new_uri(f"{uri}/AllocatedVolumes")
    data = {"AllocatedBytes": _bytes(stock.total), "ConsumedBytes": _bytes(stock.used)}
    writer.put(uri, "StoragePool", stock.name, {
        "Status": {"State": "Enabled", "Health": "OK"},
        "Capacity": {"Data": {key: size for key, size in data.items() if size is not None}},
        "AllocatedVolumes": link(writer.collection(volumes, "Volume", ())),
        "Oem": _own_part(stock, zones, MinVolumeSizeBytes=_bytes(stock.min) or None,
                         MaxVolumeSizeBytes=_bytes(stock.max),
                         VolumeIncrementBytes=_bytes(stock.step) or None),
    })  # fmt: skip


def _bytes(amount_gib: float | None) -> int | None:
    return None if amount_gib is None else round(amount_gib * GIB)


def _sets(writer: DocumentWriter, uri: str, stock: Stock) -> list[Json] | None:
    """Return the modules of a persistent domain: without chunks only they show that it is."""
    if stock.resource != PERSISTENT:
        return None
    module = {"MemoryType": "NVDIMM_P", "CapacityMiB": _mib(stock.total)}
    place = writer.put(writer.new_uri(f"{uri}/Memory/1"), "Memory", None, module)
    return [{"MemorySet": links([place])}]


def _mib(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def write_capabilities(
    writer: DocumentWriter,
    systems: str,
    zones: Sequence[tuple[str, Pool]],
    blocks: Sequence[FullBlock],
) -> Json:
    """Return the composition properties of systems; pools of equal limits share a capability."""
    stated: dict[bytes, tuple[Json, list[str]]] = {}
    for zone, pool in zones or ((None, None),):
        if found := _limits(pool, blocks):
            key = msgspec.json.encode(found, order="sorted")
            stated.setdefault(key, (found, []))[1].extend([zone] if zone else [])
    if not stated:
        return {}
    members = [_capability(writer, systems, *of) for of in stated.values()]
    type_ = "#CollectionCapabilities.v1_4_0.CollectionCapabilities"
    return {"@Redfish.CollectionCapabilities": {"@odata.type": type_, "Capabilities": members}}


def _limits(pool: Pool | None, blocks: Iterable[FullBlock]) -> Json:
    """No maximum would be read as one of a compute unit, so all there are is stated instead."""
    found: Json = {}
    known = dict(pool.limits) if pool else {}
    here = [block for block in blocks if pool is None or pool.id in block.pools]
    for kind in SINGLE_PER_NODE:
        count = sum(kind in block.type for block in here)
        limit = known.get(kind, Limit())
        if limit.max is None and count:
            known[kind] = Limit(limit.min, max(count, limit.min, 1))
    for kind, limit in known.items():
        if limit.min:
            found[f"Min{kind}"] = limit.min
        if limit.max is not None:
            found[f"Max{kind}"] = limit.max
    return found


def _capability(writer: DocumentWriter, systems: str, limits: Json, zones: list[str]) -> Json:
    body = {
        "@Redfish.ResourceBlockLimits": limits,
        "Name@Redfish.RequiredOnCreate": True,
        "Links@Redfish.RequiredOnCreate": True,
        "Links": {"ResourceBlocks@Redfish.RequiredOnCreate": True},
    }
    uri = writer.new_uri(f"{systems}/Capabilities")
    place = writer.put(uri, "ComputerSystem", "Capabilities", body)
    related = {"RelatedItem": links(zones)} if zones else {}
    return {
        "CapabilitiesObject": link(place),
        "UseCase": "ComputerSystemComposition",
        "Links": {"TargetCollection": link(systems), **related},
    }


CHASSIS, FABRICS = f"{ROOT}/Chassis", f"{ROOT}/Fabrics"


def write_chassis(
    writer: DocumentWriter,
    chassis_uris: Mapping[str, str],
    domains: Sequence[tuple[str, Stock]],
    zones: Mapping[str, str],
) -> str | None:
    """Write chassis and the memory that they hold; return their collection, None without any."""
    if not chassis_uris and not domains:
        return None
    uri = writer.new_uri(CHASSIS)
    below: dict[str, list[str]] = {place: [] for place in chassis_uris.values()}
    for place, stock in domains:
        holder = chassis_uris.get(domain_chassis(place) or "", f"{uri}/Memory")
        below.setdefault(holder, []).append(write_domain(writer, place, stock, zones))
    members = []
    known = set(chassis_uris.values())
    for holder, memory in below.items():
        place = holder if holder in known else writer.new_uri(holder)
        body: Json = {"ChassisType": "Other", "Status": {"State": "Enabled", "Health": "OK"}}
        if memory:
            inside = writer.new_uri(f"{place}/MemoryDomains")
            body["MemoryDomains"] = link(writer.collection(inside, "MemoryDomain", memory))
        members.append(writer.put(place, "Chassis", None, body))
    return writer.collection(uri, "Chassis", members)


def write_fabrics(writer: DocumentWriter, blocks: Iterable[FullBlock]) -> str | None:
    """Write the fabrics, switches, ports and endpoints at which devices say they sit."""
    found = [fabric_of(block.places or {}) for block in blocks]
    ends: dict[str, dict[str, None]] = {}
    for fabric, switch in dict.fromkeys(item for item in found if item):
        ends.setdefault(fabric, {})
        if switch:
            ends[fabric][switch] = None
        else:
            _stub(writer, end_of(fabric, None), "Endpoint", {})
    for fabric, switches in ends.items():
        body: Json = {"FabricType": "Ethernet"}
        for switch in switches:
            port = _stub(writer, end_of(fabric, switch), "Port", {})
            ports = writer.collection(writer.new_uri(f"{switch}/Ports"), "Port", [port])
            _stub(writer, switch, "Switch", {"Ports": link(ports)})
        if switches:
            place = writer.collection(writer.new_uri(f"{fabric}/Switches"), "Switch", switches)
            body["Switches"] = link(place)
        _stub(writer, fabric, "Fabric", body)
    return writer.collection(writer.new_uri(FABRICS), "Fabric", ends) if ends else None


def _stub(writer: DocumentWriter, uri: str, type_: str, body: Json) -> str:
    """Write a document at a URI that links name, unless something else stands there."""
    if uri not in writer.documents:
        writer.put(writer.inventory_uri(uri), type_, None, body)
    return uri


SERVICE = f"{ROOT}/CompositionService"
BLOCKS, ZONES = f"{SERVICE}/ResourceBlocks", f"{SERVICE}/ResourceZones"
SYSTEMS = f"{ROOT}/Systems"


class _RenderUris:
    def __init__(self, writer: DocumentWriter, podm: FullPodm) -> None:
        writer.inventory_uri(ROOT)
        self.blocks = [writer.inventory_uri(block.uri) for block in podm.blocks]
        self.uris = dict(zip((block.uri for block in podm.blocks), self.blocks, strict=True))
        self.nodes = [writer.inventory_uri(node.uri) for node in podm.nodes]
        self.memory = [stock for stock in podm.stocks if is_memory(stock, podm)]
        self.domains = [writer.inventory_uri(stock.uri) for stock in self.memory]
        self.storage = [stock for stock in podm.stocks if is_storage(stock, podm)]
        self.storage_pools = [writer.inventory_uri(stock.uri) for stock in self.storage]
        self.zones = [writer.inventory_uri(f"{ZONES}/{segment(pool.id)}") for pool in podm.pools]
        ids = (pool.id for pool in podm.pools)
        self.zone_uris = dict(zip(ids, self.zones, strict=True))
        self.chassis: dict[str, str] = {}
        holders = [chassis_of(block) for block in podm.blocks]
        for uri in [*map(domain_chassis, self.domains), *holders]:
            if uri and uri not in self.chassis:
                self.chassis[uri] = writer.inventory_uri(uri)


def documents_of(podm: FullPodm) -> dict[str, Json]:
    """Return the documents of a pod manager by URI, the service root first."""
    sheet = DocumentWriter()
    places = _RenderUris(sheet, podm)
    domains = list(zip(places.domains, places.memory, strict=True))
    storage = list(zip(places.storage_pools, places.storage, strict=True))
    sheet.documents[ROOT] = {}  # it stands first, and is written when all is known
    roots = {
        "CompositionService": _service(sheet, podm, places),
        "Systems": _systems(sheet, podm, places),
        "Chassis": write_chassis(sheet, places.chassis, domains, places.zone_uris),
        "Storage": write_storage(sheet, storage, places.zone_uris),
        "Fabrics": write_fabrics(sheet, podm.blocks),
    }
    body: Json = {name: link(uri) for name, uri in roots.items() if uri}
    identity = podm.identity or ""
    uuid = identity.removeprefix(UUID_KIND) if identity.startswith(UUID_KIND) else None
    sheet.put(ROOT, "ServiceRoot", podm.name or podm.id, {
        "Id": "RootService", "RedfishVersion": "1.18.0", "UUID": uuid, **body,
        "Links": {}, "Oem": _oem_of(podm, places),
    })  # fmt: skip
    return sheet.documents


def round_trip_losses(podm: FullPodm) -> list[str]:
    """Return what reading the documents does not give back: one line ``FIELD: was, is`` each."""
    documents = documents_of(podm)
    again = msgspec.structs.replace(
        read_back(documents, podm.id), identity=root_identity(documents[ROOT])
    )
    pairs = [(name, getattr(podm, name), getattr(again, name)) for name in podm.__struct_fields__]
    return [line for pair in pairs if pair[1] != pair[2] for line in _loss_lines(*pair)]


def read_back(documents: Mapping[str, Json], id_: str, notes: Notes = NO_NOTES) -> FullPodm:
    """Return the pod manager that documents show to the ``redfish`` driver."""
    return read_podm(LinkedDocuments(documents.get, notes, documents), id_, "redfish")


def _loss_lines(name: str, was: object, is_: object) -> Iterable[str]:
    if isinstance(was, tuple) and isinstance(is_, tuple) and name in _KEYS:
        key = _KEYS[name]
        now = {getattr(item, key): item for item in is_}
        for item in was:
            other = now.get(getattr(item, key))
            if item != other:
                now_json = "none" if other is None else msgspec.json.encode(other).decode()
                yield f"{name}: {msgspec.json.encode(item).decode()}, {now_json}"
    else:
        now_json = msgspec.json.encode(is_).decode()
        yield f"{name}: {msgspec.json.encode(was).decode()}, {now_json}"


_KEYS = {"pools": "id", "blocks": "uri", "stocks": "uri", "nodes": "uri"}


def _service(writer: DocumentWriter, podm: FullPodm, places: _RenderUris) -> str:
    uri = writer.new_uri(SERVICE)
    blocks, zones = writer.new_uri(BLOCKS), writer.new_uri(ZONES)
    body: Json = {"ServiceEnabled": True, "Status": {"State": "Enabled", "Health": "OK"}}
    body |= {"ResourceBlocks": link(blocks), "ResourceZones": link(zones)}
    writer.put(uri, "CompositionService", "Composition Service", body)
    writer.collection(blocks, "ResourceBlock", places.blocks)
    writer.collection(zones, "Zone", places.zones)
    for place, block in zip(places.blocks, podm.blocks, strict=True):
        chassis = places.chassis.get(chassis_of(block) or "")
        write_block(writer, place, block, chassis)
    for place, pool in zip(places.zones, podm.pools, strict=True):
        blocks_here = zip(places.blocks, podm.blocks, strict=True)
        members = [uri for uri, block in blocks_here if pool.id in block.pools]
        writer.put(place, "Zone", pool.name, {
            "Status": {"State": "Enabled", "Health": "OK"}, "ZoneType": "ZoneOfResourceBlocks",
            "Links": {"ResourceBlocks": links(members)}, "Oem": oem(traits=pool.traits),
        })  # fmt: skip
    return uri


def _systems(writer: DocumentWriter, podm: FullPodm, places: _RenderUris) -> str:
    uri = writer.new_uri(SYSTEMS)
    zones = list(zip(places.zones, podm.pools, strict=True))
    extra = write_capabilities(writer, uri, zones, podm.blocks)
    writer.collection(uri, "ComputerSystem", places.nodes, **extra)
    for place, node in zip(places.nodes, podm.nodes, strict=True):
        blocks = [places.uris.get(block, block) for block in node.blocks]
        writer.put(place, "ComputerSystem", node.name, {
            "SystemType": "Composed", "Links": {"ResourceBlocks": links(blocks)},
            "Oem": oem(owner=node.owner, group=node.group),
        })  # fmt: skip
    return uri


def _oem_of(podm: FullPodm, places: _RenderUris) -> Json | None:
    written = {stock.uri for stock in (*places.memory, *places.storage)}
    stocks = [stock for stock in podm.stocks if stock.uri not in written]
    return oem(
        id=podm.id,
        status=podm.status,
        enabled=podm.enabled,
        zone=podm.zone,
        aggregates=podm.aggregates,
        capabilities=podm.capabilities,
        traits=podm.traits,
        facts=podm.facts,
        stocks=stocks,
    )
