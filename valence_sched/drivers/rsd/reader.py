# SPDX-License-Identifier: Apache-2.0
"""Reads the racks of Intel Rack Scale Design 2.1 to 2.5 as inventory nouns.

A node is one system, with drives and FPGAs of fabrics and volumes of storage services. There is
no document that says what is free: a device is free if no node and no zone links it and no other
property contradicts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from valence_sched.drivers.fields import Resource
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import device_owners
from valence_sched.drivers.redfish.describe import Describer, topology_of
from valence_sched.drivers.redfish.schema import (
    Device,
    DriveDevice,
    ProcessorDevice,
    condition_of,
    note_condition,
)
from valence_sched.drivers.rsd import schema, stocks
from valence_sched.model.inventory import (
    WHOLE_POOL,
    BlockType,
    CompositionState,
    Devices,
    FullBlock,
    FullPodm,
    Limit,
    Node,
    Pool,
    Status,
)

NETWORK_TYPES = ("nvmeoverfabrics", "ethernet", "iscsi", "fpga-of", "roce", "rocev2", "infiniband")


@dataclass(frozen=True, slots=True)
class FabricOffer:
    """A pooled device, its PCIe fabrics (none for a network), and the ends that lead to it."""

    device: schema.PooledDevice
    is_drive: bool
    fabrics: frozenset[str]
    ends: tuple[str, ...]
    is_zoned: bool


class FabricReach(NamedTuple):
    """The PCIe fabrics that a system is assumed to reach, and those that name the system."""

    fabrics: frozenset[str]
    stated: frozenset[str]


def fabric_offers(service: LinkedDocuments, fabrics: Iterable[schema.Fabric]) -> list[FabricOffer]:
    """Return every pooled drive and FPGA once, in the order of the fabrics."""
    found: dict[str, FabricOffer] = {}
    for fabric in fabrics:
        for offer in _offers_of(service, fabric):
            old = found.get(offer.device.uri, offer)
            found[offer.device.uri] = FabricOffer(
                old.device,
                old.is_drive,
                # Every system reaches a device that a network offers too.
                offer.fabrics | old.fabrics if offer.fabrics and old.fabrics else frozenset(),
                tuple(dict.fromkeys(old.ends + offer.ends)),
                old.is_zoned or offer.is_zoned,
            )
    return list(found.values())


def reachable_fabrics(
    service: LinkedDocuments,
    fabrics: Iterable[schema.Fabric],
    systems: Iterable[schema.RackSystem],
    offers: list[FabricOffer],
) -> dict[str, FabricReach]:
    """Return which PCIe fabrics with something to offer each system reaches, by its URI."""
    systems = list(systems)
    named: dict[str, set[str]] = {system.uri: set() for system in systems}
    silent: set[str] = set()
    rich = {fabric for offer in offers for fabric in offer.fabrics}
    for fabric in fabrics:
        if fabric.uri not in rich:
            continue
        hosts = _hosts(service, fabric, systems)
        for uri in hosts:
            named[uri].add(fabric.uri)
        if not hosts and systems:
            silent.add(fabric.uri)
            what = "found no system that it is cabled to (every system is taken to reach it)"
            fabric.notes.remark(f"{fabric.uri}: {what}")
    every = named.items()
    return {uri: FabricReach(frozenset(ends | silent), frozenset(ends)) for uri, ends in every}


def _offers_of(service: LinkedDocuments, fabric: schema.Fabric) -> Iterator[FabricOffer]:
    zones = list(service.follow(fabric.zones, schema.FabricZone, fabric.uri))
    zoned = {service.uri(link, zone.uri) for zone in zones for link in zone.endpoints}
    is_network = fabric.type is not None and fabric.type.casefold() in NETWORK_TYPES
    reached = frozenset() if is_network else frozenset([fabric.uri])
    for endpoint in service.follow(fabric.endpoints, schema.Endpoint, fabric.uri):
        is_zoned = endpoint.uri in zoned or bool(endpoint.zones)
        offered = (link for entity in _entities(endpoint) if entity.leads for link in entity.entity)
        for device in service.follow(offered, schema.PooledDevice, endpoint.uri):
            kind = _kind(device)
            is_card = kind == "processor" and (device.processor_type or "CPU").casefold() != "cpu"
            if kind == "drive" or is_card:
                ends = (endpoint.uri, *endpoint.ports)
                yield FabricOffer(device, kind == "drive", reached, ends, is_zoned)


def _entities(endpoint: schema.Endpoint) -> Iterator[schema.ConnectedEntity]:
    for json in endpoint.entities:
        yield endpoint.part(schema.ConnectedEntity, json, "ConnectedEntities")


def _kind(device: schema.PooledDevice) -> str:
    """Return the resource class of a device by its type, or by its place without a type."""
    if device.kind:
        return device.kind.lstrip("#").partition(".")[0].casefold()
    collection = device.uri.rpartition("/")[0].rpartition("/")[2]
    return collection.casefold().removesuffix("s")


def _hosts(
    service: LinkedDocuments, fabric: schema.Fabric, systems: list[schema.RackSystem]
) -> set[str]:
    known = {system.uri for system in systems}
    hosts: set[str] = set()
    ours: set[str] = set()
    for end in service.follow(fabric.endpoints, schema.Endpoint, fabric.uri):
        ours.add(end.uri)
        for entity in _entities(end):
            hosts.update(() if entity.leads else service.uris(entity.entity, end.uri))
    cables = {
        cable
        for switch in service.follow(fabric.switches, schema.Switch, fabric.uri)
        for port in service.follow(switch.ports, schema.FabricPort, switch.uri)
        for cable in port.cables
    }
    for system in systems:
        ends = {service.uri(link, system.uri) for link in system.endpoints}
        if ends & ours or cables & set(system.cables):
            hosts.add(system.uri)
    return {uri for uri in hosts if uri in known}


NODE_STATES = ("allocating", "allocated", "assembling", "assembled", "failed")
_TRANSIENT_STATES = ("allocating", "assembling")


class RackUsage:
    """The use of the blocks of a rack by its nodes, by the URI of the block."""

    def __init__(
        self,
        service: LinkedDocuments,
        nodes: Iterable[schema.RackNode],
        storages: Iterable[schema.StorageService],
        systems: Iterable[schema.RackSystem],
        pooled: set[str],
    ) -> None:
        self._service, self._pooled = service, pooled
        self._hosts = {service.uri(link, it.uri) for it in storages for link in it.host}
        self._nodes: dict[str, list[schema.RackNode]] = {}
        listed = {system.uri for system in systems} | pooled
        for node in nodes:
            _check(node)
            for uri in self.blocks_of(node):
                if uri not in listed:
                    what = f"found {uri}, expected a system that is listed"
                    node.notes.remark(f"{node.uri}: {schema.RackNode.system.path}: {what}")
                self._nodes.setdefault(uri, []).append(node)

    def blocks_of(self, node: schema.RackNode) -> tuple[str, ...]:
        systems = list(self._service.uris(node.system, node.uri))
        rest = node.processors + node.local + node.remote + node.storage
        pooled = [uri for uri in self._service.uris(rest, node.uri) if uri in self._pooled]
        return tuple(dict.fromkeys(systems + pooled))

    def system_status(self, system: schema.RackSystem) -> Status:
        """Return the status of a system; one that runs a storage service makes no node."""
        return self._status(system, "Unavailable" if system.uri in self._hosts else "Unused")

    def offer_status(self, offer: FabricOffer, attached: set[str]) -> Status:
        """Return the status of a pooled device; ``attached`` are those that systems list."""
        device = offer.device
        if offer.is_zoned or device.uri in attached or device.storage:
            return self._status(device, "Composed")
        return self._status(device, "Unused" if _is_erased(offer) else "Unavailable")

    def _status(
        self, of: schema.RackSystem | schema.PooledDevice, state: CompositionState
    ) -> Status:
        nodes = self._nodes.get(of.uri, [])
        condition = condition_of(of)
        if state == "Unused" or nodes:
            note_condition(of, condition, "no node can have it")
        if nodes:
            states = {(node.node_state or "").casefold() for node in nodes}
            state = "Composing" if states <= set(_TRANSIENT_STATES) else "Composed"
        elif state == "Unused" and (condition.health == "Warning" or of.enabled is False):
            state = "Unavailable"  # its pod manager composes only devices that are OK
        return Status(
            state=state,
            enabled=None if of.state is None else condition.state is None,
            health=condition.health,
            resource_state=condition.word,
            compositions=len(nodes) or (1 if state == "Composed" else 0),
        )


def _is_erased(offer: FabricOffer) -> bool:
    device = offer.device
    if not offer.is_drive:
        return device.fpga_erased is not False
    if device.drive_erased is None:
        path = schema.PooledDevice.drive_erased.path
        what = "found nothing, expected true or false (no node can have it)"
        device.notes.remark(f"{device.uri}: {path}: {what}")
    return device.drive_erased is True


def _check(node: schema.RackNode) -> None:
    state = node.node_state
    if state is None or state.casefold() not in NODE_STATES:
        expected = "expected " + ", ".join(word.capitalize() for word in NODE_STATES)
        path = schema.RackNode.node_state.path
        node.notes.remark(f"{node.uri}: {path}: found {state!r}, {expected} (taken as in use)")
    if not node.system:
        node.notes.remark(f"{node.uri}: {schema.RackNode.system.path}: found none, expected one")


R = TypeVar("R", bound=Resource)

#: The pool of systems that no PCIe fabric reaches, where others are reached by one.
UNSWITCHED = "unswitched"

#: One node is one system.
LIMITS: dict[BlockType, Limit] = {"ComputerSystem": Limit(1, 1)}


class RsdResources(NamedTuple):
    """The resources of a rack, each once."""

    root: schema.RackRoot
    systems: list[schema.RackSystem]
    nodes: list[schema.RackNode]
    storages: list[schema.StorageService]
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
    root = schema.RackRoot(ROOT, service.json(ROOT, "the protocol") or {}, service.notes)
    if not (root.rack_nodes or root.nodes):  # what a node has cannot be told from what is free
        return RsdResources(root, [], [], [], [], {})
    fabrics = list(service.follow(root.fabrics, schema.Fabric, root.uri))
    systems = list(service.follow(root.systems, schema.RackSystem, root.uri))
    offered = fabric_offers(service, fabrics)
    return RsdResources(
        root,
        systems,
        _each(service, root, schema.RackNode, root.nodes, root.rack_nodes),
        _each(
            service, root, schema.StorageService, root.storage, root.services, root.rack_services
        ),
        offered,
        reachable_fabrics(service, fabrics, systems, offered),
    )


def _each(
    service: LinkedDocuments, root: schema.RackRoot, type_: type[R], *links: tuple[str, ...]
) -> list[R]:
    found: dict[str, R] = {}
    for some in links:
        for one in service.follow(some, type_, root.uri):
            found.setdefault(one.uri, one)
    return list(found.values())


def _pool_ids(found: RsdResources) -> dict[frozenset[str], str]:
    """Systems that reach the same are a pool: only what all of them reach makes a node with any."""
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
    of: schema.RackSystem | Device,
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
