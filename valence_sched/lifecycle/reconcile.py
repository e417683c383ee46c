# SPDX-License-Identifier: Apache-2.0
"""Claims and nodes brought to terms with what each pod manager really has.

A claim that was being composed when its process died is decided by what is found: its node is
there, or nothing is, or something that must be taken back. What cannot be read stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from valence_sched.drivers.composer import Composer
from valence_sched.errors import ClaimLost, SchedulerError, one_line
from valence_sched.lifecycle.compose import Connector
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES, Claim, ClaimPart, NodeAllocation
from valence_sched.model.composition import (
    NODE_NAME_PREFIX,
    ComposedNode,
    CompositionRequest,
    CompositionResult,
    composed_node,
    composition_request,
    node_allocations,
    node_name,
    request_from_node,
)
from valence_sched.model.inventory import FullPodm, Node
from valence_sched.model.lifecycle import Action
from valence_sched.store.store import Store


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Reaps a store; ``reach`` and ``read`` are as of a composer. A dry run changes nothing."""

    store: Store
    connect: Connector
    read: Callable[[str], FullPodm | None]
    dry_run: bool = False

    def reconcile(self) -> Iterator[Action]:
        """Yield what was done, one thing after another."""
        for reaped in self.store.claims.reap(dry_run=self.dry_run):
            if reaped.claim.state != "COMPOSING":
                yield _claim_action(reaped.claim, reaped.outcome)
        for claim in self.store.claims.list_stuck():
            yield _claim_action(claim, self._decide(claim))
        yield from self._reconcile_nodes()

    def _decide(self, claim: Claim) -> str:
        """Find out what became of a claim that was being composed."""
        found: list[ComposedNode] = []
        remains: list[str] = []
        for part, share in node_allocations(claim):
            try:
                with self.connect(part.podm) as hands:
                    outcome = self._find_result(hands, claim, part, share)
            except SchedulerError as error:
                return one_line(f"left as it is: {part.podm} does not tell: {error}", 200)
            if outcome.works:
                return one_line(f"left as it is: {part.podm} goes on: {outcome.reason}", 200)
            if outcome.state == "composed":
                found.append(composed_node(claim, part, share, outcome))
            elif outcome.state == "left" and outcome.node is None:
                remains.append(outcome.reason)  # counted by what the blocks say of themselves
            elif outcome.state != "absent":
                return one_line(f"left as it is: {outcome.reason}", 200)
        return self._finish_composing(claim, found) if found else self._fail(claim, remains)

    def _finish_composing(self, claim: Claim, found: list[ComposedNode]) -> str:
        if not self.dry_run:
            try:
                self.store.claims.finish_composing(claim.id, found)
            except ClaimLost as error:
                return self._undo(claim, found, error)
        return f"composed: found {', '.join(node.uri for node in found)}"

    def _fail(self, claim: Claim, remains: list[str]) -> str:
        words = f"nothing was composed, but look at {'; '.join(remains)}"
        note = one_line(words if remains else "nothing was composed", 200)
        if not self.dry_run:
            self.store.claims.fail(claim.id, note)
        return f"freed what it held: {note}"

    def _undo(self, claim: Claim, found: list[ComposedNode], lost: ClaimLost) -> str:
        """Take nodes apart that hold what another claim has."""
        for node in found:
            try:
                outcome = self._remove(node.podm, request_from_node(node), node.uri)
            except SchedulerError as error:
                return one_line(f"left as it is: {node.podm} does not tell: {error}", 200)
            if outcome.state != "absent":
                return one_line(f"left as it is: {lost}; {outcome.reason}", 200)
        self.store.claims.fail(claim.id, one_line(str(lost), 200))
        return one_line(f"taken apart, and freed what it held: {lost}", 200)

    def _remove(self, podm: str, wanted: CompositionRequest, uri: str) -> CompositionResult:
        with self.connect(podm) as hands:
            return hands.remove(wanted, uri, lambda _state: None)

    def _find_result(
        self, hands: Composer, claim: Claim, part: ClaimPart, share: NodeAllocation
    ) -> CompositionResult:
        """Return what there is of a node, taken back where it is only a part of one."""
        known = self.store.load_podms([part.podm]).get(part.podm)
        wanted = composition_request(claim, share, known)
        outcome = hands.read_node(wanted)
        if self.dry_run or outcome.works:
            return outcome
        if outcome.state == "left" and outcome.node:
            outcome = hands.remove(wanted, outcome.node, lambda _state: None)
        began = any(event.kind == "reserving" for event in self.store.events(claim.id))
        if began and (outcome.state == "composed" or outcome.node is None):
            hands.unreserve(wanted)  # before that, a reservation is somebody else's
        return outcome

    def _reconcile_nodes(self) -> Iterator[Action]:
        """Yield nodes that went without us, and nodes of ours that nobody remembers."""
        known: dict[str, list[ComposedNode]] = {}
        for node in self.store.nodes.list():
            known.setdefault(node.podm, []).append(node)
        names = {
            node_name(claim, share): claim
            for claim in self.store.claims.list((*ACTIVE_STATES, *FINAL_STATES))
            for _, share in node_allocations(claim)
        }
        for id_ in sorted(known.keys() | self.store.load_podms()):
            podm = self.read(id_)
            if podm is None:
                continue
            there = {node.uri: node for node in podm.nodes}
            ours = {node.uri for node in known.get(id_, [])}
            deeds = [
                *(
                    self._forget_missing(node)
                    for node in known.get(id_, [])
                    if node.uri not in there
                ),
                *(
                    self._remove_orphan(id_, node, names)
                    for uri, node in there.items()
                    if uri not in ours and (node.name or "").startswith(NODE_NAME_PREFIX)
                ),
            ]
            if not self.dry_run:
                self.store.remember((self.read(id_) if deeds else None) or podm)
            yield from filter(None, deeds)

    def _forget_missing(self, node: ComposedNode) -> Action | None:
        """Forget a node that is not there; that a reading does not show it is not enough."""
        try:
            with self.connect(node.podm) as hands:
                outcome = hands.read_node(request_from_node(node), node.uri)
        except SchedulerError as error:
            outcome = CompositionResult(state="unknown", reason=str(error))
        if outcome.node is not None or outcome.state == "unknown":
            done = f"left as it is: the reading does not show it, {outcome.reason or 'it is there'}"
            return _node_action(node.id, node.podm, one_line(done, 200))
        if not self.dry_run:
            self.store.nodes.forget(node.id)
        done = "forgotten, and its claim released: it is not there any more"
        return _node_action(node.id, node.podm, done)

    def _remove_orphan(self, podm: str, node: Node, names: Mapping[str, Claim]) -> Action | None:
        """Take a node apart that came to be after its claim was given up.

        One of which no claim is known is somebody else's, who names nodes as we do.
        """
        claim = names.get(node.name or "")
        if claim is None:
            done = "left as it is: no claim is known for it (podm node list --live)"
            return _node_action(node.uri, podm, done)
        if claim.state not in FINAL_STATES:
            return None
        wanted = CompositionRequest(name=node.name or "", blocks=node.blocks)
        if not self.dry_run:
            try:
                outcome = self._remove(podm, wanted, node.uri)
            except SchedulerError as error:
                outcome = CompositionResult(state="unknown", reason=str(error))
            if outcome.state != "absent":
                return _node_action(
                    node.uri, podm, one_line(f"left as it is: {outcome.reason}", 200)
                )
        return _node_action(node.uri, podm, f"taken apart: its claim {claim.id} is {claim.state}")


def _node_action(id_: str, podm: str, done: str) -> Action:
    return Action(kind="node", id=id_, podm=podm, done=done)


def _claim_action(claim: Claim, done: str) -> Action:
    return Action(kind="claim", id=claim.id, podm=", ".join(claim.podms), done=done)
