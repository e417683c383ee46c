# SPDX-License-Identifier: Apache-2.0
"""POST, PATCH and DELETE of a simulated pod manager: each goes to who knows how."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from valence_sched.simulator.redfish import blocks, compose_action
from valence_sched.simulator.redfish.composition import Composition, Plan
from valence_sched.simulator.redfish.reservations import Reservations
from valence_sched.simulator.rsd.service import Rsd
from valence_sched.simulator.server.documents import Answer, Documents, Json, part, uri_of, uris
from valence_sched.simulator.server.errors import Refused, forbidden_method, missing
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.patch import patched
from valence_sched.simulator.server.tasks import Tasks


class Writes:
    """What changes the documents of one pod manager."""

    def __init__(
        self, documents: Documents, faults: Faults, clock: Callable[[], float], task_s: float
    ) -> None:
        self._documents, self._faults = documents, faults
        self.composition = Composition(documents, double_book="double-book" in faults)
        self.reservations = Reservations(documents, self.composition, clock)
        self.tasks = Tasks(
            documents,
            self.composition,
            clock,
            duration_s=task_s,
            fail="task-exception" in faults,
        )
        self._rack = Rsd(documents, clock, assemble_s=task_s) if _is_rack(documents) else None
        self._action = compose_action.ComposeAction(documents, self.composition, self.reservations)

    def tick(self) -> None:
        """Do what time brings: tasks end, reservations expire."""
        self.tasks.tick()
        self.reservations.tick()
        if self._rack:
            self._rack.tick()

    def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], user: str
    ) -> Answer:
        """Do a write.

        Raises:
            Refused: it cannot be done.
        """
        json = {} if method == "DELETE" else json_of(body)
        if self._rack and (found := self._racked(self._rack, method, path, json)) is not None:
            return found
        if method == "DELETE":
            return self._deleted(path)
        if method == "PATCH":
            replaces = "patch-replaces" in self._faults
            return patched(self._documents, self.composition, path, json, user, replaces=replaces)
        return self._posted(path, json, headers, user)

    def _posted(self, path: str, json: Json, headers: Mapping[str, str], user: str) -> Answer:
        if path.removesuffix("/Members") in self.composition.targets():
            return self._composed(json, headers, user)
        if path == compose_action.target(self._documents, self.reservations.service):
            self._steal()
            return self._action.compose(json, user)
        system, mark, action = path.rpartition("/Actions/ComputerSystem.")
        if mark and action and system in self._documents:
            return self._system_action(system, action, json, user)
        if path in self._documents:
            return forbidden_method("POST", path)
        return missing(path)

    def _composed(self, json: Json, headers: Mapping[str, str], user: str) -> Answer:
        self._steal()
        plan = self.composition.plan(json, user)
        if "empty-create" in self._faults:
            uri = f"{self.composition.systems}/There-Is-None"
            return Answer(201, None, {"Location": uri})
        wanted = headers.get("prefer", "").replace(" ", "").lower().split(",")
        if "respond-async" in wanted or "async" in self._faults or "task-exception" in self._faults:
            return self.tasks.start(plan)
        uri = self.composition.compose(plan)
        if "failed-node" in self._faults:
            self._fail_node(uri, plan)
        return Answer(201, self._documents.get(uri), {"Location": uri})

    def _deleted(self, path: str) -> Answer:
        if path.startswith(f"{self.reservations.collection}/"):
            return self.reservations.delete(path)
        json = self._documents.get(path)
        if json is not None and not str(json.get("@odata.type")).startswith("#ComputerSystem."):
            return forbidden_method("DELETE", path)
        if "ghost" in self._faults and json is not None:
            return Answer(204)
        return self.composition.decompose(path)

    def _racked(self, rack: Rsd, method: str, path: str, json: Json) -> Answer | None:
        """Return the answer of the Nodes service, None when the request is not for it."""
        if "ghost" in self._faults and method == "DELETE" and path in self._documents:
            return Answer(204)
        nodes, mark, _ = path.partition("/Actions/")
        if "empty-create" in self._faults and mark and path.endswith("Allocate"):
            return Answer(201, None, {"Location": f"{nodes}/There-Is-None"})
        answer = rack.reply(method, path, json)
        assembled = answer is not None and answer.status < 300 and path.endswith("Assemble")
        if assembled and "failed-node" in self._faults:
            rack.lose(uri_of(part(self._documents.get(nodes), "Links", "ComputerSystem")))
        return answer

    def _system_action(self, system: str, action: str, json: Json, user: str) -> Answer:
        had = uris(part(self._documents.get(system), "Links", "ResourceBlocks"))
        named = uris(json.get("ResourceBlock"))
        if action == "Reset":
            return Answer(204)
        if action not in ("AddResourceBlock", "RemoveResourceBlock"):
            return missing(f"{system}/Actions/ComputerSystem.{action}")
        if not named or (action == "RemoveResourceBlock" and named[0] not in had):
            text = "ResourceBlock names no resource block that this can be done with."
            raise Refused(400, "ActionParameterValueError", text, "ResourceBlock", action)
        gone = named if action == "RemoveResourceBlock" else []
        come = named if action == "AddResourceBlock" else []
        kept = [block for block in had if block not in gone]
        self.composition.change(system, list(dict.fromkeys([*kept, *come])), user)
        return Answer(204)

    def _steal(self) -> None:
        """Let somebody else take the blocks that a fault rule names, once."""
        for name in self._faults.once("steal"):
            for uri, json in blocks.blocks(self._documents):
                if name in (uri, json.get("Id"), uri.rpartition("/")[2]):
                    self.composition.compose(Plan((uri,), {"Name": "Somebody-Elses"}))

    def _fail_node(self, uri: str, plan: Plan) -> None:
        system = self._documents.get(uri) or {}
        failed = {"State": "Disabled", "Health": "Critical"}
        self._documents.put(uri, {**system, "PowerState": "Off", "Status": failed})
        for block in plan.blocks:
            blocks.set_status(self._documents, block, CompositionState="Failed")


def _is_rack(documents: Documents) -> bool:
    """Return whether the root is that of an Intel RSD pod manager."""
    root = documents.get(blocks.ROOT)
    return bool(part(root, "Nodes") or part(root, "Oem", "Intel_RackScale"))


def json_of(body: bytes) -> Json:
    """Return the JSON object of a request.

    Raises:
        Refused: it is none.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=Json)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "MalformedJSON", "The body is no JSON object.") from None
