# SPDX-License-Identifier: Apache-2.0
"""Composes on a DMTF Redfish CompositionService: specific, by manifest, or constrained.

A node has a name of its own, so after a reply that was lost, or that lies, it is found again by
its name among the systems that its blocks and the collection of systems link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import (
    PRECONDITION_FAILED,
    PRECONDITION_REQUIRED,
    SendResult,
    Session,
    Watch,
    refusal,
    unread_result,
    write,
)
from valence_sched.drivers.http.exchange import LATE_READS, Patience
from valence_sched.drivers.redfish.amounts import AmountComposer
from valence_sched.drivers.redfish.methods import (
    ComposeCapabilities,
    ComposeMethod,
    ComposeWrite,
    choose_write,
    manifest_body,
    read_capabilities,
)
from valence_sched.drivers.redfish.reader import own_status
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.drivers.redfish.verify import NodeReader, Written, describe_block
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, CompositionResult, NodeState


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
        for block in self._own(request, self._reader.last_block):
            if block.reserved:
                self._release(self._reserved)
                raise ClaimLost(f"{block.uri}: {describe_block(block)}")
            if block.reserved is not None:
                self._reserved.append(block.uri)
            if block.reserved is None or not self._set(block, True):
                self._release(self._reserved)
                return False
        return bool(self._reserved)

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags set here, or all that another process set; PodmError if one stays."""
        mine = self._reserved
        if mine is None:
            mine = [block.uri for block in self._own(request, self._reader.block)]
        self._release(mine)

    def _release(self, uris: Iterable[str]) -> None:
        stays = [f"{uri}: {why}" for uri in uris if (why := self._clear_flag(uri))]
        if stays:
            raise PodmError(f"may be reserved still: {'; '.join(stays)}")
        self._reserved = []

    def clear_own(self) -> None:
        """Clear the flags that were set here, if any were, of blocks that were just read."""
        if self._reserved:
            self.clear(self._reserved)
            self._reserved = []

    def reserved_among(self, uris: Iterable[str]) -> list[str]:
        """Return the blocks that were reserved when they were read last, by any client."""
        blocks = (self._reader.last_block(uri) for uri in uris)
        return [block.uri for block in blocks if block and block.reserved]

    def clear(self, uris: Iterable[str]) -> None:
        """Take Reserved off blocks that were just read, where that can be done."""
        for uri in uris:
            with contextlib.suppress(PodmError):
                block = self._reader.last_block(uri)
                if block is not None and block.reserved:
                    self._set(block, False, verify=False)

    def _own(
        self, request: CompositionRequest, read: Callable[[str], ResourceBlock | None]
    ) -> list[ResourceBlock]:
        """Return the blocks that one node has to itself: a shared block is not reserved."""
        blocks = (read(uri) for uri in request.blocks)
        return [block for block in blocks if block and not own_status(block).shareable]

    def _clear_flag(self, uri: str) -> str:
        """Clear the flag; return why it may still be set, empty when it is not."""
        try:
            block = self._reader.block(uri)
        except PodmError as error:
            return str(error)
        if block is None or not block.reserved or self._set(block, False):
            return ""
        return "it does not let go"

    def _set(self, block: ResourceBlock, reserved: bool, *, verify: bool = True) -> bool:
        """Set or clear the flag; return whether it stands as wanted.

        Some replace the whole object by what is sent, so the whole of it is sent. A change that is
        refused by its ETag is sent once more where nothing changed meanwhile.
        """
        uri, status = block.uri, "CompositionStatus"
        body = {status: dict(block.json[status], Reserved=reserved)}
        try:
            reply = self._session.patch(uri, body)
            if reply.status in (PRECONDITION_FAILED, PRECONDITION_REQUIRED):
                present = self._reader.block(uri)
                if present is None or present.json[status] != block.json[status]:
                    return False
                reply = self._session.patch(uri, body)
            after = self._reader.told_block(uri, reply)
            if after is None and verify:
                after = self._reader.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved


class RedfishComposer:
    """Composes on one Redfish service.

    ``patience`` makes the pauses of one wait; ``methods`` are those of a vendor.
    """

    def __init__(
        self, session: Session, patience: Callable[[], Patience],
        methods: tuple[ComposeMethod, ...] = (),
    ) -> None:  # fmt: skip
        self._session, self._patience, self._methods = session, patience, methods
        self._known_capabilities: ComposeCapabilities | None = None
        self._reader = NodeReader(session, self._capabilities)
        self._block_reservations = BlockReservations(session, self._reader)
        self._amounts = AmountComposer(session, patience)
        self._reservation: str | None = None

    def refusal(self, request: CompositionRequest) -> str | None:
        way = choose_write(self._capabilities(request), request)
        return way if isinstance(way, str) else self._amounts.refusal(request)

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        return [*self._reader.conflicts(request), *self._amounts.conflicts(request)]

    def preview(self, request: CompositionRequest) -> str | None:
        """Ask by the Compose action whether the node could be made."""
        target = read_capabilities(self._session).compose_target
        if target is None:
            raise PodmError("it offers no Compose action to ask")
        return refusal(self._session.post(target, manifest_body(request, "Preview")))

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve by the Compose action where that is the way, else by the flag on each block."""
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str) or not way.exact:
            return False
        if way.target != self._capabilities().compose_target:
            return self._block_reservations.reserve(request)
        reply = self._session.post(way.target, manifest_body(request, "PreviewReserve"))
        if problem := refusal(reply):
            raise PodmError(problem)
        self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
        return self._reservation is not None

    def unreserve(self, request: CompositionRequest) -> None:
        """Take Reserved off the blocks again; a reservation by action ends by itself."""
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str) or not way.exact:
            return
        if way.target != self._capabilities().compose_target:
            self._block_reservations.unreserve(request)

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Make the amounts, then the node; without the node the amounts are deleted again."""
        created = self._amounts.create(request, watch)
        if created.problem:
            outcome = CompositionResult(state="absent", reason=created.problem)
        else:
            outcome = self._compose_node(request, watch)
        if outcome.state == "absent":
            outcome = self._without_amounts(outcome, created.made, watch)
        else:
            outcome = replace(outcome, amounts=created.made)
        return replace(outcome, state="unknown") if created.unknown else outcome

    def _compose_node(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Make the node in the first way that the pod manager offers, and read it back."""
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str):
            return CompositionResult(state="absent", reason=way)
        if self._reservation:
            way = way._replace(body=way.body | {"ReservationId": self._reservation})
        outcome, sent = self._compose_once(request, way, watch)
        if self._reservation and outcome.state == "absent" and sent.refused:
            # It may have ended meanwhile, and a refused node is absent.
            self._reservation = None
            return self._compose_node(request, watch)
        return outcome

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        is_unnamed = node is None
        result = self._reader.read_node(request, node, same_blocks=is_unnamed, confirmed=is_unnamed)
        if result.state == "unknown" or not (request.amounts or request.made_grants):
            return result
        try:
            found = self._amounts.find(request)
            suspects = [] if found.made or result.node else self._amounts.suspects(request)
        except PodmError as error:
            return replace(result, state="unknown", reason=unread_result(error).reason)
        if result.node is None and found.made:
            there = f"{', '.join(it.uri for it in found.made)} is there without its node"
            reason = "; ".join(filter(None, (result.reason, there)))
            return replace(result, state="left", amounts=found.made, reason=reason)
        if suspects:
            doubt = f"{', '.join(suspects)} may be made for it: whose it is cannot be told"
            reason = "; ".join(filter(None, (result.reason, doubt)))
            return replace(result, state="left", reason=reason)
        if result.node is not None and found.problem:
            state: NodeState = "left" if request.amounts else "unknown"
            reason = f"{result.node} is there, and {found.problem}"
            return replace(result, state=state, amounts=found.made, reason=reason)
        return replace(result, amounts=found.made)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """DELETE the node and its amounts, and read back; another node at its URI is left alone."""
        before = self.read_node(request, node or None)
        if before.state == "unknown":
            return before
        if before.node is None:
            amounts = before.amounts
            return self._without_amounts(before, amounts, watch) if amounts else before
        uri = before.node
        watch("decomposing")
        marked = self._block_reservations.reserved_among(before.blocks)
        sent = write(
            self._session, uri, lambda: self._session.delete(uri), self._patience(), watch,
            lambda: self._reader.read_node(request, uri).node == uri,
        )  # fmt: skip
        outcome = self._wait_until_stable(request, uri, watch, deleted=True)
        if outcome.state == "absent":
            self._block_reservations.clear(marked)
            outcome = replace(outcome, freed=self._reader.free_among(request.blocks))
            return self._without_amounts(outcome, before.amounts, watch)
        if outcome.node and outcome.state != "unknown":
            words = sent.reason or "it answered that the node is gone"
            return replace(outcome, state="left", reason=f"{uri} is still there: {words}")
        return outcome

    def _without_amounts(
        self, outcome: CompositionResult, made: tuple[Grant, ...], watch: Watch
    ) -> CompositionResult:
        """Delete what was made for a node that is absent; what stays is left, and named."""
        stays = self._amounts.remove(made, watch)
        if stays:
            reason = "; ".join(filter(None, (outcome.reason, stays)))
            return replace(outcome, state="left", amounts=made, reason=reason)
        return replace(outcome, state="absent", amounts=())

    def _compose_once(
        self, request: CompositionRequest, way: ComposeWrite, watch: Watch
    ) -> tuple[CompositionResult, SendResult]:
        watch(f"composing ({way.name})")
        post = self._session.post
        target, patience = way.target, self._patience()
        before = self._reader.system_uris()

        def is_undone() -> bool:
            """Return whether there is no node, and no other one has a block meanwhile."""
            found = self._reader.read_node(request, None, same_blocks=True, written=Written(before))
            return found.state == "absent" and not found.reason

        sent = write(
            self._session, target, lambda: post(target, way.body), patience, watch, is_undone
        )
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason), sent
        written = Written(before, sent.succeeded)
        outcome = self._wait_until_stable(request, sent.node, watch, sent.lost, written)
        if outcome.state == "composed" and not outcome.works:
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
        *,
        deleted: bool = False,
    ) -> CompositionResult:
        """Read back until nothing changes by itself any more.

        What a lost reply was about may still come to be, and blocks may tell of their node late, so
        it is looked for some time.
        """
        patience, late = self._patience(), LATE_READS

        def read(node: str | None) -> CompositionResult:
            return self._reader.read_node(
                request, node, same_blocks=lost, written=written, confirmed=written is not None,
                deleted=deleted,
            )  # fmt: skip

        outcome = read(node)
        while (outcome.works or (late > 0 and _may_change(outcome, lost))) and patience.pause():
            late -= 1
            watch("reading back")
            outcome = read(node or outcome.node)
        return outcome

    def _capabilities(self, request: CompositionRequest | None = None) -> ComposeCapabilities:
        if self._known_capabilities is None:
            self._known_capabilities = read_capabilities(self._session, request, self._methods)
        return self._known_capabilities


def _may_change(outcome: CompositionResult, lost: bool) -> bool:
    """Return whether a node may still come, or the blocks of one may still say so."""
    unconfirmed = outcome.state == "unknown" and bool(outcome.blocks)
    return unconfirmed or (lost and outcome.state == "absent")
