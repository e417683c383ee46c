# SPDX-License-Identifier: Apache-2.0
"""Matches the devices of a system to an Allocate body, greedily, the smallest first.

An ask that names its device comes first; then each, in its order, takes the smallest that is
left. Greedy is how these pod managers work, so a body may be refused that could be served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from valence_sched.drivers.redfish.device_schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.simulator.rsd.tree import value_at
from valence_sched.simulator.server.documents import Json

GIB = 2**30

D = TypeVar("D", bound=Device)
Matches = Callable[[D, Json], bool]


def match_devices(
    asks: Iterable[Json], there: Sequence[D], suits: Matches[D], size: Callable[[D], object]
) -> list[D] | None:
    """Return the device that each ask takes, the named ones first; None when one gets none."""
    left = sorted(there, key=size)  # type: ignore[arg-type]
    found: list[D] = []
    for ask in sorted(asks, key=lambda ask: not ask.get("Resource")):
        named = (ask.get("Resource") or {}).get("@odata.id")
        one = next(
            (it for it in left if suits(it, ask) and (named is None or it.uri == named)), None
        )
        if one is None:
            return None
        left.remove(one)
        found.append(one)
    return found


def processor_matches(device: ProcessorDevice, ask: Json) -> bool:
    """Return whether a processor suits; its type is CPU unless the ask names another."""
    oem = ask.get("Oem") or {}
    asked: Json = oem.get("Intel_RackScale") or oem
    own = value_at(device.json, "Oem", "Intel_RackScale")
    told = value_at(own, "Capabilities")
    told = told if isinstance(told, list) else []
    return (
        _equals(device.type or "CPU", ask.get("ProcessorType") or "CPU")
        and _equals(device.model, ask.get("Model"))
        and _equals(device.instruction_set, ask.get("InstructionSet"))
        and _at_least(device.cores, ask.get("TotalCores"))
        and _at_least(device.speed_mhz, ask.get("AchievableSpeedMHz"))
        and _equals(value_at(own, "Brand"), asked.get("Brand"))
        and all(word in told for word in asked.get("Capabilities") or ())
    )


def processor_size(device: ProcessorDevice) -> tuple[str, int, int]:
    """Return the order of processors: model, cores, speed."""
    return (device.model or "", device.cores or 0, device.speed_mhz or 0)


def module_matches(device: MemoryDevice, ask: Json) -> bool:
    """Return whether a memory module suits."""
    return (
        _at_least(device.capacity_mib, ask.get("CapacityMiB"))
        and _equals(device.device_type, ask.get("MemoryDeviceType"))
        and _equals(device.type, ask.get("MemoryType"))
        and _at_least(device.speed_mhz, ask.get("SpeedMHz"))
        and _equals(device.json.get("Manufacturer"), ask.get("Manufacturer"))
        and _at_least(device.json.get("DataWidthBits"), ask.get("DataWidthBits"))
    )


def module_size(device: MemoryDevice) -> int:
    """Return the order of memory modules: MiB."""
    return device.capacity_mib or 0


def drive_matches(device: DriveDevice, ask: Json) -> bool:
    """Return whether a drive suits; one behind a switch has endpoints."""
    gib = ask.get("CapacityGiB")
    behind = ask.get("FabricSwitch")
    return (
        _at_least(device.capacity_bytes, None if gib is None else gib * GIB)
        and _equals(device.media, ask.get("Type"))
        and _equals(device.protocol, ask.get("Interface"))
        and _at_least(device.rpm, ask.get("MinRPM"))
        and _equals(device.json.get("SerialNumber"), ask.get("SerialNumber"))
        and (behind is None or behind == bool(device.endpoints))
    )


def drive_size(device: DriveDevice) -> int:
    """Return the order of drives: bytes."""
    return device.capacity_bytes or 0


def interface_matches(device: EthernetInterface, ask: Json) -> bool:
    """Return whether a network interface suits."""
    return _at_least(device.speed_mbps, ask.get("SpeedMbps"))


def interface_size(device: EthernetInterface) -> int:
    """Return the order of network interfaces: Mbit/s."""
    return device.speed_mbps or 0


def _equals(found: str | None, asked: str | None) -> bool:
    return asked is None or found == asked


def _at_least(found: Any, asked: float | None) -> bool:
    return asked is None or (isinstance(found, int | float) and found >= asked)
