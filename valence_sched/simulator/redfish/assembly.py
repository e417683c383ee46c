# SPDX-License-Identifier: Apache-2.0
"""The documents of a composed system, made of the devices of its blocks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from valence_sched.simulator.redfish import machine
from valence_sched.simulator.server.documents import DocumentTree, Json, collection_document

#: Device collections of a system: property, type of its collection.
COLLECTIONS = {
    "Processors": "ProcessorCollection",
    "Memory": "MemoryCollection",
    "Storage": "StorageCollection",
    "SimpleStorage": "SimpleStorageCollection",
    "EthernetInterfaces": "EthernetInterfaceCollection",
    "NetworkInterfaces": "NetworkInterfaceCollection",
}

#: The properties of a system that a client may set when it composes one.
CLIENT_PROPERTIES = ("Description", "HostName", "Boot", "AssetTag")

Devices = dict[str, dict[str, Json]]


def devices_of(documents: DocumentTree, block: Json) -> Devices:
    """Return the devices of a block by kind and URI, those of its computer systems too."""
    found: Devices = {kind: {} for kind in (*COLLECTIONS, "Drives")}
    systems = [json for _, json in documents.linked(block.get("ComputerSystems"))]
    for holder in (block, *systems):
        for kind, devices in found.items():
            devices.update(documents.linked(holder.get(kind)))
    for _, storage in tuple(found["Storage"].items()):
        for uri, _ in documents.linked(storage.get("Drives")):
            found["Drives"].pop(uri, None)  # it is reached through its storage
    return found


def put_system(
    documents: DocumentTree, uri: str, name: str, blocks: Sequence[str], body: Json
) -> None:
    """Put the documents of a system that is made of these blocks; what stood there goes."""
    before = documents.get(uri) or {}
    _remove_below(documents, uri)
    devices: Devices = {kind: {} for kind in (*COLLECTIONS, "Drives")}
    for block in blocks:
        for kind, found in devices_of(documents, documents.get(block) or {}).items():
            devices[kind].update(found)
    _put_drives(documents, uri, devices)
    memory_mib = sum(_number(one.get("CapacityMiB")) for one in devices["Memory"].values())
    json: Json = {
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "@odata.id": uri,
        "Id": uri.rpartition("/")[2],
        "Name": name,
        "SystemType": "Composed",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": before.get("PowerState", "On"),
        "Status": {"State": "Enabled", "Health": "OK"},
        **{key: body[key] for key in CLIENT_PROPERTIES if key in body},
        "ProcessorSummary": _processors(devices["Processors"].values()),
        "MemorySummary": {"TotalSystemMemoryGiB": memory_mib / 1024},
    }
    for kind, type_ in COLLECTIONS.items():
        if devices[kind]:
            below, name = f"{uri}/{kind}", type_.removesuffix("Collection")
            json[kind] = {"@odata.id": below}
            documents.put(below, collection_document(below, type_, name, devices[kind]))
    json["Links"] = {"ResourceBlocks": [{"@odata.id": block} for block in blocks]}
    json["Actions"] = {
        f"#ComputerSystem.{action}": {"target": f"{uri}/Actions/ComputerSystem.{action}"}
        for action in ("AddResourceBlock", "RemoveResourceBlock")
    }
    documents.put(uri, json)
    machine.complete_system(documents, uri)


def remove_system(documents: DocumentTree, uri: str) -> None:
    """Remove the documents of a system, all below it, and its manager."""
    machine.remove_manager(documents, uri)
    _remove_below(documents, uri)


def _remove_below(documents: DocumentTree, uri: str) -> None:
    for other in documents:
        if other == uri or other.startswith(f"{uri}/"):
            documents.remove(other)


def _put_drives(documents: DocumentTree, uri: str, devices: Devices) -> None:
    """Give drives that stand in no storage one: a system links none directly."""
    drives = devices["Drives"]
    if not drives:
        return
    storage = f"{uri}/Storage/Blocks"
    json = {
        "@odata.type": "#Storage.v1_15_1.Storage",
        "@odata.id": storage,
        "Id": "Blocks",
        "Name": "Drives of resource blocks",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Drives": [{"@odata.id": drive} for drive in drives],
        "Drives@odata.count": len(drives),
    }
    documents.put(storage, json)
    devices["Storage"][storage] = json


def _processors(devices: Iterable[Json]) -> Json:
    cpus = [json for json in devices if json.get("ProcessorType", "CPU") == "CPU"]
    summary: Json = {
        "Count": len(cpus),
        "CoreCount": sum(_number(json.get("TotalCores")) for json in cpus),
        "LogicalProcessorCount": sum(_number(json.get("TotalThreads")) for json in cpus),
    }
    models = [json["Model"] for json in cpus if "Model" in json]
    if models and all(model == models[0] for model in models):
        summary["Model"] = models[0]
    return summary


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
