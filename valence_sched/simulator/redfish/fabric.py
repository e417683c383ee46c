# SPDX-License-Identifier: Apache-2.0
"""Fabrics of a simulated pod manager: zones of ports, and connections of chunks and volumes.

A zone for each port of a host attaches the devices of blocks to it. A connection gives a memory
chunk or a volume to a system.
"""

from collections.abc import Iterable, Iterator, Sequence

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish.composition import Composition, blocks
from valence_sched.simulator.redfish.system import devices_of
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, Json, RequestRefused

ZONE_VERBS = ("AddEndpoint", "RemoveEndpoint")
_POOLED = ("Drives", "Processors")


def add_fabrics(documents: DocumentTree) -> None:
    """Add a fabric for each resource zone, in which each host has a zone with its own endpoint."""
    fabrics = f"{ROOT}/Fabrics"
    if fabrics not in documents:
        documents.put_collection(fabrics, "FabricCollection", "Fabrics")
    documents.update(ROOT, Fabrics={"@odata.id": fabrics})
    systems = docs.uri_at(documents.get(ROOT), "Systems")
    tails = {uri.rpartition("/")[2]: uri for uri in documents.member_uris(systems)}
    for zone in tuple(uri for uri in documents if "/ResourceZones/" in uri):
        fabric, inside = f"{fabrics}/{zone.rpartition('/')[2]}", set[str]()
        parts = {name: f"{fabric}/{name}" for name in ("Endpoints", "Zones")}
        linked: Json = {name: {"@odata.id": uri} for name, uri in parts.items()}
        documents.put_resource(fabric, "Fabric.v1_3_2", FabricType="PCIe", **linked)
        documents.list_member(fabrics, fabric)
        for name, uri in parts.items():
            documents.put_collection(uri, f"{name[:-1]}Collection", name)
        for uri in docs.uris_at(documents.get(zone), "Links", "ResourceBlocks"):
            tail = uri.rpartition("/")[2]
            if host := tails.get(tail) or tails.get(f"Host-{tail}"):
                _add_host(documents, fabric, host)
            elif json := documents.get(uri):
                pooled = ((kind, devices_of(documents, json)[kind]) for kind in _POOLED)
                devices = [(kind, device) for kind, found in pooled for device in found]
                for number, (kind, device) in enumerate(devices, 1):
                    end = f"{fabric}/Endpoints/{tail}" + (f"-{number}" if number > 1 else "")
                    put_endpoint(documents, end, kind.removesuffix("s"), device)
                    inside.add(end)


def _add_host(documents: DocumentTree, fabric: str, host: str) -> None:
    tail = host.rpartition("/")[2]
    end, zone = f"{fabric}/Endpoints/{tail}", f"{fabric}/Zones/{tail}"
    put_endpoint(documents, end, "RootComplex", host)
    targets = {verb: f"{zone}/Actions/Zone.{verb}" for verb in ZONE_VERBS}
    own: Json = {"ZoneType": "ZoneOfEndpoints", "Status": docs.OK}
    own["Links"] = {"Endpoints": docs.links_to([end])}
    own["Actions"] = {f"#Zone.{verb}": {"target": target} for verb, target in targets.items()}
    documents.put_resource(zone, "Zone.v1_6_3", f"Port of {tail}", **own)
    documents.list_member(f"{fabric}/Zones", zone)


def put_endpoint(documents: DocumentTree, end: str, kind: str, entity: str) -> None:
    """Put an endpoint of an entity, a host if its kind is ``RootComplex``, and link it there."""
    role = "Initiator" if kind == "RootComplex" else "Target"
    connected = {"EntityType": kind, "EntityRole": role, "EntityLink": {"@odata.id": entity}}
    own: Json = {"EndpointProtocol": "PCIe", "ConnectedEntities": [connected], "Status": docs.OK}
    documents.put_resource(end, "Endpoint.v1_8_1", **own)
    documents.list_member(end.rpartition("/")[0], end)
    links = docs.object_of(documents.get(entity), "Links")
    others = [it for it in docs.array_of(links, "Endpoints") if docs.uri_of(it) in documents]
    documents.update(entity, Links={**links, "Endpoints": [*others, *docs.links_to([end])]})


def entity_of(documents: DocumentTree, end: str) -> str:
    entities = docs.array_of(documents.get(end), "ConnectedEntities")
    return docs.uri_at(entities[0], "EntityLink") if entities else ""


class FabricZones:
    """The zones of one pod manager."""

    def __init__(self, composition: Composition) -> None:
        self._composition, self._documents = composition, composition.documents

    def host(self, zone: str) -> str:
        """Return the host whose endpoint is the first in a zone, "" for another document."""
        json = self._documents.get(zone)
        ends = docs.uris_at(json, "Links", "Endpoints")
        is_zone = docs.value_at(json, "ZoneType") == "ZoneOfEndpoints"
        return entity_of(self._documents, ends[0]) if is_zone and ends else ""

    def check(self, zone: str, wanted: Sequence[str]) -> None:
        """Refuse endpoints that a zone cannot have; its host, which is the first, must stay."""
        present = docs.uris_at(self._documents.get(zone), "Links", "Endpoints")
        fabric = zone.rpartition("/Zones/")[0]
        ends = self._documents.member_uris(f"{fabric}/Endpoints")
        if present[0] not in wanted:
            text = f"{zone} cannot be without {present[0]}."
            raise RequestRefused(400, "PropertyValueConflict", text, "Endpoints", zone)
        zones = [uri for uri in self._documents if "/Zones/" in uri and self.host(uri)]
        used = {entity for uri in zones for entity in self._entities(uri)}
        for end in wanted:
            if end not in ends:
                text = f"{fabric} has no endpoint {end}."
                raise RequestRefused(400, "ResourceNotFound", text, "Endpoint", end)
            if end not in present and entity_of(self._documents, end) in used:
                raise RequestRefused(409, "ResourceInUse", f"{end} is in another zone.", end)

    def change(self, zone: str, wanted: Iterable[str]) -> None:
        """Replace the endpoints of a zone, and the blocks of a host that lists blocks."""
        links = docs.object_of(self._documents.get(zone), "Links")
        self._documents.update(zone, Links={**links, "Endpoints": docs.links_to(wanted)})
        host = self.host(zone)
        if own := docs.uris_at(self._documents.get(host), "Links", "ResourceBlocks")[:1]:
            near = {entity for it in self.zones_of(host) for entity in self._entities(it)}
            found = (uri for uri, json in blocks(self._documents) if self._pooled(json) <= near)
            attached = [uri for uri in found if self._pooled(self._documents.get(uri) or {})]
            self._composition.change_host(host, [*own, *attached])

    def move(self, zone: str, end: str) -> None:
        """Let the device of an endpoint in a zone show at another endpoint of the fabric."""
        entity, other = entity_of(self._documents, end), f"{end}-other-slot"
        kind = docs.array_of(self._documents.get(end), "ConnectedEntities")[0]["EntityType"]
        self._documents.remove_member(end.rpartition("/")[0], end)
        put_endpoint(self._documents, other, kind, entity)
        ends = docs.uris_at(self._documents.get(zone), "Links", "Endpoints")
        self.change(zone, [other if it == end else it for it in ends])

    def zones_of(self, host: str) -> list[str]:
        zones = (uri for uri in self._documents if "/Zones/" in uri)
        return [uri for uri in zones if self.host(uri) == host]

    def others_with_devices(self, zone: str) -> list[str]:
        """Return the zones of other hosts that connect a device."""
        host, zones = self.host(zone), (uri for uri in self._documents if "/Zones/" in uri)
        return [uri for uri in zones if self.host(uri) not in ("", host) and self._entities(uri)]

    def _entities(self, zone: str) -> list[str]:
        ends = docs.uris_at(self._documents.get(zone), "Links", "Endpoints")[1:]
        return [entity_of(self._documents, end) for end in ends]

    def _pooled(self, block: Json) -> set[str]:
        found = devices_of(self._documents, block)
        return {uri for kind in _POOLED for uri in found[kind]}


CONNECTION_TYPE = "#Connection."
#: The information and the link of each type of connection.
_INFO = {"Memory": ("MemoryChunkInfo", "MemoryChunk"), "Storage": ("VolumeInfo", "Volume")}
_ENDS = ("InitiatorEndpoints", "TargetEndpoints")


def add_amount_fabric(documents: DocumentTree) -> None:
    """Add a fabric with a target endpoint for each stock, and initiators for compute blocks."""
    fabrics = docs.uri_at(documents.get(ROOT), "Fabrics") or f"{ROOT}/Fabrics"
    if fabrics not in documents:
        documents.put_collection(fabrics, "FabricCollection", "Fabrics")
        documents.update(ROOT, Fabrics={"@odata.id": fabrics})
    fabric = f"{fabrics}/Amounts"
    offers = ("MemoryChunks", "AllocatedVolumes")
    stocks = (uri for uri in documents if any(it in (documents.get(uri) or {}) for it in offers))
    ends = []
    for role, entities in (("Initiator", _hosts(documents)), ("Target", stocks)):
        for number, entity in enumerate(entities, 1):
            connected = [{"EntityRole": role, "EntityLink": {"@odata.id": entity}}]
            ends.append(f"{fabric}/Endpoints/{role}-{number}")
            documents.put_resource(ends[-1], "Endpoint.v1_7_0", ConnectedEntities=connected)
    documents.put_collection(f"{fabric}/Endpoints", "EndpointCollection", "Endpoints", ends)
    documents.put_collection(f"{fabric}/Connections", "ConnectionCollection", "Connections")
    links = {name: {"@odata.id": f"{fabric}/{name}"} for name in ("Endpoints", "Connections")}
    documents.put_resource(fabric, "Fabric.v1_3_0", "Fabric", FabricType="CXL", **links)
    documents.list_member(fabrics, fabric)


def create_connection(
    documents: DocumentTree, collection: str, body: Json, name: str | None
) -> str | None:
    """Connect an amount; return the URI, None if the collection is not for connections."""
    fabric = collection.rpartition("/")[0]
    if docs.uri_at(documents.get(fabric), "Connections") != collection:
        return None
    kind = body.get("ConnectionType")
    if kind not in _INFO:
        text = f"ConnectionType is {kind!r}, expected Memory or Storage."
        raise RequestRefused(400, docs.MISSING, text, "ConnectionType")
    amounts = list(_amounts(body))
    if not amounts or not all(uri in documents for uri in amounts):
        text = f"{_INFO[kind][0]} does not link an existing amount."
        raise RequestRefused(400, "PropertyValueError", text, _INFO[kind][0])
    inside = documents.member_uris(docs.uri_at(documents.get(fabric), "Endpoints"))
    for end in _ENDS:
        linked = docs.uris_at(body, "Links", end)
        if not linked or not set(linked) <= set(inside):
            text = f"Links.{end} is not an array of endpoints of {fabric}."
            raise RequestRefused(400, "PropertyValueError", text, end)
    for uri in amounts:
        refuse_connected(documents, uri)
    id_ = documents.free_id(collection)
    place, info = f"{collection}/{id_}", _INFO[kind][0]
    own = {key: body[key] for key in ("ConnectionType", info, "Links")}
    type_ = "Connection.v1_1_0"
    json = docs.resource_document(place, type_, name or f"Connection {id_}", Status=docs.OK, **own)
    documents.add_member(collection, json)
    return place


def refuse_connected(documents: DocumentTree, amount: str) -> None:
    """Raise RequestRefused for a memory chunk or volume that is connected."""
    for uri in documents:
        json = documents.get(uri) or {}
        if not str(json.get("@odata.type")).startswith(CONNECTION_TYPE):
            continue
        if amount in _amounts(json) and uri in documents.member_uris(uri.rpartition("/")[0]):
            text = f"{amount} is connected by {uri}."
            raise RequestRefused(409, "ResourceInUse", text)


def _amounts(body: Json) -> Iterator[str]:
    for info, link in _INFO.values():
        for one in docs.array_of(body, info):
            yield docs.uri_at(one, link)


def _hosts(documents: DocumentTree) -> Iterator[str]:
    """Yield a processor of each compute block, and each system that has no blocks."""
    for _, json in blocks(documents):
        if "Compute" in docs.array_of(json, "ResourceBlockType"):
            yield from docs.uris_at(json, "Processors")[:1]
    for uri in documents.member_uris(docs.uri_at(documents.get(ROOT), "Systems")):
        if not docs.uris_at(documents.get(uri), "Links", "ResourceBlocks"):
            yield uri
