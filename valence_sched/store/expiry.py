# SPDX-License-Identifier: Apache-2.0
"""Expiry: ends expired claims, frees their holds, and purges old records.

A claim ends by a change of its state. Any process then drops its rows, in one transaction for each
pod manager. The clock of the database applies. A store in a file uses the clock of the machine,
which may be set while claims are held: each boot has a row with the difference between clock and
uptime. If this difference changes, the expiry of every claim moves by the same amount. After a
reboot, time continues from the last recorded time.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from valence_sched.errors import StoreError
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES
from valence_sched.model.quantity import format_count
from valence_sched.store import claim_rows, holds, tables
from valence_sched.store.database import Database
from valence_sched.store.tables import CHUNK, now, statement_time

RECORD_S = 3600.0  # minimum age of records of operations and answers

_claims, _parts, _nodes = tables.claims, tables.claim_parts, tables.nodes
_events, _decisions = tables.events, tables.decisions


def expire_claims(database: Database) -> None:
    query = sa.select(_claims.c.id).where(_claims.c.sweep_at <= statement_time())
    for claim_id in database.read(lambda c: c.scalars(query).all(), "reading claims"):
        database.write(lambda c, id_=claim_id: _expire(c, id_), "ending a claim")  # type: ignore[misc]
        free_claim(database, claim_id)


def free_claim(database: Database, claim_id: str) -> None:
    """Drop the holds of an ended claim, one pod manager after another."""
    query = sa.select(_parts.c.podm_key).where(_parts.c.claim_id == claim_id)
    for key in sorted(database.read(lambda c: c.scalars(query).all(), "reading claims")):
        database.write(lambda c, key=key: _drop(c, claim_id, key), "freeing a claim")  # type: ignore[misc]
    database.write(lambda c: _mark_freed(c, claim_id), "freeing a claim")


def _expire(connection: sa.Connection, claim_id: str) -> bool:
    ended = {"consumer_key": None, "sweep_at": 0.0}
    due = _claims.c.sweep_at <= now()
    return claim_rows.change_state(
        connection, claim_id, ["PREPARED", "HELD"], "EXPIRED", due, **ended
    )


def _drop(connection: sa.Connection, claim_id: str, key: str) -> None:
    podm = tables.podms.c.podm_key
    connection.execute(sa.select(podm).where(podm == key).with_for_update())
    query = sa.select(_claims.c.sweep_at <= now()).where(_claims.c.id == claim_id)
    if connection.scalar(query) and holds.drop(connection, claim_id, key):
        tables.log_changes(connection, [key])


def _mark_freed(connection: sa.Connection, claim_id: str) -> None:
    held = sa.exists().where(_parts.c.claim_id == claim_id)
    ended = sa.and_(_claims.c.id == claim_id, _claims.c.sweep_at <= now(), ~held)
    connection.execute(sa.update(_claims).where(ended).values(sweep_at=None))
    state = connection.scalar(sa.select(_claims.c.state).where(_claims.c.id == claim_id))
    if state in FINAL_STATES:
        claim_rows.delete_charges(connection, [claim_id])


class PurgeCounts(NamedTuple):
    """The numbers of deleted claims and decisions, or of those to delete."""

    claims: int
    decisions: int


def purge(database: Database, older_than_s: float, *, dry_run: bool = False) -> PurgeCounts:
    """Delete old ended claims, events, decisions, accepted dispatches and records.

    Claims over several zones are included. Records of operations and answers stay for at least
    ``RECORD_S``. A claim with a node or a hold stays. Each transaction deletes at most ``CHUNK``
    claims, so that other processes do not wait long.
    """
    if dry_run:
        return database.read(lambda c: _count(c, older_than_s), "counting old records")
    claims, deleted = 0, CHUNK
    while deleted == CHUNK:
        deleted = database.write(lambda c: _delete_claims(c, older_than_s), "deleting claims")
        claims += deleted
    rest = database.write(lambda c: _delete_rest(c, older_than_s), "deleting old records")
    return PurgeCounts(claims + rest.claims, rest.decisions)


def _purgeable(older_than_s: float) -> sa.ColumnElement[bool]:
    """Return the condition of claims to delete; a claim ended at the time of its last event."""
    before = statement_time() - older_than_s
    of = _claims.c.id
    return sa.and_(
        _claims.c.state.in_(FINAL_STATES),
        _claims.c.created_at < before,
        ~sa.exists().where(_parts.c.claim_id == of),
        ~sa.exists().where(_nodes.c.claim_id == of),
        ~sa.exists().where(_events.c.claim_id == of, _events.c.at >= before),
    )


def _old_rows(older_than_s: float) -> dict[sa.Table, sa.ColumnElement[bool]]:
    """Return the conditions of old rows by table, without claims."""
    before, zone_claim = statement_time() - older_than_s, tables.zone_claims.c
    # a caller may repeat a request that is running or was just answered; no decision takes longer
    unused = statement_time() - max(older_than_s, RECORD_S)
    has_claim = sa.exists().where(_claims.c.id == _events.c.claim_id)
    has_ended = zone_claim.state.in_(FINAL_STATES)
    return {
        tables.zone_claims: sa.and_(has_ended, zone_claim.created_at < before),
        _decisions: _decisions.c.decided_at < before,
        _events: sa.and_(_events.c.at < before, ~has_claim),
        tables.dispatches: tables.dispatches.c.sent_at < before,
        tables.records: tables.records.c.at < unused,
        tables.group_generations: tables.group_generations.c.moved_at < unused,
    }


def _delete_claims(connection: sa.Connection, older_than_s: float) -> int:
    query = sa.select(_claims.c.id).where(_purgeable(older_than_s)).order_by(_claims.c.id)
    ids = connection.scalars(query.limit(CHUNK)).all()
    if ids:
        connection.execute(sa.delete(_events).where(_events.c.claim_id.in_(ids)))
        claim_rows.delete_charges(connection, ids)
        connection.execute(sa.delete(_claims).where(_claims.c.id.in_(ids)))
    return len(ids)


def _delete_rest(connection: sa.Connection, older_than_s: float) -> PurgeCounts:
    old = _old_rows(older_than_s).items()
    deleted = {one: connection.execute(sa.delete(one).where(where)).rowcount for one, where in old}
    return PurgeCounts(deleted[tables.zone_claims], deleted[_decisions])


def _count(connection: sa.Connection, older_than_s: float) -> PurgeCounts:
    old = {**_old_rows(older_than_s), _claims: _purgeable(older_than_s)}
    claims, zones, decisions = (
        connection.scalar(sa.select(sa.func.count()).select_from(one).where(old[one])) or 0
        for one in (_claims, tables.zone_claims, _decisions)
    )
    return PurgeCounts(claims + zones, decisions)


TOLERANCE_S = 5.0  # smaller clock corrections are common
KEEP_S = 90 * 86400.0  # rows of earlier boots
_clocks = tables.clocks


class Boot(NamedTuple):
    """A boot of the machine, and the seconds since then, including suspension."""

    id: str
    uptime_s: float


def read_boot() -> Boot | None:
    """Return the present boot, None if the kernel is not Linux."""
    try:
        id_ = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return Boot(id_, float(Path("/proc/uptime").read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return None


class ClockWatch:
    """Compares the clock of the machine with its uptime before transactions of an embedded store.

    The clocks are compared when the result of ``ahead`` changes, which is cheap to call. ``remark``
    receives a line about moved expiries.
    """

    def __init__(
        self,
        remark: Callable[[str], object] = lambda _line: None,
        boot: Callable[[], Boot | None] = read_boot,
        ahead: Callable[[], float] = lambda: time.time() - time.monotonic(),
    ) -> None:
        self._remark, self._boot, self._ahead = remark, boot, ahead
        self._compared: float | None = None

    def __call__(self, database: Database) -> None:
        """Move the expiry of claims if the clock was set since the last comparison."""
        ahead, doing = self._ahead(), "comparing clocks"
        if self._compared is not None and abs(ahead - self._compared) <= TOLERANCE_S / 2:
            return
        if database.run_unwatched(self.jump_s, doing, write=False) != 0.0:
            with contextlib.suppress(StoreError):  # for a user with read access only
                if line := database.run_unwatched(self.follow, doing, write=True):
                    self._remark(f"{database.address}: {line}")
        self._compared = ahead

    def jump_s(self, connection: sa.Connection) -> float | None:
        """Return the jump of the clock, None for a boot that is new to this store."""
        boot = self._boot()
        if boot is None:
            return 0.0
        stored = connection.scalar(sa.select(_clocks.c.ahead_s).where(_clocks.c.boot == boot.id))
        if stored is None:
            return None
        jump = tables.time_s(connection) - boot.uptime_s - stored
        return jump if abs(jump) > TOLERANCE_S else 0.0

    def follow(self, connection: sa.Connection) -> str:
        """Move the expiry of claims by the jump of the clock; return a line about it."""
        boot, jump = self._boot(), self.jump_s(connection)
        if boot is None or jump == 0.0:
            return ""
        wall = tables.time_s(connection)
        if jump is None:
            seen = (tables.events.c.at, _claims.c.created_at, _clocks.c.noted_at)
            times = [connection.scalar(sa.select(sa.func.max(column))) or 0.0 for column in seen]
            jump = min(0.0, wall - max(times) + TOLERANCE_S)
        connection.execute(sa.delete(_clocks).where(_clocks.c.boot == boot.id))
        connection.execute(sa.delete(_clocks).where(_clocks.c.noted_at < wall - KEEP_S))
        row = {"boot": boot.id, "ahead_s": wall - boot.uptime_s, "noted_at": wall}
        connection.execute(sa.insert(_clocks).values(row))
        return _move_ends(connection, jump) if jump else ""


def _move_ends(connection: sa.Connection, jump_s: float) -> str:
    of = _claims.c
    ends = sa.and_(of.state.in_(ACTIVE_STATES), of.expires_at.is_not(None))
    swept = sa.case((of.sweep_at > 0, of.sweep_at + jump_s), else_=of.sweep_at)
    update = sa.update(_claims).where(ends)
    moved = connection.execute(update.values(expires_at=of.expires_at + jump_s, sweep_at=swept))
    lease_end = tables.leases.c.expires_at
    connection.execute(sa.update(tables.leases).values(expires_at=lease_end + jump_s))
    if not moved.rowcount:
        return ""
    way, count = "ahead" if jump_s > 0 else "back", format_count(moved.rowcount, "claim")
    text = f"the clock of this machine was set {way} by {abs(jump_s):,.0f} s"
    return f"{text}: the expiry of {count} moved with it"
