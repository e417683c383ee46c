# SPDX-License-Identifier: Apache-2.0
"""CXL memory domains as stocks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.describe import is_persistent
from valence_sched.drivers.redfish.device_schema import MemoryDevice
from valence_sched.drivers.redfish.plausibility import plausible
from valence_sched.drivers.redfish.storage_pools import ZoneIds
from valence_sched.drivers.redfish.usable import condition_of, note_condition
from valence_sched.model.inventory import Stock

VOLATILE, PERSISTENT = "cxl_memory_mib", "cxl_pmem_mib"


def stocks(
    service: LinkedDocuments, root: schema.ServiceRoot, pools: tuple[str, ...], zone_ids: ZoneIds
) -> tuple[Stock, ...]:
    """Return the memory domains of all chassis and systems, each once.

    Redfish does not say which zones reach a domain, so every domain stands in all ``pools`` unless
    it says itself. One without a collection to create chunks in is noted and left out.
    """
    found: dict[str, Stock] = {}
    owners: dict[str, str] = {}  # the domain of each module
    for domain in _domains(service, root):
        if domain.creatable is None:
            what = "found none, expected true or false (left out)"
            service.notes.remark(f"{domain.uri}: {schema.MemoryDomain.creatable.path}: {what}")
        if domain.uri not in found and domain.creatable:
            if not domain.chunks:
                what = "found no MemoryChunks, expected it: no chunk can be made of it"
                service.notes.remark(f"{domain.uri}: {what} (left out)")
            elif domain.leads:
                stock = domain_stock(service, domain, zone_ids(domain.zones) or pools)
                modules = _present_modules(service, domain)
                shared = next((owners[it.uri] for it in modules if it.uri in owners), None)
                if shared and not domain.size_mib and stock.total is not None:
                    what = f"found modules of {shared}, expected its own (its size is unknown)"
                    domain.notes.remark(f"{domain.uri}: {what}")
                    stock = replace(stock, total=None)
                owners.update(dict.fromkeys((it.uri for it in modules), domain.uri))
                found[domain.uri] = stock
            else:
                note_condition(domain, condition_of(domain, with_parts=False), "left out")
    return tuple(found.values())


def _domains(service: LinkedDocuments, root: schema.ServiceRoot) -> Iterator[schema.MemoryDomain]:
    for chassis in service.follow(root.chassis, schema.Chassis, root.uri):
        yield from service.follow(chassis.domains, schema.MemoryDomain, chassis.uri)
    for system in service.follow(root.systems, schema.ListedSystem, root.uri):
        yield from service.follow(system.domains, schema.MemoryDomain, system.uri)


def _present_modules(service: LinkedDocuments, domain: schema.MemoryDomain) -> list[MemoryDevice]:
    return [module for module in _modules(service, domain) if condition_of(module).counts]


def domain_stock(
    service: LinkedDocuments, domain: schema.MemoryDomain, pools: tuple[str, ...] = ()
) -> Stock:
    """Return a memory domain as a stock in MiB."""
    modules = _present_modules(service, domain)
    chunks = list(service.follow(domain.chunks, schema.MemoryChunks, domain.uri))
    is_pmem = _is_domain_persistent(chunks, modules)
    sizes = [chunk.size_mib for chunk in chunks]
    used = sum(size for size in sizes if size)
    total = domain.size_mib or _size_of_modules(domain, modules, is_pmem)
    _check_modules(domain, modules)
    if None in sizes:
        what = "found a chunk of unknown size (what is free is unknown)"
        domain.notes.remark(f"{domain.uri}: {what}")
        total = None
    elif total and used > total and not domain.size_mib:
        what = f"found chunks of {used} MiB, expected at most {total}, the sum of its modules"
        domain.notes.remark(f"{domain.uri}: {what} (its size is unknown)")
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
    domain: schema.MemoryDomain, modules: list[MemoryDevice], is_pmem: bool
) -> int | None:
    """Return the size of a domain that tells none: the sum of its modules, None if unknown.

    A domain of 0 MiB that has modules tells no size either. What is volatile of a persistent
    module belongs to a volatile domain.
    """
    sizes = [
        module.volatile_mib or 0 if is_persistent(module) and not is_pmem else _size(module)
        for module in modules
    ]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else 0
    path = schema.MemoryDomain.size_mib.path
    if domain.size_mib == 0 and not total and len(known) == len(sizes):
        return 0
    if domain.size_mib == 0 or (known and not total):
        found = "none" if domain.size_mib is None else 0
        taken = f"its modules have {total} together" if total else "it is unknown"
        what = f"found {found}, expected a size, or modules with a size each ({taken})"
        domain.notes.remark(f"{domain.uri}: {path}: {what}")
    return total or None


def _is_domain_persistent(chunks: list[schema.MemoryChunks], modules: list[MemoryDevice]) -> bool:
    """Return whether the memory is persistent, by its chunks, else by all of its modules."""
    kinds = {chunk.kind.casefold() for chunk in chunks if chunk.kind}
    if kinds:
        return not kinds.isdisjoint(("pmem", "block"))
    return bool(modules) and all(is_persistent(module) for module in modules)


def _modules(service: LinkedDocuments, domain: schema.MemoryDomain) -> Iterator[MemoryDevice]:
    sets = [domain.part(schema.MemorySet, json, "InterleavableMemorySets") for json in domain.sets]
    links = (link for part in sets for link in part.modules)
    return service.follow(links, MemoryDevice, domain.uri)


def _size(module: MemoryDevice) -> int | None:
    if is_persistent(module):  # of any size: some domains list all of theirs as one module
        return module.capacity_mib
    return plausible(module, MemoryDevice.capacity_mib)  # type: ignore[no-any-return]


def _check_modules(domain: schema.MemoryDomain, modules: list[MemoryDevice]) -> None:
    """Note a domain that promises more memory than its modules have."""
    sizes = [_size(module) for module in modules]
    known = [size for size in sizes if size is not None]
    if not known or len(known) != len(sizes) or not domain.size_mib:
        return
    if sum(known) < domain.size_mib:
        found = f"found {domain.size_mib}, expected at most {sum(known)}, all its modules together"
        domain.notes.remark(f"{domain.uri}: MemorySizeMiB: {found}")
