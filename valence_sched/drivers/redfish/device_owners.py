# SPDX-License-Identifier: Apache-2.0
"""Finds the devices of each block; assigns a device that several blocks link to one of them."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from valence_sched.drivers.fields import Link, Notes
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import plausibility, schema
from valence_sched.drivers.redfish.describe import IN_USE, is_present
from valence_sched.drivers.redfish.schema import Device, DeviceHolder, ResourceBlock, System
from valence_sched.model.inventory import Status
from valence_sched.model.need import has_words
from valence_sched.model.quantity import format_count

#: Placeholders for serial numbers, besides texts of zeros.
_PLACEHOLDERS: tuple[str, ...] = ("n/a", "na", "none", "null", "unknown", "not specified")
_PLACEHOLDERS += ("not available", "default string", "to be filled by o.e.m.")
#: A name on devices of more blocks than this comes from a template.
MOST_BLOCKS = 2
#: Identifying names, each with the kind of device and the sort of name.
Names = frozenset[tuple[str, str, str]]
NO_NAMES: Names = frozenset()
_NAMING = frozenset(("SerialNumber", "UUID", "Identifiers", "PhysicalLocation")).union(
    ("MACAddress", "PermanentMACAddress", "Ethernet", "AssociatedNetworkAddresses")
)
KINDS: dict[type[Device], str] = {
    schema.DriveDevice: "drive",
    schema.ProcessorDevice: "processor",
    schema.MemoryDevice: "memory module",
    schema.EthernetInterface: "network interface",
    schema.Port: "network interface",
    schema.NetworkInterface: "network interface",
}
#: The largest relative difference between a size and the same size rounded.
_ROUNDING = 0.01
Comparison = Callable[[Device, Device], bool]
#: The lists of a block or a system with one link per device, and the class of the device.
_SINGLE: tuple[tuple[Link, type[Device]], ...] = (
    (DeviceHolder.processors, schema.ProcessorDevice),
    (DeviceHolder.memory, schema.MemoryDevice),
    (DeviceHolder.drives, schema.DriveDevice),
)
#: The other lists of a block or a system.
_STORAGES, _SIMPLE_STORAGES = DeviceHolder.storage.path, DeviceHolder.simple_storage.path
_OF_CPUS = ("cpu", "core", "thread")
_NICS = frozenset((DeviceHolder.ethernet.path, DeviceHolder.network.path))
D = TypeVar("D", bound=schema.Device)
Devices = dict[str, schema.Device]  # by URI


class DeviceList(NamedTuple):
    """The devices of one kind that a block lists in one way, such as ``Drives``."""

    way: str
    devices: Sequence[Device]

    @property
    def kind(self) -> str:
        return KINDS[type(self.devices[0])] if self.devices else ""


def names_of(device: Device) -> Names:
    """Return the names that identify a device in every list, empty for most devices."""
    if device.names is not None:
        return device.names
    device.names = NO_NAMES
    if _NAMING.isdisjoint(device.json):
        return NO_NAMES
    found = [("serial number", device.serial), ("UUID", device.uuid)]
    parts = (device.part(schema.Identifier, it, "Identifiers") for it in device.identifiers)
    found += [("durable name", part.name) for part in parts]
    if device.slot and device.chassis:
        found.append(("slot", f"{device.slot} of {device.chassis[0]}"))
    if isinstance(device, schema.EthernetInterface):
        found += [("address", it) for it in device.permanent_mac or device.mac]
    elif isinstance(device, schema.Port):
        found += [("address", it) for it in device.macs + device.addresses]
    folded = [(sort, " ".join(name.casefold().split())) for sort, name in found if name]
    named = (it for it in folded if it[1] not in _PLACEHOLDERS and it[1].strip("0:-. "))
    kind = KINDS.get(type(device), "device")
    device.names = frozenset((kind, sort, name) for sort, name in named)
    return device.names


def trusted_names(lists: Mapping[str, Iterable[DeviceList]], notes: Notes) -> Names:
    """Return the names in the lists of each block that identify exactly one device.

    Firmware and simulators copy serial numbers. A name on devices of many blocks, or on several
    devices of one list, is not trusted, unless exactly two devices have the name. It is not trusted
    either if the devices have different UUIDs or, in one list, different serial numbers: the GPUs
    of a module may have its serial number.
    """
    names_at: dict[str, Names] = {}
    blocks: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    uris: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    repeated: set[tuple[str, str, str]] = set()
    for block, of_block in lists.items():
        for _, devices in of_block:
            named = [device for device in devices if not _NAMING.isdisjoint(device.json)]
            each = {device.uri: names for device in named if (names := names_of(device))}
            counts = Counter(name for names in each.values() for name in names)
            repeated.update(name for name, count in counts.items() if count > 1)
            names_at |= each
            for uri, names in each.items():
                for name in names:
                    blocks[name].add(block)
                    uris[name].add(uri)
    copied = {name for name in repeated if name[1] == "slot" or len(uris[name]) > 2}
    copied.update(name for name, of in blocks.items() if len(of) > MOST_BLOCKS)
    for name, of in uris.items():
        if len(of) == 1:
            continue
        for sort in ("UUID", "serial number") if name in repeated else ("UUID",):
            stronger = [{it for it in names_at[uri] if it[1] == sort} for uri in of]
            if all(stronger) and len(set().union(*stronger)) == len(of):
                copied.add(name)
    if copied:
        (kind, sort, text), others = min(copied), len(copied) - 1
        more = f"; the same for {format_count(others, 'other name')}" if others else ""
        what = f"found {sort} {text} on several {kind}s, expected it on one"
        notes.remark(f"{what} (not used to identify a device{more})")
    return frozenset(blocks.keys() - copied)


class Likeness(NamedTuple):
    """Properties to compare: entries with an equal ``key`` are one device if ``others`` agree."""

    key: tuple[str, ...]
    others: tuple[str, ...] = ()


_LIKENESS = {
    "drive": Likeness(("capacity_bytes",), ("media", "protocol", "model")),
    "processor": Likeness(("cores", "model"), ("type", "threads", "instruction_set")),
    "memory module": Likeness(("capacity_mib",), ("device_type", "type")),
    "network interface": Likeness(("speed_mbps",)),
}


def merge_lists(where: str, lists: Sequence[DeviceList], trusted: Names, notes: Notes) -> Devices:
    """Return each device of a block once, by URI; the most reliable list comes first."""
    if len(lists) == 1 and not trusted:
        return {device.uri: device for device in lists[0].devices}
    found: dict[str, Device] = {}
    mergers: dict[str, _Merger] = defaultdict(lambda: _Merger(where, trusted, notes))
    for one in lists:
        if one.devices:
            mergers[one.kind].add(one)
    for merger in mergers.values():
        found |= merger.devices
        first: dict[tuple[str, str, str], str] = {}
        for device in filter(is_present, merger.devices.values()) if trusted else ():
            for name in names_of(device) & trusted:
                uri = first.setdefault(name, device.uri)
                if uri != device.uri and device.certain:
                    device.certain = False
                    what = f"found the {name[1]} of {uri}, expected a unique one"
                    notes.remark(f"{device.uri}: {what} (unknown whether one or two devices)")
    return found


class _Merger:
    """Merges the lists of one kind of device, and records the lists of each device."""

    def __init__(self, where: str, trusted: Names, notes: Notes) -> None:
        self._where, self._trusted, self._notes = where, trusted, notes
        self.devices: dict[str, Device] = {}
        self._ways: dict[str, set[str]] = {}

    def add(self, one: DeviceList) -> None:
        """Add a list: first the devices with a known name or URI, then devices that look equal."""
        before = list(self.devices)
        rest: list[Device] = []
        for device in one.devices:
            uri: str | None = device.uri
            if uri not in self.devices:
                names = names_of(device) & self._trusted if before and self._trusted else NO_NAMES
                alike = (it for it in before if names and names & names_of(self.devices[it]))
                uri = next(alike, None)
            if uri is None and before and is_present(device):
                rest.append(device)
            else:
                self._put(uri or device.uri, device, one.way)
        others: list[Device] = []
        ways: set[str] = set()
        for device in rest:
            if uri := self._partner(one, before, device, _looks_same):
                ways |= self._ways[uri]
                self._put(uri, device, one.way)
            else:
                others.append(device)
        if ways:
            effect = "they look equal, so each is counted once"
            self._remark(one, len(rest) - len(others), ways, effect)
        unclear = self._unclear(one, before, others)
        for device in others:
            device.certain = device.uri not in unclear
            self._put(device.uri, device, one.way)

    def _put(self, uri: str, device: Device, way: str) -> None:
        known = self.devices.get(uri)
        self.devices[uri] = device if known is None else _combined(known, device)
        self._ways.setdefault(uri, set()).add(way)

    def _partner(
        self, one: DeviceList, before: Iterable[str], device: Device, same: Comparison
    ) -> str | None:
        for uri in before:
            known = self.devices[uri]
            is_free = one.way not in self._ways[uri] and is_present(known)
            if is_free and same(known, device):
                one_names, others = (names_of(it) & self._trusted for it in (known, device))
                sorts = {sort for _, sort, _ in one_names} & {sort for _, sort, _ in others}
                if one_names & others or sorts.isdisjoint(("serial number", "address")):
                    return uri  # otherwise their names of one sort differ
        return None

    def _unclear(self, one: DeviceList, before: list[str], rest: list[Device]) -> set[str]:
        partners, unclear = set[str](), set[str]()
        for device in rest:
            others = (it for it in before if it not in partners)
            if uri := self._partner(one, others, device, _may_be_same):
                partners.add(uri)
                known = self.devices[uri]  # it may be another device, so both stay
                is_device = _key_count(known) >= _key_count(device)
                known.certain = known.certain and is_device
                unclear.add(device.uri if is_device else uri)
        if unclear:
            ways = {way for uri in partners for way in self._ways[uri]}
            self._remark(one, len(unclear), ways, "they may be the same: the count is unknown")
        return unclear

    def _remark(self, one: DeviceList, number: int, ways: set[str], what: str) -> None:
        both = f"{' and '.join(sorted(ways))} and {one.way}"
        found = f"found {format_count(number, one.kind)} in {both} without a common name"
        self._notes.remark(f"{self._where}: {found}, expected a serial number or similar ({what})")


def _combined(known: Device, other: Device) -> Device:
    """Return one device from two entries: the second adds properties that the first lacks."""
    known.inherited = known.inherited or other.inherited
    if known.uri == other.uri:
        return known
    if type(known) is not type(other):
        found = other if _key_count(other) > _key_count(known) else known
    else:
        stated = {name: value for name, value in known.json.items() if value is not None}
        json = {**other.json, **stated}
        if not schema.condition_of(other).counts:
            json |= {name: other.json[name] for name in ("Status", "Enabled") if name in other.json}
        found = type(known)(known.uri, json, known.notes)
    found.certain, found.inherited = known.certain, known.inherited
    return found


def _key_count(device: Device) -> int:
    return sum(_value(device, name) is not None for name in _LIKENESS[KINDS[type(device)]].key)


def _looks_same(first: Device, second: Device) -> bool:
    if not _may_be_same(first, second):
        return False
    if any(_same(first, second, name) for name in _LIKENESS[KINDS[type(first)]].key):
        return True
    # One may be an empty medium (0 bytes), the other a drive without a size.
    drives = (it for it in (first, second) if isinstance(it, schema.DriveDevice))
    return {0, None} == {drive.capacity_bytes for drive in drives}


def _may_be_same(first: Device, second: Device) -> bool:
    likeness = _LIKENESS[KINDS[type(first)]]
    is_nic = KINDS[type(first)] == "network interface"
    names = likeness.others if is_nic else likeness.key + likeness.others
    return all(_same(first, second, name) is not False for name in names)


def _same(first: Device, second: Device, name: str) -> bool | None:
    """Return whether two devices have equal values of a property, None if a value is missing."""
    one, other = _value(first, name), _value(second, name)
    if one is None or other is None:
        return None
    if isinstance(one, str):
        return one == other or has_words(one, other) or has_words(other, one)
    return bool(abs(one - other) <= _ROUNDING * max(one, other))


def _value(device: Device, name: str) -> Any:
    if isinstance(device, schema.ProcessorDevice):
        if name == "type":
            return device.type or "CPU"
        if name == "cores" and device.cores is None:
            return device.enabled_cores
    return getattr(device, name)


def devices_of_systems(
    service: LinkedDocuments, systems: Iterable[System]
) -> tuple[dict[str, Devices], Names]:
    lists = {it.uri: [*_lists(service, it)] for it in systems}
    trusted = trusted_names(lists, service.notes)
    merged = {it: merge_lists(it, of, trusted, service.notes) for it, of in lists.items()}
    for it in systems:
        merged[it.uri] = _completed(service, merged[it.uri], [it], {it: lists[it.uri]})
    return merged, trusted


def devices_by_block(
    service: LinkedDocuments,
    blocks: Sequence[ResourceBlock],
    statuses: Mapping[str, Status],
    pooled: Container[str] = (),
) -> dict[str, list[schema.Device]]:
    """Return the devices of each block by its URI, every device in one block only.

    A ``pooled`` device is a block itself, although the system that it is attached to lists it.

    A device of several blocks belongs to the block in use, so that it is never free twice; else to
    a block that is not free for another reason; else to the first block.
    """
    lists: dict[str, list[DeviceList]] = {}
    systems_of: dict[str, dict[System, list[DeviceList]]] = {}
    for block in blocks:
        own, systems = [*_lists(service, block)], systems_of.setdefault(block.uri, {})
        lists[block.uri] = own
        for system in service.follow(block.systems, System, block.uri):
            of_system = [*_lists(service, system, " of ComputerSystems")]
            systems[system] = own + of_system
            lists[block.uri] = lists[block.uri] + of_system
    trusted = trusted_names(lists, service.notes)
    reached: dict[str, Devices] = {}
    for block in blocks:
        merged = merge_lists(block.uri, lists[block.uri], trusted, service.notes)
        if block.uri not in pooled:
            merged = {uri: device for uri, device in merged.items() if uri not in pooled}
        systems = systems_of[block.uri]
        reached[block.uri] = _completed(service, merged, [block, *systems], systems)
    return assign_devices(reached, statuses, trusted, service.notes)


def _completed(
    service: LinkedDocuments,
    devices: Devices,
    holders: Sequence[DeviceHolder],
    systems: Mapping[System, Iterable[DeviceList]],
) -> Devices:
    """Return devices without empty media, but with devices from summaries and unreadable lists.

    If there are several systems, the owner of a part is unknown, so a summary only replaces
    unlisted parts.
    """
    devices = plausibility.without_empty_media(holders[0].uri, devices, service.notes)
    if len(systems) == 1:
        devices |= plausibility.with_summaries(next(iter(systems)), devices.values())
    for system, lists in systems.items() if len(systems) > 1 else ():
        listed = [device for one in lists for device in one.devices]
        found = plausibility.with_summaries(system, listed)
        devices |= {uri: it for uri, it in found.items() if uri.startswith(f"{system.uri}#")}
    for holder in holders:
        if plausibility.reports_all(holder.json) and (
            _STORAGES not in holder.json
            or any(isinstance(it, schema.DriveDevice) for it in devices.values())
        ):
            continue
        storages, where = _storages(service, holder), holder.uri

        def is_gone(link: str, where: str = where) -> bool:
            uri = service.uri(link, where)
            return uri is None or service.json(uri, where) is None

        untold = plausibility.unreadable_devices(holder, devices.values(), storages, is_gone)
        devices |= {it.uri: it for it in untold}
    return devices


def assign_devices(
    candidates: Mapping[str, Devices], statuses: Mapping[str, Status], trusted: Names, notes: Notes
) -> dict[str, list[schema.Device]]:
    every = candidates.values()
    if not trusted and len(set().union(*every)) == sum(map(len, every)):  # no device is shared
        return {block: list(found.values()) for block, found in candidates.items()}
    keys: dict[object, str] = {}  # the first URI of each device by URI and name
    holders: dict[str, list[str]] = {}
    key_of: dict[str, str] = {}
    for block, found in candidates.items():
        for uri, device in found.items():
            key = uri
            if trusted:  # a slot identifies a device only within its block
                names = (name for name in names_of(device) & trusted if name[1] != "slot")
                own = (uri, *names)
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
            notes.remark(f"{key}: {found_in} (counted in {owner[key]})")
    return {
        block: [device for uri, device in found.items() if owner[key_of[uri]] == block]
        for block, found in candidates.items()
    }


def _lists(service: LinkedDocuments, holder: DeviceHolder, of: str = "") -> Iterator[DeviceList]:
    """Yield lists with devices, the most detailed first."""
    where, json, storages = holder.uri, holder.json, _storages(service, holder)
    drives: list[schema.DriveDevice] = []
    for storage in storages:
        # HealthRollup includes the drives, and each drive has its own health.
        condition = schema.condition_of(storage)
        if condition.health == storage.rollup:
            condition = condition._replace(health=storage.health)  # type: ignore[arg-type]
        for drive in _follow(service, storage.drives, schema.DriveDevice, storage.uri):
            drive.inherited = None if condition.is_fine else condition
            drives.append(drive)
        if storage.drives:
            schema.note_condition(storage, condition, "its drives are not counted")
    nics = [] if _NICS.isdisjoint(json) else [*_nics(service, holder)]
    accelerators: set[str] = set()
    for field, to in _SINGLE:
        if field.path in json and (found := list(_follow(service, field.of(holder), to, where))):
            if to is schema.ProcessorDevice:
                processors = (it for it in found if isinstance(it, schema.ProcessorDevice))
                accelerators = {it.uri for it in processors if it.kind not in _OF_CPUS}
            elif to is schema.MemoryDevice and accelerators:
                found = [it for it in found if not _is_of(service, it, accelerators)]
            yield DeviceList(field.path + of, found)
    if drives:
        yield DeviceList(_STORAGES + of, drives)
    if simple := list(_simple_drives(service, holder, storages, bool(drives))):
        yield DeviceList(_SIMPLE_STORAGES + of, simple)
    yield from (DeviceList(way + of, devices) for way, devices in nics if devices)


def _is_of(service: LinkedDocuments, module: Any, processors: set[str]) -> bool:
    """Return whether a memory module belongs to these processors alone."""
    owners = set(service.uris(module.processors, module.uri))
    return bool(owners) and owners <= processors


def _storages(service: LinkedDocuments, holder: DeviceHolder) -> list[schema.Storage]:
    if _STORAGES not in holder.json:
        return []
    return list(_follow(service, holder.storage, schema.Storage, holder.uri))


def _follow(
    service: LinkedDocuments, links: tuple[str, ...], type_: type[D], where: str
) -> Iterator[D]:
    if "#" not in "".join(links):
        return service.follow(links, type_, where)
    readable = tuple(it for it in links if "#" not in it or not plausibility.is_unreadable(it))
    parts = {it: _part(service, it, type_, where) for it in readable if "#/" in it}
    whole = service.follow([it for it in readable if parts.get(it) is None], type_, where)
    return itertools.chain(whole, filter(None, parts.values()))


def _part(service: LinkedDocuments, link: str, type_: type[D], where: str) -> D | None:
    """Return a part of a document as a device; None if the fragment names no part."""
    target, _, pointer = link.partition("#")
    uri = service.uri(target, where)
    json: Any = service.json(uri, where) if uri else None
    for part in pointer.strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(json, dict):
            json = json.get(name)
        else:
            is_index = isinstance(json, list) and name.isdecimal() and int(name) < len(json)
            json = json[int(name)] if is_index else None
    return type_(f"{uri}#{pointer}", json, service.notes) if isinstance(json, dict) else None


def _simple_drives(
    service: LinkedDocuments, holder: DeviceHolder, storages: list[schema.Storage], has_drives: bool
) -> Iterator[schema.Device]:
    """Yield the drives without a URI, unless they were read as Storage of the system or block."""
    links = holder.simple_storage
    if not links or (has_drives and isinstance(holder, System)):
        return
    known = {storage.uri for storage in storages}
    for simple in service.follow(links, schema.SimpleStorage, holder.uri):
        if not known & {service.uri(link, simple.uri) for link in simple.same_as}:
            for index, json in enumerate(simple.devices):
                yield simple.part(schema.DriveDevice, json, f"Devices/{index}")


def _nics(service: LinkedDocuments, holder: DeviceHolder) -> Iterator[tuple[str, list[Device]]]:
    """Yield lists of network interfaces; a system lists the same interfaces twice."""
    seen = list(service.follow(holder.ethernet, schema.EthernetInterface, holder.uri))
    yield "EthernetInterfaces", [*seen]
    if seen and isinstance(holder, System):
        return
    known = {service.uri(link, nic.uri) for nic in seen for link in nic.ports}
    for interface in service.follow(holder.network, schema.NetworkInterface, holder.uri):
        if not (ports := list(service.follow(interface.ports, schema.Port, interface.uri))):
            for adapter in service.follow(interface.adapter, schema.NetworkAdapter, interface.uri):
                ports += service.follow(adapter.ports, schema.Port, adapter.uri)
        left: list[Device] = [port for port in ports if port.uri not in known]
        yield "NetworkInterfaces", left if ports else [interface]
