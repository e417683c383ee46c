# SPDX-License-Identifier: Apache-2.0
"""Composing on Intel Rack Scale Design: Allocate, then Assemble, then wait for its states.

Allocate is the claim: there is nothing to reserve, and nothing to ask beforehand. A node that
failed may return by itself while there is time to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers.fields import Field, Json, Resource, text
from valence_sched.drivers.hands import Reply, Watch, Wire
from valence_sched.drivers.links import ROOT, Service
from valence_sched.drivers.offered import document, path, unheard
from valence_sched.drivers.patience import Patience
from valence_sched.drivers.refusals import refusal
from valence_sched.drivers.rsd import read_podm
from valence_sched.drivers.rsd_resources import ComposedNode, RackRoot, RackSystem
from valence_sched.errors import PodmError
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.inventory import FullPodm

BYTES_PER_GIB = 1 << 30
ALLOCATED, ASSEMBLED, FAILED = "allocated", "assembled", "failed"
MAX_PAGES = 1000


class _Actions(Resource):
    allocate = Field("Actions/#ComposedNodeCollection.Allocate/target", text, "where bodies go")
    assemble = Field("Actions/#ComposedNode.Assemble/target", text, "makes an allocated node run")
    force = Field("Actions/#ComposedNode.ForceDelete/target", text, "for a DELETE that is stuck")


class RsdHands:
    """One rack's pod manager; ``patience`` makes how long to wait for it."""

    def __init__(self, wire: Wire, patience: Callable[[], Patience]) -> None:
        self._wire, self._patience = wire, patience

    def taken(self, wanted: Wanted) -> Sequence[str]:
        """Return a line for each block that is no longer free."""
        return list(_taken(self._podm(), wanted))

    def preview(self, wanted: Wanted) -> str | None:
        """Raise: there is none."""
        raise PodmError("Rack Scale Design offers no preview: its Allocate takes what it finds")

    def reserve(self, wanted: Wanted) -> bool:
        """Return False: Allocate is the reservation."""
        return False

    def unreserve(self, wanted: Wanted) -> None:
        """Do nothing: nothing was reserved."""

    def compose(self, wanted: Wanted, watch: Watch) -> Outcome:
        """Allocate and assemble the node, wait for it, and read it back."""
        target, body = self._allocation(wanted)
        watch("allocating")
        reason = self._write(lambda: self._wire.post(target, body))
        outcome = self.look(wanted)
        if outcome.node and outcome.state == "composed":
            reason = self._assembled(outcome.node, watch) or reason
            outcome = self._settled(wanted, outcome.node, watch)
        if outcome.state == "composed":
            return outcome
        return replace(outcome, reason="; ".join(filter(None, (reason, outcome.reason))))

    def look(self, wanted: Wanted, node: str | None = None) -> Outcome:
        """Read what there is of a node."""
        try:
            return self._look(wanted, node)
        except PodmError as error:
            return Outcome(state="unknown", node=node, reason=f"could not be read back: {error}")

    def remove(self, wanted: Wanted, node: str, watch: Watch) -> Outcome:
        """DELETE the node, by force where it is stuck, and read back."""
        watch("deleting")
        reason = self._write(lambda: self._wire.delete(node))
        outcome = self.look(wanted, node)
        force = self._action(node, _Actions.force) if reason and outcome.node else None
        if force:
            watch("deleting by force")
            reason = self._write(lambda: self._wire.post(force, {}))
            outcome = self.look(wanted, node)
        if outcome.node is None:
            return outcome
        words = reason or "it answered that the node is gone"
        return replace(outcome, state="left", reason=f"{node} is still there: {words}")

    def _allocation(self, wanted: Wanted) -> tuple[str, Json]:
        """Return where to allocate, and a body that names what the node is to be made of."""
        for nodes in self._collections():
            target = path(_Actions(ROOT, nodes, unheard).allocate)
            if target:
                return target, self._body(wanted)
        raise PodmError("found no Allocate action on its nodes, so it cannot compose")

    def _body(self, wanted: Wanted) -> Json:
        body: Json = {"Name": wanted.name, "Description": wanted.name}
        podm = self._podm()
        kinds = {block.uri: block.type for block in podm.blocks}
        for uri in wanted.blocks:
            if "ComputerSystem" in kinds.get(uri, ()):
                body.setdefault("Processors", []).extend(self._pins(uri))
            elif "Processor" in kinds.get(uri, ()):
                card = {"Resource": {"@odata.id": uri}, "ProcessorType": "FPGA"}
                body.setdefault("Processors", []).append(card)
            else:
                body.setdefault("LocalDrives", []).append({"Resource": {"@odata.id": uri}})
        for grant in wanted.grants:
            size = round(grant.amount)
            body.setdefault("RemoteDrives", []).append({"CapacityGiB": size})
        return body

    def _pins(self, system: str) -> Iterator[Json]:
        """Yield the request for one CPU of a system, which keeps the node to that system."""
        service = Service(self._get, unheard)
        json = document(self._wire, system) or {}
        for cpu in service.follow(
            RackSystem(system, json, unheard).processors, RackSystem.processors.to, system
        ):
            yield {"Resource": {"@odata.id": cpu.uri}}
            return

    def _assembled(self, node: str, watch: Watch) -> str:
        """Ask for the assembly of an allocated node; return why it is refused, if it is."""
        if (self._state(node) or "").casefold() != ALLOCATED:
            return ""
        target = self._action(node, _Actions.assemble)
        if target is None:
            return "it offers no Assemble action"
        watch("assembling")
        return self._write(lambda: self._wire.post(target, {}))

    def _settled(self, wanted: Wanted, node: str, watch: Watch) -> Outcome:
        """Wait until the node is assembled; one that failed may yet return."""
        patience = self._patience()
        while True:
            outcome, state = self.look(wanted, node), self._state(node)
            if outcome.node is None or (state or "").casefold() == ASSEMBLED:
                return outcome
            watch((state or "unknown").lower())
            if not patience.pause():
                failed = (state or "").casefold() == FAILED
                return replace(
                    outcome,
                    state="left" if failed else "unknown",
                    reason=f"{node} is {state} and no further",
                    works=not failed,
                )

    def _look(self, wanted: Wanted, uri: str | None) -> Outcome:
        podm = self._podm()
        ours = [node for node in podm.nodes if node.uri == uri or node.name == wanted.name]
        if not ours:
            reason = "; ".join(_taken(podm, wanted))
            return Outcome(state="absent", reason=reason)
        node = ours[0]
        missing = [block for block in wanted.blocks if block not in node.blocks]
        words = f"{node.uri} is there without {', '.join(missing)}" if missing else ""
        return Outcome(
            state="left" if missing else "composed", node=node.uri, blocks=node.blocks, reason=words
        )

    def _state(self, node: str) -> str | None:
        json = document(self._wire, node)
        return ComposedNode(node, json, unheard).node_state if json else None

    def _action(self, node: str, field: Field[str | None]) -> str | None:
        json = document(self._wire, node)
        return path(field.of(_Actions(node, json, unheard))) if json else None

    def _collections(self) -> Iterator[Json]:
        root = RackRoot(ROOT, document(self._wire, ROOT) or {}, unheard)
        for link in (*root.rack_nodes, *root.nodes):
            json = document(self._wire, path(link))
            if json is not None:
                yield json

    def _podm(self) -> FullPodm:
        return read_podm(Service(self._get, unheard), "podm", "rsd")

    def _get(self, uri: str) -> Json | None:
        return document(self._wire, uri)

    def _write(self, send: Callable[[], Reply]) -> str:
        """Send once; return why it is refused or lost, empty when it is neither."""
        try:
            return refusal(send()) or ""
        except PodmError as error:
            return f"no reply: {error}"


def _taken(podm: FullPodm, wanted: Wanted) -> Iterator[str]:
    blocks = {block.uri: block for block in podm.blocks}
    for uri in wanted.blocks:
        if uri not in blocks:
            yield f"{uri}: found no such block"
        elif not blocks[uri].status.slots:
            yield f"{uri}: found {blocks[uri].status.state}"
