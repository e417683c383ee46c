# SPDX-License-Identifier: Apache-2.0
"""Computer systems: composed of blocks, with power, boot, interfaces, a manager and its media."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from valence_sched.drivers.links import ROOT
from valence_sched.model.base import digest_of
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, HttpReply, Json, RequestRefused

#: The power state after each type of reset. None means unchanged, an empty text the opposite.
RESETS: Mapping[str, str | None] = dict.fromkeys(
    ("On", "ForceOn", "ForceRestart", "GracefulRestart", "PowerCycle"), "On"
) | {"ForceOff": "Off", "GracefulShutdown": "Off", "PushPowerButton": "", "Nmi": None}
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
_EMPTY: Json = {"Image": None, "ImageName": None, "Inserted": False, "WriteProtected": True}
_EMPTY["ConnectedVia"] = "NotConnected"
#: The device collections of a system, and the type of their members.
COLLECTIONS = {"Processors": "Processor", "Memory": "Memory", "Storage": "Storage"}
COLLECTIONS |= {"SimpleStorage": "SimpleStorage", "EthernetInterfaces": "EthernetInterface"}
COLLECTIONS |= {"NetworkInterfaces": "NetworkInterface"}
#: The properties of a system that a client may set when it composes one.
CLIENT_PROPERTIES = ("Description", "HostName", "Boot", "AssetTag")
Devices = dict[str, dict[str, Json]]


def complete_system(documents: DocumentTree, uri: str) -> None:
    """Add the missing power state, boot, actions, interfaces and manager to a system."""
    json = documents.get(uri)
    if json is None:
        return
    json = {"PowerState": "On", **json}
    json["Boot"] = {**BOOT, **docs.object_of(json, "Boot")}
    target = f"{uri}/Actions/ComputerSystem.Reset"
    reset = {"target": target, "ResetType@Redfish.AllowableValues": list(RESETS)}
    actions, name = docs.object_of(json, "Actions"), "#ComputerSystem.Reset"
    json["Actions"] = {**actions, name: {**reset, **docs.object_of(actions, name)}}
    if "EthernetInterfaces" not in json:
        below = f"{uri}/EthernetInterfaces"
        own = [f"{below}/Onboard"] if json.get("SystemType") == "Composed" else []
        for interface in own:
            documents.put_resource(interface, "EthernetInterface.v1_12_3", "Onboard interface")
        type_ = "EthernetInterfaceCollection"
        documents.put_collection(below, type_, "EthernetInterface", own)
        json["EthernetInterfaces"] = {"@odata.id": below}
    for interface, device in documents.linked(json["EthernetInterfaces"]):
        if not device.get("MACAddress"):
            digest = digest_of(interface.encode(), 5)
            address = ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])
            documents.put(interface, {"Status": docs.OK, **device, "MACAddress": address})
    links = docs.object_of(json, "Links")
    if not docs.uris(links.get("ManagedBy")):
        json["Links"] = {**links, "ManagedBy": docs.links_to([_put_manager(documents, uri)])}
    documents.put(uri, json)


def power_after(reset_type: str, was: Any) -> Any:
    power = RESETS[reset_type]
    return was if power is None else power or ("Off" if was == "On" else "On")


def reset(documents: DocumentTree, system: str, body: Json) -> HttpReply:
    kind = str(body.get("ResetType"))
    if kind not in RESETS:
        text = f"ResetType is {kind!r}, expected one of {', '.join(RESETS)}."
        raise RequestRefused(400, "ActionParameterNotSupported", text, "ResetType", "Reset")
    json = documents.get(system) or {}
    was = json.get("PowerState", "On")
    power = power_after(kind, was)
    boot = docs.object_of(json, "Boot")
    starts = power == "On" and (was != "On" or kind not in ("On", "ForceOn", "Nmi"))
    if starts and boot.get("BootSourceOverrideEnabled") == "Once":
        used_up = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
        json = {**json, "Boot": {**boot, **used_up}}
    documents.put(system, {**json, "PowerState": power})
    return HttpReply(204)


def media_action(documents: DocumentTree, uri: str, action: str, body: Json) -> HttpReply:
    if action == "EjectMedia":
        documents.update(uri, **_EMPTY)
        return HttpReply(204)
    if action != "InsertMedia":
        return docs.not_found(f"{uri}/Actions/VirtualMedia.{action}")
    image = body.get("Image")
    if not isinstance(image, str) or not image:
        text = "Image is required to insert virtual media."
        raise RequestRefused(400, "ActionParameterMissing", text, "InsertMedia", "Image")
    flags = {name: body.get(name, True) for name in ("Inserted", "WriteProtected")}
    name = image.rpartition("/")[2]
    documents.update(uri, Image=image, ImageName=name, ConnectedVia="URI", **flags)
    return HttpReply(204)


def _put_manager(documents: DocumentTree, system: str) -> str:
    uri = _manager_uri(documents, system)
    if uri in documents:  # only the blocks of its system change
        return uri
    collection, _, id_ = uri.rpartition("/")
    if collection not in documents:
        documents.put_collection(collection, "ManagerCollection", "Managers")
        documents.update(ROOT, Managers={"@odata.id": collection})
    media, disc = f"{uri}/VirtualMedia", f"{uri}/VirtualMedia/Cd"
    works: Json = {"ManagerType": "BMC", "Status": docs.OK, "PowerState": "On"}
    works |= {"VirtualMedia": {"@odata.id": media}}
    works |= {"Links": {"ManagerForServers": docs.links_to([system])}}
    documents.put_resource(uri, "Manager.v1_19_0", f"Manager of {id_}", **works)
    documents.put_collection(media, "VirtualMediaCollection", "Media", [disc])
    targets = (f"{disc}/Actions/VirtualMedia.{action}" for action in ("InsertMedia", "EjectMedia"))
    actions = {f"#{target.rpartition('/')[2]}": {"target": target} for target in targets}
    loaded: Json = {"MediaTypes": ["CD", "DVD"], "Status": docs.OK, **_EMPTY, "Actions": actions}
    documents.put_resource(disc, "VirtualMedia.v1_6_3", "Virtual CD", **loaded)
    documents.list_member(collection, uri)
    return uri


def _manager_uri(documents: DocumentTree, system: str) -> str:
    collection = docs.uri_at(documents.get(ROOT), "Managers") or f"{ROOT}/Managers"
    return f"{collection}/{system.rpartition('/')[2]}-manager"


def devices_of(documents: DocumentTree, block: Json) -> Devices:
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
    """Store the documents of a system of these blocks; they replace the documents at its URI."""
    before = documents.get(uri) or {}
    documents.remove_below(uri)
    devices: Devices = {kind: {} for kind in (*COLLECTIONS, "Drives")}
    for block in blocks:
        for kind, found in devices_of(documents, documents.get(block) or {}).items():
            devices[kind].update(found)
    if drives := devices["Drives"]:  # a system links no drive directly
        storage, title = f"{uri}/Storage/Blocks", "Drives of resource blocks"
        linked = {"Drives": docs.links_to(drives), "Drives@odata.count": len(drives)}
        json = documents.put_resource(storage, "Storage.v1_15_1", title, Status=docs.OK, **linked)
        devices["Storage"][storage] = json
    memory_mib = sum(docs.number_of(one.get("CapacityMiB")) for one in devices["Memory"].values())
    own: Json = {
        "SystemType": "Composed",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": before.get("PowerState", "On"),
        "Status": docs.OK,
        **{key: body[key] for key in CLIENT_PROPERTIES if key in body},
        "ProcessorSummary": _processors(devices["Processors"].values()),
        "MemorySummary": {"TotalSystemMemoryGiB": memory_mib / 1024},
    }
    for kind, type_ in COLLECTIONS.items():
        if devices[kind]:
            below = f"{uri}/{kind}"
            own[kind] = {"@odata.id": below}
            documents.put_collection(below, f"{type_}Collection", type_, devices[kind])
    own["Links"] = {"ResourceBlocks": docs.links_to(blocks)}
    own["Actions"] = {
        f"#ComputerSystem.{action}": {"target": f"{uri}/Actions/ComputerSystem.{action}"}
        for action in ("AddResourceBlock", "RemoveResourceBlock")
    }
    documents.put_resource(uri, "ComputerSystem.v1_20_1", name, **own)
    complete_system(documents, uri)


def remove_system(documents: DocumentTree, uri: str) -> None:
    manager = _manager_uri(documents, uri)
    documents.unlist_member(manager.rpartition("/")[0], manager)
    documents.remove_below(manager)
    documents.remove_below(uri)


def _processors(devices: Iterable[Json]) -> Json:
    cpus = [json for json in devices if json.get("ProcessorType", "CPU") == "CPU"]
    cores = sum(docs.number_of(json.get("TotalCores")) for json in cpus)
    threads = sum(docs.number_of(json.get("TotalThreads")) for json in cpus)
    summary: Json = {"Count": len(cpus), "CoreCount": cores, "LogicalProcessorCount": threads}
    models = [json["Model"] for json in cpus if "Model" in json]
    if models and all(model == models[0] for model in models):
        summary["Model"] = models[0]
    return summary
