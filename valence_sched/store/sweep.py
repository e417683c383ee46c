# SPDX-License-Identifier: Apache-2.0
"""Claims whose time is over: ended by the database's clock, and what they held freed.

A claim ends by its state alone; its rows on each pod manager are then dropped one pod manager
after another, by whoever comes by, so that no transaction spans two of them.
"""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.model.claim import Claim
from valence_sched.store import claim_rows, hold, moves, podms, tables
from valence_sched.store.columns import began, now
from valence_sched.store.database import Database

_of = tables.claims.c


def over(connection: sa.Connection) -> list[Claim]:
    """Return claims that hold what they may no longer hold."""
    return claim_rows.found(connection, _of.sweep_at <= began())


def stuck(connection: sa.Connection) -> list[Claim]:
    """Return claims that are being composed for longer than was meant."""
    return claim_rows.found(connection, _of.state == "COMPOSING", _of.expires_at <= began())


def sweep(database: Database) -> int:
    """End all claims whose time is over and free what they held; return how many."""
    ids = database.read(
        lambda c: c.scalars(sa.select(_of.id).where(_of.sweep_at <= began())).all(),
        "reading claims",
    )
    for claim_id in ids:
        database.write(lambda c, id_=claim_id: _expire(c, id_), "ending a claim")  # type: ignore[misc]
        free(database, claim_id)
    return len(ids)


def free(database: Database, claim_id: str) -> None:
    """Drop what an ended claim held, one pod manager after another."""
    parts = tables.claim_parts.c
    keys = database.read(
        lambda c: c.scalars(sa.select(parts.podm_key).where(parts.claim_id == claim_id)).all(),
        "reading claims",
    )
    for key in sorted(keys):
        database.write(lambda c, key=key: _drop(c, claim_id, key), "freeing a claim")  # type: ignore[misc]
    database.write(lambda c: _done(c, claim_id), "freeing a claim")


def _expire(connection: sa.Connection, claim_id: str) -> bool:
    return claim_rows.move(
        connection, claim_id, ("PREPARED", "HELD"), "EXPIRED", _of.sweep_at <= now(),
        consumer_key=None, sweep_at=0.0,
    )  # fmt: skip


def _drop(connection: sa.Connection, claim_id: str, key: str) -> None:
    podms.locked(connection, key)
    ended = connection.scalar(sa.select(_of.sweep_at <= now()).where(_of.id == claim_id))
    if ended and hold.drop(connection, claim_id, key):
        moves.moved(connection, [key])


def _done(connection: sa.Connection, claim_id: str) -> None:
    """Note that an ended claim holds nothing any more."""
    parts = tables.claim_parts
    held = sa.exists().where(parts.c.claim_id == claim_id)
    connection.execute(
        sa.update(tables.claims)
        .where(_of.id == claim_id, _of.sweep_at <= now(), ~held)
        .values(sweep_at=None)
    )
