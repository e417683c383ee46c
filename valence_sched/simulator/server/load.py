# SPDX-License-Identifier: Apache-2.0
"""Loads the documents of recorded pod managers, and adds the missing documents of a service."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.files.tree import tree_documents
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.errors import DuplicateId, InputError
from valence_sched.model.codec import decode
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.redfish.composition import blocks, set_status
from valence_sched.simulator.redfish.fabric import add_amount_fabric, add_fabrics
from valence_sched.simulator.redfish.system import complete_system, devices_of
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, Json
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.reads import EXPAND_FEATURES

#: The properties that identify a device.
_NAMES: tuple[str, ...] = ("@odata.id", "SerialNumber", "UUID", "Identifiers", "MACAddress")
_NAMES += ("PermanentMACAddress", "PhysicalLocation", "Links")
_BY_SYSTEM = ("Processors", "Memory", "EthernetInterfaces")
_CAPABILITIES = "@Redfish.CollectionCapabilities"
_GROUPS = ("LVG", "Pool")
_SETS = "InterleavableMemorySets"
#: The documents that a new root links, if they exist.
PARTS = ("Systems", "Chassis", "Managers", "Fabrics", "CompositionService", "StorageServices")


def _without(value: Any, name: str, keep: bool) -> Any:
    if isinstance(value, list):
        return [_without(item, name, keep) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _without(item, name, keep) for key, item in value.items() if key != name}
    return found | ({name: None} if keep and name in value else {})


def _list_twice(documents: DocumentTree) -> None:
    """List every device of each block again, under other URIs and without a common name."""
    for uri, block in tuple(blocks(documents)):
        storage = [json for _, json in documents.linked(block.get("Storage"))]
        own = block.get("Drives") or []
        drives = dict(documents.linked(own))
        direct = set(drives)
        for json in storage:
            drives.update(documents.linked(json.get("Drives")))
        changed = dict(block)
        if drives:
            copies = _put_copies(documents, f"{uri}/Storage/Again/Drives", drives.values())
            again = {"Name": "Again", "Drives": docs.links_to(copies)}
            names = ("Name", "CapacityBytes", "Model")
            devices = [{key: json[key] for key in names if key in json} for json in drives.values()]
            simple = {"Name": "Again", "Devices": devices}
            others = docs.links_to(it for it in drives if it not in direct)
            changed["Drives"] = [*(own if isinstance(own, list) else [own]), *others]
            for kind, json in (("Storage", again), ("SimpleStorage", simple)):
                changed[kind] = docs.links_to([_put(documents, f"{uri}/{kind}/Again", json)])
        system: Json = {"Name": "Again", "SystemType": "Physical"}
        for kind in _BY_SYSTEM:
            if linked := dict(documents.linked(block.get(kind))):
                below = f"{uri}/Again/{kind}"
                copies = _put_copies(documents, below, linked.values())
                documents.put_collection(below, "Collection", kind, copies)
                system[kind] = {"@odata.id": below}
        if len(system) > 2 and not block.get("ComputerSystems"):
            changed["ComputerSystems"] = docs.links_to([_put(documents, f"{uri}/Again", system)])
        documents.put(uri, changed)


def _omit_sizes(documents: DocumentTree) -> None:
    """Move the sizes of memory domains, storage pools and groups to their modules and drives."""
    for uri in documents:
        json = documents.get(uri) or {}
        data = docs.value_at(json, "Capacity", "Data") or {}
        if size := json.get("MemorySizeMiB"):
            own = {key: value for key, value in json.items() if key != "MemorySizeMiB"}
            if not any(docs.uris_at(it, "MemorySet") for it in json.get(_SETS) or ()):
                module = _put(documents, f"{uri}/Memory/Again", {"CapacityMiB": size})
                own[_SETS] = [{"MemorySet": docs.links_to([module])}]
            documents.put(uri, own)
        elif "StoragePools/" in uri and data.get("AllocatedBytes"):
            provided = {"Data": {"AllocatedBytes": data["AllocatedBytes"]}}
            used = {key: value for key, value in data.items() if key != "AllocatedBytes"}
            sources = [{"ProvidedCapacity": provided}]
            documents.put(uri, {**json, "Capacity": {"Data": used}, "CapacitySources": sources})
        elif json.get("Mode") in _GROUPS and json.get("CapacityGiB"):
            drive = _put(documents, f"{uri}/Drive", {"CapacityGiB": json["CapacityGiB"]})
            links = {**(json.get("Links") or {}), "PhysicalDrives": docs.links_to([drive])}
            documents.put(uri, {**json, "CapacityGiB": None, "Links": links})


def _list_physical_volumes(documents: DocumentTree) -> None:
    for uri in documents:
        json = documents.get(uri) or {}
        collection = uri.rpartition("/")[0]
        if "StoragePools/" in uri and docs.value_at(json, "Capacity", "Data", "AllocatedBytes"):
            size = {"AllocatedBytes": json["Capacity"]["Data"]["AllocatedBytes"]}
            volume: Json = {"Name": "Physical volume", "Capacity": {"Data": size}}
            volume["CapacitySources"] = json.get("CapacitySources") or []
            of = {"CapacitySources": [{"ProvidingPools": docs.links_to([f"{uri}-PV"])}]}
            documents.put(uri, {**json, **of})
        elif json.get("Mode") in _GROUPS:
            links = {"PhysicalDrives": docs.value_at(json, "Links", "PhysicalDrives") or []}
            links["UsedBy"] = docs.links_to([uri])
            volume = {"Mode": "PV", "CapacityGiB": json.get("CapacityGiB"), "Links": links}
        else:
            continue
        documents.list_member(collection, _put(documents, f"{uri}-PV", volume))


def _omit_limits(documents: DocumentTree) -> None:
    for uri in documents:
        documents.put(uri, _without(documents.get(uri), _CAPABILITIES, False))


def _join_blocks(documents: DocumentTree) -> None:
    _omit_limits(documents)
    free = [
        uri
        for uri, json in blocks(documents)
        if "Compute" in docs.array_of(json, "ResourceBlockType")
        and json["CompositionStatus"].get("CompositionState") == "Unused"
    ][:2]
    systems = docs.uri_at(documents.get(ROOT), "Systems")
    if len(free) < 2 or not systems:
        return
    links = {"ResourceBlocks": docs.links_to(free)}
    node = {"Name": "Joined", "SystemType": "Composed", "Links": links}
    documents.list_member(systems, _put(documents, f"{systems}/Joined", node))
    for uri in free:
        set_status(documents, uri, CompositionState="Composed")


def _add_hosts(documents: DocumentTree) -> None:
    """Add a host with each free compute block; the blocks stay Unused."""
    _omit_limits(documents)
    if service := docs.uri_at(documents.get(ROOT), "CompositionService"):
        documents.update(service, Actions={})
    systems = docs.uri_at(documents.get(ROOT), "Systems")
    for uri, json in tuple(blocks(documents)):
        is_free = json["CompositionStatus"].get("CompositionState") == "Unused"
        if is_free and "Compute" in docs.array_of(json, "ResourceBlockType"):
            host = f"{systems}/Host-{uri.rpartition('/')[2]}"
            links = {"ResourceBlocks": docs.links_to([uri])}
            own = {"SystemType": "Physical", "Links": links}
            type_ = "ComputerSystem.v1_23_1"
            documents.put(host, docs.resource_document(host, type_, "Host", **own))
            complete_system(documents, host)
            documents.list_member(systems, host)
            links = {**docs.object_of(json, "Links"), "ComputerSystems": docs.links_to([host])}
            documents.update(uri, Links=links)


def _declare_hot_plug(documents: DocumentTree) -> None:
    """Give each device of a block a PCIe device in a slot for hot plug."""
    for uri, json in tuple(blocks(documents)):
        carrier = _put(documents, f"{uri}/PCIeDevice", {"Slot": {"HotPluggable": True}})
        for devices in devices_of(documents, json).values():
            for device, own in devices.items():
                linked = {**docs.object_of(own, "Links"), "PCIeDevice": {"@odata.id": carrier}}
                documents.put(device, {**own, "Links": linked})


def _become_servers(documents: DocumentTree) -> None:
    """Replace the composition service and the nodes by one server for each compute block."""
    root = documents.get(ROOT) or {}
    systems = docs.uri_at(root, "Systems")
    for uri in documents.member_uris(systems):
        documents.remove_member(systems, uri)
    for uri, json in tuple(blocks(documents)):
        if "Compute" not in docs.array_of(json, "ResourceBlockType"):
            continue
        server = f"{systems}/{uri.rpartition('/')[2]}"
        own: Json = {"SystemType": "Physical", "PowerState": "Off", "Status": json.get("Status")}
        for kind in _BY_SYSTEM:
            if linked := docs.uris_at(json, kind):
                documents.put_collection(f"{server}/{kind}", "Collection", kind, linked)
                own[kind] = {"@odata.id": f"{server}/{kind}"}
        disks = _put(documents, f"{server}/Storage/1", {"Drives": json.get("Drives") or []})
        documents.put_collection(f"{server}/Storage", "StorageCollection", "Storage", [disks])
        own["Storage"] = {"@odata.id": f"{server}/Storage"}
        type_ = "ComputerSystem.v1_23_1"
        documents.put(server, docs.resource_document(server, type_, "Server", **own))
        complete_system(documents, server)
        documents.list_member(systems, server)
    documents.put(ROOT, {key: it for key, it in root.items() if key != "CompositionService"})


def _put(documents: DocumentTree, uri: str, json: Json) -> str:
    documents.put(uri, {"@odata.id": uri, "Id": uri.rpartition("/")[2], **json})
    return uri


def _put_copies(documents: DocumentTree, below: str, devices: Iterable[Json]) -> list[str]:
    copies = [{key: it for key, it in json.items() if key not in _NAMES} for json in devices]
    return [_put(documents, f"{below}/{n}", json) for n, json in enumerate(copies, 1)]


_CHANGES: dict[str, Callable[[DocumentTree], None]] = {
    "list-twice": _list_twice,
    "physical-volumes": _list_physical_volumes,
    "no-sizes": _omit_sizes,
    "no-limits": _omit_limits,
    "join": _join_blocks,
    "fixed-hosts": _add_hosts,
    "hot-plug": _declare_hot_plug,
    "servers": _become_servers,
    "connections": add_amount_fabric,
    "fabric-zones": add_fabrics,
}


def complete(documents: DocumentTree, faults: Faults, id_: str) -> None:
    """Add a service root and the faults; the UUID of the root depends only on the id."""
    if not (root := documents.get(ROOT)):
        parts = {it: {"@odata.id": f"{ROOT}/{it}"} for it in PARTS if f"{ROOT}/{it}" in documents}
        own = {"RedfishVersion": "1.18.0", "Id": "RootService", **parts}
        root = docs.resource_document(ROOT, "ServiceRoot.v1_16_1", "Root Service") | own
    if "no-uuid" in faults:
        root = {name: value for name, value in root.items() if name != "UUID"}
    elif not root.get("UUID"):
        root = {**root, "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, f"podm:{id_}"))}
    features = dict(docs.object_of(root, "ProtocolFeaturesSupported"))
    features.setdefault("ExpandQuery", EXPAND_FEATURES)
    if "no-expand" in faults:
        del features["ExpandQuery"]
    documents.put(ROOT, {**root, "ProtocolFeaturesSupported": features})
    if "Systems" not in root and any(True for _ in blocks(documents)):
        uri = f"{ROOT}/Systems"
        documents.update(ROOT, Systems={"@odata.id": uri})
        if uri not in documents:
            documents.put_collection(uri, "ComputerSystemCollection", "Systems")
    for name, change in _CHANGES.items():
        if name in faults:
            change(documents)
    for name, keep in (("omit", False), ("null", True)):
        for word in faults.paths(name):
            for uri in documents:
                documents.put(uri, _without(documents.get(uri), word, keep))
    holders = (docs.composition_service(documents), documents.get(ROOT))
    found = (docs.uri_at(one, "ResourceBlocks") for one in holders)
    collection = next(filter(None, found), "")
    wrong = []
    if "foreign-link" in faults:
        first = next(iter(documents.member_uris(collection)), f"{collection}/1")
        wrong.append(f"https://elsewhere.example.net{first}")
    if "dangle" in faults:
        wrong.append(f"{collection}/There-Is-None")
    if wrong:
        listed = docs.array_of(documents.get(collection), "Members") + docs.links_to(wrong)
        documents.update(collection, **{"Members": listed, "Members@odata.count": len(listed)})


def load_documents(
    records: Iterable[Record], diagnostics: Diagnostics
) -> Iterator[tuple[str, DocumentTree]]:
    seen: dict[str, str] = {}
    for record in records:
        try:
            podm = decode(record.json, FullPodm, record.file, record.place)
            if podm.id in seen:
                hint = f"the first is in {seen[podm.id]}"
                place = f"{record.place}.id"
                raise DuplicateId(record.file, place, repr(podm.id), "a unique id", hint)
            seen[podm.id] = record.file
            if record.tree is None:
                rendered = DocumentTree(documents_of(podm))
                systems = docs.uri_at(rendered.get(ROOT), "Systems")
                for uri in rendered.member_uris(systems):
                    complete_system(rendered, uri)
                yield podm.id, rendered
            else:
                recorded = tree_documents(record.tree, record.file, diagnostics)
                # The composer changes documents in their present form only.
                documents = {uri: current_form(json, root=uri == ROOT) for uri, json in recorded}
                yield podm.id, DocumentTree(documents)
        except DuplicateId:
            raise
        except InputError as error:
            diagnostics.skip(error)
