# SPDX-License-Identifier: Apache-2.0
"""Devices of a system that its lists omit or contradict: empty media, summaries, Oem lists."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from valence_sched.drivers.fields import NO_NOTES, Json, Notes, Resource, links as read_links
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.schema import Device, Storage, System, condition_of, plausible
from valence_sched.model.quantity import format_count

#: The largest difference between a summary and the sum of the parts: firmware uses memory.
TOLERANCE = 0.1
_ZEROS = (0, "0")
_CPU, _MODULE = schema.ProcessorDevice, schema.MemoryDevice
_CPUS, _RAM = schema.ProcessorSummary, schema.MemorySummary
_CORES, _SIZES = (_CPU.cores, _CPU.enabled_cores), (_MODULE.capacity_mib, _MODULE.volatile_mib)
_DRIVES, _DISKS = ("Drives", "Storage", "SimpleStorage"), ("drive", "storage", "disk")
_NICS = ("EthernetInterfaces", "NetworkInterfaces")
_PORTS = ("ethernet", "networkadapter", "networkinterface")
_NAMES = {_CPU: "CPU", _CPUS: "CPU", _RAM: "memory", _MODULE: "memory", schema.DriveDevice: "drive"}
_NAMES |= dict.fromkeys((schema.EthernetInterface, schema.Port, schema.NetworkInterface), "NIC")
MAX_VENDOR_LEVELS = 4


def without_empty_media(where: str, devices: dict[str, Device], notes: Notes) -> dict[str, Device]:
    """Return devices without media of 0 bytes; the size of a disk of 0 bytes is unknown."""
    media: list[str] = []
    for uri, device in devices.items():
        if device.json.get("CapacityBytes") in _ZEROS and isinstance(device, schema.DriveDevice):
            device.certain = False
            is_disk = (device.protocol or "").casefold() in ("nvme", "sata", "sas")
            if device.capacity_bytes == 0 and device.media is None and not is_disk:
                media.append(uri)
    if media:
        found = f"found {format_count(len(media), 'drive')} of 0 bytes"
        some = ", ".join(media[:2]) + (", …" if media[2:] else "")
        notes.remark(f"{where}: {found}: {some} (empty media, not counted)")
    return {uri: device for uri, device in devices.items() if uri not in media}


class _Summarised(NamedTuple):
    part: type[Device]
    amounts: tuple[Any, ...]
    summary: type[Device]
    total: Any
    noun: str


_SUMMARISED_CPUS = _Summarised(_CPU, _CORES, _CPUS, _CPUS.cores, "processor")
_SUMMARISED_MEMORY = _Summarised(_MODULE, _SIZES, _RAM, _RAM.size_gib, "memory module")


def with_summaries(system: System, devices: Iterable[Device]) -> dict[str, Device]:
    """Return the devices, by URI, that the summaries of a system add to the listed devices.

    A summary replaces unlisted parts or, with an unknown amount, parts that are all absent. It
    gives sizes to parts without a size. If it contradicts the parts, it is ignored with a note.
    """
    found: dict[str, Device] = {}
    listed = list(devices)
    cards = sum(map(is_card, listed))
    for kind, summaries in ((_SUMMARISED_CPUS, system.cpus), (_SUMMARISED_MEMORY, system.ram)):
        parts = [it for it in listed if isinstance(it, kind.part) and not is_card(it)]
        for json in summaries:
            summary = system.part(kind.summary, json, kind.summary.__name__)
            added = _reconciled(kind, summary, parts, cards) if parts else [summary]
            found |= {it.uri: it for it in added}
    return found


def is_card(device: Device) -> bool:
    return isinstance(device, _CPU) and device.kind != "cpu"


def _reconciled(
    kind: _Summarised, summary: Device, parts: list[Device], cards: int
) -> Iterator[Device]:
    """Yield parts with their share of a summary, or the summary if all are absent, with a note.

    The count of a summary may include the ``cards``.
    """
    counts = (None, len(parts), len(parts) + cards)
    if isinstance(summary, schema.ProcessorSummary) and summary.count not in counts:
        listed = f"{format_count(len(parts), kind.noun)} listed (using the list)"
        summary.remark(f"found {summary.count}, but {listed}", schema.ProcessorSummary.count)
    total = plausible(summary, kind.total) if condition_of(summary).counts else None
    if total is None:
        return
    total = round(total * (1024 if kind.total is schema.MemorySummary.size_gib else 1))
    there = [it for it in parts if condition_of(it).state != "Absent"]
    counted = [it for it in there if condition_of(it).counts]
    stated = ((plausible(it, of, NO_NOTES) for of in kind.amounts) for it in counted)
    amounts = [next((one for one in each if one is not None), None) for each in stated]
    known = sum(amount for amount in amounts if amount)
    unit, what = kind.amounts[0].unit, ""
    unsized = [it for it, amount in zip(counted, amounts, strict=True) if amount is None]
    if not there:
        what = f"{format_count(len(parts), kind.noun)}, all absent (the count is unknown)"
        yield kind.summary(summary.uri, {}, NO_NOTES)
    elif unsized and len(counted) == len(there) and total > known:
        what = f"{format_count(len(unsized), kind.noun)} without a size (each gets an equal share)"
        for at, part in enumerate(unsized):
            json = {**part.json, kind.amounts[0].path: (total - known + at) // len(unsized)}
            shared = type(part)(part.uri, json, part.notes)
            shared.certain, shared.inherited = part.certain, part.inherited
            yield shared
    elif not math.isclose(total, known, rel_tol=TOLERANCE) and len(counted) == len(there):
        what = f"{known:,} {unit} of {format_count(len(there), kind.noun)} (their sum is used)"
    if what:
        summary.remark(f"found {total:,} {unit}, but {what}")


class _Kind(NamedTuple):
    """A kind of device, its lists, and words in vendors' names for such lists."""

    type: type[Device]
    json: Json
    lists: tuple[str, ...]
    words: tuple[str, ...]


_KINDS = {
    "CPU": _Kind(_CPU, {"ProcessorType": "CPU"}, ("Processors",), ("processor", "cpu")),
    "GPU": _Kind(
        _CPU, {"ProcessorType": "GPU"}, ("Processors",), ("gpu", "accelerator", "fpga", "pcidevice")
    ),
    "memory": _Kind(_MODULE, {}, ("Memory",), ("memory", "dimm")),
    "drive": _Kind(schema.DriveDevice, {}, _DRIVES, (*_DISKS, "arraycontroller")),
    "NIC": _Kind(schema.EthernetInterface, {}, _NICS, _PORTS),
}


def unreadable_devices(
    holder: Resource,
    devices: Iterable[Device],
    storages: Iterable[Storage],
    is_gone: Callable[[str], bool],
) -> Iterator[Device]:
    """Yield a device of unknown count for each kind with an unreadable list in a block or system.

    An unreadable list has a link without a target, a link into an ``Oem`` part of a document, or a
    link that ``is_gone`` and has ``Oem`` in its path. If no device of the kind is listed, these are
    unreadable too: a list in an ``Oem`` part, an empty list with a count, storage without drives.
    """
    known: dict[str, bool] = {}  # whether a device of a kind is only a summary
    for device in devices:
        of_kind = "GPU" if is_card(device) else _NAMES.get(type(device), "")
        known[of_kind] = isinstance(device, (_CPUS, _RAM))
    vendor = list(vendor_lists(holder.json))
    for name, kind in _KINDS.items():
        values = filter(None, (holder.json.get(each) for each in kind.lists))
        lists = (read_links(value) for value in values if isinstance(value, list | dict))
        links = itertools.chain.from_iterable(lists)
        unread = (it for it in links if is_unreadable(it) or (_is_vendors(it) and is_gone(it)))
        found = [link or "a link without a target" for link in unread]
        if name not in known:
            found += [it for it in vendor if any(word in it.casefold() for word in kind.words)]
            found += [f"{each}@odata.count" for each in kind.lists if _is_cut(holder.json, each)]
        for storage in storages if name == "drive" and name not in known else ():
            if "Drives" not in storage.json or _is_cut(storage.json, "Drives"):
                found.append(storage.uri)
        if found and not known.get(name):
            what = f"{kind.lists[0]}: found {found[0]}, expected a list of devices"
            holder.remark(f"{what} (the number of {name}s is unknown)")
            device = kind.type(f"{holder.uri}#/{name}", kind.json, NO_NOTES)
            device.certain = False
            yield device


_LISTS = tuple(dict.fromkeys(name for kind in _KINDS.values() for name in kind.lists))


def reports_all(json: Json) -> bool:
    """Return whether a holder has no ``Oem`` parts and no dangling links."""
    links = json.get("Links")
    if "Oem" in json or (isinstance(links, dict) and "Oem" in links):
        return False
    for value in map(json.get, _LISTS):
        for link in value if isinstance(value, list) else [value] if value else ():
            target = link.get("@odata.id") if type(link) is dict else None
            if type(target) is not str or not target or "#" in target or _is_vendors(target):
                return False
    return not any(_is_cut(json, name) for name in _LISTS)


def _is_cut(json: Json, name: str) -> bool:
    return json.get(name) == [] and json.get(f"{name}@odata.count") not in (None, *_ZEROS)


def is_unreadable(link: str) -> bool:
    return not link or "/oem/" in link.partition("#")[2].casefold()


def _is_vendors(link: str) -> bool:
    return "/Oem/" in link or "/oem/" in link


def vendor_lists(json: Json) -> Iterator[str]:
    """Yield the names of properties in ``Oem`` parts that link or list documents."""
    links = json.get("Links")
    parts = [json.get("Oem"), links.get("Oem") if isinstance(links, dict) else None]
    level: list[Any] = [part for part in parts if isinstance(part, dict)]
    for _ in range(MAX_VENDOR_LEVELS):
        inner: list[Any] = []
        for name, value in (item for part in level for item in part.items()):
            items = value if isinstance(value, list) else [value]
            if isinstance(value, dict):
                inner.append(value)
                items = [value] if "@odata.id" in value else list(value.values())
            if items and all(
                isinstance(item, dict) or (isinstance(item, str) and item.startswith("/redfish/"))
                for item in items
            ):
                yield name
        level = inner
