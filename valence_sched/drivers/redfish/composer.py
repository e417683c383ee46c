# SPDX-License-Identifier: Apache-2.0
"""Composes on a DMTF Redfish CompositionService: specific, manifest or constrained."""

import contextlib
import functools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.drivers import actions, composer
from valence_sched.drivers.composer import AmountChange, Change, SendResult, Session, Uris, Watch
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import GONE, LATE_READS, MakePatience
from valence_sched.drivers.links import ROOT, fold_uri
from valence_sched.drivers.redfish import hot_plug, methods
from valence_sched.drivers.redfish.amounts import AmountComposer
from valence_sched.drivers.redfish.change import BlockChanger
from valence_sched.drivers.redfish.describe import own_status
from valence_sched.drivers.redfish.fabric import HostZones
from valence_sched.drivers.redfish.methods import ComposeWrite, RemainingChange, choose_write
from valence_sched.drivers.redfish.placed import PlacedHost, PlacedNodes
from valence_sched.drivers.redfish.schema import ListedSystem, ResourceBlock, ServiceRoot
from valence_sched.drivers.redfish.verify import NodeReader, Written, describe_block, is_composing
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant, NodeState


class BlockReservations:
    """The ``Reserved`` flags of blocks; a flag is cleared only if this client has set it."""

    def __init__(self, session: Session, reader: NodeReader, patience: MakePatience) -> None:
        self._session, self._reader, self._patience = session, reader, patience
        self._reserved: list[str] | None = None

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve all unshared blocks and return True; if one fails, undo it and return False."""
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
        """Clear the flags of a reservation by any of our processes; PodmError if a flag stays."""
        mine = self._reserved
        if mine is None:
            mine = [block.uri for block in self._own(request, self._reader.block)]
        self._release(mine)

    def _release(self, uris: Iterable[str]) -> None:
        stays = []
        for uri in uris:
            try:
                block = self._reader.block(uri)
                if block is not None and block.reserved and not self._set(block, False):
                    stays.append(f"{uri}: the flag stays set")
            except PodmError as error:
                stays.append(f"{uri}: {error}")
        if stays:
            raise PodmError(f"may still be reserved: {'; '.join(stays)}")
        self._reserved = []

    def clear_own(self) -> None:
        if self._reserved:
            self.clear(self._reserved)
            self._reserved = []

    def clear(self, uris: Iterable[str]) -> None:
        for uri in uris:
            with contextlib.suppress(PodmError):
                block = self._reader.last_block(uri)
                if block is not None and block.reserved:
                    self._set(block, False, verify=False)

    def _own(
        self, request: CompositionRequest, read: Callable[[str], ResourceBlock | None]
    ) -> list[ResourceBlock]:
        blocks = (read(uri) for uri in request.blocks)
        return [block for block in blocks if block and not own_status(block).shareable]

    def _set(self, block: ResourceBlock, reserved: bool, *, verify: bool = True) -> bool:
        """Set or clear the flag; retry once after a refused ETag. Return whether it succeeded."""
        uri, status = block.uri, "CompositionStatus"
        # Some services replace the whole object, so all of it is sent.
        body = {status: dict(block.json[status], Reserved=reserved)}
        try:
            reply = self._patch(uri, body)
            if reply.status in (composer.PRECONDITION_FAILED, composer.PRECONDITION_REQUIRED):
                present = self._reader.block(uri)
                if present is None or present.json.get(status) != block.json[status]:
                    return False
                reply = self._patch(uri, body)
            after = self._reader.block_of_reply(uri, reply)
            if after is None and verify:
                after = self._reader.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved

    def _patch(self, uri: str, body: Json) -> composer.Reply:
        sent = self._session.patch(uri, body)
        return composer.wait_for_task(self._session, uri, sent, self._patience())[0]


class RedfishNode:
    """The blocks of a ComputerSystem, as its list of resource blocks shows them."""

    def __init__(
        self, session: Session, reader: NodeReader, own: tuple[methods.ChangeMethod, ...] = ()
    ) -> None:
        self._session, self._reader = session, reader
        host = PlacedHost(session, HostZones(session))
        self._ways = (*own, *methods.CHANGE_METHODS, host.by_action, host.by_list)
        self._known: dict[str, tuple[str, ...]] = {}

    def read(self, node: str, attach: Uris, detach: Uris) -> RemainingChange:
        system = self._reader.system(node)
        if not system.blocks and node not in self._known:
            self._known[node] = self._reader.present_blocks(system, self._reader.block_uris())
        known = dict.fromkeys((*self._known.get(node, ()), *attach))
        present = self._reader.present_blocks(system, known)
        return methods.remaining_change(self._session, node, system.json, present, attach, detach)

    def refusal(self, change: RemainingChange) -> Change | None:
        # Not read again: the ETag of a PATCH is that of the last reading.
        system, present = ListedSystem(change.node, change.json, NO_NOTES), change.present
        fixed = self._reader.fixed_blocks(system, change.detach, change.attach)
        if fixed:
            why = f"{', '.join(fixed)} cannot be detached: part of the host {change.node}"
            return Change(present, why)
        for uri in change.attach:
            if refused := self._reader.block_conflict(uri, change.node):
                conflicts = self.conflict(change.node, uri) is not None
                return Change(present, f"{uri}: {refused}", conflicts=conflicts)
        is_hidden = change.attach and not self._reader.shows_use(system)
        users = list(self._reader.other_users(change.node, change.attach)) if is_hidden else []
        return Change(present, "; ".join(users), conflicts=True) if users else None

    def write(self, change: RemainingChange, closed: Container[str]) -> ComposeWrite | str:
        return methods.choose_change(change, self._ways, closed)

    def conflict(self, node: str, block: str) -> str | None:
        return self._reader.user_conflict(block, node)

    def is_composing(self, block: str) -> bool:
        return is_composing(self._reader.block(block))


class RedfishComposer:
    """Composes on one Redfish service; ``own`` and ``own_changes`` are methods of its vendor."""

    def __init__(
        self,
        session: Session,
        patience: MakePatience,
        own: tuple[methods.ComposeMethod, ...] = (),
        own_changes: tuple[methods.ChangeMethod, ...] = (),
    ) -> None:
        self._session, self._patience, self._methods = session, patience, own
        self._known_capabilities: methods.ComposeCapabilities | None = None
        self._reader = NodeReader(session, self._capabilities)
        self._block_reservations = BlockReservations(session, self._reader, patience)
        self._amounts = AmountComposer(session, patience)
        system = RedfishNode(session, self._reader, own_changes)
        self._changer = BlockChanger(session, patience, system)
        zones = HostZones(session)
        self._placed_changer = BlockChanger(session, patience, PlacedHost(session, zones))
        self._placed = PlacedNodes(session, zones, self._placed_changer.change)
        self._reservation: str | None = None

    def refusal(self, request: CompositionRequest) -> str | None:
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str):
            return way
        refused = self._amounts.refusal(request)
        if refused is None and way.body is None:  # the node is known: a host
            try:
                self._amounts.paths(request, way.target)
            except PodmError as error:
                return str(error)
        return refused

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        amounts = self._amounts.conflicts(request)
        if (host := self._placed_host(request)) is None:
            return [*self._reader.conflicts(request), *amounts]
        return [*self._placed.conflicts(host, request), *amounts]

    def previews(self) -> bool:
        return methods.read_capabilities(self._session).compose_target is not None

    def preview(self, request: CompositionRequest) -> str | None:
        if (target := methods.read_capabilities(self._session).compose_target) is None:
            raise PodmError("the service has no Compose action for a preview")
        return composer.refusal(self._ask(target, request, "Preview"))

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve by the Compose action if it composes the node, else by the flag on each block."""
        if (target := self._exact_target(request)) is None:
            return False
        if target != self._capabilities().compose_target:
            return self._block_reservations.reserve(request)
        reply = self._ask(target, request, "PreviewReserve")
        if problem := composer.refusal(reply):
            raise PodmError(problem)
        self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
        return self._reservation is not None

    def _ask(self, target: str, request: CompositionRequest, kind: str) -> composer.Reply:
        """POST to the Compose action and wait for its task; PodmError without the result of it."""
        session, patience = self._session, self._patience()
        sent = session.post(target, methods.manifest_body(request, kind))
        last, goes_on = composer.wait_for_task(session, target, sent, patience)
        if goes_on or (sent.status == composer.ACCEPTED and last.status in GONE):
            raise PodmError(f"{target}: found no result of the accepted {kind}")
        return last

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags; a reservation by action expires."""
        if self._exact_target(request) not in (None, self._capabilities().compose_target):
            self._block_reservations.unreserve(request)

    def _exact_target(self, request: CompositionRequest) -> str | None:
        way = choose_write(self._capabilities(request), request)
        return None if isinstance(way, str) or not (way.exact and way.body) else way.target

    def _placed_host(self, request: CompositionRequest) -> str | None:
        """Return the host on which the node of a request is placed, None if it is composed."""
        way = choose_write(self._capabilities(request), request)
        return None if isinstance(way, str) or way.body is not None else way.target

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Create the amounts, then the node, then connect them; if the node fails, delete them.

        A node whose amounts are not connected is ``left``. ClaimLost if another client has taken a
        block; all writes are undone.
        """
        created, lost = self._amounts.create(request, watch), None
        if created.problem:
            outcome = CompositionResult(state="absent", reason=created.problem)
        else:
            try:
                outcome = self._compose_node(request, watch)
            except ClaimLost as error:
                lost, outcome = error, CompositionResult(state="absent", reason=str(error))
                self._block_reservations.clear_own()
        if outcome.state == "absent":
            outcome = self._without_amounts(outcome, created.made, watch)
            if lost and outcome.state == "absent":
                raise lost
        else:
            outcome = replace(outcome, amounts=created.made)
        if outcome.state == "composed" and outcome.node is not None:
            outcome = self._connected(request, outcome, outcome.node, watch)
        return replace(outcome, state="unknown") if created.unknown else outcome

    def _connected(
        self, request: CompositionRequest, composed: CompositionResult, node: str, watch: Watch
    ) -> CompositionResult:
        """Connect the amounts of a composed node, where a fabric does so."""
        try:
            paths = self._amounts.paths(request, node)
        except PodmError as error:
            return replace(composed, state="left", reason=str(error))
        failed = self._amounts.connect(request, paths, composed.amounts, watch)
        if not failed.problem:
            return composed
        state: NodeState = "unknown" if failed.works else "left"
        return replace(composed, state=state, reason=failed.problem)

    def _compose_node(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str):
            return CompositionResult(state="absent", reason=way)
        if way.body is None:
            return self._placed.compose(way.target, request, watch)
        if self._reservation:
            way = way._replace(body=way.body | {"ReservationId": self._reservation})
        outcome, sent = self._compose_once(request, way, watch)
        if self._reservation and outcome.state == "absent" and sent.refused:
            self._reservation = None  # it may have expired
            return self._compose_node(request, watch)
        return outcome

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        result = self._read_node(request, node)
        if result.state == "unknown" or not (request.amounts or request.made_grants):
            return result
        try:
            found = self._amounts.find(request)
            suspects = [] if found.made or result.node else self._amounts.suspects(request)
            node_uri = result.node
            loose = self._amounts.loose(request, node_uri, found.made) if node_uri else ""
        except PodmError as error:
            return replace(result, state="unknown", reason=composer.unread_result(error).reason)
        if (result.node is None and found.made) or suspects:
            why = f"{', '.join(it.uri for it in found.made)} exists without its node"
            if suspects:
                why = f"{', '.join(suspects)} may belong to the node: the owner is unknown"
            reason = "; ".join(filter(None, (result.reason, why)))
            return replace(result, state="left", amounts=found.made, reason=reason)
        if result.node is not None and found.problem:
            result = replace(result, reason=f"{result.node} exists, but {found.problem}")
            state = "left" if request.amounts else "unknown"
            return replace(result, state=state, amounts=found.made)
        if result.node is not None and loose:
            return replace(result, state="left", reason=loose, amounts=found.made)
        return replace(result, amounts=found.made)

    def _read_node(self, request: CompositionRequest, node: str | None) -> CompositionResult:
        try:
            if (host := self._placed_host(request)) is not None:
                return self._placed.read_node(host, request, node)
        except PodmError as error:
            return composer.unread_result(error, node)
        is_unnamed = node is None
        return self._reader.read_node(request, node, same_blocks=is_unnamed, confirmed=is_unnamed)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        before = self.read_node(request, node or None)
        if before.state == "unknown":
            return before
        if before.node is None:
            amounts = before.amounts
            return self._without_amounts(before, amounts, watch) if amounts else before
        uri = before.node
        watch("decomposing")
        if self._placed_host(request) is not None:
            gone = self._placed.remove(uri, request, watch)
            is_gone = gone.state == "absent"
            return self._without_amounts(gone, before.amounts, watch) if is_gone else gone
        last = map(self._reader.last_block, before.blocks)
        marked = [block.uri for block in last if block and block.reserved]

        def is_undone() -> bool:
            return self._reader.read_node(request, uri).node == uri

        host = self._reader.host(uri)
        ours = {fold_uri(it) for it in request.blocks}
        if foreign := [it for it in host.attached if fold_uri(it) not in ours] if host else []:
            why = f"{uri} has {', '.join(foreign)}, attached by another client: detach it first"
            return replace(before, state="left", reason=why)
        body = methods.links_body(host.own) if host else None
        patience = self._patience()
        sent = composer.write(self._session, uri, body, patience, watch, is_undone, changes=True)
        outcome = self._wait_until_stable(request, uri, watch, sent, deleted=True)
        if outcome.state == "absent":
            self._block_reservations.clear(marked)
            read = map(self._reader.last_block, request.blocks)
            freed = tuple(block.uri for block in read if block and own_status(block).slots)
            return self._without_amounts(replace(outcome, freed=freed), before.amounts, watch)
        if outcome.node and outcome.state != "unknown":
            words = sent.reason or "the service reported its deletion"
            stays = "still has the blocks of the node" if host else "still exists"
            return replace(outcome, state="left", reason=f"{uri} {stays}: {words}")
        return outcome

    def change(self, node: str, attach: Uris, detach: Uris, watch: Watch) -> Change:
        return self._node_changer.change(node, attach, detach, watch)

    def change_refusal(self, node: str, attach: Uris, detach: Uris) -> str | None:
        return self._node_changer.refusal(node, attach, detach)

    @property
    def _node_changer(self) -> BlockChanger:
        return self._placed_changer if self._places else self._changer

    def amounts_refusal(self, request: CompositionRequest, node: str) -> str | None:
        return self._amounts.attach_refusal(request, node)

    def attach_amounts(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        return self._amounts.attach(request, node, watch)

    def detach_amounts(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        return self._amounts.detach(request, node, watch)

    def read_amounts(
        self, request: CompositionRequest, node: str, *, new: bool = False
    ) -> AmountChange:
        return self._amounts.read(request, node, new=new)

    @functools.cached_property
    def _places(self) -> bool:
        """Whether the service places nodes on its hosts; reads only its root."""
        return bool(composer.read_resource(self._session, ServiceRoot, ROOT).hosts)

    def is_on(self, node: str) -> bool | None:
        return actions.is_on(self._session, node)

    def set_power(self, node: str, on: bool, watch: Watch) -> None:
        actions.set_power(self._session, node, on, self._patience, watch)

    def node_blocks(self, node: str) -> Sequence[str] | None:
        return self._placed.blocks(node) if self._places else self._changer.present(node)

    def is_hot_removable(self, block: str) -> bool:
        return hot_plug.is_hot_removable(self._session, block)

    def _without_amounts(
        self, outcome: CompositionResult, made: tuple[Grant, ...], watch: Watch
    ) -> CompositionResult:
        if stays := self._amounts.remove(made, watch):
            reason = "; ".join(filter(None, (outcome.reason, stays)))
            return replace(outcome, state="left", amounts=made, reason=reason)
        return replace(outcome, state="absent", amounts=())

    def _compose_once(
        self, request: CompositionRequest, way: ComposeWrite, watch: Watch
    ) -> tuple[CompositionResult, SendResult]:
        watch(f"composing ({way.name})")
        target, patience = way.target, self._patience()
        before = self._reader.system_uris()
        if way.on_host and not self._reader.is_idle_host(target):
            raise ClaimLost(f"{target}: found a host with attached blocks")

        def is_undone() -> bool:
            if way.on_host:
                return self._reader.is_idle_host(target)
            found = self._reader.read_node(request, None, same_blocks=True, written=Written(before))
            return found.state == "absent" and not found.reason  # no other node has a block

        sent = composer.write(
            self._session, target, way.body, patience, watch, is_undone, changes=way.on_host
        )
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason), sent
        written = Written(before, sent.succeeded)
        node = target if way.on_host else sent.node
        outcome = self._wait_until_stable(request, node, watch, sent, written)
        if way.on_host and outcome.state == "absent":
            if sent.conflicts:
                raise ClaimLost(f"{target}: {sent.reason.rstrip('.')}")
            if sent.succeeded:
                why = f"the service reported success, but attached no block to {target}"
                return replace(outcome, state="unknown", reason=why), sent
        if outcome.state == "composed" and not outcome.works:
            self._block_reservations.clear_own()  # a composed block needs no flag
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
        sent: SendResult,
        written: Written | None = None,
        *,
        deleted: bool = False,
    ) -> CompositionResult:
        """Read back until the state is stable: writes and links may take effect late."""
        patience, late, at = self._patience(), LATE_READS, node
        same = sent.lost and not deleted
        options: Any = {"same_blocks": same, "confirmed": written is not None, "deleted": deleted}
        before = ("composed", "left") if deleted else ("absent",)
        while True:
            outcome = self._reader.read_node(request, at, written=written, **options)
            is_open = outcome.state == "unknown" and bool(outcome.blocks)
            is_open = is_open or ((sent.lost or sent.succeeded) and outcome.state in before)
            if not (outcome.works or (late > 0 and is_open)) or not patience.pause():
                return outcome
            late -= 1
            at = node or outcome.node
            watch("reading back")

    def _capabilities(
        self, request: CompositionRequest | None = None
    ) -> methods.ComposeCapabilities:
        if self._known_capabilities is None:
            found = methods.read_capabilities(self._session, request, self._methods)
            self._known_capabilities = found._replace(host=self._reader.host_of)
        return self._known_capabilities
