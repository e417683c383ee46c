# SPDX-License-Identifier: Apache-2.0
"""Reported stats: what pod managers reported by themselves, kept beside what was read of them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import sqlalchemy as sa

from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.stats import Stats, apply_stats, merge_stats
from valence_sched.store import podms, tables
from valence_sched.store.podms import EncodedPodm, PodmUpdate, ReportedStats
from valence_sched.store.tables import key_of, now

_table = tables.podms


def store_report(connection: sa.Connection, name: str, stats: Stats) -> int:
    """Store what a pod manager reports by itself; return its generation.

    It stands in place of what is read later. A pod manager that is never read is as old as its
    latest report.
    """
    row = podms.lock_row(connection, key_of(name))
    before = row.reported if row else ReportedStats({})
    stored = podms.load(connection, [name]).get(name)
    at = connection.scalar(sa.select(now())) or 0.0
    reported = ReportedStats(
        merge_stats(before.stats, stats), alone=stored is None or before.alone, at=at
    )
    podm = apply_stats(stored or FullPodm(id=name), reported.stats)
    if reported.alone:
        read_at = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        podm = msgspec.structs.replace(podm, read_at=read_at)
    update = PodmUpdate(key_of(name), EncodedPodm(podm), row, to_json(reported))
    podms.write(connection, [update])
    return update.generation


def reported_stats(connection: sa.Connection) -> dict[str, Stats]:
    """Return what pod managers reported by themselves, by name."""
    return {name: reported.stats for name, reported, _ in _all(connection)}


def report_ages_s(connection: sa.Connection) -> dict[str, float]:
    """Return how many seconds ago pod managers reported last, by name and the database's clock."""
    return {
        name: max(0.0, queried_at - reported.at)
        for name, reported, queried_at in _all(connection)
        if reported.at is not None
    }


def _all(connection: sa.Connection) -> list[tuple[str, ReportedStats, float]]:
    """Return name, report and time of the query of each pod manager that reported, by name."""
    of = _table.c
    query = sa.select(of.name, of.stats, now()).where(~of.gone, of.stats.is_not(None))
    return [
        (name, msgspec.json.decode(stats, type=ReportedStats), at)
        for name, stats, at in connection.execute(query.order_by(of.name))
    ]


def drop_report(connection: sa.Connection, key: str) -> None:
    """Forget what a pod manager reported; the next reading stands as it was read."""
    connection.execute(sa.update(_table).where(_table.c.podm_key == key).values(stats=None))
