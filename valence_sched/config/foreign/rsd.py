# SPDX-License-Identifier: Apache-2.0
"""Allocate bodies of Intel Rack Scale Design pod managers, versions 2.1 to 2.5.

Each element of a list requests a separate device. A RemoteDrive requests an amount of the stock
``storage_gib``: a pod manager allocates a volume of this size from a storage pool.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, strip_ignored
from valence_sched.model import flavor as nouns
from valence_sched.model.base import Noun
from valence_sched.model.flavor import PositiveInt, Properties, Word


def _rsd_name(field: str) -> str:
    """Return the name of a field in a body: ``total_memory_mib`` is TotalMemoryMiB."""
    units = {"mhz": "MHz", "mib": "MiB", "gib": "GiB", "rpm": "RPM"}
    return "".join(units.get(word) or word.capitalize() for word in field.split("_"))


class RsdProcessor(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """One CPU, or one accelerator if its type is not CPU."""

    model: Word | None = None
    total_cores: PositiveInt | None = None
    achievable_speed_mhz: PositiveInt | None = None
    instruction_set: Word | None = None
    processor_type: Word = "CPU"


class RsdMemoryModule(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """One memory module."""

    capacity_mib: PositiveInt | None = None
    memory_device_type: Word | None = None
    memory_type: str = "DRAM"
    speed_mhz: PositiveInt | None = None


class RsdLocalDrive(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """One drive in the system or attached through a switch."""

    capacity_gib: PositiveInt | None = None
    type: Word | None = None
    min_rpm: PositiveInt | None = None
    interface: Word | None = None


class RsdRemoteDrive(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """One volume."""

    capacity_gib: PositiveInt


class RsdInterface(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """One network interface."""

    speed_mbps: PositiveInt | None = None


class RsdAllocateBody(Noun, frozen=True, kw_only=True, rename=_rsd_name):
    """An Allocate body; the elements of its lists are parsed later, one by one."""

    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str | None = None
    total_system_core_count: PositiveInt | None = None
    total_processor_core_count: PositiveInt | None = None
    total_system_memory_mib: PositiveInt | None = None
    total_memory_capacity_mib: PositiveInt | None = None
    processors: tuple[Any, ...] = ()
    memory: tuple[Any, ...] = ()
    local_drives: tuple[Any, ...] = ()
    remote_drives: tuple[Any, ...] = ()
    ethernet_interfaces: tuple[Any, ...] = ()
    network_interfaces: tuple[Any, ...] = ()
    security: dict[str, Any] | None = None


T = TypeVar("T")
G = TypeVar("G", bound=nouns.DeviceGroupSpec)
DEFAULT_NAME = "rsd-allocate"  # the name of a flavor whose body has no name
_TRAIT = "use a trait that the pod managers have"
_BLOCKS = "the scheduler chooses blocks: use --podm, or --attribute, such as facts.rack=R7"
_LATER = "not used for the choice: set it on the pod manager when the node is composed"
REFUSED_IN_BODY = {"Oem": _TRAIT, "SupportedPerformanceConfigurations": _TRAIT}
_ON_DELETE = ("ClearTPM", "PersistentMemoryOperation", "ClearOptaneDCPersistentMemory")
NOTED_IN_SECURITY = {f"{word}OnDelete": _LATER for word in _ON_DELETE}
REFUSED_IN_DEVICE = {
    "Resource": _BLOCKS,
    "Chassis": _BLOCKS,
    "SerialNumber": "the scheduler chooses devices by their properties: remove it, or use --podm",
    "Oem": _TRAIT,
    "Connectivity": "remove it, and request the fabric as a capability or a trait",
    "Manufacturer": _TRAIT,
    "DataWidthBits": _TRAIT,
    "FabricSwitch": "remove it: a valence-sched flavor can require drives with same: switch",
}
_STOCK = "not used for the choice: an amount of storage has no protocol"
NOTED_IN_DEVICE: dict[Any, dict[str, str]] = {
    RsdInterface: {"PrimaryVLAN": _LATER, "VLANs": _LATER},
    RsdRemoteDrive: {"Protocol": _STOCK, "Master": _LATER, "iSCSIAddress": _LATER},
}


def recognises(document: Any) -> bool:
    """Return whether a document is an Allocate body: its keys begin with capitals."""
    ours = {"name", "properties", "flavor_id"}
    return (
        isinstance(document, dict)
        and ours.isdisjoint(document)
        and any(isinstance(key, str) and key[:1].isupper() for key in document)
    )


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> nouns.Flavor:
    """Parse an Allocate body; InputError if it is invalid or has an unsupported restriction."""
    boot = {"Boot": _LATER}
    fields = strip_ignored(document, cursor, refused=REFUSED_IN_BODY, noted=boot)
    body = cursor.convert(fields, RsdAllocateBody)
    below, noted = cursor.at("Security"), NOTED_IN_SECURITY
    refused = dict.fromkeys(("TpmPresent", "TpmInterfaceType", "TxtEnabled"), _TRAIT)
    security = strip_ignored(body.security, below, refused=refused, noted=noted)
    for key in security or ():
        raise below.error(f"unknown field {key!r}", f"one of {', '.join(noted)}")
    name, description = body.name or DEFAULT_NAME, body.description or ""
    properties = _properties(body, cursor)
    return nouns.Flavor(name=name, description=description, properties=properties)


def _properties(body: RsdAllocateBody, cursor: DocumentCursor) -> Properties:
    def items(key: str, found: tuple[Any, ...], type_: type[T]) -> Iterator[tuple[Any, T]]:
        noted = NOTED_IN_DEVICE.get(type_, {})
        for number, item in enumerate(found):
            at = cursor.at(key).at(number)
            fields = strip_ignored(item, at, refused=REFUSED_IN_DEVICE, noted=noted)
            yield at, at.convert(fields, type_)

    cores = max(body.total_system_core_count or 0, body.total_processor_core_count or 0)
    memory = max(body.total_system_memory_mib or 0, body.total_memory_capacity_mib or 0)
    cpus, accelerators = [], []
    for at, spec in items("Processors", body.processors, RsdProcessor):
        if spec.processor_type == "CPU":
            cpu = nouns.CpuSpec(
                cores=spec.total_cores,
                model=spec.model,
                speed_mhz=spec.achievable_speed_mhz,
                instruction_set=spec.instruction_set,
            )
            cpus.append(cpu)
            continue
        for field in ("total_cores", "achievable_speed_mhz", "instruction_set"):
            if getattr(spec, field) is not None:
                found = f"a property of CPUs for a {spec.processor_type}"
                raise at.at(_rsd_name(field)).error(found, "only ProcessorType and Model")
        accelerators.append(nouns.AcceleratorSpec(kind=spec.processor_type, model=spec.model))
    nics = [
        *items("EthernetInterfaces", body.ethernet_interfaces, RsdInterface),
        *items("NetworkInterfaces", body.network_interfaces, RsdInterface),
    ]
    modules = []
    for at, module in items("Memory", body.memory, RsdMemoryModule):
        if module.memory_type != "DRAM":
            hint = "persistent memory is a stock: stocks: [{resource: cxl_pmem_mib, amount: ...}]"
            raise at.at("MemoryType").error(repr(module.memory_type), "'DRAM'", hint)
        size, speed = module.capacity_mib, module.speed_mhz
        kind = module.memory_device_type
        modules.append(nouns.MemoryModuleSpec(capacity_mib=size, type=kind, speed_mhz=speed))
    drives = [
        nouns.DriveSpec(
            capacity_gib=it.capacity_gib, media=it.type, rpm=it.min_rpm, protocol=it.interface
        )
        for _, it in items("LocalDrives", body.local_drives, RsdLocalDrive)
    ]
    volumes = items("RemoteDrives", body.remote_drives, RsdRemoteDrive)
    return Properties(
        processor=nouns.ProcessorSpec(total_cores=cores) if cores else None,
        memory=nouns.MemorySpec(capacity_mib=memory) if memory else None,
        cpus=_merge_equal(cpus),
        modules=_merge_equal(modules),
        accelerators=_merge_equal(accelerators),
        drives=_merge_equal(drives),
        nics=_merge_equal([nouns.NicSpec(speed_mbps=it.speed_mbps) for _, it in nics]),
        stocks=tuple(nouns.StockSpec("storage_gib", it.capacity_gib) for _, it in volumes),
    )


def _merge_equal(specs: list[G]) -> tuple[G, ...]:
    return tuple(msgspec.structs.replace(spec, count=n) for spec, n in Counter(specs).items())
