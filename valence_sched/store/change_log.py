# SPDX-License-Identifier: Apache-2.0
"""Change log: per-shard counters that tell a reader which pod managers changed.

They change in the last statements of a transaction. Another one that changes a pod manager of the
same shard waits, so that the counts of a shard become visible in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from valence_sched.store import tables

_shards, _podms, _parts = tables.shards, tables.podms, tables.claim_parts
_NUMBER = sa.bindparam("number", type_=sa.Integer)
_KEY = sa.bindparam("key", type_=sa.String)
_CLAIM = sa.bindparam("claim", type_=sa.String)
_COUNT = sa.select(_shards.c.moved).where(_shards.c.shard == _NUMBER).scalar_subquery()
_ADVANCE = sa.update(_shards).where(_shards.c.shard == _NUMBER).values(moved=_shards.c.moved + 1)
_MARK_USAGE = sa.update(_podms).where(_podms.c.podm_key == _KEY).values(shard=_NUMBER, moved=_COUNT)
_MARK_CONTENT = _MARK_USAGE.values(read_moved=_COUNT)
_PART = {"podm_key": _KEY, "claim_id": _CLAIM, "shard": _NUMBER, "moved": _COUNT}
_INSERT_PART = sa.insert(_parts).values(_PART)
_IS_PART = _parts.c.podm_key == _KEY, _parts.c.claim_id == _CLAIM
_RECOUNT_PART = sa.update(_parts).where(*_IS_PART).values(moved=_COUNT)


def shard_of(key: str) -> int:
    """Return the shard that counts the changes of a pod manager."""
    return int(key[:8], 16) % tables.SHARDS


def log_changes(
    connection: sa.Connection, usage: Iterable[str] = (), content: Iterable[str] = ()
) -> None:
    """Record the keys of pod managers whose usage changed, and of those whose content did."""
    marks: list[tuple[sa.Update, list[dict[str, Any]]]] = [
        (statement, [{"number": shard_of(key), "key": key} for key in sorted(keys)])
        for statement, keys in ((_MARK_USAGE, usage), (_MARK_CONTENT, content))
    ]
    shards = {row["number"] for _, rows in marks for row in rows}
    if shards:
        connection.execute(_ADVANCE, [{"number": shard} for shard in sorted(shards)])
    for statement, rows in marks:
        if rows:
            connection.execute(statement, rows)


def log_registry_change(connection: sa.Connection) -> None:
    """Record that the registrations of pod managers changed."""
    connection.execute(_ADVANCE, {"number": tables.REGISTRY_SHARD})


def log_zone_change(connection: sa.Connection) -> None:
    """Record that the child zones changed, or what is known of them."""
    connection.execute(_ADVANCE, {"number": tables.ZONES_SHARD})


def add_claim_part(connection: sa.Connection, key: str, claim_id: str) -> None:
    """Record that a claim holds a part of a pod manager from now on."""
    connection.execute(_ADVANCE, {"number": shard_of(key)})
    connection.execute(_INSERT_PART, {"number": shard_of(key), "key": key, "claim": claim_id})


def recount_claim(connection: sa.Connection, keys: Iterable[str], claim_id: str) -> None:
    """Record that the nodes of a claim count from now on: no row of a pod manager changes."""
    shards = {key: shard_of(key) for key in sorted(keys)}
    connection.execute(_ADVANCE, [{"number": shard} for shard in sorted({*shards.values()})])
    rows = [{"number": shard, "key": key, "claim": claim_id} for key, shard in shards.items()]
    connection.execute(_RECOUNT_PART, rows)
