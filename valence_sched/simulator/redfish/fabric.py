# SPDX-License-Identifier: Apache-2.0
"""Fabrics whose zones attach the devices of blocks to hosts: a zone for each port of a host."""

from collections.abc import Iterable, Sequence

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
        for end in wanted:
            if end not in ends:
                text = f"{fabric} has no endpoint {end}."
                raise RequestRefused(400, "ResourceNotFound", text, "Endpoint", end)
            if end not in present and self._is_used(entity_of(self._documents, end)):
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

    def _is_used(self, entity: str) -> bool:
        zones = (uri for uri in self._documents if "/Zones/" in uri and self.host(uri))
        return any(entity in self._entities(zone) for zone in zones)

    def _pooled(self, block: Json) -> set[str]:
        found = devices_of(self._documents, block)
        return {uri for kind in _POOLED for uri in found[kind]}
