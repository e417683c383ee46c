# SPDX-License-Identifier: Apache-2.0
"""Finds the devices of each block and assigns each device to one block.

Finding is apart from describing (``device_nouns``) because one device can be reached from two
blocks: its owner is decided over the whole pod manager before anything is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.device_schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    MemorySummary,
    NetworkAdapter,
    NetworkInterface,
    Port,
    ProcessorDevice,
    ProcessorSummary,
    SimpleStorage,
    Storage,
)
from valence_sched.drivers.redfish.schema import DeviceHolder, ResourceBlock, System
from valence_sched.model.inventory import Status

IN_USE = ("Composing", "Composed", "ComposedAndAvailable")


def devices_of_block(service: LinkedDocuments, block: ResourceBlock) -> dict[str, Device]:
    """Return the devices of a block, by URI, in the order of its links."""
    found = _direct_devices(service, block)
    for system in service.follow(block.systems, System, block.uri):
        found |= devices_of_system(service, system)
    return found


def devices_of_system(service: LinkedDocuments, system: System) -> dict[str, Device]:
    """Return the devices of a system, by URI, those of its summaries last."""
    found = _direct_devices(service, system)
    for device in _summaries(system, found):
        found[device.uri] = device
    return found


def devices_by_block(
    service: LinkedDocuments, blocks: Iterable[ResourceBlock], statuses: Mapping[str, Status]
) -> dict[str, list[Device]]:
    """Return the devices of each block by its URI, every device in one block only.

    A device that several blocks reach belongs to the one in use, so that it is never free
    twice; else to one that is not free for another reason; else to the first.
    """
    return assign_devices(
        service, {block.uri: devices_of_block(service, block) for block in blocks}, statuses
    )


def assign_devices(
    service: LinkedDocuments,
    candidates: Mapping[str, dict[str, Device]],
    statuses: Mapping[str, Status],
) -> dict[str, list[Device]]:
    """Return the devices of each block, as :func:`owned`, of the devices that each reaches."""
    holders: dict[str, list[str]] = {}
    for block, found in candidates.items():
        for uri in found:
            holders.setdefault(uri, []).append(block)
    owner = {uri: of[0] for uri, of in holders.items()}
    for uri, of in holders.items():
        if len(of) > 1:
            owner[uri] = min(of, key=lambda b: _rank(statuses[b]))
            found_in = f"found in {', '.join(of)}, expected one block"
            service.notes.remark(f"{uri}: {found_in} ({owner[uri]} has it)")
    return {
        block: [device for uri, device in found.items() if owner[uri] == block]
        for block, found in candidates.items()
    }


def _rank(status: Status) -> int:
    if status.state in IN_USE or status.compositions:
        return 0
    return 1 if status.slots == 0 else 2


def _direct_devices(service: LinkedDocuments, holder: DeviceHolder) -> dict[str, Device]:
    where = holder.uri
    storages = list(service.follow(holder.storage, Storage, where))
    drives = [
        drive
        for storage in storages
        for drive in service.follow(storage.drives, DriveDevice, storage.uri)
    ]
    groups: tuple[Iterable[Device], ...] = (
        service.follow(holder.processors, ProcessorDevice, where),
        service.follow(holder.memory, MemoryDevice, where),
        service.follow(holder.drives, DriveDevice, where),
        drives,
        _simple_drives(service, holder, storages, bool(drives)),
        _nics(service, holder),
    )
    return {device.uri: device for group in groups for device in group}


def _summaries(system: System, listed: dict[str, Device]) -> Iterator[Device]:
    """Yield the summaries of a system, where it lists no device of that kind."""
    kinds = {type(device) for device in listed.values()}
    if ProcessorDevice not in kinds:
        for json in system.cpus:
            yield system.part(ProcessorSummary, json, "ProcessorSummary")
    if MemoryDevice not in kinds:
        for json in system.ram:
            yield system.part(MemorySummary, json, "MemorySummary")


def _simple_drives(
    service: LinkedDocuments, holder: DeviceHolder, storages: Iterable[Storage], has_drives: bool
) -> Iterator[Device]:
    """Yield the drives that have no URI, unless they were read already.

    A system shows the same drives twice, as Storage and as the older SimpleStorage; a block
    does so only where SimpleStorage says which Storage it is a view of.
    """
    if has_drives and isinstance(holder, System):
        return
    known = {storage.uri for storage in storages}
    for simple in service.follow(holder.simple_storage, SimpleStorage, holder.uri):
        if not known & {service.uri(link, simple.uri) for link in simple.same_as}:
            for index, json in enumerate(simple.devices):
                yield simple.part(DriveDevice, json, f"Devices/{index}")


def _nics(service: LinkedDocuments, holder: DeviceHolder) -> Iterator[Device]:
    """Yield Ethernet interfaces, and adapter ports that none of them is a view of.

    A system shows the same hardware in both ways, so there the ports only stand in.
    """
    seen = list(service.follow(holder.ethernet, EthernetInterface, holder.uri))
    yield from seen
    if seen and isinstance(holder, System):
        return
    known = {service.uri(link, nic.uri) for nic in seen for link in nic.ports}
    for interface in service.follow(holder.network, NetworkInterface, holder.uri):
        ports = _ports(service, interface)
        yield from (port for port in ports if port.uri not in known)
        if not ports:
            yield interface


def _ports(service: LinkedDocuments, interface: NetworkInterface) -> list[Port]:
    ports = list(service.follow(interface.ports, Port, interface.uri))
    if not ports:
        for adapter in service.follow(interface.adapter, NetworkAdapter, interface.uri):
            ports += service.follow(adapter.ports, Port, adapter.uri)
    return ports
