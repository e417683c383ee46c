# SPDX-License-Identifier: Apache-2.0
"""What the owner of a system uses: its power, boot override, interfaces, manager, virtual media."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from valence_sched.simulator.redfish.blocks import ROOT
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    collection_document,
    object_of,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, not_found

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
_OK = {"State": "Enabled", "Health": "OK"}


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
            found = {"Status": _OK, **device, "MACAddress": _mac_address(interface)}
            documents.put(interface, found)
    links = object_of(json, "Links")
    if not uris(links.get("ManagedBy")):
        json["Links"] = {**links, "ManagedBy": [{"@odata.id": _put_manager(documents, uri)}]}
    documents.put(uri, json)


def remove_manager(documents: DocumentTree, system: str) -> None:
    """Remove the manager that was made for a system."""
    manager = _manager_uri(documents, system)
    documents.unlist_member(manager.rpartition("/")[0], manager)
    for uri in documents:
        if uri == manager or uri.startswith(f"{manager}/"):
            documents.remove(uri)


def reset(documents: DocumentTree, system: str, body: Json) -> SimulatedReply:
    """Reset a system: its power state follows, and a boot override for once is used up."""
    kind = str(body.get("ResetType"))
    if kind not in RESETS:
        text = f"ResetType is {kind!r}, expected one of {', '.join(RESETS)}."
        raise RequestRefused(400, "ActionParameterNotSupported", text, "ResetType", "Reset")
    json = documents.get(system) or {}
    was = json.get("PowerState", "On")
    power = {None: was, "": "Off" if was == "On" else "On"}.get(RESETS[kind], RESETS[kind])
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
    """Put the manager of a system, with one virtual CD; return its URI."""
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
        "Name": f"Manager of {id_}", "ManagerType": "BMC", "Status": _OK, "PowerState": "On",
        "VirtualMedia": {"@odata.id": media},
        "Links": {"ManagerForServers": [{"@odata.id": system}]},
    })  # fmt: skip
    documents.put(media, collection_document(media, "VirtualMediaCollection", "Media", [disc]))
    documents.put(disc, {
        "@odata.type": "#VirtualMedia.v1_6_3.VirtualMedia", "@odata.id": disc, "Id": "Cd",
        "Name": "Virtual CD", "MediaTypes": ["CD", "DVD"], "Status": _OK, **_EMPTY,
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
    """Return an address of the locally administered ones, the same one for each interface."""
    digest = hashlib.blake2b(uri.encode(), digest_size=5).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])
