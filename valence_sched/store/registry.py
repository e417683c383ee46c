# SPDX-License-Identifier: Apache-2.0
"""Registry: the registered pod managers, what they reported, and why one is not read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import InUse, NameTaken, UnknownName, one_line
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration, alters_reading, reregistered
from valence_sched.model.stats import ReportedStats, Stats, apply_stats, merge_stats
from valence_sched.store import change_log, identities, podms, tables
from valence_sched.store.document import decoded, readable
from valence_sched.store.podms import EncodedPodm, PodmUpdate
from valence_sched.store.tables import key_of, now
from valence_sched.store.usage import uses

_table = tables.registry
FAILURES = "failures"  # the fact that the weigher and the filter of failures read
_decode = msgspec.json.Decoder(Registration).decode


def registrations(connection: sa.Connection) -> list[Registration]:
    """Return all registered pod managers by name, but for what cannot be decoded."""
    rows = connection.execute(sa.select(_table.c.name, _table.c.document))
    registered = readable(connection, _table, rows, lambda _name, text: _decode(text))
    return sorted(registered, key=lambda registration: registration.name)


def register(connection: sa.Connection, registration: Registration) -> None:
    """Register a pod manager; NameTaken or IdentityConflict where name or service are known."""
    name = registration.name
    if connection.scalar(_document(name)) is not None:
        hint = "change that one, or choose another name"
        raise NameTaken(one_line(f"a pod manager named {name!r} is registered already: {hint}"))
    identities.check_free(connection, registration)
    change_log.log_registry_change(connection)
    row = {"podm_key": key_of(name), "name": name, **identities.registration_columns(registration)}
    try:
        connection.execute(sa.insert(_table), row)
    except sa.exc.IntegrityError:  # another process was faster by an instant
        what = f"a pod manager named {name!r}, or its service, was registered"
        text = f"{what} by somebody else just now: change that one"
        raise NameTaken(one_line(text)) from None


def change(connection: sa.Connection, registration: Registration) -> None:
    """Replace the registration of the same name; UnknownName, or errors as to register.

    Without identity it is to be any. What was registered and is no more goes from what was read as
    well, and maxima of blocks change, until the pod manager is read next.
    """
    name, key = registration.name, key_of(registration.name)
    change_log.log_registry_change(connection)
    known: Any = connection.scalar(_document(name).with_for_update())
    if known is None:
        raise _unknown(connection, name)
    identities.check_free(connection, registration)
    update = sa.update(_table).where(_table.c.podm_key == key)
    connection.execute(update.values(**identities.registration_columns(registration)))
    old = decoded(connection, _table.c.document, name, known)
    if old and alters_reading(old, registration):
        row, stored = _lock_and_load(connection, name)
        if row is not None and not row.gone and stored is not None:
            podm = apply_stats(reregistered(stored, old, registration), row.reported.stats)
            new = PodmUpdate(key, EncodedPodm(podm), row, row.stats, is_read=False)
            if new.content_changed:
                podms.write(connection, [new])
    if registration.identity is None:
        identities.forget_read(connection, name)


def _lock_and_load(
    connection: sa.Connection, name: str
) -> tuple[podms.PodmRow | None, FullPodm | None]:
    row = podms.lock_row(connection, key_of(name))
    return row, podms.load(connection, [name]).get(name)


def unregister(connection: sa.Connection, name: str) -> None:
    """Remove a registration and what was read; UnknownName, or InUse with claims or nodes.

    What was read is there without a registration where a file or a catalogue named it.
    """
    key = key_of(name)
    is_registered = connection.scalar(_document(name).with_for_update()) is not None
    row = podms.lock_row(connection, key)  # a claim locks this row, too
    if not is_registered and (row is None or row.gone or row.reported.alone):
        raise _unknown(connection, name)
    check_unused(connection, name)
    connection.execute(sa.delete(_table).where(_table.c.podm_key == key))
    if row and not row.gone:
        podms.forget(connection, key)
    change_log.log_registry_change(connection)


def store_report(connection: sa.Connection, name: str, stats: Stats) -> int:
    """Store what a pod manager reports by itself; return its generation.

    It stands in place of what is read later. A pod manager that is never read is as old as its
    latest report.
    """
    row = podms.lock_row(connection, key_of(name))
    at = connection.scalar(sa.select(now())) or 0.0
    return _store_report(connection, name, row, stats, at)


def count_failure(connection: sa.Connection, name: str) -> None:
    """Count a compose that a pod manager refused in its fact ``failures``.

    The fact stands beside what the pod manager reports, which becomes no newer by it.
    """
    row, stored = _lock_and_load(connection, name)
    if row is not None and stored is not None:
        before = stored.facts.get(FAILURES)
        count = before + 1 if isinstance(before, int | float) else 1
        _store_failures(connection, name, row, count)


def clear_failures(connection: sa.Connection, name: str) -> None:
    """Count no failures of a pod manager any more, for it composed."""
    row = podms.lock_row(connection, key_of(name))
    if row is not None and not row.gone:
        stats = row.reported.stats
        if stats.get(FAILURES) or (stats.get("facts") or {}).get(FAILURES):
            _store_failures(connection, name, row, 0)


def _store_failures(connection: sa.Connection, name: str, row: podms.PodmRow, count: float) -> None:
    """Store the count where it is reported already: in ``facts``, or as a key of its own."""
    in_facts = FAILURES in (row.reported.stats.get("facts") or {})
    stats: Stats = {"facts": {FAILURES: count}} if in_facts else {FAILURES: count}
    _store_report(connection, name, row, stats, row.reported.at)


def _store_report(
    connection: sa.Connection, name: str, row: podms.PodmRow | None, stats: Stats, at: float | None
) -> int:
    before = row.reported if row else ReportedStats({})
    stored = podms.load(connection, [name]).get(name)
    alone = stored is None or before.alone
    reported = ReportedStats(merge_stats(before.stats, stats), alone=alone, at=at)
    podm = apply_stats(stored or FullPodm(id=name), reported.stats)
    if reported.alone and at is not None:
        read_at = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        podm = replace(podm, read_at=read_at)
    update = PodmUpdate(key_of(name), EncodedPodm(podm), row, to_json(reported), is_read=False)
    podms.write(connection, [update])
    return update.generation


def reported_stats(connection: sa.Connection) -> dict[str, Stats]:
    """Return what pod managers reported by themselves, by name."""
    return {name: reported.stats for name, reported, _ in _reports(connection)}


def report_ages_s(connection: sa.Connection) -> dict[str, float]:
    """Return how many seconds ago pod managers reported last, by name and the database's clock."""
    reports = [one for one in _reports(connection) if one[1].at is not None]
    return {name: max(0.0, queried_at - (one.at or 0.0)) for name, one, queried_at in reports}


def report_times(connection: sa.Connection) -> dict[str, float]:
    """Return when pod managers reported last, by name and the database's clock."""
    return {name: one.at for name, one, _ in _reports(connection) if one.at is not None}


def _reports(connection: sa.Connection) -> list[tuple[str, ReportedStats, float]]:
    of = tables.podms.c
    query = sa.select(of.name, of.stats, now()).where(~of.gone, of.stats.is_not(None))
    rows = connection.execute(query.order_by(of.name))
    decode = msgspec.json.Decoder(ReportedStats).decode
    made = readable(connection, tables.podms, rows, lambda name, text, at: (name, decode(text), at))
    return [*made]


def forget_report(connection: sa.Connection, name: str) -> None:
    """Remove a report, or all of one never read; UnknownName, or InUse as to unregister."""
    key = key_of(name)
    row = podms.lock_row(connection, key)
    if row is None or row.gone or row.stats is None:
        raise UnknownName("pod manager that reported", name, reported_stats(connection))
    if not row.reported.alone:
        update = sa.update(tables.podms).where(tables.podms.c.podm_key == key)
        connection.execute(update.values(stats=None))
        change_log.log_changes(connection, [key])
        return
    check_unused(connection, name)
    podms.forget(connection, key)


def check_unused(connection: sa.Connection, name: str) -> None:
    """Raise InUse if the store has claims or nodes of a pod manager, whose row is locked."""
    if parts := uses(connection, key_of(name)):
        hint = "run podm claim release and podm node delete first"
        raise InUse(one_line(f"pod manager {name!r} still has {' and '.join(parts)}: {hint}"))


def _document(name: str) -> sa.Select[tuple[bytes]]:
    return sa.select(_table.c.document).where(_table.c.podm_key == key_of(name))


def _unknown(connection: sa.Connection, name: str) -> UnknownName:
    return UnknownName("pod manager", name, connection.scalars(sa.select(_table.c.name)))


_podms = tables.podms
FailedReadings = Mapping[str, tuple[FullPodm, ReadFailure]]


def record_failures(connection: sa.Connection, readings: FailedReadings) -> list[str]:
    """Store by name why pod managers could not be read; return the names of those that changed.

    A failure that goes on keeps the time at which it began. One that was never read is known from
    now on as the pod manager of its failed reading, which has no blocks.
    """
    by_key = {key_of(name): (name, *reading) for name, reading in readings.items()}
    rows = podms.rows_of(connection, by_key, lock=True)
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
            told: dict[str, Any] = {"aggregates": (), "capabilities": {}, "traits": (), "facts": {}}
            bare = replace(podm, read_at=None, identity=None, zone=None, **told)
            unknown.append(PodmUpdate(key, EncodedPodm(bare), row, None, is_read=False))
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
