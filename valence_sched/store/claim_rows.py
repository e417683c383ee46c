# SPDX-License-Identifier: Apache-2.0
"""Claim rows: inserts, finds and updates claims, each step within one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from valence_sched.errors import ClaimLost, ClaimState, NameTaken, UnknownName, one_line
from valence_sched.model.claim import ACTIVE_STATES, Claim, ClaimPart, State
from valence_sched.model.inventory import to_json
from valence_sched.model.lifecycle import Event
from valence_sched.store import change_log, groups, tables
from valence_sched.store.holds import ExpiredConflict, hold, lock
from valence_sched.store.quarantine import one_readable, readable
from valence_sched.store.tables import key_of, now

_table = tables.claims
decode_parts = msgspec.json.Decoder(tuple[ClaimPart, ...]).decode
FIELDS = ("id", "state", "owner", "group", "key", "content", "created_at", "expires_at", "note")
_COLUMNS = (
    _table.c.id, _table.c.state, _table.c.owner, _table.c.group_name, _table.c.idempotency_key,
    _table.c.content, _table.c.created_at, _table.c.expires_at, _table.c.note, _table.c.document,
)  # fmt: skip
_INSERT = sa.insert(_table)


def consumer_key(owner: str | None, key: str | None) -> str | None:
    """Return the unique key of an owner's idempotency key, None without one."""
    return None if key is None else key_of(owner or "", key)


def insert(connection: sa.Connection, claim: Claim) -> None:
    """Insert a claim that may be expired from its end on; its row stands for its first event."""
    times = {"created_at": claim.created_at, "expires_at": claim.expires_at}
    connection.execute(_INSERT, {**columns(claim), **times, "sweep_at": claim.expires_at})


def columns(claim: Claim) -> dict[str, Any]:
    """Return the columns of a new claim, but for its times."""
    return {
        "id": claim.id,
        "state": claim.state,
        "owner": claim.owner,
        "group_name": claim.group,
        "idempotency_key": claim.key,
        "consumer_key": consumer_key(claim.owner, claim.key),
        "content": claim.content,
        "document": to_json(claim.parts),
    }


def find(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Claim]:
    """Return claims in the order in which they were created, but for what cannot be decoded."""
    query = sa.select(*_COLUMNS).where(*where).order_by(_table.c.created_at, _table.c.id)
    return _claims(connection, query)


def find_one(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Claim | None:
    """Return the claim of a unique key, None for none; Undecodable where it cannot be decoded."""
    row = connection.execute(sa.select(*_COLUMNS).where(where)).first()
    if row is None:
        return None
    return one_readable(connection, _table, "claim", row, _claim, row.owner)


def newest(
    connection: sa.Connection, most: int, skip: int, *where: sa.ColumnElement[bool]
) -> tuple[list[Claim], int]:
    """Return claims, the newest first, after ``skip`` newer ones, and how many there are in all."""
    order = (_table.c.created_at.desc(), _table.c.id)
    query = sa.select(*_COLUMNS).where(*where).order_by(*order).limit(most).offset(skip)
    count = sa.select(sa.func.count()).select_from(_table).where(*where)
    return _claims(connection, query), connection.scalar(count) or 0


def holds_of(connection: sa.Connection, podm: str) -> sa.ColumnElement[bool]:
    """Return whether a claim has a part on a pod manager, also one that has ended.

    The parts of those stand in their documents alone: a part begins with its pod manager.
    """
    words = sa.literal(b'{"podm":%s,"generation":' % to_json(podm), sa.LargeBinary)
    if connection.dialect.name == "postgresql":
        return sa.func.position(words.op("IN")(_table.c.document)) > 0
    return sa.func.instr(_table.c.document, words) > 0


def _claims(connection: sa.Connection, query: sa.Select[Any]) -> list[Claim]:
    return [*readable(connection, _table, connection.execute(query), _claim)]


def _claim(*values: Any) -> Claim:
    *scalars, document = values
    fields = dict(zip(FIELDS, scalars, strict=True))
    return msgspec.convert({**fields, "parts": decode_parts(document)}, Claim)


def get(connection: sa.Connection, claim_id: str) -> Claim:
    """Return a claim; UnknownName when there is none, Undecodable as to find one."""
    claim = find_one(connection, _table.c.id == claim_id)
    if claim is None:
        others = connection.scalars(sa.select(_table.c.id).order_by(_table.c.id).limit(50))
        raise UnknownName("claim", claim_id, others)
    return claim


def change_state(
    connection: sa.Connection, claim_id: str, before: Sequence[State], after: State,
    *where: sa.ColumnElement[bool], **values: Any,
) -> bool:  # fmt: skip
    """Move a claim to another state if it is in one of ``before``; return whether it was."""
    changed = connection.execute(
        sa.update(_table)
        .where(_table.c.id == claim_id, _table.c.state.in_(before), *where)
        .values(state=after, **values)
    )
    if changed.rowcount:
        add_event(connection, after.lower(), claim_id, words=values.get("note"))
    return bool(changed.rowcount)


def state_error(connection: sa.Connection, claim_id: str, reason: str) -> ClaimState:
    """Return the error of a claim whose state does not allow a change.

    One that is held past its time counts as expired, whether or not that has been stored.
    """
    claim, of = get(connection, claim_id), tables.claims.c
    is_over = connection.scalar(sa.select(of.sweep_at <= now()).where(of.id == claim_id))
    state = "EXPIRED" if claim.state == "HELD" and is_over else claim.state
    return ClaimState(one_line(f"claim {claim_id} is {state}: {reason}"))


def add_event(
    connection: sa.Connection, kind: str, claim_id: str, podm: str = "", words: str | None = None
) -> None:
    """Record what happened to a claim."""
    row = {
        "kind": kind,
        "claim_id": claim_id,
        "podm": podm or None,
        "words": words and words[:1024],
    }
    connection.execute(sa.insert(tables.events).values(at=now(), **row))


def end_hint(claim: Claim) -> str:
    """Return why a claim cannot be ended in its state."""
    if claim.state == "COMPOSING":
        return "something may be there by now: reap it once its time is over"
    ended = claim.state not in ACTIVE_STATES
    return "it has ended already" if ended else "that is not for this state"


def end(
    connection: sa.Connection,
    claim_id: str,
    before: Sequence[State],
    after: State,
    note: str | None,
) -> bool:
    """End a claim; from now on what it holds may be freed, and its key is free."""
    values = {"note": note, "consumer_key": None, "sweep_at": 0.0}
    return change_state(connection, claim_id, before, after, **values)


def add_part(connection: sa.Connection, claim_id: str, part: ClaimPart) -> Claim:
    """Add a part to a prepared claim, unless it holds one of this pod manager already."""
    parts, of = tables.claim_parts.c, tables.claims.c
    query = sa.select(parts.claim_id).where(parts.podm_key == key_of(part.podm))
    if connection.scalar(query.where(parts.claim_id == claim_id)) is None:
        hold(connection, claim_id, part, lock(connection, part))
    # after the row of the pod manager: every transaction locks them in this order
    state = connection.scalar(sa.select(of.state).where(of.id == claim_id).with_for_update())
    if state != "PREPARED":
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {state}", part.podm)
    return get(connection, claim_id)


def commit(connection: sa.Connection, claim_id: str, ttl_s: float, generation: int | None) -> Claim:
    """Make a prepared claim a held one: its one row decides for all its parts.

    From now on its nodes count as members of its group, of which ``generation`` is as of a claim.
    """
    claim = get(connection, claim_id)
    if claim.state == "HELD":  # the answer to an earlier commit was lost
        return claim
    if claim.group is not None:
        groups.lock(connection, claim.group, generation, claim.key)
        groups.advance(connection, claim.group)
    unexpired, expires_at = _table.c.sweep_at > now(), now() + ttl_s
    times = {"expires_at": expires_at, "sweep_at": expires_at}
    changed = change_state(connection, claim_id, ["PREPARED"], "HELD", unexpired, **times)
    held = get(connection, claim_id)
    if not changed:
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {held.state}")
    change_log.recount_claim(connection, map(key_of, claim.podms), claim_id)
    return held


def find_by_key(
    connection: sa.Connection, owner: str | None, key: str, content: str
) -> Claim | None:
    """Return the claim of an owner's key, None for none.

    Raises:
        ExpiredConflict, NameTaken: that claim has expired; it is of another content.
        ClaimLost: it is being prepared.
    """
    of = tables.claims.c
    claim = find_one(connection, of.consumer_key == consumer_key(owner, key))
    if claim is None:
        return None
    if connection.scalar(sa.select(of.sweep_at <= now()).where(of.id == claim.id)):
        raise ExpiredConflict
    if claim.content != content:
        raise NameTaken(one_line(f"key {key!r} stands for claim {claim.id}, which asked for "
                                 "something else: choose another key"))  # fmt: skip
    if claim.state == "PREPARED":
        raise ClaimLost(f"claim {claim.id} of the same key is being prepared", "", claim.id)
    return claim


def events(connection: sa.Connection, claim: str | None, last: int) -> list[Event]:
    """Return the ``last`` events, of one claim or of all, the oldest first."""
    of = tables.events.c
    query = sa.select(of.at, of.kind, of.claim_id.label("claim"), of.podm, of.words)
    if claim is not None:
        query = query.where(of.claim_id == claim)
    rows = connection.execute(query.order_by(of.number.desc()).limit(last)).mappings().all()
    history = _creation_events(connection, claim, last)
    history += [Event(**row) for row in reversed(rows)]
    if claim is None:  # of one claim, its creation always comes first
        history.sort(key=lambda event: event.at)
    return history[-last:]


def _creation_events(connection: sa.Connection, claim: str | None, last: int) -> list[Event]:
    of = tables.claims.c
    query = sa.select(of.id, of.created_at, of.owner, of.document)
    if claim is not None:
        query = query.where(of.id == claim)
    rows = connection.execute(query.order_by(of.created_at.desc(), of.id.desc()).limit(last)).all()

    def created(claim_id: str, at: float, owner: str | None, document: bytes) -> Event:
        kind = "prepared" if len(decode_parts(document)) > 1 else "held"
        return Event(at=at, kind=kind, claim=claim_id, words=owner)

    return [*readable(connection, tables.claims, reversed(rows), created)]
