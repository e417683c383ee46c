# SPDX-License-Identifier: Apache-2.0
"""Devices as a constrained composition asks for them: how many, and with which properties.

Only properties that the capabilities of the service name are sent; those that they require must
be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from valence_sched.drivers.fields import Json
from valence_sched.model.inventory import Devices

_REQUIRED = "@Redfish.RequiredOnCreate"
_OPTIONAL = "@Redfish.OptionalOnCreate"
_COUNT = "@Redfish.RequestedCount"

Shape = tuple[int, dict[str, Any]]


def shapes(devices: Devices, rules: Json) -> Json | str:
    """Return the body for these devices, or why these rules cannot say it."""
    body: Json = {}
    for name, asked in _collections(devices, rules):
        members = []
        for count, known in asked:
            member = _member(known, _template(rules, name))
            if isinstance(member, str):
                return f"{name}: {member}"
            members.append({_COUNT: count, **member})
        if members and name not in rules:
            return f"it composes no {name} by what they are"
        if members:
            body[name] = {"Members": members}
    return body or "nothing is asked for that it could compose by what it is"


def _collections(devices: Devices, rules: Json) -> Iterator[tuple[str, Iterable[Shape]]]:
    yield "Processors", _processors(devices)
    yield "Memory", _memory(devices)
    yield "EthernetInterfaces", _interfaces(devices)
    if "Storage" in rules or "SimpleStorage" not in rules:
        yield "Storage", _storage(devices, "Drives")
    else:
        yield "SimpleStorage", _storage(devices, "Devices")


def _processors(devices: Devices) -> Iterator[Shape]:
    for cpu in devices.processors:
        yield (
            cpu.count,
            {
                "ProcessorType": "CPU",
                "TotalCores": cpu.cores,
                "TotalThreads": cpu.threads,
                "Model": cpu.model,
                "ProcessorArchitecture": cpu.architecture,
                "InstructionSet": cpu.instruction_set,
                "MaxSpeedMHz": cpu.speed_mhz,
            },
        )
    for card in devices.accelerators:
        yield card.count, {"ProcessorType": card.kind, "Model": card.model, "TotalCores": 1}


def _memory(devices: Devices) -> Iterator[Shape]:
    for module in devices.memory:
        yield (
            module.count,
            {
                "MemoryType": "DRAM",
                "MemoryDeviceType": module.type,
                "CapacityMiB": module.capacity_mib,
                "OperatingSpeedMhz": module.speed_mhz,
            },
        )


def _interfaces(devices: Devices) -> Iterator[Shape]:
    for nic in devices.nics:
        yield nic.count, {"SpeedMbps": nic.speed_mbps}


def _storage(devices: Devices, inner: str) -> Iterator[Shape]:
    drives = [
        {
            _COUNT: drive.count,
            "CapacityBytes": drive.capacity_bytes,
            "MediaType": drive.media,
            "Protocol": drive.protocol,
        }
        for drive in devices.drives
    ]
    if drives:
        yield 1, {inner: [{k: v for k, v in drive.items() if v is not None} for drive in drives]}


def _template(rules: Json, name: str) -> Json:
    members = (rules.get(name) or {}).get("Members") if isinstance(rules.get(name), dict) else None
    first = members[0] if isinstance(members, list) and members else {}
    return first if isinstance(first, dict) else {}


def _member(known: dict[str, Any], template: Json) -> Json | str:
    """Return the properties that a template names; without a template all that are known."""
    named = {key.partition("@")[0] for key in template if key.endswith((_REQUIRED, _OPTIONAL))}
    found = {
        key: value
        for key, value in known.items()
        if value is not None and (key in named or not named)
    }
    required = {key.removesuffix(_REQUIRED) for key in template if key.endswith(_REQUIRED)}
    lacking = sorted(required - found.keys() - {"StorageControllers"})
    return f"{', '.join(lacking)} must be given, and is not known" if lacking else found
