# SPDX-License-Identifier: Apache-2.0
"""Describes Redfish devices, and the status and places of a block, as inventory objects.

A place with several values is unknown. Redfish has no PCIe root, so no driver sets ``pcie_root``.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from valence_sched.drivers.fields import Json, Resource
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.schema import plausible
from valence_sched.model import inventory
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Accelerator, Drive, Memory, Nic, Processor

R = TypeVar("R", bound=Resource)
T = TypeVar("T")
#: The class of a resource, and its content in bytes.
ContentKey = tuple[type[Resource], bytes]
MAX_CONTENTS, MAX_CONTENT_BYTES = 4096, 2048
_UNKNOWN = object()
MAX_SETS, MAX_SET_DEVICES = 1024, 100
_ACCELERATORS = ("GPU", "FPGA", "DSP", "Accelerator", "Partition", "OEM")
_PERSISTENT_TYPES = ("nvdimm_n", "nvdimm_f", "nvdimm_p", "inteloptane")
#: Protocols of drives over a network; every other known protocol is local.
_NETWORK_PROTOCOLS = frozenset(("iscsi", "fc", "fcp", "fcoe", "ficon", "ethernet", "tcp", "udp"))
_NETWORK_PROTOCOLS |= {"nvmeoverfabrics", "nvmeovertcp", "roce", "rocev2", "iwarp"}
_NETWORK_PROTOCOLS |= {"nfsv3", "nfsv4", "smb"}
_PERSISTENT_MEDIA = ("nand", "intel3dxpoint")
_IN_FABRIC = re.compile(r"(?P<fabric>.*/Fabrics/[^/]+)(?P<rest>/.*)?", re.IGNORECASE)
_SWITCH = re.compile(r"/Switches/[^/]+", re.IGNORECASE)
#: Properties with the place or the presence of a device.
_PLACING = frozenset(("Links", "Status", "Enabled", "EthernetInterfaceType"))
DeviceNoun = Processor | Accelerator | Memory | Drive | Nic
_GROUPS = {Processor: "processors", Accelerator: "accelerators", Memory: "memory"}
_GROUPS |= {Drive: "drives", Nic: "nics"}
IN_USE = ("Composing", "Composed", "ComposedAndAvailable")
COMPOSITION_STATES = {it.casefold(): it for it in get_args(inventory.CompositionState)}


class ContentMemo(Generic[R, T]):
    """Describes resources by their content, each content once; thread-safe.

    The describing function gets neither names nor links. Its notes are repeated for each resource.
    """

    def __init__(self, understand: Callable[[R], T]) -> None:
        self._understand = understand
        self._memo: dict[ContentKey, T | object] = {}
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode

    def __contains__(self, key: ContentKey | None) -> bool:
        return key in self._memo  # contents whose description took no note

    def key(self, resource: R) -> ContentKey | None:
        """Return the key of the content of a resource, None if it cannot be encoded."""
        type_ = type(resource)
        try:
            return type_, self._encode([*map(resource.json.get, type_.content_properties)])
        except (OverflowError, RecursionError):
            return None

    def of(self, resource: R, key: ContentKey | None = None) -> T:
        key = key or self.key(resource)
        if key is None:
            return self._understand(resource)
        if (known := self._memo.get(key, _UNKNOWN)) is not _UNKNOWN:
            return cast("T", known)
        type_, notes = type(resource), Diagnostics()
        content: Json = {name: resource.json.get(name) for name in type_.content_properties}
        found = self._understand(type_(resource.uri, content, notes))
        if notes:
            resource.notes.extend(notes)
        elif len(key[1]) <= MAX_CONTENT_BYTES:
            if len(self._memo) >= MAX_CONTENTS:
                self._memo.clear()
            self._memo[key] = found
        return found


class Describer:
    """Describes each kind of device and each set of devices once. Thread-safe."""

    def __init__(self) -> None:
        self._memo: ContentMemo[schema.Device, DeviceNoun | None] = ContentMemo(_device_noun)
        self._sets: dict[tuple[object, ...], inventory.Devices] = {}

    def describe(self, devices: Sequence[schema.Device]) -> inventory.Devices:
        keys = [self._memo.key(device) for device in devices]
        every = (*keys, *[it.certain for it in devices], *[it.inherited for it in devices])
        if (found := self._sets.get(every)) is not None:
            return found
        counts: dict[DeviceNoun, int] = defaultdict(int)
        for noun in map(self._noun, keys, devices):
            if noun is not None:
                one = noun if noun.count in (None, 1) else replace(noun, count=1)
                counts[one] += noun.count or 0
        groups: dict[str, Any] = defaultdict(tuple)
        for one, count in counts.items():
            line = one if count == one.count else replace(one, count=count or None)
            groups[_GROUPS[type(one)]] += (line,)
        found = inventory.Devices(**groups)
        # otherwise each device repeats its notes
        if len(keys) <= MAX_SET_DEVICES and all(key in self._memo for key in keys):
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            return self._sets.setdefault(every, found)  # another thread may be faster
        return found

    def _noun(self, key: ContentKey | None, device: schema.Device) -> DeviceNoun | None:
        noun = self._memo.of(device, key)
        if noun is not None and device.inherited is not None:
            own = schema.Condition(noun.state, noun.health)
            noun = _in_condition(noun, schema.worst((own, schema.Condition(*device.inherited))))
        return noun if device.certain or noun is None else replace(noun, count=None)


def is_present(device: schema.Device) -> bool:
    if "Status" in device.json and (device.state or "").casefold() == "absent":
        return False
    nic = device if isinstance(device, schema.EthernetInterface) else None
    return nic is None or (nic.type or "").casefold() != "virtual"


def is_persistent(module: schema.MemoryDevice) -> bool:
    kind = (module.type or "").casefold()
    media = (medium.casefold() for medium in module.media)
    return kind in _PERSISTENT_TYPES or any(medium in _PERSISTENT_MEDIA for medium in media)


def _device_noun(device: schema.Device) -> DeviceNoun | None:
    condition = schema.condition_of(device)
    if not condition.counts and isinstance(device, schema.ProcessorSummary | schema.MemorySummary):
        schema.note_condition(device, condition, "its parts are unknown")
        return (Memory if isinstance(device, schema.MemorySummary) else Processor)(count=None)
    make = _NOUNS.get(type(device))
    noun = make(device) if make is not None and is_present(device) else None
    if noun is None or condition.is_fine:
        return noun
    schema.note_condition(device, condition, "the device is not counted")
    return _in_condition(noun, condition)


def _in_condition(noun: DeviceNoun, condition: schema.Condition) -> DeviceNoun:
    health = None if condition.health == "OK" else condition.health
    return replace(noun, state=condition.state, health=health)


def _processor(device: schema.ProcessorDevice) -> Processor | Accelerator | None:
    kind, of = device.kind, schema.ProcessorDevice
    if kind in ("core", "thread"):  # parts of a listed processor
        return None
    if kind != "cpu":
        name = next((it for it in _ACCELERATORS if it.casefold() == kind), device.type or "")
        return Accelerator(kind=name, model=device.model, memory_mib=_own_memory(device))
    cores = plausible(device, of.cores)
    return Processor(
        cores=plausible(device, of.enabled_cores) if cores is None else cores,
        threads=plausible(device, of.threads),
        model=device.model,
        architecture=device.architecture,
        instruction_set=device.instruction_set,
        speed_mhz=plausible(device, of.speed_mhz),
    )


def _own_memory(device: schema.ProcessorDevice) -> int | None:
    """Return the memory of an accelerator without its caches, None unless all of it is known."""
    kind = schema.ProcessorMemory
    parts = [device.part(kind, json, "ProcessorMemory") for json in device.memories]
    parts = [part for part in parts if "cache" not in (part.type or "").casefold()]
    if device.memory_mib or (device.memory_mib == 0 and not parts):  # 0 is noted
        return plausible(device, schema.ProcessorDevice.memory_mib)  # type: ignore[no-any-return]
    sizes = [plausible(part, kind.capacity_mib) for part in parts]
    return sum(sizes) if sizes and None not in sizes else None


def _processors(summary: schema.ProcessorSummary) -> Processor:
    of = schema.ProcessorSummary
    count, cores, threads = (plausible(summary, it) for it in (of.count, of.cores, of.threads))
    if count is None and (cores or threads):
        what = "found a sum of cores or threads, but no count of CPUs (cores per CPU are unknown)"
        summary.notes.remark(f"{summary.uri}/{of.count.path}: {what}")
    return Processor(
        count=count,
        cores=None if cores is None or count is None else cores // count,
        threads=None if threads is None or count is None else threads // count,
        model=summary.model,
    )


def _module(module: schema.MemoryDevice) -> Memory | None:
    """Return main memory: without caches, and only the volatile part of persistent modules."""
    size, of = module.volatile_mib, schema.MemoryDevice
    is_lasting = is_persistent(module)
    if (module.type or "").casefold() == "cache" or (is_lasting and not size):
        return None
    if not is_lasting:
        sizes = (plausible(module, field) for field in (of.capacity_mib, of.volatile_mib))
        size = next((it for it in sizes if it is not None), None)
    return Memory(capacity_mib=size, type=module.device_type, speed_mhz=module.speed_mhz or None)


def _memory(summary: schema.MemorySummary) -> Memory:
    gib = plausible(summary, schema.MemorySummary.size_gib)
    return Memory(count=None) if gib is None else Memory(capacity_mib=round(gib * 1024))


def _drive(device: schema.DriveDevice) -> Drive:
    protocol = device.protocol
    return Drive(
        capacity_bytes=plausible(device, schema.DriveDevice.capacity_bytes),
        media=device.media,
        protocol=protocol,
        rpm=device.rpm,
        model=device.model,
        remote=None if protocol is None else protocol.casefold() in _NETWORK_PROTOCOLS,
    )


def _port(device: schema.Port) -> Nic:
    of = schema.Port
    speeds = (plausible(device, field) for field in (of.max_gbps, of.current_gbps))
    gbps = next((speed for speed in speeds if speed is not None), None)
    return Nic(speed_mbps=None if gbps is None else round(gbps * 1000))


_NOUNS: dict[type[schema.Device], Callable[[Any], DeviceNoun | None]] = {
    schema.ProcessorDevice: _processor,
    schema.ProcessorSummary: _processors,
    schema.MemoryDevice: _module,
    schema.MemorySummary: _memory,
    schema.DriveDevice: _drive,
    schema.EthernetInterface: lambda it: Nic(speed_mbps=plausible(it, type(it).speed_mbps)),
    schema.Port: _port,
    schema.NetworkInterface: lambda _: Nic(),
}


def with_unlisted(
    devices: inventory.Devices, systems: Iterable[schema.System]
) -> inventory.Devices:
    """Return the devices of a host, with those that it must have or may have but does not list.

    Without a listed CPU or memory module, or without any list of drives or network interfaces,
    their number is unknown.
    """
    stated = frozenset().union(*(system.json for system in systems))
    found: dict[str, Any] = {}
    if not devices.processors:
        found["processors"] = (Processor(count=None),)
    if not devices.memory:
        found["memory"] = (Memory(count=None),)
    if not (devices.drives or stated & {"Storage", "SimpleStorage", "Drives"}):
        found["drives"] = (Drive(count=None),)
    if not (devices.nics or stated & {"EthernetInterfaces", "NetworkInterfaces"}):
        found["nics"] = (Nic(count=None),)
    return replace(devices, **found)


def topology_of(
    service: LinkedDocuments,
    where: str,
    chassis: tuple[str, ...],
    devices: Iterable[schema.Device],
    ends: Iterable[str] = (),
) -> dict[str, str] | None:
    """Return the places of devices by their links; ``ends`` has more endpoints and switch ports."""
    placed = [device for device in devices if not _PLACING.isdisjoint(device.json)]
    if not (placed or chassis or ends):
        return None
    values = defaultdict(set, chassis=set(service.uris(chassis, where)))
    places = list(service.uris(ends, where))
    for device in (it for it in placed if is_present(it) and "Links" in it.json):
        if not chassis:
            values["chassis"].update(service.uris(device.chassis, device.uri))
        places += service.uris(device.endpoints + device.switch_ports, device.uri)
    for inside in filter(None, map(_IN_FABRIC.fullmatch, places)):
        values["fabric"].add(inside["fabric"])
        if switch := _SWITCH.match(inside["rest"] or ""):
            values["switch"].add(inside["fabric"] + switch[0])
    found = {name: uris.pop() for name, uris in values.items() if len(uris) == 1}
    return dict(sorted(found.items())) or None


def status_of(block: schema.ResourceBlock, *, with_parts: bool = True) -> inventory.Status:
    state: inventory.CompositionState
    state = COMPOSITION_STATES.get((block.composition_state or "").casefold(), "Unknown")
    shareable = bool(block.sharing_capable and block.sharing_enabled)
    most = block.max_compositions
    condition = schema.condition_of(block, with_parts=with_parts)
    if shareable and most is not None and block.compositions is None and state != "Unused":
        what = "found none, expected the number of nodes (its free share is unknown)"
        block.remark(what, schema.ResourceBlock.compositions)
        most = None
    return inventory.Status(
        state=state,
        reserved=bool(block.reserved),
        enabled=None if block.state is None else condition.state is None,
        health=condition.health,
        active=(block.pool or "").casefold() == "active",
        shareable=shareable,
        max_compositions=most,
        compositions=block.compositions or 0,
        client=block.client,
        resource_state=condition.word,
    )


def block_of_server(
    server: schema.Server, systems: Iterable[schema.Server], is_free: bool
) -> schema.ResourceBlock:
    """Return the block that a host without a composition service is; it is in use unless free.

    It consists of the ``systems``: of the host, and of its parts with their own BMC.
    """
    json = {
        "Name": server.name,
        "ResourceBlockType": ["ComputerSystem"],
        "CompositionStatus": {"CompositionState": "Unused" if is_free else "Composed"},
        "Status": server.present_status,
        "ComputerSystems": [{"@odata.id": system.uri} for system in systems],
        "Links": {"Chassis": [{"@odata.id": uri} for uri in server.chassis]},
    }
    return schema.ResourceBlock(server.uri, json, server.notes)


def block_of_device(device: schema.FabricDevice, is_free: bool) -> schema.ResourceBlock:
    """Return the block that a device of a fabric is, whose zones attach it to hosts."""
    kind = str(device.pooled_kind)
    json = {
        "Name": device.name,
        "ResourceBlockType": [kind],
        "CompositionStatus": {"CompositionState": "Unused" if is_free else "Composed"},
        "Status": device.json.get("Status"),
        {"Storage": "Drives"}.get(kind, "Processors"): [{"@odata.id": device.uri}],
    }
    return schema.ResourceBlock(device.uri, json, device.notes)


def own_status(block: schema.ResourceBlock) -> inventory.Status:
    """Return the status of a block itself, without the status of its devices."""
    return status_of(block, with_parts=False)


def is_free_host(block: schema.ResourceBlock, named: int, *, is_system: bool) -> bool:
    """Return whether a block is a whole system that can be composed.

    Such a system links no other block. Its block links it as ``ComputerSystems``, or is a compute
    block in the pool Free. Any other block that a system links is in use.
    """
    in_pool = (block.pool or "").casefold() == "free"
    return named == 1 and (is_system or (in_pool and "compute" in map(str.casefold, block.types)))


def is_host_part(service: LinkedDocuments, block: schema.ResourceBlock) -> bool:
    """Return whether a block that a host names is its own compute block, which cannot move.

    The types of the block state this; a block without types is one if it has a CPU.
    """
    if block.types:
        return not {"compute", "computersystem"}.isdisjoint(map(str.casefold, block.types))
    processors = service.follow(block.processors, schema.ProcessorDevice, block.uri)
    return any(it.kind == "cpu" for it in processors)


def device_json(kind: type[schema.Device], noun: DeviceNoun, names: Iterable[str]) -> Json:
    """Return attributes of a device as the properties with which a resource declares them."""
    return {getattr(kind, name).path: getattr(noun, name) for name in names}


def processor_json(cpu: Processor) -> Json:
    names = ("cores", "threads", "model", "architecture", "instruction_set", "speed_mhz")
    return {"ProcessorType": "CPU", **device_json(schema.ProcessorDevice, cpu, names)}


def memory_json(module: Memory) -> Json:
    return {
        "MemoryType": "DRAM",
        "MemoryDeviceType": module.type,
        "CapacityMiB": module.capacity_mib,
        "OperatingSpeedMhz": module.speed_mhz,
    }


def nic_json(nic: Nic) -> Json:
    return {"SpeedMbps": nic.speed_mbps}
