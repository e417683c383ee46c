# SPDX-License-Identifier: Apache-2.0
"""Reads the racks of Intel Rack Scale Design 2.1 to 2.5 as inventory objects.

A device without a link from a node or a zone is free unless another property contradicts it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from valence_sched.drivers.fields import Resource
from valence_sched.drivers.links import ROOT, LinkedDocuments, short_ids
from valence_sched.drivers.redfish import device_owners, schema as standard, stocks
from valence_sched.drivers.redfish.describe import Describer, topology_of
from valence_sched.drivers.rsd import schema
from valence_sched.drivers.rsd.schema import LogicalDrive, StorageService
from valence_sched.model import inventory
from valence_sched.model.quantity import format_count

_GROUPS = ("lvg", "pool")
#: The URIs of drives by the URI of their stock.
Drives = dict[str, set[str]]
NETWORK_TYPES = ("nvmeoverfabrics", "ethernet", "iscsi", "fpga-of", "roce", "rocev2", "infiniband")
NODE_STATES = ("allocating", "allocated", "assembling", "assembled", "failed")
TRANSIENT_STATES = ("allocating", "assembling")
R = TypeVar("R", bound=Resource)
#: The pool of systems without a PCIe fabric, if other systems have one.
UNSWITCHED = "unswitched"
LIMITS: dict[inventory.BlockType, inventory.Limit] = {"ComputerSystem": inventory.Limit(1, 1)}


def rack_stocks(
    service: LinkedDocuments, storages: Iterable[StorageService], pools: tuple[str, ...]
) -> tuple[inventory.Stock, ...]:
    found: dict[str, inventory.Stock] = {}
    drives: Drives = {}
    for storage in filter(stocks.is_usable, storages):
        every = list(service.follow(storage.pools, standard.StoragePool, storage.uri))
        sizes = (it for it in stocks.pool_sizes(service, every, drives) if stocks.is_usable(it[0]))
        make, gib = stocks.storage_stock, stocks.gib
        newer = [make(pool, gib(total), gib(used)) for pool, total, used in sizes]
        older = list(_groups(service, storage, drives))
        if newer and older:  # two API generations of one service may list the same drives
            groups = format_count(len(older), "group")
            what = f"found storage pools and {groups} of logical drives, expected only one kind"
            service.notes.remark(f"{storage.uri}: {what} (the free size of the groups is unknown)")
            older = [replace(group, total=None) for group in older]
        for one in newer + older:
            found.setdefault(one.uri, replace(one, pools=pools))
    owners: dict[str, str] = {}
    for uri, stock in found.items():  # the size of a stock that shares a drive is unknown
        shared = sorted({owners[drive] for drive in drives.get(uri, ()) if drive in owners})
        for drive in drives.get(uri, ()):
            owners.setdefault(drive, uri)
        if shared and stock.total is not None:
            what = f"found drives that {shared[0]} also has, expected others"
            service.notes.remark(f"{uri}: {what} (its free size is unknown)")
            found[uri] = replace(stock, total=None)
    return tuple(found.values())


def drives_of_storage(service: LinkedDocuments, storages: Iterable[StorageService]) -> set[str]:
    """Return the URIs of the drives of storage pools, which nodes cannot have."""
    return {
        uri
        for storage in storages
        for pool in service.follow(storage.pools, standard.StoragePool, storage.uri)
        for source in stocks.sources_of(pool)
        for uri in service.uris(source.drives, pool.uri)
    }


def _groups(
    service: LinkedDocuments, storage: StorageService, drives: Drives
) -> Iterator[inventory.Stock]:
    every = {it.uri: it for it in service.follow(storage.drives, LogicalDrive, storage.uri)}
    cut: dict[str, dict[str, LogicalDrive]] = {uri: {} for uri in every}
    for uri, drive in every.items():
        for of in service.uris(drive.groups, uri):
            cut.setdefault(of, {})[uri] = drive
        used_by = service.uris(drive.used_by, uri)
        cut[uri] |= {volume: every[volume] for volume in used_by if volume in every}
    # The groups of a physical volume.
    plain = [uri for uri in cut if uri in every and not _is_named_group(every[uri])]
    parts = {uri: [it for it in cut[uri] if _is_named_group(cut[uri][it])] for uri in plain}
    members = {it: [uri for uri in parts if it in parts[uri]] for it in every}
    physical = {uri: set(service.uris(drive.physical, uri)) for uri, drive in every.items()}
    named = {it for uri in every if _is_named_group(every[uri]) for it in physical[uri]}
    for uri, drive in every.items():
        groups = [it for it in service.uris(drive.groups, uri) if it not in members[uri]]
        is_group = _is_named_group(drive) or drive.physical
        is_part = parts.get(uri) or (not _is_named_group(drive) and physical[uri] & named)
        if not is_group or is_part or groups or not stocks.is_usable(drive):
            continue
        volumes = cut[uri] | {it: of for part in members[uri] for it, of in cut[part].items()}
        sizes = [of.size_gib for it, of in volumes.items() if it != uri]
        total = drive.size_gib
        if not total:  # then the sum of its physical volumes, else of its drives
            of_drives = service.follow(drive.physical, schema.PhysicalDrive, uri)
            parts_gib = [every[it].size_gib for it in members[uri]]
            parts_gib = parts_gib or [it.size_gib for it in of_drives]
            total = stocks.sum_or_unknown(drive, LogicalDrive.size_gib, parts_gib)
        if None in sizes:
            drive.remark("found a volume of unknown size (its free size is unknown)")
            total = None
        drives[uri] = physical[uri].union(*(physical[it] for it in members[uri]))
        yield stocks.storage_stock(drive, total, sum(size for size in sizes if size))


def _is_named_group(drive: LogicalDrive) -> bool:
    return (drive.mode or "").casefold() in _GROUPS


class FabricOffer(NamedTuple):
    """A pooled device, its PCIe fabrics (empty for a network), and its endpoints."""

    device: schema.PooledDevice
    is_drive: bool
    fabrics: frozenset[str]
    ends: tuple[str, ...]
    is_zoned: bool


class FabricReach(NamedTuple):
    """The PCIe fabrics that a system can reach, and those of them with a stated cable to it."""

    fabrics: frozenset[str]
    stated: frozenset[str]


def _reachable_fabrics(
    service: LinkedDocuments,
    fabrics: Iterable[schema.RackFabric],
    systems: list[schema.RackSystem],
    offers: list[FabricOffer],
) -> dict[str, FabricReach]:
    """Return the reachable PCIe fabrics with pooled devices, by the URI of the system."""
    named: dict[str, set[str]] = {system.uri: set() for system in systems}
    silent: set[str] = set()  # fabrics without cables to systems
    rich = {fabric for offer in offers for fabric in offer.fabrics}
    for fabric in (it for it in fabrics if it.uri in rich):
        hosts = _hosts(service, fabric, systems)
        for uri in hosts:
            named[uri].add(fabric.uri)
        if not hosts and systems:
            silent.add(fabric.uri)
            fabric.remark("found no cable to a system (assuming that every system reaches it)")
    every = named.items()
    return {uri: FabricReach(frozenset(ends | silent), frozenset(ends)) for uri, ends in every}


def _offers_of(service: LinkedDocuments, fabric: schema.RackFabric) -> Iterator[FabricOffer]:
    zones = list(service.follow(fabric.zones, standard.FabricZone, fabric.uri))
    zoned = {service.uri(link, zone.uri) for zone in zones for link in zone.endpoints}
    is_network = fabric.type is not None and fabric.type.casefold() in NETWORK_TYPES
    reached = frozenset() if is_network else frozenset([fabric.uri])
    for endpoint in service.follow(fabric.endpoints, schema.RackEndpoint, fabric.uri):
        is_zoned = endpoint.uri in zoned or bool(endpoint.zones)
        for device in service.follow(endpoint.offered, schema.PooledDevice, endpoint.uri):
            if (kind := device.pooled_kind) is not None:
                ends = (endpoint.uri, *endpoint.ports)
                yield FabricOffer(device, kind == "Storage", reached, ends, is_zoned)


def _hosts(
    service: LinkedDocuments, fabric: schema.RackFabric, systems: list[schema.RackSystem]
) -> set[str]:
    hosts, ours, cables = set[str](), set[str](), set[str]()
    for end in service.follow(fabric.endpoints, schema.RackEndpoint, fabric.uri):
        ours.add(end.uri)
        for entity in end.connected:
            hosts.update(() if entity.leads else service.uris(entity.entity, end.uri))
    for switch in service.follow(fabric.switches, schema.Switch, fabric.uri):
        ports = service.follow(switch.ports, schema.FabricPort, switch.uri)
        cables.update(cable for port in ports for cable in port.cables)
    for system in systems:
        ends = {service.uri(link, system.uri) for link in system.endpoints}
        if ends & ours or cables & set(system.cables):
            hosts.add(system.uri)
    return hosts & {system.uri for system in systems}


class RackUsage:
    """The nodes that use each block of a rack, by the URI of the block."""

    def __init__(
        self,
        service: LinkedDocuments,
        nodes: Iterable[schema.RackNode],
        storages: Iterable[schema.StorageService],
        systems: Iterable[schema.RackSystem],
        pooled: set[str],
    ) -> None:
        self._service, self.pooled = service, pooled
        self._hosts = {service.uri(link, it.uri) for it in storages for link in it.host}
        self._nodes: dict[str, list[schema.RackNode]] = {}
        listed = {system.uri for system in systems} | pooled
        for node in nodes:
            state = node.node_state
            if state is None or state.casefold() not in NODE_STATES:
                expected = "expected " + ", ".join(word.capitalize() for word in NODE_STATES)
                what = f"found {state!r}, {expected} (assumed in use)"
                node.remark(what, schema.RackNode.node_state)
            if not node.system:
                node.remark("found no link, expected a system", schema.RackNode.system)
            for uri in self.blocks_of(node):
                if uri not in listed:
                    what = f"found {uri}, expected a listed system"
                    node.remark(what, schema.RackNode.system)
                self._nodes.setdefault(uri, []).append(node)

    def blocks_of(self, node: schema.RackNode) -> tuple[str, ...]:
        systems = list(self._service.uris(node.system, node.uri))
        rest = node.processors + node.local + node.remote + node.storage
        pooled = [uri for uri in self._service.uris(rest, node.uri) if uri in self.pooled]
        return tuple(dict.fromkeys(systems + pooled))

    def system_status(self, system: schema.RackSystem) -> inventory.Status:
        """Return the status of a system; the system of a storage service is not composed."""
        return self._status(system, "Unavailable" if system.uri in self._hosts else "Unused")

    def offer_status(self, offer: FabricOffer, attached: set[str]) -> inventory.Status:
        """Return the status of a pooled device; ``attached`` are the URIs that systems list."""
        device = offer.device
        if offer.is_zoned or device.uri in attached or device.storage:
            return self._status(device, "Composed")
        is_erased = device.fpga_erased is not False
        if offer.is_drive:
            is_erased = device.drive_erased is True
            if device.drive_erased is None:
                what = "found no value, expected true or false (cannot be composed)"
                device.remark(what, schema.PooledDevice.drive_erased)
        return self._status(device, "Unused" if is_erased else "Unavailable")

    def _status(
        self, of: schema.RackSystem | schema.PooledDevice, state: inventory.CompositionState
    ) -> inventory.Status:
        nodes = self._nodes.get(of.uri, [])
        condition = standard.condition_of(of)
        if state == "Unused" or nodes:
            standard.note_condition(of, condition, "it cannot be composed")
        if nodes:
            states = {(node.node_state or "").casefold() for node in nodes}
            state = "Composing" if states <= set(TRANSIENT_STATES) else "Composed"
        elif state == "Unused" and (condition.health == "Warning" or of.enabled is False):
            state = "Unavailable"  # the pod manager composes only devices with health OK
        return inventory.Status(
            state=state,
            enabled=None if of.state is None else condition.state is None,
            health=condition.health,
            resource_state=condition.word,
            compositions=len(nodes) or (1 if state == "Composed" else 0),
        )


class RsdResources(NamedTuple):
    """The resources of a rack without duplicates."""

    root: schema.RackRoot
    systems: list[schema.RackSystem]
    nodes: list[schema.RackNode]
    storages: list[schema.StorageService]
    offers: list[FabricOffer]
    reach: dict[str, FabricReach]


def read_podm(service: LinkedDocuments, id_: str, driver: str) -> inventory.FullPodm:
    """Read a pod manager; note and leave out documents that are missing or wrong."""
    found = find_resources(service)
    names = _pool_ids(found)
    ids = tuple(dict.fromkeys(names.values())) or (inventory.WHOLE_POOL,)
    pooled = {offer.device.uri for offer in found.offers}
    uses = RackUsage(service, found.nodes, found.storages, found.systems, pooled)
    amounts = rack_stocks(service, found.storages, ids)
    if not found.systems:
        service.notes.remark(f"{found.root.uri}: found no system for a node")
    made_of = ((node, uses.blocks_of(node)) for node in found.nodes)
    return inventory.FullPodm(
        id=id_,
        name=found.root.name,
        driver=driver,
        pools=tuple(inventory.Pool(id=id_, limits=LIMITS) for id_ in ids),
        blocks=tuple(_blocks(service, found, uses, names, ids)),
        stocks=amounts,
        nodes=tuple(inventory.Node(uri=it.uri, name=it.name, blocks=of) for it, of in made_of),
    )


def find_resources(service: LinkedDocuments) -> RsdResources:
    root = schema.RackRoot(ROOT, service.json(ROOT, "the protocol") or {}, service.notes)
    if not (root.rack_nodes or root.nodes):  # without the nodes the use of hardware is unknown
        return RsdResources(root, [], [], [], [], {})
    fabrics = list(service.follow(root.fabrics, schema.RackFabric, root.uri))
    systems = list(service.follow(root.systems, schema.RackSystem, root.uri))

    def each(type_: type[R], *links: tuple[str, ...]) -> list[R]:
        found = (one for some in links for one in service.follow(some, type_, root.uri))
        return list({one.uri: one for one in found}.values())

    nodes = each(schema.RackNode, root.nodes, root.rack_nodes)
    storages = each(StorageService, root.storage, root.services, root.rack_services)
    offers: dict[str, FabricOffer] = {}
    for offer in (it for fabric in fabrics for it in _offers_of(service, fabric)):
        old = offers.get(offer.device.uri, offer)
        # Every system reaches a device that a network also offers.
        reached = offer.fabrics | old.fabrics if offer.fabrics and old.fabrics else frozenset()
        ends, zoned = tuple(dict.fromkeys(old.ends + offer.ends)), old.is_zoned or offer.is_zoned
        offers[offer.device.uri] = old._replace(fabrics=reached, ends=ends, is_zoned=zoned)
    offered = list(offers.values())
    reach = _reachable_fabrics(service, fabrics, systems, offered)
    return RsdResources(root, systems, nodes, storages, offered, reach)


def _pool_ids(found: RsdResources) -> dict[frozenset[str], str]:
    """Return the pool ids of sets of fabrics: systems with the same fabrics form a pool."""
    every = [reach.fabrics for reach in found.reach.values()]
    if not any(every):
        return {frozenset(): inventory.WHOLE_POOL} if found.systems else {}
    ids = short_ids(uri for reached in every for uri in reached)
    return {of: "+".join(ids[uri] for uri in sorted(of)) or UNSWITCHED for of in every}


def _blocks(
    service: LinkedDocuments,
    found: RsdResources,
    uses: RackUsage,
    names: dict[frozenset[str], str],
    ids: tuple[str, ...],
) -> Iterator[inventory.FullBlock]:
    reached, trusted = device_owners.devices_of_systems(service, found.systems)
    attached = {uri for by_uri in reached.values() for uri in by_uri}
    attached |= drives_of_storage(service, found.storages)
    # A pooled drive that a system lists is a separate block: removing the node detaches it.
    own = {
        block: {uri: device for uri, device in by_uri.items() if uri not in uses.pooled}
        for block, by_uri in reached.items()
    }
    statuses = {system.uri: uses.system_status(system) for system in found.systems}
    owned = device_owners.assign_devices(own, statuses, trusted, service.notes)
    describer = service.shared(Describer)
    for system in found.systems:
        mine, reach = owned[system.uri], found.reach[system.uri]
        ends = system.endpoints + tuple(reach.stated)
        yield inventory.FullBlock(
            uri=system.uri,
            name=system.name,
            type=("ComputerSystem",),
            pools=(names[reach.fabrics],),
            places=topology_of(service, system.uri, system.chassis, mine, ends),
            status=statuses[system.uri],
            devices=describer.describe(mine),
        )
    for offer in found.offers:
        of = offer.device
        kind = standard.DriveDevice if offer.is_drive else standard.ProcessorDevice
        device: standard.Device = kind(of.uri, of.json, of.notes)
        described = Describer().describe([device])
        pools = tuple(id_ for reached, id_ in names.items() if reached & offer.fabrics)
        if not offer.fabrics:
            remote = tuple(replace(it, remote=True) for it in described.drives)
            pools, described = ids, replace(described, drives=remote)
        yield inventory.FullBlock(
            uri=of.uri,
            name=of.name,
            type=("Storage",) if offer.is_drive else ("Processor",),
            pools=pools,
            places=topology_of(service, of.uri, of.chassis, [device], offer.ends),
            status=uses.offer_status(offer, attached),
            devices=described,
        )
