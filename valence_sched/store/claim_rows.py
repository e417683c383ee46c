# SPDX-License-Identifier: Apache-2.0
"""Claims as rows: written, found, moved from state to state, and what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from valence_sched.errors import ClaimState, UnknownName, one_line
from valence_sched.model.claim import Claim, Part, State
from valence_sched.model.inventory import to_json
from valence_sched.store import tables
from valence_sched.store.columns import key_of, now

_table = tables.claims
parts = msgspec.json.Decoder(tuple[Part, ...]).decode
_COLUMNS = (
    _table.c.id, _table.c.state, _table.c.owner, _table.c.group_name, _table.c.idempotency_key,
    _table.c.content, _table.c.created_at, _table.c.expires_at, _table.c.note, _table.c.document,
)  # fmt: skip
_INSERT = sa.insert(_table)


def consumer_key(owner: str | None, key: str | None) -> str | None:
    """Return what stands for a consumer's idempotency key, None without one."""
    return None if key is None else key_of(owner or "", key)


def insert(connection: sa.Connection, claim: Claim) -> None:
    """Write a new claim that may be swept once its time is over; that it is new, its row says."""
    row = {
        "id": claim.id,
        "state": claim.state,
        "owner": claim.owner,
        "group_name": claim.group,
        "idempotency_key": claim.key,
        "consumer_key": consumer_key(claim.owner, claim.key),
        "content": claim.content,
        "created_at": claim.created_at,
        "expires_at": claim.expires_at,
        "sweep_at": claim.expires_at,
        "document": to_json(claim.parts),
    }
    connection.execute(_INSERT, row)


def found(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Claim]:
    """Return claims in the order in which they were made."""
    query = sa.select(*_COLUMNS).where(*where).order_by(_table.c.created_at, _table.c.id)
    return [
        Claim(id=id_, state=state, owner=owner, group=group, key=key, content=content,
              created_at=created_at, expires_at=expires_at, note=note,
              parts=parts(document))
        for id_, state, owner, group, key, content, created_at, expires_at, note, document
        in connection.execute(query)
    ]  # fmt: skip


def one(connection: sa.Connection, claim_id: str) -> Claim:
    """Return a claim; UnknownName when there is none."""
    claims = found(connection, _table.c.id == claim_id)
    if not claims:
        some = connection.scalars(sa.select(_table.c.id).order_by(_table.c.id).limit(50))
        raise UnknownName("claim", claim_id, some)
    return claims[0]


def move(
    connection: sa.Connection,
    claim_id: str,
    before: Sequence[State],
    after: State,
    *where: sa.ColumnElement[bool],
    **values: Any,
) -> bool:
    """Move a claim to another state if it is in one of ``before``; return whether it was."""
    changed = connection.execute(
        sa.update(_table)
        .where(_table.c.id == claim_id, _table.c.state.in_(before), *where)
        .values(state=after, **values)
    )
    if changed.rowcount:
        event(connection, after.lower(), claim_id, words=values.get("note"))
    return bool(changed.rowcount)


def refuse(connection: sa.Connection, claim_id: str, what: str) -> ClaimState:
    """Return why a claim cannot be moved: what it is by now."""
    claim = one(connection, claim_id)
    return ClaimState(one_line(f"claim {claim_id} is {claim.state}: {what}"))


def event(
    connection: sa.Connection,
    kind: str,
    claim_id: str | None = None,
    podm: str | None = None,
    words: str | None = None,
) -> None:
    """Note what happened."""
    connection.execute(
        sa.insert(tables.events).values(
            at=now(), kind=kind, claim_id=claim_id, podm=podm, words=words and words[:1024]
        )
    )
