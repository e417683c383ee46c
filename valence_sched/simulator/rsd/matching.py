# SPDX-License-Identifier: Apache-2.0
"""Matches the devices of a system to an Allocate body, greedily, the smallest first.

A wanted device that is named by its URI comes first; then each, in its order, gets the smallest
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
from valence_sched.simulator.server.documents import Json, value_at

GIB = 2**30

D = TypeVar("D", bound=Device)
Matches = Callable[[D, Json], bool]


def match_devices(
    requested: Iterable[Json], there: Sequence[D], matches: Matches[D], size: Callable[[D], object]
) -> list[D] | None:
    """Return the device of each wanted one, the named ones first; None when one gets none."""
    left = sorted(there, key=size)  # type: ignore[arg-type]
    found: list[D] = []
    for wanted in sorted(requested, key=lambda one: not one.get("Resource")):
        named = (wanted.get("Resource") or {}).get("@odata.id")
        one = next(
            (it for it in left if matches(it, wanted) and (named is None or it.uri == named)), None
        )
        if one is None:
            return None
        left.remove(one)
        found.append(one)
    return found


def processor_matches(device: ProcessorDevice, wanted: Json) -> bool:
    """Return whether a processor matches; its type is CPU unless another is wanted."""
    oem = wanted.get("Oem") or {}
    detail: Json = oem.get("Intel_RackScale") or oem
    own = value_at(device.json, "Oem", "Intel_RackScale")
    capabilities = value_at(own, "Capabilities")
    capabilities = capabilities if isinstance(capabilities, list) else []
    return (
        _equals(device.type or "CPU", wanted.get("ProcessorType") or "CPU")
        and _equals(device.model, wanted.get("Model"))
        and _equals(device.instruction_set, wanted.get("InstructionSet"))
        and _at_least(device.cores, wanted.get("TotalCores"))
        and _at_least(device.speed_mhz, wanted.get("AchievableSpeedMHz"))
        and _equals(value_at(own, "Brand"), detail.get("Brand"))
        and all(word in capabilities for word in detail.get("Capabilities") or ())
    )


def processor_size(device: ProcessorDevice) -> tuple[str, int, int]:
    """Return the order of processors: model, cores, speed."""
    return (device.model or "", device.cores or 0, device.speed_mhz or 0)


def module_matches(device: MemoryDevice, wanted: Json) -> bool:
    """Return whether a memory module matches."""
    return (
        _at_least(device.capacity_mib, wanted.get("CapacityMiB"))
        and _equals(device.device_type, wanted.get("MemoryDeviceType"))
        and _equals(device.type, wanted.get("MemoryType"))
        and _at_least(device.speed_mhz, wanted.get("SpeedMHz"))
        and _equals(device.json.get("Manufacturer"), wanted.get("Manufacturer"))
        and _at_least(device.json.get("DataWidthBits"), wanted.get("DataWidthBits"))
    )


def module_size(device: MemoryDevice) -> int:
    """Return the order of memory modules: MiB."""
    return device.capacity_mib or 0


def drive_matches(device: DriveDevice, wanted: Json) -> bool:
    """Return whether a drive matches; one behind a switch has endpoints."""
    gib = wanted.get("CapacityGiB")
    behind = wanted.get("FabricSwitch")
    return (
        _at_least(device.capacity_bytes, None if gib is None else gib * GIB)
        and _equals(device.media, wanted.get("Type"))
        and _equals(device.protocol, wanted.get("Interface"))
        and _at_least(device.rpm, wanted.get("MinRPM"))
        and _equals(device.json.get("SerialNumber"), wanted.get("SerialNumber"))
        and (behind is None or behind == bool(device.endpoints))
    )


def drive_size(device: DriveDevice) -> int:
    """Return the order of drives: bytes."""
    return device.capacity_bytes or 0


def interface_matches(device: EthernetInterface, wanted: Json) -> bool:
    """Return whether a network interface matches."""
    return _at_least(device.speed_mbps, wanted.get("SpeedMbps"))


def interface_size(device: EthernetInterface) -> int:
    """Return the order of network interfaces: Mbit/s."""
    return device.speed_mbps or 0


def _equals(value: str | None, wanted: str | None) -> bool:
    return wanted is None or value == wanted


def _at_least(value: Any, wanted: float | None) -> bool:
    return wanted is None or (isinstance(value, int | float) and value >= wanted)
