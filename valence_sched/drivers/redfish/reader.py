# SPDX-License-Identifier: Apache-2.0
"""Reads the Redfish composition resources of a pod manager as inventory nouns.

The same code reads a recorded tree and a live service: it needs only ``LinkedDocuments``. State
is read strictly: of contradicting statements the one that keeps a block from being used wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import block_status, device_owners
from valence_sched.drivers.redfish.describe import Describer
from valence_sched.drivers.redfish.limits import LimitsByZone
from valence_sched.drivers.redfish.memory_domains import stocks
from valence_sched.drivers.redfish.schema import (
    Collection,
    CompositionService,
    ListedSystem,
    ResourceBlock,
    ServiceRoot,
    Zone,
)
from valence_sched.drivers.redfish.topology import block_topology
from valence_sched.model.inventory import WHOLE_POOL, Block, FullBlock, FullPodm, Node, Pool, Status

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
    nodes = tuple(_nodes(service, found.root))
    pools, members = _pools(service, found)
    everywhere = tuple(pool.id for pool in pools)
    amounts = stocks(service, found.root, everywhere)
    if not found.blocks and not amounts:
        service.notes.remark(
            f"{found.root.uri}: found no resource block and no memory domain to compose"
        )
    return FullPodm(
        id=id_,
        name=found.root.name,
        driver=driver,
        pools=pools,
        blocks=tuple(_blocks(service, found.blocks, nodes, members)),
        stocks=amounts,
        nodes=nodes,
    )


def _find(service: LinkedDocuments) -> RedfishResources:
    root = _root(service)
    services = list(service.follow(root.composition, CompositionService, root.uri))
    zones = [
        zone
        for part in services
        for zone in service.follow(part.zones, Zone, part.uri)
        if zone.leads
    ]
    links = chain(
        service.follow(root.blocks, ResourceBlock, root.uri),
        *(service.follow(part.blocks, ResourceBlock, part.uri) for part in services),
        *(service.follow(zone.blocks, ResourceBlock, zone.uri) for zone in zones),
    )
    blocks: dict[str, ResourceBlock] = {}
    for block in links:
        blocks.setdefault(block.uri, block)
    return RedfishResources(root, services, zones, list(blocks.values()))


def _root(service: LinkedDocuments) -> ServiceRoot:
    """Return the service root; without one, a root that links the usual URIs."""
    if json := service.json(ROOT, "the protocol"):
        return ServiceRoot(ROOT, json, service.notes)
    guesses = {name: {"@odata.id": f"{ROOT}/{name}"} for name in _ROOT_LINKS}
    return ServiceRoot(ROOT, guesses, service.notes)


def _pools(
    service: LinkedDocuments, found: RedfishResources
) -> tuple[tuple[Pool, ...], dict[str, list[str]]]:
    """Return the pools, and the pools of each block by its URI."""
    limits = LimitsByZone(service, _collections(service, found))
    if not found.zones:
        whole = (Pool(id=WHOLE_POOL, limits=limits.of(None)),) if found.blocks else ()
        return whole, {block.uri: [WHOLE_POOL] for block in found.blocks}
    ids = _ids(found.zones)
    pools, members = [], {block.uri: [] for block in found.blocks}  # type: ignore[var-annotated]
    for zone, id_ in zip(found.zones, ids, strict=True):
        pools.append(Pool(id=id_, name=zone.name, limits=limits.of(zone)))
        for uri in dict.fromkeys(service.uri(link, zone.uri) for link in zone.blocks):
            if uri in members:
                members[uri].append(id_)
    return tuple(pools), members


def _ids(zones: Iterable[Zone]) -> list[str]:
    """Return the last part of each zone's URI, or all of it where two zones share that part."""
    lasts = [zone.uri.rpartition("/")[2] for zone in zones]
    counts = Counter(lasts)
    return [
        last if counts[last] == 1 else zone.uri for zone, last in zip(zones, lasts, strict=True)
    ]


def _collections(service: LinkedDocuments, found: RedfishResources) -> Iterator[Collection]:
    yield from service.collections(found.root.systems, found.root.uri)
    yield from service.collections(found.root.blocks, found.root.uri)
    for part in found.services:
        yield from service.collections(part.blocks, part.uri)
        yield from service.collections(part.zones, part.uri)


def _nodes(service: LinkedDocuments, root: ServiceRoot) -> Iterator[Node]:
    for system in service.follow(root.systems, ListedSystem, root.uri):
        if (system.type or "").casefold() == "composed":
            uris = (service.uri(link, system.uri) for link in system.blocks)
            blocks = tuple(dict.fromkeys(uri for uri in uris if uri))
            yield Node(uri=system.uri, name=system.name, blocks=blocks)


def _blocks(
    service: LinkedDocuments,
    blocks: list[ResourceBlock],
    nodes: tuple[Node, ...],
    members: dict[str, list[str]],
) -> Iterator[FullBlock]:
    states = block_status.statuses(blocks, nodes)
    owned = device_owners.devices_by_block(service, blocks, states)
    describer = Describer()
    for block in blocks:
        status: Status = states[block.uri]
        if status.slots and not members[block.uri]:
            service.notes.remark(
                f"{block.uri}: found in no zone, expected in one (no node can have it)"
            )
        yield Block(
            uri=block.uri,
            name=block.name,
            type=block_status.types(block),
            pools=tuple(members[block.uri]),
            places=block_topology(service, block, owned[block.uri]),
            status=status,
            devices=describer.describe(owned[block.uri]),
        )
