# SPDX-License-Identifier: Apache-2.0
"""One consistent snapshot: pod managers and what is held of them, as far as it moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from valence_sched.model.inventory import LeanPodm
from valence_sched.model.usage import NOTHING_HELD, Held
from valence_sched.store import tables
from valence_sched.store.database import Counts
from valence_sched.store.tables import began, chunks
from valence_sched.store.usage import holdings

_podms, _parts, _shards = tables.podms.c, tables.claim_parts.c, tables.shards.c
_decoder = msgspec.json.Decoder(LeanPodm)
_over = sa.select(sa.func.count()).where(tables.claims.c.sweep_at <= began()).scalar_subquery()
_COUNTS = sa.select(_shards.shard, _shards.moved).union_all(sa.select(sa.literal(-1), _over))


@dataclass(frozen=True, slots=True)
class Known:
    """What a caller has seen: how far each shard had moved."""

    shards: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """A podm that moved. ``podm`` is None where the caller has this generation; or it is gone.

    ``held`` is all that is held of it, or, ``more``, only what was taken since the last look.
    """

    id: str
    generation: int
    gone: bool
    podm: LeanPodm | None
    held: Held = NOTHING_HELD
    more: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What moved since what was ``known``, and what is known with it.

    ``over`` counts the claims whose time is over: what they held is still held here.
    """

    seen: tuple[Seen, ...]
    known: Known
    over: int


@dataclass(frozen=True, slots=True)
class _Moved:
    """The row of a podm that moved; ``claims`` are those taken since, None: anything may be new."""

    key: str
    name: str
    generation: int
    gone: bool
    read: bool
    claims: tuple[str, ...] | None = None


def look(connection: sa.Connection, known: Known, counts: Counts) -> Look:
    """Return what moved; all reads are of one snapshot.

    Asks for the counts of the shards, and then only for podms of shards that moved.
    """
    shards = {shard: moved for shard, moved in connection.execute(_COUNTS)}  # noqa: C416
    over = shards.pop(-1)
    then = {shard: known.shards.get(shard, -1) for shard in shards}
    behind = [shard for shard in sorted(shards) if shards[shard] != then[shard]]
    moved = _moved(connection, then, behind)
    if known.shards:
        moved += _claimed(connection, then, behind, {one.key for one in moved})
    counts.rows_looked_at += len(shards) + sum(len(one.claims or "1") for one in moved)
    documents = _documents(connection, [one.key for one in moved if one.read and not one.gone])
    counts.podms_decoded += len(documents)
    whole = [one.key for one in moved if one.claims is None and not one.gone]
    held = holdings(connection, whole, everything=not known.shards)
    fresh = [claim for one in moved for claim in one.claims or ()]
    more = holdings(connection, [one.key for one in moved if one.claims], claims=fresh)
    counts.holdings_read += sum(len(some.blocks) for some in (*held.values(), *more.values()))
    seen = [
        Seen(one.name, one.generation, one.gone, documents.get(one.key),
             (held if one.claims is None else more).get(one.key, NOTHING_HELD),
             more=one.claims is not None)
        for one in moved
    ]  # fmt: skip
    return Look(tuple(sorted(seen, key=lambda one: one.id)), Known(shards), over)


def _moved(
    connection: sa.Connection, then: Mapping[int, int], behind: list[int]
) -> list[_Moved]:  # fmt: skip
    """Return podms of which anything but a new claim moved."""
    if not behind:
        return []
    newer = [sa.and_(_podms.shard == shard, _podms.moved > then[shard]) for shard in behind]
    query = sa.select(_podms.podm_key, _podms.name, _podms.generation, _podms.gone, _podms.shard,
                      _podms.read_moved).where(sa.or_(*newer))  # fmt: skip
    return [
        _Moved(key, name, generation, bool(gone), read_moved > then[shard])
        for key, name, generation, gone, shard, read_moved in connection.execute(query)
    ]


def _claimed(
    connection: sa.Connection, then: Mapping[int, int], behind: list[int], known: set[str]
) -> list[_Moved]:
    """Return podms of which nothing moved but that claims were taken."""
    if not behind:
        return []
    newer = [sa.and_(_parts.shard == shard, _parts.moved > then[shard]) for shard in behind]
    query = (
        sa.select(_parts.podm_key, _parts.claim_id, _podms.name, _podms.generation)
        .join(tables.podms, _podms.podm_key == _parts.podm_key)
        .where(sa.or_(*newer))
    )
    found: dict[str, _Moved] = {}
    for key, claim, name, generation in connection.execute(query):
        if key not in known:
            before = found[key].claims or () if key in found else ()
            found[key] = _Moved(key, name, generation, False, False, (*before, claim))
    return list(found.values())


def _documents(connection: sa.Connection, keys: list[str]) -> dict[str, LeanPodm]:
    query = sa.select(_podms.podm_key, _podms.generation, _podms.read_at, _podms.document)
    return {
        key: msgspec.structs.replace(_decoder.decode(text), generation=number, read_at=read_at)
        for some in chunks(keys)
        for key, number, read_at, text in connection.execute(query.where(_podms.podm_key.in_(some)))
    }
