# SPDX-License-Identifier: Apache-2.0
"""Reconciler: matches claims and nodes of the store with each pod manager.

If a process died while it composed, the pod manager may have the whole node, parts of it, or none.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.drivers.composer import AmountChange, amount_changer
from valence_sched.lifecycle.compose import Connector
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.model import claim as nouns
from valence_sched.model.diagnostic import RECONCILE_HINT, NoProgress, Progress, awaiting
from valence_sched.model.inventory import FREE_STATUS, FullPodm, Node, uri_tails
from valence_sched.model.lifecycle import Action
from valence_sched.model.node_change import format_parts
from valence_sched.store.claims import TTL_S
from valence_sched.store.node_changes import ChangeRecord
from valence_sched.store.store import Store

LOST_S = 60.0  # a block that its pod manager has dropped for so long is no longer part of a node


class _Unchanged(Exception):
    """An action that had no effect, since a pod manager refused it or could not be reached."""

    def __init__(self, podm: str, error: errors.SchedulerError) -> None:
        in_use = isinstance(error, errors.HardwareInUse | errors.BaremetalUnavailable)
        self.exit_code = error.exit_code if in_use else 0
        text = str(error) if in_use else errors.prefixed(str(error), podm)
        super().__init__(errors.one_line(f"unchanged: {text}", 400 if in_use else 200))


def _no_changer(node: nouns.ComposedNode, _blocks: Sequence[str]) -> None:
    raise errors.ClaimState(f"node {node.id} cannot be changed here")


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Reconciles a store; a dry run changes nothing.

    ``connect`` opens the composer of a pod manager, ``read`` reads a pod manager. ``give_back``
    attaches blocks to a node that lost them to a plan.
    """

    store: Store
    connect: Connector
    read: Callable[[str], FullPodm | None]
    dry_run: bool = False
    progress: Progress = field(default_factory=NoProgress)
    give_back: Callable[[nouns.ComposedNode, Sequence[str]], object] = field(default=_no_changer)

    def reconcile(self) -> Iterator[Action]:
        """Do the actions, and yield each when it is done."""
        for claim in self.store.claims.reap(dry_run=self.dry_run):
            podms, done = ", ".join(claim.podms), "expired: freed its holds"
            yield Action(kind="claim", id=claim.id, podm=podms, done=done)
        for claim in self.store.claims.list_stuck():
            end = self._decide if claim.state == "COMPOSING" else self._end_change
            yield from _actions("claim", claim.id, ", ".join(claim.podms), partial(end, claim))
        nodes = [node for node in self.store.nodes.list() if node.state == "COMPOSED"]
        left_off, shrunk = self.store.node_changes.overdue(nodes)
        for node in left_off:
            yield from _actions("node", node.id, node.podm, partial(self._start, node))
        for node in shrunk:
            yield from _actions("node", node.id, node.podm, partial(self._give_back, node))
        yield from self._reconcile_nodes()

    @contextlib.contextmanager
    def _composer(self, podm: str, kind: str, id_: str) -> Iterator[GuardedComposer]:
        """Connect to a pod manager; its errors, and those of the caller, are _Unchanged."""
        try:
            waiting = awaiting(self.progress, f"{kind} {id_} on {podm}", "reconciling")
            with waiting, self.connect(podm) as composer:
                try:
                    yield composer
                except KeyboardInterrupt:
                    if composer.written:
                        text = f"may be changed on {podm}: {RECONCILE_HINT}"
                        self.store.effects.note(kind, id_, text)
                    raise
        except errors.SchedulerError as error:
            raise _Unchanged(podm, error) from None

    def _decide(self, claim: nouns.Claim) -> str:
        nodes: list[nouns.ComposedNode] = []
        remains: list[str] = []
        for part, allocation in nouns.node_allocations(claim):
            with self._composer(part.podm, "claim", claim.id) as composer:
                result = self._find_result(composer, claim, part, allocation)
            if result.works:
                return _done(f"unchanged: {part.podm} is still composing: {result.reason}")
            if result.state == "composed":
                nodes.append(nouns.composed_node(claim, part, allocation, result))
            elif result.state == "left" and result.node is None and not result.amounts:
                remains.append(result.reason)  # its blocks are not free: their status shows it
            elif result.state != "absent":
                return _done(f"unchanged: {result.reason}")
        if nodes:
            try:
                if not self.dry_run:
                    self.store.claims.finish_composing(claim.id, nodes)
            except errors.ClaimLost as error:
                return self._undo(claim, nodes, error)
            return f"composed: found {', '.join(node.uri for node in nodes)}"
        text = f"no node was composed, but check {'; '.join(remains)}"
        note = errors.one_line(text if remains else "no node was composed", 200)
        if not self.dry_run:
            self.store.claims.fail(claim.id, note)
        return f"freed its holds: {note}"

    def _end_change(self, claim: nouns.Claim) -> str:
        """End the change of a node by its present parts; a partial change is undone or completed.

        Parts that were attached incompletely are detached again; a detachment is completed.
        """
        nodes = self.store.nodes.list(claim=claim.id)
        if not nodes:
            return self._end_undo(claim)
        (node,) = nodes
        total = len(node.changing) + len(node.changing_amounts)
        attaches = claim.state == "ATTACHING"
        with self._composer(node.podm, "node", node.id) as composer:
            blocks = composer.reads.node_blocks(node.uri)
            if blocks is None:
                return _done(f"unchanged: {node.uri} no longer exists")
            there = [uri for uri in node.changing if uri in blocks]
            found = _read_amounts(composer, node, attaches)
            amounts = found.amounts or ()
            present = len(there) + len(amounts)
            is_partial = 0 < present < total or bool(amounts and found.reason)
            # else it is started after what was detached to make room is attached again
            was_off = node.off_until is not None and node.undo_claim is None
            if is_partial and not self.dry_run:
                grants = node.changing_amounts if attaches else node.grants
                if why := _detach(composer, replace(node, grants=grants), there, amounts):
                    return _done(f"unchanged: {why}")
                present = 0
            if was_off and not self.dry_run:
                self._power_on(composer, node)
        is_done = bool(present) == attaches and not (is_partial and self.dry_run)
        done = "attached" if attaches else "detached"
        text = f"no {'block' if node.changing else 'amount'} was {done}"
        text = f"node {node.id} is unchanged: {text}"
        if is_done:
            what = format_parts(len(node.changing), len(node.changing_amounts))
            text = f"{done} {what} of node {node.id}"
        elif found.conflicts:
            text = f"{text}, but check {found.reason}"
        if not self.dry_run:
            if is_done:
                made = amounts if attaches else ()
                after = self.store.node_changes.finish(node.id, ChangeRecord(), made)
                if after.undo_claim is not None:  # the change that needed the room is dead
                    try:
                        again = self._end_undo(self.store.claims.show(after.undo_claim))
                    except _Unchanged as unchanged:
                        again = str(unchanged)
                    text = f"{text}, and {again}"
            else:
                why = f"the change was interrupted; {found.reason if found.conflicts else ''}"
                self.store.node_changes.cancel(node.id, errors.one_line(why.rstrip("; "), 200))
        return _done(text + (", and started it again" if was_off else ""))

    def _end_undo(self, claim: nouns.Claim) -> str:
        """Attach the blocks of an undo claim again, unless their node has others now."""
        (part,) = claim.parts
        known = {one.id: one for one in self.store.nodes.list(part.podm)}
        node, blocks = known.get(part.node or ""), part.shares[0].blocks
        done = "freed its holds: its node has other blocks now, or is gone"
        if node is not None and node.undo_claim == claim.id:
            if node.changing or node.changing_amounts:
                return _done(f"unchanged: node {node.id} is being changed")
            what = f"{format_parts(len(blocks), 0)} of node {node.id}"
            done = f"attached {what} again"
            if not self.dry_run:
                with self._composer(node.podm, "node", node.id) as composer:
                    changes = composer.may_change(nouns.request_from_node(node), node.uri)
                    found = changes.change(node.uri, blocks, (), lambda _state: None)
                missing = [uri for uri in blocks if uri not in (found.blocks or ())]
                if missing and (found.works or not found.is_known):
                    return _done(f"unchanged: {', '.join(missing)}: {found.reason}")
                if not missing:
                    self.store.node_changes.start_attaching(node.id, claim.id, 0.0)
                    self.store.node_changes.finish(node.id, ChangeRecord())
                    return _done(done)
                done = f"freed its holds: {what} could not be attached again: {found.reason}"
        if not self.dry_run:
            self.store.node_changes.end_undo(claim.id, errors.one_line(done, 200))
        return _done(done)

    def _start(self, node: nouns.ComposedNode) -> str:
        """Start a node that a dead change has left off."""
        with self._composer(node.podm, "node", node.id) as composer:
            if not self.dry_run:
                self._power_on(composer, node)
        return "started: it was shut down for a change"

    def _power_on(self, composer: GuardedComposer, node: nouns.ComposedNode) -> None:
        changes = composer.may_change(nouns.request_from_node(node), node.uri)
        changes.set_power(node.uri, True, lambda _state: None)
        self.store.node_changes.started(node.id)

    def _give_back(self, node: nouns.ComposedNode) -> str | None:
        """Attach the blocks that a dead plan has taken, unless the node of the plan has them."""
        nodes, claims = self.store.nodes.list(node.podm), self.store.claims.list(podm=node.podm)
        users = {uri: one.id for one in nodes for uri in one.blocks}
        held = {uri: one.id for one in claims for part in one.parts for uri in part.blocks}
        back = [uri for uri in node.taken if uri not in users and uri not in held]
        kept = [uri for uri in node.taken if uri in users]
        if len(back) + len(kept) < len(node.taken):
            claim = next(held[uri] for uri in node.taken if uri not in (*back, *kept))
            return _done(f"unchanged: claim {claim} still holds a block that a plan has taken")
        if back and not self.dry_run:
            try:
                self.give_back(node, back)
            except errors.SchedulerError as error:
                raise _Unchanged(node.podm, error) from None
        if not self.dry_run:
            self.store.node_changes.end_taking(node.id, node.taken)
        done = f"attached {uri_tails(back)} again: the plan that took it was not carried out"
        return _done(done) if back else None

    def _undo(
        self, claim: nouns.Claim, nodes: list[nouns.ComposedNode], lost: errors.ClaimLost
    ) -> str:
        for node in nodes:
            result = self._remove(node.podm, nouns.request_from_node(node), node.uri)
            if result.state != "absent":
                return _done(f"unchanged: {lost}; {result.reason}")
        self.store.claims.fail(claim.id, errors.one_line(str(lost), 200))
        return _done(f"decomposed, and freed its holds: {lost}")

    def _remove(
        self, podm: str, wanted: nouns.CompositionRequest, uri: str
    ) -> nouns.CompositionResult:
        with self._composer(podm, "node", wanted.name) as composer:
            return self._decompose(composer, wanted, uri)

    def _decompose(
        self, composer: GuardedComposer, wanted: nouns.CompositionRequest, uri: str
    ) -> nouns.CompositionResult:
        changes = composer.may_change(wanted, uri)
        if self.dry_run:
            return nouns.CompositionResult(state="absent")
        return changes.remove(wanted, uri, lambda _state: None)

    def _find_result(
        self,
        composer: GuardedComposer,
        claim: nouns.Claim,
        part: nouns.ClaimPart,
        allocation: nouns.NodeAllocation,
    ) -> nouns.CompositionResult:
        """Remove a partial node, and return the state of the node on its pod manager."""
        known = self.store.load_podms([part.podm]).get(part.podm)
        wanted = nouns.composition_request(claim, allocation, known)
        result = composer.reads.read_node(wanted)
        if result.works:
            return result
        if result.state == "left" and (result.node or result.amounts):
            result = self._decompose(composer, wanted, result.node or "")
        if self.dry_run:
            return result
        began = any(event.kind == "reserving" for event in self.store.events(claim.id))
        if began and (result.state == "composed" or result.node is None):
            # a reservation from before that step, or of hardware in use, is another system's
            with contextlib.suppress(errors.HardwareInUse):
                composer.may_change(wanted, result.node).unreserve(wanted)
        return result

    def _reconcile_nodes(self) -> Iterator[Action]:
        known: dict[str, list[nouns.ComposedNode]] = {}
        for node in self.store.nodes.list():
            known.setdefault(node.podm, []).append(node)
        names = {
            nouns.node_name(claim, allocation): claim
            for claim in self.store.claims.list((*nouns.ACTIVE_STATES, *nouns.FINAL_STATES))
            for _, allocation in nouns.node_allocations(claim)
        }
        for id_ in sorted(known.keys() | self.store.load_podms()):
            podm = self.read(id_)
            if podm is None:
                if id_ in known:
                    why = f"not read, so its nodes are not compared (podm check {id_})"
                    yield Action(kind="podm", id=id_, podm=id_, done=f"unchanged: {why}")
                continue
            listed = {node.uri: node for node in podm.nodes if not node.stale}
            ours = {node.uri for node in known.get(id_, [])}
            hosts = {block.uri for block in podm.blocks}  # of placed nodes
            missing = [it for it in known.get(id_, []) if it.uri not in listed.keys() | hosts]
            steps: list[tuple[str, Callable[[], str | None]]] = [
                (node.id, partial(self._forget_missing, node)) for node in missing
            ]
            steps += [
                (node.id, partial(self._free_lost, node, lost))
                for node in known.get(id_, [])
                if node.uri in listed
                and ((lost := lost_blocks(podm, node)) or node.lost_at is not None)
            ]
            steps += [
                (uri, partial(self._remove_orphan, id_, node, names))
                for uri, node in listed.items()
                if uri not in ours | hosts and nouns.own_name(node.name, node.uri)
            ]
            actions = [one for key, act in steps for one in _actions("node", key, id_, act)]
            if not self.dry_run:
                self.store.remember((self.read(id_) if steps else None) or podm)
            yield from actions

    def _forget_missing(self, node: nouns.ComposedNode) -> str:
        """Delete the record of a node if its pod manager confirms that the node is gone.

        A host without its blocks may have them back soon, and stays recorded for ``LOST_S``.
        """
        since_s = LOST_S
        with self._composer(node.podm, "node", node.id) as composer:
            wanted = nouns.request_from_node(node)
            result = composer.reads.read_node(wanted, node.uri)
            if result.node is None and result.amounts:
                result = self._decompose(composer, wanted, node.uri)
            if result.node is None and composer.reads.node_blocks(node.uri) is not None:
                noted = {"is_lost": True, "dry_run": self.dry_run}
                since_s = self.store.node_changes.note_lost(node.id, **noted)
        if result.node is not None or result.state == "unknown" or result.amounts:
            done = f"unchanged: missing in the reading, {result.reason or 'but it exists'}"
        elif since_s < LOST_S:
            done = f"unchanged: its host lost its blocks: deleted by a reap after {LOST_S:g} s"
        else:
            done = "record deleted, and its claim released: the node no longer exists"
            if not self.dry_run:
                self.store.nodes.forget(node.id)
        return _done(done)

    def _free_lost(self, node: nouns.ComposedNode, lost: Sequence[str]) -> str | None:
        """Remove blocks from the record of a node if the pod manager confirms that they are gone.

        They may be back soon, while a fabric is reprogrammed, and are freed after ``LOST_S``.
        """
        changes, names = self.store.node_changes, uri_tails(lost)
        if self.store.claims.show(node.claim).state not in nouns.COMPOSED_STATES:
            return None
        since_s = changes.note_lost(node.id, is_lost=bool(lost), dry_run=self.dry_run)
        if not lost:
            return None
        with self._composer(node.podm, "node", node.id) as composer:
            found = composer.reads.node_blocks(node.uri)
        if found is None or not set(lost).isdisjoint(found):
            done = f"unchanged: {names} missing in the reading, but part of the node"
        elif since_s < LOST_S:
            done = f"unchanged: {names} no longer found: freed by a reap after {LOST_S:g} s"
        else:
            done = f"freed {names}: no longer part of the node"
            if not self.dry_run:
                changes.start_detaching(node.id, tuple(lost), TTL_S)
                changes.finish(node.id, ChangeRecord())
        return _done(done)

    def _remove_orphan(self, podm: str, node: Node, names: Mapping[str, nouns.Claim]) -> str | None:
        """Decompose a node that was composed after its claim had ended.

        A node without a known claim belongs to another system that uses names of the same form.
        """
        name = nouns.own_name(node.name, node.uri)
        claim = names.get(name)
        if claim is None:
            return "unchanged: it belongs to no known claim (podm node list --live)"
        if claim.state not in nouns.FINAL_STATES:
            return None
        grants = [
            it.grants
            for _, it in nouns.node_allocations(claim)
            if nouns.node_name(claim, it) == name
        ]
        wanted = nouns.CompositionRequest(name=name, blocks=node.blocks, grants=grants[0])
        result = self._remove(podm, wanted, node.uri)
        if result.state != "absent":
            return _done(f"unchanged: {result.reason}")
        return _done(f"decomposed: its claim {claim.id} is {claim.state}")


def lost_blocks(podm: FullPodm, node: nouns.ComposedNode) -> list[str]:
    """Return the blocks of a node that a reading shows as free."""
    shown = {uri for one in podm.nodes if one.uri == node.uri for uri in one.blocks}
    free = {it.uri for it in podm.blocks if (it.status or FREE_STATUS).slots} - shown
    return [uri for uri in node.blocks if uri in free]


def _read_amounts(
    composer: GuardedComposer, node: nouns.ComposedNode, attaches: bool
) -> AmountChange:
    """Return the changing amounts of a node that exist."""
    if not (changing := node.changing_amounts):
        return AmountChange(())
    grants, amounts = changing, node.amounts
    if not attaches:
        grants, amounts = node.grants_of(changing), changing
    wanted = replace(nouns.request_from_node(node), grants=grants, amounts=amounts)
    return composer.amount_reads.read_amounts(wanted, node.uri, new=attaches)


def _detach(
    composer: GuardedComposer,
    node: nouns.ComposedNode,
    blocks: Sequence[str],
    amounts: tuple[nouns.Grant, ...],
) -> str:
    """Detach parts of a node; return why some are left, empty if none is."""
    reason, left = "", [*blocks]
    wanted = nouns.request_from_node(node)
    changes = composer.may_change(wanted, node.uri)
    if blocks:
        found = changes.change(node.uri, (), blocks, lambda _state: None)
        reason, left = found.reason, [it for it in blocks if it in (found.blocks or blocks)]
    if amounts and not left:
        grants = node.grants_of(amounts)
        amount_changes = amount_changer(changes)
        wanted = replace(wanted, grants=grants, amounts=amounts)
        rest = amount_changes.detach_amounts(wanted, node.uri, lambda _state: None)
        remaining = amounts if rest.amounts is None else rest.amounts
        reason, left = rest.reason, [one.uri for one in remaining]
    return f"{', '.join(left)} could not be detached: {reason}" if left else ""


def _done(text: str) -> str:
    return errors.one_line(text, 200)


def _actions(kind: str, id_: str, podm: str, act: Callable[[], str | None]) -> Iterator[Action]:
    """Yield an action when it is done; no action if there was nothing to do."""
    try:
        done, exit_code = act(), 0
    except _Unchanged as unchanged:
        done, exit_code = str(unchanged), unchanged.exit_code
    if done is not None:
        yield Action(kind=kind, id=id_, podm=podm, done=done, exit_code=exit_code)
