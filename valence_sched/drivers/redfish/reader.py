# SPDX-License-Identifier: Apache-2.0
"""Reads the Redfish composition resources of a recorded or live pod manager as inventory objects.

If statements about a block contradict each other, the statement that prevents its use applies.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from msgspec.structs import replace

from valence_sched.drivers.actions import find_action
from valence_sched.drivers.document_shape import type_name
from valence_sched.drivers.fields import Field, Json, NamedResource, Resource, number
from valence_sched.drivers.links import ROOT, LinkedDocuments, short_ids
from valence_sched.drivers.redfish import describe, device_owners, schema
from valence_sched.drivers.redfish.fabric import FabricDevices
from valence_sched.drivers.redfish.stocks import stocks
from valence_sched.errors import name_some
from valence_sched.model import inventory
from valence_sched.model.inventory import BlockType, CompositionState, Devices, Limit, Node, Status
from valence_sched.model.quantity import format_count

Limits = dict[BlockType, Limit]
_LEAST = {kind: Field(f"Min{kind}", number, "least", "blocks") for kind in get_args(BlockType)}
_MOST = {kind: Field(f"Max{kind}", number, "most", "blocks") for kind in get_args(BlockType)}
_TYPES: dict[str, BlockType] = {it.casefold(): it for it in get_args(BlockType)}
TypesByBlock = Mapping[str, tuple[BlockType, ...]]
#: The case-folded types of zones without resource blocks.
_OTHER_ZONES = ("default", "zoneofendpoints", "zoneofzones")
_ROOT_LINKS = ("CompositionService", "Systems", "Chassis")


class LimitsByZone:
    """The limits in the capabilities of a pod manager for each of its zones.

    A composed node boots as one system, so two servers do not add up to one. For blocks that are
    whole compute units the default maximum is therefore 1. The operator can set another maximum,
    and a composed system with several such blocks raises it. ``joined`` has the largest number of
    blocks of each type in a composed system, ``zones`` the URIs of zones.
    """

    def __init__(
        self,
        service: LinkedDocuments,
        collections: Iterable[schema.Collection],
        joined: Mapping[BlockType, int],
        zones: set[str],
    ) -> None:
        self._service, self._joined = service, joined
        self._noted: set[BlockType] = set()
        self._stated: list[tuple[set[str], Limits]] = []  # by zones; empty means all
        for holder in collections:
            for capability, limits in _stated_limits(service, holder, holder.capabilities):
                found = set(service.uris(capability.zones, capability.uri))
                if found and zones.isdisjoint(found):
                    what = f"found {', '.join(sorted(found))}, expected a zone of resource blocks"
                    text = f"{what} (its limits are ignored)"
                    capability.remark(text, schema.CollectionCapability.zones)
                self._stated.append((found, limits))

    def of(self, zone: schema.Zone | None, blocks: Mapping[BlockType, int]) -> Limits:
        """Return the strictest limits of a zone with these blocks, or of a podm without zones."""
        found: Limits = {}
        stated = [it for zones, it in self._stated if not zones or (zone and zone.uri in zones)]
        if zone:
            of_zone = _stated_limits(self._service, zone, zone.capabilities)
            stated += [limits for _, limits in of_zone]
        for kind, limit in (item for limits in stated for item in limits.items()):
            old = found.get(kind, Limit())
            tops = [top for top in (old.max, limit.max) if top is not None]
            found[kind] = Limit(max(old.min, limit.min), min(tops, default=None))
        for kind in inventory.SINGLE_PER_NODE:
            known, joined = found.get(kind, Limit()), self._joined.get(kind, 0)
            if known.max is not None:
                continue
            most = self._service.max_blocks.get(kind, 1)
            if kind not in self._service.max_blocks and min(joined, blocks.get(kind, 0)) >= 2:
                most = joined
                if kind not in self._noted:
                    self._noted.add(kind)
                    size = format_count(joined, f"{kind} block")
                    what = f"found a composed system of {size} without a stated maximum"
                    self._service.notes.remark(f"{what} (assuming at most {joined} per node)")
            found[kind] = Limit(known.min, max(most, known.min))
        return found


def _stated_limits(
    service: LinkedDocuments, holder: Resource, capabilities: Iterable[Json]
) -> Iterator[tuple[schema.CollectionCapability, Limits]]:
    kind = schema.CollectionCapability
    parts = (holder.part(kind, it, "@Redfish.CollectionCapabilities") for it in capabilities)
    for capability in (part for part in parts if part.leads):
        for document in service.follow(capability.object, schema.CapabilitiesObject, holder.uri):
            for json in document.limits:
                part = document.part(Resource, json, "@Redfish.ResourceBlockLimits")
                every = {it: Limit(_LEAST[it].of(part) or 0, _MOST[it].of(part)) for it in _LEAST}
                yield capability, {it: limit for it, limit in every.items() if limit != Limit()}


class RedfishResources(NamedTuple):
    """The resources of a pod manager that link blocks.

    ``host_parts`` has the own blocks of each host by its URI, if free hosts are offered.
    ``servers`` are the hosts of a service without a composition service: each is a block. The
    devices in their ``fabrics`` are blocks too.
    """

    root: schema.ServiceRoot
    services: list[schema.CompositionService]
    zones: list[schema.Zone]
    blocks: list[schema.ResourceBlock]
    systems: list[schema.ListedSystem]
    host_parts: dict[str, set[str]]
    servers: dict[str, schema.Server]
    fabrics: FabricDevices


def read_podm(service: LinkedDocuments, id_: str, driver: str) -> inventory.FullPodm:
    """Read a pod manager; note and leave out documents that are missing or wrong."""
    found = _find(service)
    nodes = (*_nodes(service, found), *_stale_nodes(service, found))
    hosts = _hosts_of_blocks(service, found)
    kinds = {block.uri: types(block) for block in found.blocks}
    for uri in set().union(*found.host_parts.values()):
        kinds[uri] = kinds[uri] or ("Compute",)  # a node has one host
    pools, members = _pools(service, found, nodes, kinds)
    everywhere = tuple(pool.id for pool in pools)
    ids = short_ids(zone.uri for zone in found.zones)

    def zone_ids(links: tuple[str, ...]) -> tuple[str, ...] | None:
        uris = list(service.uris(links, ROOT))
        for uri in uris:
            if uri not in ids:
                service.notes.remark(f"{uri}: found no such zone, but a stock links it")
        return tuple(ids[uri] for uri in uris if uri in ids) if links else None

    amounts = stocks(service, found.root, everywhere, zone_ids)
    if not found.blocks and not amounts and found.services:
        what = "found nothing to compose: no resource block, memory domain or storage pool"
        found.root.remark(what)
    podm = inventory.FullPodm(
        id=id_,
        name=found.root.name,
        driver=driver,
        pools=pools,
        blocks=tuple(_blocks(service, found, nodes, hosts, members, kinds)),
        stocks=amounts,
        nodes=nodes,
    )
    parts = frozenset[str]().union(*found.host_parts.values())
    return podm if not parts or _composes(service, found) else split_by_fabric(podm, parts)


def _composes(service: LinkedDocuments, found: RedfishResources) -> bool:
    """Return whether a service composes systems, beside hosts to which it attaches blocks."""
    holders: list[schema.Collection | schema.Zone] = [*_collections(service, found), *found.zones]
    stated = (next(_stated_limits(service, it, it.capabilities), None) for it in holders)
    actions = (find_action(it.json, "Compose") for it in found.services)
    return any(it is not None for it in (*stated, *actions))


def split_by_fabric(podm: inventory.FullPodm, parts: Collection[str]) -> inventory.FullPodm:
    """Return a pod manager with a pool for each fabric of the hosts of a pool.

    ``parts`` are the own blocks of hosts. Such a pool has the hosts of its fabric, and the other
    blocks that are in it, or in no known fabric. Hosts of no known fabric have all blocks.
    """
    fabric = {block.uri: (block.places or {}).get("fabric") for block in podm.blocks}
    if not (ids := short_ids({uri for uri in fabric.values() if uri is not None})):
        return podm
    of_hosts: dict[str, set[str | None]] = {}
    for block in podm.blocks:
        for pool in block.pools if block.uri in parts else ():
            of_hosts.setdefault(pool, set()).add(fabric[block.uri])
    names: dict[str, dict[str | None, str]] = {}
    for pool, own in of_hosts.items():
        plain, every = len(own) == 1, sorted(own, key=lambda of: of or "")
        names[pool] = {of: pool if plain or of is None else f"{pool}+{ids[of]}" for of in every}

    def of_block(block: inventory.FullBlock) -> Iterator[str]:
        own = fabric[block.uri]
        for pool in block.pools:
            if block.uri in parts:
                yield names[pool][own]
                continue
            for of, name in names.get(pool, {own: pool}).items():
                if of is None or own is None or of == own:
                    yield name

    def of_stock(pools: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for pool in pools for name in names.get(pool, {None: pool}).values())

    return replace(
        podm,
        pools=tuple(replace(it, id=name) for it in podm.pools for name in of_stock((it.id,))),
        blocks=tuple(replace(it, pools=tuple(of_block(it))) for it in podm.blocks),
        stocks=tuple(replace(it, pools=of_stock(it.pools)) for it in podm.stocks),
    )


def _find(service: LinkedDocuments) -> RedfishResources:
    json = service.json(ROOT, "the protocol")
    if not json:  # otherwise assume a root with the standard URIs
        json = {name: {"@odata.id": f"{ROOT}/{name}"} for name in _ROOT_LINKS}
    root = schema.ServiceRoot(ROOT, json, service.notes)
    services = list(service.follow(root.composition, schema.CompositionService, root.uri))
    zones = []
    for zone in (it for of in services for it in service.follow(of.zones, schema.Zone, of.uri)):
        if zone.leads:
            zones.append(zone)
        elif (zone.type or "").casefold() not in _OTHER_ZONES:
            what = f"found {zone.type}, expected ZoneOfResourceBlocks or another type (left out)"
            zone.remark(what, schema.Zone.type)
    blocks: dict[str, schema.ResourceBlock] = {}
    holders: list[schema.ServiceRoot | schema.CompositionService | schema.Zone]
    holders = [root, *services, *zones]
    for it in holders:
        for block in service.follow(it.blocks, schema.ResourceBlock, it.uri, blocks):
            blocks.setdefault(block.uri, block)
    servers, parts_of_servers = _servers(service, root)
    ends = {server.uri: server.endpoints for server in servers}
    fabrics = FabricDevices.read(service, root.fabrics, ends)
    for uri, device in fabrics.devices.items():
        blocks.setdefault(uri, describe.block_of_device(device, not fabrics.hosts_of(uri)))
    for server in servers:
        inside = (server, *parts_of_servers)
        is_free = service.is_free_host(server.uri) and not fabrics.attached_to(server.uri)
        blocks[server.uri] = describe.block_of_server(server, inside, is_free)
    systems = list(service.follow(root.systems, schema.ListedSystem, root.uri))
    parts = {
        host.uri: {
            uri
            for uri in service.member_uris(host.blocks, host.uri, blocks)
            if uri in blocks and describe.is_host_part(service, blocks[uri])
        }
        for host in systems
        if not host.is_composed and service.is_free_host(host.uri)
    }
    if servers and not any(service.is_free_host(server.uri) for server in servers):
        count = format_count(len(servers), "host")
        what = f"found no composition service: {count} in use by an unmanaged system"
        root.remark(f"{what} (--hosts free offers hosts)")
    hosts = {server.uri: server for server in servers}
    every = list(blocks.values())
    return RedfishResources(root, services, zones, every, systems, parts, hosts, fabrics)


def _servers(
    service: LinkedDocuments, root: schema.ServiceRoot
) -> tuple[list[schema.Server], list[schema.Server]]:
    """Return the hosts of a service without a composition service, and the parts of its only host.

    A part is a system that does not boot, such as a baseboard of accelerators with its own BMC,
    beside a system that does.
    """
    every = [it for it in service.follow(root.hosts, schema.Server, root.uri) if it.leads]
    servers = [server for server in every if server.boots]
    if not servers:
        return every, []
    parts = [server for server in every if not server.boots]
    for part in parts if len(servers) > 1 else ():
        part.remark("found no Boot, expected one host that it is part of (left out)")
    return servers, parts if len(servers) == 1 else []


def _pools(
    service: LinkedDocuments, found: RedfishResources, nodes: Iterable[Node], kinds: TypesByBlock
) -> tuple[tuple[inventory.Pool, ...], dict[str, list[str]]]:
    def count(uris: Iterable[str]) -> Counter[BlockType]:
        return Counter(kind for uri in uris for kind in kinds.get(uri, ()))

    joined: Counter[BlockType] = Counter()  # the largest number of blocks of each type in a node
    for node in nodes:
        joined |= count(node.blocks)
    zones = {zone.uri for zone in found.zones}
    limits = LimitsByZone(service, _collections(service, found), joined, zones)
    lists = (it for part in found.services for it in service.collections(part.zones, part.uri))
    listed = ((uri, it.uri) for it in lists for uri in service.uris(it.members, it.uri))
    # If listed zones are unreadable, the pools are unknown.
    if not found.zones and not any(service.json(*it) is None for it in listed):
        if found.fabrics.every:
            return _fabric_pools(found, limits.of(None, count(kinds)))
        id_ = inventory.WHOLE_POOL
        whole = inventory.Pool(id=id_, limits=limits.of(None, count(kinds)))
        return (whole,) if kinds else (), {block.uri: [id_] for block in found.blocks}
    ids, pools = short_ids(zones), []
    members: dict[str, list[str]] = {block.uri: [] for block in found.blocks}
    for zone in found.zones:
        id_ = ids[zone.uri]
        inside = dict.fromkeys(service.member_uris(zone.blocks, zone.uri, members))
        found_limits = limits.of(zone, count(inside))
        pools.append(inventory.Pool(id=id_, name=zone.name, limits=found_limits))
        for uri in inside.keys() & members.keys():
            members[uri].append(id_)
    return tuple(pools), members


def _collections(service: LinkedDocuments, found: RedfishResources) -> Iterator[schema.Collection]:
    """Yield the collections that may state capabilities."""
    links = [(found.root.systems, found.root.uri), (found.root.blocks, found.root.uri)]
    links += [(of, it.uri) for it in found.services for of in (it.blocks, it.zones)]
    for of, where in links:
        yield from service.collections(of, where)


def _fabric_pools(
    found: RedfishResources, limits: Limits
) -> tuple[tuple[inventory.Pool, ...], dict[str, list[str]]]:
    """Return a pool for each set of fabrics that a server reaches; a node has one server."""
    fabrics = found.fabrics.every
    reached = {uri: frozenset(it.uri for it in fabrics if uri in it.hosts) for uri in found.servers}
    ids, whole = short_ids(fabric.uri for fabric in fabrics), inventory.WHOLE_POOL
    names = {of: "+".join(map(ids.__getitem__, sorted(of))) or whole for of in reached.values()}
    near: dict[str, set[str]] = {}
    for fabric in fabrics:
        for uri in fabric.ends:
            near.setdefault(uri, set()).add(fabric.uri)
    members = {
        block.uri: [name for of, name in names.items() if near.get(block.uri, set()) & of]
        for block in found.blocks
    }
    members |= {uri: [names[of]] for uri, of in reached.items()}
    limits = {**limits, "ComputerSystem": Limit(1, 1)}
    return tuple(inventory.Pool(id=name, limits=limits) for name in names.values()), members


def _nodes(service: LinkedDocuments, found: RedfishResources) -> Iterator[Node]:
    known = {block.uri for block in found.blocks}
    for system in found.systems:
        own = found.host_parts.get(system.uri)
        if not (system.is_composed or own):
            continue
        blocks = tuple(dict.fromkeys(service.member_uris(system.blocks, system.uri, known)))
        if own and own.issuperset(blocks):  # a host without a tenant
            continue
        for uri in blocks:
            if uri not in known:
                what = f"found {uri}, expected a listed resource block"
                system.remark(what, schema.ListedSystem.blocks)
        yield Node(uri=system.uri, name=system.name, blocks=blocks)
    names = Counter(server.label for server in found.servers.values())
    for uri, server in found.servers.items():
        attached = found.fabrics.attached_to(uri)
        if attached or not service.is_free_host(uri):
            name = server.label if names[server.label] == 1 else None  # often "System"
            yield Node(uri=uri, name=name, blocks=(uri, *attached))


def _stale_nodes(service: LinkedDocuments, found: RedfishResources) -> Iterator[Node]:
    what = "found no readable document, expected a system"
    unread = [*service.unread_members(found.root.systems, found.root.uri)]
    unlike = (it for it in found.systems if it.uri not in found.servers)
    for it in (system for system in unlike if system.lacks_fields):
        is_other = type_name(it.json) not in ("", "computersystem")
        unread += [it.uri] if is_other or it.uri in service.known_nodes else []
    for uri in dict.fromkeys(unread):
        effect = "its blocks are unknown: an Unused block without a link to it counts as free"
        if known := service.known_nodes.get(uri):
            effect = "its blocks of the last reading stay in use"
            yield replace(known, stale=True)
        service.notes.remark(f"{uri}: {what} ({effect})")


def _hosts_of_blocks(service: LinkedDocuments, found: RedfishResources) -> dict[str, list[str]]:
    """Return, by block URI, the systems that have the block but are not composed or not listed."""
    known = {block.uri: block for block in found.blocks}
    hosts: dict[str, list[str]] = {}
    systems = [it for it in found.systems if not (it.is_composed or found.host_parts.get(it.uri))]
    listed = {system.uri for system in found.systems}
    unlisted: dict[str, schema.ListedSystem] = {}
    for block in found.blocks:  # systems that are a block or contain it
        for uri in service.member_uris((*block.systems, *block.in_systems), block.uri, listed):
            if uri not in listed and (json := service.json(uri, block.uri)):
                unlisted.setdefault(uri, schema.ListedSystem(uri, json, service.notes))
    for system in (*systems, *unlisted.values()):
        named = set(service.member_uris(system.blocks, system.uri, known))
        for uri in sorted(named & known.keys()):
            block = known[uri]
            is_system = system.uri in set(service.uris(block.systems, uri))
            if not describe.is_free_host(block, len(named), is_system=is_system):
                hosts.setdefault(uri, []).append(system.uri)
    for block in found.blocks if service.unreadable else ():  # its blocks are unknown
        linked = set(service.uris(block.in_systems, block.uri))
        if untold := sorted(linked & service.unreadable):
            hosts.setdefault(block.uri, []).extend(untold)
    return hosts


def _blocks(
    service: LinkedDocuments,
    found: RedfishResources,
    nodes: tuple[Node, ...],
    hosts: Mapping[str, Sequence[str]],
    members: dict[str, list[str]],
    kinds: TypesByBlock,
) -> Iterator[inventory.FullBlock]:
    used: dict[str, list[str]] = {}
    for node in nodes:
        for uri in set(node.blocks):
            used.setdefault(uri, []).append(node.uri)
    for uri, of_hosts in hosts.items():
        used.setdefault(uri, []).extend(of_hosts)
    alike = service.shared(_status_memo)
    states = {it.uri: _used_by(it, alike.of(it), used.get(it.uri, ())) for it in found.blocks}
    listed = {it.uri: it for it in found.systems if not it.is_composed}
    pooled = found.fabrics.devices
    owned = device_owners.devices_by_block(service, found.blocks, states, pooled)
    describer = service.shared(describe.Describer)
    for block in found.blocks:
        devices = describer.describe(owned[block.uri])
        if block.uri in found.servers:
            lists = service.follow(block.systems, schema.System, block.uri)
            devices = describe.with_unlisted(devices, lists)
        systems = _systems_behind(service, block, {} if block.uri in hosts else listed)
        status, stated = states[block.uri], block.composition_state or "none"
        if systems or status.condition is not None:
            status = _in_condition(status, [block, *systems], devices)
        if status.state == "Unknown" and stated.casefold() not in describe.COMPOSITION_STATES:
            what = f"found {stated}, expected one of {', '.join(get_args(CompositionState)[:-1])}"
            block.remark(f"{what} (cannot be composed)", schema.ResourceBlock.composition_state)
        if not members[block.uri] and status.slots:
            block.remark("found in no zone, expected in one (cannot be composed)")
        ends = [it.uri for it in found.fabrics.every if block.uri in it.hosts | it.ends.keys()]
        yield inventory.Block(
            uri=block.uri,
            name=block.name,
            type=kinds[block.uri],
            pools=tuple(members[block.uri]),
            places=describe.topology_of(service, block.uri, block.chassis, owned[block.uri], ends),
            status=status,
            devices=devices,
        )


def _systems_behind(
    service: LinkedDocuments, block: schema.ResourceBlock, listed: Mapping[str, schema.ListedSystem]
) -> list[NamedResource]:
    """Return the systems that a block consists of; a compute block also has its linked systems.

    The block of a host without a composition service has the status of its system already.
    """
    systems = service.follow(block.systems, schema.System, block.uri)
    found: list[NamedResource] = [system for system in systems if system.uri != block.uri]
    if listed and block.in_systems and "compute" in map(str.casefold, block.types):
        linked = {*service.uris(block.in_systems, block.uri)} - {it.uri for it in found}
        found += [listed[uri] for uri in sorted(linked & listed.keys())]
    return found


def _in_condition(status: Status, parts: Sequence[NamedResource], devices: Devices) -> Status:
    """Return the status of a block from its condition and the condition of its systems.

    A block or system that is Critical only because of excluded devices counts as Warning.
    """
    groups = (getattr(devices, name) for name in devices.__struct_fields__)
    is_explained = any(one.health == "Critical" for group in groups for one in group)
    conditions = []
    for part in parts:
        condition = schema.condition_of(part)
        own = schema.condition_of(part, with_parts=False)
        if is_explained and own.health != condition.health == "Critical":
            condition = condition._replace(health="Warning")
        schema.note_condition(part, condition, "it cannot be composed")
        conditions.append(condition)
    found = schema.worst(conditions)
    enabled = False if found.state else status.enabled
    return replace(status, enabled=enabled, health=found.health, resource_state=found.word)


def types(block: schema.ResourceBlock) -> tuple[BlockType, ...]:
    found = [_TYPES.get(word.casefold()) for word in block.types]
    if len(found) == 1 and (only := found[0]):
        return (only,)
    raw = schema.ResourceBlock.types.raw(block)
    if raw is None or None in found:
        what = "none (limits ignore the block)" if raw is None else raw
        expected = ", ".join(_TYPES.values())
        block.remark(f"found {what}, expected {expected}", schema.ResourceBlock.types)
    return tuple(dict.fromkeys(kind for kind in found if kind))


def _status_memo() -> describe.ContentMemo[schema.ResourceBlock, Status]:
    return describe.ContentMemo(describe.status_of)


def _used_by(block: schema.ResourceBlock, status: Status, used: Sequence[str]) -> Status:
    """Return the status of a block; a block that a system links is in use, even if Unused."""
    if not used:
        return status
    if status.state == "Unused":
        state: CompositionState = "ComposedAndAvailable" if status.shareable else "Composed"
        what = f"found Unused, expected {state}: it is part of {name_some(used, 1)}"
        block.remark(what, schema.ResourceBlock.composition_state)
        status = replace(status, state=state)
    return replace(status, compositions=max(status.compositions, len(used)))
