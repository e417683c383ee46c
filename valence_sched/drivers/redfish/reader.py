# SPDX-License-Identifier: Apache-2.0
"""Reads the Redfish composition resources of a pod manager as inventory nouns.

The same code reads a recorded tree and a live service: it needs only ``LinkedDocuments``. State
is read strictly: of contradicting statements the one that keeps a block from being used wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, get_args

from msgspec.structs import replace

from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import device_owners, memory_domains, storage_pools
from valence_sched.drivers.redfish.content_memo import ContentMemo
from valence_sched.drivers.redfish.describe import Describer, block_topology
from valence_sched.drivers.redfish.limits import LimitsByZone
from valence_sched.drivers.redfish.schema import (
    Collection,
    CompositionService,
    ListedSystem,
    ResourceBlock,
    ServiceRoot,
    Zone,
)
from valence_sched.drivers.redfish.storage_pools import ZoneIds
from valence_sched.model.inventory import (
    WHOLE_POOL,
    Block,
    BlockType,
    CompositionState,
    FullBlock,
    FullPodm,
    Node,
    Pool,
    Status,
)
from valence_sched.model.quantity import format_count

_STATES: dict[str, CompositionState] = {it.casefold(): it for it in get_args(CompositionState)}
_TYPES: dict[str, BlockType] = {it.casefold(): it for it in get_args(BlockType)}
#: The types of each block by its URI.
TypesByBlock = Mapping[str, tuple[BlockType, ...]]
#: The types of zones that are not of resource blocks, folded.
_OTHER_ZONES = ("default", "zoneofendpoints", "zoneofzones")
_ROOT_LINKS = ("CompositionService", "Systems", "Chassis")


class RedfishResources(NamedTuple):
    """The resources of a pod manager that name blocks."""

    root: ServiceRoot
    services: list[CompositionService]
    zones: list[Zone]
    blocks: list[ResourceBlock]


def read_podm(service: LinkedDocuments, id_: str, driver: str) -> FullPodm:
    """Read a pod manager; documents that are missing or wrong are noted and left out."""
    found = _find(service)
    nodes = tuple(_nodes(service, found))
    kinds = {block.uri: types(block) for block in found.blocks}
    pools, members = _pools(service, found, nodes, kinds)
    everywhere = tuple(pool.id for pool in pools)
    zone_ids = _zone_ids(service, found.zones)
    amounts = memory_domains.stocks(service, found.root, everywhere, zone_ids)
    amounts += storage_pools.stocks(service, found.root, everywhere, zone_ids)
    if not found.blocks and not amounts and found.services:
        what = "found no resource block, no memory domain and no storage pool to compose"
        service.notes.remark(f"{found.root.uri}: {what}")
    return FullPodm(
        id=id_,
        name=found.root.name,
        driver=driver,
        pools=pools,
        blocks=tuple(_blocks(service, found.blocks, nodes, members, kinds)),
        stocks=amounts,
        nodes=nodes,
    )


def _find(service: LinkedDocuments) -> RedfishResources:
    root = _root(service)
    services = list(service.follow(root.composition, CompositionService, root.uri))
    every = (zone for it in services for zone in service.follow(it.zones, Zone, it.uri))
    zones = [zone for zone in every if _is_of_blocks(zone)]
    lists = [(root.uri, root.blocks)]
    lists += [(it.uri, it.blocks) for it in services]
    lists += [(it.uri, it.blocks) for it in zones]
    blocks: dict[str, ResourceBlock] = {}
    for where, links in lists:
        for block in service.follow(links, ResourceBlock, where, blocks):
            blocks.setdefault(block.uri, block)
    return RedfishResources(root, services, zones, list(blocks.values()))


def _is_of_blocks(zone: Zone) -> bool:
    """Return whether a zone is one of resource blocks; a type that is no type is noted."""
    if not zone.leads and (zone.type or "").casefold() not in _OTHER_ZONES:
        what = f"found {zone.type}, expected ZoneOfResourceBlocks or another type (left out)"
        zone.notes.remark(f"{zone.uri}: {Zone.type.path}: {what}")
    return zone.leads


def _root(service: LinkedDocuments) -> ServiceRoot:
    """Return the service root; without one, a root that links the usual URIs."""
    if json := service.json(ROOT, "the protocol"):
        return ServiceRoot(ROOT, json, service.notes)
    guesses = {name: {"@odata.id": f"{ROOT}/{name}"} for name in _ROOT_LINKS}
    return ServiceRoot(ROOT, guesses, service.notes)


def _pools(
    service: LinkedDocuments, found: RedfishResources, nodes: Iterable[Node], kinds: TypesByBlock
) -> tuple[tuple[Pool, ...], dict[str, list[str]]]:
    def count(uris: Iterable[str]) -> Counter[BlockType]:
        return Counter(kind for uri in uris for kind in kinds.get(uri, ()))

    joined: Counter[BlockType] = Counter()  # the most blocks of each type of one node
    for node in nodes:
        joined |= count(node.blocks)
    zones = {zone.uri for zone in found.zones}
    limits = LimitsByZone(service, _collections(service, found), joined, zones)
    if not found.zones and not _lists_zones(service, found):
        whole = (Pool(id=WHOLE_POOL, limits=limits.of(None, count(kinds))),) if kinds else ()
        return whole, {block.uri: [WHOLE_POOL] for block in found.blocks}
    ids = _ids(found.zones)
    pools, members = [], {block.uri: [] for block in found.blocks}  # type: ignore[var-annotated]
    for zone, id_ in zip(found.zones, ids, strict=True):
        inside = dict.fromkeys(service.uris(zone.blocks, zone.uri))
        pools.append(Pool(id=id_, name=zone.name, limits=limits.of(zone, count(inside))))
        for uri in inside:
            if uri in members:
                members[uri].append(id_)
    return tuple(pools), members


def _lists_zones(service: LinkedDocuments, found: RedfishResources) -> bool:
    """Return whether there are zones though none could be read: then no pool is known."""
    lists = (it for part in found.services for it in service.collections(part.zones, part.uri))
    return any(service.json(uri, it.uri) is None
               for it in lists for uri in service.uris(it.members, it.uri))  # fmt: skip


def _zone_ids(service: LinkedDocuments, zones: list[Zone]) -> ZoneIds:
    """Return what finds the pools of the zones that a stock links; None where it links none."""
    ids = dict(zip((zone.uri for zone in zones), _ids(zones), strict=True))

    def of(links: tuple[str, ...]) -> tuple[str, ...] | None:
        uris = list(service.uris(links, ROOT))
        for uri in uris:
            if uri not in ids:
                service.notes.remark(f"{uri}: found no such zone, expected it: a stock links it")
        return tuple(ids[uri] for uri in uris if uri in ids) if links else None

    return of


def _ids(zones: Iterable[Zone]) -> list[str]:
    """Return the last part of each zone's URI, or all of it where two zones share that part."""
    lasts = [zone.uri.rpartition("/")[2] for zone in zones]
    counts = Counter(lasts)
    return [it.uri if counts[last] > 1 else last for it, last in zip(zones, lasts, strict=True)]


def _collections(service: LinkedDocuments, found: RedfishResources) -> Iterator[Collection]:
    yield from service.collections(found.root.systems, found.root.uri)
    yield from service.collections(found.root.blocks, found.root.uri)
    for part in found.services:
        yield from service.collections(part.blocks, part.uri)
        yield from service.collections(part.zones, part.uri)


def _nodes(service: LinkedDocuments, found: RedfishResources) -> Iterator[Node]:
    known = {block.uri for block in found.blocks}
    for system in service.follow(found.root.systems, ListedSystem, found.root.uri):
        if (system.type or "").casefold() != "composed":
            continue
        blocks = tuple(dict.fromkeys(service.uris(system.blocks, system.uri)))
        for uri in blocks:
            if uri not in known:
                what = f"found {uri}, expected a resource block that is listed"
                service.notes.remark(f"{system.uri}: {ListedSystem.blocks.path}: {what}")
        yield Node(uri=system.uri, name=system.name, blocks=blocks)


def _blocks(
    service: LinkedDocuments,
    blocks: list[ResourceBlock],
    nodes: tuple[Node, ...],
    members: dict[str, list[str]],
    kinds: TypesByBlock,
) -> Iterator[FullBlock]:
    states = statuses(blocks, nodes, service.shared(_status_memo))
    owned = device_owners.devices_by_block(service, blocks, states)
    describer = service.shared(Describer)
    for block in blocks:
        status = states[block.uri]
        if status.state == "Unknown" and (block.composition_state or "").casefold() not in _STATES:
            found = block.composition_state or "none"
            what = f"found {found}, expected one of {', '.join(get_args(CompositionState)[:-1])}"
            path = ResourceBlock.composition_state.path
            service.notes.remark(f"{block.uri}: {path}: {what} (no node can have it)")
        if not members[block.uri] and status.slots:
            what = "found in no zone, expected in one (no node can have it)"
            service.notes.remark(f"{block.uri}: {what}")
        yield Block(
            uri=block.uri,
            name=block.name,
            type=kinds[block.uri],
            pools=tuple(members[block.uri]),
            places=block_topology(service, block, owned[block.uri]),
            status=status,
            devices=describer.describe(owned[block.uri]),
        )


def statuses(
    blocks: Iterable[ResourceBlock],
    nodes: Iterable[Node],
    memo: ContentMemo[ResourceBlock, Status] | None = None,
) -> Mapping[str, Status]:
    """Return the status of each block by its URI; ``memo`` is of those that were read before."""
    used = Counter(uri for node in nodes for uri in set(node.blocks))
    alike = _status_memo() if memo is None else memo
    return {it.uri: _correct_by_nodes(it, alike.of(it), used.get(it.uri, 0)) for it in blocks}


def types(block: ResourceBlock) -> tuple[BlockType, ...]:
    """Return the types of a block without repetition; none, and unknown words, are noted."""
    found = [_TYPES.get(word.casefold()) for word in block.types]
    if len(found) == 1 and (only := found[0]):
        return (only,)
    told = ResourceBlock.types.raw(block)
    if told is None or None in found:
        what = "none (no limit on the blocks of a node counts it)" if told is None else told
        expected = "expected " + ", ".join(_TYPES.values())
        block.notes.remark(f"{block.uri}: ResourceBlockType: found {what}, {expected}")
    return tuple(dict.fromkeys(kind for kind in found if kind))


def _status_memo() -> ContentMemo[ResourceBlock, Status]:
    return ContentMemo(_status)


def _status(block: ResourceBlock) -> Status:
    word = block.composition_state or "Unknown"
    state = _STATES.get(word.casefold(), "Unknown")
    shareable = bool(block.sharing_capable and block.sharing_enabled)
    most = block.max_compositions
    if shareable and most is not None and block.compositions is None and state != "Unused":
        what = "found none, expected the nodes that use it (how many more can is unknown)"
        block.notes.remark(f"{block.uri}: {ResourceBlock.compositions.path}: {what}")
        most = None
    return Status(
        state=state,
        reserved=bool(block.reserved),
        enabled=None if block.state is None else block.state.casefold() == "enabled",
        health=block.health or block.rollup,  # type: ignore[arg-type]
        active=(block.pool or "").casefold() == "active",
        shareable=shareable,
        max_compositions=most,
        compositions=block.compositions or 0,
        client=block.client,
    )


def _correct_by_nodes(block: ResourceBlock, status: Status, used: int) -> Status:
    """Believe composed systems: a block they link is in use, whatever it says itself."""
    if not used:
        return status
    if status.state == "Unused":
        path = ResourceBlock.composition_state.path
        state: CompositionState = "ComposedAndAvailable" if status.shareable else "Composed"
        systems = format_count(used, "composed system")
        what = f"found Unused, expected {state}: {systems} with the block"
        block.notes.remark(f"{block.uri}: {path}: {what}")
        status = replace(status, state=state)
    return replace(status, compositions=max(status.compositions, used))
