# SPDX-License-Identifier: Apache-2.0
"""Store: the only access to the database, opened by URL."""

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from valence_sched.errors import IdentityConflict, InputError, NameTaken, StoreError, UnknownName
from valence_sched.model.claim import Usage
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.registration import Registration, alters_reading, reregistered
from valence_sched.model.stats import apply_stats
from valence_sched.store import claim_rows, expiry, identities, podms, schema, snapshot, tables
from valence_sched.store.claims import Claims, Nodes
from valence_sched.store.database import (
    Database,
    RowRefused,
    Stored,
    StoreUrl,
    WorkCounts,
    transaction,
)
from valence_sched.store.decisions import Dispatches, StoredDecisions
from valence_sched.store.document import Quarantine, decoded, readable
from valence_sched.store.node_changes import NodeChanges
from valence_sched.store.podms import EncodedPodm, FailedReadings, StoredPodm
from valence_sched.store.quotas import Quotas
from valence_sched.store.service_state import Audit, Leases, Records
from valence_sched.store.snapshot import LogPosition, LogTotals, StoreSnapshot
from valence_sched.store.tables import CHUNK, chunks, key_of

if TYPE_CHECKING:
    from valence_sched.store.maintenance import Scrub
    from valence_sched.store.zones import ZoneClaimRows, Zones

_registry = tables.registry
Refusal = StoreError | IdentityConflict  # the error of a reading that was not stored
BATCH_SIZE = 50  # pod managers that one transaction stores, and locks until its end
P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    work: Callable[Concatenate[Connection, P], T], doing: str, *, write: bool = False
) -> Callable[Concatenate["Store", P], T]:
    """Return a method of a store that runs a function of this package in one transaction."""

    @functools.wraps(work)
    def verb(store: "Store", /, *args: P.args, **options: P.kwargs) -> T:
        run = store._database.write if write else store._database.read
        return run(lambda c: work(c, *args, **options), doing)

    return verb


def _file_watch(file: Path) -> Callable[[Database], None]:
    """Return a watch that raises StoreError once a file is deleted, or replaced by another one."""

    def number() -> int:
        with contextlib.suppress(OSError):
            return file.stat().st_ino
        return 0

    opened = number()

    def watch(_database: Database) -> None:
        if number() != opened:
            text = "the file was replaced or deleted while in use"
            raise StoreError(
                f"{file}: {text}: stop all programs that use it, then start them again"
            )

    return watch


class Store(Stored):
    """A store, open from the start; a context manager that closes its connections.

    ``sleep`` makes the pauses between attempts, ``jitter`` (0..1) varies their length. Times that
    processes share, such as the expiry of a claim, use the clock of the database. ``effects``
    records the states of claims; ``remark`` receives a line when ``watch`` finds a jump of the
    clock of the machine. Undecodable rows are noted in the ``quarantine``.

    Raises:
        StoreError: it cannot be opened, is not a store, or has a newer version.
    """

    def __init__(
        self, url: str, *,
        sleep: Callable[[float], object] = time.sleep, jitter: Callable[[], float] = random.random,
        effects: EffectLog | None = None, remark: Callable[[str], object] = lambda _line: None,
        watch: expiry.ClockWatch | None = None, quarantine: Quarantine | None = None,
    ) -> None:  # fmt: skip
        self._database = Database(StoreUrl(url), sleep, jitter, quarantine=quarantine)
        self._read, self._write = self._database.read, self._database.write
        self.effects = effects if effects is not None else EffectLog()
        self.claims = Claims(self._database, self.effects)
        self.nodes = Nodes(self._database)
        self.node_changes = NodeChanges(self._database)
        self.decisions = StoredDecisions(self._database)
        self.leases = Leases(self._database)
        self.records = Records(self._database)
        self.quotas = Quotas(self._database)
        self.audit = Audit(self._database)
        self.dispatches = Dispatches(self._database)
        try:
            schema.prepare(self._database)
            if (file := self._database.address.file) is not None:
                self._database.watches.append(_file_watch(file))
                clocks = watch or expiry.ClockWatch(remark)
                clocks(self._database)
                self._database.watches.append(clocks)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.address!r})"

    def close(self) -> None:
        self._database.close()

    @functools.cached_property
    def zones(self) -> "Zones":
        from valence_sched.store.zones import Zones  # used only by a zone with child zones

        return Zones(self._database)

    @functools.cached_property
    def zone_claims(self) -> "ZoneClaimRows":
        from valence_sched.store.zones import ZoneClaimRows  # also only by such a zone

        return ZoneClaimRows(self._database)

    @functools.cached_property
    def scrub(self) -> "Scrub":
        from valence_sched.store.maintenance import Scrub  # used only by a service

        return Scrub(self._database)

    @property
    def address(self) -> str:
        return str(self._database.address)

    @property
    def counts(self) -> WorkCounts:
        return self._database.counts

    identities = _verb(identities.known_identities, "reading identities")
    failures = _verb(podms.failures, "reading failures")
    load_podms = _verb(podms.load, "reading pod managers")
    previous_readings = _verb(podms.previous_readings, "reading pod managers")
    read_times = _verb(podms.read_times, "reading pod managers")
    note_removal = _verb(podms.note_removal, "storing a removal", write=True)
    update_stats = _verb(podms.store_report, "storing a report", write=True)
    reports = _verb(podms.reports, "reading reports")
    forget_report = _verb(podms.forget_report, "forgetting a report", write=True)
    registry_count = _verb(snapshot.registry_count, "looking")
    events = _verb(claim_rows.events, "reading events")

    @transaction("reading the registry")
    def registrations(self, connection: Connection) -> list[Registration]:
        rows = connection.execute(sa.select(_registry.c.name, _registry.c.document))
        decode = msgspec.json.Decoder(Registration).decode
        registered = readable(connection, _registry, rows, lambda _name, text: decode(text))
        return sorted(registered, key=lambda registration: registration.name)

    @transaction("registering", write=True)
    def register(self, connection: Connection, registration: Registration) -> None:
        """Register a pod manager; NameTaken or IdentityConflict if the name or service exists."""
        name = registration.name
        if connection.scalar(_registered(name)) is not None:
            hint = "change its registration, or choose another name"
            raise NameTaken(f"a pod manager named {name!r} is already registered: {hint}")
        identities.check_free(connection, registration)
        tables.advance_shard(connection, tables.REGISTRY_SHARD)
        columns = identities.registration_columns(registration)
        row = {"podm_key": key_of(name), "name": name, **columns}
        try:
            connection.execute(sa.insert(_registry), row)
        except sa.exc.IntegrityError:  # another process registered it first
            known = f"pod manager {name!r} or its service is already registered"
            raise NameTaken(f"{known}: change that registration") from None

    @transaction("changing the registry", write=True)
    def change(self, connection: Connection, registration: Registration) -> None:
        """Replace the registration of its name; UnknownName, or errors as for :meth:`register`.

        A missing identity is set by the next reading. Unset properties and changed maxima of blocks
        also apply to the stored reading.
        """
        name, key = registration.name, key_of(registration.name)
        tables.advance_shard(connection, tables.REGISTRY_SHARD)
        known: Any = connection.scalar(_registered(name).with_for_update())
        if known is None:
            raise _unknown_podm(connection, name)
        identities.check_free(connection, registration)
        update = sa.update(_registry).where(_registry.c.podm_key == key)
        connection.execute(update.values(**identities.registration_columns(registration)))
        old = decoded(connection, _registry.c.document, name, known)
        if old and alters_reading(old, registration):
            row, stored = podms.lock_and_load(connection, name)
            if row is not None and not row.gone and stored is not None:
                podm = apply_stats(reregistered(stored, old, registration), row.reported.stats)
                new = podms.PodmUpdate(key, EncodedPodm(podm), row, row.stats, is_read=False)
                if new.content_changed:
                    podms.write(connection, [new])
        if registration.identity is None:
            identities.forget_read(connection, name)

    @transaction("unregistering", write=True)
    def unregister(self, connection: Connection, name: str) -> None:
        """Remove a registration and the reading; UnknownName, or InUse if it has claims or nodes.

        A pod manager from a file or a catalogue has a reading without a registration.
        """
        key = key_of(name)
        is_registered = connection.scalar(_registered(name).with_for_update()) is not None
        row = podms.lock_row(connection, key)  # claims lock this row as well
        if not is_registered and (row is None or row.gone or row.reported.alone):
            raise _unknown_podm(connection, name)
        podms.check_unused(connection, name)
        connection.execute(sa.delete(_registry).where(_registry.c.podm_key == key))
        if row and not row.gone:
            podms.forget(connection, key)
        tables.advance_shard(connection, tables.REGISTRY_SHARD)

    def remember(self, podm: FullPodm) -> int:
        """Store a reading; return the generation, which changes with the content.

        A reading older than the stored reading is ignored. IdentityConflict if the name belongs to
        another service, or the service has another name.
        """
        key = key_of(podm.id)
        stored = self._write_readings({key: EncodedPodm(podm)})[key]
        if isinstance(stored, IdentityConflict):
            raise stored
        return stored.generation

    def remember_all(self, podms: Iterable[FullPodm]) -> dict[str, LeanPodm]:
        """Store readings; return the stored pod managers by id.

        One transaction finds the unchanged readings of each ``CHUNK``; the others are stored as by
        :meth:`remember`, ``BATCH_SIZE`` per transaction. If a pod manager has two readings, the
        last reading is stored. Pass the result to :meth:`snapshot` as ``known``: these documents
        are not read again.

        Raises:
            StoreError, IdentityConflict: a reading cannot be stored; all others are stored.
        """
        known: dict[str, LeanPodm] = {}
        errors: list[Refusal] = []
        remaining = iter(podms)
        while some := list(itertools.islice(remaining, CHUNK)):
            readings = {key_of(one.id): EncodedPodm(one) for one in some}
            for stored in self._store_all(readings).values():
                if isinstance(stored, Refusal):
                    errors.append(stored)
                else:
                    known[stored.name] = stored.lean()
        if errors:
            raise errors[0]
        return known

    def upsert_all(self, podms: Sequence[FullPodm]) -> list[FullPodm | Refusal]:
        """Store readings as :meth:`remember_all`; return each pod manager or its error, in order.

        The report of a pod manager overrides its reading. StoreError if the store cannot be used.
        """
        stored = self._store_all({key_of(podm.id): EncodedPodm(podm) for podm in podms})
        results = (stored[key_of(podm.id)] for podm in podms)
        return [one if isinstance(one, Refusal) else one.full() for one in results]

    def _store_all(self, readings: Mapping[str, EncodedPodm]) -> dict[str, StoredPodm | Refusal]:
        stored: dict[str, StoredPodm | Refusal] = {}
        if readings:
            with contextlib.suppress(InputError):  # the next statement names the pod manager
                stored |= self._read(lambda c: podms.unchanged(c, readings), "storing readings")
        for keys in chunks(sorted(readings.keys() - stored.keys()), BATCH_SIZE):
            batch = {key: readings[key] for key in keys}
            try:
                stored |= self._write_readings(batch)
            except (RowRefused, InputError):
                for key, one in batch.items():
                    try:
                        stored |= self._write_readings({key: one})
                    except (RowRefused, InputError) as error:
                        stored[key] = StoreError(f"{one.podm.id}: {error}")
        return stored

    def _write_readings(
        self, readings: Mapping[str, EncodedPodm]
    ) -> dict[str, StoredPodm | IdentityConflict]:
        stored = self._write(lambda c: podms.remember(c, readings), "storing readings")
        written = [one for one in stored.values() if isinstance(one, StoredPodm) and one.written]
        self.counts.podms_written += len(written)
        return stored

    def record_failures(self, readings: FailedReadings) -> list[str]:
        """Store failures of readings by name; return the names with a change.

        Earlier readings stay; the next stored reading ends the failure.
        """
        changed: list[str] = []
        for names in chunks(sorted(readings), BATCH_SIZE):
            some = {name: readings[name] for name in names}
            work = functools.partial(podms.record_failures, readings=some)
            changed += self._write(work, "storing failures")
        return changed

    def usages(self, names: Iterable[str]) -> dict[str, Usage]:
        """Return the usage by live claims that stored readings do not show yet, by name."""
        keys = {key_of(name): name for name in names}
        self.claims.expire()  # a read-only user may see more holds, never fewer
        usages = functools.partial(snapshot.usages, keys=list(keys), everything=True)
        found = self._read(usages, "reading usage")
        return {keys[key]: one for key, one in found.items() if key in keys}

    def snapshot(
        self, since: LogPosition | None = None, known: Mapping[str, LeanPodm] | None = None
    ) -> StoreSnapshot:
        """Return the pod managers that changed since a position, with their usage by claims.

        Frees expired claims first, then reads one consistent snapshot. Pod managers in ``known``,
        by id, with the stored generation are not read again. If the totals of the change log have
        not changed since the position, nothing else is read.
        """
        position = since or LogPosition()
        totals = self.log_totals()
        self.counts.rows_read += 1
        if not totals.expired and position.is_at(totals):
            return StoreSnapshot((), position, 0)

        def take(connection: Connection) -> StoreSnapshot:
            return snapshot.take_snapshot(connection, position, known or {}, self.counts)

        changes = self._read(take, "looking")
        if changes.expired_claims:
            expiry.expire_claims(self._database)
            changes = self._read(take, "looking")
        return changes

    def log_totals(self) -> LogTotals:
        """Return the totals of the change log: equal totals mean that nothing changed."""
        row = self._database.read_row(snapshot.TOTALS, "reading the change log")
        return LogTotals(*map(int, row))

    def purge(self, older_than_s: float, *, dry_run: bool = False) -> expiry.PurgeCounts:
        return expiry.purge(self._database, older_than_s, dry_run=dry_run)


def _registered(name: str) -> sa.Select[tuple[bytes]]:
    return sa.select(_registry.c.document).where(_registry.c.podm_key == key_of(name))


def _unknown_podm(connection: Connection, name: str) -> UnknownName:
    return UnknownName("pod manager", name, connection.scalars(sa.select(_registry.c.name)))
