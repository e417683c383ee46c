# SPDX-License-Identifier: Apache-2.0
"""Storage pools as stocks: what volumes are made of, where the service lets them be made."""

from __future__ import annotations

from collections.abc import Callable

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import LinkedDocuments, link_path
from valence_sched.drivers.redfish import schema
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
        for pool in service.follow(holder.pools, schema.StoragePool, holder.uri):
            if pool.uri in found:
                continue
            problem = _problem(pool, holder)
            if problem:
                pool.notes.remark(f"{pool.uri}: {problem} (left out)")
            else:
                found[pool.uri] = pool_stock(pool, zone_ids(pool.zones) or pools)
    return tuple(found.values())


def pool_stock(pool: schema.StoragePool, pools: tuple[str, ...] = ()) -> Stock:
    """Return a storage pool as a stock in GiB; one of which the use is unknown has no total."""
    total, used = pool.total_bytes, pool.used_bytes
    if total is not None and used is None:
        what = "found none, expected bytes (what is free is unknown)"
        pool.notes.remark(f"{pool.uri}: {schema.StoragePool.used_bytes.path}: {what}")
        total = None
    least, step, most = (_gib(size) for size in (pool.min_bytes, pool.step_bytes, pool.max_bytes))
    return Stock(
        uri=pool.uri,
        resource=STORAGE,
        unit="GiB",
        name=pool.name,
        pools=pools,
        total=_gib(total),
        used=_gib(used) or 0.0,
        min=least or 0.0,
        max=most,
        step=step or 0.0,
    )


def volume_collection(pool: Json, holder: Json) -> str | None:
    """Return where a volume of a pool is posted to: its own collection, or its holder's."""
    for link in (pool.get("AllocatedVolumes"), holder.get("Volumes")):
        if isinstance(link, dict) and isinstance(uri := link.get("@odata.id"), str) and uri:
            return link_path(uri)
    return None


def holder_uri(pool: str) -> str:
    """Return the storage system of a pool by the pool's URI."""
    return pool.rpartition("/")[0].rpartition("/")[0]


def _problem(pool: schema.StoragePool, holder: schema.StorageHolder) -> str:
    state, health = pool.state or "Enabled", pool.health or pool.rollup or "OK"
    if state.casefold() != "enabled" or health == "Critical":
        return f"Status: found {state} and {health}, expected Enabled and not Critical"
    if volume_collection(pool.json, holder.json) is None:
        return "found no AllocatedVolumes, expected it: no volume can be made of it"
    return ""


def _gib(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / GIB, 9)
