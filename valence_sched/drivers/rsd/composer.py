# SPDX-License-Identifier: Apache-2.0
"""Composes on Intel Rack Scale Design: Allocate, Assemble, and wait for the node's state.

Allocate is the claim: there is nothing to reserve, and nothing to ask beforehand. A node that
failed may return by itself while there is time to wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import Session, Watch, get_document
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, text
from valence_sched.drivers.http.exchange import GONE
from valence_sched.drivers.http.retry import LATE_READS, Patience
from valence_sched.drivers.links import ROOT, LinkedDocuments, link_path
from valence_sched.drivers.rsd.reader import read_podm
from valence_sched.drivers.rsd.schema import RackNode, RackRoot, RackSystem
from valence_sched.drivers.write import SendResult, write
from valence_sched.errors import InputError, PodmError
from valence_sched.model.composition import CompositionRequest, CompositionResult
from valence_sched.model.custom_resource import DECLARED_SCHEME
from valence_sched.model.inventory import FullPodm, Node

ALLOCATED, ASSEMBLED = "allocated", "assembled"
TRANSIENT_STATES = ("allocating", "assembling")


class _NodeActions(Resource):
    allocate = Field("Actions/#ComposedNodeCollection.Allocate/target", text, "where bodies go")
    assemble = Field("Actions/#ComposedNode.Assemble/target", text, "makes an allocated node run")
    force = Field("Actions/#ComposedNode.ForceDelete/target", text, "for a DELETE that is stuck")


class _RequestedResource(Resource):
    kind = Field("@odata.type", text, "tells a system from a processor and a drive")
    processor_type = Field("ProcessorType", text, "FPGA, …")


class RsdComposer:
    """One rack's pod manager; ``patience`` makes how long to wait for it."""

    def __init__(self, session: Session, patience: Callable[[], Patience]) -> None:
        self._session, self._patience = session, patience
        self._unread: list[PodmError] = []

    def refusal(self, request: CompositionRequest) -> str | None:
        """Return that it offers no Allocate action, where it offers none."""
        found = None if self._target() else "found no Allocate action on its nodes"
        return found and f"{found}, so it cannot compose {request.name}"

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        return list(_conflicts(self._podm(), request))

    def preview(self, request: CompositionRequest) -> str | None:
        """Raise: there is none."""
        raise PodmError("Rack Scale Design offers no preview: its Allocate takes what it finds")

    def reserve(self, request: CompositionRequest) -> bool:
        """Return False: Allocate is the reservation."""
        return False

    def unreserve(self, request: CompositionRequest) -> None:
        """Do nothing: nothing was reserved."""

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Allocate and assemble the node, wait for it, and read it back."""
        target = self._target()
        if target is None:
            return CompositionResult(state="absent", reason=self.refusal(request) or "")
        body = self._body(request)
        watch("allocating")
        sent = self._post(target, body, watch)
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason)
        outcome = self._find_allocated(request, sent.lost)
        if outcome.node and set(request.blocks) <= set(outcome.blocks):
            sent = self._assemble(outcome.node, watch)
            outcome = self._wait_until_assembled(request, outcome.node, watch, sent.refused)
        if outcome.state == "composed":
            return outcome
        return replace(outcome, reason="; ".join(filter(None, (sent.reason, outcome.reason))))

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        try:
            return self._read_node(request, node)
        except PodmError as error:
            return CompositionResult(
                state="unknown", node=node, reason=f"could not be read back: {error}"
            )

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """DELETE the node, by force where it is stuck, and read back."""
        before = self.read_node(request, node)
        if before.node is None or before.state == "unknown":
            return before
        uri = before.node
        watch("deleting")
        sent = write(self._session, uri, lambda: self._session.delete(uri), self._patience(), watch)
        if self._is_still_there(uri, sent) and (force := self._action(uri, _NodeActions.force)):
            watch("deleting by force")
            sent = self._post(force, {}, watch)
            self._is_still_there(uri, sent)
        outcome = self.read_node(request, uri)
        if outcome.node is None or outcome.state == "unknown":
            return outcome
        words = sent.reason or "it answered that the node is gone"
        return replace(outcome, state="left", works=False, reason=f"{uri} is still there: {words}")

    def _post(self, target: str, body: Json, watch: Watch) -> SendResult:
        post = self._session.post
        return write(self._session, target, lambda: post(target, body), self._patience(), watch)

    def _is_still_there(self, node: str, sent: SendResult) -> bool:
        patience, reads = self._patience(), 1 if sent.refused else LATE_READS
        for _ in range(reads):
            if self._state(node) is None:
                return False
            if reads > 1 and not patience.pause():
                break
        return True

    def _target(self) -> str | None:
        root = RackRoot(ROOT, get_document(self._session, ROOT) or {}, NO_NOTES)
        for link in (*root.rack_nodes, *root.nodes):
            json = get_document(self._session, link_path(link))
            target = link_path(_NodeActions(ROOT, json, NO_NOTES).allocate) if json else None
            if target:
                return target
        return None

    def _body(self, request: CompositionRequest) -> Json:
        body: Json = {"Name": request.name, "Description": request.name}
        for uri in request.blocks:
            part = _RequestedResource(uri, get_document(self._session, uri) or {}, NO_NOTES)
            kind = (part.kind or "").removeprefix("#").partition(".")[0]
            named = {"Resource": {"@odata.id": uri}}
            if kind == "ComputerSystem":
                body.setdefault("Processors", []).extend(self._cpu_requests(uri))
            elif kind == "Processor":
                card = {**named, "ProcessorType": part.processor_type or "FPGA"}
                body.setdefault("Processors", []).append(card)
            else:
                body.setdefault("LocalDrives", []).append(named)
        for grant in request.grants:
            if not grant.uri.startswith(
                DECLARED_SCHEME
            ):  # an operator's own resource is counted only
                size = math.ceil(grant.amount - 1e-6)
                body.setdefault("RemoteDrives", []).append({"CapacityGiB": size})
        return body

    def _cpu_requests(self, system: str) -> Iterator[Json]:
        """Yield the request for one CPU of a system, which keeps the node to that system."""
        service = LinkedDocuments(lambda uri: get_document(self._session, uri), NO_NOTES)
        json = get_document(self._session, system) or {}
        for cpu in service.follow(
            RackSystem(system, json, NO_NOTES).processors, RackSystem.processors.to, system
        ):
            yield {"Resource": {"@odata.id": cpu.uri}}
            return

    def _find_allocated(self, request: CompositionRequest, lost: bool) -> CompositionResult:
        """Look for an allocated node; after a lost reply for some time."""
        patience, late = self._patience(), LATE_READS if lost else 0
        outcome = self.read_node(request)
        while late > 0 and outcome.state == "absent" and patience.pause():
            late -= 1
            outcome = self.read_node(request)
        return outcome

    def _assemble(self, node: str, watch: Watch) -> SendResult:
        if self._state(node) != ALLOCATED:
            return SendResult()
        target = self._action(node, _NodeActions.assemble)
        if target is None:
            return SendResult(reason="it offers no Assemble action")
        watch("assembling")
        return self._post(target, {}, watch)

    def _wait_until_assembled(
        self, request: CompositionRequest, node: str, watch: Watch, refused: bool
    ) -> CompositionResult:
        """Wait until the node is assembled; one that failed may yet return."""
        patience = self._patience()
        while True:
            state = self._state(node)
            ended = state in (None, ASSEMBLED) or (refused and state == ALLOCATED)
            watch(state or "gone")
            if ended or not patience.pause():
                return self.read_node(request, node)

    def _read_node(self, request: CompositionRequest, uri: str | None) -> CompositionResult:
        podm = self._podm()
        ours = [node for node in podm.nodes if _is_ours(node, request, uri)]
        if not ours:
            if self._unread:
                raise self._unread[0]
            return CompositionResult(state="absent", reason="; ".join(_conflicts(podm, request)))
        node = ours[0]
        state = self._state(node.uri)
        missing = [block for block in request.blocks if block not in node.blocks]
        words = f"{node.uri} is there without {', '.join(missing)}" if missing else ""
        if not missing and state != ASSEMBLED:
            words = f"{node.uri} is {(state or 'gone').capitalize()} and no further"
        return CompositionResult(
            state="left" if words else "composed",
            node=node.uri,
            blocks=node.blocks,
            reason=words,
            works=state in TRANSIENT_STATES,
        )

    def _state(self, node: str) -> str | None:
        """Return the state of a node in lower case, None when there is no such node."""
        try:
            json = get_document(self._session, node)
        except PodmError:
            return "unknown"
        return (RackNode(node, json, NO_NOTES).node_state or "unknown").lower() if json else None

    def _action(self, node: str, field: Field[str | None]) -> str | None:
        json = get_document(self._session, node)
        return link_path(field.of(_NodeActions(node, json, NO_NOTES))) if json else None

    def _podm(self) -> FullPodm:
        self._unread = []
        return read_podm(LinkedDocuments(self._get, NO_NOTES), "podm", "rsd")

    def _get(self, uri: str) -> Json | None:
        """Return a document; of one that is bad only the content is left out."""
        reply = self._session.get(uri)
        if reply.status in GONE:
            return None
        if reply.status != 200 or reply.body is None:
            self._unread.append(PodmError(f"{uri}: HTTP {reply.status}, expected a document"))
            raise InputError(uri, "", f"HTTP {reply.status}", "a document")
        return reply.body


def _is_ours(node: Node, request: CompositionRequest, uri: str | None) -> bool:
    """Return whether a node is the one that is meant; its URI may be another's by now."""
    if request.name and node.name == request.name:
        return True
    return node.uri == uri and bool(request.blocks) and set(node.blocks) == set(request.blocks)


def _conflicts(podm: FullPodm, request: CompositionRequest) -> Iterator[str]:
    blocks = {block.uri: block for block in podm.blocks}
    for uri in request.blocks:
        if uri not in blocks:
            yield f"{uri}: found no such block"
        elif not blocks[uri].status.slots:
            yield f"{uri}: found {blocks[uri].status.state}"
