# SPDX-License-Identifier: Apache-2.0
"""Stocks: CXL memory domains, and storage pools for volumes."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers.fields import Field, Json, NamedResource
from valence_sched.drivers.links import LinkedDocuments, link_path
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.describe import is_persistent
from valence_sched.model.inventory import Stock

STORAGE = "storage_gib"
GIB = 2**30
#: Returns the pools of linked zones, None without links.
ZoneIds = Callable[[tuple[str, ...]], tuple[str, ...] | None]
PoolsOf = Callable[[schema.MemoryDomain | schema.StoragePool], tuple[str, ...]]
VOLATILE, PERSISTENT = "cxl_memory_mib", "cxl_pmem_mib"


def stocks(
    service: LinkedDocuments, root: schema.ServiceRoot, pools: tuple[str, ...], zone_ids: ZoneIds
) -> tuple[Stock, ...]:
    """Return the memory domains of all chassis and systems, and all storage pools, each once.

    Redfish has no link from a zone to a stock, so each stock is in all pools unless the stock names
    its pools. A stock without a collection for new chunks or volumes is noted and left out.
    """

    def pools_of(stock: schema.MemoryDomain | schema.StoragePool) -> tuple[str, ...]:
        return zone_ids(stock.zones) or pools

    return (*_memory(service, root, pools_of), *_storage(service, root, pools_of))


def _storage(service: LinkedDocuments, root: schema.ServiceRoot, pools_of: PoolsOf) -> list[Stock]:
    found: dict[str, Stock] = {}
    links = (*root.storage, *root.storage_services)
    for holder in service.follow(links, schema.StorageHolder, root.uri):
        every = list(service.follow(holder.pools, schema.StoragePool, holder.uri))
        for pool, total, used in pool_sizes(service, every, {}):
            if pool.uri in found or not is_usable(pool):
                continue
            if volume_collection(pool.json, holder.json) is None:
                expected = "expected a collection for new volumes"
                pool.remark(f"found no AllocatedVolumes, {expected} (left out)")
                continue
            found[pool.uri] = _stock(pool, total, used, pools_of(pool))
    return list(found.values())


def pool_stock(service: LinkedDocuments, pool: schema.StoragePool) -> Stock:
    sizes = next(((total, used) for _, total, used in pool_sizes(service, [pool], {})), (None, 0.0))
    return _stock(pool, *sizes)


def _stock(
    pool: schema.StoragePool, total: float | None, used: float, pools: tuple[str, ...] = ()
) -> Stock:
    least, step, most = (gib(size) for size in (pool.min_bytes, pool.step_bytes, pool.max_bytes))
    stock = storage_stock(pool, gib(total), gib(used))
    return replace(stock, pools=pools, min=least or 0.0, max=most, step=step or 0.0)


def storage_stock(of: NamedResource, total_gib: float | None, used_gib: float | None) -> Stock:
    total, used = None if total_gib is None else float(total_gib), float(used_gib or 0)
    return Stock(uri=of.uri, resource=STORAGE, unit="GiB", name=of.name, total=total, used=used)


def pool_sizes(
    service: LinkedDocuments, pools: Iterable[schema.StoragePool], drives: dict[str, set[str]]
) -> Iterator[tuple[schema.StoragePool, float | None, float]]:
    """Yield pools with their size and their used size in bytes; None for an unknown size.

    A physical volume of a group is left out. ``drives`` gets the URIs of the drives of each pool.
    """
    every = {pool.uri: pool for pool in pools}
    totals = {uri: _pool_bytes(service, pool) for uri, pool in every.items()}
    parts: dict[str, set[str]] = defaultdict(set)  # nested pools
    for uri, pool in every.items():
        for source in sources_of(pool):
            for of in service.uris(source.pools, uri):
                parts[of].add(uri)
    for uri, pool in every.items():
        total, used = totals[uri], pool.used_bytes
        cut = [totals[it] for it in parts.get(uri, ())]
        if cut and total is not None and total <= sum(size for size in cut if size):
            continue  # a physical volume, which belongs wholly to its group
        if used is None and total is not None:
            volumes = service.follow(pool.volumes, schema.Volume, uri)
            sizes = [volume.capacity_bytes for volume in volumes] if pool.volumes else [None]
            used = None if None in sizes else sum(size for size in sizes if size)
        if (used is None and total is not None) or None in cut:
            what = "found none, expected a number of bytes (its free size is unknown)"
            pool.remark(what, schema.StoragePool.used_bytes)
            total = None
        if not cut:
            made_of = (it for source in sources_of(pool) for it in source.drives)
            drives[uri] = set(service.uris(made_of, uri))
        yield pool, total, max(used or 0, sum(size for size in cut if size))


def _pool_bytes(service: LinkedDocuments, pool: schema.StoragePool) -> float | None:
    if pool.total_bytes:
        return pool.total_bytes
    sizes: list[float | None] = []
    for source in sources_of(pool):
        if source.size_bytes is not None:
            sizes.append(source.size_bytes)
            continue
        drives = service.follow(source.drives, schema.ProvidingDrive, pool.uri)
        sizes += [it.size_bytes for it in drives] or [None]
    return sum_or_unknown(pool, schema.StoragePool.total_bytes, sizes)


def sources_of(pool: schema.StoragePool) -> Iterator[schema.CapacitySource]:
    return (pool.part(schema.CapacitySource, json, "CapacitySources") for json in pool.sources)


def sum_or_unknown(
    of: NamedResource, field: Field[float | None], sizes: Sequence[float | None]
) -> float | None:
    """Return the sum of all parts; None and a note if a part is unknown or all are missing."""
    total, found = sum(size for size in sizes if size), field.of(of)
    if total and None not in sizes:
        return total
    if found == 0 and not sizes:
        return 0.0
    what = "none" if found is None else "0"
    of.remark(f"found {what}, expected a size (its free size is unknown)", field)
    return None


def is_usable(resource: NamedResource) -> bool:
    condition = schema.condition_of(resource, with_parts=False)
    schema.note_condition(resource, condition, "left out")
    return condition.counts


def volume_collection(pool: Json, holder: Json) -> str | None:
    """Return the collection for new volumes of a pool: its own, or its storage system's."""
    for link in (pool.get("AllocatedVolumes"), holder.get("Volumes")):
        if isinstance(link, dict) and isinstance(uri := link.get("@odata.id"), str) and uri:
            return link_path(uri)
    return None


def holder_uri(pool: str) -> str:
    return pool.rpartition("/")[0].rpartition("/")[0]


def gib(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / GIB, 9)


def _memory(service: LinkedDocuments, root: schema.ServiceRoot, pools_of: PoolsOf) -> list[Stock]:
    found: dict[str, Stock] = {}
    owners: dict[str, str] = {}  # the domain of each module
    holders: Iterable[schema.Chassis | schema.ListedSystem] = itertools.chain(
        service.follow(root.chassis, schema.Chassis, root.uri),
        service.follow(root.systems, schema.ListedSystem, root.uri),
    )
    domains = (service.follow(of.domains, schema.MemoryDomain, of.uri) for of in holders)
    for domain in itertools.chain.from_iterable(domains):
        if domain.creatable is None:
            what = "found none, expected true or false (left out)"
            domain.remark(what, schema.MemoryDomain.creatable)
        if domain.uri in found or not domain.creatable:
            continue
        if not domain.chunks:
            domain.remark("found no MemoryChunks, expected a collection for new chunks (left out)")
        elif not domain.leads:
            schema.note_condition(domain, schema.condition_of(domain, with_parts=False), "left out")
        else:
            stock = domain_stock(service, domain, pools_of(domain))
            modules = _modules(service, domain)
            shared = next((owners[it.uri] for it in modules if it.uri in owners), None)
            if shared and not domain.size_mib and stock.total is not None:
                what = f"found modules that {shared} also has, expected others"
                domain.remark(f"{what} (its size is unknown)")
                stock = replace(stock, total=None)
            owners.update(dict.fromkeys((it.uri for it in modules), domain.uri))
            found[domain.uri] = stock
    return list(found.values())


def _modules(service: LinkedDocuments, domain: schema.MemoryDomain) -> list[schema.MemoryDevice]:
    sets = [domain.part(schema.MemorySet, json, "InterleavableMemorySets") for json in domain.sets]
    links = (link for part in sets for link in part.modules)
    modules = service.follow(links, schema.MemoryDevice, domain.uri)
    return [module for module in modules if schema.condition_of(module).counts]


def domain_stock(
    service: LinkedDocuments, domain: schema.MemoryDomain, pools: tuple[str, ...] = ()
) -> Stock:
    modules = _modules(service, domain)
    chunks = list(service.follow(domain.chunks, schema.MemoryChunks, domain.uri))
    kinds = {chunk.kind.casefold() for chunk in chunks if chunk.kind}
    is_pmem = not kinds.isdisjoint(("pmem", "block"))
    if not kinds and modules:  # without chunks the modules decide
        is_pmem = all(is_persistent(module) for module in modules)
    sizes = [chunk.size_mib for chunk in chunks]
    used = sum(size for size in sizes if size)
    total = domain.size_mib or _size_of_modules(domain, modules, is_pmem)
    most = [_size(module) for module in modules]
    together = sum(size for size in most if size)
    if most and None not in most and domain.size_mib and together < domain.size_mib:
        what = f"found {domain.size_mib}, expected at most {together}, the sum of its modules"
        domain.remark(what, schema.MemoryDomain.size_mib)
    if None in sizes:
        domain.remark("found a chunk of unknown size (its free size is unknown)")
        total = None
    elif total and used > total and not domain.size_mib:
        what = f"found chunks of {used} MiB, expected at most {total}, the sum of its modules"
        domain.remark(f"{what} (its size is unknown)")
        total = None
    return Stock(
        uri=domain.uri,
        resource=PERSISTENT if is_pmem else VOLATILE,
        unit="MiB",
        name=domain.name,
        pools=pools,
        total=None if total is None else float(total),
        used=float(used),
        min=float(domain.min_mib or 0),
        max=None if domain.max_mib is None else float(domain.max_mib),
        step=float(domain.step_mib or 0),
    )


def _size_of_modules(
    domain: schema.MemoryDomain, modules: list[schema.MemoryDevice], is_pmem: bool
) -> int | None:
    """Return the sum of the modules; the volatile part of a persistent module is excluded."""
    pairs = zip(modules, [is_pmem or not is_persistent(module) for module in modules], strict=True)
    sizes = [_size(module) if whole else module.volatile_mib or 0 for module, whole in pairs]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else 0
    if domain.size_mib == 0 and not total and len(known) == len(sizes):
        return 0
    if domain.size_mib == 0 or (known and not total):
        found = "none" if domain.size_mib is None else 0
        effect = f"using {total}, the sum of its modules" if total else "its size is unknown"
        what = f"found {found}, expected a size, or a size of each module ({effect})"
        domain.remark(what, schema.MemoryDomain.size_mib)
    return total or None


def _size(module: schema.MemoryDevice) -> int | None:
    if is_persistent(module):  # of any size: some domains list all modules as one
        return module.capacity_mib
    return schema.plausible(module, schema.MemoryDevice.capacity_mib)  # type: ignore[no-any-return]
