# SPDX-License-Identifier: Apache-2.0
"""Storage pools and logical drive groups of a rack as stocks.

A pool or group that does not tell its size has that of its drives. A physical volume is not a stock
beside the group that it is part of, and of two that share a drive only the first has a known size:
nothing is handed out twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers.fields import NamedResource
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.schema import StoragePool
from valence_sched.drivers.redfish.stocks import (
    STORAGE,
    gib,
    is_usable,
    pool_sizes,
    sources_of,
    sum_or_unknown,
)
from valence_sched.drivers.rsd.schema import LogicalDrive, PhysicalDrive, StorageService
from valence_sched.model.inventory import Stock
from valence_sched.model.quantity import format_count

_GROUPS = ("lvg", "pool")
#: What stocks are made of: the URIs of the drives of each, by its URI.
Drives = dict[str, set[str]]


def stocks(
    service: LinkedDocuments, storages: Iterable[StorageService], pools: tuple[str, ...]
) -> tuple[Stock, ...]:
    """Return what volumes are cut from, each once, in GiB; it stands in all ``pools``."""
    found: dict[str, Stock] = {}
    drives: Drives = {}
    for storage in storages:
        if not is_usable(storage):
            continue
        newer = list(_pools(service, storage, drives))
        older = list(_groups(service, storage, drives))
        if newer and older:  # the two generations of one service may list the same drives
            groups = format_count(len(older), "group")
            what = f"found storage pools and {groups} of logical drives, expected one"
            service.notes.remark(f"{storage.uri}: {what} (what is free of the groups is unknown)")
            older = [replace(stock, total=None) for stock in older]
        for stock in newer + older:
            found.setdefault(stock.uri, replace(stock, pools=pools))
    return tuple(_each_drive_once(service, found, drives))


def drives_of_storage(service: LinkedDocuments, storages: Iterable[StorageService]) -> set[str]:
    """Return the URIs of the drives that storage pools are made of: no node can have them."""
    return {
        uri
        for storage in storages
        for pool in service.follow(storage.pools, StoragePool, storage.uri)
        for source in sources_of(pool)
        for uri in service.uris(source.drives, pool.uri)
    }


def _each_drive_once(
    service: LinkedDocuments, found: dict[str, Stock], drives: Drives
) -> Iterator[Stock]:
    """Yield the stocks; of one that shares a drive with another the size is unknown."""
    owners: dict[str, str] = {}
    for uri, stock in found.items():
        shared = sorted({owners[drive] for drive in drives.get(uri, ()) if drive in owners})
        for drive in drives.get(uri, ()):
            owners.setdefault(drive, uri)
        if shared and stock.total is not None:
            what = f"found drives that {shared[0]} has, too, expected its own"
            service.notes.remark(f"{uri}: {what} (what is free is unknown)")
        yield replace(stock, total=None) if shared else stock


def _pools(service: LinkedDocuments, storage: StorageService, drives: Drives) -> Iterator[Stock]:
    every = list(service.follow(storage.pools, StoragePool, storage.uri))
    for pool, total, used in pool_sizes(service, every, drives):
        if is_usable(pool):
            yield _stock(pool, gib(total), gib(used))


def _groups(service: LinkedDocuments, storage: StorageService, drives: Drives) -> Iterator[Stock]:
    every = {it.uri: it for it in service.follow(storage.drives, LogicalDrive, storage.uri)}
    cut: dict[str, dict[str, LogicalDrive]] = {uri: {} for uri in every}
    for uri, drive in every.items():
        for of in service.uris(drive.groups, uri):
            cut.setdefault(of, {})[uri] = drive
        for volume in service.uris(drive.used_by, uri):
            if volume in every:
                cut[uri][volume] = every[volume]
    # A group that a drive is part of, which is no group itself: a physical volume.
    parts = {uri: [it for it in of if _is_named_group(of[it])] for uri, of in cut.items()
             if uri in every and not _is_named_group(every[uri])}  # fmt: skip
    members = {it: [uri for uri in parts if it in parts[uri]] for it in every}
    physical = {uri: set(service.uris(drive.physical, uri)) for uri, drive in every.items()}
    named = {it for uri in every if _is_named_group(every[uri]) for it in physical[uri]}
    for uri, drive in every.items():
        groups = [it for it in service.uris(drive.groups, uri) if it not in members[uri]]
        is_group = _is_named_group(drive) or drive.physical
        is_part = parts.get(uri) or (not _is_named_group(drive) and physical[uri] & named)
        if not is_group or is_part or groups or not is_usable(drive):
            continue
        volumes = cut[uri] | {it: of for part in members[uri] for it, of in cut[part].items()}
        sizes = [of.size_gib for it, of in volumes.items() if it != uri]
        total = drive.size_gib or _group_gib(service, drive, [every[it] for it in members[uri]])
        if None in sizes:
            what = "found a volume of unknown size (what is free is unknown)"
            drive.notes.remark(f"{uri}: {what}")
            total = None
        drives[uri] = physical[uri].union(*(physical[it] for it in members[uri]))
        yield _stock(drive, total, sum(size for size in sizes if size))


def _is_named_group(drive: LogicalDrive) -> bool:
    return (drive.mode or "").casefold() in _GROUPS


def _group_gib(
    service: LinkedDocuments, group: LogicalDrive, parts: Sequence[LogicalDrive]
) -> float | None:
    """Return the size of what a group is made of: physical volumes, else drives; else None."""
    drives = service.follow(group.physical, PhysicalDrive, group.uri)
    sizes = [it.size_gib for it in parts] or [it.size_gib for it in drives]
    return sum_or_unknown(group, LogicalDrive.size_gib.path, group.size_gib, sizes)


def _stock(of: NamedResource, total_gib: float | None, used_gib: float | None) -> Stock:
    return Stock(
        uri=of.uri,
        resource=STORAGE,
        unit="GiB",
        name=of.name,
        total=None if total_gib is None else float(total_gib),
        used=float(used_gib or 0),
    )
