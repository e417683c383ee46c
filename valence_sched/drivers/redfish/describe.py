# SPDX-License-Identifier: Apache-2.0
"""Describes Redfish devices as inventory nouns, each kind once, and where a block has them.

The topology of a block comes from links: ``chassis`` is what the block links, else what its
devices do. ``fabric`` and ``switch`` are read from the URIs of endpoints and switch ports that
devices link. A place with several values is unknown. Redfish has no word for a PCIe root, so no
driver sets ``pcie_root``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_schema as schema
from valence_sched.drivers.redfish.content_memo import ContentKey, ContentMemo
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor

#: Sets of devices that are remembered, and the largest.
MAX_SETS, MAX_SET_DEVICES = 1024, 100

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

_IN_FABRIC = re.compile(r"(?P<fabric>.*/Fabrics/[^/]+)(?P<rest>/.*)?", re.IGNORECASE)
_SWITCH = re.compile(r"/Switches/[^/]+", re.IGNORECASE)

#: Properties of a device that tell where it is, or whether it is there.
_PLACING = frozenset(("Links", "Status", "Enabled", "EthernetInterfaceType"))

DeviceNoun = Processor | Accelerator | Memory | Drive | Nic
D = TypeVar("D", Processor, Accelerator, Memory, Drive, Nic)


class Describer:
    """Describes the devices of pod managers: each kind of device once, and each set of them.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._memo: ContentMemo[schema.Device, DeviceNoun | None] = ContentMemo(_device_noun)
        self._sets: dict[tuple[object, ...], Devices] = {}

    def describe(self, devices: Sequence[schema.Device]) -> Devices:
        """Return the nouns of these devices; identical ones become one line with a count."""
        keys = [self._memo.key(device) for device in devices]
        every = (*keys, *[it.certain for it in devices])
        if (found := self._sets.get(every)) is not None:
            return found
        nouns = tuple([self._noun(*each) for each in zip(keys, devices, strict=True)])
        found = _devices_of(nouns)
        is_small = len(keys) <= MAX_SET_DEVICES
        if is_small and all(key in self._memo for key in keys):  # else each has its notes
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            return self._sets.setdefault(every, found)  # another thread may have been faster
        return found

    def _noun(self, key: ContentKey | None, device: schema.Device) -> DeviceNoun | None:
        noun = self._memo.of(device, key)
        return noun if device.certain or noun is None else replace(noun, count=None)


def is_present(device: schema.Device) -> bool:
    """Return whether a device counts: it is neither absent, nor switched off, nor virtual."""
    state = device.state
    if state is not None and state.casefold() in ABSENT_STATES:
        return False
    if isinstance(device, schema.EthernetInterface) and (device.type or "").casefold() == "virtual":
        return False
    return device.enabled is not False


def is_persistent(module: schema.MemoryDevice) -> bool:
    """Return whether a memory module keeps its content without power."""
    kind = (module.type or "").casefold()
    media = (medium.casefold() for medium in module.media)
    return kind in _PERSISTENT_TYPES or any(medium in _PERSISTENT_MEDIA for medium in media)


def _device_noun(device: schema.Device) -> DeviceNoun | None:
    if not is_present(device):
        return None
    match device:
        case schema.ProcessorDevice():
            return _processor(device)
        case schema.ProcessorSummary():
            return _processors(device)
        case schema.MemoryDevice():
            return _module(device)
        case schema.MemorySummary():
            return _memory(device)
        case schema.DriveDevice():
            return _drive(device)
        case schema.EthernetInterface() | schema.Port() | schema.NetworkInterface():
            return Nic(speed_mbps=device.speed_mbps)
    return None


def _processor(device: schema.ProcessorDevice) -> Processor | Accelerator | None:
    kind = device.type or "CPU"
    folded = kind.casefold()
    if folded in ("core", "thread"):  # parts of a processor that is listed itself
        return None
    if folded != "cpu":
        name = next((name for name in _ACCELERATORS if name.casefold() == folded), kind)
        return Accelerator(kind=name, model=device.model, memory_mib=_own_memory(device))
    return Processor(
        cores=device.cores if device.cores is not None else device.enabled_cores,
        threads=device.threads,
        model=device.model,
        architecture=device.architecture,
        instruction_set=device.instruction_set,
        speed_mhz=device.speed_mhz,
    )


def _own_memory(device: schema.ProcessorDevice) -> int | None:
    """Return the memory of an accelerator without its caches, None unless all of it is known."""
    if device.memory_mib is not None:
        return device.memory_mib
    kind = schema.ProcessorMemory
    parts = [device.part(kind, json, "ProcessorMemory") for json in device.memories]
    sizes = [part.capacity_mib for part in parts if "cache" not in (part.type or "").casefold()]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _processors(summary: schema.ProcessorSummary) -> Processor | None:
    count, cores, threads = summary.count, summary.cores, summary.threads
    if count == 0:
        return None
    if count is None and (cores or threads):
        what = "found none beside the sum of cores or threads, expected CPUs (both are unknown)"
        summary.notes.remark(f"{summary.uri}/{schema.ProcessorSummary.count.path}: {what}")
    return Processor(
        count=count,
        cores=None if cores is None or count is None else cores // count,
        threads=None if threads is None or count is None else threads // count,
        model=summary.model,
    )


def _module(module: schema.MemoryDevice) -> Memory | None:
    """Return main memory: no cache, and of a persistent module only the part that forgets."""
    size = module.capacity_mib if module.capacity_mib is not None else module.volatile_mib
    if is_persistent(module):
        size = module.volatile_mib or 0
    if size == 0 or (module.type or "").casefold() == "cache":
        return None
    return Memory(capacity_mib=size, type=module.device_type, speed_mhz=module.speed_mhz)


def _memory(summary: schema.MemorySummary) -> Memory | None:
    gib = summary.size_gib
    if gib == 0:
        return None
    if gib is None:
        return Memory()
    if gib < DOUBTFUL_GIB:
        return Memory(capacity_mib=round(gib * 1024))
    what = f"found {gib:g}, expected less than {DOUBTFUL_GIB} (looks like MiB)"
    summary.notes.remark(f"{summary.uri}/{schema.MemorySummary.size_gib.path}: {what}")
    return Memory()


def _drive(device: schema.DriveDevice) -> Drive:
    protocol = device.protocol
    return Drive(
        capacity_bytes=device.capacity_bytes,
        media=device.media,
        protocol=protocol,
        rpm=device.rpm,
        model=device.model,
        remote=None if protocol is None else protocol.casefold() in _NETWORK_PROTOCOLS,
    )


def _devices_of(nouns: tuple[DeviceNoun | None, ...]) -> Devices:
    kinds = {type(noun) for noun in nouns}

    def merged(type_: type[D]) -> tuple[D, ...]:
        return _merge(nouns, type_) if type_ in kinds else ()

    return Devices(
        processors=merged(Processor),
        accelerators=merged(Accelerator),
        memory=merged(Memory),
        drives=merged(Drive),
        nics=merged(Nic),
    )


def _merge(nouns: Iterable[DeviceNoun | None], type_: type[D]) -> tuple[D, ...]:
    counts: dict[D, int] = {}
    for noun in nouns:
        if isinstance(noun, type_):
            one = noun if noun.count in (None, 1) else replace(noun, count=1)
            counts[one] = counts.get(one, 0) + (noun.count or 0)
    return tuple([
        one if count == one.count else replace(one, count=count or None)
        for one, count in counts.items()
    ])  # fmt: skip


def block_topology(
    service: LinkedDocuments, block: ResourceBlock, devices: list[schema.Device]
) -> dict[str, str] | None:
    """Return the places of a block with their URIs, None where no link tells one."""
    return topology_of(service, block.uri, block.chassis, devices)


def topology_of(
    service: LinkedDocuments,
    where: str,
    chassis: tuple[str, ...],
    devices: Iterable[schema.Device],
    ends: Iterable[str] = (),
) -> dict[str, str] | None:
    """Return the places of devices, as :func:`block_topology`, that links at ``where`` tell.

    ``ends`` are links to endpoints and switch ports beside those of the devices.
    """
    placed = [device for device in devices if not _PLACING.isdisjoint(device.json)]
    if not (placed or chassis or ends):
        return None
    values: dict[str, set[str]] = {"chassis": set(service.uris(chassis, where))}
    places = list(service.uris(ends, where))
    for device in filter(is_present, placed):
        if "Links" not in device.json:
            continue
        if not chassis:
            values["chassis"].update(service.uris(device.chassis, device.uri))
        places += service.uris(device.endpoints + device.switch_ports, device.uri)
    for uri in places:
        for name, value in _fabric_and_switch(uri).items():
            values.setdefault(name, set()).add(value)
    found = {name: uris.pop() for name, uris in values.items() if len(uris) == 1}
    return dict(sorted(found.items())) or None


def _fabric_and_switch(uri: str) -> dict[str, str]:
    if (inside := _IN_FABRIC.fullmatch(uri)) is None:
        return {}
    fabric = inside["fabric"]
    switch = _SWITCH.match(inside["rest"] or "")
    return {"fabric": fabric, **({"switch": fabric + switch[0]} if switch else {})}
