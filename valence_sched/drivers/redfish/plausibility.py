# SPDX-License-Identifier: Apache-2.0
"""The plausibility of amounts: sizes that no part has, summaries, and devices that are not told.

An amount that cannot be right is unknown, and noted. 0 of a part that is there is no amount; nor is
a size in a wrong unit, such as 64 MiB of a memory module or 64 PiB of a drive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from valence_sched.drivers.fields import NO_NOTES, Field, Json, Notes, Resource
from valence_sched.drivers.fields import links as read_links
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.schema import Device, Storage, System, condition_of
from valence_sched.model.quantity import format_count

GIB_IN_MIB, TIB_IN_MIB = 1 << 10, 1 << 20
#: By how much the sum of the parts and a summary may differ: firmware keeps some memory.
TOLERANCE = 0.1
#: What a part of a server can have, by the field that tells it: the least and the most. A summary
#: of 8 TiB or more is taken for MiB that were written as GiB: nothing is better than a thousand
#: times too much.
BOUNDS: Mapping[Field[Any], tuple[float, float]] = {
    schema.ProcessorDevice.cores: (1, 4096),
    schema.ProcessorDevice.enabled_cores: (1, 4096),
    schema.ProcessorDevice.threads: (1, 1 << 16),
    schema.ProcessorDevice.speed_mhz: (1, 100_000),
    schema.ProcessorDevice.memory_mib: (256, 4 * TIB_IN_MIB),
    schema.ProcessorMemory.capacity_mib: (1, 4 * TIB_IN_MIB),
    schema.ProcessorSummary.count: (1, 4096),
    schema.ProcessorSummary.cores: (1, 1 << 16),
    schema.ProcessorSummary.threads: (1, 1 << 20),
    schema.MemorySummary.size_gib: (1, 8 * GIB_IN_MIB - 1),
    schema.MemoryDevice.capacity_mib: (GIB_IN_MIB, 4 * TIB_IN_MIB),
    schema.MemoryDevice.volatile_mib: (GIB_IN_MIB, 4 * TIB_IN_MIB),
    schema.DriveDevice.capacity_bytes: (10**9, 10**15),
    schema.EthernetInterface.speed_mbps: (1, 10**7),
    schema.Port.max_gbps: (0.001, 10**4),
    schema.Port.current_gbps: (0.001, 10**4),
}


_ZEROS = (0, "0")


def plausible(device: Any, field: Field[Any], notes: Notes | None = None) -> Any:
    """Return an amount that a device tells, None and a note where no such part has it."""
    value = field.of(device)
    least, most = BOUNDS[field]
    if value is None or least <= value <= most:
        return value
    expected, doubt = f"{least:,} to {most:,} {field.unit}", "is it another unit? it is unknown"
    if not value:
        expected, doubt = "more", "it is unknown"
    what = f"found {value:,}, expected {expected} ({doubt})"
    (device.notes if notes is None else notes).remark(f"{device.uri}: {field.path}: {what}")
    return None


def without_empty_media(where: str, devices: dict[str, Device], notes: Notes) -> dict[str, Device]:
    """Return the devices of a block without media of 0 bytes; a disk of 0 bytes is not certain.

    A drive for removable or virtual media tells neither a medium nor the protocol of a disk.
    """
    media: list[str] = []
    for uri, device in devices.items():
        is_empty = device.json.get("CapacityBytes") in _ZEROS
        if is_empty and isinstance(device, schema.DriveDevice):
            device.certain = False
            is_disk = (device.protocol or "").casefold() in ("nvme", "sata", "sas")
            if device.capacity_bytes == 0 and device.media is None and not is_disk:
                media.append(uri)
    if not media:
        return devices
    some = ", ".join(media[:2]) + (", …" if media[2:] else "")
    found = format_count(len(media), "drive")
    notes.remark(f"{where}: found {found} of 0 bytes, expected a size: {some} (no drives)")
    return {uri: device for uri, device in devices.items() if uri not in media}


class _Summarised(NamedTuple):
    """A kind of part, its fields that tell an amount, and the summary of a system with the sum."""

    part: type[Device]
    amounts: tuple[Any, ...]
    summary: type[Device]
    total: Any
    noun: str


_CPU, _MODULE = schema.ProcessorDevice, schema.MemoryDevice
_CPUS, _RAM = schema.ProcessorSummary, schema.MemorySummary
_CORES, _SIZES = (_CPU.cores, _CPU.enabled_cores), (_MODULE.capacity_mib, _MODULE.volatile_mib)
_SUMMARISED = (
    _Summarised(_CPU, _CORES, _CPUS, _CPUS.cores, "processor"),
    _Summarised(_MODULE, _SIZES, _RAM, _RAM.size_gib, "memory module"),
)


def with_summaries(system: System, devices: Iterable[Device]) -> dict[str, Device]:
    """Return what the summaries of a system tell that its parts do not: devices by URI.

    A summary stands in for parts that are not listed, for the sizes that parts do not tell, and,
    with an unknown amount, for parts that are all said to be absent. Where the two contradict each
    other the parts hold, and that is noted.
    """
    found: dict[str, Device] = {}
    listed = list(devices)
    for kind in _SUMMARISED:
        for json in system.cpus if kind.part is _CPU else system.ram:
            summary = system.part(kind.summary, json, kind.summary.__name__)
            parts = [it for it in listed if _is_of(it, kind)]
            if parts:
                found |= {it.uri: it for it in _reconciled(kind, summary, parts)}
            else:
                found[summary.uri] = summary
    return found


def _is_of(device: Device, kind: _Summarised) -> bool:
    if isinstance(device, schema.ProcessorDevice):
        return kind.part is _CPU and (device.type or "CPU").casefold() == "cpu"
    return isinstance(device, kind.part)


def _reconciled(kind: _Summarised, summary: Device, parts: list[Device]) -> Iterator[Device]:
    """Yield parts that get their size of a summary, or the summary without any; note why."""
    if isinstance(summary, schema.ProcessorSummary) and summary.count not in (None, len(parts)):
        what = f"found {summary.count}, and {format_count(len(parts), kind.noun)} (those hold)"
        summary.notes.remark(f"{summary.uri}: Count: {what}")
    total = plausible(summary, kind.total) if condition_of(summary).counts else None
    if total is None:
        return
    scale = GIB_IN_MIB if kind.total is schema.MemorySummary.size_gib else 1
    total = round(total * scale)
    there = [it for it in parts if condition_of(it).state != "Absent"]
    counted = [it for it in there if condition_of(it).counts]
    told_amounts = ((plausible(it, of, NO_NOTES) for of in kind.amounts) for it in counted)
    amounts = [next((one for one in each if one is not None), None) for each in told_amounts]
    known = sum(amount for amount in amounts if amount)
    unit = kind.amounts[0].unit
    told = f"{summary.uri}: found {total:,} {unit}"
    untold = [it for it, amount in zip(counted, amounts, strict=True) if amount is None]
    if not there:
        what = f"{format_count(len(parts), kind.noun)}, all absent (how many there are is unknown)"
        summary.notes.remark(f"{told}, and {what}")
        yield kind.summary(summary.uri, {}, NO_NOTES)
    elif untold and len(counted) == len(there) and total > known:
        what = f"{format_count(len(untold), kind.noun)} without a size (each has its share)"
        summary.notes.remark(f"{told}, and {what}")
        shares = [(total - known + at) // len(untold) for at in range(len(untold))]
        for part, share in zip(untold, shares, strict=True):
            json = {**part.json, kind.amounts[0].path: share}
            shared = type(part)(part.uri, json, part.notes)
            shared.certain, shared.inherited = part.certain, part.inherited
            yield shared
    elif not math.isclose(total, known, rel_tol=TOLERANCE) and len(counted) == len(there):
        what = f"{known:,} {unit} of {format_count(len(there), kind.noun)} (the parts are believed)"
        summary.notes.remark(f"{told}, and {what}")


class _Kind(NamedTuple):
    """A kind of device: the lists that hold it, and the words of vendors' names for such lists."""

    type: type[Device]
    json: Json
    lists: tuple[str, ...]
    words: tuple[str, ...]


_DRIVES, _DISKS = ("Drives", "Storage", "SimpleStorage"), ("drive", "storage", "disk")
_NICS = ("EthernetInterfaces", "NetworkInterfaces")
_PORTS = ("ethernet", "networkadapter", "networkinterface")
_KINDS = {
    "CPU": _Kind(_CPU, {"ProcessorType": "CPU"}, ("Processors",), ("processor", "cpu")),
    "GPU": _Kind(_CPU, {"ProcessorType": "GPU"}, ("Processors",), ("gpu", "accelerator", "fpga")),
    "memory": _Kind(_MODULE, {}, ("Memory",), ("memory", "dimm")),
    "drive": _Kind(schema.DriveDevice, {}, _DRIVES, (*_DISKS, "arraycontroller")),
    "NIC": _Kind(schema.EthernetInterface, {}, _NICS, _PORTS),
}
_NAMES = {_CPUS: "CPU", _RAM: "memory", _MODULE: "memory", schema.DriveDevice: "drive"}
_NAMES |= dict.fromkeys((schema.EthernetInterface, schema.Port, schema.NetworkInterface), "NIC")
MAX_VENDOR_LEVELS = 4


def unreadable_devices(
    holder: Resource,
    devices: Iterable[Device],
    storages: Iterable[Storage],
    is_gone: Callable[[str], bool],
) -> Iterator[Device]:
    """Yield a device of unknown number for each kind that a block or a system tells unreadably.

    That is a link into a vendor's part of a document, or to a document below one that ``is_gone``,
    one without a target, and, where no device of the kind is listed, a list in a vendor's part
    (``Oem``), an empty list whose count is more, or a storage that tells no drives.
    """
    known: dict[str, bool] = {}  # whether a device of a kind is only a summary
    for device in devices:
        of_kind = _NAMES.get(type(device), "")
        if isinstance(device, schema.ProcessorDevice):
            of_kind = "CPU" if (device.type or "CPU").casefold() == "cpu" else "GPU"
        known[of_kind] = isinstance(device, (_CPUS, _RAM))
    vendor = list(vendor_lists(holder.json))
    for name, kind in _KINDS.items():
        values = (holder.json.get(each) for each in kind.lists)
        links = [
            it
            for value in values
            if value and isinstance(value, list | dict)
            for it in read_links(value)
        ]
        unread = (it for it in links if is_unreadable(it) or (_is_vendors(it) and is_gone(it)))
        found = [link or "a link without a target" for link in unread]
        if name not in known:
            found += [it for it in vendor if any(word in it.casefold() for word in kind.words)]
            found += [f"{each}@odata.count" for each in kind.lists if _is_cut(holder.json, each)]
        for storage in storages if name == "drive" and name not in known else ():
            if "Drives" not in storage.json or _is_cut(storage.json, "Drives"):
                found.append(storage.uri)
        if found and not known.get(name):
            what = f"found {found[0]}, expected a list of devices"
            text = f"{holder.uri}: {kind.lists[0]}: {what} (how many {name}s there are is unknown)"
            holder.notes.remark(text)
            device = kind.type(f"{holder.uri}#/{name}", kind.json, NO_NOTES)
            device.certain = False
            yield device


_LISTS = tuple(dict.fromkeys(name for kind in _KINDS.values() for name in kind.lists))


def tells_all(json: Json) -> bool:
    """Return whether a holder has neither vendors' parts nor links without a document, as most."""
    links = json.get("Links")
    if "Oem" in json or (isinstance(links, dict) and "Oem" in links):
        return False
    for name in _LISTS:
        value = json.get(name)
        for link in value if isinstance(value, list) else [value] if value else ():
            target = link.get("@odata.id") if type(link) is dict else None
            if type(target) is not str or not target or "#" in target or _is_vendors(target):
                return False
        if value == [] and _is_cut(json, name):
            return False
    return True


def _is_cut(json: Json, name: str) -> bool:
    """Return whether a list is empty although its count says that it is not."""
    return json.get(name) == [] and json.get(f"{name}@odata.count") not in (None, *_ZEROS)


def is_unreadable(link: str) -> bool:
    """Return whether a link has no target, or one in a vendor's part of a document."""
    return not link or "/oem/" in link.partition("#")[2].casefold()


def _is_vendors(link: str) -> bool:
    """Return whether a link is to a document below a vendor's part."""
    return "/Oem/" in link or "/oem/" in link


def vendor_lists(json: Json) -> Iterator[str]:
    """Yield the names of properties in vendors' parts that link or list documents."""
    links = json.get("Links")
    parts = [json.get("Oem"), links.get("Oem") if isinstance(links, dict) else None]
    level: list[Any] = [part for part in parts if isinstance(part, dict)]
    for _ in range(MAX_VENDOR_LEVELS):
        inner: list[Any] = []
        for part in level:
            for name, value in part.items():
                if _lists_documents(value):
                    yield name
                if isinstance(value, dict):
                    inner.append(value)
        level = inner


def _lists_documents(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    if isinstance(value, dict) and "@odata.id" not in value:
        items = list(value.values())
    return bool(items) and all(
        isinstance(item, dict) or (isinstance(item, str) and item.startswith("/redfish/"))
        for item in items
    )
