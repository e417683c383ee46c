# SPDX-License-Identifier: Apache-2.0
"""The documents of a composed system, made of the devices of its blocks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from valence_sched.simulator.server.documents import DocumentTree, Json, linked_documents

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
    systems = [json for _, json in linked_documents(documents, block.get("ComputerSystems"))]
    for holder in (block, *systems):
        for kind, devices in found.items():
            devices.update(linked_documents(documents, holder.get(kind)))
    for _, storage in tuple(found["Storage"].items()):
        for uri, _ in linked_documents(documents, storage.get("Drives")):
            found["Drives"].pop(uri, None)  # it is reached through its storage
    return found


def put_system(
    documents: DocumentTree, uri: str, name: str, blocks: Iterable[str], body: Json
) -> None:
    """Put the documents of a system that is made of these blocks; what stood there goes."""
    wanted = tuple(blocks)
    remove_system(documents, uri)
    devices: Devices = {kind: {} for kind in (*COLLECTIONS, "Drives")}
    for block in wanted:
        for kind, found in devices_of(documents, documents.get(block) or {}).items():
            devices[kind].update(found)
    _put_drives(documents, uri, devices)
    json: Json = {
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "@odata.id": uri,
        "Id": uri.rpartition("/")[2],
        "Name": name,
        "SystemType": "Composed",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
        **{key: body[key] for key in CLIENT_PROPERTIES if key in body},
        "ProcessorSummary": _processors(devices["Processors"].values()),
        "MemorySummary": {"TotalSystemMemoryGiB": _mib(devices["Memory"].values()) / 1024},
    }
    for kind, type_ in COLLECTIONS.items():
        if devices[kind]:
            json[kind] = {"@odata.id": f"{uri}/{kind}"}
            _put_collection(documents, f"{uri}/{kind}", type_, devices[kind])
    json["Links"] = {"ResourceBlocks": [{"@odata.id": block} for block in wanted]}
    json["Actions"] = {
        f"#ComputerSystem.{action}": {"target": f"{uri}/Actions/ComputerSystem.{action}"}
        for action in ("Reset", "AddResourceBlock", "RemoveResourceBlock")
    }
    documents.put(uri, json)


def remove_system(documents: DocumentTree, uri: str) -> None:
    """Remove the documents of a system and all below it."""
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


def _put_collection(documents: DocumentTree, uri: str, type_: str, found: Iterable[str]) -> None:
    links = [{"@odata.id": device} for device in found]
    documents.put(
        uri,
        {
            "@odata.type": f"#{type_}.{type_}",
            "@odata.id": uri,
            "Name": type_.removesuffix("Collection"),
            "Members@odata.count": len(links),
            "Members": links,
        },
    )


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


def _mib(devices: Iterable[Json]) -> float:
    return sum(_number(json.get("CapacityMiB")) for json in devices)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
