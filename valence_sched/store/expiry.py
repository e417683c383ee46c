# SPDX-License-Identifier: Apache-2.0
"""Expiry: ends claims whose time is over, frees what they held, and purges old records.

A claim ends by its state alone. Its rows on each pod manager are then dropped one pod manager after
another, by any process, so that no transaction spans two of them. Time is the database's.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from valence_sched.model.claim import FINAL_STATES, Claim
from valence_sched.store import change_log, claim_rows, holds, podms, quotas, tables
from valence_sched.store.claim_rows import change_state
from valence_sched.store.database import Database
from valence_sched.store.holds import purge_groups
from valence_sched.store.tables import CHUNK, now, statement_time

RECORD_S = 3600.0  # for which an operation, or an answer to repeat, is found

_claims, _parts, _nodes = tables.claims, tables.claim_parts, tables.nodes
_events, _decisions = tables.events, tables.decisions


def expired_claims(connection: sa.Connection) -> list[Claim]:
    """Return claims that hold something after their time is over."""
    return claim_rows.find(connection, _claims.c.sweep_at <= statement_time())


def stuck_claims(connection: sa.Connection) -> list[Claim]:
    """Return claims that are being composed for longer than they were meant to be."""
    overdue = _claims.c.expires_at <= statement_time()
    return claim_rows.find(connection, _claims.c.state == "COMPOSING", overdue)


def expire_claims(database: Database) -> int:
    """End all expired claims and free what they held; return how many."""
    query = sa.select(_claims.c.id).where(_claims.c.sweep_at <= statement_time())
    ids = database.read(lambda c: c.scalars(query).all(), "reading claims")
    for claim_id in ids:
        database.write(lambda c, id_=claim_id: _expire(c, id_), "ending a claim")  # type: ignore[misc]
        free_claim(database, claim_id)
    return len(ids)


def free_claim(database: Database, claim_id: str) -> None:
    """Drop what an ended claim held, one pod manager after another."""
    query = sa.select(_parts.c.podm_key).where(_parts.c.claim_id == claim_id)
    keys = database.read(lambda c: c.scalars(query).all(), "reading claims")
    for key in sorted(keys):
        database.write(lambda c, key=key: _drop(c, claim_id, key), "freeing a claim")  # type: ignore[misc]
    database.write(lambda c: _mark_freed(c, claim_id), "freeing a claim")


def _expire(connection: sa.Connection, claim_id: str) -> bool:
    ended = {"consumer_key": None, "sweep_at": 0.0}
    due = _claims.c.sweep_at <= now()
    return change_state(connection, claim_id, ["PREPARED", "HELD"], "EXPIRED", due, **ended)


def _drop(connection: sa.Connection, claim_id: str, key: str) -> None:
    podms.lock_row(connection, key)
    query = sa.select(_claims.c.sweep_at <= now()).where(_claims.c.id == claim_id)
    if connection.scalar(query) and holds.drop(connection, claim_id, key):
        change_log.log_changes(connection, [key])


def _mark_freed(connection: sa.Connection, claim_id: str) -> None:
    held = sa.exists().where(_parts.c.claim_id == claim_id)
    ended = sa.and_(_claims.c.id == claim_id, _claims.c.sweep_at <= now(), ~held)
    connection.execute(sa.update(_claims).where(ended).values(sweep_at=None))
    quotas.drop_ended(connection, claim_id)


class PurgeCounts(NamedTuple):
    """How many records were deleted, or would be."""

    claims: int
    events: int
    decisions: int


def purge(database: Database, older_than_s: float, *, dry_run: bool = False) -> PurgeCounts:
    """Delete claims that ended, events, decisions and records older than so many seconds.

    Of dispatches those are deleted that the controller took.

    Claims over several zones count as claims. Records of operations and answers stay for
    ``RECORD_S`` at least. A claim of which a node or a hold is left stays. Each transaction deletes
    at most ``CHUNK`` claims, so that other processes do not wait long.
    """
    if dry_run:
        return database.read(lambda c: _count(c, older_than_s), "reading what is over")
    claims = events = 0
    while True:
        deleted = database.write(lambda c: _delete_claims(c, older_than_s), "forgetting claims")
        claims, events = claims + deleted.claims, events + deleted.events
        if deleted.claims < CHUNK:
            break
    rest = database.write(lambda c: _delete_rest(c, older_than_s), "forgetting what happened")
    return PurgeCounts(claims + rest.claims, events + rest.events, rest.decisions)


def _purgeable(older_than_s: float) -> sa.ColumnElement[bool]:
    """Return which claims to delete; a claim ended at its last event."""
    before = statement_time() - older_than_s
    of = _claims.c.id
    return sa.and_(
        _claims.c.state.in_(FINAL_STATES),
        _claims.c.created_at < before,
        ~sa.exists().where(_parts.c.claim_id == of),
        ~sa.exists().where(_nodes.c.claim_id == of),
        ~sa.exists().where(_events.c.claim_id == of, _events.c.at >= before),
    )


def _old_events(older_than_s: float) -> sa.ColumnElement[bool]:
    has_claim = sa.exists().where(_claims.c.id == _events.c.claim_id)
    return sa.and_(_events.c.at < statement_time() - older_than_s, ~has_claim)


def _old_decisions(older_than_s: float) -> sa.ColumnElement[bool]:
    return _decisions.c.decided_at < statement_time() - older_than_s


def _old_zone_claims(older_than_s: float) -> sa.ColumnElement[bool]:
    of = tables.zone_claims.c
    return sa.and_(of.state.in_(FINAL_STATES), of.created_at < statement_time() - older_than_s)


def _delete_claims(connection: sa.Connection, older_than_s: float) -> PurgeCounts:
    query = sa.select(_claims.c.id).where(_purgeable(older_than_s)).order_by(_claims.c.id)
    ids = connection.scalars(query.limit(CHUNK)).all()
    if not ids:
        return PurgeCounts(0, 0, 0)
    events = connection.execute(sa.delete(_events).where(_events.c.claim_id.in_(ids)))
    quotas.drop(connection, ids)
    connection.execute(sa.delete(_claims).where(_claims.c.id.in_(ids)))
    return PurgeCounts(len(ids), events.rowcount, 0)


def _delete_rest(connection: sa.Connection, older_than_s: float) -> PurgeCounts:
    events = connection.execute(sa.delete(_events).where(_old_events(older_than_s)))
    decisions = connection.execute(sa.delete(_decisions).where(_old_decisions(older_than_s)))
    zones = connection.execute(sa.delete(tables.zone_claims).where(_old_zone_claims(older_than_s)))
    # of what goes on now, or was answered just now, the caller may ask again
    old = tables.records.c.at < statement_time() - max(older_than_s, RECORD_S)
    connection.execute(sa.delete(tables.records).where(old))
    sent = tables.dispatches.c.sent_at < statement_time() - older_than_s
    connection.execute(sa.delete(tables.dispatches).where(sent))
    purge_groups(connection, max(older_than_s, RECORD_S))
    return PurgeCounts(zones.rowcount, events.rowcount, decisions.rowcount)


def _count(connection: sa.Connection, older_than_s: float) -> PurgeCounts:
    def count(table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return connection.scalar(query) or 0

    ended = sa.select(_claims.c.id).where(_purgeable(older_than_s))
    events = sa.or_(_old_events(older_than_s), _events.c.claim_id.in_(ended))
    zones = count(tables.zone_claims, _old_zone_claims(older_than_s))
    claims, decisions = count(_claims, _purgeable(older_than_s)), _old_decisions(older_than_s)
    return PurgeCounts(claims + zones, count(_events, events), count(_decisions, decisions))
