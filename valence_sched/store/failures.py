# SPDX-License-Identifier: Apache-2.0
"""Failures: why pod managers are not read at present, beside what was read of them last."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadFailure
from valence_sched.store import change_log, podms, tables
from valence_sched.store.podms import EncodedPodm, PodmUpdate
from valence_sched.store.quarantine import decoded
from valence_sched.store.tables import key_of, now

_podms = tables.podms
FailedReadings = Mapping[str, tuple[FullPodm, ReadFailure]]


def record_failures(connection: sa.Connection, readings: FailedReadings) -> list[str]:
    """Store by name why pod managers could not be read; return the names of those that changed.

    A failure that goes on keeps the time at which it began. One that was never read is known from
    now on as the pod manager of its failed reading, which has no blocks.
    """
    by_key = {key_of(name): (name, *reading) for name, reading in readings.items()}
    rows = podms.lock_rows(connection, by_key)
    at = float(connection.scalar(sa.select(now())) or 0.0)
    changed: dict[str, bytes] = {}
    unknown: list[PodmUpdate] = []
    for key, (name, podm, failure) in by_key.items():
        row = rows.get(key)
        was = row.failure if row and not row.gone else None
        known = known_failure(connection, name, was)
        present = replace(failure, since=known.since if known else at)
        if present == known:
            continue
        if row is None or row.gone:
            # what its registration says of it may be taken back: it is not kept here as well
            bare = replace(podm, read_at=None, identity=None, zone=None, aggregates=(),
                           capabilities={}, traits=(), facts={})  # fmt: skip
            placeholder = EncodedPodm(bare)
            unknown.append(PodmUpdate(key, placeholder, row, None, is_read=False))
        changed[key] = to_json(present)
    podms.write(connection, unknown)
    for key in sorted(changed):
        update = sa.update(_podms).where(_podms.c.podm_key == key)
        connection.execute(update.values(failure=changed[key]))
    written = {update.key for update in unknown}
    change_log.log_changes(connection, changed.keys() - written)
    return sorted(by_key[key][0] for key in changed)


def failures(connection: sa.Connection) -> dict[str, ReadFailure]:
    """Return why pod managers are not read at present, by name."""
    of = _podms.c
    query = sa.select(of.name, of.failure).where(~of.gone, of.failure.is_not(None))
    rows = connection.execute(query.order_by(of.name))
    found = {name: known_failure(connection, name, document) for name, document in rows}
    return {name: failure for name, failure in found.items() if failure is not None}


def known_failure(
    connection: sa.Connection, name: str, document: bytes | None
) -> ReadFailure | None:
    """Return a stored failure, None for none and for one that cannot be decoded."""
    failure: ReadFailure | None = decoded(connection, _podms.c.failure, name, document)
    return failure
