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

from collections.abc import Iterable, Mapping

import msgspec

from valence_sched.drivers.fields import NO_NOTES, Json, Notes
from valence_sched.drivers.identity import root_identity
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.render import blocks as render_blocks
from valence_sched.drivers.redfish.render import parts
from valence_sched.drivers.redfish.render.documents import DocumentWriter, link, links, oem, segment
from valence_sched.model.identity import UUID_KIND
from valence_sched.model.inventory import FullPodm

SERVICE = f"{ROOT}/CompositionService"
BLOCKS, ZONES = f"{SERVICE}/ResourceBlocks", f"{SERVICE}/ResourceZones"
SYSTEMS = f"{ROOT}/Systems"


class _RenderUris:
    """The URIs of the documents of a pod manager, in its order."""

    def __init__(self, writer: DocumentWriter, podm: FullPodm) -> None:
        writer.inventory_uri(ROOT)
        self.blocks = [writer.inventory_uri(block.uri) for block in podm.blocks]
        self.uris = dict(zip((block.uri for block in podm.blocks), self.blocks, strict=True))
        self.nodes = [writer.inventory_uri(node.uri) for node in podm.nodes]
        self.memory = [stock for stock in podm.stocks if parts.is_memory(stock, podm)]
        self.domains = [writer.inventory_uri(stock.uri) for stock in self.memory]
        self.storage = [stock for stock in podm.stocks if parts.is_storage(stock, podm)]
        self.storage_pools = [writer.inventory_uri(stock.uri) for stock in self.storage]
        self.zones = [writer.inventory_uri(f"{ZONES}/{segment(pool.id)}") for pool in podm.pools]
        ids = (pool.id for pool in podm.pools)
        self.zone_uris = dict(zip(ids, self.zones, strict=True))
        self.chassis: dict[str, str] = {}
        holders = [render_blocks.chassis_of(block) for block in podm.blocks]
        for uri in [*map(parts.domain_chassis, self.domains), *holders]:
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
        "Chassis": parts.write_chassis(sheet, places.chassis, domains, places.zone_uris),
        "Storage": parts.write_storage(sheet, storage, places.zone_uris),
        "Fabrics": parts.write_fabrics(sheet, podm.blocks),
    }
    body: Json = {name: link(uri) for name, uri in roots.items() if uri}
    sheet.put(ROOT, "ServiceRoot", podm.name or podm.id, {
        "Id": "RootService", "RedfishVersion": "1.18.0", "UUID": _uuid_of(podm), **body,
        "Links": {}, "Oem": _oem_of(podm, places),
    })  # fmt: skip
    return sheet.documents


def _uuid_of(podm: FullPodm) -> str | None:
    """Return the UUID of the service, None where it is known by its address."""
    identity = podm.identity or ""
    return identity.removeprefix(UUID_KIND) if identity.startswith(UUID_KIND) else None


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
        chassis = places.chassis.get(render_blocks.chassis_of(block) or "")
        render_blocks.write_block(writer, place, block, chassis)
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
    extra = parts.write_capabilities(writer, uri, zones, podm.blocks)
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
