# SPDX-License-Identifier: Apache-2.0
"""Declared fields of the resources of Intel Rack Scale Design 2.1 to 2.5."""

from valence_sched.drivers import fields
from valence_sched.drivers.fields import Field, Link, NamedResource, amount, flag, links, text
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.schema import OptionalLink, SimpleStorage, StoragePool, System

OEM = "Oem/Intel_RackScale"


class PooledDevice(schema.FabricDevice):
    """The entity of an endpoint: a drive, an FPGA, or a volume of a storage service.

    Its erase state changes with every node.
    """

    capacity_bytes = Field("CapacityBytes", amount, "size of a drive", "bytes")
    drive_erased = Field(f"{OEM}/DriveErased", flag, "a drive is free only if true")
    storage = Field(f"{OEM}/Storage", links, "the storage of the system that uses the drive")
    fpga_erased = Field(f"{OEM}/FPGA/Erased", flag, "an FPGA is not free if false")


class RackEntity(schema.ConnectedEntity):
    entity = OptionalLink("EntityLink", PooledDevice, "the device behind it")


class RackEndpoint(schema.Endpoint):
    entities = fields.Parts("ConnectedEntities", RackEntity, "the devices behind it")
    zones = Field(f"Links/{OEM}/Zones", links, "its zones (2.3 and later)")


class FabricPort(NamedResource):
    """Port of a switch."""

    cables = Field(f"{OEM}/PCIeConnectionId", fields.words, "the cable of a port")


class Switch(NamedResource):
    """Switch of a fabric."""

    ports = Link("Ports", FabricPort, "its ports", collection=True)


class RackFabric(schema.Fabric):
    type = Field("FabricType", text, "PCIe, NVMeOverFabrics, Ethernet, …")
    endpoints = Link("Endpoints", RackEndpoint, "endpoints", collection=True)
    switches = Link("Switches", Switch, "its switches", collection=True, late=True)


class PhysicalDrive(NamedResource):
    """PhysicalDrive (2.1 and 2.2), if a group states no size."""

    size_gib = Field("CapacityGiB", amount, "size", "GiB")


class LogicalDrive(NamedResource):
    """LogicalDrive (2.1 and 2.2): a group of physical drives, or a volume of a group."""

    mode = Field("Mode", text, "LVG or Pool for a group")
    size_gib = Field("CapacityGiB", amount, "size", "GiB")
    physical = Link("Links/PhysicalDrives", PhysicalDrive, "drives or volumes in it", late=True)
    groups = Field("Links/LogicalDrives", links, "the group of a volume")
    used_by = Field("Links/UsedBy", links, "the volumes of a group")


class StorageService(NamedResource):
    """StorageService: provides volumes over a network."""

    pools = Link("StoragePools", StoragePool, "the sources of volumes", collection=True)
    drives = Link("LogicalDrives", LogicalDrive, "groups and volumes", collection=True)
    host = Field("Links/HostingSystem", links, "its own system, which cannot be composed")


class RackSystem(System):
    """ComputerSystem of a rack."""

    simple_storage = OptionalLink("SimpleStorage", SimpleStorage, "older view", late=True)
    enabled = Field("Enabled", flag, "false if the device is switched off")
    chassis = Field("Links/Chassis", links, "its enclosure")
    endpoints = Field("Links/Endpoints", links, "its endpoints in fabrics")
    cables = Field(f"{OEM}/PCIeConnectionId", fields.words, "its cables to PCIe switches")


class RackNode(NamedResource):
    reports_use = True

    node_state = Field("ComposedNodeState", text, "Allocating, …, Failed; all are in use")
    system = Field("Links/ComputerSystem", links, "its only system")
    processors = Field("Links/Processors", links, "its CPUs and FPGAs")
    local = Field("Links/LocalDrives", links, "its drives, including pooled drives")
    remote = Field("Links/RemoteDrives", links, "its targets, volumes or drives over a network")
    storage = Field("Links/Storage", links, "its drives and volumes (2.5)")


class RackRoot(NamedResource):
    """ServiceRoot of a pod manager."""

    nodes = Link("Nodes", RackNode, "composed nodes (2.1)", collection=True)
    rack_nodes = Link(f"{OEM}/Nodes", RackNode, "composed nodes (2.2 and later)", collection=True)
    systems = Link("Systems", RackSystem, "all systems", collection=True, levels=5)
    fabrics = Link("Fabrics", RackFabric, "PCIe and network fabrics", collection=True, levels=4)
    services = Link("Services", StorageService, "storage (2.1)", collection=True, levels=3)
    rack_services = Link(
        f"{OEM}/Services", StorageService, "storage (2.2 and later)", collection=True, levels=3
    )
    storage = Link(
        "StorageServices", StorageService, "storage (2.3 and later)", collection=True, levels=3
    )
