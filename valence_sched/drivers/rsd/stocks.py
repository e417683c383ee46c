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
from valence_sched.drivers.rsd.schema import (
    CapacitySource,
    LogicalDrive,
    PhysicalDrive,
    ProvidingDrive,
    StoragePool,
    StorageService,
    Volume,
)
from valence_sched.model.inventory import Stock

STORAGE = "storage_gib"
GIB = 2**30

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
        if not _is_healthy(storage):
            continue
        newer = list(_pools(service, storage, drives))
        older = list(_groups(service, storage, drives))
        if newer and older:  # the two generations of one service may list the same drives
            what = f"found storage pools and {len(older)} group(s) of logical drives, expected one"
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
        for source in _sources(pool)
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
    every = {it.uri: it for it in service.follow(storage.pools, StoragePool, storage.uri)}
    totals = {uri: _pool_bytes(service, pool) for uri, pool in every.items()}
    parts: dict[str, set[str]] = {}  # the pools that are made of a pool
    for uri, pool in every.items():
        for source in _sources(pool):
            for of in service.uris(source.pools, uri):
                parts.setdefault(of, set()).add(uri)
    for uri, pool in every.items():
        if not _is_healthy(pool):
            continue
        total, used = totals[uri], pool.used_bytes
        cut = [totals[it] for it in parts.get(uri, ())]
        if cut and total is not None and total <= sum(size for size in cut if size):
            continue  # a physical volume: the group that it is part of has all of it
        if used is None and total is not None:
            used = _bytes_of_volumes(service, pool)
        if (used is None and total is not None) or None in cut:
            path = StoragePool.used_bytes.path
            what = "found none, expected bytes (what is free is unknown)"
            pool.notes.remark(f"{uri}: {path}: {what}")
            total = None
        if not cut:
            made_of = (it for source in _sources(pool) for it in source.drives)
            drives[uri] = set(service.uris(made_of, uri))
        yield _stock(pool, _gib(total), _gib(max(used or 0, sum(size for size in cut if size))))


def _pool_bytes(service: LinkedDocuments, pool: StoragePool) -> float | None:
    """Return the size of a pool: its own, else that of what it is made of, else None."""
    if pool.total_bytes:
        return pool.total_bytes
    sizes = [
        size
        for source in _sources(pool)
        for size in (
            [source.size_bytes]
            if source.size_bytes is not None
            else [it.size_bytes for it in service.follow(source.drives, ProvidingDrive, pool.uri)]
            or [None]
        )
    ]
    return _sum_or_unknown(pool, StoragePool.total_bytes.path, pool.total_bytes, sizes)


def _bytes_of_volumes(service: LinkedDocuments, pool: StoragePool) -> float | None:
    """Return what the volumes of a pool hold, None if it does not link them or one is unknown."""
    volumes = service.follow(pool.volumes, Volume, pool.uri)
    sizes = [volume.size_bytes for volume in volumes] if pool.volumes else [None]
    return None if None in sizes else sum(size for size in sizes if size)


def _sources(pool: StoragePool) -> Iterator[CapacitySource]:
    return (pool.part(CapacitySource, json, "CapacitySources") for json in pool.sources)


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
    physical = {uri: _own_drives(service, drive) for uri, drive in every.items()}
    named = {it for uri in every if _is_named_group(every[uri]) for it in physical[uri]}
    for uri, drive in every.items():
        groups = [it for it in service.uris(drive.groups, uri) if it not in members[uri]]
        is_group = _is_named_group(drive) or drive.physical
        is_part = parts.get(uri) or (not _is_named_group(drive) and physical[uri] & named)
        if not is_group or is_part or groups or not _is_healthy(drive):
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


def _own_drives(service: LinkedDocuments, drive: LogicalDrive) -> set[str]:
    return set(service.uris(drive.physical, drive.uri))


def _group_gib(
    service: LinkedDocuments, group: LogicalDrive, parts: Sequence[LogicalDrive]
) -> float | None:
    """Return the size of what a group is made of: physical volumes, else drives; else None."""
    drives = service.follow(group.physical, PhysicalDrive, group.uri)
    sizes = [it.size_gib for it in parts] or [it.size_gib for it in drives]
    return _sum_or_unknown(group, LogicalDrive.size_gib.path, group.size_gib, sizes)


def _sum_or_unknown(
    of: NamedResource, path: str, found: float | None, sizes: Sequence[float | None]
) -> float | None:
    """Return the sum of all parts, None and a note if one of them is unknown or there is none."""
    total = sum(size for size in sizes if size)
    if total and None not in sizes:
        return total
    if found == 0 and not sizes:
        return 0.0
    what = "none" if found is None else "0"
    of.notes.remark(f"{of.uri}: {path}: found {what}, expected a size (what is free is unknown)")
    return None


def _stock(of: NamedResource, total_gib: float | None, used_gib: float | None) -> Stock:
    return Stock(
        uri=of.uri,
        resource=STORAGE,
        unit="GiB",
        name=of.name,
        total=None if total_gib is None else float(total_gib),
        used=float(used_gib or 0),
    )


def _is_healthy(resource: NamedResource) -> bool:
    """Return whether a resource can be used; one that cannot is noted."""
    state, health = resource.state or "Enabled", resource.health or resource.rollup or "OK"
    if state.casefold() == "enabled" and health != "Critical":
        return True
    found = f"found {state} and {health}, expected Enabled and not Critical"
    resource.notes.remark(f"{resource.uri}: Status: {found} (left out)")
    return False


def _gib(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / GIB, 9)
