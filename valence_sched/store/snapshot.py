# SPDX-License-Identifier: Apache-2.0
"""Snapshot: the pod managers and their usage that changed since a log position."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import NO_USAGE, Usage
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.store import tables
from valence_sched.store.database import Database, WorkCounts
from valence_sched.store.document import readable
from valence_sched.store.podms import StoredPodm, decodable, documents
from valence_sched.store.registry import known_failure
from valence_sched.store.tables import statement_time
from valence_sched.store.usage import usages

_podms, _parts, _shards = tables.podms.c, tables.claim_parts.c, tables.shards.c
_expired = sa.select(sa.func.count()).where(tables.claims.c.sweep_at <= statement_time())
_COUNTS = sa.select(_shards.shard, _shards.moved).union_all(
    sa.select(sa.literal(-1), _expired.scalar_subquery())
)
_TOTALS = sa.select(
    sa.func.coalesce(sa.func.sum(_shards.moved), 0),
    sa.func.coalesce(sa.func.sum(_shards.moved * (_shards.shard + 2)), 0),
    _expired.scalar_subquery(),
)


def log_counts(connection: sa.Connection) -> dict[int, int]:
    """Return the count of each shard of the change log, and of claims to be freed as -1.

    With equal ones nothing that is decided on changed.
    """
    return {shard: count for shard, count in connection.execute(_COUNTS)}  # noqa: C416


class LogTotals(NamedTuple):
    """The counts of the change log in one row: their sum, a weighted one, and claims to be freed.

    No count ever falls, so with equal sums none has risen; the weights tell a state apart that was
    restored and has changed as often since.
    """

    sum: int
    weighted: int
    expired: int


def log_totals(database: Database) -> LogTotals:
    """Return the totals of the change log, which cost a fraction of its counts."""
    return LogTotals(*map(int, database.read_row(_TOTALS, "looking")))


def registry_count(connection: sa.Connection) -> int:
    """Return the count of the shard of registrations."""
    query = sa.select(_shards.moved).where(_shards.shard == tables.REGISTRY_SHARD)
    return int(connection.scalar(query) or 0)


@dataclass(frozen=True)
class LogPosition:
    """The count of each shard of the change log that a caller has read up to."""

    shards: Mapping[int, int] = field(default_factory=dict)

    @functools.cached_property
    def changes(self) -> int:
        return sum(self.shards.values())

    @functools.cached_property
    def _weighted(self) -> int:
        return sum(count * (shard + 2) for shard, count in self.shards.items())

    def is_at(self, totals: LogTotals) -> bool:
        sums = totals.sum, totals.weighted
        return bool(self.shards) and (self.changes, self._weighted) == sums

    def is_before(self, other: LogPosition) -> bool:
        """Return whether no shard of another position has a lower count."""
        return all(other.shards.get(shard, -1) >= count for shard, count in self.shards.items())


class ReportedSwitch(msgspec.Struct, frozen=True):
    """Whether a pod manager reported that it is enabled, None where it did not say."""

    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class PodmChange:
    """A pod manager that changed; ``podm`` is None if its content did not, or if it is gone.

    ``usage`` is all that claims hold of it or, if ``incremental``, only what new claims hold: then
    nothing else changed. ``failure`` is why it is not read at present. ``report`` has what counts
    of its own report, None where it never reported. One that cannot be decoded counts as gone.
    ``read_at`` is when it was read last, also where that changed nothing.
    """

    id: str
    gone: bool
    podm: LeanPodm | None
    usage: Usage = NO_USAGE
    incremental: bool = False
    failure: ReadFailure | None = None
    report: ReportedSwitch | None = None
    read_at: str | None = None


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The changes since a position, and the position after them.

    ``expired_claims`` counts the claims whose time is over but whose holds are in ``changes``.
    ``registry_changed`` says whether registrations changed, too.
    """

    changes: tuple[PodmChange, ...]
    position: LogPosition
    expired_claims: int
    registry_changed: bool = False


@dataclass(frozen=True, slots=True)
class _ChangedRow:
    """The row of a changed pod manager; ``claims`` are the new ones, None: anything may be new.

    Where only claims are new, none of its other columns is read.
    """

    key: str
    name: str
    gone: bool = False
    content_changed: bool = False
    generation: int = 0
    read_at: str | None = None
    failure: bytes | None = None
    stats: bytes | None = None
    claims: tuple[str, ...] | None = None


def take_snapshot(
    connection: sa.Connection, since: LogPosition, known: Mapping[str, LeanPodm], counts: WorkCounts
) -> StoreSnapshot:
    """Return the changes since a position; all reads are of one database snapshot.

    Reads the counts of the shards of the change log, and then only pod managers of shards that
    changed.
    """
    shards = log_counts(connection)
    expired = shards.pop(-1)
    before = {shard: since.shards.get(shard, -1) for shard in shards}
    behind = [shard for shard in sorted(shards) if shards[shard] != before[shard]]
    if not behind:
        counts.rows_read += len(shards)
        return StoreSnapshot((), LogPosition(shards), expired)
    registry_changed = tables.REGISTRY_SHARD in behind
    behind = [shard for shard in behind if shard < tables.SHARDS]
    newer = (sa.and_(_podms.shard == shard, _podms.moved > before[shard]) for shard in behind)
    is_first = all(count < 0 for count in before.values())  # then all are newer
    rows = _rows(connection, before, sa.true() if is_first else sa.or_(*newer)) if behind else []
    if since.shards and behind:
        rows += _newly_claimed(connection, before, behind, {row.key for row in rows})
    counts.rows_read += len(shards) + sum(len(row.claims or "1") for row in rows)
    changed = [row for row in rows if row.content_changed and not row.gone]
    podms, decoded = _changed_podms(connection, changed, known)
    counts.podms_decoded += decoded
    lost = {row.key for row in changed} - podms.keys()
    total_keys = [row.key for row in rows if row.claims is None and not row.gone]
    total = usages(connection, total_keys, everything=not since.shards)
    claims = [claim for row in rows for claim in row.claims or ()]
    added = usages(connection, [row.key for row in rows if row.claims], claims=claims)
    counts.usages_read += sum(len(usage.blocks) for usage in (*total.values(), *added.values()))
    changes = []
    for row in sorted(rows, key=lambda row: row.name):
        usage = (total if row.claims is None else added).get(row.key, NO_USAGE)
        podm, is_gone = podms.get(row.key), row.gone or row.key in lost
        failure = known_failure(connection, row.name, row.failure)
        rest = row.claims is not None, failure, _report(connection, row), row.read_at
        changes.append(PodmChange(row.name, is_gone, podm, usage, *rest))
    return StoreSnapshot(tuple(changes), LogPosition(shards), expired, registry_changed)


class _Report(msgspec.Struct, frozen=True):
    stats: ReportedSwitch


def _report(connection: sa.Connection, row: _ChangedRow) -> ReportedSwitch | None:
    rows = [(row.name, row.stats)] if row.stats is not None else []
    decode = msgspec.json.Decoder(_Report).decode
    return next(readable(connection, tables.podms, rows, lambda _, text: decode(text).stats), None)


def _rows(
    connection: sa.Connection, before: Mapping[int, int], where: sa.ColumnElement[bool]
) -> list[_ChangedRow]:
    first = _podms.podm_key, _podms.name, _podms.gone, _podms.shard, _podms.read_moved
    query = sa.select(*first, _podms.generation, _podms.read_at, _podms.failure, _podms.stats)
    found = []
    for key, name, gone, shard, moved, *columns in connection.execute(query.where(where)):
        known = before.get(shard)  # a count that a hand has damaged may be newer
        is_newer = known is None or not isinstance(moved, int) or moved > known
        found.append(_ChangedRow(key, name, bool(gone), is_newer, *columns))
    return found


def _newly_claimed(
    connection: sa.Connection, before: Mapping[int, int], behind: list[int], other_keys: set[str]
) -> list[_ChangedRow]:
    """Return pod managers of which nothing changed but for new claims.

    Where one of these is on several pod managers, anything of its own may be new: its blocks may be
    known since it was prepared, while its nodes count only since it is held.
    """
    newer = [sa.and_(_parts.shard == shard, _parts.moved > before[shard]) for shard in behind]
    others = tables.claim_parts.alias().c
    is_other = others.claim_id == _parts.claim_id, others.podm_key != _parts.podm_key
    query = sa.select(_parts.podm_key, _parts.claim_id, _podms.name, sa.exists().where(*is_other))
    query = query.join(tables.podms, _podms.podm_key == _parts.podm_key).where(sa.or_(*newer))
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    whole = set()
    for key, claim, name, has_others in connection.execute(query):
        if key not in other_keys:
            names[key] = name
            found.setdefault(key, []).append(claim)
            whole.update([key] if has_others else [])
    rows = _rows(connection, before, _podms.podm_key.in_(sorted(whole))) if whole else []
    alone = [key for key in found if key not in whole]
    return rows + [_ChangedRow(key, names[key], claims=tuple(found[key])) for key in alone]


def _changed_podms(
    connection: sa.Connection, rows: Sequence[_ChangedRow], known: Mapping[str, LeanPodm]
) -> tuple[dict[str, LeanPodm], int]:
    """Return decodable pod managers: the caller's own if of this generation, else those read.

    With them comes how many documents were read.
    """
    found = {}
    for row in rows:
        podm = known.get(row.name)
        if podm is not None and podm.generation == row.generation:
            same_time = podm.read_at == row.read_at
            found[row.key] = podm if same_time else replace(podm, read_at=row.read_at)
    unknown = [row.key for row in rows if row.key not in found]
    read = decodable(connection, documents(connection, unknown), StoredPodm.lean)
    return found | read, len(unknown)
