# SPDX-License-Identifier: Apache-2.0
"""Node changes: the rows of nodes whose blocks and amounts are attached and detached.

::

    COMPOSED, SETTLED ── start ──> ATTACHING, DETACHING ── finish or cancel ──> COMPOSED

While its node is changed, a claim holds the blocks that are attached and those that are detached.
A detached block is free once the change is finished. Blocks that were detached to make room for
others are held by a claim of their own, the undo claim of the node, which is DETACHING until the
change ends. Attached amounts are held until the change is finished; the stored reading counts them
from then on.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import ClaimLost, UnknownName
from valence_sched.model import claim as nouns
from valence_sched.model.claim import Claim, ClaimPart, ComposedNode, Grant, NodeAllocation
from valence_sched.model.inventory import to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.node_change import format_parts
from valence_sched.model.quota import block_charges, grant_charges
from valence_sched.store import claim_rows, expiry, holds, podms, quotas, tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.tables import key_of, now

Changing = Literal["ATTACHING", "DETACHING"]
_claims, _blocks, _nodes = tables.claims, tables.claimed_blocks, tables.nodes
_amounts = tables.claimed_amounts


PENDING = "pending "  # prefix of the content of a change that has begun


class ChangeRecord(NamedTuple):
    """What a finished change leaves in the record of a node: its key, flavor and marks."""

    key: str | None = None
    content: str = ""
    flavor: str | None = None
    request: NodeRequest | None = None
    shrinkable: bool | None = None
    floor: str | None = None
    power_cycle: bool = False

    def begun(self, node: ComposedNode) -> ComposedNode:
        """Add the key, which a reconciler may have to keep; a repeated flavor changes nothing."""
        if self.key is None or self.flavor is not None:
            return node
        return replace(node, changes={**node.changes, self.key: PENDING + self.content})

    def of(self, node: ComposedNode) -> ComposedNode:
        if self.key is not None:
            node = replace(node, changes={**node.changes, self.key: self.content})
        if self.flavor is not None:
            node = replace(node, flavor=self.flavor, request=self.request)
        if self.shrinkable is not None:
            marks = {"shrinkable": self.shrinkable, "floor": self.floor}
            node = replace(node, **marks, power_cycle=self.power_cycle)
        return node


NO_RECORD = ChangeRecord()


class NodeChanges(Stored):
    """The changes of the nodes of a store; each method is one transaction.

    A write that records an effect on a pod manager waits while the database is unreachable.
    """

    @transaction("recording an intent to attach", write=True)
    def start_attaching(
        self,
        connection: sa.Connection,
        node_id: str,
        held: str,
        ttl_s: float,
        record: ChangeRecord = NO_RECORD,
    ) -> ComposedNode:
        """Move the holds of a held claim to the claim of a node that is not being changed.

        The undo claim of the node ends in the same way. ClaimState if one of the claims is in
        another state.
        """
        node, claim = _locked(connection, node_id)
        added = claim_rows.get(connection, held)
        (share,) = added.parts[0].shares
        started = share.blocks, share.grants
        if claim.state == "ATTACHING" and (node.changing, node.changing_amounts) == started:
            return node  # only the answer to the commit was lost
        _begin(connection, claim, "ATTACHING", ttl_s)
        ended = {"note": f"attached to node {node_id}", "consumer_key": None, "sweep_at": None}
        is_undo = added.state == "DETACHING" and added.parts[0].node == node_id
        state: nouns.State = "DETACHING" if is_undo else "HELD"
        is_open = sa.true() if is_undo else _claims.c.sweep_at > now()
        if not claim_rows.change_state(connection, held, [state], "RELEASED", is_open, **ended):
            raise claim_rows.state_error(connection, held, "only held blocks can be attached")
        _keep_part(connection, node.podm, claim.id)
        move = sa.update(_blocks).where(_blocks.c.claim_id == held)
        connection.execute(move.values(claim_id=claim.id))
        _move_amounts(connection, held, claim.id)
        parts = tables.claim_parts
        connection.execute(sa.delete(parts).where(parts.c.claim_id == held))
        claim_rows.delete_charges(connection, [held])
        before = _share_of(claim, node)
        charges = Counter(before.charges)
        charges.update(share.charges)
        blocks, grants = (*before.blocks, *share.blocks), (*before.grants, *share.grants)
        _rewrite(connection, claim, node, blocks, grants, charges)
        node = replace(node, changing=share.blocks, changing_amounts=share.grants)
        node = record.begun(replace(node, undo_claim=None) if is_undo else node)
        return _written(connection, node)

    @transaction("recording an intent to detach", write=True)
    def start_detaching(
        self,
        connection: sa.Connection,
        node_id: str,
        blocks: Sequence[str],
        ttl_s: float,
        amounts: Sequence[Grant] = (),
        undo_claim: str | None = None,
        record: ChangeRecord = NO_RECORD,
    ) -> ComposedNode:
        """Hold blocks of a node that is not being changed, so that no claim gets them too early.

        Its ``amounts`` stay in use until they are gone. If an id is given, the new ``undo_claim``
        of the node holds the blocks after they are detached. ClaimLost if the node no longer has a
        part, ClaimState as for attaching.
        """
        node, claim = _locked(connection, node_id)
        started = tuple(blocks), tuple(amounts)
        if claim.state == "DETACHING" and (node.changing, node.changing_amounts) == started:
            return node  # only the answer to the commit was lost
        _begin(connection, claim, "DETACHING", ttl_s)
        for uri in (*blocks, *(one.uri for one in amounts)):
            if uri not in node.parts:
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
        undo = undo_claim or node.undo_claim
        node = replace(node, changing=started[0], changing_amounts=started[1], undo_claim=undo)
        return _written(connection, record.begun(node))

    def finish(
        self, node_id: str, record: ChangeRecord, made: Sequence[Grant] = ()
    ) -> ComposedNode:
        """Record that all was attached or detached; the next reading settles the claim.

        ``made`` are the memory chunks and volumes of the attached grants.
        """

        def work(connection: sa.Connection) -> ComposedNode:
            node, claim = _locked(connection, node_id)
            moved, amounts = node.changing, node.changing_amounts
            blocks, parts = _without(node.blocks, moved), format_parts(len(moved), len(amounts))
            if claim.state == "ATTACHING":
                used = holds.take_amounts(connection, claim.id, node.podm, amounts)
                podms.note_changed(connection, node.podm, node.uri, (), used)
                done, named = "attached", (*moved, *(one.uri for one in made))
                blocks, every = (*blocks, *moved), (*node.amounts, *made)
                grants = (*node.grants, *amounts)
            elif claim.state == "DETACHING":
                if _is_undo_open(connection, node):
                    _hold_for_undo(connection, claim, node)
                granted, used = node.grants_of(amounts), dict[str, float]()
                for one in granted:
                    used[one.uri] = used.get(one.uri, 0.0) - one.amount
                for uri, amount in _free(connection, claim, node, granted).items():
                    used[uri] += amount
                podms.note_changed(connection, node.podm, node.uri, moved, used)
                done, named = "detached", (*moved, *(one.uri for one in amounts))
                every = tuple(it for it in node.amounts if it.uri not in named)
                grants = _less(node.grants, granted)
            else:
                return node  # only the answer to the commit was lost
            claim_rows.add_event(
                connection, done, claim.id, node.podm, f"{parts}: {', '.join(named)}"
            )
            _end(connection, claim)
            node = replace(node, blocks=blocks, changing=(), changing_amounts=(), lost_at=None)
            node = replace(node, amounts=every, grants=grants)
            if claim.state == "ATTACHING":
                node = replace(node, undo_claim=None)
            return _written(connection, record.of(_ended(node, is_done=True)))

        patient = self._database.patient()
        node = patient.write(work, "recording a changed node")
        patient.write(lambda c: podms.note_composed(c, node.podm), "settling")
        return node

    @transaction("ending a change", write=True, patient=True)
    def cancel(self, connection: sa.Connection, node_id: str, why: str) -> ComposedNode:
        """Record that a change had no effect, or was undone: the node has its blocks as before."""
        node, claim = _locked(connection, node_id)
        if claim.state not in nouns.CHANGING_STATES:
            return node  # only the answer to the commit was lost
        if claim.state == "ATTACHING":
            _free(connection, claim, node, node.changing_amounts)
        claim_rows.add_event(connection, "unchanged", claim.id, node.podm, why)
        _end(connection, claim)
        undo = None if _is_undo_open(connection, node) else node.undo_claim
        node = replace(node, changing=(), changing_amounts=(), undo_claim=undo)
        return _written(connection, _ended(node, is_done=False))

    def end_undo(self, claim_id: str, note: str) -> None:
        """Free the blocks of an undo claim, which need not be attached again."""

        def work(connection: sa.Connection) -> None:
            claim = claim_rows.get(connection, claim_id)
            (part,) = claim.parts
            podms.lock_row(connection, key_of(part.podm))
            query = sa.select(_nodes.c.document).where(_nodes.c.id == part.node)
            if (document := connection.scalar(query)) is not None:
                node = claim_rows.decode_node(document)
                if node.undo_claim == claim_id:
                    _written(connection, replace(node, undo_claim=None))
            claim_rows.end(connection, claim_id, ["DETACHING"], "RELEASED", note)

        patient = self._database.patient()
        patient.write(work, "ending a change")
        expiry.free_claim(patient, claim_id)

    @transaction("recording an intent to shut down", write=True)
    def shut_down(self, connection: sa.Connection, node_id: str, ttl_s: float) -> ComposedNode:
        """Record that a node is shut down for a change, and must be started again."""
        node, claim = _locked(connection, node_id)
        claim_rows.add_event(connection, "shut down", claim.id, node.podm)
        at = tables.time_s(connection)
        return _written(connection, replace(node, off_until=at + ttl_s))

    @transaction("recording that a node is started", write=True, patient=True)
    def started(self, connection: sa.Connection, node_id: str) -> ComposedNode:
        """Record that a node was started again after a change."""
        node, claim = _locked(connection, node_id)
        claim_rows.add_event(connection, "started", claim.id, node.podm)
        return _written(connection, replace(node, off_until=None))

    @transaction("reading nodes")
    def overdue(
        self, connection: sa.Connection, nodes: Sequence[ComposedNode]
    ) -> tuple[list[ComposedNode], list[ComposedNode]]:
        """Return the nodes that should have been started again by now, or have taken blocks."""
        at = tables.time_s(connection)
        left_off = [one for one in nodes if one.off_until is not None and one.off_until <= at]
        return left_off, [one for one in nodes if one.taken and one.taken_until <= at]

    @transaction("recording an intent to take blocks", write=True)
    def take(
        self, connection: sa.Connection, node_id: str, blocks: Sequence[str], ttl_s: float
    ) -> None:
        """Record that blocks of a node are detached for a plan, which may still fail."""
        node, _ = _locked(connection, node_id)
        taken = tuple(dict.fromkeys((*node.taken, *blocks)))
        until = tables.time_s(connection) + ttl_s
        _written(connection, replace(node, taken=taken, taken_until=max(until, node.taken_until)))

    @transaction("ending a plan that takes blocks", write=True, patient=True)
    def end_taking(self, connection: sa.Connection, node_id: str, blocks: Sequence[str]) -> None:
        """Record that a plan keeps blocks of a node, or that the node has them again."""
        node, _ = _locked(connection, node_id)
        _written(connection, replace(node, taken=_without(node.taken, blocks)))

    @transaction("recording lost blocks", write=True)
    def note_lost(
        self, connection: sa.Connection, node_id: str, *, is_lost: bool, dry_run: bool
    ) -> float:
        """Record whether a reading shows blocks of a node as free; return for how many seconds."""
        node, _ = _locked(connection, node_id)
        at = tables.time_s(connection)
        since = (at if node.lost_at is None else node.lost_at) if is_lost else None
        if since != node.lost_at and not dry_run:
            _written(connection, replace(node, lost_at=since))
        return 0.0 if since is None else at - since

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
    if not claim_rows.change_state(connection, claim.id, nouns.COMPOSED_STATES, state, **times):
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


def _is_undo_open(connection: sa.Connection, node: ComposedNode) -> bool:
    """Return whether a node has the id of an undo claim that does not exist yet."""
    query = sa.select(_claims.c.id).where(_claims.c.id == (node.undo_claim or ""))
    return node.undo_claim is not None and connection.scalar(query) is None


def _hold_for_undo(connection: sa.Connection, claim: Claim, node: ComposedNode) -> None:
    """Move the holds of the changing blocks of a node to its new undo claim."""
    at, key = tables.time_s(connection), key_of(node.podm)
    old, blocks, id_ = _share_of(claim, node), node.changing, str(node.undo_claim)
    every = _charges_of(connection, node).items()
    charges = {name: min(amount, old.charges.get(name, 0.0)) for name, amount in every}
    share = NodeAllocation(node=1, pool=old.pool, blocks=blocks, charges=charges)
    part = ClaimPart(podm=node.podm, generation=0, shares=(share,), node=node.id)
    undo = replace(claim, id=id_, key=None, group=None, created_at=at, parts=(part,))
    claim_rows.insert(connection, undo)
    values = {"sweep_at": None, "note": f"detached from node {node.id} to make room"}
    connection.execute(sa.update(_claims).where(_claims.c.id == id_).values(values))
    quotas.charge(connection, undo)
    tables.add_claim_part(connection, key, id_)
    held = _blocks.c.podm_key == key, _blocks.c.claim_id == claim.id
    move = sa.update(_blocks).where(*held, _blocks.c.block_key.in_(map(key_of, blocks)))
    connection.execute(move.values(claim_id=id_))


def _share_of(claim: Claim, node: ComposedNode) -> NodeAllocation:
    """Return the part of a claim that is the node."""
    shares = [(nouns.node_name(claim, share), share) for _, share in nouns.node_allocations(claim)]
    return next((share for name, share in shares if name == node.id), shares[0][1])


def _rewrite(
    connection: sa.Connection,
    claim: Claim,
    node: ComposedNode,
    blocks: Sequence[str],
    grants: Sequence[Grant],
    charges: Mapping[str, float],
) -> None:
    """Give a node other parts in the document of its claim, and charge the claim for them."""
    old = _share_of(claim, node)
    charged = {name: amount for name, amount in charges.items() if amount > 0}
    new = replace(old, blocks=tuple(blocks), grants=tuple(grants), charges=charged)
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


def _move_amounts(connection: sa.Connection, held: str, claim_id: str) -> None:
    """Add the amounts of a held claim to those that another claim holds."""
    of = _amounts.c
    rows = connection.execute(sa.select(_amounts).where(of.claim_id == held)).mappings().all()
    connection.execute(sa.delete(_amounts).where(of.claim_id == held))
    for row in rows:
        same = of.podm_key == row["podm_key"], of.stock_key == row["stock_key"]
        more = sa.update(_amounts).where(*same, of.claim_id == claim_id)
        if not connection.execute(more.values(amount=of.amount + row["amount"])).rowcount:
            connection.execute(sa.insert(_amounts), {**row, "claim_id": claim_id})


def _free(
    connection: sa.Connection, claim: Claim, node: ComposedNode, grants: Sequence[Grant]
) -> dict[str, float]:
    """Drop the changing blocks of a node, and grants, from its claim; return the freed holds."""
    key, old = key_of(node.podm), _share_of(claim, node)
    held = _blocks.c.podm_key == key, _blocks.c.claim_id == claim.id
    keys = [key_of(uri) for uri in node.changing]
    connection.execute(sa.delete(_blocks).where(*held, _blocks.c.block_key.in_(keys)))
    charges = Counter(old.charges)
    charges.subtract(_charges_of(connection, node))
    charges.subtract(grant_charges(grants))
    taken = holds.take_amounts(connection, claim.id, node.podm, grants)
    blocks, rest = _without(old.blocks, node.changing), _less(old.grants, grants)
    _rewrite(connection, claim, node, blocks, rest, charges)
    tables.log_changes(connection, [key])
    return taken


def _charges_of(connection: sa.Connection, node: ComposedNode) -> dict[str, float]:
    """Return the charges of the changing blocks of a node."""
    charges = Counter[str]()
    podm = podms.load(connection, [node.podm]).get(node.podm)
    for block in podm.blocks if podm else ():
        if block.uri in node.changing and block.devices:
            charges.update(block_charges(block.devices))
    return dict(charges)


def _less(grants: Sequence[Grant], some: Sequence[Grant]) -> tuple[Grant, ...]:
    """Return grants without one equal grant for each of ``some``."""
    left = list(grants)
    for one in some:
        if one in left:
            left.remove(one)
    return tuple(left)


def _without(blocks: Sequence[str], some: Sequence[str]) -> tuple[str, ...]:
    return tuple(uri for uri in blocks if uri not in some)


def _ended(node: ComposedNode, *, is_done: bool) -> ComposedNode:
    """Keep the key of the ended change if it was done."""
    kept = [it for it in node.changes.items() if is_done or not it[1].startswith(PENDING)]
    return replace(node, changes={key: content.removeprefix(PENDING) for key, content in kept})


def _written(connection: sa.Connection, node: ComposedNode) -> ComposedNode:
    update = sa.update(_nodes).where(_nodes.c.id == node.id)
    connection.execute(update.values(document=to_json(node)))
    return node
