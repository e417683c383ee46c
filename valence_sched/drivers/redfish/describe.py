# SPDX-License-Identifier: Apache-2.0
"""Describes Redfish devices as inventory nouns; equal devices are described once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from valence_sched.drivers.fields import Json, Resource
from valence_sched.drivers.redfish.device_schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    MemorySummary,
    NetworkInterface,
    Port,
    ProcessorDevice,
    ProcessorMemory,
    ProcessorSummary,
)
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class ContentMemo(Generic[R, T]):
    """Describes resources by their content (``Resource.content_properties``), each content once.

    Names, links and URIs tell resources apart, so the describing function does not see them, but
    for the URI in a note. A note is repeated for each resource.
    """

    def __init__(self, understand: Callable[[R], T]) -> None:
        self._understand = understand
        self._memo: dict[tuple[type[R], bytes], T] = {}
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode

    def of(self, resource: R) -> T:
        """Return the description of a resource."""
        type_, json = type(resource), resource.json
        values = [json.get(name) for name in type_.content_properties]
        try:
            key = type_, self._encode(values)
        except (OverflowError, RecursionError):  # JSON that we can read and not write
            return self._understand(resource)
        if key not in self._memo:
            notes = Diagnostics()
            content: Json = dict(zip(type_.content_properties, values, strict=True))
            found = self._understand(type_(resource.uri, content, notes))
            if notes:
                resource.notes.extend(notes)
                return found
            self._memo[key] = found
        return self._memo[key]


#: From here on a memory summary is taken for MiB written as GiB (8 GiB would be 8192), so it is
#: unknown: nothing is better than a thousand times too much.
DOUBTFUL_GIB = 8192

#: A device in one of these states is not counted.
ABSENT_STATES = ("absent", "disabled")

_ACCELERATORS = ("GPU", "FPGA", "DSP", "Accelerator", "Partition", "OEM")
_PERSISTENT_TYPES = ("nvdimm_n", "nvdimm_f", "nvdimm_p", "inteloptane")
#: Protocols of drives that are reached over a network; every other known one is local.
_NETWORK_PROTOCOLS = (
    "iscsi", "fc", "fcp", "fcoe", "ficon", "nvmeoverfabrics", "nvmeovertcp", "roce", "rocev2",
    "iwarp", "ethernet", "tcp", "udp", "nfsv3", "nfsv4", "smb",
)  # fmt: skip
_PERSISTENT_MEDIA = ("nand", "intel3dxpoint")

DeviceNoun = Processor | Accelerator | Memory | Drive | Nic
D = TypeVar("D", Processor, Accelerator, Memory, Drive, Nic)


class Describer:
    """Describes the devices of one pod manager: each kind of device once, and each set of them."""

    def __init__(self) -> None:
        self._memo: ContentMemo[Device, DeviceNoun | None] = ContentMemo(_device_noun)
        self._sets: dict[tuple[DeviceNoun | None, ...], Devices] = {}

    def describe(self, devices: Iterable[Device]) -> Devices:
        """Return the nouns of these devices; identical ones become one line with a count."""
        nouns = tuple([self._memo.of(device) for device in devices])
        found = self._sets.get(nouns)
        if found is None:
            found = self._sets[nouns] = _devices(nouns)
        return found


def is_present(device: Device) -> bool:
    """Return whether a device counts: neither absent nor switched off."""
    state = device.state
    if state is not None and state.casefold() in ABSENT_STATES:
        return False
    return device.enabled is not False


def is_persistent(module: MemoryDevice) -> bool:
    """Return whether a memory module keeps its content without power."""
    kind = (module.type or "").casefold()
    media = (medium.casefold() for medium in module.media)
    return kind in _PERSISTENT_TYPES or any(medium in _PERSISTENT_MEDIA for medium in media)


def _devices(nouns: Iterable[DeviceNoun | None]) -> Devices:
    return Devices(
        processors=_merge(nouns, Processor),
        accelerators=_merge(nouns, Accelerator),
        memory=_merge(nouns, Memory),
        drives=_merge(nouns, Drive),
        nics=_merge(nouns, Nic),
    )


def _device_noun(device: Device) -> DeviceNoun | None:
    if not is_present(device):
        return None
    match device:
        case ProcessorDevice():
            return _processor(device)
        case ProcessorSummary():
            return _processors(device)
        case MemoryDevice():
            return _module(device)
        case MemorySummary():
            return _memory(device)
        case DriveDevice():
            return _drive(device)
        case EthernetInterface():
            return Nic(speed_mbps=device.speed_mbps)
        case Port():
            gbps = device.max_gbps if device.max_gbps is not None else device.current_gbps
            return Nic(speed_mbps=None if gbps is None else round(gbps * 1000))
        case NetworkInterface():
            return Nic()
    return None


def _processor(device: ProcessorDevice) -> Processor | Accelerator | None:
    kind = (device.type or "CPU").casefold()
    if kind in ("core", "thread"):  # parts of a processor that is listed itself
        return None
    if kind != "cpu":
        names = [name for name in _ACCELERATORS if name.casefold() == kind]
        name = names[0] if names else device.type or "OEM"
        return Accelerator(kind=name, model=device.model, memory_mib=_own_memory(device))
    return Processor(
        cores=device.cores if device.cores is not None else device.enabled_cores,
        threads=device.threads,
        model=device.model,
        architecture=device.architecture,
        instruction_set=device.instruction_set,
        speed_mhz=device.speed_mhz,
    )


def _own_memory(device: ProcessorDevice) -> int | None:
    """Return the memory of an accelerator without its caches, None unless all of it is known."""
    if device.memory_mib is not None:
        return device.memory_mib
    parts = [device.part(ProcessorMemory, json, "ProcessorMemory") for json in device.memories]
    sizes = [part.capacity_mib for part in parts if "cache" not in (part.type or "").casefold()]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _processors(summary: ProcessorSummary) -> Processor | None:
    if not summary.count:
        return None
    cores, threads = summary.cores, summary.threads
    return Processor(
        count=summary.count,
        cores=None if cores is None else cores // summary.count,
        threads=None if threads is None else threads // summary.count,
        model=summary.model,
    )


def _module(module: MemoryDevice) -> Memory | None:
    """Return main memory: no cache, and of a persistent module only the part that forgets."""
    size = module.capacity_mib if module.capacity_mib is not None else module.volatile_mib
    if is_persistent(module):
        size = module.volatile_mib or 0
    if size == 0 or (module.type or "").casefold() == "cache":
        return None
    return Memory(capacity_mib=size, type=module.device_type, speed_mhz=module.speed_mhz)


def _memory(summary: MemorySummary) -> Memory | None:
    gib = summary.size_gib
    if not gib:
        return None
    if gib < DOUBTFUL_GIB:
        return Memory(capacity_mib=round(gib * 1024))
    place = f"{summary.uri}/{MemorySummary.size_gib.path}"
    summary.notes.remark(
        f"{place}: found {gib:g}, expected less than {DOUBTFUL_GIB} (looks like MiB)"
    )
    return Memory()


def _drive(device: DriveDevice) -> Drive:
    return Drive(
        capacity_bytes=device.capacity_bytes,
        media=device.media,
        protocol=device.protocol,
        rpm=device.rpm,
        model=device.model,
        remote=None if device.protocol is None else _is_network(device.protocol),
    )


def _is_network(protocol: str) -> bool:
    return protocol.casefold() in _NETWORK_PROTOCOLS


def _merge(nouns: Iterable[DeviceNoun | None], type_: type[D]) -> tuple[D, ...]:
    counts: dict[D, int] = {}
    for noun in nouns:
        if isinstance(noun, type_):
            one = replace(noun, count=1)
            counts[one] = counts.get(one, 0) + noun.count
    return tuple(replace(one, count=count) for one, count in counts.items())
