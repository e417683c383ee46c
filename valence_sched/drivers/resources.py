# SPDX-License-Identifier: Apache-2.0
"""The Redfish resources of composition, as far as a scheduler reads them (DMTF DSP8010)."""

from __future__ import annotations

from valence_sched.drivers.fields import (
    Field,
    Resource,
    choice,
    flag,
    links,
    number,
    objects,
    text,
    words,
)


class Named(Resource):
    """Any resource: its name and its health."""

    name = Field("Name", text, "what people call it; not an identity")
    state = Field("Status/State", text, "Enabled, Disabled, Absent, StandbyOffline, …")
    health = Field("Status/Health", choice("OK", "Warning", "Critical"), "of the resource itself")
    rollup = Field("Status/HealthRollup", choice("OK", "Warning", "Critical"), "of all below it")


class Root(Named):
    """ServiceRoot."""

    composition = Field("CompositionService", links, "the composition service")
    blocks = Field("ResourceBlocks", links, "blocks of a service without composition service")
    systems = Field("Systems", links, "physical and composed systems")
    chassis = Field("Chassis", links, "enclosures; some hold memory domains")


class CompositionService(Named):
    """CompositionService."""

    blocks = Field("ResourceBlocks", links, "all blocks")
    zones = Field("ResourceZones", links, "the regions in which one node can be composed")


class Collection(Named):
    """Any collection; its count is not read, since it cannot be trusted."""

    members = Field("Members", links, "the members on this page")
    next_page = Field("Members@odata.nextLink", text, "the next page")
    capabilities = Field("@Redfish.CollectionCapabilities/Capabilities", objects, "how to create")


class Capability(Resource):
    """One element of ``@Redfish.CollectionCapabilities``."""

    use_case = Field("UseCase", text, "what the capability is for")
    object = Field("CapabilitiesObject", links, "the document that holds the limits")
    zones = Field("Links/RelatedItem", links, "the zones it applies to; none means all")


class Capabilities(Resource):
    """The document behind a capability."""

    limits = Field("@Redfish.ResourceBlockLimits", objects, "Min and Max with each block type")


class Zone(Named):
    """Zone; the older place of capabilities is the zone itself."""

    type = Field("ZoneType", text, "ZoneOfResourceBlocks, or absent")
    blocks = Field("Links/ResourceBlocks", links, "the blocks that can be composed together")
    capabilities = Field("@Redfish.CollectionCapabilities/Capabilities", objects, "how to create")


class Holder(Named):
    """What holds devices: a block links them, a system links collections of them."""

    processors = Field("Processors", links, "CPUs and accelerators")
    memory = Field("Memory", links, "memory modules")
    drives = Field("Drives", links, "drives without a storage subsystem")
    storage = Field("Storage", links, "storage subsystems")
    simple_storage = Field("SimpleStorage", links, "drives without a document of their own")
    ethernet = Field("EthernetInterfaces", links, "network interfaces")
    network = Field("NetworkInterfaces", links, "network adapters, as seen by the system")


class ResourceBlock(Holder):
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
    systems = Field("ComputerSystems", links, "the systems that are the block")


class System(Holder):
    """ComputerSystem."""

    type = Field("SystemType", text, "Physical, PhysicallyPartitioned, Composed, …")
    blocks = Field("Links/ResourceBlocks", links, "the blocks it is composed of")
    cpus = Field("ProcessorSummary", objects, "read where no processor is listed")
    ram = Field("MemorySummary", objects, "read where no memory module is listed")
    domains = Field("MemoryDomains", links, "memory handed out by amount")


class Chassis(Named):
    """Chassis."""

    domains = Field("MemoryDomains", links, "memory handed out by amount")


class MemoryDomain(Named):
    """MemoryDomain."""

    creatable = Field("AllowsMemoryChunkCreation", flag, "whether it hands out memory")
    size_mib = Field("MemorySizeMiB", number, "all of it", "MiB")
    min_mib = Field("MinMemoryChunkSizeMiB", number, "least at once", "MiB")
    step_mib = Field("MemoryChunkIncrementMiB", number, "grows by", "MiB")
    chunks = Field("MemoryChunks", links, "what is handed out")
    sets = Field("InterleavableMemorySets", objects, "the modules it is made of")


class MemorySet(Resource):
    """One element of ``MemoryDomain.InterleavableMemorySets``."""

    modules = Field("MemorySet", links, "memory modules")


class MemoryChunks(Named):
    """MemoryChunks: one piece of a domain that is in use."""

    size_mib = Field("MemoryChunkSizeMiB", number, "size", "MiB")
    kind = Field("AddressRangeType", text, "Volatile, PMEM or Block")
