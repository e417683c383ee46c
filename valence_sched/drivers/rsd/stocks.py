# SPDX-License-Identifier: Apache-2.0
"""Storage pools and logical drive groups of a rack as stocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from valence_sched.drivers.fields import NamedResource
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.schema import StoragePool
from valence_sched.drivers.redfish.storage_pools import GIB, STORAGE
from valence_sched.drivers.rsd.schema import LogicalDrive, StorageService
from valence_sched.model.inventory import Stock

_GROUPS = ("lvg", "pool")


def stocks(
    service: LinkedDocuments, storages: Iterable[StorageService], pools: tuple[str, ...]
) -> tuple[Stock, ...]:
    """Return what volumes are cut from, each once, in GiB; it stands in all ``pools``."""
    found: dict[str, Stock] = {}
    for storage in storages:
        if not _is_healthy(storage):
            continue
        for stock in (*_pools(service, storage, pools), *_groups(service, storage, pools)):
            found.setdefault(stock.uri, stock)
    return tuple(found.values())


def _pools(
    service: LinkedDocuments, storage: StorageService, pools: tuple[str, ...]
) -> Iterator[Stock]:
    for pool in service.follow(storage.pools, StoragePool, storage.uri):
        if not _is_healthy(pool):
            continue
        total, used = pool.total_bytes, pool.used_bytes
        if used is None and total is not None:
            path = StoragePool.used_bytes.path
            what = "found none, expected bytes (what is free is unknown)"
            pool.notes.remark(f"{pool.uri}: {path}: {what}")
            total = None
        yield _stock(pool, pools, _gib(total), _gib(used))


def _groups(
    service: LinkedDocuments, storage: StorageService, pools: tuple[str, ...]
) -> Iterator[Stock]:
    drives = {it.uri: it for it in service.follow(storage.drives, LogicalDrive, storage.uri)}
    cut: dict[str, dict[str, LogicalDrive]] = {}
    for uri, drive in drives.items():
        for link in drive.groups:
            cut.setdefault(service.uri(link, uri) or "", {})[uri] = drive
        for link in drive.used_by:
            volume = service.uri(link, uri) or ""
            if volume in drives:
                cut.setdefault(uri, {})[volume] = drives[volume]
    for uri, drive in drives.items():
        is_group = drive.physical or (drive.mode or "").casefold() in _GROUPS
        if is_group and not drive.groups and _is_healthy(drive):
            sizes = [volume.size_gib for volume in cut.get(uri, {}).values()]
            total = drive.size_gib
            if None in sizes:
                what = "found a volume of unknown size (what is free is unknown)"
                drive.notes.remark(f"{uri}: {what}")
                total = None
            yield _stock(drive, pools, total, sum(size for size in sizes if size))


def _stock(
    of: NamedResource, pools: tuple[str, ...], total_gib: float | None, used_gib: float | None
) -> Stock:
    return Stock(
        uri=of.uri,
        resource=STORAGE,
        unit="GiB",
        name=of.name,
        pools=pools,
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
