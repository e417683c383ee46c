# SPDX-License-Identifier: Apache-2.0
"""Reads the racks of Intel Rack Scale Design 2.1 to 2.5 as inventory nouns.

A node is one system, with drives and FPGAs of fabrics and volumes of storage services. There is
no document that says what is free: a device is free if no node and no zone links it and no other
property contradicts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from valence_sched.drivers.fields import Resource
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import device_owners
from valence_sched.drivers.redfish.describe import Describer, topology_of
from valence_sched.drivers.redfish.device_schema import Device, DriveDevice, ProcessorDevice
from valence_sched.drivers.rsd import fabrics as rsd_fabrics
from valence_sched.drivers.rsd import stocks
from valence_sched.drivers.rsd.fabrics import FabricOffer, FabricReach
from valence_sched.drivers.rsd.schema import Fabric, RackNode, RackRoot, RackSystem, StorageService
from valence_sched.drivers.rsd.status import RackUsage
from valence_sched.model.inventory import (
    WHOLE_POOL,
    BlockType,
    Devices,
    FullBlock,
    FullPodm,
    Limit,
    Node,
    Pool,
    Status,
)

R = TypeVar("R", bound=Resource)

#: The pool of systems that no PCIe fabric reaches, where others are reached by one.
UNSWITCHED = "unswitched"

#: One node is one system.
LIMITS: dict[BlockType, Limit] = {"ComputerSystem": Limit(1, 1)}


class RsdResources(NamedTuple):
    """The resources of a rack, each once."""

    root: RackRoot
    systems: list[RackSystem]
    nodes: list[RackNode]
    storages: list[StorageService]
    offers: list[FabricOffer]
    reach: dict[str, FabricReach]


def read_podm(service: LinkedDocuments, id_: str, driver: str) -> FullPodm:
    """Read a pod manager; documents that are missing or wrong are noted and left out."""
    found = find_resources(service)
    names = _pool_ids(found)
    ids = tuple(dict.fromkeys(names.values())) or (WHOLE_POOL,)
    pooled = {offer.device.uri for offer in found.offers}
    uses = RackUsage(service, found.nodes, found.storages, found.systems, pooled)
    amounts = stocks.stocks(service, found.storages, ids)
    if not found.systems:
        service.notes.remark(f"{found.root.uri}: found no system to make a node of")
    return FullPodm(
        id=id_,
        name=found.root.name,
        driver=driver,
        pools=tuple(Pool(id=id_, limits=LIMITS) for id_ in ids),
        blocks=tuple(_blocks(service, found, uses, names, ids)),
        stocks=amounts,
        nodes=tuple(
            Node(uri=it.uri, name=it.name, blocks=uses.blocks_of(it)) for it in found.nodes
        ),
    )


def find_resources(service: LinkedDocuments) -> RsdResources:
    """Return the resources of a rack, and the fabrics that each system reaches."""
    root = RackRoot(ROOT, service.json(ROOT, "the protocol") or {}, service.notes)
    if not (root.rack_nodes or root.nodes):  # what a node has cannot be told from what is free
        return RsdResources(root, [], [], [], [], {})
    fabrics = list(service.follow(root.fabrics, Fabric, root.uri))
    systems = list(service.follow(root.systems, RackSystem, root.uri))
    offered = rsd_fabrics.fabric_offers(service, fabrics)
    return RsdResources(
        root,
        systems,
        _each(service, root, RackNode, root.nodes, root.rack_nodes),
        _each(service, root, StorageService, root.storage, root.services, root.rack_services),
        offered,
        rsd_fabrics.reachable_fabrics(service, fabrics, systems, offered),
    )


def _each(
    service: LinkedDocuments, root: RackRoot, type_: type[R], *links: tuple[str, ...]
) -> list[R]:
    found: dict[str, R] = {}
    for some in links:
        for one in service.follow(some, type_, root.uri):
            found.setdefault(one.uri, one)
    return list(found.values())


def _pool_ids(found: RsdResources) -> dict[frozenset[str], str]:
    """Return the pools: what systems reach, with the id of the pool of those that reach it.

    Systems that reach the same are a pool: only what all of them reach makes a node with any.
    """
    every = [reach.fabrics for reach in found.reach.values()]
    if not any(every):
        return {frozenset(): WHOLE_POOL} if found.systems else {}
    lasts = {uri: uri.rpartition("/")[2] for reached in every for uri in reached}
    counts = Counter(lasts.values())
    ids = {uri: last if counts[last] == 1 else uri for uri, last in lasts.items()}
    return {
        reached: "+".join(ids[uri] for uri in sorted(reached)) or UNSWITCHED
        for reached in dict.fromkeys(every)
    }


def _blocks(
    service: LinkedDocuments,
    found: RsdResources,
    uses: RackUsage,
    names: dict[frozenset[str], str],
    ids: tuple[str, ...],
) -> Iterator[FullBlock]:
    reached, trusted = device_owners.devices_of_systems(service, found.systems)
    attached = {uri for held in reached.values() for uri in held}
    attached |= stocks.drives_of_storage(service, found.storages)
    # A pooled drive that a system lists is a block of its own: it leaves when the node does.
    pooled = {offer.device.uri for offer in found.offers}
    own = {
        block: {uri: device for uri, device in held.items() if uri not in pooled}
        for block, held in reached.items()
    }
    statuses = {system.uri: uses.system_status(system) for system in found.systems}
    held = device_owners.assign_devices(service, own, statuses, trusted)
    describer = service.shared(Describer)
    for system in found.systems:
        status, mine = statuses[system.uri], held[system.uri]
        ends = system.endpoints + tuple(found.reach[system.uri].stated)
        places = topology_of(service, system.uri, system.chassis, mine, ends)
        pools = (names[found.reach[system.uri].fabrics],)
        yield _block(system, "ComputerSystem", pools, status, describer.describe(mine), places)
    for offer in found.offers:
        near = tuple(id_ for reached, id_ in names.items() if reached & offer.fabrics)
        status = uses.offer_status(offer, attached)
        yield _pooled_block(service, offer, status, near if offer.fabrics else ids)


def _pooled_block(
    service: LinkedDocuments, offer: FabricOffer, status: Status, pools: tuple[str, ...]
) -> FullBlock:
    of, kind = offer.device, DriveDevice if offer.is_drive else ProcessorDevice
    device: Device = kind(of.uri, of.json, of.notes)
    described = Describer().describe([device])
    if not offer.fabrics:
        remote = tuple(msgspec.structs.replace(it, remote=True) for it in described.drives)
        described = msgspec.structs.replace(described, drives=remote)
    places = topology_of(service, of.uri, of.chassis, [device], offer.ends)
    type_: BlockType = "Storage" if offer.is_drive else "Processor"
    return _block(of, type_, pools, status, described, places)


def _block(
    of: RackSystem | Device,
    kind: BlockType,
    pools: tuple[str, ...],
    status: Status,
    described: Devices,
    places: dict[str, str] | None,
) -> FullBlock:
    return FullBlock(
        uri=of.uri,
        name=of.name,
        type=(kind,),
        pools=pools,
        places=places,
        status=status,
        devices=described,
    )
