# SPDX-License-Identifier: Apache-2.0
"""Declared fields of the Redfish composition resources and devices (DSP8010).

The worse of ``Health`` and ``HealthRollup`` applies. Critical hardware, and hardware in a state
unknown to Redfish, never counts; Warning counts unless a policy is stricter. A block or system with
known Critical parts counts without these parts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from valence_sched.drivers.document_shape import COUNT, MEMBERS, NEXT
from valence_sched.drivers.fields import (
    Field,
    Identity,
    Link,
    NamedResource,
    Notes,
    Parts,
    Resource,
    amount,
    flag,
    links,
    number,
    only_objects,
    text,
    words,
)
from valence_sched.model.inventory import BlockType, Health


class Identifier(Resource):
    name = Field("DurableName", text, "a name that the device has in every list")


class Device(NamedResource):
    """Any device."""

    lasting = True
    #: False if the device may already be counted.
    certain = True
    #: State and health of its subsystem, unless OK.
    inherited: tuple[str | None, Health | None] | None = None
    #: Its identifying names (``device_owners.names_of``), None before they are read.
    names: frozenset[tuple[str, str, str]] | None = None

    serial = Identity("SerialNumber", text, "identifies a device that several lists contain")
    uuid = Identity("UUID", text, "identifies the device too")
    identifiers = Identity("Identifiers", only_objects, "durable names; identify the device too")
    slot = Identity("PhysicalLocation/PartLocation/ServiceLabel", text, "identifies the device too")
    enabled = Field("Enabled", flag, "false if the device is switched off")
    chassis = Field("Links/Chassis", links, "its enclosure")
    endpoints = Field("Links/Endpoints", links, "its endpoints in fabrics")
    switch_ports = Field("Links/ConnectedSwitchPorts", links, "the switch port of its cable")


class ProcessorDevice(Device):
    type = Field("ProcessorType", text, "CPU, GPU, FPGA, …; absent means CPU")
    cores = Field("TotalCores", number, "all cores", "cores")
    enabled_cores = Field("TotalEnabledCores", number, "read if TotalCores is absent", "cores")
    threads = Field("TotalThreads", number, "all threads", "threads")
    model = Field("Model", text, "free text")
    architecture = Field("ProcessorArchitecture", text, "x86, ARM, Power, RISC-V, …")
    instruction_set = Field("InstructionSet", text, "x86-64, ARM-A64, …")
    speed_mhz = Field("MaxSpeedMHz", number, "highest clock", "MHz")
    memory_mib = Field("MemorySummary/TotalMemorySizeMiB", number, "accelerator memory", "MiB")
    memories = Field("ProcessorMemory", only_objects, "memory and caches of an accelerator")

    @property
    def kind(self) -> str:
        """The type in lower case."""
        return (self.type or "CPU").casefold()


class ProcessorMemory(Resource):
    type = Field("MemoryType", text, "HBM2, GDDR6, L2Cache, …")
    capacity_mib = Field("CapacityMiB", number, "size", "MiB")


class ProcessorSummary(Device):
    count = Field("Count", number, "physical CPUs", "CPUs")
    cores = Field("CoreCount", number, "cores of all CPUs", "cores")
    threads = Field("LogicalProcessorCount", number, "threads of all CPUs", "threads")
    model = Field("Model", text, "free text")


class MemorySummary(Device):
    size_gib = Field("TotalSystemMemoryGiB", amount, "main memory", "GiB")


class MemoryDevice(Device):
    type = Field("MemoryType", text, "DRAM, NVDIMM_N, IntelOptane, Cache, …")
    media = Field("MemoryMedia", words, "DRAM, NAND, Intel3DXPoint, Proprietary")
    device_type = Field("MemoryDeviceType", text, "DDR4, DDR5, HBM3, …")
    capacity_mib = Field("CapacityMiB", number, "size", "MiB")
    volatile_mib = Field("VolatileSizeMiB", number, "the volatile part", "MiB")
    speed_mhz = Field("OperatingSpeedMhz", number, "transfer speed", "MHz")
    processors = Field("Links/Processors", links, "accelerators: not main memory")


class DriveDevice(Device):
    """Drive, and one element of ``SimpleStorage.Devices``."""

    capacity_bytes = Field("CapacityBytes", number, "size", "bytes")
    media = Field("MediaType", text, "HDD, SSD, SMR")
    protocol = Field("Protocol", text, "SATA, SAS, NVMe, …")
    rpm = Field("RotationSpeedRPM", number, "rotation speed", "1/min")
    model = Field("Model", text, "free text")
    hot_spare = Field("HotspareType", text, "Global, Chassis or Dedicated: a hot spare")
    failure_predicted = Field("FailurePredicted", flag, "true counts as Warning")
    indicator = Field("StatusIndicator", text, "Hotspare, Fail or PredictiveFailureAnalysis")


class Storage(Device):
    drives = Link("Drives", DriveDevice, "its drives")


class SimpleStorage(Device):
    """SimpleStorage, the older view of a storage subsystem."""

    devices = Field("Devices", only_objects, "its drives, without URIs")
    same_as = Field("Links/Storage", links, "the storage subsystem that it represents")


class EthernetInterface(Device):
    type = Field("EthernetInterfaceType", text, "Virtual: represents another interface")
    speed_mbps = Field("SpeedMbps", number, "current speed", "Mbit/s")
    mac = Identity("MACAddress", words, "identifies the interface and its port")
    permanent_mac = Identity("PermanentMACAddress", words, "identifies the device too")
    ports = Field("Links/Ports", links, "the adapter ports that it represents")


class Port(Device):
    max_gbps = Field("MaxSpeedGbps", amount, "highest speed", "Gbit/s")
    current_gbps = Field("CurrentSpeedGbps", amount, "read if MaxSpeedGbps is absent", "Gbit/s")
    macs = Identity("Ethernet/AssociatedMACAddresses", words, "identify the port's interface")
    addresses = Identity("AssociatedNetworkAddresses", words, "the same property of older schemas")

    @property
    def speed_mbps(self) -> int | None:
        gbps = self.max_gbps if self.max_gbps is not None else self.current_gbps
        return None if gbps is None else round(gbps * 1000)


class NetworkAdapter(Device):
    ports = Link("Ports", Port, "its ports", collection=True)


class NetworkInterface(Device):
    ports = Link("Ports", Port, "its ports", collection=True)
    adapter = Link("Links/NetworkAdapter", NetworkAdapter, "read if no port is listed", late=True)
    speed_mbps = None


_GIB_IN_MIB, _TIB_IN_MIB = 1 << 10, 1 << 20
#: The smallest and the largest plausible amount of a server part, by field. A summary of 8 TiB or
#: more probably has MiB in a GiB field. It is treated as unknown: it may be 1024 times too large.
BOUNDS: Mapping[Field[Any], tuple[float, float]] = {
    ProcessorDevice.cores: (1, 4096),
    ProcessorDevice.enabled_cores: (1, 4096),
    ProcessorDevice.threads: (1, 1 << 16),
    ProcessorDevice.speed_mhz: (1, 100_000),
    ProcessorDevice.memory_mib: (256, 4 * _TIB_IN_MIB),
    ProcessorMemory.capacity_mib: (1, 4 * _TIB_IN_MIB),
    ProcessorSummary.count: (1, 4096),
    ProcessorSummary.cores: (1, 1 << 16),
    ProcessorSummary.threads: (1, 1 << 20),
    MemorySummary.size_gib: (1, 8 * _GIB_IN_MIB - 1),
    MemoryDevice.capacity_mib: (_GIB_IN_MIB, 4 * _TIB_IN_MIB),
    MemoryDevice.volatile_mib: (_GIB_IN_MIB, 4 * _TIB_IN_MIB),
    DriveDevice.capacity_bytes: (10**9, 10**15),
    EthernetInterface.speed_mbps: (1, 10**7),
    Port.max_gbps: (0.001, 10**4),
    Port.current_gbps: (0.001, 10**4),
}


def plausible(device: Any, field: Field[Any], notes: Notes | None = None) -> Any:
    """Return an amount of a device; take a note and return None if it is implausible."""
    value = field.of(device)
    least, most = BOUNDS[field]
    if value is None or least <= value <= most:
        return value
    expected, doubt = f"{least:,} to {most:,} {field.unit}", "unknown, perhaps another unit"
    if not value:
        expected, doubt = "more than 0", "unknown"
    what = f"found {value:,}, expected {expected} ({doubt})"
    (device.notes if notes is None else notes).remark(f"{device.uri}: {field.path}: {what}")
    return None


#: The effect of each ``Status.State`` (Redfish schema Resource): hardware counts (None), counts
#: with health Warning, or does not count.
STATES: dict[str, str | None] = {
    "Enabled": None,
    "Qualified": None,  # "quality within the acceptable range of operation"
    "Degraded": "Warning",  # "enabled but operates in a degraded state"
    "Absent": "Absent",  # "not present or detected": the device is not listed
    "Disabled": "Disabled",
    "StandbyOffline": "StandbyOffline",  # "awaits an external action to activate it"
    "StandbySpare": "StandbySpare",  # "part of a redundancy set, awaits a failover"
    "InTest": "InTest",
    "Starting": "Starting",
    "UnavailableOffline": "UnavailableOffline",  # "present but cannot be used"
    "Deferring": "Deferring",  # "does not process any commands but queues new requests"
    "Quiesced": "Quiesced",  # "only processes a restricted set of commands"
    "Updating": "Updating",  # "might be unavailable or degraded"
}
_SPELLED = {word.casefold(): word for word in STATES}
_HEALTH: tuple[Health | None, ...] = (None, "OK", "Warning", "Critical")
#: Values of ``Drive.HotspareType`` of a drive that waits for another drive to fail.
_SPARE = ("global", "chassis", "dedicated")
_INDICATORS: dict[str, Health] = {"fail": "Critical", "predictivefailureanalysis": "Warning"}


class Condition(NamedTuple):
    """The state of hardware, None if it is usable, and its health, None if that is not stated."""

    state: str | None = None
    health: Health | None = None

    @property
    def counts(self) -> bool:
        return self.state is None and self.health != "Critical"

    @property
    def is_fine(self) -> bool:
        return self.state is None and self.health in (None, "OK")

    @property
    def word(self) -> str | None:
        return None if self.state == "Disabled" else self.state


def condition_of(of: NamedResource, *, with_parts: bool = True) -> Condition:
    """Return the condition; without parts, HealthRollup counts only if Health is missing."""
    word = of.state
    state = STATES[_SPELLED[word.casefold()]] if word and word.casefold() in _SPELLED else word
    health = _health(of, NamedResource.health)
    if with_parts or health is None:
        health = max(health, _health(of, NamedResource.rollup), key=_HEALTH.index)
    if state == "Warning":
        state, health = None, max(health, "Warning", key=_HEALTH.index)
    if isinstance(of, Device):
        if state is None and of.enabled is False:
            state = "Disabled"
        if isinstance(of, DriveDevice):
            indicator = (of.indicator or "").casefold()
            if indicator == "hotspare" or (of.hot_spare or "").casefold() in _SPARE:
                state = state or "StandbySpare"
            stated: list[Health | None] = [health, "Warning" if of.failure_predicted else None]
            stated.append(_INDICATORS.get(indicator))
            health = max(stated, key=_HEALTH.index)
    return Condition(state, health)


def _health(of: NamedResource, field: Field[str | None]) -> Health | None:
    """Return a health; note an unknown value and treat it as Warning."""
    found: Health | None = field.of(of)  # type: ignore[assignment]
    return "Warning" if found is None and field.raw(of) else found


def note_condition(of: NamedResource, condition: Condition, effect: str) -> None:
    """Note hardware that is not counted, or is counted despite its condition."""
    if condition.is_fine:
        return
    found = " and ".join(filter(None, condition))
    known = "" if condition.state in (None, *STATES) else ", which Redfish does not know"
    if condition.counts:
        effect = "it counts unless a policy is stricter"
    of.remark(f"Status: found {found}{known}, expected Enabled and OK ({effect})")


def worst(conditions: Iterable[Condition]) -> Condition:
    every = list(conditions)
    state = next((it.state for it in every if it.state), None)
    return Condition(state, max((it.health for it in every), key=_HEALTH.index, default=None))


class CapabilitiesObject(Resource):
    limits = Field("@Redfish.ResourceBlockLimits", only_objects, "Min and Max of each block type")


#: The case-folded use cases of composing a system; limits of other use cases do not apply.
USE_CASES = ("computersystemcomposition", "computersystemconstrainedcomposition")
_CAPABILITIES = "@Redfish.CollectionCapabilities/Capabilities"


class CollectionCapability(Resource):
    """One element of ``@Redfish.CollectionCapabilities``."""

    use_case = Field("UseCase", text, "the use case of the capability")
    object = Link("CapabilitiesObject", CapabilitiesObject, "the document with the limits")
    zones = Field("Links/RelatedItem", links, "the zones of the limits; absent or empty: all")

    @property
    def leads(self) -> bool:
        return self.use_case is not None and self.use_case.casefold() in USE_CASES


class Collection(NamedResource):
    """A collection in the present form; if its count is wrong, the members are used."""

    members = Field(MEMBERS, links, "the members on this page")
    next_page = Field(NEXT, text, "the next page")
    count = Field(COUNT, number, "the members of all pages", "members")
    capabilities = Parts(_CAPABILITIES, CollectionCapability, "its limits")

    @property
    def next_link(self) -> str | None:
        """The link to the next page; a bare query belongs to the URI of this page."""
        page = self.next_page
        return self.uri.partition("?")[0] + page if page and page[0] == "?" else page


class DeviceHolder(NamedResource):
    """A resource with devices: a block links them, a system links collections of them."""

    processors = Link("Processors", ProcessorDevice, "CPUs and accelerators")
    memory = Link("Memory", MemoryDevice, "memory modules")
    drives = Link("Drives", DriveDevice, "drives without a storage subsystem")
    storage = Link("Storage", Storage, "storage subsystems", levels=2)
    simple_storage = Link("SimpleStorage", SimpleStorage, "drives without a document of their own")
    ethernet = Link("EthernetInterfaces", EthernetInterface, "network interfaces")
    network = Link("NetworkInterfaces", NetworkInterface, "network adapters of the system")


#: The part of a document that ``podm serve`` writes and Redfish does not define.
OWN = "Oem/ValenceSched"


class MemorySet(Resource):
    modules = Link("MemorySet", MemoryDevice, "memory modules")


class MemoryChunks(NamedResource):
    size_mib = Field("MemoryChunkSizeMiB", number, "size", "MiB")
    kind = Field("AddressRangeType", text, "Volatile, PMEM or Block")


class MemoryDomain(NamedResource):
    creatable = Field("AllowsMemoryChunkCreation", flag, "true if memory chunks can be created")
    size_mib = Field("MemorySizeMiB", number, "total size", "MiB")
    min_mib = Field("MinMemoryChunkSizeMiB", number, "minimum size", "MiB")
    step_mib = Field("MemoryChunkIncrementMiB", number, "step of the size", "MiB")
    chunks = Link("MemoryChunks", MemoryChunks, "its memory chunks", collection=True)
    max_mib = Field(f"{OWN}/MaxMemoryChunkSizeMiB", number, "maximum size", "MiB")
    zones = Field(f"{OWN}/Zones", links, "the zones that reach it; absent or empty: all")
    sets = Parts("InterleavableMemorySets", MemorySet, "its memory modules")

    @property
    def leads(self) -> bool:
        return bool(self.creatable) and condition_of(self, with_parts=False).counts


class ListedSystem(NamedResource):
    """ComputerSystem with the fields of a listed system."""

    type = Field("SystemType", text, "Physical, PhysicallyPartitioned, Composed, …")
    blocks = Field("Links/ResourceBlocks", links, "the blocks of a composed system")
    domains = Link("MemoryDomains", MemoryDomain, "pooled memory", collection=True, levels=3)

    @property
    def is_composed(self) -> bool:
        return (self.type or "").casefold() == "composed"


class System(DeviceHolder):
    """ComputerSystem as a block."""

    simple_storage = Link("SimpleStorage", SimpleStorage, "read if no drive is listed", late=True)
    network = Link("NetworkInterfaces", NetworkInterface, "read if no NIC is listed", late=True)
    cpus = Field("ProcessorSummary", only_objects, "read if no processor is listed")
    ram = Field("MemorySummary", only_objects, "read if no memory module is listed")


class Server(System):
    """ComputerSystem as a host of a service without a CompositionService."""

    type = Field("SystemType", text, "Physical or absent: a host; any other: none")
    host_name = Field("HostName", text, "the name of its node, else Name, if unique")
    power = Field("PowerState", text, "Off: its state Disabled or StandbyOffline counts as Enabled")
    chassis = Field("Links/Chassis", links, "its enclosures")
    endpoints = Field("Links/Endpoints", links, "its endpoints in fabrics")
    boot = Field("Boot", only_objects, "absent beside systems with it: part of the only host")

    @property
    def label(self) -> str | None:
        return self.host_name or self.name

    @property
    def boots(self) -> bool:
        return "Boot" in self.json

    @property
    def leads(self) -> bool:
        return (self.type or "physical").casefold() == "physical"

    @property
    def present_status(self) -> Any:
        """The status without a state that only states that the server is switched off."""
        is_off = (self.power or "").casefold() == "off"
        if is_off and (self.state or "").casefold() in ("disabled", "standbyoffline"):
            return {**self.json["Status"], "State": "Enabled"}
        return self.json.get("Status")


class ResourceBlock(DeviceHolder):
    types = Field("ResourceBlockType", words, "Compute, Processor, Memory, Storage, …")
    composition_state = Field("CompositionStatus/CompositionState", text, "Unused, Composed, …")
    reserved = Field("CompositionStatus/Reserved", flag, "true if a client has reserved it")
    sharing_capable = Field("CompositionStatus/SharingCapable", flag, "absent means false")
    sharing_enabled = Field("CompositionStatus/SharingEnabled", flag, "absent means false")
    max_compositions = Field("CompositionStatus/MaxCompositions", number, "maximum use", "nodes")
    compositions = Field("CompositionStatus/NumberOfCompositions", number, "present use", "nodes")
    pool = Field("Pool", text, "Free, Active or Unassigned")
    client = Field("Client", text, "the client that reserved it")
    chassis = Field("Links/Chassis", links, "its enclosures")
    in_systems = Field("Links/ComputerSystems", links, "systems that contain it, or that it is")
    systems = Link("ComputerSystems", System, "computer systems that are blocks as a whole")


class Zone(NamedResource):
    """Zone; in older versions the zone itself has the capabilities."""

    type = Field("ZoneType", text, "ZoneOfResourceBlocks, or absent")
    blocks = Link("Links/ResourceBlocks", ResourceBlock, "blocks for one node", late=True)
    capabilities = Parts(_CAPABILITIES, CollectionCapability, "its limits")

    @property
    def leads(self) -> bool:
        return self.type is None or self.type.casefold() == "zoneofresourceblocks"


class CompositionService(NamedResource):
    blocks = Link("ResourceBlocks", ResourceBlock, "blocks", collection=True, levels=5, cached=1)
    zones = Link("ResourceZones", Zone, "sets of blocks that a node may combine", collection=True)


class OptionalLink(Link):
    """A link; an empty object counts as a missing link."""

    def __init__(self, path: str, to: type[Resource], doc: str, *, late: bool = False) -> None:
        super().__init__(path, to, doc, late=late)
        self.read = lambda value: () if value == {} else links(value)


class AlternativeLink(Link):
    """A link that only a root without a composition service has."""

    def __get__(self, resource: Any, owner: type[Resource]) -> Any:
        composed_of = ("CompositionService", "ResourceBlocks")
        if resource is not None and any(resource.json.get(name) for name in composed_of):
            return ()
        return super().__get__(resource, owner)


class FabricDevice(Device):
    """The entity of an endpoint: a drive, an accelerator, or another device."""

    lasting = False

    kind = Field("@odata.type", text, "distinguishes drives and processors")
    processor_type = Field("ProcessorType", text, "GPU, FPGA, …; a CPU is not pooled")

    @property
    def class_name(self) -> str:
        return (self.kind or "").removeprefix("#").partition(".")[0]

    @property
    def pooled_kind(self) -> BlockType | None:
        """``Storage`` for a drive, ``Processor`` for an accelerator, else None."""
        kind = self.class_name.casefold()
        if not kind:  # otherwise its path decides, such as /Drives/1
            kind = self.uri.rpartition("/")[0].rpartition("/")[2].casefold().removesuffix("s")
        if kind == "processor" and (self.processor_type or "CPU").casefold() != "cpu":
            return "Processor"
        return "Storage" if kind == "drive" else None


class ConnectedEntity(Resource):
    role = Field("EntityRole", text, "Initiator uses a device; any other role offers one")
    entity = OptionalLink("EntityLink", FabricDevice, "the device behind it")

    @property
    def leads(self) -> bool:
        return self.role is None or self.role.casefold() != "initiator"


class Endpoint(NamedResource):
    """Endpoint of a connection through a fabric."""

    entities = Parts("ConnectedEntities", ConnectedEntity, "the devices or the host behind it")
    ports = Field("Links/Ports", links, "the switch ports of the endpoint")

    @property
    def connected(self) -> Iterator[ConnectedEntity]:
        kind = ConnectedEntity
        return (self.part(kind, json, "ConnectedEntities") for json in self.entities)

    @property
    def offered(self) -> Iterator[str]:
        """The links of its devices; note a device without a link."""
        for entity in (it for it in self.connected if it.leads):
            if not entity.entity and (entity.role or "").casefold() == "target":
                what = "found a target without EntityLink, expected a device (left out)"
                self.remark(what, Endpoint.entities)
            yield from entity.entity


class FabricZone(NamedResource):
    """Zone of a fabric: endpoints that are connected now."""

    endpoints = Field("Links/Endpoints", links, "the connected endpoints, which are in use")


class Fabric(NamedResource):
    endpoints = Link("Endpoints", Endpoint, "endpoints", collection=True)
    zones = Link("Zones", FabricZone, "the zones that connect endpoints", collection=True)


class ProvidingDrive(NamedResource):
    """Drive of a storage pool without a stated size."""

    size_bytes = Field("CapacityBytes", amount, "size", "bytes")


class Volume(NamedResource):
    capacity_bytes = Field("CapacityBytes", amount, "size", "bytes")


class CapacitySource(Resource):
    size_bytes = Field("ProvidedCapacity/Data/AllocatedBytes", amount, "provided size", "bytes")
    drives = Link("ProvidingDrives", ProvidingDrive, "its drives", late=True)
    pools = Field("ProvidingPools", links, "the pools in it, such as physical volumes")


class StoragePool(NamedResource):
    total_bytes = Field("Capacity/Data/AllocatedBytes", amount, "size", "bytes")
    used_bytes = Field("Capacity/Data/ConsumedBytes", amount, "size in use", "bytes")
    sources = Parts("CapacitySources", CapacitySource, "the sources of its capacity")
    volumes = Link("AllocatedVolumes", Volume, "read if ConsumedBytes is absent", late=True)
    min_bytes = Field(f"{OWN}/MinVolumeSizeBytes", amount, "minimum size", "bytes")
    max_bytes = Field(f"{OWN}/MaxVolumeSizeBytes", amount, "maximum size", "bytes")
    step_bytes = Field(f"{OWN}/VolumeIncrementBytes", amount, "step of the size", "bytes")
    zones = Field(f"{OWN}/Zones", links, "the zones that reach it; absent or empty: all")


class StorageHolder(NamedResource):
    """Storage or StorageService that the root links: an independent storage system."""

    pools = Link("StoragePools", StoragePool, "storage pools", collection=True)


class Chassis(NamedResource):
    domains = Link("MemoryDomains", MemoryDomain, "pooled memory", collection=True, levels=3)


class ServiceRoot(NamedResource):
    composition = Link(
        "CompositionService", CompositionService, "composes nodes", levels=6, cached=2
    )
    blocks = Link("ResourceBlocks", ResourceBlock, "blocks", collection=True, levels=5, cached=1)
    systems = Link("Systems", ListedSystem, "physical and composed systems", collection=True)
    hosts = AlternativeLink(
        "Systems", Server, "hosts without a composition service", collection=True
    )
    fabrics = AlternativeLink(
        "Fabrics", Fabric, "fabrics whose zones attach devices", collection=True, levels=4
    )
    chassis = Link("Chassis", Chassis, "enclosures; some hold memory domains", collection=True)
    storage = Link("Storage", StorageHolder, "storage systems", collection=True, levels=3)
    storage_services = Link(
        "StorageServices", StorageHolder, "the older form of Storage", collection=True, levels=3
    )
