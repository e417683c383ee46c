# SPDX-License-Identifier: Apache-2.0
"""Declared fields of the Redfish composition resources (DSP8010)."""

from __future__ import annotations

from valence_sched.drivers.document_shape import COUNT, MEMBERS, NEXT
from valence_sched.drivers.fields import (
    Field,
    Link,
    NamedResource,
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
from valence_sched.drivers.redfish.device_schema import (
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    NetworkInterface,
    ProcessorDevice,
    SimpleStorage,
    Storage,
)
from valence_sched.drivers.redfish.usable import condition_of


class CapabilitiesObject(Resource):
    """The document behind a capability."""

    limits = Field("@Redfish.ResourceBlockLimits", only_objects, "Min and Max with each block type")


#: The ways to compose a system, folded; other use cases limit something else.
USE_CASES = ("computersystemcomposition", "computersystemconstrainedcomposition")
_CAPABILITIES = "@Redfish.CollectionCapabilities/Capabilities"


class CollectionCapability(Resource):
    """One element of ``@Redfish.CollectionCapabilities``."""

    use_case = Field("UseCase", text, "what the capability is for")
    object = Link("CapabilitiesObject", CapabilitiesObject, "the document that holds the limits")
    zones = Field("Links/RelatedItem", links, "the zones it applies to; none means all")

    @property
    def leads(self) -> bool:
        """Whether it is a way to compose a system."""
        return self.use_case is not None and self.use_case.casefold() in USE_CASES


class Collection(NamedResource):
    """Any collection, in its present form; where its count is wrong the members hold."""

    members = Field(MEMBERS, links, "the members on this page")
    next_page = Field(NEXT, text, "the next page")
    count = Field(COUNT, number, "the members of all pages", "members")
    capabilities = Parts(_CAPABILITIES, CollectionCapability, "its limits")

    @property
    def next_link(self) -> str | None:
        """The link to the next page, None where there is none; a query alone is of this one."""
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
    network = Link("NetworkInterfaces", NetworkInterface, "network adapters, as seen by the system")


#: The part of a document that ``podm serve`` writes and Redfish has no word for.
OWN = "Oem/ValenceSched"


class MemorySet(Resource):
    """One element of ``MemoryDomain.InterleavableMemorySets``."""

    modules = Link("MemorySet", MemoryDevice, "memory modules")


class MemoryChunks(NamedResource):
    """MemoryChunks: one piece of a domain that is in use."""

    size_mib = Field("MemoryChunkSizeMiB", number, "size", "MiB")
    kind = Field("AddressRangeType", text, "Volatile, PMEM or Block")


class MemoryDomain(NamedResource):
    """MemoryDomain."""

    creatable = Field("AllowsMemoryChunkCreation", flag, "whether it hands out memory")
    size_mib = Field("MemorySizeMiB", number, "all of it", "MiB")
    min_mib = Field("MinMemoryChunkSizeMiB", number, "least at once", "MiB")
    step_mib = Field("MemoryChunkIncrementMiB", number, "grows by", "MiB")
    chunks = Link("MemoryChunks", MemoryChunks, "what is handed out", collection=True)
    max_mib = Field(f"{OWN}/MaxMemoryChunkSizeMiB", number, "most at once", "MiB")
    zones = Field(f"{OWN}/Zones", links, "the zones that reach it; none means all")
    sets = Parts("InterleavableMemorySets", MemorySet, "the modules it is made of")

    @property
    def leads(self) -> bool:
        """Whether it hands out memory now."""
        return bool(self.creatable) and condition_of(self, with_parts=False).counts


class ListedSystem(NamedResource):
    """ComputerSystem as far as it is read for its own sake."""

    type = Field("SystemType", text, "Physical, PhysicallyPartitioned, Composed, …")
    blocks = Field("Links/ResourceBlocks", links, "the blocks it is composed of")
    domains = Link(
        "MemoryDomains", MemoryDomain, "memory handed out by amount", collection=True, levels=3
    )

    @property
    def is_composed(self) -> bool:
        """Whether it is a node: it was composed."""
        return (self.type or "").casefold() == "composed"


class System(DeviceHolder):
    """ComputerSystem as a block."""

    simple_storage = Link("SimpleStorage", SimpleStorage, "read where no drive is", late=True)
    network = Link("NetworkInterfaces", NetworkInterface, "read where no Ethernet is", late=True)
    cpus = Field("ProcessorSummary", only_objects, "read where no processor is listed")
    ram = Field("MemorySummary", only_objects, "read where no memory module is listed")


class ResourceBlock(DeviceHolder):
    """ResourceBlock."""

    types = Field("ResourceBlockType", words, "Compute, Processor, Memory, Storage, …")
    composition_state = Field("CompositionStatus/CompositionState", text, "Unused, Composed, …")
    reserved = Field("CompositionStatus/Reserved", flag, "a client has claimed it")
    sharing_capable = Field("CompositionStatus/SharingCapable", flag, "absent: it cannot")
    sharing_enabled = Field("CompositionStatus/SharingEnabled", flag, "absent: it does not")
    max_compositions = Field("CompositionStatus/MaxCompositions", number, "an upper bound", "nodes")
    compositions = Field("CompositionStatus/NumberOfCompositions", number, "in use by", "nodes")
    pool = Field("Pool", text, "Free, Active or Unassigned")
    client = Field("Client", text, "whose it is")
    chassis = Field("Links/Chassis", links, "the enclosures it sits in")
    in_systems = Field("Links/ComputerSystems", links, "the systems it is part of, or is")
    systems = Link("ComputerSystems", System, "the systems that are the block")


class Zone(NamedResource):
    """Zone; the older place of capabilities is the zone itself."""

    type = Field("ZoneType", text, "ZoneOfResourceBlocks, or absent")
    blocks = Link("Links/ResourceBlocks", ResourceBlock, "the blocks that can be in one node",
                  late=True)  # fmt: skip
    capabilities = Parts(_CAPABILITIES, CollectionCapability, "its limits")

    @property
    def leads(self) -> bool:
        """Whether it is a zone of resource blocks."""
        return self.type is None or self.type.casefold() == "zoneofresourceblocks"


class CompositionService(NamedResource):
    """CompositionService."""

    blocks = Link("ResourceBlocks", ResourceBlock, "all blocks", collection=True,
                  levels=5, levels_kept=1)  # fmt: skip
    zones = Link("ResourceZones", Zone, "the regions in which one node can be composed",
                 collection=True)  # fmt: skip


class ProvidingDrive(NamedResource):
    """Drive that a storage pool is made of, where the pool does not tell its size."""

    size_bytes = Field("CapacityBytes", amount, "size", "bytes")


class Volume(NamedResource):
    """Volume, as far as it is made of a storage pool."""

    capacity_bytes = Field("CapacityBytes", amount, "size", "bytes")


class CapacitySource(Resource):
    """One element of ``StoragePool.CapacitySources``."""

    size_bytes = Field("ProvidedCapacity/Data/AllocatedBytes", amount, "what it provides", "bytes")
    drives = Link("ProvidingDrives", ProvidingDrive, "the drives it is made of", late=True)
    pools = Field("ProvidingPools", links, "the pools it is made of, such as physical volumes")


class StoragePool(NamedResource):
    """StoragePool."""

    total_bytes = Field("Capacity/Data/AllocatedBytes", amount, "size", "bytes")
    used_bytes = Field("Capacity/Data/ConsumedBytes", amount, "what volumes hold", "bytes")
    sources = Parts("CapacitySources", CapacitySource, "what it is made of")
    volumes = Link("AllocatedVolumes", Volume, "read where what is used is not told", late=True)
    min_bytes = Field(f"{OWN}/MinVolumeSizeBytes", amount, "least at once", "bytes")
    max_bytes = Field(f"{OWN}/MaxVolumeSizeBytes", amount, "most at once", "bytes")
    step_bytes = Field(f"{OWN}/VolumeIncrementBytes", amount, "grows by", "bytes")
    zones = Field(f"{OWN}/Zones", links, "the zones that reach it; none means all")


class StorageHolder(NamedResource):
    """Storage or StorageService that the root links: a storage system of its own."""

    pools = Link("StoragePools", StoragePool, "what volumes are made of", collection=True)


class Chassis(NamedResource):
    """Chassis."""

    domains = Link(
        "MemoryDomains", MemoryDomain, "memory handed out by amount", collection=True, levels=3
    )


class ServiceRoot(NamedResource):
    """ServiceRoot."""

    composition = Link("CompositionService", CompositionService, "the composition service",
                       levels=6, levels_kept=2)  # fmt: skip
    blocks = Link("ResourceBlocks", ResourceBlock, "blocks of a service without composition "
                  "service", collection=True, levels=5, levels_kept=1)  # fmt: skip
    systems = Link("Systems", ListedSystem, "physical and composed systems", collection=True)
    chassis = Link("Chassis", Chassis, "enclosures; some hold memory domains", collection=True)
    storage = Link("Storage", StorageHolder, "storage systems", collection=True, levels=3)
    storage_services = Link("StorageServices", StorageHolder, "storage systems of older services",
                            collection=True, levels=3)  # fmt: skip
