# SPDX-License-Identifier: Apache-2.0
"""Allocate bodies of Intel Rack Scale Design pod managers, versions 2.1 to 2.5.

The words are those that the pod managers accept, and the two totals as the CSDL calls them. Each
element of a list takes one device of its own. A RemoteDrive is a volume of its size, an amount of
the stock ``storage_gib``, as a pod manager cuts it from a storage pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from valence_sched.config.foreign.base import Form, Known, Where, sifted
from valence_sched.model.base import Noun
from valence_sched.model.flavor import Flavor
from valence_sched.model.flavor_properties import (
    AcceleratorAsk,
    CpuAsk,
    DriveAsk,
    MemoryAsk,
    ModuleAsk,
    More,
    NicAsk,
    ProcessorAsk,
    Properties,
    StockAsk,
    Word,
)


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


T = TypeVar("T")
G = TypeVar("G", CpuAsk, ModuleAsk, AcceleratorAsk, DriveAsk, NicAsk)

NAME = "rsd-allocate"  # of a body without one

_TRAIT = "say so with a trait that the pod managers have"
_BLOCKS = "blocks are chosen here: say --podm, or an attribute such as --attribute facts.rack=R7"
_LATER = "not looked at in choosing: say it to the pod manager when it composes"

REFUSED_IN_BODY = {"Oem": _TRAIT, "SupportedPerformanceConfigurations": _TRAIT}
REFUSED_IN_SECURITY = dict.fromkeys(("TpmPresent", "TpmInterfaceType", "TxtEnabled"), _TRAIT)
NOTED_IN_SECURITY = dict.fromkeys(
    ("ClearTPMOnDelete", "PersistentMemoryOperationOnDelete",
     "ClearOptaneDCPersistentMemoryOnDelete"), _LATER
)  # fmt: skip
REFUSED_IN_DEVICE = {
    "Resource": _BLOCKS,
    "Chassis": _BLOCKS,
    "SerialNumber": "devices are asked for by what they are: drop it, or say --podm",
    "Oem": _TRAIT,
    "Connectivity": "drop it: which fabric a pod manager has is a capability or a trait",
    "Manufacturer": _TRAIT,
    "DataWidthBits": _TRAIT,
    "FabricSwitch": "drop it: in a flavor of your own drives may stand at one place, same: switch",
}
_STOCK = "not looked at in choosing: storage that is given out by amount does not tell it"
NOTED_IN_DEVICE: dict[Any, dict[str, str]] = {
    Interface: {"PrimaryVLAN": _LATER, "VLANs": _LATER},
    RemoteDrive: {"Protocol": _STOCK, "Master": _LATER, "iSCSIAddress": _LATER},
}


def knows(document: Any) -> bool:
    """Return whether a document is such a body: its keys begin with capitals."""
    ours = {"name", "properties", "flavor_id"}
    return (
        isinstance(document, dict)
        and ours.isdisjoint(document)
        and any(isinstance(key, str) and key[:1].isupper() for key in document)
    )


def form(document: Any, where: Where, known: Known) -> Form:
    """Read an Allocate body.

    Raises:
        InputError: it is none, or restricts the node by a word that has no counterpart.
    """
    remarks: list[str] = []
    kept = sifted(document, where, remarks, refused=REFUSED_IN_BODY, noted={"Boot": _LATER})
    body = where.convert(kept, Body)
    _check_security(body.security, where.at("Security"), remarks)
    properties = _properties(body, where, remarks)
    name, description = body.name or NAME, body.description or ""
    flavor = Flavor(name=name, description=description, properties=properties)
    return Form(flavor, tuple(remarks))


def _check_security(security: dict[str, Any] | None, where: Where, remarks: list[str]) -> None:
    kept = sifted(
        security, where, remarks, refused=REFUSED_IN_SECURITY, noted=NOTED_IN_SECURITY
    )  # fmt: skip
    for key in kept or ():
        raise where.error(f"unknown field {key!r}", f"one of {', '.join(NOTED_IN_SECURITY)}")


def _properties(body: Body, where: Where, remarks: list[str]) -> Properties:
    cores = max(body.total_system_core_count or 0, body.total_processor_core_count or 0)
    memory = max(body.total_system_memory_mib or 0, body.total_memory_capacity_mib or 0)
    cpus, accelerators = [], []
    for place, asked in _items(body.processors, Processor, where.at("Processors"), remarks):
        if asked.processor_type == "CPU":
            cpus.append(_cpu(asked))
        else:
            accelerators.append(_accelerator(asked, place))
    modules = _items(body.memory, Module, where.at("Memory"), remarks)
    local = _items(body.local_drives, LocalDrive, where.at("LocalDrives"), remarks)
    remote = _items(body.remote_drives, RemoteDrive, where.at("RemoteDrives"), remarks)
    nics = [
        NicAsk(speed_mbps=asked.speed_mbps)
        for key in ("EthernetInterfaces", "NetworkInterfaces")
        for _, asked in _items(
            body.ethernet_interfaces if key[0] == "E" else body.network_interfaces,
            Interface, where.at(key), remarks,
        )
    ]  # fmt: skip
    return Properties(
        processor=ProcessorAsk(total_cores=cores) if cores else None,
        memory=MemoryAsk(capacity_mib=memory) if memory else None,
        cpus=_counted(cpus),
        modules=_counted([_module(asked, place) for place, asked in modules]),
        accelerators=_counted(accelerators),
        drives=_counted([_drive(asked) for _, asked in local]),
        nics=_counted(nics),
        stocks=tuple(
            StockAsk(resource="storage_gib", amount=asked.capacity_gib) for _, asked in remote
        ),
    )


def _items(
    items: tuple[Any, ...], type_: type[T], where: Where, remarks: list[str]
) -> Iterator[tuple[Where, T]]:
    for number, item in enumerate(items):
        place = where.at(number)
        noted = NOTED_IN_DEVICE.get(type_, {})
        kept = sifted(item, place, remarks, refused=REFUSED_IN_DEVICE, noted=noted)
        yield place, place.convert(kept, type_)


def _cpu(asked: Processor) -> CpuAsk:
    return CpuAsk(
        cores=asked.total_cores,
        model=asked.model,
        instruction_set=asked.instruction_set,
        speed_mhz=asked.achievable_speed_mhz,
    )


def _accelerator(asked: Processor, where: Where) -> AcceleratorAsk:
    for key, value in (
        ("TotalCores", asked.total_cores),
        ("AchievableSpeedMHz", asked.achievable_speed_mhz),
        ("InstructionSet", asked.instruction_set),
    ):
        if value is not None:
            found = f"a word of CPUs for a {asked.processor_type}"
            raise where.at(key).error(found, "only ProcessorType and Model")
    return AcceleratorAsk(kind=asked.processor_type, model=asked.model)


def _module(asked: Module, where: Where) -> ModuleAsk:
    if asked.memory_type != "DRAM":
        hint = "persistent memory is a stock: stocks: [{resource: cxl_pmem_mib, amount: ...}]"
        raise where.at("MemoryType").error(repr(asked.memory_type), "'DRAM'", hint)
    return ModuleAsk(
        capacity_mib=asked.capacity_mib, type=asked.memory_device_type, speed_mhz=asked.speed_mhz
    )


def _drive(asked: LocalDrive) -> DriveAsk:
    return DriveAsk(
        capacity_gib=asked.capacity_gib,
        media=asked.type,
        rpm=asked.min_rpm,
        protocol=asked.interface,
    )


def _counted(asks: list[G]) -> tuple[G, ...]:
    """Return equal asks as one with their number, in the order in which they come."""
    return tuple(msgspec.structs.replace(ask, count=n) for ask, n in Counter(asks).items())
