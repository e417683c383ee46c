# SPDX-License-Identifier: Apache-2.0
"""Whole claims: one statement that checks and holds a plain part on PostgreSQL, and its limits.

A claim of which nothing need be counted is one fact: its pod manager is of the generation that was
decided on, and each of its blocks is free. The statement commits by itself, so that the rows that
other claims wait for are locked for one round trip. Where it does not hold, and where there is
something to count (amounts, shared blocks, limits of the owner), it writes nothing, and the
statements of :mod:`valence_sched.store.claims` find out why, or hold the claim.
"""

from __future__ import annotations

import functools

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, ClaimPart
from valence_sched.model.quota import claim_charges
from valence_sched.store import change_log, claim_rows, quotas, tables
from valence_sched.store.tables import key_of

#: The lock comes first: all others read it. A statement that waited for it sees the row of the pod
#: manager as it is then; blocks that were held meanwhile are refused by their primary key.
_STATEMENT = """
with podm as materialized (
    select podm_key from podms
    where podm_key = %(podm)s and generation = %(generation)s and not gone
    and not exists (select 1 from shares
                    where podm_key = %(podm)s and block_key = any(cast(%(blocks)s as text[])))
    and not exists (select 1 from quotas where owner_key = any(cast(%(owner_keys)s as text[])))
    for update of podms),
clock as materialized (select {now} as at from podm),
claim as (
    insert into claims (id, state, owner, group_name, idempotency_key, consumer_key, content,
                        created_at, expires_at, sweep_at, document)
    select %(id)s, %(state)s, %(owner)s, %(group_name)s, %(idempotency_key)s, %(consumer_key)s,
           %(content)s, at, at + %(ttl_s)s, at + %(ttl_s)s, %(document)s
    from clock returning created_at, expires_at),
charges as (
    insert into quota_charges (claim_id, resource, owner_key, amount)
    select %(id)s, resource, %(owner_key)s, amount from podm, unnest(
        cast(%(resources)s as text[]), cast(%(amounts)s as double precision[]))
        as charge (resource, amount)),
blocks as (
    insert into claimed_blocks (podm_key, block_key, slot, claim_id, uri)
    select podm_key, block_key, 0, %(id)s, uri from podm, unnest(
        cast(%(blocks)s as text[]), cast(%(uris)s as text[])) as block (block_key, uri)),
counted as (
    update shards set moved = moved + 1 from podm where shard = %(shard)s returning moved),
part as (
    insert into claim_parts (podm_key, claim_id, shard, moved)
    select podm_key, %(id)s, %(shard)s, moved from podm, counted)
select created_at, expires_at from claim
"""


def is_plain(part: ClaimPart) -> bool:
    """Return whether a part holds blocks alone, each for one node."""
    return not any(part.amounts.values()) and set(part.blocks.values()) <= {1}


def insert(connection: sa.Connection, claim: Claim, part: ClaimPart, ttl_s: float) -> Claim | None:
    """Hold a plain part with a new claim; return it with its times, None where nothing is written.

    The connection commits each statement by itself.
    """
    podm, owner_key = key_of(part.podm), quotas.owner_key(claim.owner)
    charges = {} if claim.owner is None else claim_charges(claim.parts)
    blocks = sorted((key_of(uri), uri) for uri in part.blocks)
    row = {
        **claim_rows.columns(claim),
        "podm": podm,
        "generation": part.generation,
        "blocks": [key for key, _ in blocks],
        "uris": [uri for _, uri in blocks],
        "shard": change_log.shard_of(podm),
        "owner_key": owner_key,
        "owner_keys": [] if claim.owner is None else [owner_key, quotas.owner_key(None)],
        "resources": list(charges),
        "amounts": list(charges.values()),
        "ttl_s": float(ttl_s),
    }
    try:
        times = connection.exec_driver_sql(_text(connection.dialect), row).first()
    except sa.exc.IntegrityError:
        return None
    if times is None:
        return None
    return replace(claim, created_at=times[0], expires_at=times[1])


@functools.lru_cache(maxsize=8)
def _text(dialect: sa.Dialect) -> str:
    """Return the statement with the clock of the database."""
    return _STATEMENT.format(now=tables.now().compile(dialect=dialect))
