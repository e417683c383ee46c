# SPDX-License-Identifier: Apache-2.0
"""Computer systems: composed of blocks, with power, boot, interfaces, a manager and its media."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.server.documents import (
    OK,
    DocumentTree,
    Json,
    RequestRefused,
    SimulatedReply,
    collection_document,
    links_to,
    not_found,
    number_of,
    object_of,
    uri_of,
    uris,
    value_at,
)

#: The power state after each type of reset; None: as it was, an empty one: the other one.
RESETS: Mapping[str, str | None] = {
    "On": "On", "ForceOn": "On", "ForceRestart": "On", "GracefulRestart": "On",
    "PowerCycle": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "PushPowerButton": "",
    "Nmi": None,
}  # fmt: skip
BOOT: Json = {
    "BootSourceOverrideEnabled": "Disabled",
    "BootSourceOverrideEnabled@Redfish.AllowableValues": ["Disabled", "Once", "Continuous"],
    "BootSourceOverrideTarget": "None",
    "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd", "UefiHttp"],
    "BootSourceOverrideMode": "UEFI",
    "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
    "UefiTargetBootSourceOverride": None,
    "HttpBootUri": None,
}
_EMPTY: Json = {"Image": None, "ImageName": None, "Inserted": False, "WriteProtected": True,
                "ConnectedVia": "NotConnected"}  # fmt: skip


def complete_system(documents: DocumentTree, uri: str) -> None:
    """Add to a system what its owner uses and it lacks; what it has stays as it is."""
    json = documents.get(uri)
    if json is None:
        return
    json = {"PowerState": "On", **json}
    json["Boot"] = {**BOOT, **object_of(json, "Boot")}
    target = f"{uri}/Actions/ComputerSystem.Reset"
    reset = {"target": target, "ResetType@Redfish.AllowableValues": list(RESETS)}
    actions, name = object_of(json, "Actions"), "#ComputerSystem.Reset"
    json["Actions"] = {**actions, name: {**reset, **object_of(actions, name)}}
    if "EthernetInterfaces" not in json:
        below = f"{uri}/EthernetInterfaces"
        own = [f"{below}/Onboard"] if json.get("SystemType") == "Composed" else []
        for interface in own:
            documents.put(interface, {
                "@odata.type": "#EthernetInterface.v1_12_3.EthernetInterface",
                "@odata.id": interface, "Id": "Onboard", "Name": "Onboard interface",
            })  # fmt: skip
        type_ = "EthernetInterfaceCollection"
        documents.put(below, collection_document(below, type_, "EthernetInterface", own))
        json["EthernetInterfaces"] = {"@odata.id": below}
    for interface, device in documents.linked(json["EthernetInterfaces"]):
        if not device.get("MACAddress"):
            found = {"Status": OK, **device, "MACAddress": _mac_address(interface)}
            documents.put(interface, found)
    links = object_of(json, "Links")
    if not uris(links.get("ManagedBy")):
        json["Links"] = {**links, "ManagedBy": links_to([_put_manager(documents, uri)])}
    documents.put(uri, json)


def power_after(reset_type: str, was: Any) -> Any:
    """Return the power state after a reset of a type of ``RESETS``."""
    power = RESETS[reset_type]
    return was if power is None else power or ("Off" if was == "On" else "On")


def reset(documents: DocumentTree, system: str, body: Json) -> SimulatedReply:
    """Reset a system: its power state follows, and a boot override for once is used up."""
    kind = str(body.get("ResetType"))
    if kind not in RESETS:
        text = f"ResetType is {kind!r}, expected one of {', '.join(RESETS)}."
        raise RequestRefused(400, "ActionParameterNotSupported", text, "ResetType", "Reset")
    json = documents.get(system) or {}
    was = json.get("PowerState", "On")
    power = power_after(kind, was)
    boot = object_of(json, "Boot")
    starts = power == "On" and (was != "On" or kind not in ("On", "ForceOn", "Nmi"))
    if starts and boot.get("BootSourceOverrideEnabled") == "Once":
        used_up = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
        json = {**json, "Boot": {**boot, **used_up}}
    documents.put(system, {**json, "PowerState": power})
    return SimulatedReply(204)


def media_action(documents: DocumentTree, uri: str, action: str, body: Json) -> SimulatedReply:
    """Insert an image into virtual media, or eject it."""
    json = documents.get(uri) or {}
    if action == "EjectMedia":
        documents.put(uri, {**json, **_EMPTY})
        return SimulatedReply(204)
    if action != "InsertMedia":
        return not_found(f"{uri}/Actions/VirtualMedia.{action}")
    image = body.get("Image")
    if not isinstance(image, str) or not image:
        text = "Image is required to insert virtual media."
        raise RequestRefused(400, "ActionParameterMissing", text, "InsertMedia", "Image")
    inserted = {"Image": image, "ImageName": image.rpartition("/")[2], "ConnectedVia": "URI",
                "Inserted": body.get("Inserted", True),
                "WriteProtected": body.get("WriteProtected", True)}  # fmt: skip
    documents.put(uri, {**json, **inserted})
    return SimulatedReply(204)


def _put_manager(documents: DocumentTree, system: str) -> str:
    uri = _manager_uri(documents, system)
    if uri in documents:  # its system changes its blocks
        return uri
    collection, id_ = uri.rpartition("/")[0], uri.rpartition("/")[2]
    if collection not in documents:
        documents.put(collection, collection_document(collection, "ManagerCollection", "Managers"))
        root = documents.get(ROOT) or {}
        documents.put(ROOT, {**root, "Managers": {"@odata.id": collection}})
    media, disc = f"{uri}/VirtualMedia", f"{uri}/VirtualMedia/Cd"
    documents.put(uri, {
        "@odata.type": "#Manager.v1_19_0.Manager", "@odata.id": uri, "Id": id_,
        "Name": f"Manager of {id_}", "ManagerType": "BMC", "Status": OK, "PowerState": "On",
        "VirtualMedia": {"@odata.id": media},
        "Links": {"ManagerForServers": links_to([system])},
    })  # fmt: skip
    documents.put(media, collection_document(media, "VirtualMediaCollection", "Media", [disc]))
    documents.put(disc, {
        "@odata.type": "#VirtualMedia.v1_6_3.VirtualMedia", "@odata.id": disc, "Id": "Cd",
        "Name": "Virtual CD", "MediaTypes": ["CD", "DVD"], "Status": OK, **_EMPTY,
        "Actions": {
            f"#VirtualMedia.{action}": {"target": f"{disc}/Actions/VirtualMedia.{action}"}
            for action in ("InsertMedia", "EjectMedia")
        },
    })  # fmt: skip
    documents.list_member(collection, uri)
    return uri


def _manager_uri(documents: DocumentTree, system: str) -> str:
    collection = uri_of(value_at(documents.get(ROOT), "Managers")) or f"{ROOT}/Managers"
    return f"{collection}/{system.rpartition('/')[2]}-manager"


def _mac_address(uri: str) -> str:
    digest = hashlib.blake2b(uri.encode(), digest_size=5).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])


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
    documents.remove_below(uri)
    devices: Devices = {kind: {} for kind in (*COLLECTIONS, "Drives")}
    for block in blocks:
        for kind, found in devices_of(documents, documents.get(block) or {}).items():
            devices[kind].update(found)
    _put_drives(documents, uri, devices)
    memory_mib = sum(number_of(one.get("CapacityMiB")) for one in devices["Memory"].values())
    json: Json = {
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "@odata.id": uri,
        "Id": uri.rpartition("/")[2],
        "Name": name,
        "SystemType": "Composed",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": before.get("PowerState", "On"),
        "Status": OK,
        **{key: body[key] for key in CLIENT_PROPERTIES if key in body},
        "ProcessorSummary": _processors(devices["Processors"].values()),
        "MemorySummary": {"TotalSystemMemoryGiB": memory_mib / 1024},
    }
    for kind, type_ in COLLECTIONS.items():
        if devices[kind]:
            below, name = f"{uri}/{kind}", type_.removesuffix("Collection")
            json[kind] = {"@odata.id": below}
            documents.put(below, collection_document(below, type_, name, devices[kind]))
    json["Links"] = {"ResourceBlocks": links_to(blocks)}
    json["Actions"] = {
        f"#ComputerSystem.{action}": {"target": f"{uri}/Actions/ComputerSystem.{action}"}
        for action in ("AddResourceBlock", "RemoveResourceBlock")
    }
    documents.put(uri, json)
    complete_system(documents, uri)


def remove_system(documents: DocumentTree, uri: str) -> None:
    """Remove the documents of a system, all below it, and the manager that was made for it."""
    manager = _manager_uri(documents, uri)
    documents.unlist_member(manager.rpartition("/")[0], manager)
    documents.remove_below(manager)
    documents.remove_below(uri)


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
        "Status": OK,
        "Drives": links_to(drives),
        "Drives@odata.count": len(drives),
    }
    documents.put(storage, json)
    devices["Storage"][storage] = json


def _processors(devices: Iterable[Json]) -> Json:
    cpus = [json for json in devices if json.get("ProcessorType", "CPU") == "CPU"]
    summary: Json = {
        "Count": len(cpus),
        "CoreCount": sum(number_of(json.get("TotalCores")) for json in cpus),
        "LogicalProcessorCount": sum(number_of(json.get("TotalThreads")) for json in cpus),
    }
    models = [json["Model"] for json in cpus if "Model" in json]
    if models and all(model == models[0] for model in models):
        summary["Model"] = models[0]
    return summary
