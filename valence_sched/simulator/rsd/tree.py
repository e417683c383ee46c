# SPDX-License-Identifier: Apache-2.0
"""Changes to the documents of a rack: members, links, fabric zones, volumes of storage services."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from valence_sched.drivers.fields import NO_NOTES, links, objects
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.schema import DriveDevice, StoragePool
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.drivers.rsd.schema import StorageService
from valence_sched.drivers.rsd.stocks import stocks
from valence_sched.model.inventory import free_amount
from valence_sched.simulator.server.documents import OK, DocumentTree, Json, links_to, value_at


def link(json: Json | None, *keys: str) -> str | None:
    """Return the link below these keys."""
    return next((uri for uri in links(value_at(json, *keys)) if uri), None)


def root_links(documents: DocumentTree, name: str) -> list[str]:
    """Return the links of this name in the service root: its own, and those of the rack."""
    root = documents.get(ROOT)
    found = [link(root, name), link(root, "Oem", "Intel_RackScale", name)]
    return list(dict.fromkeys(uri for uri in found if uri))


def members(documents: DocumentTree, uri: str | None) -> list[str]:
    """Return the members of a collection, none where there is no such collection."""
    found = links(value_at(documents.get(uri), "Members")) if uri else ()
    return [member for member in found if member]


def change(documents: DocumentTree, uri: str, by: Callable[[Json], object]) -> None:
    """Change a document, if it is there."""
    if (json := documents.get(uri)) is not None:
        json = copy.deepcopy(json)
        by(json)
        documents.put(uri, json)


def fabrics(documents: DocumentTree) -> Iterator[Json]:
    """Yield the fabrics."""
    for collection in root_links(documents, "Fabrics"):
        for uri in members(documents, collection):
            if (json := documents.get(uri)) is not None:
                yield json


def endpoints_of(documents: DocumentTree, fabric: Json, devices: Iterable[str]) -> list[str]:
    """Return the endpoints of a fabric that offer one of these devices."""
    wanted = set(devices)
    return [
        uri
        for uri in members(documents, link(fabric, "Endpoints"))
        if any(
            link(entity, "EntityLink") in wanted and entity.get("EntityRole") != "Initiator"
            for entity in objects(value_at(documents.get(uri), "ConnectedEntities"))
        )
    ]


def connect(documents: DocumentTree, devices: Iterable[str], host: str) -> None:
    """Make a zone in each fabric that offers some of these devices to a system."""
    devices = list(devices)
    for fabric in fabrics(documents):
        zones, ends = link(fabric, "Zones"), endpoints_of(documents, fabric, devices)
        if zones is None or not ends:
            continue
        id_ = documents.free_id(zones)
        hosts = [*links(value_at(documents.get(host), "Links", "Endpoints"))]
        inside = set(members(documents, link(fabric, "Endpoints")))
        ends += [end for end in hosts if end in inside]
        zone = {
            "@odata.id": f"{zones}/{id_}",
            "Id": id_,
            "Name": f"Zone {id_}",
            "Status": OK,
            "Links": {"Endpoints": links_to(ends)},
        }
        documents.add_member(zones, zone)
        for end in ends:
            change(documents, end, partial(_set_zones, zones=[f"{zones}/{id_}"]))


def disconnect(documents: DocumentTree, devices: Iterable[str]) -> None:
    """Remove the zones that connect one of these devices."""
    devices = list(devices)
    for fabric in fabrics(documents):
        zones, ends = link(fabric, "Zones"), set(endpoints_of(documents, fabric, devices))
        for end in ends:
            change(documents, end, partial(_set_zones, zones=[]))
        for uri in members(documents, zones):
            inside = links(value_at(documents.get(uri), "Links", "Endpoints"))
            if zones and ends & set(inside):
                documents.remove_member(zones, uri)
                for end in inside:
                    change(documents, end, partial(_set_zones, zones=[]))


def _set_zones(endpoint: Json, zones: list[str]) -> None:
    rack = value_at(endpoint, "Links", "Oem", "Intel_RackScale")
    if isinstance(rack, dict):
        rack["Zones"] = links_to(zones)


def cut(documents: DocumentTree, wanted: Json) -> str | None:
    """Create the volume of a RemoteDrive; return the link of the node, None without room."""
    size_gib, protocol = wanted["CapacityGiB"], wanted.get("Protocol")
    for storage in _storages(documents):
        service = LinkedDocuments(documents.get, NO_NOTES, documents)
        for stock in stocks(service, [storage], ()):
            if free_amount(stock) < size_gib:
                continue
            is_pool = "Capacity" in (documents.get(stock.uri) or {})
            if protocol not in (None, _protocol(documents, storage) if is_pool else "iSCSI"):
                continue
            make = _cut_volume if is_pool else _cut_logical_drive
            if uri := make(documents, storage, stock.uri, size_gib):
                return uri
    return None


def give_back(documents: DocumentTree, uri: str) -> None:
    """Remove a volume, or a target with its logical drives; their capacity is free again."""
    json = documents.get(uri)
    if json is None:
        return
    for storage in _storages(documents):
        for name, end in (("Volumes", _end_volume), ("RemoteTargets", _end_target)):
            collection = link(storage.json, name)
            if collection and uri in members(documents, collection):
                end(documents, storage, json)
                documents.remove_member(collection, uri)


def _storages(documents: DocumentTree) -> Iterator[StorageService]:
    seen: set[str] = set()
    for name in ("StorageServices", "Services"):
        for collection in root_links(documents, name):
            for uri in members(documents, collection):
                json = documents.get(uri)
                if json is not None and uri not in seen:
                    seen.add(uri)
                    yield StorageService(uri, json, NO_NOTES)


def _protocol(documents: DocumentTree, storage: StorageService) -> str:
    ends = link(storage.json, "Endpoints")
    for fabric in fabrics(documents):
        if ends and link(fabric, "Endpoints") == ends:
            return "NVMeOverFabrics" if fabric.get("FabricType") == "NVMeOverFabrics" else "iSCSI"
    return "iSCSI"


def _cut_volume(
    documents: DocumentTree, storage: StorageService, pool: str, size_gib: float
) -> str | None:
    collection = link(storage.json, "Volumes")
    if collection is None or collection not in documents:
        return None
    id_, size = documents.free_id(collection), round(size_gib * GIB)
    capacity = {"Data": {"AllocatedBytes": size}}
    volume = {
        "@odata.type": "#Volume.v1_1_0.Volume",
        "@odata.id": f"{collection}/{id_}",
        "Id": id_,
        "Name": f"Volume {id_}",
        "Status": OK,
        "CapacityBytes": size,
        "Capacity": capacity,
        "CapacitySources": [{"ProvidingPools": links_to([pool]), "ProvidedCapacity": capacity}],
        "Links": {"Oem": {"Intel_RackScale": {"Endpoints": []}}},
    }
    documents.add_member(collection, volume)
    change(documents, pool, lambda json: _consume(json, size))
    return str(volume["@odata.id"])


def _cut_logical_drive(
    documents: DocumentTree, storage: StorageService, group: str, size_gib: float
) -> str | None:
    drives = link(storage.json, "LogicalDrives")
    targets = link(storage.json, "RemoteTargets")
    if not drives or not targets or targets not in documents:
        return None
    id_ = documents.free_id(drives)
    uri = f"{drives}/{id_}"
    drive = {
        "@odata.id": uri, "Id": id_, "Name": f"Logical drive {id_}", "Status": OK,
        "Type": "LVM", "Mode": "LV", "CapacityGiB": size_gib,
        "Links": {"LogicalDrives": links_to([group]), "PhysicalDrives": [], "UsedBy": [],
                  "Targets": []},
    }  # fmt: skip
    documents.add_member(drives, drive)
    number = documents.free_id(targets)
    target = {
        "@odata.id": f"{targets}/{number}",
        "Id": number,
        "Name": f"Target {number}",
        "Status": OK,
        "Type": "Network Storage",
        "Addresses": [{"iSCSI": {"TargetLUN": [{"LUN": 1, "LogicalDrive": uri}]}}],
    }
    documents.add_member(targets, target)
    return str(target["@odata.id"])


def _end_volume(documents: DocumentTree, storage: StorageService, volume: Json) -> None:
    size = DriveDevice.capacity_bytes.of(DriveDevice("", volume, NO_NOTES)) or 0
    for source in objects(volume.get("CapacitySources")):
        for pool in links(source.get("ProvidingPools")):
            change(documents, pool, lambda json: _consume(json, -size))


def _end_target(documents: DocumentTree, storage: StorageService, target: Json) -> None:
    drives = link(storage.json, "LogicalDrives") or ""
    for address in objects(target.get("Addresses")):
        for unit in objects(value_at(address, "iSCSI", "TargetLUN")):
            for uri in links(unit.get("LogicalDrive")):
                documents.remove_member(drives, uri)
                for group in members(documents, drives):
                    change(documents, group, partial(_forget, uri=uri))


def _consume(pool: Json, size: int) -> None:
    data = value_at(pool, "Capacity", "Data")
    if isinstance(data, dict):
        used = StoragePool.used_bytes.of(StoragePool("", pool, NO_NOTES))
        data["ConsumedBytes"] = max(0, int(used or 0) + size)


def _forget(drive: Json, uri: str) -> None:
    used = value_at(drive, "Links", "UsedBy")
    if isinstance(used, list):
        drive["Links"]["UsedBy"] = [link for link in used if value_at(link, "@odata.id") != uri]
