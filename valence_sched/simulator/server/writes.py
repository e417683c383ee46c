# SPDX-License-Identifier: Apache-2.0
"""Dispatches POST, PATCH and DELETE of a simulated pod manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.codec import check_depth
from valence_sched.simulator.redfish import amounts, blocks, machine
from valence_sched.simulator.redfish.compose_action import ComposeAction, Reservations, target
from valence_sched.simulator.redfish.composition import Composition, CompositionPlan
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.composing_habits import Habits
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    object_of,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, method_not_allowed, not_found
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.tasks import Tasks


class DocumentWrites:
    """Answers the writes of one pod manager."""

    def __init__(
        self, documents: DocumentTree, faults: Faults, clock: Callable[[], float], task_s: float
    ) -> None:
        self._documents, self._faults = documents, faults
        self._habits = Habits(documents, faults)
        self.composition = Composition(documents, self._habits)
        self.reservations = Reservations(documents, self.composition, clock)
        self.tasks = Tasks(
            documents, self.composition, clock, duration_s=task_s, fail="task-exception" in faults
        )
        self._rack = (
            NodesService(documents, clock, assemble_s=task_s, habits=self._habits)
            if _is_rack(documents)
            else None
        )
        self._action = ComposeAction(documents, self.composition, self.reservations)

    def tick(self) -> None:
        """Do what time brings: tasks end, reservations expire."""
        self.tasks.tick()
        self.reservations.tick()
        if self._rack:
            self._rack.tick()

    def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], user: str
    ) -> SimulatedReply:
        """Do a write; RequestRefused if it cannot be done."""
        json = {} if method == "DELETE" else json_of(body)
        if self._rack and (found := self._rack_reply(self._rack, method, path, json)) is not None:
            return found
        if method == "DELETE":
            return self._delete(path)
        if method == "PATCH":
            replaces = "patch-replaces" in self._faults
            return patch_document(
                self._documents, self.composition, path, json, user, replaces=replaces
            )
        return self._post(path, json, headers, user)

    def _post(self, path: str, json: Json, headers: Mapping[str, str], user: str) -> SimulatedReply:
        if path.removesuffix("/Members") in self.composition.targets():
            return self._compose(json, headers, user)
        if path == target(self._documents, self.reservations.service):
            self._steal()
            return self._action.compose(json, user)
        system, mark, action = path.rpartition("/Actions/ComputerSystem.")
        if mark and action and system in self._documents:
            return self._system_action(system, action, json, user)
        made = amounts.create_amount(self._documents, path, json, self._habits)
        if made is not None:
            return made
        media, mark, action = path.rpartition("/Actions/VirtualMedia.")
        if mark and action and media in self._documents:
            return machine.media_action(self._documents, media, action, json)
        if path in self._documents:
            return method_not_allowed("POST", path)
        return not_found(path)

    def _compose(self, json: Json, headers: Mapping[str, str], user: str) -> SimulatedReply:
        self._steal()
        if "stores" in self._faults:
            return self._store(json)
        plan = self.composition.plan(json, user)
        if "empty-create" in self._faults:
            uri = f"{self.composition.systems}/There-Is-None"
            return SimulatedReply(201, None, {"Location": uri})
        wanted = headers.get("prefer", "").replace(" ", "").lower().split(",")
        if "respond-async" in wanted or "async" in self._faults or "task-exception" in self._faults:
            return self.tasks.start(plan)
        uri = self.composition.compose(plan)
        if "failed-node" in self._faults:
            self._fail_node(uri, plan)
        return self._habits.created(uri)

    def _store(self, json: Json) -> SimulatedReply:
        """Make a member of the systems of what was sent, as servers of recordings do."""
        systems = self.composition.systems
        uri = f"{systems}/{self._documents.free_id(systems)}"
        own = {"@odata.id": uri, "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem"}
        self._documents.put(uri, {**own, "Id": uri.rpartition("/")[2], **json})
        self._documents.list_member(systems, uri)
        return SimulatedReply(201, None, {"Location": uri})

    def _delete(self, path: str) -> SimulatedReply:
        if path.startswith(f"{self.reservations.collection}/"):
            return self.reservations.delete(path)
        json = self._documents.get(path)
        type_ = str(value_at(json, "@odata.type"))
        if json is not None and not type_.startswith(("#ComputerSystem.", *amounts.TYPES)):
            return method_not_allowed("DELETE", path)
        if "ghost" in self._faults and json is not None:
            return SimulatedReply(204)
        if "stores" in self._faults and json is not None:
            self._documents.remove(path)
            self._documents.unlist_member(self.composition.systems, path)
            return SimulatedReply(204)
        if type_.startswith(amounts.TYPES):
            return amounts.delete_amount(self._documents, path)
        return self.composition.decompose(path)

    def _rack_reply(
        self, rack: NodesService, method: str, path: str, json: Json
    ) -> SimulatedReply | None:
        """Return the answer of the Nodes service, None when the request is not for it."""
        if "ghost" in self._faults and method == "DELETE" and path in self._documents:
            return SimulatedReply(204)
        nodes, mark, _ = path.partition("/Actions/")
        if "empty-create" in self._faults and mark and path.endswith("Allocate"):
            return SimulatedReply(201, None, {"Location": f"{nodes}/There-Is-None"})
        answer = rack.reply(method, path, json)
        assembled = answer is not None and answer.status < 300 and path.endswith("Assemble")
        if assembled and "failed-node" in self._faults:
            rack.lose(uri_of(value_at(self._documents.get(nodes), "Links", "ComputerSystem")))
        return answer

    def _system_action(self, system: str, action: str, json: Json, user: str) -> SimulatedReply:
        had = uris(value_at(self._documents.get(system), "Links", "ResourceBlocks"))
        named = uris(json.get("ResourceBlock"))
        if action == "Reset":
            return machine.reset(self._documents, system, json)
        if action not in ("AddResourceBlock", "RemoveResourceBlock"):
            return not_found(f"{system}/Actions/ComputerSystem.{action}")
        if not named or (action == "RemoveResourceBlock" and named[0] not in had):
            text = "ResourceBlock names no resource block that this can be done with."
            raise RequestRefused(400, "ActionParameterValueError", text, "ResourceBlock", action)
        gone = named if action == "RemoveResourceBlock" else []
        come = named if action == "AddResourceBlock" else []
        others = [block for block in had if block not in gone]
        self.composition.change(system, list(dict.fromkeys([*others, *come])), user)
        return SimulatedReply(204)

    def _steal(self) -> None:
        """Let another client compose the blocks that a fault rule names, once."""
        for name in self._faults.once("steal"):
            for uri, json in blocks.blocks(self._documents):
                if name in (uri, json.get("Id"), uri.rpartition("/")[2]):
                    self.composition.compose(CompositionPlan((uri,), {"Name": "Somebody-Elses"}))

    def _fail_node(self, uri: str, plan: CompositionPlan) -> None:
        system = self._documents.get(uri) or {}
        failed = {"State": "Disabled", "Health": "Critical"}
        self._documents.put(uri, {**system, "PowerState": "Off", "Status": failed})
        for block in plan.blocks:
            blocks.set_status(self._documents, block, CompositionState="Failed")


def _is_rack(documents: DocumentTree) -> bool:
    """Return whether the root is that of an Intel RSD pod manager."""
    root = documents.get(blocks.ROOT)
    return bool(value_at(root, "Nodes") or value_at(root, "Oem", "Intel_RackScale"))


def json_of(body: bytes) -> Json:
    """Return the JSON object of a request; RequestRefused if it is none."""
    try:
        check_depth(body, "the body")
        return msgspec.json.decode(body or b"{}", type=Json)
    except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(400, "MalformedJSON", "The body is no JSON object.") from None


POOLS = ("Free", "Active", "Unassigned")

#: The writable properties, by the kind of document.
WRITABLE = {
    "block": ("Name", "Description", "Pool", "Client", "CompositionStatus"),
    "system": ("Name", "Description", "HostName", "AssetTag", "Boot", "Links"),
    "machine": ("Name", "Description", "HostName", "AssetTag", "Boot"),
    "service": ("Name", "Description", "AllowOverprovisioning", "ReservationDuration"),
    "other": ("Name", "Description"),
}

_STATUS = ("Reserved", "SharingEnabled")


def patch_document(
    documents: DocumentTree,
    composition: Composition,
    uri: str,
    body: Json,
    client: str,
    *,
    replaces: bool = False,
) -> SimulatedReply:
    """Change a document, or refuse and change nothing; ``replaces`` drops what was not sent."""
    json = documents.get(uri)
    if json is None:
        return not_found(uri)
    kind = _kind(json)
    for name, value in body.items():
        if name not in WRITABLE[kind] and value != json.get(name):
            text = f"The property {name} cannot be written."
            raise RequestRefused(400, "PropertyNotWritable", text, name)
    change = dict(body)
    if kind == "block":
        change = _checked_block(json, change, replaces)
        _keep_owner(composition, uri, json, change, client)
    if kind == "system" and "Links" in change:
        wanted = uris(value_at(change.pop("Links"), "ResourceBlocks"))
        composition.change(uri, wanted, client)
        json = documents.get(uri) or json
    if not replaces and isinstance(boot := change.get("Boot"), dict):
        change["Boot"] = {**object_of(json, "Boot"), **boot}
    documents.put(uri, {**json, **change})
    return SimulatedReply(200, documents.get(uri))


def _kind(json: Json) -> str:
    if blocks.is_block(json):
        return "block"
    type_ = str(json.get("@odata.type"))
    if json.get("SystemType") == "Composed":
        return "system"
    if type_.startswith("#ComputerSystem."):
        return "machine"
    return "service" if type_.startswith("#CompositionService.") else "other"


def _checked_block(json: Json, change: Json, replaces: bool) -> Json:
    if "Pool" in change and change["Pool"] not in POOLS:
        text = f"Pool is {change['Pool']}, expected one of {', '.join(POOLS)}."
        raise RequestRefused(400, "PropertyValueNotInList", text, str(change["Pool"]), "Pool")
    if "CompositionStatus" not in change:
        return change
    sent, status = change["CompositionStatus"], json["CompositionStatus"]
    if not isinstance(sent, dict):
        text = "CompositionStatus is no object."
        raise RequestRefused(
            400, "PropertyValueTypeError", text, str(sent)[:200], "CompositionStatus"
        )
    for name, value in sent.items():
        _check_status(name, value, status)
    return {**change, "CompositionStatus": sent if replaces else {**status, **sent}}


def _check_status(name: str, value: Any, status: Json) -> None:
    if name in status and value == status[name]:
        return
    if name not in _STATUS:
        text = f"The property {name} cannot be written."
        raise RequestRefused(400, "PropertyNotWritable", text, name)
    if not isinstance(value, bool) and (value is not None or name != "Reserved"):
        text = f"{name} is neither true nor false."
        raise RequestRefused(400, "PropertyValueTypeError", text, str(value)[:200], name)
    if name == "SharingEnabled" and status.get("CompositionState") != "Unused":
        text = "SharingEnabled cannot be changed while the block is composed."
        raise RequestRefused(400, "PropertyNotWritable", text, name)


def _keep_owner(composition: Composition, uri: str, json: Json, change: Json, client: str) -> None:
    now = value_at(change, "CompositionStatus", "Reserved")
    if "CompositionStatus" not in change or now == json["CompositionStatus"].get("Reserved"):
        return
    if now is True:
        composition.owners[uri] = client
    else:
        composition.owners.pop(uri, None)
