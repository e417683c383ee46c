# SPDX-License-Identifier: Apache-2.0
"""Composes on a DMTF Redfish CompositionService: specific, by manifest, or constrained.

A node has a name of its own, so after a reply that was lost, or that lies, it is found again by
its name among the systems that its blocks and the collection of systems link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import Session, Watch
from valence_sched.drivers.http.retry import LATE_READS, Patience
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.methods import ComposeCapabilities, read_capabilities
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.drivers.redfish.verify import NodeReader, Written, describe_block, status_of
from valence_sched.drivers.refusals import refusal
from valence_sched.drivers.write import SendResult, write
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.composition import CompositionRequest, CompositionResult
from valence_sched.model.custom_resource import DECLARED_SCHEME

PRECONDITION_FAILED = 412


class RedfishComposer:
    """Composes on one Redfish service; ``patience`` makes the pauses of one wait."""

    def __init__(self, session: Session, patience: Callable[[], Patience]) -> None:
        self._session, self._patience = session, patience
        self._known_capabilities: ComposeCapabilities | None = None
        self._reader = NodeReader(session, self._capabilities)
        self._block_reservations = BlockReservations(session, self._reader)
        self._reservation: str | None = None

    def refusal(self, request: CompositionRequest) -> str | None:
        amounts = [grant for grant in request.grants if not grant.uri.startswith(DECLARED_SCHEME)]
        if amounts:
            return (
                f"{amounts[0].amount:g} of {amounts[0].uri} are to be part of the node, "
                "and on Redfish only whole blocks are composed"
            )
        way = methods.choose_method(self._capabilities(), request)
        return way if isinstance(way, str) else None

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        conflicts = ((uri, self._reader.block_conflict(uri)) for uri in request.blocks)
        return [f"{uri}: {why}" for uri, why in conflicts if why]

    def preview(self, request: CompositionRequest) -> str | None:
        """Ask by the Compose action whether the node could be made."""
        target = self._capabilities().compose_target
        if target is None:
            raise PodmError("it offers no Compose action, so it cannot be asked for a preview")
        return refusal(self._session.post(target, methods.manifest(request, "Preview")))

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve by the Compose action where that is the way, else by the flag on each block.

        Where the pod manager chooses the blocks, reserved ones are those it would not choose.
        """
        way = methods.choose_method(self._capabilities(), request)
        if isinstance(way, str) or not way.exact:
            return False
        if way.target != self._capabilities().compose_target:
            return self._block_reservations.reserve(request)
        reply = self._session.post(way.target, methods.manifest(request, "PreviewReserve"))
        if problem := refusal(reply):
            raise PodmError(problem)
        self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
        return self._reservation is not None

    def unreserve(self, request: CompositionRequest) -> None:
        """Take Reserved off the blocks again; a reservation by action ends by itself."""
        way = methods.choose_method(self._capabilities(), request)
        if isinstance(way, str) or not way.exact:
            return
        if way.target != self._capabilities().compose_target:
            self._block_reservations.unreserve(request)

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Make the node in the first way that the pod manager offers, and read it back."""
        way = methods.choose_method(self._capabilities(), request, self._reservation)
        if isinstance(way, str):
            return CompositionResult(state="absent", reason=way)
        outcome, sent = self._compose_once(request, way, watch)
        if self._reservation and outcome.state == "absent" and sent.refused:
            # It may have ended meanwhile, and a refused node is absent.
            self._reservation = None
            return self.compose(request, watch)
        return outcome

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        return self._read_node(request, node, node is None)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """DELETE the node and read back; another node at its URI is left alone."""
        before = self.read_node(request, node)
        if before.node is None or before.state == "unknown":
            return before
        uri = before.node
        watch("decomposing")
        marked = self._block_reservations.reserved_among(before.blocks)
        sent = write(self._session, uri, lambda: self._session.delete(uri), self._patience(), watch)
        outcome = self._wait_until_stable(request, uri, watch)
        if outcome.state == "absent":
            self._block_reservations.clear(marked)
        elif outcome.node and outcome.state != "unknown":
            words = sent.reason or "it answered that the node is gone"
            return replace(outcome, state="left", reason=f"{uri} is still there: {words}")
        return outcome

    def _compose_once(
        self, request: CompositionRequest, way: methods.ComposeMethod, watch: Watch
    ) -> tuple[CompositionResult, SendResult]:
        watch(way.name)
        post = self._session.post
        target, patience = way.target, self._patience()
        before = self._reader.system_uris()
        sent = write(self._session, target, lambda: post(target, way.body), patience, watch)
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason), sent
        written = Written(before, sent.succeeded)
        outcome = self._wait_until_stable(request, sent.node, watch, sent.lost, written)
        if outcome.state == "composed":
            with contextlib.suppress(PodmError):  # they are composed: the flag has done its work
                self._block_reservations.clear_own()
            return outcome, sent
        reason = "; ".join(filter(None, (sent.reason, outcome.reason)))
        if outcome.works or (sent.goes_on and outcome.state == "absent"):
            return replace(outcome, state="unknown", reason=reason, works=True), sent
        return replace(outcome, reason=reason), sent

    def _wait_until_stable(
        self,
        request: CompositionRequest,
        node: str | None,
        watch: Watch,
        lost: bool = False,
        written: Written | None = None,
    ) -> CompositionResult:
        """Read back until nothing changes by itself any more.

        What a lost reply was about may still come to be, so it is looked for some time.
        """
        patience, late = self._patience(), LATE_READS if lost else 0
        outcome = self._read_node(request, node, lost, written)
        while (outcome.works or (late > 0 and outcome.state == "absent")) and patience.pause():
            late -= 1
            watch("reading back")
            outcome = self._read_node(request, node or outcome.node, lost, written)
        return outcome

    def _read_node(
        self,
        request: CompositionRequest,
        node: str | None,
        same_blocks: bool,
        written: Written | None = None,
    ) -> CompositionResult:
        try:
            return self._reader.read_node(request, node, same_blocks=same_blocks, written=written)
        except PodmError as error:
            reason = f"could not be read back: {error}"
            return CompositionResult(state="unknown", node=node, reason=reason)

    def _capabilities(self) -> ComposeCapabilities:
        if self._known_capabilities is None:
            self._known_capabilities = read_capabilities(self._session)
        return self._known_capabilities


class BlockReservations:
    """The ``Reserved`` flags of blocks; only what was set here is cleared, as far as known."""

    def __init__(self, session: Session, back: NodeReader) -> None:
        self._session, self._reader = session, back
        self._reserved: list[str] | None = None

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve every block that one node has to itself, or none; return whether they are.

        Raises:
            ClaimLost: another client has reserved one meanwhile.
            PodmError: the state cannot be read, or the reservation not be undone.
        """
        self._reserved = []
        for block in self._own(request):
            if block.reserved:
                self.unreserve(request)
                raise ClaimLost(f"{block.uri}: {describe_block(block)}")
            if block.reserved is not None:
                self._reserved.append(block.uri)
            if block.reserved is None or not self._set(block, True):
                self.unreserve(request)
                return False
        return bool(self._reserved)

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags set here, or all that another process set; PodmError if one stays."""
        mine = self._reserved
        uris = [block.uri for block in self._own(request)] if mine is None else mine
        stays = [f"{uri}: {why}" for uri in uris if (why := self._clear_flag(uri))]
        if stays:
            raise PodmError(f"may be reserved still: {'; '.join(stays)}")
        self._reserved = []

    def clear_own(self) -> None:
        """Clear the flags that were set here, if any were."""
        if self._reserved:
            self.clear(self._reserved)
            self._reserved = []

    def reserved_among(self, uris: Iterable[str]) -> list[str]:
        """Return those of some blocks that are reserved."""
        blocks = (self._reader.block(uri) for uri in uris)
        return [block.uri for block in blocks if block is not None and block.reserved]

    def clear(self, uris: Iterable[str]) -> None:
        """Take Reserved off blocks, where that can be done."""
        for uri in uris:
            self._clear_flag(uri)

    def _own(self, request: CompositionRequest) -> list[ResourceBlock]:
        """Return the blocks that one node has to itself: a shared block is not reserved."""
        blocks = (self._reader.block(uri) for uri in request.blocks)
        return [block for block in blocks if block and not status_of(block).shareable]

    def _clear_flag(self, uri: str) -> str:
        """Clear the flag; return why it may still be set, empty when it is not."""
        try:
            block = self._reader.block(uri)
        except PodmError as error:
            return str(error)
        if block is None or not block.reserved or self._set(block, False):
            return ""
        return "it does not let go"

    def _set(self, block: ResourceBlock, reserved: bool) -> bool:
        """Set or clear the flag; return whether it stands as wanted.

        Some replace the whole object by what is sent, so the whole of it is sent. Some refuse a
        change by an ETag that is none of theirs: where nothing changed, it is sent without.
        """
        uri, status = block.uri, "CompositionStatus"
        body = {status: dict(block.json[status], Reserved=reserved)}
        try:
            reply = self._session.patch(uri, body, block.json.get("@odata.etag"))
            after = self._reader.block(uri)
            refused = reply.status == PRECONDITION_FAILED
            if refused and after and after.json[status] == block.json[status]:
                self._session.patch(uri, body)
                after = self._reader.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved
