# SPDX-License-Identifier: Apache-2.0
"""Composing on Intel Rack Scale Design: Allocate, then Assemble, then wait for its states.

Allocate is the claim: there is nothing to reserve, and nothing to ask beforehand. A node that
failed may return by itself while there is time to wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import Watch, Wire
from valence_sched.drivers.fields import Field, Json, Resource, text
from valence_sched.drivers.http.retry import Patience
from valence_sched.drivers.links import ROOT, Service
from valence_sched.drivers.redfish.capabilities import GONE, document, path, unheard
from valence_sched.drivers.rsd.reader import read_podm
from valence_sched.drivers.rsd.schema import ComposedNode, RackRoot, RackSystem
from valence_sched.drivers.write import Sent, written
from valence_sched.errors import InputError, PodmError
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.custom_resource import SCHEME
from valence_sched.model.inventory import FullPodm, Node

ALLOCATED, ASSEMBLED = "allocated", "assembled"
UNDER_WAY = ("allocating", "assembling")
#: How often a node is looked for after a reply that was lost, or after it was deleted.
LATE_LOOKS = 8


class _Actions(Resource):
    allocate = Field("Actions/#ComposedNodeCollection.Allocate/target", text, "where bodies go")
    assemble = Field("Actions/#ComposedNode.Assemble/target", text, "makes an allocated node run")
    force = Field("Actions/#ComposedNode.ForceDelete/target", text, "for a DELETE that is stuck")


class _Part(Resource):
    kind = Field("@odata.type", text, "tells a system from a processor and a drive")
    processor_type = Field("ProcessorType", text, "FPGA, …")


class RsdHands:
    """One rack's pod manager; ``patience`` makes how long to wait for it."""

    def __init__(self, wire: Wire, patience: Callable[[], Patience]) -> None:
        self._wire, self._patience = wire, patience
        self._unread: list[PodmError] = []

    def refuses(self, wanted: Wanted) -> str | None:
        """Return that it offers no Allocate action, where it offers none."""
        found = None if self._target() else "found no Allocate action on its nodes"
        return found and f"{found}, so it cannot compose {wanted.name}"

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
        target = self._target()
        if target is None:
            return Outcome(state="absent", reason=self.refuses(wanted) or "")
        body = self._body(wanted)
        watch("allocating")
        sent = self._written(target, body, watch)
        if sent.unsent:
            return Outcome(state="absent", reason=sent.reason)
        outcome = self._sought(wanted, sent.lost)
        if outcome.node and set(wanted.blocks) <= set(outcome.blocks):
            sent = self._assembled(outcome.node, watch)
            outcome = self._settled(wanted, outcome.node, watch, sent.refused)
        if outcome.state == "composed":
            return outcome
        return replace(outcome, reason="; ".join(filter(None, (sent.reason, outcome.reason))))

    def look(self, wanted: Wanted, node: str | None = None) -> Outcome:
        """Read what there is of a node."""
        try:
            return self._look(wanted, node)
        except PodmError as error:
            return Outcome(state="unknown", node=node, reason=f"could not be read back: {error}")

    def remove(self, wanted: Wanted, node: str, watch: Watch) -> Outcome:
        """DELETE the node, by force where it is stuck, and read back."""
        before = self.look(wanted, node)
        if before.node is None or before.state == "unknown":
            return before
        uri = before.node
        watch("deleting")
        sent = written(self._wire, uri, lambda: self._wire.delete(uri), self._patience(), watch)
        if self._stays(uri, sent) and (force := self._action(uri, _Actions.force)):
            watch("deleting by force")
            sent = self._written(force, {}, watch)
            self._stays(uri, sent)
        outcome = self.look(wanted, uri)
        if outcome.node is None or outcome.state == "unknown":
            return outcome
        words = sent.reason or "it answered that the node is gone"
        return replace(outcome, state="left", works=False, reason=f"{uri} is still there: {words}")

    def _written(self, target: str, body: Json, watch: Watch) -> Sent:
        post = self._wire.post
        return written(self._wire, target, lambda: post(target, body), self._patience(), watch)

    def _stays(self, node: str, sent: Sent) -> bool:
        """Return whether a node is there still, a while after it was deleted."""
        patience, looks = self._patience(), 1 if sent.refused else LATE_LOOKS
        for _ in range(looks):
            if self._state(node) is None:
                return False
            if looks > 1 and not patience.pause():
                break
        return True

    def _target(self) -> str | None:
        """Return where to allocate."""
        root = RackRoot(ROOT, document(self._wire, ROOT) or {}, unheard)
        for link in (*root.rack_nodes, *root.nodes):
            json = document(self._wire, path(link))
            target = path(_Actions(ROOT, json, unheard).allocate) if json else None
            if target:
                return target
        return None

    def _body(self, wanted: Wanted) -> Json:
        """Return a request that names what the node is to be made of."""
        body: Json = {"Name": wanted.name, "Description": wanted.name}
        for uri in wanted.blocks:
            part = _Part(uri, document(self._wire, uri) or {}, unheard)
            kind = (part.kind or "").removeprefix("#").partition(".")[0]
            named = {"Resource": {"@odata.id": uri}}
            if kind == "ComputerSystem":
                body.setdefault("Processors", []).extend(self._pins(uri))
            elif kind == "Processor":
                card = {**named, "ProcessorType": part.processor_type or "FPGA"}
                body.setdefault("Processors", []).append(card)
            else:
                body.setdefault("LocalDrives", []).append(named)
        for grant in wanted.grants:
            if not grant.uri.startswith(SCHEME):  # an operator's own resource is counted only
                size = math.ceil(grant.amount - 1e-6)
                body.setdefault("RemoteDrives", []).append({"CapacityGiB": size})
        return body

    def _pins(self, system: str) -> Iterator[Json]:
        """Yield the request for one CPU of a system, which keeps the node to that system."""
        service = Service(lambda uri: document(self._wire, uri), unheard)
        json = document(self._wire, system) or {}
        for cpu in service.follow(
            RackSystem(system, json, unheard).processors, RackSystem.processors.to, system
        ):
            yield {"Resource": {"@odata.id": cpu.uri}}
            return

    def _sought(self, wanted: Wanted, lost: bool) -> Outcome:
        """Look for an allocated node; after a lost reply for some time."""
        patience, late = self._patience(), LATE_LOOKS if lost else 0
        outcome = self.look(wanted)
        while late > 0 and outcome.state == "absent" and patience.pause():
            late -= 1
            outcome = self.look(wanted)
        return outcome

    def _assembled(self, node: str, watch: Watch) -> Sent:
        """Ask for the assembly of an allocated node; return what became of that."""
        if self._state(node) != ALLOCATED:
            return Sent()
        target = self._action(node, _Actions.assemble)
        if target is None:
            return Sent(reason="it offers no Assemble action")
        watch("assembling")
        return self._written(target, {}, watch)

    def _settled(self, wanted: Wanted, node: str, watch: Watch, refused: bool) -> Outcome:
        """Wait until the node is assembled; one that failed may yet return."""
        patience = self._patience()
        while True:
            state = self._state(node)
            ended = state in (None, ASSEMBLED) or (refused and state == ALLOCATED)
            watch(state or "gone")
            if ended or not patience.pause():
                return self.look(wanted, node)

    def _look(self, wanted: Wanted, uri: str | None) -> Outcome:
        podm = self._podm()
        ours = [node for node in podm.nodes if _is_ours(node, wanted, uri)]
        if not ours:
            if self._unread:
                raise self._unread[0]
            return Outcome(state="absent", reason="; ".join(_taken(podm, wanted)))
        node = ours[0]
        state = self._state(node.uri)
        missing = [block for block in wanted.blocks if block not in node.blocks]
        words = f"{node.uri} is there without {', '.join(missing)}" if missing else ""
        if not missing and state != ASSEMBLED:
            words = f"{node.uri} is {(state or 'gone').capitalize()} and no further"
        return Outcome(
            state="left" if words else "composed",
            node=node.uri,
            blocks=node.blocks,
            reason=words,
            works=state in UNDER_WAY,
        )

    def _state(self, node: str) -> str | None:
        """Return the state of a node in lower case, None when there is no such node."""
        try:
            json = document(self._wire, node)
        except PodmError:
            return "unknown"
        return (ComposedNode(node, json, unheard).node_state or "unknown").lower() if json else None

    def _action(self, node: str, field: Field[str | None]) -> str | None:
        json = document(self._wire, node)
        return path(field.of(_Actions(node, json, unheard))) if json else None

    def _podm(self) -> FullPodm:
        self._unread = []
        return read_podm(Service(self._get, unheard), "podm", "rsd")

    def _get(self, uri: str) -> Json | None:
        """Return a document; one that is bad leaves out only what it tells of."""
        reply = self._wire.get(uri)
        if reply.status in GONE:
            return None
        if reply.status != 200 or reply.body is None:
            self._unread.append(PodmError(f"{uri}: HTTP {reply.status}, expected a document"))
            raise InputError(uri, "", f"HTTP {reply.status}", "a document")
        return reply.body


def _is_ours(node: Node, wanted: Wanted, uri: str | None) -> bool:
    """Return whether a node is the one that is meant; its URI may be another's by now."""
    if wanted.name and node.name == wanted.name:
        return True
    return node.uri == uri and bool(wanted.blocks) and set(node.blocks) == set(wanted.blocks)


def _taken(podm: FullPodm, wanted: Wanted) -> Iterator[str]:
    blocks = {block.uri: block for block in podm.blocks}
    for uri in wanted.blocks:
        if uri not in blocks:
            yield f"{uri}: found no such block"
        elif not blocks[uri].status.slots:
            yield f"{uri}: found {blocks[uri].status.state}"
