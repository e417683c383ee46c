# SPDX-License-Identifier: Apache-2.0
"""Dispatches POST, PATCH and DELETE of a simulated pod manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from valence_sched.simulator.redfish import blocks, compose_action
from valence_sched.simulator.redfish.composition import Composition, CompositionPlan
from valence_sched.simulator.redfish.reservations import Reservations
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, method_not_allowed, not_found
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.patch import patch_document
from valence_sched.simulator.server.tasks import Tasks


class DocumentWrites:
    """Answers the writes of one pod manager."""

    def __init__(
        self, documents: DocumentTree, faults: Faults, clock: Callable[[], float], task_s: float
    ) -> None:
        self._documents, self._faults = documents, faults
        self.composition = Composition(documents, double_book="double-book" in faults)
        self.reservations = Reservations(documents, self.composition, clock)
        self.tasks = Tasks(
            documents, self.composition, clock, duration_s=task_s, fail="task-exception" in faults
        )
        self._rack = (
            NodesService(documents, clock, assemble_s=task_s) if _is_rack(documents) else None
        )
        self._action = compose_action.ComposeAction(documents, self.composition, self.reservations)

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
        if path == compose_action.target(self._documents, self.reservations.service):
            self._steal()
            return self._action.compose(json, user)
        system, mark, action = path.rpartition("/Actions/ComputerSystem.")
        if mark and action and system in self._documents:
            return self._system_action(system, action, json, user)
        if path in self._documents:
            return method_not_allowed("POST", path)
        return not_found(path)

    def _compose(self, json: Json, headers: Mapping[str, str], user: str) -> SimulatedReply:
        self._steal()
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
        return SimulatedReply(201, self._documents.get(uri), {"Location": uri})

    def _delete(self, path: str) -> SimulatedReply:
        if path.startswith(f"{self.reservations.collection}/"):
            return self.reservations.delete(path)
        json = self._documents.get(path)
        if json is not None and not str(json.get("@odata.type")).startswith("#ComputerSystem."):
            return method_not_allowed("DELETE", path)
        if "ghost" in self._faults and json is not None:
            return SimulatedReply(204)
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
            return SimulatedReply(204)
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
        return msgspec.json.decode(body or b"{}", type=Json)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(400, "MalformedJSON", "The body is no JSON object.") from None
