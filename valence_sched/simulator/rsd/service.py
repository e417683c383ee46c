# SPDX-License-Identifier: Apache-2.0
"""The Nodes service of a rack's pod manager: allocates, assembles, resets and deletes nodes.

It changes documents and nothing else. One node is the first system that is left after all
filters; what is asynchronous happens in :meth:`Rsd.tick` by the clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.drivers.fields import links
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.simulator.redfish.system import complete_system, power_after
from valence_sched.simulator.rsd import bodies as replies
from valence_sched.simulator.rsd import tree
from valence_sched.simulator.rsd.bodies import requested_resources, violations
from valence_sched.simulator.rsd.choice import AWAY, ChosenSystem, SystemChooser
from valence_sched.simulator.rsd.tree import cut, give_back
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    links_to,
    value_at,
)
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.habits import Habits

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


def node_assets(node: Json) -> list[str]:
    """Return the assets that a node cannot be without: its system, and devices outside of it."""
    systems = [uri for uri in links(value_at(node, "Links", "ComputerSystem")) if uri]
    rest = [
        uri
        for key in ("Processors", "LocalDrives")
        for uri in links(value_at(node, "Links", key))
        if uri and not any(uri.startswith(f"{system}/") for system in systems)
    ]
    return list(dict.fromkeys([*systems, *rest]))


def node_volumes(node: Json) -> list[str]:
    """Return the volumes and targets that a node links."""
    return [uri for uri in links(value_at(node, "Links", "RemoteDrives")) if uri]


def _links(chosen: ChosenSystem, volumes: Iterable[str]) -> Json:
    def of(type_: type[Device]) -> list[Json]:
        own = (uri for uri, it in chosen.devices.items() if isinstance(it, type_))
        return links_to(uri for uri in own if "#" not in uri)

    pooled = links_to(chosen.pooled)
    drives = [link for link in pooled if "/Drives/" in link["@odata.id"]]
    return {
        "ComputerSystem": {"@odata.id": chosen.system.uri},
        "Processors": [*of(ProcessorDevice), *(it for it in pooled if it not in drives)],
        "Memory": of(MemoryDevice),
        "EthernetInterfaces": of(EthernetInterface),
        "LocalDrives": [*of(DriveDevice), *drives],
        "RemoteDrives": links_to(volumes),
    }


def _actions(uri: str, version: str) -> Json:
    names = ["Assemble", "Reset", *(["ForceDelete"] if version >= "2.5" else [])]
    target = f"{uri}/Actions/ComposedNode"
    found: Json = {f"#ComposedNode.{name}": {"target": f"{target}.{name}"} for name in names}
    found["#ComposedNode.Reset"]["ResetType@Redfish.AllowableValues"] = list(RESETS)
    return found


class NodesService:
    """The Nodes service over some documents.

    ``assemble_s`` is how long Assemble takes by the clock. Locations are absolute below ``host``
    (``https://podm``) and relative without it.
    """

    def __init__(
        self,
        documents: DocumentTree,
        clock: Callable[[], float],
        *,
        assemble_s: float = 1.0,
        host: str = "",
        habits: Habits | None = None,
    ) -> None:
        self._documents, self._clock = documents, clock
        self._assemble_s, self._host = assemble_s, host
        self._habits = habits or Habits(documents, Faults())
        if "odd-actions" in self._habits:
            for collection in tree.root_links(documents, "Nodes"):
                tree.change(documents, collection, lambda json: json.update(
                    Actions=_renamed(json.get("Actions") or {})))  # fmt: skip
        self._due: dict[str, float] = {}
        self._before: dict[str, str] = {}
        self._status: dict[str, Any] = {}
        self._broken_verbs: list[str] = []

    def break_next(self, verb: str) -> None:
        """Let the next call of a verb (``allocate``, ``delete`` …) answer 500 and do nothing."""
        self._broken_verbs.append(verb)

    def lose(self, uri: str) -> None:
        """Let an asset be away; nodes that have it fail until it comes back."""
        if (json := self._documents.get(uri)) is not None and uri not in self._status:
            self._status[uri] = json.get("Status")
            status = {"State": "Absent", "Health": "Critical"}
            tree.change(self._documents, uri, lambda json: json.update(Status=status))
        self.tick()

    def bring_back(self, uri: str) -> None:
        """Let an asset that was lost come back as it was."""
        if uri in self._status:
            status = self._status.pop(uri)
            tree.change(self._documents, uri, lambda json: json.update(Status=status))
        self.tick()

    def tick(self) -> None:
        """Bring the states of all nodes up to now."""
        for uri in self._nodes():
            self._update_state(uri, self._node(uri))

    def reply(self, method: str, uri: str, body: Any = None) -> SimulatedReply | None:
        """Answer a request, None for others'; actions are found by the last part of their URI."""
        uri, _, action = uri.rstrip("/").partition("/Actions/")
        verb = action.rpartition(".")[2]
        if method == "DELETE" and not action:
            return self.delete(uri) if uri in self._nodes() else None
        if method != "POST" or not verb:
            return None
        if verb == "Allocate":
            here = uri in tree.root_links(self._documents, "Nodes")
            return self.allocate(body) if here else None
        if uri not in self._nodes():
            return None
        if verb == "Reset":
            return self.reset(uri, body)
        verbs = {"Assemble": self.assemble, "ForceDelete": self.force_delete}
        return verbs[verb](uri) if verb in verbs else None

    def allocate(self, body: Any) -> SimulatedReply:
        """Allocate a node: 201 with its Location, 400, 409 with the counts, or 503."""
        if refusal := self._injected_fault("allocate"):
            return refusal
        collections = tree.root_links(self._documents, "Nodes")
        if not collections:
            return replies.missing_reply(ROOT)
        if wrong := violations(body, lambda uri: uri in self._documents):
            return replies.invalid_reply(wrong)
        named = {uri for some in requested_resources(body).values() for uri in some}
        if away := sorted(filter(self._is_away, named)):
            return replies.unavailable_reply(away)
        chooser = SystemChooser(self._documents)
        chosen, counts = chooser.choose(body, equal="equal-device" in self._habits)
        if chosen is None:
            none = "There are no computer systems available for this allocation request."
            return replies.conflict_reply("Conflict during allocation", [none, counts])
        volumes: list[str] = []
        for wanted in body.get("RemoteDrives") or ():
            half = {**wanted, "CapacityGiB": wanted["CapacityGiB"] / 2}
            short = "short-amounts" in self._habits
            uri = cut(self._documents, half if short else wanted)
            if uri is None:
                for volume in volumes:
                    give_back(self._documents, volume)
                protocol = wanted.get("Protocol") or "any protocol"
                what = f"{wanted['CapacityGiB']} GiB over {protocol}"
                reason = f"There is no storage pool with room for {what}."
                return replies.conflict_reply("Conflict during allocation", [reason])
            volumes.append(uri)
        collection = collections[0]
        uri = f"{collection}/{self._free_id(collection, body)}"
        renamed = {**body, "Name": self._habits.name_of(body.get("Name"))}
        rack = value_at(self._documents.get(ROOT), "Oem", "Intel_RackScale")
        version = str(value_at(rack, "ApiVersion") or "")
        node = node_document(uri, renamed, chosen, volumes, version)
        if "odd-actions" in self._habits:
            node["Actions"] = _renamed(node["Actions"])
        self._documents.add_member(collection, node)
        complete_system(self._documents, chosen.system.uri)
        headers = {"Location": f"{self._host}{uri}"}
        return SimulatedReply(201, None, {} if "no-location" in self._habits else headers)

    def assemble(self, uri: str) -> SimulatedReply:
        """Begin to assemble an allocated node: 204, and 409 in every other state."""
        uri = _node_uri(uri)
        if refusal := self._refusal(uri, "assemble"):
            return refusal
        node = self._node(uri)
        if (state := node.get("ComposedNodeState")) != "Allocated":
            reason = f"Only an Allocated node can be assembled; this one is {state}."
            return replies.conflict_reply("Assembly action could not be completed", [reason])
        host, *devices = node_assets(node) or [""]
        tree.connect(self._documents, [*devices, *node_volumes(node)], host)
        self._due[uri] = self._clock() + self._assemble_s
        self._put(uri, ComposedNodeState="Assembling")
        return replies.NO_CONTENT

    def reset(self, uri: str, body: Any) -> SimulatedReply:
        """Reset a node that is assembled: 204, 400 for an unknown type, 409 in other states."""
        uri = _node_uri(uri)
        if refusal := self._refusal(uri, "reset"):
            return refusal
        kind = body.get("ResetType") if isinstance(body, dict) else None
        if kind not in RESETS:
            return replies.invalid_reply([f"ResetType: expected one of {', '.join(RESETS)}"])
        node = self._node(uri)
        if (state := node.get("ComposedNodeState")) != "Assembled":
            reason = f"Only an Assembled node can be reset; this one is {state}."
            return replies.conflict_reply("Reset action could not be completed", [reason])
        self._power(uri, power_after(str(kind), node.get("PowerState")))
        return replies.NO_CONTENT

    def delete(self, uri: str) -> SimulatedReply:
        """Delete a node and free all it has: 204; 409 while it assembles, 503 without an asset."""
        uri = _node_uri(uri)
        if refusal := self._refusal(uri, "delete"):
            return refusal
        if self._node(uri).get("ComposedNodeState") == "Assembling":
            reason = "A node that is Assembling cannot be deleted."
            return replies.conflict_reply("The node could not be disassembled", [reason])
        return self._free(uri)

    def force_delete(self, uri: str) -> SimulatedReply:
        """Delete a node in whatever state, though assets of it are away: 204."""
        uri = _node_uri(uri)
        if refusal := self._injected_fault("force_delete"):
            return refusal
        return self._free(uri) if uri in self._nodes() else replies.missing_reply(uri)

    def _free(self, uri: str) -> SimulatedReply:
        node = self._node(uri)
        self._power(uri, "Off")
        assets, volumes = node_assets(node), node_volumes(node)
        tree.disconnect(self._documents, [*assets, *volumes])
        for volume in volumes:
            give_back(self._documents, volume)
        for asset in assets:
            tree.change(self._documents, asset, _erase)
        for collection in tree.root_links(self._documents, "Nodes"):
            self._documents.remove_member(collection, uri)
        self._due.pop(uri, None)
        self._before.pop(uri, None)
        return replies.NO_CONTENT

    def _refusal(self, uri: str, verb: str) -> SimulatedReply | None:
        if refusal := self._injected_fault(verb):
            return refusal
        if uri not in self._nodes():
            return replies.missing_reply(uri)
        away = [it for it in node_assets(self._node(uri)) if self._is_away(it)]
        return replies.unavailable_reply(away) if away else None

    def _free_id(self, collection: str, body: Json) -> str:
        wanted = body.get("Name") if "uri-names" in self._habits else None
        taken = wanted is None or f"{collection}/{wanted}" in self._documents
        return self._documents.free_id(collection) if taken else str(wanted)

    def _node(self, uri: str) -> Json:
        return self._documents.get(uri) or {}

    def _injected_fault(self, verb: str) -> SimulatedReply | None:
        self.tick()
        if verb not in self._broken_verbs:
            return None
        self._broken_verbs.remove(verb)
        return replies.server_error_reply()

    def _update_state(self, uri: str, node: Json) -> None:
        state = node.get("ComposedNodeState")
        if any(self._is_away(asset) for asset in node_assets(node)):
            if state != "Failed":
                self._before[uri] = str(state)
                self._put(uri, ComposedNodeState="Failed", Status=_status("Critical"))
            return
        if state == "Failed":
            state = self._before.pop(uri, "Assembled")
            self._put(uri, ComposedNodeState=state, Status=_status("OK"))
        if state == "Assembling":
            now = self._clock()
            if now >= self._due.setdefault(uri, now + self._assemble_s):
                del self._due[uri]
                self._put(uri, ComposedNodeState="Assembled")
                self._power(uri, "On")

    def _is_away(self, uri: str) -> bool:
        state = value_at(self._documents.get(uri), "Status", "State")
        return uri not in self._documents or str(state or "").casefold() in AWAY

    def _power(self, uri: str, power: Any) -> None:
        for one in (uri, tree.link(self._node(uri), "Links", "ComputerSystem")):
            if one:
                tree.change(self._documents, one, lambda json: json.update(PowerState=power))

    def _put(self, uri: str, **what: Any) -> None:
        tree.change(self._documents, uri, lambda json: json.update(what))

    def _nodes(self) -> list[str]:
        found = tree.root_links(self._documents, "Nodes")
        listed = (uri for some in found for uri in tree.members(self._documents, some))
        return [uri.rstrip("/") for uri in listed if uri in self._documents]


def _renamed(actions: Json) -> Json:
    return {f"#Rack.Nodes.{name.rpartition('.')[2]}": value for name, value in actions.items()}


def _node_uri(uri: str) -> str:
    return uri.partition("/Actions/")[0].rstrip("/")


def _status(health: str) -> Json:
    return {"State": "Enabled", "Health": health, "HealthRollup": health}


def _erase(device: Json) -> None:
    rack = value_at(device, "Oem", "Intel_RackScale")
    if not isinstance(rack, dict):
        return
    erased = rack.get("EraseOnDetach") is not False
    if "FPGA" in rack and isinstance(rack["FPGA"], dict):
        rack["FPGA"]["Erased"] = erased
    else:
        rack["DriveErased"] = erased
        rack["Storage"] = None
