# SPDX-License-Identifier: Apache-2.0
"""Declared fields of the Redfish devices that blocks and systems hold (DSP8010)."""

from __future__ import annotations

from valence_sched.drivers.fields import (
    Field,
    Identity,
    Link,
    NamedResource,
    Resource,
    amount,
    flag,
    links,
    number,
    only_objects,
    text,
    words,
)
from valence_sched.model.inventory import Health


class Identifier(Resource):
    """One element of ``Identifiers``."""

    name = Field("DurableName", text, "a name that the device keeps wherever it is listed")


class Device(NamedResource):
    """Any device; of one that is not ``certain`` it is unknown whether it was counted already.

    ``names`` are what identifies it (``device_names.names_of``), None before they are read.
    ``inherited`` are the state and the health of the subsystem that it is behind, where that is
    not fine.
    """

    lasting = True
    certain = True
    inherited: tuple[str | None, Health | None] | None = None
    names: frozenset[tuple[str, str, str]] | None = None

    serial = Identity("SerialNumber", text, "tells whether two entries are one device")
    uuid = Identity("UUID", text, "tells the same")
    identifiers = Identity("Identifiers", only_objects, "durable names; they tell the same")
    slot = Identity("PhysicalLocation/PartLocation/ServiceLabel", text, "tells the same")
    enabled = Field("Enabled", flag, "false when it is switched off")
    chassis = Field("Links/Chassis", links, "the enclosure it sits in")
    endpoints = Field("Links/Endpoints", links, "what it is in fabrics")
    switch_ports = Field("Links/ConnectedSwitchPorts", links, "where its cable ends")


class ProcessorDevice(Device):
    """Processor."""

    type = Field("ProcessorType", text, "CPU, GPU, FPGA, …; absent means CPU")
    cores = Field("TotalCores", number, "all cores", "cores")
    enabled_cores = Field("TotalEnabledCores", number, "read when TotalCores is absent", "cores")
    threads = Field("TotalThreads", number, "all threads", "threads")
    model = Field("Model", text, "free text")
    architecture = Field("ProcessorArchitecture", text, "x86, ARM, Power, RISC-V, …")
    instruction_set = Field("InstructionSet", text, "x86-64, ARM-A64, …")
    speed_mhz = Field("MaxSpeedMHz", number, "highest clock", "MHz")
    memory_mib = Field("MemorySummary/TotalMemorySizeMiB", number, "of an accelerator", "MiB")
    memories = Field("ProcessorMemory", only_objects, "memory and caches of an accelerator")


class ProcessorMemory(Resource):
    """One element of ``Processor.ProcessorMemory``."""

    type = Field("MemoryType", text, "HBM2, GDDR6, L2Cache, …")
    capacity_mib = Field("CapacityMiB", number, "size", "MiB")


class ProcessorSummary(Device):
    """``ComputerSystem.ProcessorSummary``."""

    count = Field("Count", number, "physical CPUs", "CPUs")
    cores = Field("CoreCount", number, "of all CPUs together", "cores")
    threads = Field("LogicalProcessorCount", number, "of all CPUs together", "threads")
    model = Field("Model", text, "free text")


class MemorySummary(Device):
    """``ComputerSystem.MemorySummary``."""

    size_gib = Field("TotalSystemMemoryGiB", amount, "main memory", "GiB")


class MemoryDevice(Device):
    """Memory."""

    type = Field("MemoryType", text, "DRAM, NVDIMM_N, IntelOptane, Cache, …")
    media = Field("MemoryMedia", words, "DRAM, NAND, Intel3DXPoint, Proprietary")
    device_type = Field("MemoryDeviceType", text, "DDR4, DDR5, HBM3, …")
    capacity_mib = Field("CapacityMiB", number, "size", "MiB")
    volatile_mib = Field("VolatileSizeMiB", number, "the part that forgets", "MiB")
    speed_mhz = Field("OperatingSpeedMhz", number, "transfer speed", "MHz")


class DriveDevice(Device):
    """Drive, and one element of ``SimpleStorage.Devices``."""

    capacity_bytes = Field("CapacityBytes", number, "size", "bytes")
    media = Field("MediaType", text, "HDD, SSD, SMR")
    protocol = Field("Protocol", text, "SATA, SAS, NVMe, …")
    rpm = Field("RotationSpeedRPM", number, "of a spinning drive", "1/min")
    model = Field("Model", text, "free text")
    hot_spare = Field("HotspareType", text, "Global, Chassis or Dedicated: it waits for a failure")
    failure_predicted = Field("FailurePredicted", flag, "true counts as Warning")
    indicator = Field("StatusIndicator", text, "Hotspare, Fail or PredictiveFailureAnalysis")


class Storage(Device):
    """Storage."""

    drives = Link("Drives", DriveDevice, "its drives")


class SimpleStorage(Device):
    """SimpleStorage, the older view of a storage subsystem."""

    devices = Field("Devices", only_objects, "its drives, without URIs")
    same_as = Field("Links/Storage", links, "the storage subsystem it is a view of")


class EthernetInterface(Device):
    """EthernetInterface."""

    type = Field("EthernetInterfaceType", text, "Virtual is a view of another one")
    speed_mbps = Field("SpeedMbps", number, "current speed", "Mbit/s")
    mac = Identity("MACAddress", words, "tells whether a port is the same")
    permanent_mac = Identity("PermanentMACAddress", words, "tells the same")
    ports = Field("Links/Ports", links, "the adapter ports it is a view of")


class Port(Device):
    """Port."""

    max_gbps = Field("MaxSpeedGbps", amount, "highest speed", "Gbit/s")
    current_gbps = Field("CurrentSpeedGbps", amount, "read when the highest is absent", "Gbit/s")
    macs = Identity("Ethernet/AssociatedMACAddresses", words, "tell which interface is the same")
    addresses = Identity("AssociatedNetworkAddresses", words, "tell the same, in older schemas")

    @property
    def speed_mbps(self) -> int | None:
        """The highest speed, else the current one."""
        gbps = self.max_gbps if self.max_gbps is not None else self.current_gbps
        return None if gbps is None else round(gbps * 1000)


class NetworkAdapter(Device):
    """NetworkAdapter."""

    ports = Link("Ports", Port, "its ports", collection=True)


class NetworkInterface(Device):
    """NetworkInterface."""

    ports = Link("Ports", Port, "its ports", collection=True)
    adapter = Link(
        "Links/NetworkAdapter", NetworkAdapter, "read where no port is listed", late=True
    )
    speed_mbps = None
