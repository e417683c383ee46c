# SPDX-License-Identifier: Apache-2.0
"""One consistent snapshot: pod managers and what is held of them, as far as it moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec
import sqlalchemy as sa

from valence_sched.model.held import NOTHING_HELD, Held
from valence_sched.model.inventory import LeanPodm, Node
from valence_sched.store import claim_rows, tables
from valence_sched.store.columns import key_of, pairs
from valence_sched.store.database import Counts

CHUNK = 500
_podms = tables.podms.c
_decoder = msgspec.json.Decoder(LeanPodm)


@dataclass(frozen=True, slots=True)
class Known:
    """What a caller has seen: how far each shard had moved, and each podm's generation."""

    shards: Mapping[int, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """A podm that moved. ``podm`` is None where the caller has this generation; or it is gone."""

    id: str
    generation: int
    gone: bool
    podm: LeanPodm | None
    held: Held = NOTHING_HELD


@dataclass(frozen=True, slots=True)
class Look:
    """What moved since what was ``known``, and what is known with it."""

    seen: tuple[Seen, ...]
    known: Known


def look(connection: sa.Connection, known: Known, counts: Counts) -> Look:
    """Return what moved; all reads are of one snapshot.

    Asks for the counts of the shards, and then only for podms of shards that moved.
    """
    of = tables.shards.c
    shards = pairs(connection.execute(sa.select(of.shard, of.moved)))
    then = {shard: known.shards.get(shard, -1) for shard in shards}
    behind = [shard for shard in sorted(shards) if shards[shard] != then[shard]]
    rows = _moved(connection, then, behind)
    counts.rows_looked_at += len(shards) + len(rows)
    generations = dict(known.generations)
    fresh = [key for key, name, generation, gone in rows
             if not gone and generations.get(name) != generation]  # fmt: skip
    documents = _documents(connection, fresh)
    counts.podms_decoded += len(documents)
    held = _held(connection, [row[0] for row in rows if not row[3]], everything=not known.shards)
    seen = []
    for key, name, generation, gone in rows:
        podm = documents.get(key)
        seen.append(Seen(name, generation, bool(gone), podm, held.get(key, NOTHING_HELD)))
        if gone:
            generations.pop(name, None)
        else:
            generations[name] = generation
    return Look(tuple(sorted(seen, key=lambda one: one.id)), Known(shards, generations))


def held(connection: sa.Connection, names: Iterable[str]) -> dict[str, Held]:
    """Return what live claims hold of podms, by name, as far as they hold any."""
    keys = {key_of(name): name for name in names}
    return {
        keys[key]: one
        for key, one in _held(connection, list(keys), everything=True).items()
        if key in keys
    }


def _moved(
    connection: sa.Connection, then: Mapping[int, int], behind: list[int]
) -> list[tuple[str, str, int, bool]]:
    if not behind:
        return []
    newer = [sa.and_(_podms.shard == shard, _podms.moved > then[shard]) for shard in behind]
    query = sa.select(_podms.podm_key, _podms.name, _podms.generation, _podms.gone)
    rows = connection.execute(query.where(sa.or_(*newer)))
    return [(key, name, generation, gone) for key, name, generation, gone in rows]


def _documents(connection: sa.Connection, keys: list[str]) -> dict[str, LeanPodm]:
    query = sa.select(_podms.podm_key, _podms.generation, _podms.read_at, _podms.document)
    return {
        key: msgspec.structs.replace(_decoder.decode(text), generation=number, read_at=read_at)
        for some in _chunks(keys)
        for key, number, read_at, text in connection.execute(query.where(_podms.podm_key.in_(some)))
    }


def _held(connection: sa.Connection, keys: list[str], *, everything: bool) -> dict[str, Held]:
    """Return what live claims hold of podms; of every one at once where many were asked for."""
    found: dict[str, Held] = {}
    for some in [None] if everything and len(keys) > CHUNK else _chunks(keys):
        found |= _held_of(connection, some)
    return found


def _held_of(connection: sa.Connection, keys: list[str] | None) -> dict[str, Held]:
    blocks: dict[str, dict[str, int]] = {}
    amounts: dict[str, dict[str, float]] = {}
    nodes: dict[str, list[Node]] = {}

    def among(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        return sa.true() if keys is None else column.in_(keys)

    of = tables.claimed_blocks.c
    for key, uri in connection.execute(sa.select(of.podm_key, of.uri).where(among(of.podm_key))):
        here = blocks.setdefault(key, {})
        here[uri] = here.get(uri, 0) + 1
    some = tables.claimed_amounts.c
    query = sa.select(some.podm_key, some.uri, some.amount).where(among(some.podm_key))
    for key, uri, amount in connection.execute(query):
        stock = amounts.setdefault(key, {})
        stock[uri] = stock.get(uri, 0.0) + amount
    for key, node in _nodes_to_be(connection, among):
        nodes.setdefault(key, []).append(node)
    return {
        key: Held(blocks=blocks.get(key, {}), amounts=amounts.get(key, {}),
                  nodes=tuple(nodes.get(key, ())))
        for key in {*blocks, *amounts, *nodes}
    }  # fmt: skip


def _nodes_to_be(
    connection: sa.Connection, among: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]
) -> Iterator[tuple[str, Node]]:
    """Yield the nodes of claims that name an owner or a group, for those who keep company."""
    parts, claims = tables.claim_parts, tables.claims.c
    query = (
        sa.select(parts.c.podm_key, claims.id, claims.owner, claims.group_name, claims.document)
        .join(tables.claims, claims.id == parts.c.claim_id)
        .where(among(parts.c.podm_key))
        .where(sa.or_(claims.owner.is_not(None), claims.group_name.is_not(None)))
        .order_by(claims.created_at, claims.id)
    )
    for key, claim, owner, group, document in connection.execute(query):
        for part in claim_rows.parts(document):
            if key_of(part.podm) == key:
                for share in part.shares:
                    uri = f"claim:{claim}#{share.node}"
                    yield key, Node(uri=uri, owner=owner, group=group, blocks=share.blocks)


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    rest = iter(keys)
    while some := list(islice(rest, CHUNK)):
        yield some
