# SPDX-License-Identifier: Apache-2.0
"""One consistent snapshot: pod managers and what is held of them, as far as it moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.inventory import LeanPodm
from valence_sched.model.usage import NO_USAGE, Usage
from valence_sched.store import podms, tables
from valence_sched.store.database import WorkCounts
from valence_sched.store.tables import statement_time
from valence_sched.store.usage import usages

_podms, _parts, _shards = tables.podms.c, tables.claim_parts.c, tables.shards.c
_over = (
    sa.select(sa.func.count()).where(tables.claims.c.sweep_at <= statement_time()).scalar_subquery()
)
_COUNTS = sa.select(_shards.shard, _shards.moved).union_all(sa.select(sa.literal(-1), _over))


@dataclass(frozen=True, slots=True)
class LogPosition:
    """What a caller has seen: how far each shard had moved."""

    shards: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodmChange:
    """A podm that moved. ``podm`` is None where the caller has this generation; or it is gone.

    ``held`` is all that is held of it, or, ``more``, only what was taken since the last look.
    """

    id: str
    generation: int
    gone: bool
    podm: LeanPodm | None
    usage: Usage = NO_USAGE
    incremental: bool = False


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """What moved since what was ``known``, and what is known with it.

    ``over`` counts the claims whose time is over: what they held is still held here.
    """

    changes: tuple[PodmChange, ...]
    position: LogPosition
    expired_claims: int


@dataclass(frozen=True, slots=True)
class _ChangedRow:
    """The row of a podm that moved; ``claims`` are those taken since, None: anything may be new."""

    key: str
    name: str
    generation: int
    gone: bool
    read: bool
    read_at: str | None = None
    claims: tuple[str, ...] | None = None


def take_snapshot(
    connection: sa.Connection,
    since: LogPosition,
    known: Mapping[str, LeanPodm],
    counts: WorkCounts,
) -> StoreSnapshot:
    """Return what moved; all reads are of one snapshot.

    Asks for the counts of the shards, and then only for podms of shards that moved.
    """
    shards = {shard: moved for shard, moved in connection.execute(_COUNTS)}  # noqa: C416
    over = shards.pop(-1)
    then = {shard: since.shards.get(shard, -1) for shard in shards}
    behind = [shard for shard in sorted(shards) if shards[shard] != then[shard]]
    moved = _changed_rows(connection, then, behind)
    if since.shards:
        moved += _newly_claimed(connection, then, behind, {one.key for one in moved})
    counts.rows_read += len(shards) + sum(len(one.claims or "1") for one in moved)
    documents = _podms_of(
        connection, [row for row in moved if row.read and not row.gone], known, counts
    )
    whole = [one.key for one in moved if one.claims is None and not one.gone]
    held = usages(connection, whole, everything=not since.shards)
    fresh = [claim for one in moved for claim in one.claims or ()]
    more = usages(connection, [one.key for one in moved if one.claims], claims=fresh)
    counts.usages_read += sum(len(some.blocks) for some in (*held.values(), *more.values()))
    seen = [
        PodmChange(one.name, one.generation, one.gone, documents.get(one.key),
             (held if one.claims is None else more).get(one.key, NO_USAGE),
             incremental=one.claims is not None)
        for one in moved
    ]  # fmt: skip
    return StoreSnapshot(tuple(sorted(seen, key=lambda one: one.id)), LogPosition(shards), over)


def _changed_rows(
    connection: sa.Connection, then: Mapping[int, int], behind: list[int]
) -> list[_ChangedRow]:  # fmt: skip
    """Return podms of which anything but a new claim moved."""
    if not behind:
        return []
    newer = [sa.and_(_podms.shard == shard, _podms.moved > then[shard]) for shard in behind]
    query = sa.select(_podms.podm_key, _podms.name, _podms.generation, _podms.gone, _podms.shard,
                      _podms.read_moved, _podms.read_at).where(sa.or_(*newer))  # fmt: skip
    return [
        _ChangedRow(key, name, generation, bool(gone), read_moved > then[shard], read_at)
        for key, name, generation, gone, shard, read_moved, read_at in connection.execute(query)
    ]


def _newly_claimed(
    connection: sa.Connection, then: Mapping[int, int], behind: list[int], known: set[str]
) -> list[_ChangedRow]:
    """Return podms of which nothing moved but that claims were taken."""
    if not behind:
        return []
    newer = [sa.and_(_parts.shard == shard, _parts.moved > then[shard]) for shard in behind]
    query = (
        sa.select(_parts.podm_key, _parts.claim_id, _podms.name, _podms.generation)
        .join(tables.podms, _podms.podm_key == _parts.podm_key)
        .where(sa.or_(*newer))
    )
    found: dict[str, _ChangedRow] = {}
    for key, claim, name, generation in connection.execute(query):
        if key not in known:
            before = found[key].claims or () if key in found else ()
            found[key] = _ChangedRow(key, name, generation, False, False, claims=(*before, claim))
    return list(found.values())


def _podms_of(
    connection: sa.Connection,
    rows: Sequence[_ChangedRow],
    known: Mapping[str, LeanPodm],
    counts: WorkCounts,
) -> dict[str, LeanPodm]:
    """Return pod managers by key: those that the caller knows at this generation, others read."""
    found = {}
    for row in rows:
        podm = known.get(row.name)
        if podm is not None and podm.generation == row.generation:
            same_time = podm.read_at == row.read_at
            found[row.key] = podm if same_time else replace(podm, read_at=row.read_at)
    unknown = [row.key for row in rows if row.key not in found]
    counts.podms_decoded += len(unknown)
    return found | {
        key: stored.lean() for key, stored in podms.documents(connection, unknown).items()
    }
