# SPDX-License-Identifier: Apache-2.0
"""Composing on a DMTF Redfish CompositionService: specific, by manifest, or constrained.

A node has a name of its own, so after a reply that was lost, or that lies, it is found again by
its name among the systems that its blocks and the collection of systems tell of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import Watch, Wire
from valence_sched.drivers.http.retry import Patience
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.capabilities import Offered, offered
from valence_sched.drivers.redfish.reservations import Marks
from valence_sched.drivers.redfish.verify import ReadBack
from valence_sched.drivers.refusals import refusal
from valence_sched.drivers.write import Sent, written
from valence_sched.errors import PodmError
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.custom_resource import SCHEME

#: How often a node is looked for after a reply that was lost.
LATE_LOOKS = 8


class RedfishHands:
    """One pod manager that speaks Redfish; ``patience`` makes how long to wait for it."""

    def __init__(self, wire: Wire, patience: Callable[[], Patience]) -> None:
        self._wire, self._patience = wire, patience
        self._offered: Offered | None = None
        self._back = ReadBack(wire, self._offers)
        self._marks = Marks(wire, self._back)
        self._reservation: str | None = None

    def refuses(self, wanted: Wanted) -> str | None:
        """Return why this could not be composed here, whatever is free; None when it could."""
        amounts = [grant for grant in wanted.grants if not grant.uri.startswith(SCHEME)]
        if amounts:
            return (
                f"{amounts[0].amount:g} of {amounts[0].uri} are to be part of the node, "
                "and on Redfish only whole blocks are composed"
            )
        way = methods.choose(self._offers(), wanted)
        return way if isinstance(way, str) else None

    def taken(self, wanted: Wanted) -> Sequence[str]:
        """Return a line for each block that is no longer free."""
        told = ((uri, self._back.in_use(uri)) for uri in wanted.blocks)
        return [f"{uri}: {why}" for uri, why in told if why]

    def preview(self, wanted: Wanted) -> str | None:
        """Ask by the Compose action whether the node could be made."""
        target = self._offers().compose_target
        if target is None:
            raise PodmError("it offers no Compose action, so it cannot be asked for a preview")
        return refusal(self._wire.post(target, methods.manifest(wanted, "Preview")))

    def reserve(self, wanted: Wanted) -> bool:
        """Reserve by the Compose action where that is the way, else by the flag on each block.

        Where the pod manager chooses the blocks, reserved ones are those it would not choose.
        """
        way = methods.choose(self._offers(), wanted)
        if isinstance(way, str) or not way.exact:
            return False
        if way.target != self._offers().compose_target:
            return self._marks.reserve(wanted)
        reply = self._wire.post(way.target, methods.manifest(wanted, "PreviewReserve"))
        if problem := refusal(reply):
            raise PodmError(problem)
        self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
        return self._reservation is not None

    def unreserve(self, wanted: Wanted) -> None:
        """Take Reserved off the blocks again; a reservation by action ends by itself."""
        way = methods.choose(self._offers(), wanted)
        if (
            isinstance(way, methods.Way)
            and way.exact
            and way.target != self._offers().compose_target
        ):
            self._marks.unreserve(wanted)

    def compose(self, wanted: Wanted, watch: Watch) -> Outcome:
        """Make the node in the first way that the pod manager offers, and read it back."""
        way = methods.choose(self._offers(), wanted, self._reservation)
        if isinstance(way, str):
            return Outcome(state="absent", reason=way)
        outcome, sent = self._made(wanted, way, watch)
        if self._reservation and outcome.state == "absent" and sent.refused:
            # It may have ended meanwhile, and what was refused is not there.
            self._reservation = None
            return self.compose(wanted, watch)
        return outcome

    def look(self, wanted: Wanted, node: str | None = None) -> Outcome:
        """Read what there is of a node."""
        return self._look(wanted, node, twins=node is None)

    def remove(self, wanted: Wanted, node: str, watch: Watch) -> Outcome:
        """DELETE the node and read back; what is there by now and is not ours, is left alone."""
        before = self.look(wanted, node)
        if before.node is None or before.state == "unknown":
            return before
        uri = before.node
        watch("decomposing")
        marked = self._marks.among(before.blocks)
        sent = written(self._wire, uri, lambda: self._wire.delete(uri), self._patience(), watch)
        outcome = self._settled(wanted, uri, watch)
        if outcome.state == "absent":
            self._marks.clear(marked)
        elif outcome.node and outcome.state != "unknown":
            words = sent.reason or "it answered that the node is gone"
            return replace(outcome, state="left", reason=f"{uri} is still there: {words}")
        return outcome

    def _made(self, wanted: Wanted, way: methods.Way, watch: Watch) -> tuple[Outcome, Sent]:
        """Write once, and judge by what is there."""
        watch(way.name)
        post = self._wire.post
        sent = written(
            self._wire, way.target, lambda: post(way.target, way.body), self._patience(), watch
        )
        if sent.unsent:
            return Outcome(state="absent", reason=sent.reason), sent
        outcome = self._settled(wanted, sent.node, watch, sent.lost)
        if outcome.state == "composed":
            with contextlib.suppress(PodmError):  # they are composed: the flag has done its work
                self._marks.done()
            return outcome, sent
        reason = "; ".join(filter(None, (sent.reason, outcome.reason)))
        if outcome.works or (sent.goes_on and outcome.state == "absent"):
            return replace(outcome, state="unknown", reason=reason, works=True), sent
        return replace(outcome, reason=reason), sent

    def _settled(
        self, wanted: Wanted, node: str | None, watch: Watch, lost: bool = False
    ) -> Outcome:
        """Read back until nothing changes by itself any more.

        What a lost reply was about may still come to be, so it is looked for some time.
        """
        patience, late = self._patience(), LATE_LOOKS if lost else 0
        outcome = self._look(wanted, node, twins=lost)
        while (outcome.works or (late > 0 and outcome.state == "absent")) and patience.pause():
            late -= 1
            watch("reading back")
            outcome = self._look(wanted, node or outcome.node, twins=lost)
        return outcome

    def _look(self, wanted: Wanted, node: str | None, *, twins: bool) -> Outcome:
        try:
            return self._back.look(wanted, node, twins=twins)
        except PodmError as error:
            return Outcome(state="unknown", node=node, reason=f"could not be read back: {error}")

    def _offers(self) -> Offered:
        """Return what it offers, read once."""
        if self._offered is None:
            self._offered = offered(self._wire)
        return self._offered
