# SPDX-License-Identifier: Apache-2.0
"""The document of a composed node, and the assets it links."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from valence_sched.drivers.fields import links
from valence_sched.drivers.redfish.schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.simulator.rsd.choice import ChosenSystem
from valence_sched.simulator.server.documents import Json, value_at

RESETS = (
    "On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn",
    "PushPowerButton",
)  # fmt: skip


def node_document(
    uri: str, body: Json, chosen: ChosenSystem, volumes: Iterable[str], version: str
) -> Json:
    """Return the document of a node that was allocated just now."""
    id_ = uri.rpartition("/")[2]
    there = chosen.devices.values()
    cpus = [it for it in there if isinstance(it, ProcessorDevice) and (it.type or "CPU") == "CPU"]
    memory = sum(it.capacity_mib or 0 for it in there if isinstance(it, MemoryDevice))
    status = {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"}
    return {
        "@odata.type": "#ComposedNode.v1_1_0.ComposedNode",
        "@odata.id": uri,
        "Id": id_,
        "Name": body.get("Name") or f"Node {id_}",
        "Description": body.get("Description") or "",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": "Off",
        "Status": status,
        "ComposedNodeState": "Allocated",
        "Processors": {
            "Count": len(cpus), "Model": cpus[0].model if cpus else None, "Status": status,
        },
        "Memory": {"TotalSystemMemoryGiB": memory / 1024, "Status": status},
        "Links": _links(chosen, volumes),
        "Actions": _actions(uri, version),
    }  # fmt: skip


def assets(node: Json) -> list[str]:
    """Return the assets that a node cannot be without: its system, and devices outside of it."""
    systems = [uri for uri in links(value_at(node, "Links", "ComputerSystem")) if uri]
    rest = [
        uri
        for key in ("Processors", "LocalDrives")
        for uri in links(value_at(node, "Links", key))
        if uri and not any(uri.startswith(f"{system}/") for system in systems)
    ]
    return list(dict.fromkeys([*systems, *rest]))


def volumes(node: Json) -> list[str]:
    """Return the volumes and targets that a node links."""
    return [uri for uri in links(value_at(node, "Links", "RemoteDrives")) if uri]


def _links(chosen: ChosenSystem, volumes: Iterable[str]) -> Json:
    def of(type_: type[Device]) -> list[Json]:
        own = [uri for uri, it in chosen.devices.items() if isinstance(it, type_)]
        return [{"@odata.id": uri} for uri in own if "#" not in uri]

    pooled = [{"@odata.id": uri} for uri in chosen.pooled]
    drives = [link for link in pooled if "/Drives/" in link["@odata.id"]]
    return {
        "ComputerSystem": {"@odata.id": chosen.system.uri},
        "Processors": [*of(ProcessorDevice), *(it for it in pooled if it not in drives)],
        "Memory": of(MemoryDevice),
        "EthernetInterfaces": of(EthernetInterface),
        "LocalDrives": [*of(DriveDevice), *drives],
        "RemoteDrives": [{"@odata.id": uri} for uri in volumes],
    }


def _actions(uri: str, version: str) -> Json:
    names = ["Assemble", "Reset", *(["ForceDelete"] if version >= "2.5" else [])]
    target = f"{uri}/Actions/ComposedNode"
    found: Json = {f"#ComposedNode.{name}": {"target": f"{target}.{name}"} for name in names}
    found["#ComposedNode.Reset"]["ResetType@Redfish.AllowableValues"] = list(RESETS)
    return found
