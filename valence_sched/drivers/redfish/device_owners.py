# SPDX-License-Identifier: Apache-2.0
"""Finds the devices of each block and assigns each device to one block.

Finding is apart from describing (``describe``) because one device can be reached from two
blocks: its owner is decided over the whole pod manager before anything is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from valence_sched.drivers.fields import Link
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.device_identity import (
    DeviceList,
    Names,
    merge_lists,
    site_names,
    trusted_names,
)
from valence_sched.drivers.redfish.plausibility import (
    is_unreadable,
    tells_all,
    unreadable_devices,
    with_summaries,
    without_empty_media,
)
from valence_sched.drivers.redfish.schema import (
    DeviceHolder,
    ResourceBlock,
    System,
    condition_of,
    note_condition,
)
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

D = TypeVar("D", bound=schema.Device)
#: Devices by URI.
Devices = dict[str, schema.Device]


def devices_of_systems(
    service: LinkedDocuments, systems: Iterable[System]
) -> tuple[dict[str, Devices], Names]:
    """Return the devices of each system by its URI, and the names that identify a device in any."""
    lists = {it.uri: [*_lists(service, it)] for it in systems}
    trusted = trusted_names(lists, service.notes)
    merged = {it: merge_lists(it, of, trusted, service.notes) for it, of in lists.items()}
    for it in systems:
        merged[it.uri] = _completed(service, merged[it.uri], [it], {it: lists[it.uri]})
    return merged, trusted


def devices_by_block(
    service: LinkedDocuments, blocks: Sequence[ResourceBlock], statuses: Mapping[str, Status]
) -> dict[str, list[schema.Device]]:
    """Return the devices of each block by its URI, every device in one block only.

    A device that several blocks reach belongs to the one in use, so that it is never free
    twice; else to one that is not free for another reason; else to the first.
    """
    lists: dict[str, list[DeviceList]] = {}
    systems_of: dict[str, dict[System, list[DeviceList]]] = {}
    for block in blocks:
        lists[block.uri] = own = [*_lists(service, block)]
        for system in service.follow(block.systems, System, block.uri):
            of_system = [*_lists(service, system, " of ComputerSystems")]
            systems_of.setdefault(block.uri, {})[system] = own + of_system
            lists[block.uri] = lists[block.uri] + of_system
    trusted = trusted_names(lists, service.notes)
    reached: dict[str, Devices] = {}
    for block in blocks:
        merged = merge_lists(block.uri, lists[block.uri], trusted, service.notes)
        systems = systems_of.get(block.uri, {})
        reached[block.uri] = _completed(service, merged, [block, *systems], systems)
    return assign_devices(service, reached, statuses, trusted)


def _completed(
    service: LinkedDocuments,
    devices: Devices,
    holders: Sequence[DeviceHolder],
    systems: Mapping[System, Iterable[DeviceList]],
) -> Devices:
    """Return devices without media that are none, with those that are told in another way.

    The parts of one of several systems are not told from those of the others, so there a summary
    only stands in for parts that are not listed.
    """
    devices = without_empty_media(holders[0].uri, devices, service.notes)
    if len(systems) == 1:
        devices |= with_summaries(next(iter(systems)), devices.values())
    for system, lists in systems.items() if len(systems) > 1 else ():
        listed = [device for one in lists for device in one.devices]
        found = with_summaries(system, listed)
        devices |= {uri: it for uri, it in found.items() if uri.startswith(f"{system.uri}#")}
    for holder in holders:
        if tells_all(holder.json) and (
            _STORAGES not in holder.json
            or any(isinstance(it, schema.DriveDevice) for it in devices.values())
        ):
            continue
        storages, where = _storages(service, holder), holder.uri

        def is_gone(link: str, where: str = where) -> bool:
            uri = service.uri(link, where)
            return uri is None or service.json(uri, where) is None

        untold = unreadable_devices(holder, devices.values(), storages, is_gone)
        devices |= {it.uri: it for it in untold}
    return devices


def assign_devices(
    service: LinkedDocuments,
    candidates: Mapping[str, Devices],
    statuses: Mapping[str, Status],
    trusted: Names,
) -> dict[str, list[schema.Device]]:
    """Return the devices of each block, as :func:`devices_by_block`, of those that each reaches."""
    every = candidates.values()
    if not trusted and len(set().union(*every)) == sum(map(len, every)):  # none is shared
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
            in_use = [it for it in of if statuses[it].state in IN_USE or statuses[it].compositions]
            not_free = [it for it in of if statuses[it].slots == 0]
            owner[key] = (in_use or not_free or of)[0]
            found_in = f"found in {', '.join(of)}, expected one block"
            service.notes.remark(f"{key}: {found_in} ({owner[key]} has it)")
    return {
        block: [device for uri, device in found.items() if owner[key_of[uri]] == block]
        for block, found in candidates.items()
    }


def _lists(service: LinkedDocuments, holder: DeviceHolder, of: str = "") -> Iterator[DeviceList]:
    """Yield lists with devices, what tells most first; what a document lacks is not looked for."""
    where, json = holder.uri, holder.json
    storages: list[schema.Storage] = []
    drives: list[schema.DriveDevice] = []
    nics: list[tuple[str, list[schema.Device]]] = []
    if _STORAGES in json:
        storages = _storages(service, holder)
        drives = [it for of in storages for it in _drives_of(service, of)]
    if not _NICS.isdisjoint(json):
        nics = [*_nics(service, holder)]
    for field, to in _SINGLE:
        if field.path in json and (found := list(_follow(service, field.of(holder), to, where))):
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


def _drives_of(service: LinkedDocuments, storage: schema.Storage) -> Iterator[schema.DriveDevice]:
    """The rolled up health of a subsystem is that of its drives, each of which tells its own."""
    condition = condition_of(storage)
    if condition.health == storage.rollup:
        condition = condition._replace(health=storage.health)  # type: ignore[arg-type]
    for drive in _follow(service, storage.drives, schema.DriveDevice, storage.uri):
        if not condition.is_fine:
            drive.inherited = condition
        yield drive
    if storage.drives:
        note_condition(storage, condition, "its drives do not count")


def _storages(service: LinkedDocuments, holder: DeviceHolder) -> list[schema.Storage]:
    if _STORAGES not in holder.json:
        return []
    return list(_follow(service, holder.storage, schema.Storage, holder.uri))


def _follow(
    service: LinkedDocuments, links: tuple[str, ...], type_: type[D], where: str
) -> Iterator[D]:
    """Return the devices that links name: documents, and parts of documents.

    A link into a vendor's part is left to ``unreadable_devices``.
    """
    if "#" not in "".join(links):
        return service.follow(links, type_, where)
    return _follow_parts(service, links, type_, where)


def _follow_parts(
    service: LinkedDocuments, links: tuple[str, ...], type_: type[D], where: str
) -> Iterator[D]:
    readable = tuple(it for it in links if "#" not in it or not is_unreadable(it))
    parts = {it: _part(service, it, type_, where) for it in readable if "#/" in it}
    yield from service.follow([it for it in readable if parts.get(it) is None], type_, where)
    yield from filter(None, parts.values())


def _part(service: LinkedDocuments, link: str, type_: type[D], where: str) -> D | None:
    """Return the device that a part of a document is; None where the fragment names no part."""
    target, _, pointer = link.partition("#")
    uri = service.uri(target, where)
    json: Any = service.json(uri, where) if uri else None
    for name in pointer.strip("/").split("/"):
        json = _member(json, name.replace("~1", "/").replace("~0", "~"))
    return type_(f"{uri}#{pointer}", json, service.notes) if isinstance(json, dict) else None


def _member(json: Any, name: str) -> Any:
    """Return the member of an object or an array, None where it has none of that name."""
    if isinstance(json, dict):
        return json.get(name)
    is_index = isinstance(json, list) and name.isdecimal() and int(name) < len(json)
    return json[int(name)] if is_index else None


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
    """A system shows the same hardware in both ways, so there the adapter ports only stand in."""
    seen = list(service.follow(holder.ethernet, schema.EthernetInterface, holder.uri))
    yield "EthernetInterfaces", [*seen]
    if seen and isinstance(holder, System):
        return
    known = {service.uri(link, nic.uri) for nic in seen for link in nic.ports}
    for interface in service.follow(holder.network, schema.NetworkInterface, holder.uri):
        ports = list(service.follow(interface.ports, schema.Port, interface.uri))
        if not ports:
            for adapter in service.follow(interface.adapter, schema.NetworkAdapter, interface.uri):
                ports += service.follow(adapter.ports, schema.Port, adapter.uri)
        left: list[schema.Device] = [port for port in ports if port.uri not in known]
        yield "NetworkInterfaces", left if ports else [interface]
