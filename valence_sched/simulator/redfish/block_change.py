# SPDX-License-Identifier: Apache-2.0
"""Changes of the blocks of systems, by PATCH or by an action: at once, late, or by a task."""

import functools
from collections.abc import Callable, Sequence

from valence_sched.simulator.redfish.composition import Composition, named_blocks
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import HttpReply, Json, RequestRefused
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.services import Tasks

VERBS = ("AddResourceBlock", "RemoveResourceBlock")
#: The answer to a request whose connection is cut.
CUT = HttpReply(0)


class BlockChanges:
    """The changes of one pod manager, with its faults."""

    def __init__(
        self, composition: Composition, tasks: Tasks, faults: Faults, clock: Callable[[], float]
    ) -> None:
        self._composition, self._tasks, self._faults = composition, tasks, faults
        self._documents, self._clock = composition.documents, clock
        self._late: list[tuple[float, Callable[[], str]]] = []

    def patch(self, system: str, body: Json, client: str) -> HttpReply | None:
        """Replace the blocks of a system; return None if the rest of the body remains."""
        wanted = named_blocks(docs.value_at(body, "Links", "ResourceBlocks"))
        reply = self._change(system, wanted, client)
        if reply is None and "patch-replaces" in self._faults:
            links = docs.object_of(self._documents.get(system), "Links")
            self._documents.update(system, Links={"ResourceBlocks": links["ResourceBlocks"]})
        return reply

    def act(self, system: str, verb: str, body: Json, client: str) -> HttpReply:
        """Carry out an action of a system that advertises it."""
        json = self._documents.get(system)
        if docs.value_at(json, "Actions", f"#ComputerSystem.{verb}") is None:
            return docs.not_found(f"{system}/Actions/ComputerSystem.{verb}")
        had, named = (
            docs.uris_at(json, "Links", "ResourceBlocks"),
            docs.uris(body.get("ResourceBlock")),
        )
        is_removal = verb == "RemoveResourceBlock"
        if not named or (is_removal and named[0] not in had):
            text = f"ResourceBlock is not a resource block that {verb} applies to."
            raise RequestRefused(400, "ActionParameterValueError", text, "ResourceBlock", verb)
        for parameter, uri in (("ComputerSystemETag", system), ("ResourceBlockETag", named[0])):
            if body.get(parameter) not in (None, self._documents.etag(uri)):
                raise RequestRefused(412, "PreconditionFailed", f"{uri} has changed.")
        wanted = [it for it in had if it not in named] if is_removal else [*had, *named]
        return self._change(system, list(dict.fromkeys(wanted)), client) or HttpReply(204)

    def tick(self) -> None:
        due = [run for due_s, run in self._late if due_s <= self._clock()]
        self._late = [it for it in self._late if it[1] not in due]
        for run in due:
            run()

    def _change(self, system: str, wanted: Sequence[str], client: str) -> HttpReply | None:
        """Change the blocks; return the answer of a fault or a task, None for the usual answer."""
        json, faults = self._documents.get(system), self._faults
        had = docs.uris_at(json, "Links", "ResourceBlocks")
        for block in faults.once("change-race"):
            uris = (uri for uri in self._documents if uri.endswith(f"/{block.rpartition('/')[2]}"))
            self._apply(system, [*had, *list(uris)[:1]])
            raise RequestRefused(412, "PreconditionFailed", f"{system} has changed.")
        added = [block for block in wanted if block not in had]
        if "change-off" in faults and docs.value_at(json, "PowerState") != "Off":
            text = f"{system} must be off to change its resource blocks."
            raise RequestRefused(409, "ResourceInUse", text)
        if added and (code := faults.number("full-ports")) is not None:
            text = f"No port of {system} is free for {added[0]}."
            raise RequestRefused(code, "ResourceExhaustion", text, system)
        if "fixed-hosts" in faults:
            self._composition.check_host_change(system, wanted)
        else:
            self._composition.check_change(system, wanted, client)
        if "empty-change" in faults:
            return HttpReply(204)
        for _ in faults.once("half-change"):
            gone = [block for block in had if block not in wanted]
            some = [*added, *gone][: len(added + gone) // 2]
            self._apply(system, [it for it in (*had, *some) if it not in gone or it not in some])
            return CUT
        run = functools.partial(self._apply, system, wanted)
        if (late_ms := faults.number("late-change")) is not None:
            self._late.append((self._clock() + late_ms / 1000, run))
            return HttpReply(204)
        if (slow_ms := faults.number("slow-change")) is not None:
            blocks = () if "fixed-hosts" in faults else added
            return self._tasks.start(run, blocks, duration_s=slow_ms / 1000)
        run()
        return None

    def _apply(self, system: str, wanted: Sequence[str]) -> str:
        if "fixed-hosts" in self._faults:
            self._composition.change_host(system, wanted)
        else:
            self._composition.change(system, wanted)
        return system
