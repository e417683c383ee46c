# SPDX-License-Identifier: Apache-2.0
"""Variations: what fault rules change in the documents of a pod manager before it serves them.

Each is a habit of pod managers that makes counting their devices hard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.simulator.redfish.blocks import ROOT, blocks
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    collection_document,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.faults import Faults

#: The properties that tell that two documents are of one device.
_NAMES = ("@odata.id", "SerialNumber", "UUID", "Identifiers", "MACAddress", "PermanentMACAddress",
          "PhysicalLocation", "Links")  # fmt: skip
_BY_SYSTEM = ("Processors", "Memory", "EthernetInterfaces")
_CAPABILITIES = "@Redfish.CollectionCapabilities"
_GROUPS = ("LVG", "Pool")
_SETS = "InterleavableMemorySets"


def vary(documents: DocumentTree, faults: Faults) -> None:
    """Change the documents as the fault rules say."""
    for name, change in _CHANGES.items():
        if name in faults:
            change(documents)
    for name, keep in (("omit", False), ("null", True)):
        for word in faults.paths(name):
            for uri in documents:
                documents.put(uri, _without(documents.get(uri), word, keep))


def _without(value: Any, name: str, keep: bool) -> Any:
    """Return a document without a property wherever it stands, or with null for its value."""
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
            again = {"Name": "Again", "Drives": _links(copies)}
            simple = {"Name": "Again", "Devices": [_device(json) for json in drives.values()]}
            changed |= {
                "Drives": [
                    *(own if isinstance(own, list) else [own]),
                    *_links(it for it in drives if it not in direct),
                ],
                "Storage": _links([_put(documents, f"{uri}/Storage/Again", again)]),
                "SimpleStorage": _links([_put(documents, f"{uri}/SimpleStorage/Again", simple)]),
            }
        system: Json = {"Name": "Again", "SystemType": "Physical"}
        for kind in _BY_SYSTEM:
            if devices := dict(documents.linked(block.get(kind))):
                below = f"{uri}/Again/{kind}"
                copies = _put_copies(documents, below, devices.values())
                documents.put(below, collection_document(below, "Collection", kind, copies))
                system[kind] = {"@odata.id": below}
        if len(system) > 2 and not block.get("ComputerSystems"):
            changed["ComputerSystems"] = _links([_put(documents, f"{uri}/Again", system)])
        documents.put(uri, changed)


def _omit_sizes(documents: DocumentTree) -> None:
    """Leave the sizes of memory domains, storage pools and groups to what they are made of."""
    for uri in documents:
        json = documents.get(uri) or {}
        data = value_at(json, "Capacity", "Data") or {}
        if size := json.get("MemorySizeMiB"):
            own = {key: value for key, value in json.items() if key != "MemorySizeMiB"}
            if not any(uris(value_at(it, "MemorySet")) for it in json.get(_SETS) or ()):
                module = _put(documents, f"{uri}/Memory/Again", {"CapacityMiB": size})
                own[_SETS] = [{"MemorySet": _links([module])}]
            documents.put(uri, own)
        elif "StoragePools/" in uri and data.get("AllocatedBytes"):
            provided = {"Data": {"AllocatedBytes": data["AllocatedBytes"]}}
            used = {key: value for key, value in data.items() if key != "AllocatedBytes"}
            sources = [{"ProvidedCapacity": provided}]
            documents.put(uri, {**json, "Capacity": {"Data": used}, "CapacitySources": sources})
        elif json.get("Mode") in _GROUPS and json.get("CapacityGiB"):
            drive = _put(documents, f"{uri}/Drive", {"CapacityGiB": json["CapacityGiB"]})
            links = {**(json.get("Links") or {}), "PhysicalDrives": _links([drive])}
            documents.put(uri, {**json, "CapacityGiB": None, "Links": links})


def _list_physical_volumes(documents: DocumentTree) -> None:
    """List the physical volume of each storage pool and group beside it."""
    for uri in documents:
        json = documents.get(uri) or {}
        collection = uri.rpartition("/")[0]
        if "StoragePools/" in uri and value_at(json, "Capacity", "Data", "AllocatedBytes"):
            size = {"AllocatedBytes": json["Capacity"]["Data"]["AllocatedBytes"]}
            volume: Json = {"Name": "Physical volume", "Capacity": {"Data": size}}
            volume["CapacitySources"] = json.get("CapacitySources") or []
            of = {"CapacitySources": [{"ProvidingPools": _links([f"{uri}-PV"])}]}
            documents.put(uri, {**json, **of})
        elif json.get("Mode") in _GROUPS:
            links = {"PhysicalDrives": value_at(json, "Links", "PhysicalDrives") or []}
            links["UsedBy"] = _links([uri])
            volume = {"Mode": "PV", "CapacityGiB": json.get("CapacityGiB"), "Links": links}
        else:
            continue
        documents.list_member(collection, _put(documents, f"{uri}-PV", volume))


def _omit_limits(documents: DocumentTree) -> None:
    """State no limit anywhere."""
    for uri in documents:
        documents.put(uri, _without(documents.get(uri), _CAPABILITIES, False))


def _join_blocks(documents: DocumentTree) -> None:
    """Make a composed system of the first two free compute blocks, and state no limit."""
    _omit_limits(documents)
    free = [
        uri
        for uri, json in blocks(documents)
        if "Compute" in (json.get("ResourceBlockType") or ())
        and value_at(json, "CompositionStatus", "CompositionState") == "Unused"
    ][:2]
    systems = uri_of(value_at(documents.get(ROOT), "Systems"))
    if len(free) < 2 or not systems:
        return
    node = {"Name": "Joined", "SystemType": "Composed", "Links": {"ResourceBlocks": _links(free)}}
    documents.list_member(systems, _put(documents, f"{systems}/Joined", node))
    for uri in free:
        json = documents.get(uri) or {}
        status = {**json["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(uri, {**json, "CompositionStatus": status})


def _put(documents: DocumentTree, uri: str, json: Json) -> str:
    documents.put(uri, {"@odata.id": uri, "Id": uri.rpartition("/")[2], **json})
    return uri


def _put_copies(documents: DocumentTree, below: str, devices: Iterable[Json]) -> list[str]:
    """Put devices below a URI without what tells which they are; return their URIs."""
    copies = [{key: it for key, it in json.items() if key not in _NAMES} for json in devices]
    return [_put(documents, f"{below}/{n}", json) for n, json in enumerate(copies, 1)]


def _device(drive: Json) -> Json:
    return {key: drive[key] for key in ("Name", "CapacityBytes", "Model") if key in drive}


def _links(uris: Iterable[str]) -> list[Json]:
    return [{"@odata.id": uri} for uri in uris]


_CHANGES: dict[str, Callable[[DocumentTree], None]] = {
    "list-twice": _list_twice,
    "physical-volumes": _list_physical_volumes,
    "no-sizes": _omit_sizes,
    "no-limits": _omit_limits,
    "join": _join_blocks,
}
