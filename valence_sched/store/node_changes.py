# SPDX-License-Identifier: Apache-2.0
"""Node changes: the rows of nodes whose blocks are attached and detached.

::

    COMPOSED, SETTLED ── start ──> ATTACHING, DETACHING ── finish or cancel ──> COMPOSED

While its node is changed, a claim holds the blocks that are attached and those that are detached.
A detached block is free once the change is finished.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import ClaimLost, UnknownName
from valence_sched.model.claim import (
    CHANGING_STATES,
    COMPOSED_STATES,
    Claim,
    ClaimPart,
    ComposedNode,
    NodeAllocation,
    node_allocations,
    node_name,
)
from valence_sched.model.inventory import to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.quantity import format_count
from valence_sched.model.quota import block_charges
from valence_sched.store import claim_rows, holds, podms, quotas, tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.tables import key_of, now

Changing = Literal["ATTACHING", "DETACHING"]
_claims, _blocks, _nodes = tables.claims, tables.claimed_blocks, tables.nodes


class ChangeRecord(NamedTuple):
    """What a finished change leaves in the record of a node: its key, and the flavor it became."""

    key: str | None = None
    content: str = ""
    flavor: str | None = None
    request: NodeRequest | None = None

    def of(self, node: ComposedNode) -> ComposedNode:
        if self.key is not None:
            node = replace(node, changes={**node.changes, self.key: self.content})
        if self.flavor is not None:
            node = replace(node, flavor=self.flavor, request=self.request)
        return node


class NodeChanges(Stored):
    """The changes of the nodes of a store; each method is one transaction.

    A write that records an effect on a pod manager waits while the database is unreachable.
    """

    @transaction("recording an intent to attach", write=True)
    def start_attaching(
        self, connection: sa.Connection, node_id: str, held: str, ttl_s: float
    ) -> ComposedNode:
        """Move the blocks of a held claim to the claim of a node that is not being changed.

        ClaimState if one of the claims is in another state.
        """
        node, claim = _locked(connection, node_id)
        added = claim_rows.get(connection, held)
        (share,) = added.parts[0].shares
        if claim.state == "ATTACHING" and node.changing == share.blocks:
            return node  # only the answer to the commit was lost
        _begin(connection, claim, "ATTACHING", ttl_s)
        ended = {"note": f"attached to node {node_id}", "consumer_key": None, "sweep_at": None}
        is_open = _claims.c.sweep_at > now()
        if not claim_rows.change_state(connection, held, ["HELD"], "RELEASED", is_open, **ended):
            raise claim_rows.state_error(connection, held, "only held blocks can be attached")
        _keep_part(connection, node.podm, claim.id)
        move = sa.update(_blocks).where(_blocks.c.claim_id == held)
        connection.execute(move.values(claim_id=claim.id))
        parts = tables.claim_parts
        connection.execute(sa.delete(parts).where(parts.c.claim_id == held))
        claim_rows.delete_charges(connection, [held])
        before = _share_of(claim, node)
        charges = Counter(before.charges)
        charges.update(share.charges)
        _rewrite(connection, claim, node, (*before.blocks, *share.blocks), charges)
        return _written(connection, replace(node, changing=share.blocks))

    @transaction("recording an intent to detach", write=True)
    def start_detaching(
        self, connection: sa.Connection, node_id: str, blocks: Sequence[str], ttl_s: float
    ) -> ComposedNode:
        """Hold blocks of a node that is not being changed, so that no claim gets them too early.

        ClaimLost if the node no longer has a block, ClaimState as for attaching.
        """
        node, claim = _locked(connection, node_id)
        if claim.state == "DETACHING" and node.changing == tuple(blocks):
            return node  # only the answer to the commit was lost
        _begin(connection, claim, "DETACHING", ttl_s)
        for uri in blocks:
            if uri not in node.blocks:
                raise ClaimLost(f"node {node_id}: {uri} is no longer part of it", node.podm)
        _keep_part(connection, node.podm, claim.id)
        is_own = _blocks.c.podm_key == key_of(node.podm), _blocks.c.claim_id == claim.id
        held = set(connection.scalars(sa.select(_blocks.c.uri).where(*is_own)))
        unheld = tuple(uri for uri in blocks if uri not in held)
        share = replace(_share_of(claim, node), blocks=unheld, grants=())
        part = ClaimPart(podm=node.podm, generation=0, shares=(share,))
        locked = holds.lock(connection, part, any_generation=True)
        holds.hold_blocks(connection, claim.id, part, locked)
        tables.log_changes(connection, [key_of(node.podm)])
        return _written(connection, replace(node, changing=tuple(blocks)))

    def finish(self, node_id: str, record: ChangeRecord) -> ComposedNode:
        """Record that the blocks were attached or detached; the next reading settles the claim."""

        def work(connection: sa.Connection) -> ComposedNode:
            node, claim = _locked(connection, node_id)
            moved, kept = node.changing, _without(node.blocks, node.changing)
            words = f"{format_count(len(moved), 'block')}: {', '.join(moved)}"
            if claim.state == "ATTACHING":
                done, blocks = "attached", (*kept, *moved)
            elif claim.state == "DETACHING":
                done, blocks = "detached", kept
                _free(connection, claim, node)
                podms.note_detached(connection, node.podm, node.uri, moved)
            else:
                return node  # only the answer to the commit was lost
            claim_rows.add_event(connection, done, claim.id, node.podm, words)
            _end(connection, claim)
            return _written(connection, record.of(replace(node, blocks=blocks, changing=())))

        patient = self._database.patient()
        node = patient.write(work, "recording a changed node")
        patient.write(lambda c: podms.note_composed(c, node.podm), "settling")
        return node

    def cancel(self, node_id: str, why: str) -> ComposedNode:
        """Record that a change had no effect, or was undone: the node has its blocks as before."""

        def work(connection: sa.Connection) -> ComposedNode:
            node, claim = _locked(connection, node_id)
            if claim.state not in CHANGING_STATES:
                return node  # only the answer to the commit was lost
            if claim.state == "ATTACHING":
                _free(connection, claim, node)
            claim_rows.add_event(connection, "unchanged", claim.id, node.podm, why)
            _end(connection, claim)
            return _written(connection, replace(node, changing=()))

        return self._database.patient().write(work, "ending a change")

    @transaction("recording an intent to shut down", write=True)
    def shut_down(self, connection: sa.Connection, node_id: str, ttl_s: float) -> ComposedNode:
        """Record that a node is shut down for a change, and must be started again."""
        node, claim = _locked(connection, node_id)
        claim_rows.add_event(connection, "shut down", claim.id, node.podm)
        at = float(connection.scalar(sa.select(now())) or 0.0)
        return _written(connection, replace(node, off_until=at + ttl_s))

    def started(self, node_id: str) -> ComposedNode:
        """Record that a node was started again after a change."""

        def work(connection: sa.Connection) -> ComposedNode:
            node, claim = _locked(connection, node_id)
            claim_rows.add_event(connection, "started", claim.id, node.podm)
            return _written(connection, replace(node, off_until=None))

        return self._database.patient().write(work, "recording that a node is started")

    @transaction("reading nodes")
    def left_off(self, connection: sa.Connection, nodes: Sequence[ComposedNode]) -> list[str]:
        """Return the ids of the nodes that should have been started again by now."""
        at = float(connection.scalar(sa.select(now())) or 0.0)
        return [one.id for one in nodes if one.off_until is not None and one.off_until <= at]

    @transaction("recording a change", write=True)
    def record(self, connection: sa.Connection, node_id: str, record: ChangeRecord) -> ComposedNode:
        """Record a change that needed no effect."""
        node, _ = _locked(connection, node_id)
        return _written(connection, record.of(node))


def _locked(connection: sa.Connection, node_id: str) -> tuple[ComposedNode, Claim]:
    """Return a node and its claim, and lock the row of its pod manager; or UnknownName."""
    of = _nodes.c
    key = connection.scalar(sa.select(of.podm_key).where(of.id == node_id))
    if key is not None:
        podms.lock_row(connection, key)
    document = connection.scalar(sa.select(of.document).where(of.id == node_id))
    if document is None:
        known = connection.scalars(sa.select(of.id).order_by(of.id).limit(50))
        raise UnknownName("node", node_id, known)
    node = claim_rows.decode_node(document)
    return node, claim_rows.get(connection, node.claim)


def _begin(connection: sa.Connection, claim: Claim, state: Changing, ttl_s: float) -> None:
    times = {"sweep_at": None, "expires_at": now() + ttl_s}
    if not claim_rows.change_state(connection, claim.id, COMPOSED_STATES, state, **times):
        hint = "its node cannot be changed now: wait, or run podm claim reap after it expires"
        raise claim_rows.state_error(connection, claim.id, hint)


def _end(connection: sa.Connection, claim: Claim) -> None:
    never = {"expires_at": None, "sweep_at": None}
    claim_rows.change_state(connection, claim.id, [claim.state], "COMPOSED", **never)


def _keep_part(connection: sa.Connection, podm: str, claim_id: str) -> None:
    """Let a claim, even a settled claim, hold blocks of a pod manager."""
    parts, key = tables.claim_parts.c, key_of(podm)
    query = sa.select(parts.claim_id).where(parts.podm_key == key, parts.claim_id == claim_id)
    if connection.scalar(query) is None:
        tables.add_claim_part(connection, key, claim_id)
    tables.log_changes(connection, [key])


def _share_of(claim: Claim, node: ComposedNode) -> NodeAllocation:
    """Return the part of a claim that is the node."""
    shares = [(node_name(claim, share), share) for _, share in node_allocations(claim)]
    return next((share for name, share in shares if name == node.id), shares[0][1])


def _rewrite(
    connection: sa.Connection,
    claim: Claim,
    node: ComposedNode,
    blocks: Sequence[str],
    charges: Mapping[str, float],
) -> None:
    """Give a node other blocks in the document of its claim, and charge the claim for them."""
    old = _share_of(claim, node)
    charged = {name: amount for name, amount in charges.items() if amount > 0}
    new = replace(old, blocks=tuple(blocks), charges=charged)
    parts = []
    for part in claim.parts:
        if old in part.shares:  # its request no longer describes the node
            shares = tuple(new if one is old else one for one in part.shares)
            part = replace(part, shares=shares, request=None)  # noqa: PLW2901
        parts.append(part)
    changed = replace(claim, parts=tuple(parts))
    update = sa.update(_claims).where(_claims.c.id == claim.id)
    connection.execute(update.values(document=to_json(changed.parts)))
    claim_rows.delete_charges(connection, [claim.id])
    quotas.charge(connection, changed)


def _free(connection: sa.Connection, claim: Claim, node: ComposedNode) -> None:
    """Drop the changing blocks of a node from its claim."""
    key, old = key_of(node.podm), _share_of(claim, node)
    held = _blocks.c.podm_key == key, _blocks.c.claim_id == claim.id
    keys = [key_of(uri) for uri in node.changing]
    connection.execute(sa.delete(_blocks).where(*held, _blocks.c.block_key.in_(keys)))
    charges = Counter(old.charges)
    podm = podms.load(connection, [node.podm]).get(node.podm)
    for block in podm.blocks if podm else ():
        if block.uri in node.changing and block.devices:
            charges.subtract(block_charges(block.devices))
    _rewrite(connection, claim, node, _without(old.blocks, node.changing), charges)
    tables.log_changes(connection, [key])


def _without(blocks: Sequence[str], some: Sequence[str]) -> tuple[str, ...]:
    return tuple(uri for uri in blocks if uri not in some)


def _written(connection: sa.Connection, node: ComposedNode) -> ComposedNode:
    update = sa.update(_nodes).where(_nodes.c.id == node.id)
    connection.execute(update.values(document=to_json(node)))
    return node
