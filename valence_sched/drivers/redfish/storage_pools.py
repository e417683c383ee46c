# SPDX-License-Identifier: Apache-2.0
"""Storage pools as stocks: what volumes are made of, where the service lets them be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from valence_sched.drivers.fields import Json, NamedResource
from valence_sched.drivers.links import LinkedDocuments, link_path
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.schema import (
    CapacitySource,
    ProvidingDrive,
    StoragePool,
    Volume,
)
from valence_sched.drivers.redfish.usable import condition_of, note_condition
from valence_sched.model.inventory import Stock

STORAGE = "storage_gib"
GIB = 2**30
#: Returns the pools that the links of zones name, None for no links.
ZoneIds = Callable[[tuple[str, ...]], tuple[str, ...] | None]


def stocks(
    service: LinkedDocuments, root: schema.ServiceRoot, pools: tuple[str, ...], zone_ids: ZoneIds
) -> tuple[Stock, ...]:
    """Return the storage pools of all storage systems, each once.

    Redfish does not say which zones reach one, so each stands in all ``pools`` unless it says
    itself. One that no volume can be made of is noted and left out.
    """
    found: dict[str, Stock] = {}
    for holder in service.follow((*root.storage, *root.storage_services), schema.StorageHolder,
                                 root.uri):  # fmt: skip
        every = list(service.follow(holder.pools, StoragePool, holder.uri))
        for pool, total, used in pool_sizes(service, every, {}):
            if pool.uri in found or not is_usable(pool):
                continue
            if volume_collection(pool.json, holder.json) is None:
                what = "found no AllocatedVolumes, expected it: no volume can be made of it"
                pool.notes.remark(f"{pool.uri}: {what} (left out)")
                continue
            found[pool.uri] = _stock(pool, total, used, zone_ids(pool.zones) or pools)
    return tuple(found.values())


def pool_stock(service: LinkedDocuments, pool: StoragePool) -> Stock:
    """Return one storage pool as a stock in GiB; without a size where that is unknown."""
    sizes = next(((total, used) for _, total, used in pool_sizes(service, [pool], {})), (None, 0.0))
    return _stock(pool, *sizes)


def _stock(
    pool: StoragePool, total: float | None, used: float, pools: tuple[str, ...] = ()
) -> Stock:
    least, step, most = (gib(size) for size in (pool.min_bytes, pool.step_bytes, pool.max_bytes))
    return Stock(
        uri=pool.uri,
        resource=STORAGE,
        unit="GiB",
        name=pool.name,
        pools=pools,
        total=gib(total),
        used=gib(used) or 0.0,
        min=least or 0.0,
        max=most,
        step=step or 0.0,
    )


def pool_sizes(
    service: LinkedDocuments, pools: Iterable[StoragePool], drives: dict[str, set[str]]
) -> Iterator[tuple[StoragePool, float | None, float]]:
    """Yield pools with their size and what is used of it, in bytes; a size is None if unknown.

    A physical volume is left out beside the group that it is part of. ``drives`` gets the URIs of
    the drives that each pool is made of.
    """
    every = {pool.uri: pool for pool in pools}
    totals = {uri: _pool_bytes(service, pool) for uri, pool in every.items()}
    parts: dict[str, set[str]] = {}  # the pools that are made of a pool
    for uri, pool in every.items():
        for source in sources_of(pool):
            for of in service.uris(source.pools, uri):
                parts.setdefault(of, set()).add(uri)
    for uri, pool in every.items():
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
            made_of = (it for source in sources_of(pool) for it in source.drives)
            drives[uri] = set(service.uris(made_of, uri))
        yield pool, total, max(used or 0, sum(size for size in cut if size))


def _pool_bytes(service: LinkedDocuments, pool: StoragePool) -> float | None:
    """Return the size of a pool: its own, else that of what it is made of, else None."""
    if pool.total_bytes:
        return pool.total_bytes
    sizes = [
        size
        for source in sources_of(pool)
        for size in (
            [source.size_bytes]
            if source.size_bytes is not None
            else [it.size_bytes for it in service.follow(source.drives, ProvidingDrive, pool.uri)]
            or [None]
        )
    ]
    return sum_or_unknown(pool, StoragePool.total_bytes.path, pool.total_bytes, sizes)


def _bytes_of_volumes(service: LinkedDocuments, pool: StoragePool) -> float | None:
    """Return what the volumes of a pool hold, None if it does not link them or one is unknown."""
    volumes = service.follow(pool.volumes, Volume, pool.uri)
    sizes = [volume.capacity_bytes for volume in volumes] if pool.volumes else [None]
    return None if None in sizes else sum(size for size in sizes if size)


def sources_of(pool: StoragePool) -> Iterator[CapacitySource]:
    """Return what a pool is made of."""
    return (pool.part(CapacitySource, json, "CapacitySources") for json in pool.sources)


def sum_or_unknown(
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


def is_usable(resource: NamedResource) -> bool:
    """Return whether a resource can be used; one that cannot, or not without doubt, is noted."""
    condition = condition_of(resource, with_parts=False)
    note_condition(resource, condition, "left out")
    return condition.counts


def volume_collection(pool: Json, holder: Json) -> str | None:
    """Return where a volume of a pool is posted to: its own collection, or its holder's."""
    for link in (pool.get("AllocatedVolumes"), holder.get("Volumes")):
        if isinstance(link, dict) and isinstance(uri := link.get("@odata.id"), str) and uri:
            return link_path(uri)
    return None


def holder_uri(pool: str) -> str:
    """Return the storage system of a pool by the pool's URI."""
    return pool.rpartition("/")[0].rpartition("/")[0]


def gib(size_bytes: float | None) -> float | None:
    """Return bytes in GiB."""
    return None if size_bytes is None else round(size_bytes / GIB, 9)
