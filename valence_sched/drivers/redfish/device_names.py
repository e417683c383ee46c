# SPDX-License-Identifier: Apache-2.0
"""Device names: what identifies a device in whatever list it is, and which names identify none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from valence_sched.drivers.fields import Notes
from valence_sched.drivers.redfish import device_schema as schema
from valence_sched.drivers.redfish.device_schema import Device
from valence_sched.model.quantity import format_count

#: Texts that services write in place of a serial number, beside those of zeros alone.
_PLACEHOLDERS = ("n/a", "na", "none", "null", "unknown", "not specified", "not available",
                 "default string", "to be filled by o.e.m.")  # fmt: skip
#: A name that devices of more blocks have is copied from a template.
MOST_BLOCKS = 2
#: What identifies a device: what it is of, the sort of name, and the name.
Names = frozenset[tuple[str, str, str]]
NO_NAMES: Names = frozenset()
_NAMING = frozenset(("SerialNumber", "UUID", "Identifiers", "PhysicalLocation", "MACAddress",
                     "PermanentMACAddress", "Ethernet", "AssociatedNetworkAddresses"))  # fmt: skip

#: What people call the devices of each class.
KINDS: dict[type[Device], str] = {
    schema.DriveDevice: "drive",
    schema.ProcessorDevice: "processor",
    schema.MemoryDevice: "memory module",
    schema.EthernetInterface: "network interface",
    schema.Port: "network interface",
    schema.NetworkInterface: "network interface",
}


class DeviceList(NamedTuple):
    """The devices of one kind that a block lists in one way, such as ``Drives``."""

    way: str
    devices: Sequence[Device]

    @property
    def kind(self) -> str:
        return KINDS[type(self.devices[0])] if self.devices else ""


def names_of(device: Device) -> Names:
    """Return what identifies a device in whatever list it is; of most devices that is nothing."""
    if device.names is None:
        device.names = NO_NAMES if _NAMING.isdisjoint(device.json) else _read_names(device)
    return device.names


def _read_names(device: Device) -> Names:
    json, kind = device.json, KINDS.get(type(device), "device")
    found: list[tuple[str, str | None]] = []
    if "SerialNumber" in json:
        found.append(("serial number", device.serial))
    if "UUID" in json:
        found.append(("UUID", device.uuid))
    if "Identifiers" in json:
        parts = (device.part(schema.Identifier, it, "Identifiers") for it in device.identifiers)
        found += [("durable name", part.name) for part in parts]
    if "PhysicalLocation" in json and device.slot and device.chassis:
        found.append(("slot", f"{device.slot} of {device.chassis[0]}"))
    if isinstance(device, schema.EthernetInterface):
        found += [("address", it) for it in device.permanent_mac or device.mac]
    elif isinstance(device, schema.Port):
        found += [("address", it) for it in device.macs + device.addresses]
    folded = [(sort, " ".join(name.casefold().split())) for sort, name in found if name]
    return frozenset((kind, sort, name) for sort, name in folded if _identifies(name))


def _identifies(name: str) -> bool:
    return name not in _PLACEHOLDERS and bool(name.strip("0:-. "))


def trusted_names(lists: Mapping[str, Iterable[DeviceList]], notes: Notes) -> Names:
    """Return the names that identify one device each, of the lists of each block.

    Firmware and simulators copy serial numbers: a name identifies none that devices of many
    blocks have, or several devices of one list unless they are the only two that have it.
    """
    blocks: dict[tuple[str, str, str], set[str]] = {}
    uris: dict[tuple[str, str, str], set[str]] = {}
    repeated: set[tuple[str, str, str]] = set()
    for block, of_block in lists.items():
        for _, devices in of_block:
            named = [device for device in devices if not _NAMING.isdisjoint(device.json)]
            each = {device.uri: names for device in named if (names := names_of(device))}
            if not each:
                continue
            counts = Counter(name for names in each.values() for name in names)
            repeated.update(name for name, count in counts.items() if count > 1)
            for name in counts:
                blocks.setdefault(name, set()).add(block)
            for uri, names in each.items():
                for name in names:
                    uris.setdefault(name, set()).add(uri)
    copied = {name for name in repeated if name[1] == "slot" or len(uris[name]) > 2}
    copied.update(name for name, of in blocks.items() if len(of) > MOST_BLOCKS)
    if copied:
        (kind, sort, text), others = min(copied), len(copied) - 1
        verb = "does" if others == 1 else "do"
        more = f", nor {verb} {format_count(others, 'other name')}" if others else ""
        what = f"found {sort} {text} of a {kind} on several, expected it on one"
        notes.remark(f"{what} (it identifies none of them{more})")
    return frozenset(blocks.keys() - copied)


def site_names(device: Device, trusted: Names) -> Names:
    """Return the names that identify a device in other blocks; slots do in its own block alone."""
    names = names_of(device) & trusted if trusted else NO_NAMES
    return frozenset(name for name in names if name[1] != "slot") if names else NO_NAMES
