# SPDX-License-Identifier: Apache-2.0
"""Store: the one entrance to the database, opened by URL."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection

from valence_sched.errors import IdentityConflict, InputError, StoreError, one_line
from valence_sched.model.claim import Usage
from valence_sched.model.effect import EffectLog
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.reading import PreviousReading
from valence_sched.model.stats import Stats, podm_id
from valence_sched.store import claim_rows, expiry, identities, podms, registry, schema, snapshot
from valence_sched.store.claims import Claims, Nodes
from valence_sched.store.database import Database, RowRefused, StoreUrl, WorkCounts
from valence_sched.store.decisions import Dispatches, StoredDecisions
from valence_sched.store.document import Quarantine
from valence_sched.store.expiry import ClockWatch, PurgeCounts
from valence_sched.store.podms import EncodedPodm, StoredPodm
from valence_sched.store.quotas import Quotas
from valence_sched.store.records import Audit, Leases, Records
from valence_sched.store.registry import FailedReadings
from valence_sched.store.snapshot import LogPosition, LogTotals, StoreSnapshot
from valence_sched.store.tables import CHUNK, chunks, key_of
from valence_sched.store.usage import usages_by_name

if TYPE_CHECKING:
    from valence_sched.store.maintenance import Scrub
    from valence_sched.store.zones import ZoneClaimRows, Zones

Refusal = StoreError | IdentityConflict  # why a reading is not stored
BATCH_SIZE = 50  # pod managers that one transaction stores, and locks until it ends
P = ParamSpec("P")
T = TypeVar("T")
_Work = Callable[Concatenate[Connection, P], T]


def _reading(work: _Work[P, T], doing: str) -> Callable[Concatenate[Store, P], T]:
    """Return a verb of a store that runs a function of its room in one snapshot."""

    @functools.wraps(work)
    def verb(store: Store, /, *args: P.args, **words: P.kwargs) -> T:
        return store._database.read(lambda c: work(c, *args, **words), doing)

    return verb


def _writing(work: _Work[P, T], doing: str) -> Callable[Concatenate[Store, P], T]:
    """Return a verb of a store that runs a function of its room in one transaction."""

    @functools.wraps(work)
    def verb(store: Store, /, *args: P.args, **words: P.kwargs) -> T:
        return store._database.write(lambda c: work(c, *args, **words), doing)

    return verb


class Store:
    """A store, open from the start; a context manager that closes its connections.

    ``sleep`` makes the pauses between attempts, ``jitter`` (0..1) draws their length. Time that
    processes must agree on, such as the end of a claim, is the database's. ``effects`` has what
    became of claims; ``remark`` takes a line when the clock of a machine jumped, which ``watch``
    finds. Rows that cannot be decoded are noted in a ``quarantine``, its own if none is given.

    Raises:
        StoreError: it cannot be opened, is no store, or is of a newer version.
    """

    def __init__(
        self, url: str, *,
        sleep: Callable[[float], object] = time.sleep, jitter: Callable[[], float] = random.random,
        effects: EffectLog | None = None, remark: Callable[[str], object] = lambda _line: None,
        watch: ClockWatch | None = None, quarantine: Quarantine | None = None,
    ) -> None:  # fmt: skip
        self._database = Database(StoreUrl(url), sleep, jitter, quarantine=quarantine)
        self._read, self._write = self._database.read, self._database.write
        self.effects = effects if effects is not None else EffectLog()
        self.claims = Claims(self._database, self.effects)
        self.nodes = Nodes(self._database)
        self.decisions = StoredDecisions(self._database)
        self.leases = Leases(self._database)
        self.records = Records(self._database)
        self.quotas = Quotas(self._database)
        self.audit = Audit(self._database)
        self.dispatches = Dispatches(self._database)
        try:
            schema.prepare(self._database)
            if self._database.address.file is not None:
                clocks = watch or ClockWatch(remark)
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
    def zones(self) -> Zones:
        from valence_sched.store.zones import Zones  # only of a zone that has others below it

        return Zones(self._database)

    @functools.cached_property
    def zone_claims(self) -> ZoneClaimRows:
        from valence_sched.store.zones import ZoneClaimRows  # only of such a zone, too

        return ZoneClaimRows(self._database)

    @functools.cached_property
    def scrub(self) -> Scrub:
        """What looks for rows that cannot be decoded."""
        from valence_sched.store.maintenance import Scrub  # only of a store that a service has open

        return Scrub(self._database)

    @property
    def address(self) -> str:
        return str(self._database.address)

    @property
    def counts(self) -> WorkCounts:
        return self._database.counts

    registrations = _reading(registry.registrations, "reading the registry")
    register = _writing(registry.register, "registering")
    change = _writing(registry.change, "changing the registry")
    unregister = _writing(registry.unregister, "unregistering")
    identities = _reading(identities.known_identities, "reading identities")
    failures = _reading(registry.failures, "reading failures")
    reported_stats = _reading(registry.reported_stats, "reading reports")
    report_ages_s = _reading(registry.report_ages_s, "reading reports")
    report_times = _reading(registry.report_times, "reading reports")
    forget_report = _writing(registry.forget_report, "forgetting a report")
    log_counts = _reading(snapshot.log_counts, "looking")
    registry_count = _reading(snapshot.registry_count, "looking")
    events = _reading(claim_rows.events, "reading events")

    def remember(self, podm: FullPodm) -> int:
        """Store a pod manager as it was read; return its generation, which moves with the content.

        A reading older than the stored one changes nothing. IdentityConflict if the name is that
        of another service, or the service has another name.
        """
        key = key_of(podm.id)
        stored = self._write_readings({key: EncodedPodm(podm)})[key]
        if isinstance(stored, IdentityConflict):
            raise stored
        return stored.generation

    def note_removal(self, name: str, node: str, freed: Collection[str]) -> None:
        """Store that a node, by its URI, is gone from a reading, and which blocks are free."""
        key, gone = key_of(name), frozenset(freed)
        self._write(lambda c: podms.note_removal(c, key, node, gone), "storing what is gone")

    def remember_all(self, podms: Iterable[FullPodm]) -> dict[str, LeanPodm]:
        """Store pod managers as they were read; return them as they are known from now on, by id.

        Of up to ``CHUNK`` at a time one transaction finds those of which nothing is to be written;
        the others are stored ``BATCH_SIZE`` a transaction, each as :meth:`remember` stores it. Of
        two readings of one pod manager the last counts. A caller that decides next hands the
        result to :meth:`snapshot`, which then need not read these documents back.

        Raises:
            StoreError, IdentityConflict: one of them cannot be stored, and is named; all others
                are stored.
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
                    podm = stored.lean()
                    known[podm.id] = podm
        if errors:
            raise errors[0]
        return known

    def upsert_all(self, podms: Sequence[FullPodm]) -> list[FullPodm | Refusal]:
        """Store pod managers as :meth:`remember_all`; return each, or its error, in their order.

        A pod manager is whole, with what it reported by itself in place of what was read.
        StoreError is raised where none can be stored.
        """
        stored = self._store_all({key_of(podm.id): EncodedPodm(podm) for podm in podms})
        results = (stored[key_of(podm.id)] for podm in podms)
        return [one if isinstance(one, Refusal) else one.full() for one in results]

    def _store_all(self, readings: Mapping[str, EncodedPodm]) -> dict[str, StoredPodm | Refusal]:
        stored: dict[str, StoredPodm | Refusal] = {}
        if readings:
            with contextlib.suppress(InputError):  # of one that is to be named next
                doing = "storing what was read"
                stored |= self._read(lambda c: podms.unchanged(c, readings), doing)
        for keys in chunks(sorted(readings.keys() - stored.keys()), BATCH_SIZE):
            batch = {key: readings[key] for key in keys}
            try:
                stored |= self._write_readings(batch)
            except (RowRefused, InputError):
                for key, one in batch.items():
                    try:
                        stored |= self._write_readings({key: one})
                    except (RowRefused, InputError) as error:
                        stored[key] = StoreError(one_line(f"{one.podm.id}: {error}"))
        return stored

    def _write_readings(
        self, readings: Mapping[str, EncodedPodm]
    ) -> dict[str, StoredPodm | IdentityConflict]:
        stored = self._write(lambda c: podms.remember(c, readings), "storing what was read")
        written = [one for one in stored.values() if isinstance(one, StoredPodm) and one.written]
        self.counts.podms_written += len(written)
        return stored

    def record_failures(self, readings: FailedReadings) -> list[str]:
        """Store by name why pod managers could not be read; return the names of those that changed.

        What was read of them before stays; the next reading that is stored ends the failure.
        """
        changed: list[str] = []
        for names in chunks(sorted(readings), BATCH_SIZE):
            some = {name: readings[name] for name in names}
            work = functools.partial(registry.record_failures, readings=some)
            changed += self._write(work, "storing what was not read")
        return changed

    def previous_readings(self, names: Iterable[str]) -> dict[str, PreviousReading]:
        keys = sorted(key_of(name) for name in names)
        work = functools.partial(podms.previous_readings, keys=keys)
        return self._read(work, "reading pod managers")

    def read_times(self, names: Iterable[str]) -> dict[str, str | None]:
        keys = sorted(key_of(name) for name in names)
        return self._read(lambda c: podms.read_times(c, keys), "reading pod managers")

    def update_stats(self, name: str | tuple[str, str], stats: Stats) -> int:
        """Store what a pod manager reports by itself; return its generation.

        ``name`` is its id, or host and node. Words that are no fields of a pod manager are stored
        as facts. An unknown pod manager is known from then on. An invalid value is an InputError.
        """
        podm = podm_id(name)
        return self._write(lambda c: registry.store_report(c, podm, stats), "storing a report")

    def usages(self, names: Iterable[str]) -> dict[str, Usage]:
        """Return what live claims hold of pod managers and no stored reading shows yet, by name."""
        wanted = list(names)
        self.claims.expire()  # a user who may only read sees more held, never less
        return self._read(lambda c: usages_by_name(c, wanted), "reading what is held")

    def load_podms(self, names: Iterable[str] | None = None) -> dict[str, FullPodm]:
        wanted = None if names is None else list(names)
        return self._read(lambda c: podms.load(c, wanted), "reading pod managers")

    def snapshot(
        self, since: LogPosition | None = None, known: Mapping[str, LeanPodm] | None = None
    ) -> StoreSnapshot:
        """Return the pod managers that changed since a position, and what is held of them.

        One consistent snapshot. What expired claims hold is freed before. Pod managers in
        ``known``, by id, whose generation is the stored one are not read again. Where the totals of
        the change log did not move since the position, nothing else is read.
        """
        position = since or LogPosition()
        totals = self.log_totals()
        self.counts.rows_read += 1
        if not totals.expired and position.is_at(totals):
            return StoreSnapshot((), position, 0)

        def take(connection: Connection) -> StoreSnapshot:
            return snapshot.take_snapshot(connection, position, known or {}, self.counts)

        taken = self._read(take, "looking")
        if taken.expired_claims:
            expiry.expire_claims(self._database)
            taken = self._read(take, "looking")
        return taken

    def log_totals(self) -> LogTotals:
        """Return the totals of the change log: with equal ones nothing changed."""
        return snapshot.log_totals(self._database)

    def change_count(self) -> int:
        counts = self.log_counts()
        return sum(count for shard, count in counts.items() if shard >= 0)

    def purge(self, older_than_s: float, *, dry_run: bool = False) -> PurgeCounts:
        return expiry.purge(self._database, older_than_s, dry_run=dry_run)
