# SPDX-License-Identifier: Apache-2.0
"""Claims: taken whole or not at all, and moved from state to state by whoever may."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from valence_sched.errors import ClaimLost, ClaimState, InUse, StoreError, UsageError, one_line
from valence_sched.model.claim import ACTIVE_STATES, Claim, ClaimPart, State
from valence_sched.model.composition import ComposedNode
from valence_sched.store import (
    claim_rows,
    podms,
    settle,
    tables,
)
from valence_sched.store import (
    claim_rows as claim_steps,
)
from valence_sched.store import (
    expiry as sweep,
)
from valence_sched.store import (
    reassign as taken,
)
from valence_sched.store.database import Database
from valence_sched.store.holds import ExpiredConflict, hold, lock
from valence_sched.store.reassign import split_claim
from valence_sched.store.tables import key_of, now

TTL_S = 600.0
PREPARE_TTL_S = 60.0  # how long the parts of a claim of several podms wait for each other
MOST_EXPIRY_ROUNDS = 20


class ReapResult(NamedTuple):
    """What ``reap`` did with a claim, or would do."""

    claim: Claim
    outcome: str


class Claims:
    """The claims of a store."""

    def __init__(self, database: Database, ids: Callable[[], str] = lambda: uuid.uuid4().hex[:16]):
        self._database = database
        self._ids = ids

    def create(
        self,
        parts: Sequence[ClaimPart],
        *,
        owner: str | None = None,
        group: str | None = None,
        key: str | None = None,
        content: str = "",
        ttl_s: float = TTL_S,
    ) -> Claim:
        """Hold all parts for ``ttl_s`` seconds, or none.

        The same ``key`` of the same owner gives the same claim as long as that has not ended.
        ``content`` stands for what is asked.

        Raises:
            ClaimLost: a pod manager moved since it was decided on, or somebody was faster.
            NameTaken: the key stands for a claim of another content.
        """
        if not parts or ttl_s <= 0:
            raise UsageError("a claim is of at least one node, and for more than 0 seconds")
        ordered = tuple(sorted(parts, key=lambda part: key_of(part.podm)))
        first, *others = ordered
        claim = Claim(
            id=self._ids(),
            state="PREPARED" if others else "HELD",
            owner=owner,
            group=group,
            key=key,
            content=key_of(content),
            parts=tuple(sorted(parts, key=lambda part: part.podm)),
        )
        taken = self._begin(claim, first, PREPARE_TTL_S if others else ttl_s)
        if taken.id != claim.id or not others:
            return taken
        try:
            for part in others:
                self._write_expiring(lambda c, part=part: claim_steps.add_part(c, claim.id, part))  # type: ignore[misc]
            return self._database.write(
                lambda c: claim_steps.commit(c, claim.id, ttl_s), "claiming"
            )
        except BaseException:
            self._abort(claim.id)
            raise

    def find_by_key(self, owner: str | None, key: str, content: str) -> Claim | None:
        """Return the claim that a key stands for, None for none; NameTaken for other content."""
        try:
            return self._database.read(
                lambda c: claim_steps.find_by_key(c, owner, key, key_of(content)), "reading"
            )
        except ExpiredConflict:
            sweep.expire_claims(self._database)
            return None

    def show(self, claim_id: str) -> Claim:
        """Return a claim; UnknownName when there is none."""
        return self._database.read(lambda c: claim_rows.get(c, claim_id), "reading claims")

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Let a claim end ``ttl_s`` from now; ClaimState when it has ended or needs no renewal."""

        def work(connection: sa.Connection) -> Claim:
            of = tables.claims.c
            ends = now() + ttl_s
            alive = sa.or_(of.sweep_at.is_(None), of.sweep_at > now())
            swept = sa.case((of.sweep_at.is_(None), None), else_=ends)
            for state in ("HELD", "COMPOSING"):
                values = {"expires_at": ends, "sweep_at": swept}
                if claim_rows.change_state(connection, claim_id, [state], state, alive, **values):
                    return claim_rows.get(connection, claim_id)
            raise claim_rows.state_error(
                connection, claim_id, "only one that is held can be renewed"
            )

        return self._database.write(work, "renewing a claim")

    def release(self, claim_id: str, note: str | None = None) -> Claim:
        """Give up a claim and all that it holds; releasing it again changes nothing.

        Raises:
            ClaimState: it is being composed: reap it once its time is over.
            InUse: a node was composed of it: delete that first.
        """

        def work(connection: sa.Connection) -> bool:
            nodes = tables.nodes.c
            node = connection.scalar(sa.select(nodes.id).where(nodes.claim_id == claim_id))
            if node is not None:
                raise InUse(f"claim {claim_id} is what node {node} is made of: delete the node")
            states: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSED", "SETTLED")
            return claim_steps.end(connection, claim_id, states, "RELEASED", note)

        return self._end(claim_id, work, "releasing a claim", "RELEASED")

    def fail(self, claim_id: str, note: str) -> Claim:
        """Give up a claim that could not be composed, and of which nothing is left there."""

        def work(connection: sa.Connection) -> bool:
            return claim_steps.end(connection, claim_id, ("HELD", "COMPOSING"), "FAILED", note)

        return self._end(claim_id, work, "giving up a claim", "FAILED")

    def start_composing(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Note the intent to compose a held claim; from now on time alone does not free it.

        Raises:
            ClaimState: it is not held, or its time is over.
        """
        tries = itertools.count()

        def work(connection: sa.Connection) -> Claim:
            valid = tables.claims.c.sweep_at > now()
            values = {"sweep_at": None, "expires_at": now() + ttl_s}
            again = next(tries) > 0
            if not claim_rows.change_state(
                connection, claim_id, ["HELD"], "COMPOSING", valid, **values
            ):
                claim = claim_rows.get(connection, claim_id)
                if again and claim.state == "COMPOSING":
                    return claim  # the answer to the commit was lost, the commit was not
                raise claim_rows.state_error(
                    connection, claim_id, "only one that is held is composed"
                )
            return claim_rows.get(connection, claim_id)

        return self._database.write(work, "noting what is to be composed")

    def note_reserving(self, claim_id: str) -> None:
        """Note that from now on blocks may be reserved on the pod manager for a claim."""
        self._database.write(
            lambda c: claim_rows.add_event(c, "reserving", claim_id),
            "noting what is to be reserved",
        )

    def finish_composing(self, claim_id: str, nodes: Sequence[ComposedNode]) -> Claim:
        """Note the nodes that a claim became; settled at once where they were read already.

        From then on the claim holds what the nodes are made of, whatever was planned. Noting the
        same nodes again changes nothing.

        Raises:
            ClaimState: it was not being composed.
            ClaimLost: another claim holds a block that they are made of.
        """

        def work(connection: sa.Connection) -> Claim:
            claim = claim_rows.get(connection, claim_id)
            if claim.state in ("COMPOSED", "SETTLED") and settle.are_written(connection, nodes):
                return claim
            if claim.state == "COMPOSING":
                taken.reassign_blocks(connection, claim, nodes)
            if not claim_rows.change_state(
                connection, claim_id, ["COMPOSING"], "COMPOSED", expires_at=None, sweep_at=None
            ):
                raise claim_rows.state_error(connection, claim_id, "it was not being composed")
            settle.write_nodes(connection, nodes)
            return claim

        self._write_expiring(work, "noting what was composed")
        for podm in sorted({node.podm for node in nodes}, key=key_of):
            self._database.write(lambda c, podm=podm: podms.settle_stored(c, podm), "settling")  # type: ignore[misc]
        return self.show(claim_id)

    def split(self, claim_id: str) -> Sequence[Claim]:
        """Return claims of one node each in place of a held one of several, which ends.

        Raises:
            ClaimState: it is not held, or its time is over.
        """
        return self._database.write(lambda c: split_claim(c, claim_id), "splitting a claim")

    def list_stuck(self) -> Sequence[Claim]:
        """Return claims that are being composed for longer than was meant."""
        return self._database.read(sweep.stuck_claims, "reading claims")

    def expire(self) -> None:
        """Free what claims hold whose time is over; who may only read leaves that to others."""
        with contextlib.suppress(StoreError):
            sweep.expire_claims(self._database)

    def reap(self, *, dry_run: bool = False) -> Sequence[ReapResult]:
        """Free what claims hold whose time is over; return what was done, or would be.

        A claim that was being composed is only named: what became of it, its pod manager knows.
        """
        over = self._database.read(sweep.expired_claims, "reading claims")
        if not dry_run:
            sweep.expire_claims(self._database)
        stuck = self._database.read(sweep.stuck_claims, "reading claims")
        freed = [ReapResult(claim, "expired: freed what it held") for claim in over]
        return freed + [
            ReapResult(claim, "was being composed: ask its pod manager") for claim in stuck
        ]

    def list(
        self,
        states: Sequence[State] = ACTIVE_STATES,
        podm: str | None = None,
        owner: str | None = None,
    ) -> Sequence[Claim]:
        """Return claims in these states, the oldest first; of one podm or owner where given."""
        of = tables.claims.c
        whose = sa.true() if owner is None else of.owner == owner
        claims = self._database.read(
            lambda c: claim_rows.find(c, of.state.in_(states), whose), "reading claims"
        )
        return [claim for claim in claims if podm is None or podm in claim.podms]

    def _begin(self, claim: Claim, part: ClaimPart, ttl_s: float) -> Claim:
        tries = itertools.count()

        def work(connection: sa.Connection) -> Claim:
            if claim.key is not None:
                other = claim_steps.find_by_key(connection, claim.owner, claim.key, claim.content)
                if other is not None:
                    return other
            if next(tries) and (
                mine := claim_rows.find(connection, tables.claims.c.id == claim.id)
            ):
                return mine[0]  # the answer to the commit was lost, the commit was not
            locked = lock(connection, part)
            timed = msgspec.structs.replace(
                claim, created_at=locked.at, expires_at=locked.at + ttl_s
            )
            claim_rows.insert(connection, timed)
            hold(connection, claim.id, part, locked)
            return timed

        return self._write_expiring(work)

    def _write_expiring(
        self, work: Callable[[sa.Connection], Claim], doing: str = "claiming"
    ) -> Claim:
        """Run a transaction again after sweeping claims that are over out of its way."""
        for _ in range(MOST_EXPIRY_ROUNDS):
            try:
                return self._database.write(work, doing)
            except ExpiredConflict:
                sweep.expire_claims(self._database)
        raise ClaimLost("claims whose time is over could not be swept away: run claim reap")

    def _abort(self, claim_id: str) -> None:
        self._database.write(
            lambda c: claim_steps.end(
                c, claim_id, ("PREPARED",), "FAILED", "not all of it could be had"
            ),
            "giving up a claim",
        )
        sweep.free_claim(self._database, claim_id)

    def _end(
        self, claim_id: str, work: Callable[[sa.Connection], bool], doing: str, state: State
    ) -> Claim:
        done = self._database.write(work, doing)
        claim = self.show(claim_id)
        if not done and claim.state != state:
            raise ClaimState(
                one_line(f"claim {claim_id} is {claim.state}: {claim_steps.end_hint(claim)}")
            )
        sweep.free_claim(self._database, claim_id)
        return claim
