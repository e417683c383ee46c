# SPDX-License-Identifier: Apache-2.0
"""Composing on a DMTF Redfish CompositionService: specific, by manifest, or constrained.

A node has a name of its own, so after a reply that was lost, or that lies, it is found again by
its name among the systems that its blocks and the collection of systems tell of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.drivers import ways
from valence_sched.drivers.hands import Reply, Watch, Wire
from valence_sched.drivers.offered import offered, path
from valence_sched.drivers.patience import Patience
from valence_sched.drivers.read_back import ReadBack, stands, status_of
from valence_sched.drivers.refusals import refusal
from valence_sched.errors import PodmError
from valence_sched.model.composition import Outcome, Wanted

ACCEPTED = 202
#: How often a node is looked for after a reply that was lost.
LATE_LOOKS = 8

_RUNNING = ("New", "Starting", "Running", "Pending", "Stopping", "Suspended", "Service")


class Sent(NamedTuple):
    """What became of a write: the node it names, why it is refused, and whether it ended."""

    node: str | None = None
    reason: str = ""
    lost: bool = False
    goes_on: bool = False


class RedfishHands:
    """One pod manager that speaks Redfish; ``patience`` makes how long to wait for it."""

    def __init__(self, wire: Wire, patience: Callable[[], Patience]) -> None:
        self._wire, self._patience = wire, patience
        self._back = ReadBack(wire)
        self._reservation: str | None = None

    def taken(self, wanted: Wanted) -> Sequence[str]:
        """Return a line for each block that is no longer free."""
        found = []
        for uri in wanted.blocks:
            block = self._back.block(uri)
            if block is None or not status_of(block).slots:
                found.append(f"{uri}: {stands(block)}")
        return found

    def preview(self, wanted: Wanted) -> str | None:
        """Ask by the Compose action whether the node could be made."""
        target = offered(self._wire).compose_target
        if target is None:
            raise PodmError("it offers no Compose action, so it cannot be asked for a preview")
        return refusal(self._wire.post(target, ways.manifest(wanted, "Preview")))

    def reserve(self, wanted: Wanted) -> bool:
        """Reserve by the Compose action where that is the way, else by the flag on each block."""
        there = offered(self._wire)
        way = ways.choose(there, wanted)
        if isinstance(way, ways.Way) and way.target == there.compose_target:
            reply = self._wire.post(way.target, ways.manifest(wanted, "PreviewReserve"))
            self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
            return refusal(reply) is None
        own = self._own(wanted)
        for number, uri in enumerate(own):
            if not self._mark(uri, True):
                for done in own[:number]:
                    self._mark(done, False)
                return False
        return bool(own)

    def unreserve(self, wanted: Wanted) -> None:
        """Take Reserved off every block again; a reservation by action ends by itself."""
        if self._reservation is None:
            for uri in self._own(wanted):
                self._mark(uri, False)

    def compose(self, wanted: Wanted, watch: Watch) -> Outcome:
        """Make the node in the first way that the pod manager offers, and read it back."""
        way = ways.choose(offered(self._wire), wanted, self._reservation)
        if isinstance(way, str):
            return Outcome(state="absent", reason=way)
        watch(way.name)
        sent = self._write(lambda: self._wire.post(way.target, way.body), watch)
        outcome = self._settled(wanted, sent.node, watch, sent.lost)
        if outcome.state == "composed":
            return outcome
        reason = "; ".join(filter(None, (sent.reason, outcome.reason)))
        if outcome.works or (sent.goes_on and outcome.state == "absent"):
            return replace(outcome, state="unknown", reason=reason, works=True)
        return replace(outcome, reason=reason)

    def look(self, wanted: Wanted, node: str | None = None) -> Outcome:
        """Read what there is of a node."""
        try:
            return self._back.look(wanted, node)
        except PodmError as error:
            return Outcome(state="unknown", node=node, reason=f"could not be read back: {error}")

    def remove(self, wanted: Wanted, node: str, watch: Watch) -> Outcome:
        """DELETE the node and read back."""
        watch("decomposing")
        sent = self._write(lambda: self._wire.delete(node), watch)
        outcome = self._settled(wanted, node, watch)
        if outcome.state == "absent":
            self.unreserve(wanted)
        elif outcome.state != "unknown":
            words = sent.reason or "it answered that the node is gone"
            return replace(outcome, state="left", reason=f"{node} is still there: {words}")
        return outcome

    def _write(self, send: Callable[[], Reply], watch: Watch) -> Sent:
        """Send once, and wait for what was only accepted."""
        try:
            reply = send()
        except PodmError as error:
            return Sent(reason=f"no reply: {error}", lost=getattr(error, "sent", True))
        watch("answered")
        try:
            reply = self._finished(reply, watch)
        except PodmError as error:
            return Sent(reason=str(error), goes_on=True)
        goes_on = _runs(reply)
        reason = "its task did not end in time" if goes_on else refusal(reply) or ""
        return Sent(ways.node_of(reply), reason, goes_on=goes_on)

    def _finished(self, reply: Reply, watch: Watch) -> Reply:
        """Wait for what was accepted; return the last reply of its task monitor."""
        if reply.status != ACCEPTED:
            return reply
        monitor = path(reply.headers.get("Location") or (reply.body or {}).get("@odata.id"))
        patience = self._patience()
        while monitor and _runs(reply):
            watch(str((reply.body or {}).get("TaskState") or "accepted").lower())
            if not patience.pause(reply.headers):
                return reply
            reply = self._wire.get(monitor)
        return reply

    def _settled(
        self, wanted: Wanted, node: str | None, watch: Watch, lost: bool = False
    ) -> Outcome:
        """Read back until nothing changes by itself any more.

        What a lost reply was about may still come to be, so it is looked for some time.
        """
        patience, late = self._patience(), LATE_LOOKS if lost else 0
        outcome = self.look(wanted, node)
        while (outcome.works or (late > 0 and outcome.state == "absent")) and patience.pause():
            late -= 1
            watch("reading back")
            outcome = self.look(wanted, node or outcome.node)
        return outcome

    def _own(self, wanted: Wanted) -> list[str]:
        """Return the blocks that one node has to itself: what is shared is not reserved whole."""
        blocks = (self._back.block(uri) for uri in wanted.blocks)
        return [block.uri for block in blocks if block and not status_of(block).shareable]

    def _mark(self, uri: str, reserved: bool) -> bool:
        """Set or clear Reserved, where a block tells it; return whether it stands as wanted.

        Some replace the whole object by what is sent, so the whole of it is sent.
        """
        block = self._back.block(uri)
        if block is None or block.reserved is None:
            return False
        if block.reserved == reserved:
            return not reserved
        whole = dict(block.json["CompositionStatus"], Reserved=reserved)
        try:
            self._wire.patch(uri, {"CompositionStatus": whole}, block.json.get("@odata.etag"))
            after = self._back.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved


def _runs(reply: Reply) -> bool:
    """Return whether a reply is of a task that has not ended."""
    state = (reply.body or {}).get("TaskState")
    return reply.status == ACCEPTED or state in _RUNNING
