# SPDX-License-Identifier: Apache-2.0
"""The parts of an Allocate body of Intel Rack Scale Design, each word with its noun's field."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.model.noun import Noun
from valence_sched.model.properties import More, Word


class Processor(Noun, frozen=True, kw_only=True, rename="pascal"):
    """One CPU, or one accelerator when its type is another."""

    model: Word | None = None
    total_cores: More | None = None
    achievable_speed_mhz: More | None = msgspec.field(default=None, name="AchievableSpeedMHz")
    instruction_set: Word | None = None
    processor_type: Word = "CPU"


class Module(Noun, frozen=True, kw_only=True, rename="pascal"):
    """One memory module."""

    capacity_mib: More | None = msgspec.field(default=None, name="CapacityMiB")
    memory_device_type: Word | None = None
    memory_type: str = "DRAM"
    speed_mhz: More | None = msgspec.field(default=None, name="SpeedMHz")


class LocalDrive(Noun, frozen=True, kw_only=True, rename="pascal"):
    """One drive of the system or behind a switch."""

    capacity_gib: More | None = msgspec.field(default=None, name="CapacityGiB")
    type: Word | None = None
    min_rpm: More | None = msgspec.field(default=None, name="MinRPM")
    interface: Word | None = None


class RemoteDrive(Noun, frozen=True, kw_only=True):
    """One volume."""

    capacity_gib: More = msgspec.field(name="CapacityGiB")


class Interface(Noun, frozen=True, kw_only=True):
    """One network interface."""

    speed_mbps: More | None = msgspec.field(default=None, name="SpeedMbps")


class Body(Noun, frozen=True, kw_only=True, rename="pascal"):
    """The body; what its lists hold is read one by one."""

    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str | None = None
    total_system_core_count: More | None = None
    total_processor_core_count: More | None = None
    total_system_memory_mib: More | None = msgspec.field(default=None, name="TotalSystemMemoryMiB")
    total_memory_capacity_mib: More | None = msgspec.field(
        default=None, name="TotalMemoryCapacityMiB"
    )
    processors: tuple[Any, ...] = ()
    memory: tuple[Any, ...] = ()
    local_drives: tuple[Any, ...] = ()
    remote_drives: tuple[Any, ...] = ()
    ethernet_interfaces: tuple[Any, ...] = ()
    network_interfaces: tuple[Any, ...] = ()
    security: dict[str, Any] | None = None
