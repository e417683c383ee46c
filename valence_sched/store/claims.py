# SPDX-License-Identifier: Apache-2.0
"""Claims of the store, each atomic over its parts, and the nodes composed from them.

Two claims never hold one block: the primary key of a held block is its pod manager, its URI and its
slot. A claim also compares the generation of the pod manager with that of its decision, under the
lock of the row of the pod manager.

One transaction moves the rows of a claim to another claim, so that no block is free in between.
"""

import contextlib
import functools
import itertools
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.errors import ClaimLost
from valence_sched.model import claim as nouns
from valence_sched.model.claim import Claim, ClaimPart, ComposedNode, State
from valence_sched.model.decision import Report
from valence_sched.model.diagnostic import EffectLog, held_state, unsure_state
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import format_count
from valence_sched.store import claim_rows, expiry, holds, podms, quotas, tables
from valence_sched.store.claim_rows import change_state, decode_node, state_error
from valence_sched.store.database import Database, Stored, Work, transaction
from valence_sched.store.decisions import queue_dispatch
from valence_sched.store.document import readable
from valence_sched.store.tables import key_of, now, statement_time
from valence_sched.words.phrases import state_text

_claims, _parts = tables.claims, tables.claim_parts
_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts


def split_claim(connection: sa.Connection, claim_id: str) -> list[Claim]:
    """Release a held claim and return claims of one node each in its place.

    The new claims have the owner, group, content and expiry of the old claim. The key of each is
    the old key with ``#`` and the number of its node; NameTaken if another claim has that key.
    """
    claim = claim_rows.get(connection, claim_id)
    singles = []
    for part in claim.parts:
        for share in part.shares:
            id_, key = f"{claim.id}-{share.node}", claim.key and f"{claim.key}#{share.node}"
            parts = (replace(part, shares=(share,)),)
            singles.append(replace(claim, id=id_, state="HELD", key=key, parts=parts))
    found = [claim_rows.find(connection, _claims.c.id == one.id) for one in singles]
    if all(found):  # the answer to an earlier commit was lost
        return [existing for (existing,) in found]
    unexpired = _claims.c.sweep_at > now()
    values = {"consumer_key": None, "note": "split into one claim per node"}
    if not change_state(connection, claim_id, ["HELD"], "RELEASED", unexpired, **values):
        raise state_error(connection, claim_id, "only a held claim can be split")
    claim_rows.delete_charges(connection, [claim_id])
    keys = [claim_rows.consumer_key(one.owner, one.key) for one in singles if one.key]
    for other in claim_rows.find(connection, _claims.c.consumer_key.in_(keys)):
        text = f"claim {claim_id}: the key {other.key!r} of one of its nodes belongs to claim"
        raise errors.NameTaken(f"{text} {other.id}: release that claim first")
    for one in singles:
        claim_rows.insert(connection, one)
        quotas.charge(connection, one, len(singles))  # together they count as one claim
        _reassign_rows(connection, claim_id, one.id, one.parts[0])
    for table in (_amounts, _parts):
        connection.execute(sa.delete(table).where(table.c.claim_id == claim_id))
    tables.log_changes(connection, usage={key_of(part.podm) for part in claim.parts})
    return [claim_rows.get(connection, one.id) for one in singles]


def _reassign_rows(connection: sa.Connection, claim_id: str, to: str, part: ClaimPart) -> None:
    key, (share,) = key_of(part.podm), part.shares
    tables.add_claim_part(connection, key, to)
    for uri in share.blocks:
        own = _is_held_block(claim_id, key, uri)
        slot = connection.scalar(sa.select(sa.func.min(_blocks.c.slot)).where(own))
        update = sa.update(_blocks).where(own, _blocks.c.slot == slot)
        connection.execute(update.values(claim_id=to))
    for uri, amount in part.amounts.items():
        row = {"podm_key": key, "stock_key": key_of(uri), "claim_id": to, "uri": uri}
        connection.execute(sa.insert(_amounts), {**row, "amount": amount})


def _is_held_block(claim_id: str, key: str, uri: str) -> sa.ColumnElement[bool]:
    of = _blocks.c
    return sa.and_(of.podm_key == key, of.block_key == key_of(uri), of.claim_id == claim_id)


def reassign_blocks(connection: sa.Connection, claim: Claim, nodes: Sequence[ComposedNode]) -> None:
    """Hold the blocks of the nodes instead of the planned blocks; errors as for ``hold``."""
    parts = []
    for part in claim.parts:
        local = [node for node in nodes if node.podm == part.podm]
        shares = []
        for share in part.shares:  # its node is the only node, or the node with its number
            numbered = [node for node in local if node.id.endswith(f"-{share.node}")]
            (node,) = local if len(local) == 1 else numbered
            shares.append(replace(share, blocks=node.blocks))
        actual = replace(part, shares=tuple(shares))
        if actual.blocks != part.blocks:
            _swap_blocks(connection, claim.id, part, actual)
        parts.append(actual)
    if tuple(parts) != claim.parts:
        update = sa.update(_claims).where(_claims.c.id == claim.id)
        connection.execute(update.values(document=to_json(tuple(parts))))
        blocks = format_count(sum(len(part.blocks) for part in parts), "block")
        text = f"composed from {blocks}, not from the planned blocks"
        claim_rows.add_event(connection, "swapped", claim.id, words=text)


def _swap_blocks(connection: sa.Connection, id_: str, planned: ClaimPart, used: ClaimPart) -> None:
    key = key_of(planned.podm)
    blocks = tuple((used.blocks - planned.blocks).elements())
    added = replace(used, shares=(replace(used.shares[0], blocks=blocks),))
    locked = holds.lock(connection, added, any_generation=True)
    for uri in planned.blocks - used.blocks:
        connection.execute(sa.delete(_blocks).where(_is_held_block(id_, key, uri)))
    holds.hold_blocks(connection, id_, added, locked)
    tables.log_changes(connection, usage=[key])


TTL_S = 600.0
PREPARE_TTL_S = 60.0  # seconds to hold all parts of a claim on several pod managers
MOST_EXPIRY_ROUNDS = 20


class Claims:
    """The claims of a store; ``effects`` records state changes.

    A write that records an effect on a pod manager waits while the database is unreachable.
    """

    def __init__(self, database: Database, effects: EffectLog) -> None:
        self._database, self._effects = database, effects
        self._read, self._write = database.read, database.write
        self._patient = database.patient()

    def create(
        self,
        parts: Sequence[ClaimPart],
        *,
        owner: str | None = None,
        group: str | None = None,
        generation: int | None = None,
        key: str | None = None,
        content: str = "",
        ttl_s: float = TTL_S,
        dispatched: Report | None = None,
        credit: Mapping[str, float] = MappingProxyType({}),
    ) -> Claim:
        """Hold all parts for ``ttl_s`` seconds, or no part; return the claim.

        The same ``key`` of the same owner returns the same claim until it ends. ``content``
        identifies the request. Under hard rules of the group, ``generation`` is its generation at
        the decision. The report of a ``dispatched`` decision is queued for the controller once the
        claim is held. ``credit`` are charges of the owner that do not count: of the blocks and
        amounts that a changed node loses.

        Raises:
            ClaimLost: a pod manager or the group changed since the decision, or another claim holds
                a part.
            NameTaken: the key belongs to a claim with other content.
            QuotaExceeded: the claim exceeds the quota of its owner.
        """
        if not parts or ttl_s <= 0:
            raise errors.UsageError("a claim needs at least one node and more than 0 seconds")
        first, *others = sorted(parts, key=lambda part: key_of(part.podm))
        state: State = "PREPARED" if others else "HELD"
        claim = Claim(
            id=uuid.uuid4().hex[:16],
            state=state,
            owner=owner,
            group=group,
            key=key,
            content=key_of(content),
            parts=tuple(sorted(parts, key=lambda part: part.podm)),
        )
        unsure = unsure_state("held", claim.id)
        with self._effects.change("claim", claim.id, unsure, held_state(claim.id)):
            begun_ttl_s, report = (PREPARE_TTL_S, None) if others else (ttl_s, dispatched)
            created = self._begin(claim, first, begun_ttl_s, generation, report, credit)
            if others and created.id == claim.id:
                created = self._add_parts(claim.id, others, ttl_s, generation, dispatched)
        if created.id != claim.id:  # an earlier claim of the key
            self._effects.forget("claim", claim.id)
        return created

    def _add_parts(
        self, id_: str, parts: Sequence[ClaimPart], ttl_s: float, generation: int | None,
        dispatched: Report | None,
    ) -> Claim:  # fmt: skip
        def commit(connection: sa.Connection) -> Claim:
            claim = claim_rows.commit(connection, claim_id=id_, ttl_s=ttl_s, generation=generation)
            queue_dispatch(connection, id_, dispatched, id_)
            return claim

        try:
            for part in parts:
                self._write_expiring(lambda c, part=part: claim_rows.add_part(c, id_, part))  # type: ignore[misc]
            return self._write(commit, "claiming")
        except BaseException:
            self._abort(id_)
            raise

    def _abort(self, id_: str) -> None:
        doing, note = "ending a failed claim", "some parts could not be claimed"
        self._write(lambda c: claim_rows.end(c, id_, ["PREPARED"], "FAILED", note), doing)
        expiry.free_claim(self._database, id_)

    def group_generation(self, group: str) -> int:
        """Return the generation of a group; read it before the members of the group."""
        return self._read(lambda c: holds.group_generation(c, group), "reading a group")

    def find_by_key(self, owner: str | None, key: str, content: str) -> Claim | None:
        """Return the claim of a key, if any; NameTaken for other content."""
        digest = key_of(content)
        try:
            return self._read(lambda c: claim_rows.find_by_key(c, owner, key, digest), "reading")
        except holds.ExpiredConflict:
            expiry.expire_claims(self._database)
            return None

    def show(self, claim_id: str) -> Claim:
        return self._read(lambda c: claim_rows.get(c, claim_id), "reading claims")

    @transaction("renewing a claim", write=True)
    def renew(self, connection: sa.Connection, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Let a claim expire in ``ttl_s`` seconds; ClaimState if it has ended or never expires."""
        of, expires_at = _claims.c, now() + ttl_s
        unexpired = sa.or_(of.sweep_at.is_(None), of.sweep_at > now())
        sweep_at = sa.case((of.sweep_at.is_(None), None), else_=expires_at)
        times = {"expires_at": expires_at, "sweep_at": sweep_at}
        for state in ("HELD", *nouns.CHANGING_STATES):
            if change_state(connection, claim_id, [state], state, unexpired, **times):
                return claim_rows.get(connection, claim_id)
        raise state_error(connection, claim_id, "only a held claim can be renewed")

    def release(self, claim_id: str, note: str | None = None) -> None:
        """End a claim, decodable or not, and free its holds; an ended claim stays as it is.

        Raises:
            ClaimState: the claim is being composed.
            InUse: a node was composed from the claim.
        """

        def work(connection: sa.Connection) -> bool:
            nodes = tables.nodes.c
            node = connection.scalar(sa.select(nodes.id).where(nodes.claim_id == claim_id))
            if node is not None:
                raise errors.InUse(
                    f"node {node} was composed from claim {claim_id}: delete the node"
                )
            states: tuple[State, ...] = ("PREPARED", "HELD", *nouns.COMPOSED_STATES)
            return claim_rows.end(connection, claim_id, states, "RELEASED", note)

        self._end(self._database, claim_id, work, nouns.FINAL_STATES, "releasing a claim")
        self._effects.forget("claim", claim_id)

    def fail(self, claim_id: str, note: str, refused_by: str | None = None) -> None:
        """End a claim that left nothing on a pod manager; count a failure of ``refused_by``."""

        def work(connection: sa.Connection) -> bool:
            if refused_by is not None:  # locked before the claim, as in every transaction
                podms.lock_row(connection, key_of(refused_by))
            ended = claim_rows.end(connection, claim_id, ("HELD", "COMPOSING"), "FAILED", note)
            if ended and refused_by is not None:
                podms.count_failure(connection, refused_by)
            return ended

        self._end(self._patient, claim_id, work, ("FAILED",), "ending a failed claim")
        self._effects.forget("claim", claim_id)

    def start_composing(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Stop the expiry of a held claim while it is composed; ClaimState if it is not held."""
        attempts = itertools.count()

        def work(connection: sa.Connection) -> Claim:
            unexpired = _claims.c.sweep_at > now()
            times = {"sweep_at": None, "expires_at": now() + ttl_s}
            retried = next(attempts) > 0
            changed = change_state(connection, claim_id, ["HELD"], "COMPOSING", unexpired, **times)
            claim = claim_rows.get(connection, claim_id)
            # after a retry: only the answer to the commit was lost
            if changed or (retried and claim.state == "COMPOSING"):
                return claim
            raise state_error(connection, claim_id, "only a held claim can be composed")

        return self._write(work, "recording an intent to compose")

    def note_reserving(self, claim_id: str) -> None:
        """Record that the pod manager may have blocks reserved for a claim."""
        doing = "recording an intent to reserve"
        self._patient.write(lambda c: claim_rows.add_event(c, "reserving", claim_id), doing)

    def finish_composing(self, claim_id: str, nodes: Sequence[ComposedNode]) -> Claim:
        """Record the nodes of a claim, which then holds their blocks; idempotent.

        The claim settles immediately if a reading already shows the nodes. No reading shows a
        placed node: the stored reading counts its amounts from now on.

        Raises:
            ClaimState: the claim was not being composed.
            ClaimLost: another claim holds a block of a node.
        """
        made = {one.id: nouns.made_grants(one.grants) for one in nodes if one.is_placed}

        def work(connection: sa.Connection) -> Claim:
            for key in sorted({key_of(one.podm) for one in nodes if made.get(one.id)}):
                podms.lock_row(connection, key)
            claim = claim_rows.get(connection, claim_id)
            if claim.state in nouns.COMPOSED_STATES and claim_rows.are_written(connection, nodes):
                return claim
            if claim.state == "COMPOSING":
                reassign_blocks(connection, claim, nodes)
            never = {"expires_at": None, "sweep_at": None}
            if not change_state(connection, claim_id, ["COMPOSING"], "COMPOSED", **never):
                raise state_error(connection, claim_id, "the claim was not being composed")
            claim_rows.write_nodes(connection, nodes)
            for node in nodes:
                if grants := made.get(node.id):
                    used = holds.take_amounts(connection, claim_id, node.podm, grants)
                    podms.note_changed(connection, node.podm, node.uri, (), used)
            return claim

        self._write_expiring(work, None, "recording composed nodes", self._patient)
        for node in nodes:
            state = f"is composed on {node.podm}: {node.uri}, claim {claim_id}"
            self._effects.note("node", node.id, state)
        self._effects.forget("claim", claim_id)
        for podm in sorted({node.podm for node in nodes}, key=key_of):
            self._patient.write(functools.partial(podms.note_composed, name=podm), "settling")
        return self._patient.read(lambda c: claim_rows.get(c, claim_id), "reading claims")

    def split(self, claim_id: str) -> Sequence[Claim]:
        """Replace a held claim by claims of one node each; ClaimState if it is not held."""
        claims = self._write(lambda c: split_claim(c, claim_id), "splitting a claim")
        for claim in claims:
            self._effects.note("claim", claim.id, held_state(claim.id))
        self._effects.forget("claim", claim_id)
        return claims

    def list_stuck(self) -> Sequence[Claim]:
        """Return claims whose nodes are still being composed or changed after their expiry."""
        stuck = _claims.c.state.in_(nouns.CHANGING_STATES), _claims.c.expires_at <= statement_time()
        return self._read(lambda c: claim_rows.find(c, *stuck), "reading claims")

    def expire(self) -> None:
        with contextlib.suppress(errors.StoreError):
            expiry.expire_claims(self._database)

    def reap(self, *, dry_run: bool = False) -> Sequence[Claim]:
        """End expired claims, free their holds, and return them; ``dry_run`` only returns them."""
        over = _claims.c.sweep_at <= statement_time()
        expired = self._read(lambda c: claim_rows.find(c, over), "reading claims")
        if not dry_run:
            expiry.expire_claims(self._database)
        return expired

    def list(
        self,
        states: Sequence[State] = nouns.ACTIVE_STATES,
        podm: str | None = None,
        owner: str | None = None,
    ) -> Sequence[Claim]:
        """Return claims, the oldest first, by state, and by pod manager and owner if given."""
        of = _claims.c
        where = of.state.in_(states), tables.is_owned(of.owner, owner)
        claims = self._read(lambda c: claim_rows.find(c, *where), "reading claims")
        return [claim for claim in claims if podm is None or podm in claim.podms]

    @transaction("reading claims")
    def newest(
        self,
        connection: sa.Connection,
        most: int,
        *,
        skip: int = 0,
        states: Sequence[State] = nouns.ACTIVE_STATES,
        podm: str | None = None,
        owner: str | None = None,
    ) -> tuple[Sequence[Claim], int]:
        """Return ``most`` claims, the newest first, without the first ``skip``, and the total.

        The other arguments are as for :meth:`list`. Only documents of these claims are read.
        """
        of, finder = _claims.c, claim_rows.finder
        is_here = sa.true() if podm is None else claim_rows.holds_of(connection, podm)
        where = of.state.in_(states), tables.is_owned(of.owner, owner), is_here
        query = finder.select.where(*where).order_by(of.created_at.desc(), of.id)
        count = connection.scalar(sa.select(sa.func.count()).select_from(_claims).where(*where))
        return finder.run(connection, query.limit(most).offset(skip)), count or 0

    def _begin(
        self, claim: Claim, part: ClaimPart, ttl_s: float, generation: int | None,
        dispatched: Report | None, credit: Mapping[str, float],
    ) -> Claim:  # fmt: skip
        may_be_written = False

        def work(connection: sa.Connection) -> Claim:
            nonlocal may_be_written
            if may_be_written and (own := claim_rows.find(connection, _claims.c.id == claim.id)):
                return own[0]  # only the answer to the commit was lost
            may_be_written = True
            if claim.key is not None:
                other = claim_rows.find_by_key(connection, claim.owner, claim.key, claim.content)
                if other is not None:
                    return other
            # locked before the pod manager, as in every transaction
            quotas.check(connection, claim, credit)
            if claim.group is not None and claim.state == "HELD":  # else when all parts are held
                holds.lock_group(connection, claim.group, generation, claim.key)
                holds.advance_group(connection, claim.group)
            locked = holds.lock(connection, part)
            timed = replace(claim, created_at=locked.at, expires_at=locked.at + ttl_s)
            claim_rows.insert(connection, timed)
            quotas.charge(connection, timed)
            holds.hold(connection, claim.id, part, locked)
            queue_dispatch(connection, claim.id, dispatched, claim.id)
            return timed

        def single(connection: sa.Connection) -> Claim | None:
            nonlocal may_be_written
            may_be_written = True
            written = claim_rows.insert_whole(connection, claim, part, ttl_s)
            may_be_written = written is not None
            return written

        is_plain = claim.group is None and dispatched is None and claim_rows.is_plain(part)
        return self._write_expiring(work, single if is_plain else None)

    def _write_expiring(
        self,
        work: Work[Claim],
        single: Work[Claim | None] | None = None,
        doing: str = "claiming",
        database: Database | None = None,
    ) -> Claim:
        """Run a transaction again after ending the conflicting expired claims."""
        database = database or self._database
        for _ in range(MOST_EXPIRY_ROUNDS):
            try:
                return database.write(work, doing, single)
            except holds.ExpiredConflict:
                expiry.expire_claims(database)
        raise ClaimLost("conflicting expired claims could not be ended: run podm claim reap")

    def _end(
        self, database: Database, claim_id: str, work: Work[bool], states: Sequence[State], do: str
    ) -> None:
        if not database.write(work, do):
            claim = database.read(lambda c: claim_rows.get(c, claim_id), "reading claims")
            if claim.state not in states:
                hint = "the state does not allow this"
                if claim.state in nouns.CHANGING_STATES:
                    hint = "its node may exist: reap the claim after it expires"
                elif claim.state not in nouns.ACTIVE_STATES:
                    hint = "it has ended already"
                raise errors.ClaimState(f"claim {claim_id} is {state_text(claim.state)}: {hint}")
        expiry.free_claim(database, claim_id)


_node = tables.nodes.c


class Nodes(Stored):
    """The composed nodes of a store."""

    def list(self, podm: str | None = None, claim: str | None = None) -> Sequence[ComposedNode]:
        query = sa.select(_node.id, _node.document).order_by(_node.id)
        if podm is not None:
            query = query.where(_node.podm_key == key_of(podm))
        if claim is not None:
            query = query.where(_node.claim_id == claim)
        return self._database.read(lambda c: _decoded(c, query), "reading nodes")

    def newest(
        self, most: int, *, skip: int = 0, podm: str | None = None, owner: str | None = None
    ) -> tuple[Sequence[ComposedNode], int]:
        """Return ``most`` nodes, nodes of the newest claims first, and the total number.

        The first ``skip`` nodes are left out. ``podm`` and ``owner`` select nodes.
        """
        claims = tables.claims
        both = tables.nodes.outerjoin(claims, claims.c.id == _node.claim_id)
        is_here = sa.true() if podm is None else _node.podm_key == key_of(podm)
        where = is_here, tables.is_owned(claims.c.owner, owner)
        order = (sa.func.coalesce(claims.c.created_at, 0.0).desc(), _node.id)
        query = sa.select(_node.id, _node.document).select_from(both).where(*where).order_by(*order)
        count = sa.select(sa.func.count()).select_from(both).where(*where)

        def work(connection: sa.Connection) -> tuple[Sequence[ComposedNode], int]:
            found = _decoded(connection, query.limit(most).offset(skip))
            return found, connection.scalar(count) or 0

        return self._database.read(work, "reading nodes")

    def show(self, node_id: str) -> ComposedNode:
        """Return a node by its id or unique URI; UnknownName or Undecodable otherwise."""
        nodes = self.list()
        for name in ("id", "uri"):
            matching = [node for node in nodes if getattr(node, name) == node_id]
            if len(matching) == 1:
                return matching[0]
        claims = tables.claims.c
        both = tables.nodes.outerjoin(tables.claims, claims.id == _node.claim_id)
        query = sa.select(_node.id, claims.owner).select_from(both).where(_node.id == node_id)
        if row := self._database.read(lambda c: c.execute(query).first(), "reading nodes"):
            raise errors.Undecodable("node", *row)
        raise errors.UnknownName("node", node_id, [node.id for node in nodes])

    def forget(self, node_id: str) -> None:
        """Delete the record of a node that is gone; the last node releases its claim."""
        patient = self._database.patient()  # the pod manager has already deleted the node

        def work(connection: sa.Connection) -> str | None:
            query = sa.select(_node.claim_id, _node.podm_key).where(_node.id == node_id)
            if (row := connection.execute(query).first()) is None:
                return None
            claim_id, key = tuple(row)
            podms.lock_row(connection, key)
            connection.execute(sa.delete(tables.nodes).where(_node.id == node_id))
            claim_rows.add_event(connection, "gone", claim_id, words=node_id)
            others = sa.select(_node.id).where(_node.claim_id == claim_id).limit(1)
            if is_last := connection.scalar(others) is None:
                states = (*nouns.COMPOSED_STATES, "ATTACHING", "DETACHING")
                claim_rows.end(connection, claim_id, states, "RELEASED", "its node is gone")
            # the node no longer counts for its owner and group
            tables.log_changes(connection, [key])
            return claim_id if is_last else None

        if ended := patient.write(work, "forgetting a node"):
            expiry.free_claim(patient, ended)


def _decoded(connection: sa.Connection, query: sa.Select[Any]) -> Sequence[ComposedNode]:
    rows = connection.execute(query)
    return [*readable(connection, tables.nodes, rows, lambda _id, document: decode_node(document))]
