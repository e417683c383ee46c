# SPDX-License-Identifier: Apache-2.0
"""Task monitors: compositions answered with 202 and finished later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.composition import Composition, CompositionPlan
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    list_member,
    value_at,
)
from valence_sched.simulator.server.errors import error_body

SERVICE = "/redfish/v1/TaskService"


@dataclass(slots=True)
class _Task:
    plan: CompositionPlan
    due_s: float
    before: dict[str, Json]
    system: str = ""
    failed: bool = False


class Tasks:
    """The tasks of one pod manager; a task takes ``duration_s``."""

    def __init__(
        self,
        documents: DocumentTree,
        composition: Composition,
        clock: Callable[[], float],
        *,
        duration_s: float = 0.2,
        fail: bool = False,
    ) -> None:
        self._documents, self._composition, self._clock = documents, composition, clock
        self._duration_s, self._fail = duration_s, fail
        self._tasks: dict[str, _Task] = {}

    def start(self, plan: CompositionPlan) -> SimulatedReply:
        """Begin to compose: 202 with the task monitor; the blocks are Composing meanwhile."""
        if not self._tasks:
            self._add_task_service()
        id_ = str(len(self._tasks) + 1)
        before = {uri: self._documents.get(uri) or {} for uri in plan.blocks}
        self._tasks[id_] = _Task(plan, self._clock() + self._duration_s, before)
        for uri in plan.blocks:
            blocks.set_status(self._documents, uri, CompositionState="Composing")
        list_member(self._documents, f"{SERVICE}/Tasks", f"{SERVICE}/Tasks/{id_}")
        return self._running(id_, self._put(id_))

    def monitor(self, uri: str) -> SimulatedReply | None:
        """Return how a task stands, None when the URI is no task monitor."""
        start, _, id_ = uri.rpartition("/")
        if start != f"{SERVICE}/TaskMonitors" or id_ not in self._tasks:
            return None
        task = self._tasks[id_]
        if task.failed:
            return SimulatedReply(500, error_body("InternalError", "The composition failed."))
        if task.system:
            return SimulatedReply(201, self._documents.get(task.system), {"Location": task.system})
        return self._running(id_, self._documents.get(f"{SERVICE}/Tasks/{id_}") or {})

    def tick(self) -> None:
        """Finish the tasks whose time has come."""
        now = self._clock()
        for id_, task in self._tasks.items():
            if task.system or task.failed or task.due_s > now:
                continue
            for uri, json in task.before.items():
                state = value_at(json, "CompositionStatus", "CompositionState")
                blocks.set_status(self._documents, uri, CompositionState=state)
            if self._fail:
                task.failed = True
            else:
                task.system = self._composition.compose(task.plan)
            self._put(id_)

    def _running(self, id_: str, json: Json) -> SimulatedReply:
        headers = {"Location": f"{SERVICE}/TaskMonitors/{id_}", "Retry-After": "1"}
        return SimulatedReply(202, json, headers)

    def _put(self, id_: str) -> Json:
        task = self._tasks[id_]
        state = "Exception" if task.failed else "Completed" if task.system else "Running"
        uri = f"{SERVICE}/Tasks/{id_}"
        json: Json = {
            "@odata.type": "#Task.v1_7_3.Task",
            "@odata.id": uri,
            "Id": id_,
            "Name": f"Composition {id_}",
            "TaskState": state,
            "TaskStatus": "Critical" if task.failed else "OK",
            "TaskMonitor": f"{SERVICE}/TaskMonitors/{id_}",
        }
        if task.failed:
            failure = error_body("InternalError", "The composition failed.")
            json["Messages"] = failure["error"]["@Message.ExtendedInfo"]
        self._documents.put(uri, json)
        return json

    def _add_task_service(self) -> None:
        self._documents.put(SERVICE, {
            "@odata.type": "#TaskService.v1_2_1.TaskService",
            "@odata.id": SERVICE,
            "Id": "TaskService",
            "Name": "Task Service",
            "ServiceEnabled": True,
            "Tasks": {"@odata.id": f"{SERVICE}/Tasks"},
        })  # fmt: skip
        self._documents.put(f"{SERVICE}/Tasks", {
            "@odata.type": "#TaskCollection.TaskCollection",
            "@odata.id": f"{SERVICE}/Tasks",
            "Name": "Tasks",
            "Members@odata.count": 0,
            "Members": [],
        })  # fmt: skip
        root = self._documents.get(blocks.ROOT) or {}
        self._documents.put(blocks.ROOT, {**root, "Tasks": {"@odata.id": SERVICE}})
