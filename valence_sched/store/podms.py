# SPDX-License-Identifier: Apache-2.0
"""Pod managers as they were last read, and the generation that moves with what they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from valence_sched.model.base import Noun
from valence_sched.model.inventory import FREE_STATUS, FullPodm, to_json
from valence_sched.model.stats import Stats, apply_stats, merge_stats
from valence_sched.model.stock import free_amount
from valence_sched.store import change_log, settle, tables
from valence_sched.store.tables import key_of, now

_table = tables.podms
_decoder = msgspec.json.Decoder(FullPodm)


class ReportedStats(Noun, frozen=True):
    """What a pod manager reported by itself; ``alone`` when it was never read.

    ``at`` is when it did so last, in seconds since 1970 by the clock of the database.
    """

    stats: Stats
    alone: bool = False
    at: float | None = None


class PodmRow(NamedTuple):
    """What the store keeps beside a podm's document."""

    generation: int
    digest: str
    read_at: str | None
    gone: bool
    stats: bytes | None
    queried_at: float


def lock_row(connection: sa.Connection, key: str) -> PodmRow | None:
    """Return a podm's row after locking it, None when it was never read."""
    of = _table.c
    row = connection.execute(
        sa.select(of.generation, of.digest, of.read_at, of.gone, of.stats, now())
        .where(of.podm_key == key)
        .with_for_update()
    ).one_or_none()
    return PodmRow(*row) if row else None


class WriteResult(NamedTuple):
    """What became of a podm: its generation, and whether what is held, or was read, changed."""

    generation: int
    usage_changed: bool = False
    content_changed: bool = False


def remember(connection: sa.Connection, podms: Sequence[FullPodm]) -> list[FullPodm]:
    """Store podms as they were read; return them as they are known from now on.

    Their generations move only with their content. They are locked in the order of their keys, as
    everybody locks several.
    """
    keys = [key_of(podm.id) for podm in podms]
    found = {key: _remember(connection, podm, key)
             for key, podm in sorted(zip(keys, podms, strict=True), key=itemgetter(0))}  # fmt: skip
    _log_writes(connection, {key: done for key, (_, done) in found.items()})
    return [found[key][0] for key in keys]


def _log_writes(connection: sa.Connection, found: Mapping[str, WriteResult]) -> None:
    read = [key for key, one in found.items() if one.content_changed]
    held = [key for key, one in found.items() if one.usage_changed and not one.content_changed]
    change_log.log_changes(connection, held, read)


def _remember(connection: sa.Connection, podm: FullPodm, key: str) -> tuple[FullPodm, WriteResult]:
    """Store a podm as it was read.

    That moves only with the content. A reading that began before the one that is stored is left
    aside. What claims composed and this reading shows is from now on counted by the reading
    alone.
    """
    row = lock_row(connection, key)
    told = _stats_of_row(row)
    if row and not row.gone and not told.alone and _is_older(podm.read_at, row):
        return load(connection, [podm.id])[podm.id], WriteResult(row.generation)
    if told.stats:
        podm = apply_stats(podm, told.stats)
    told = msgspec.structs.replace(told, alone=False)
    done = write(connection, podm, row, told if told != ReportedStats({}) else None)
    return msgspec.structs.replace(podm, generation=done.generation), done


def store_report(connection: sa.Connection, name: str, stats: Stats) -> int:
    """Take in what a pod manager reports by itself; return its generation.

    It is kept, and stands in place of what is read later. One that is never read is as old as
    its latest report.
    """
    row = lock_row(connection, key_of(name))
    told = _stats_of_row(row)
    stored = load(connection, [name]).get(name)
    at = connection.scalar(sa.select(now())) or 0.0
    told = ReportedStats(merge_stats(told.stats, stats), alone=stored is None or told.alone, at=at)
    podm = apply_stats(stored or FullPodm(id=name), told.stats)
    if told.alone:
        read_at = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        podm = msgspec.structs.replace(podm, read_at=read_at)
    done = write(connection, podm, row, told)
    _log_writes(connection, {key_of(name): done})
    return done.generation


def reported_stats(connection: sa.Connection) -> dict[str, Stats]:
    """Return what pod managers reported by themselves, by name."""
    of = _table.c
    query = sa.select(of.name, of.stats).where(~of.gone, of.stats.is_not(None)).order_by(of.name)
    found = {
        name: msgspec.json.decode(told, type=ReportedStats)
        for name, told in connection.execute(query)
    }
    return {name: told.stats for name, told in found.items()}


def is_report_only(row: PodmRow) -> bool:
    """Return whether a podm was never read, and is known by what it reported only."""
    return _stats_of_row(row).alone


def drop_report(connection: sa.Connection, key: str) -> None:
    """Forget what a podm reported; the next reading stands as it was read."""
    connection.execute(sa.update(_table).where(_table.c.podm_key == key).values(stats=None))


def report_ages_s(connection: sa.Connection) -> dict[str, float]:
    """Return how many seconds ago pod managers reported last, by name and the database's clock."""
    of = _table.c
    query = sa.select(of.name, of.stats, now()).where(~of.gone, of.stats.is_not(None))
    found = {}
    for name, stats, at in connection.execute(query):
        then = msgspec.json.decode(stats, type=ReportedStats).at
        if then is not None:
            found[name] = max(0.0, at - then)
    return found


def _stats_of_row(row: PodmRow | None) -> ReportedStats:
    if row is None or row.stats is None:
        return ReportedStats({})
    return msgspec.json.decode(row.stats, type=ReportedStats)


def write(
    connection: sa.Connection, podm: FullPodm, row: PodmRow | None, told: ReportedStats | None
) -> WriteResult:
    """Write a podm whose row is locked."""
    key = key_of(podm.id)
    content = to_json(msgspec.structs.replace(podm, generation=0, read_at=None))
    digest = key_of(content.decode())
    read_at = podm.read_at
    stats = to_json(told) if told else None
    if row and row.digest == digest and not row.gone:
        connection.execute(
            sa.update(_table).where(_table.c.podm_key == key).values(read_at=read_at, stats=stats)
        )
        return WriteResult(
            row.generation, usage_changed=bool(settle.settle_claims(connection, podm))
        )
    generation = row.generation + 1 if row else max(1, podm.generation)
    values: dict[str, Any] = {"generation": generation, "digest": digest, "read_at": read_at,
                              "gone": False, "document": content, "stats": stats}  # fmt: skip
    if row:
        connection.execute(sa.update(_table).where(_table.c.podm_key == key).values(values))
    else:
        new = {"podm_key": key, "name": podm.id, "shard": change_log.shard_of(key)}
        new |= {"moved": 0, "read_moved": 0, **values}
        connection.execute(sa.insert(_table), new)
    _write_supplies(connection, key, podm)
    settle.settle_claims(connection, podm)
    return WriteResult(generation, content_changed=True)


def load(connection: sa.Connection, names: Iterable[str] | None = None) -> dict[str, FullPodm]:
    """Return podms as last read, by name, with generation and time of reading; all by default."""
    columns = _table.c
    query = sa.select(columns.generation, columns.read_at, columns.document).where(~columns.gone)
    if names is None:
        rows = connection.execute(query).all()
    else:
        keys = sorted({key_of(name) for name in names})
        chunks = (keys[first : first + 500] for first in range(0, len(keys), 500))
        rows = [
            row
            for chunk in chunks
            for row in connection.execute(query.where(columns.podm_key.in_(chunk)))
        ]
    found = (decode_row(*row) for row in rows)
    return {podm.id: podm for podm in sorted(found, key=lambda podm: podm.id)}


def forget(connection: sa.Connection, key: str) -> None:
    """Forget what was read of a podm."""
    for table in (tables.stocks, tables.shares):
        connection.execute(sa.delete(table).where(table.c.podm_key == key))
    nothing = {"gone": True, "document": b"", "digest": "", "stats": None, "read_at": None}
    connection.execute(
        sa.update(_table)
        .where(_table.c.podm_key == key)
        .values(generation=_table.c.generation + 1, **nothing)
    )
    change_log.log_changes(connection, content=[key])


def decode_row(generation: int, read_at: str | None, document: bytes) -> FullPodm:
    """Return a podm from its row."""
    podm = _decoder.decode(document)
    return msgspec.structs.replace(podm, generation=generation, read_at=read_at)


def _write_supplies(connection: sa.Connection, key: str, podm: FullPodm) -> None:
    """Write what claims of this podm are checked against inside their transactions."""
    for table in (tables.stocks, tables.shares):
        connection.execute(sa.delete(table).where(table.c.podm_key == key))
    amounts = [
        {
            "podm_key": key,
            "stock_key": key_of(stock.uri),
            "uri": stock.uri,
            "left_over": free_amount(stock),
        }
        for stock in podm.stocks
    ]
    if amounts:
        connection.execute(sa.insert(tables.stocks), amounts)
    shares = [
        {
            "podm_key": key,
            "block_key": key_of(block.uri),
            "slots": (block.status or FREE_STATUS).slots,
        }
        for block in podm.blocks
        if block.status is not None and block.status.shareable
    ]
    if shares:
        connection.execute(sa.insert(tables.shares), shares)


def _is_older(mine: str | None, row: PodmRow) -> bool:
    """Return whether a reading began before the stored one; times that cannot be read do not.

    One that is stored with a time to come, by a clock that was wrong, would keep out all others.
    """
    if mine is None or row.read_at is None:
        return False
    try:
        stored = datetime.fromisoformat(row.read_at)
        return datetime.fromisoformat(mine) < stored and stored.timestamp() <= row.queried_at
    except (ValueError, TypeError, OverflowError):
        return False
