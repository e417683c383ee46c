# SPDX-License-Identifier: Apache-2.0
"""Whole claims: one statement that checks and holds a plain part, on PostgreSQL and MariaDB.

A claim of which nothing need be counted is one fact: its pod manager is of the generation that was
decided on, and each of its blocks is free. So the rows that other claims wait for are locked for
one round trip, or two with the commit. Where it does not hold, and where there is something to
count (amounts, shared blocks, limits of the owner), the statement writes nothing or fails, and
those of :mod:`valence_sched.store.claims` find out why, or hold the claim.
"""

from __future__ import annotations

import functools

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, ClaimPart
from valence_sched.model.quota import claim_charges
from valence_sched.store import change_log, claim_rows, quotas, tables
from valence_sched.store.document import document_of
from valence_sched.store.tables import key_of

#: The lock comes first: all others read it. A statement that waited for it sees the row of the pod
#: manager as it is then; blocks that were held meanwhile are refused by their primary key.
_POSTGRESQL = """
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


#: The same one after another; what one of them wrote before another failed is rolled back.
_MARIADB = """
begin not atomic
    declare at double;
    declare found integer default 0;
    select 1 into found from podms
    where podm_key = %(podm)s and generation = %(generation)s and not gone
    and not exists (select 1 from shares where podm_key = %(podm)s and block_key in {blocks})
    and not exists (select 1 from quotas where owner_key in {owner_keys})
    for update;
    if found then
        set at = {now};
        insert into claims (id, state, owner, group_name, idempotency_key, consumer_key, content,
                            created_at, expires_at, sweep_at, document)
        values (%(id)s, %(state)s, %(owner)s, %(group_name)s, %(idempotency_key)s,
                %(consumer_key)s, %(content)s, at, at + %(ttl_s)s, at + %(ttl_s)s, %(document)s);
        {charges}
        insert into claimed_blocks (podm_key, block_key, slot, claim_id, uri) values {rows};
        update shards set moved = moved + 1 where shard = %(shard)s;
        insert into claim_parts (podm_key, claim_id, shard, moved)
        select %(podm)s, %(id)s, %(shard)s, moved from shards where shard = %(shard)s;
    end if;
    select created_at, expires_at from claims where id = %(id)s;
end
"""


def is_plain(part: ClaimPart) -> bool:
    """Return whether a part holds blocks alone, each for one node."""
    blocks = part.blocks.values()
    return bool(blocks) and set(blocks) <= {1} and not any(part.amounts.values())


def insert(connection: sa.Connection, claim: Claim, part: ClaimPart, ttl_s: float) -> Claim | None:
    """Hold a plain part with a new claim; return it with its times, None where nothing is written.

    Where it raises IntegrityError, what it wrote is to be rolled back. InvalidDocument is raised as
    for each document.
    """
    podm, owner_key = key_of(part.podm), quotas.owner_key(claim.owner)
    columns = claim_rows.columns(claim)
    document_of(tables.claims.c.document).check(columns["document"])  # the driver does not
    row = {
        **columns,
        "podm": podm,
        "generation": part.generation,
        "shard": change_log.shard_of(podm),
        "owner_key": owner_key,
        "ttl_s": float(ttl_s),
    }
    owners = [] if claim.owner is None else [owner_key, quotas.owner_key(None)]
    charges = {} if claim.owner is None else claim_charges(claim.parts)
    blocks = {key_of(uri): uri for uri in sorted(part.blocks, key=key_of)}
    if connection.dialect.name == "postgresql":
        text = _POSTGRESQL.format(now=_now(connection.dialect))
        row |= {"blocks": [*blocks], "uris": [*blocks.values()], "owner_keys": owners,
                "resources": [*charges], "amounts": [*charges.values()]}  # fmt: skip
    else:
        text = _mariadb_text(connection.dialect, len(owners), len(charges), len(blocks))
        for name, values in (("owner", owners), ("resource", charges), ("block", blocks)):
            row |= {f"{name}_{number}": value for number, value in enumerate(values)}
        row |= {f"amount_{number}": value for number, value in enumerate(charges.values())}
        row |= {f"uri_{number}": value for number, value in enumerate(blocks.values())}
    times = connection.exec_driver_sql(text, row).first()
    if times is None:
        return None
    return replace(claim, created_at=times[0], expires_at=times[1])


@functools.lru_cache(maxsize=100)
def _mariadb_text(dialect: sa.Dialect, owners: int, charges: int, blocks: int) -> str:
    """Return the statement for so many owners with limits, charges and blocks."""

    def rows(count: int, row: str) -> str:
        return ", ".join(row.replace("#", str(number)) for number in range(count))

    charge = "(%(id)s, %(resource_#)s, %(owner_key)s, %(amount_#)s)"
    into = "insert into quota_charges (claim_id, resource, owner_key, amount) values"
    return _MARIADB.format(
        now=_now(dialect),
        blocks=f"({rows(blocks, '%(block_#)s')})",
        owner_keys=f"({rows(owners, '%(owner_#)s') or 'null'})",
        charges=f"{into} {rows(charges, charge)};" if charges else "",
        rows=rows(blocks, "(%(podm)s, %(block_#)s, 0, %(id)s, %(uri_#)s)"),
    )


@functools.lru_cache(maxsize=8)
def _now(dialect: sa.Dialect) -> str:
    """Return the clock of the database."""
    return str(tables.now().compile(dialect=dialect))
