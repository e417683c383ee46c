# SPDX-License-Identifier: Apache-2.0
"""The steps of a claim, each within one transaction: joined, committed, ended, found by its key."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.errors import ClaimLost, NameTaken, one_line
from valence_sched.model.claim import LIVE, Claim, Part, State
from valence_sched.store import claim_rows, tables
from valence_sched.store.columns import key_of, now
from valence_sched.store.hold import hold, lock
from valence_sched.store.losing import Sweepable


def hint(claim: Claim) -> str:
    """Return why a claim cannot be ended in the state in which it is."""
    if claim.state == "COMPOSING":
        return "something may be there by now: reap it once its time is over"
    return "it has ended already" if claim.state not in LIVE else "that is not for this state"


def end(
    connection: sa.Connection, claim_id: str, before: tuple[State, ...], after: State,
    note: str | None,
) -> bool:  # fmt: skip
    """End a claim; from now on what it holds may be swept, and its key is free."""
    return claim_rows.move(
        connection, claim_id, before, after, note=note, consumer_key=None, sweep_at=0.0
    )


def join(connection: sa.Connection, claim_id: str, part: Part) -> Claim:
    """Add a part to a prepared claim; what it holds of this podm already, it keeps."""
    parts, of = tables.claim_parts.c, tables.claims.c
    had = connection.scalar(
        sa.select(parts.claim_id).where(
            parts.podm_key == key_of(part.podm), parts.claim_id == claim_id
        )
    )
    if had is None:
        hold(connection, claim_id, part, lock(connection, part))
    # after the podm's row, as everybody locks them
    state = connection.scalar(sa.select(of.state).where(of.id == claim_id).with_for_update())
    if state != "PREPARED":
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {state}", part.podm)
    return claim_rows.one(connection, claim_id)


def commit(connection: sa.Connection, claim_id: str, ttl_s: float) -> Claim:
    """Make a prepared claim one that is held: the one row that decides for all its parts."""
    of = tables.claims.c
    ends = now() + ttl_s
    done = claim_rows.move(
        connection, claim_id, ["PREPARED"], "HELD", of.sweep_at > now(),
        expires_at=ends, sweep_at=ends,
    )  # fmt: skip
    claim = claim_rows.one(connection, claim_id)
    if not done and claim.state != "HELD":  # held: the answer to an earlier commit was lost
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {claim.state}")
    return claim


def of_key(
    connection: sa.Connection, owner: str | None, key: str, content: str
) -> Claim | None:  # fmt: skip
    """Return the claim that a consumer's key stands for, None for none.

    Raises:
        Sweepable: the time of that claim is over.
        NameTaken: it is of another content.
        ClaimLost: it is being prepared.
    """
    of = tables.claims.c
    claims = claim_rows.found(connection, of.consumer_key == claim_rows.consumer_key(owner, key))
    if not claims:
        return None
    claim = claims[0]
    ended = connection.scalar(sa.select(of.sweep_at <= now()).where(of.id == claim.id))
    if ended:
        raise Sweepable
    if claim.content != content:
        raise NameTaken(one_line(f"key {key!r} stands for claim {claim.id}, which asked for "
                                 "something else: choose another key"))  # fmt: skip
    if claim.state == "PREPARED":
        raise ClaimLost(f"claim {claim.id} of the same key is being prepared", "", claim.id)
    return claim
