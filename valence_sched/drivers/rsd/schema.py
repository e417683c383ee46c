# SPDX-License-Identifier: Apache-2.0
"""Declared fields of the resources of Intel Rack Scale Design 2.1 to 2.5."""

from valence_sched.drivers.fields import (
    Field,
    Link,
    NamedResource,
    Parts,
    Resource,
    amount,
    flag,
    links,
    text,
    words,
)
from valence_sched.drivers.redfish.schema import Device, SimpleStorage, StoragePool, System

OEM = "Oem/Intel_RackScale"


class OptionalLink(Link):
    """A link; an empty object counts as a missing link."""

    def __init__(self, path: str, to: type[Resource], doc: str, *, late: bool = False) -> None:
        super().__init__(path, to, doc, late=late)
        self.read = lambda value: () if value == {} else links(value)


class PooledDevice(Device):
    """The entity of an endpoint: a drive, an FPGA, or a volume of a storage service."""

    lasting = False  # the erase state changes with every node

    kind = Field("@odata.type", text, "distinguishes drives, processors and volumes")
    processor_type = Field("ProcessorType", text, "FPGA, …")
    capacity_bytes = Field("CapacityBytes", amount, "size of a drive", "bytes")
    drive_erased = Field(f"{OEM}/DriveErased", flag, "a drive is free only if true")
    storage = Field(f"{OEM}/Storage", links, "the storage of the system that uses the drive")
    fpga_erased = Field(f"{OEM}/FPGA/Erased", flag, "an FPGA is not free if false")

    @property
    def class_name(self) -> str:
        return (self.kind or "").removeprefix("#").partition(".")[0]


class ConnectedEntity(Resource):
    role = Field("EntityRole", text, "Initiator uses a device; any other role offers one")
    entity = OptionalLink("EntityLink", PooledDevice, "the device behind it")

    @property
    def leads(self) -> bool:
        return self.role is None or self.role.casefold() != "initiator"


class Endpoint(NamedResource):
    """Endpoint of a connection through a fabric."""

    entities = Parts("ConnectedEntities", ConnectedEntity, "the devices behind it")
    ports = Field("Links/Ports", links, "the switch ports of the endpoint")
    zones = Field(f"Links/{OEM}/Zones", links, "its zones (2.3 and later)")


class FabricZone(NamedResource):
    """Zone of a fabric: endpoints that are connected now."""

    endpoints = Field("Links/Endpoints", links, "the connected endpoints, which are in use")


class FabricPort(NamedResource):
    """Port of a switch."""

    cables = Field(f"{OEM}/PCIeConnectionId", words, "the cable of a port")


class Switch(NamedResource):
    """Switch of a fabric."""

    ports = Link("Ports", FabricPort, "its ports", collection=True)


class Fabric(NamedResource):
    type = Field("FabricType", text, "PCIe, NVMeOverFabrics, Ethernet, …")
    endpoints = Link("Endpoints", Endpoint, "endpoints", collection=True)
    zones = Link("Zones", FabricZone, "the zones that connect endpoints", collection=True)
    switches = Link("Switches", Switch, "its switches", collection=True, late=True)


class PhysicalDrive(NamedResource):
    """PhysicalDrive (2.1 and 2.2), if a group states no size."""

    size_gib = Field("CapacityGiB", amount, "size", "GiB")


class LogicalDrive(NamedResource):
    """LogicalDrive (2.1 and 2.2): a group of physical drives, or a volume of a group."""

    mode = Field("Mode", text, "LVG or Pool for a group")
    size_gib = Field("CapacityGiB", amount, "size", "GiB")
    physical = Link(
        "Links/PhysicalDrives", PhysicalDrive, "the drives or volumes of a group", late=True
    )
    groups = Field("Links/LogicalDrives", links, "the group of a volume")
    used_by = Field("Links/UsedBy", links, "the volumes of a group")


class StorageService(NamedResource):
    """StorageService: provides volumes over a network."""

    pools = Link("StoragePools", StoragePool, "the sources of volumes", collection=True)
    drives = Link("LogicalDrives", LogicalDrive, "groups and volumes", collection=True)
    host = Field(
        "Links/HostingSystem", links, "the system of the service, which cannot be composed"
    )


class RackSystem(System):
    """ComputerSystem of a rack."""

    simple_storage = OptionalLink(
        "SimpleStorage", SimpleStorage, "read if no drive is listed", late=True
    )
    enabled = Field("Enabled", flag, "false if the device is switched off")
    chassis = Field("Links/Chassis", links, "its enclosure")
    endpoints = Field("Links/Endpoints", links, "its endpoints in fabrics")
    cables = Field(f"{OEM}/PCIeConnectionId", words, "its cables to PCIe switches")


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
    fabrics = Link("Fabrics", Fabric, "PCIe and network fabrics", collection=True, levels=4)
    services = Link("Services", StorageService, "storage (2.1)", collection=True, levels=3)
    rack_services = Link(
        f"{OEM}/Services", StorageService, "storage (2.2 and later)", collection=True, levels=3
    )
    storage = Link(
        "StorageServices", StorageService, "storage (2.3 and later)", collection=True, levels=3
    )
