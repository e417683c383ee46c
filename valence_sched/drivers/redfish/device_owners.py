# SPDX-License-Identifier: Apache-2.0
"""Finds the devices of each block and assigns each device to one block.

Finding is apart from describing (``describe``) because one device can be reached from two
blocks: its owner is decided over the whole pod manager before anything is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from valence_sched.drivers.fields import Link
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_schema as schema
from valence_sched.drivers.redfish.device_identity import merge_lists
from valence_sched.drivers.redfish.device_names import (
    DeviceList,
    Names,
    site_names,
    trusted_names,
)
from valence_sched.drivers.redfish.schema import DeviceHolder, ResourceBlock, System
from valence_sched.model.inventory import Status

IN_USE = ("Composing", "Composed", "ComposedAndAvailable")

#: The lists of a block or a system in which each link is one device, with its class.
_SINGLE: tuple[tuple[Link, type[schema.Device]], ...] = (
    (DeviceHolder.processors, schema.ProcessorDevice),
    (DeviceHolder.memory, schema.MemoryDevice),
    (DeviceHolder.drives, schema.DriveDevice),
)
#: Its other lists.
_STORAGES, _SIMPLE_STORAGES = DeviceHolder.storage.path, DeviceHolder.simple_storage.path
_NICS = frozenset((DeviceHolder.ethernet.path, DeviceHolder.network.path))

#: Devices by URI.
Devices = dict[str, schema.Device]


def devices_of_systems(
    service: LinkedDocuments, systems: Iterable[System]
) -> tuple[dict[str, Devices], Names]:
    """Return the devices of each system by its URI, those of its summaries last, and their names.

    The names are those that identify a device in whatever system it is listed.
    """
    lists = {it.uri: [*_lists(service, it)] for it in systems}
    trusted = trusted_names(lists, service.notes)
    merged = {it: merge_lists(it, of, trusted, service.notes) for it, of in lists.items()}
    for system in systems:
        found = merged[system.uri]
        found |= {it.uri: it for it in _summaries(system, lists[system.uri])}
    return merged, trusted


def devices_by_block(
    service: LinkedDocuments, blocks: Sequence[ResourceBlock], statuses: Mapping[str, Status]
) -> dict[str, list[schema.Device]]:
    """Return the devices of each block by its URI, every device in one block only.

    A device that several blocks reach belongs to the one in use, so that it is never free
    twice; else to one that is not free for another reason; else to the first.
    """
    lists: dict[str, list[DeviceList]] = {}
    summaries: dict[str, Devices] = {}
    for block in blocks:
        lists[block.uri] = own = [*_lists(service, block)]
        if not (systems := block.systems):
            continue
        for system in service.follow(systems, System, block.uri):
            of_system = [*_lists(service, system, " of ComputerSystems")]
            parts = {it.uri: it for it in _summaries(system, own + of_system)}
            summaries.setdefault(block.uri, {}).update(parts)
            lists[block.uri] = lists[block.uri] + of_system
    trusted = trusted_names(lists, service.notes)
    reached = {it: merge_lists(it, of, trusted, service.notes) for it, of in lists.items()}
    for uri, parts in summaries.items():
        reached[uri] |= parts
    return assign_devices(service, reached, statuses, trusted)


def assign_devices(
    service: LinkedDocuments,
    candidates: Mapping[str, Devices],
    statuses: Mapping[str, Status],
    trusted: Names,
) -> dict[str, list[schema.Device]]:
    """Return the devices of each block, as :func:`devices_by_block`, of those that each reaches."""
    if not trusted and _are_disjoint(candidates.values()):
        return {block: list(found.values()) for block, found in candidates.items()}
    keys: dict[object, str] = {}  # the first URI of each device, by its URIs and names
    holders: dict[str, list[str]] = {}
    key_of: dict[str, str] = {}
    for block, found in candidates.items():
        for uri, device in found.items():
            key = uri
            if trusted:
                own = (uri, *site_names(device, trusted))
                key = next((keys[it] for it in own if it in keys), uri)
                for name in own:
                    keys.setdefault(name, key)
            key_of[uri] = key
            if block not in (of := holders.setdefault(key, [])):
                of.append(block)
    owner = {key: of[0] for key, of in holders.items()}
    for key, of in holders.items():
        if len(of) > 1:
            owner[key] = min(of, key=lambda b: _rank(statuses[b]))
            found_in = f"found in {', '.join(of)}, expected one block"
            service.notes.remark(f"{key}: {found_in} ({owner[key]} has it)")
    return {
        block: [device for uri, device in found.items() if owner[key_of[uri]] == block]
        for block, found in candidates.items()
    }


def _are_disjoint(found: Collection[Devices]) -> bool:
    return len(set().union(*found)) == sum(map(len, found))


def _rank(status: Status) -> int:
    if status.state in IN_USE or status.compositions:
        return 0
    return 1 if status.slots == 0 else 2


def _lists(service: LinkedDocuments, holder: DeviceHolder, of: str = "") -> Iterator[DeviceList]:
    """Yield the lists of a block, or of a system; those with the most to tell come first.

    A list without devices is left out. Most blocks have one or two, so what a document does not
    have is not looked for.
    """
    where, json, kind = holder.uri, holder.json, schema.DriveDevice
    storages: list[schema.Storage] = []
    drives: list[schema.DriveDevice] = []
    nics: list[tuple[str, list[schema.Device]]] = []
    if _STORAGES in json:
        storages = list(service.follow(holder.storage, schema.Storage, where))
        drives = [it for of in storages for it in service.follow(of.drives, kind, of.uri)]
    if not _NICS.isdisjoint(json):
        nics = [*_nics(service, holder)]
    for field, to in _SINGLE:
        if field.path in json and (found := list(service.follow(field.of(holder), to, where))):
            yield DeviceList(field.path + of, found)
    if drives:
        yield DeviceList(_STORAGES + of, drives)
    if _SIMPLE_STORAGES in json and (
        simple := list(_simple_drives(service, holder, storages, bool(drives)))
    ):
        yield DeviceList(_SIMPLE_STORAGES + of, simple)
    for way, devices in nics:
        if devices:
            yield DeviceList(way + of, devices)


def _summaries(system: System, listed: Iterable[DeviceList]) -> Iterator[schema.Device]:
    """Yield the summaries of a system, where no device of that kind is listed."""
    kinds = {type(it.devices[0]) for it in listed if it.devices}
    if schema.ProcessorDevice not in kinds:
        for json in system.cpus:
            yield system.part(schema.ProcessorSummary, json, "ProcessorSummary")
    if schema.MemoryDevice not in kinds:
        for json in system.ram:
            yield system.part(schema.MemorySummary, json, "MemorySummary")


def _simple_drives(
    service: LinkedDocuments, holder: DeviceHolder, storages: list[schema.Storage], has_drives: bool
) -> Iterator[schema.Device]:
    """Yield the drives that have no URI, unless they were read already.

    A system shows the same drives twice, as Storage and as the older SimpleStorage; so does a
    block where SimpleStorage says which Storage it is a view of.
    """
    links = holder.simple_storage
    if not links or (has_drives and isinstance(holder, System)):
        return
    known = {storage.uri for storage in storages}
    for simple in service.follow(links, schema.SimpleStorage, holder.uri):
        if not known & {service.uri(link, simple.uri) for link in simple.same_as}:
            for index, json in enumerate(simple.devices):
                yield simple.part(schema.DriveDevice, json, f"Devices/{index}")


def _nics(
    service: LinkedDocuments, holder: DeviceHolder
) -> Iterator[tuple[str, list[schema.Device]]]:
    """Yield Ethernet interfaces, and adapter ports that none of them is a view of.

    A system shows the same hardware in both ways, so there the ports only stand in.
    """
    seen = list(service.follow(holder.ethernet, schema.EthernetInterface, holder.uri))
    yield "EthernetInterfaces", [*seen]
    if seen and isinstance(holder, System):
        return
    known = {service.uri(link, nic.uri) for nic in seen for link in nic.ports}
    for interface in service.follow(holder.network, schema.NetworkInterface, holder.uri):
        ports = _ports(service, interface)
        left: list[schema.Device] = [port for port in ports if port.uri not in known]
        yield "NetworkInterfaces", left if ports else [interface]


def _ports(service: LinkedDocuments, interface: schema.NetworkInterface) -> list[schema.Port]:
    ports = list(service.follow(interface.ports, schema.Port, interface.uri))
    if not ports:
        for adapter in service.follow(interface.adapter, schema.NetworkAdapter, interface.uri):
            ports += service.follow(adapter.ports, schema.Port, adapter.uri)
    return ports
