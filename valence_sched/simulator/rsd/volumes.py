# SPDX-License-Identifier: Apache-2.0
"""Volumes of storage services: created for a node and removed with it.

A RemoteDrive becomes a volume of a storage pool, or in services of the older kind a logical
drive of a group with an iSCSI target. It is cut when the node is allocated, so that what is
promised is used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from valence_sched.drivers.fields import NO_NOTES, links, objects
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.schema import DriveDevice, StoragePool
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.drivers.rsd.schema import StorageService
from valence_sched.drivers.rsd.stocks import stocks
from valence_sched.model.stock import free_amount
from valence_sched.simulator.rsd import tree
from valence_sched.simulator.server.documents import DocumentTree, Json, value_at

WELL = {"State": "Enabled", "Health": "OK"}


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
            collection = tree.link(storage.json, name)
            if collection and uri in tree.members(documents, collection):
                end(documents, storage, json)
                tree.remove_member(documents, collection, uri)


def _storages(documents: DocumentTree) -> Iterator[StorageService]:
    seen: set[str] = set()
    for name in ("StorageServices", "Services"):
        for collection in tree.root_links(documents, name):
            for uri in tree.members(documents, collection):
                json = documents.get(uri)
                if json is not None and uri not in seen:
                    seen.add(uri)
                    yield StorageService(uri, json, NO_NOTES)


def _protocol(documents: DocumentTree, storage: StorageService) -> str:
    """Return the protocol of a storage service: the type of the fabric of its endpoints."""
    ends = tree.link(storage.json, "Endpoints")
    for fabric in tree.fabrics(documents):
        if ends and tree.link(fabric, "Endpoints") == ends:
            return "NVMeOverFabrics" if fabric.get("FabricType") == "NVMeOverFabrics" else "iSCSI"
    return "iSCSI"


def _cut_volume(
    documents: DocumentTree, storage: StorageService, pool: str, size_gib: float
) -> str | None:
    collection = tree.link(storage.json, "Volumes")
    if collection is None or collection not in documents:
        return None
    id_, size = documents.free_id(collection), round(size_gib * GIB)
    capacity = {"Data": {"AllocatedBytes": size}}
    volume = {
        "@odata.type": "#Volume.v1_1_0.Volume",
        "@odata.id": f"{collection}/{id_}",
        "Id": id_,
        "Name": f"Volume {id_}",
        "Status": WELL,
        "CapacityBytes": size,
        "Capacity": capacity,
        "CapacitySources": [
            {"ProvidingPools": [{"@odata.id": pool}], "ProvidedCapacity": capacity}
        ],
        "Links": {"Oem": {"Intel_RackScale": {"Endpoints": []}}},
    }
    tree.add_member(documents, collection, volume)
    tree.change(documents, pool, lambda json: _consume(json, size))
    return str(volume["@odata.id"])


def _cut_logical_drive(
    documents: DocumentTree, storage: StorageService, group: str, size_gib: float
) -> str | None:
    drives = tree.link(storage.json, "LogicalDrives")
    targets = tree.link(storage.json, "RemoteTargets")
    if not drives or not targets or targets not in documents:
        return None
    id_ = documents.free_id(drives)
    uri, link = f"{drives}/{id_}", {"@odata.id": group}
    drive = {
        "@odata.id": uri,
        "Id": id_,
        "Name": f"Logical drive {id_}",
        "Status": WELL,
        "Type": "LVM",
        "Mode": "LV",
        "CapacityGiB": size_gib,
        "Links": {"LogicalDrives": [link], "PhysicalDrives": [], "UsedBy": [], "Targets": []},
    }
    tree.add_member(documents, drives, drive)
    number = documents.free_id(targets)
    target = {
        "@odata.id": f"{targets}/{number}",
        "Id": number,
        "Name": f"Target {number}",
        "Status": WELL,
        "Type": "Network Storage",
        "Addresses": [{"iSCSI": {"TargetLUN": [{"LUN": 1, "LogicalDrive": uri}]}}],
    }
    tree.add_member(documents, targets, target)
    return str(target["@odata.id"])


def _end_volume(documents: DocumentTree, storage: StorageService, volume: Json) -> None:
    size = DriveDevice.capacity_bytes.of(DriveDevice("", volume, NO_NOTES)) or 0
    for source in objects(volume.get("CapacitySources")):
        for pool in links(source.get("ProvidingPools")):
            tree.change(documents, pool, lambda json: _consume(json, -size))


def _end_target(documents: DocumentTree, storage: StorageService, target: Json) -> None:
    drives = tree.link(storage.json, "LogicalDrives") or ""
    for address in objects(target.get("Addresses")):
        for unit in objects(value_at(address, "iSCSI", "TargetLUN")):
            for uri in links(unit.get("LogicalDrive")):
                tree.remove_member(documents, drives, uri)
                for group in tree.members(documents, drives):
                    tree.change(documents, group, partial(_forget, uri=uri))


def _consume(pool: Json, size: int) -> None:
    data = value_at(pool, "Capacity", "Data")
    if isinstance(data, dict):
        used = StoragePool.used_bytes.of(StoragePool("", pool, NO_NOTES))
        data["ConsumedBytes"] = max(0, int(used or 0) + size)


def _forget(drive: Json, uri: str) -> None:
    used = value_at(drive, "Links", "UsedBy")
    if isinstance(used, list):
        drive["Links"]["UsedBy"] = [link for link in used if value_at(link, "@odata.id") != uri]
