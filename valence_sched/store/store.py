# SPDX-License-Identifier: Apache-2.0
"""The store: registry, pod managers as last read, and what is claimed of them, by URL."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from valence_sched.errors import StoreError, one_line
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.lifecycle import Event
from valence_sched.model.registration import Registration
from valence_sched.model.stats import Stats, podm_id
from valence_sched.model.usage import Usage
from valence_sched.store import decisions, expiry, podms, registry, reported, schema
from valence_sched.store.claims import Claims
from valence_sched.store.database import Database, WorkCounts
from valence_sched.store.events import events
from valence_sched.store.expiry import PurgeCounts, purge
from valence_sched.store.faults import RowRefused
from valence_sched.store.nodes import Nodes
from valence_sched.store.podms import Reading, StoredPodm
from valence_sched.store.snapshot import LogPosition, StoreSnapshot, take_snapshot
from valence_sched.store.tables import chunks, key_of
from valence_sched.store.url import StoreUrl
from valence_sched.store.usage import usages_by_name

BATCH_SIZE = 50  # pod managers that are stored in one transaction, and locked as long


class Store:
    """A store, open from the start; a context manager that gives its connections back.

    ``sleep`` and ``lot`` (0..1) make the pauses between attempts. Time that others must agree
    on, such as when a claim ends, is the database's.

    Raises:
        StoreError: it cannot be opened, is no store, or is of a newer version.
    """

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._database = Database(StoreUrl(url), sleep, jitter)
        self.claims = Claims(self._database)
        self.nodes = Nodes(self._database)
        try:
            schema.prepare(self._database)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.address!r})"

    def close(self) -> None:
        """Give all connections back."""
        self._database.close()

    @property
    def address(self) -> str:
        """Return where the store is, without its password."""
        return str(self._database.address)

    @property
    def counts(self) -> WorkCounts:
        """Return the work done through this object so far."""
        return self._database.counts

    def registrations(self) -> list[Registration]:
        """Return all registered pod managers, by name."""
        return self._database.read(registry.registrations, "reading the registry")

    def register(self, one: Registration) -> None:
        """Register a pod manager.

        Raises:
            NameTaken: one is registered under this name.
        """
        self._database.write(lambda c: registry.register(c, one), "registering")

    def change(self, one: Registration) -> None:
        """Put a pod manager in place of the registered one that has its name.

        Raises:
            UnknownName: none has it.
        """
        self._database.write(lambda c: registry.change(c, one), "changing the registry")

    def unregister(self, name: str) -> None:
        """Forget a pod manager, and what was read of it.

        Raises:
            UnknownName: none is registered under this name.
            InUse: claims or nodes of it are there.
        """
        self._database.write(lambda c: registry.unregister(c, name), "unregistering")

    def remember(self, podm: FullPodm) -> int:
        """Store a pod manager as it was read; return its generation.

        The generation moves only when something other than the time of reading changed. A
        reading older than the stored one changes nothing.
        """
        key = key_of(podm.id)
        return self._write_readings({key: Reading(podm)})[key].generation

    def remember_all(self, podms: Iterable[FullPodm]) -> dict[str, LeanPodm]:
        """Store pod managers as they were read; return them as they are known from now on, by id.

        One transaction finds those of which nothing is to be written, the others are stored
        ``BATCH_SIZE`` a transaction, each as :meth:`remember` stores it. Of two readings of one
        pod manager the last counts. A caller that decides next hands the result to
        :meth:`snapshot`, which then need not read these documents back.

        Raises:
            StoreError: one of them cannot be stored, and is named; all others are stored.
        """
        stored = self._store_all({key_of(podm.id): Reading(podm) for podm in podms})
        for error in stored.values():
            if isinstance(error, StoreError):
                raise error
        lean = [podm.lean() for podm in stored.values() if not isinstance(podm, StoreError)]
        return {podm.id: podm for podm in lean}

    def upsert_all(self, podms: Sequence[FullPodm]) -> list[FullPodm | StoreError]:
        """Store pod managers as :meth:`remember_all`; return what became of each, in their order.

        That is the pod manager as it is known from now on, whole, with what it reported by itself
        in place of what was read; or the error that names it where it alone cannot be stored.
        StoreError is raised where none can be.
        """
        stored = self._store_all({key_of(podm.id): Reading(podm) for podm in podms})
        results = (stored[key_of(podm.id)] for podm in podms)
        return [one if isinstance(one, StoreError) else one.full() for one in results]

    def _store_all(self, readings: Mapping[str, Reading]) -> dict[str, StoredPodm | StoreError]:
        """Return the pod managers, by key, once they are stored, and errors as they are."""
        found: dict[str, StoredPodm | StoreError] = {}
        if readings:
            found |= self._database.read(
                lambda c: podms.unchanged(c, readings), "reading pod managers"
            )
        for keys in chunks(sorted(readings.keys() - found.keys()), BATCH_SIZE):
            batch = {key: readings[key] for key in keys}
            try:
                found |= self._write_readings(batch)
            except RowRefused:
                found |= {key: self._write_alone(key, one) for key, one in batch.items()}
        return found

    def _write_readings(self, readings: Mapping[str, Reading]) -> dict[str, StoredPodm]:
        stored = self._database.write(
            lambda c: podms.remember(c, readings), "storing what was read"
        )
        self.counts.podms_written += sum(one.written for one in stored.values())
        return stored

    def _write_alone(self, key: str, reading: Reading) -> StoredPodm | StoreError:
        try:
            return self._write_readings({key: reading})[key]
        except RowRefused as error:
            return StoreError(one_line(f"{reading.podm.id}: {error}"))

    def update_stats(self, name: str | tuple[str, str], stats: Stats) -> int:
        """Take in what a pod manager reports by itself; return its generation.

        ``name`` is its id, or host and node. Words that are no fields of a pod manager are kept
        as facts. One that nobody knows yet is known from then on.

        Raises:
            InputError: something reported is not what it must be; nothing is stored.
        """
        podm = podm_id(name)
        return self._database.write(
            lambda c: reported.store_report(c, podm, stats), "storing a report"
        )

    def reported_stats(self) -> dict[str, Stats]:
        """Return what pod managers reported by themselves, by name."""
        return self._database.read(reported.reported_stats, "reading reports")

    def forget_report(self, name: str) -> None:
        """Forget what a pod manager reported by itself, and one that was never read whole.

        What stood over a reading gives way to the next one.

        Raises:
            UnknownName: it never reported.
            InUse: it was never read, and claims or nodes of it are there.
        """
        self._database.write(lambda c: registry.forget_report(c, name), "forgetting a report")

    def report_ages_s(self) -> dict[str, float]:
        """Return how many seconds ago pod managers reported last, by name."""
        return self._database.read(reported.report_ages_s, "reading reports")

    def usages(self, names: Iterable[str]) -> dict[str, Usage]:
        """Return what live claims hold of pod managers, by name; of which nothing is, is left out.

        What a reading that was stored shows already is not among it.
        """
        wanted = list(names)
        self.claims.expire()  # who may only read sees more held, never less
        return self._database.read(lambda c: usages_by_name(c, wanted), "reading what is held")

    def load_podms(self, names: Iterable[str] | None = None) -> dict[str, FullPodm]:
        """Return pod managers as last read, by name: these, or all."""
        wanted = None if names is None else list(names)
        return self._database.read(lambda c: podms.load(c, wanted), "reading pod managers")

    def snapshot(
        self, since: LogPosition | None = None, known: Mapping[str, LeanPodm] | None = None
    ) -> StoreSnapshot:
        """Return the pod managers that changed since a position, and what is held of them.

        One consistent snapshot. What expired claims hold is freed before. Pod managers in
        ``known``, by id, whose generation is the stored one are not read again.
        """
        found = self._snapshot(since or LogPosition(), known or {})
        if found.expired_claims:
            expiry.expire_claims(self._database)
            found = self._snapshot(since or LogPosition(), known or {})
        return found

    def _snapshot(self, since: LogPosition, known: Mapping[str, LeanPodm]) -> StoreSnapshot:
        return self._database.read(
            lambda c: take_snapshot(c, since, known, self._database.counts), "looking"
        )

    def events(self, claim: str | None = None, last: int = 1000) -> list[Event]:
        """Return what happened ``last``, to one claim or to all, the oldest first."""
        return self._database.read(lambda c: events(c, claim, last), "reading events")

    def purge(self, older_than_s: float, *, dry_run: bool = False) -> PurgeCounts:
        """Forget claims that ended, events and decisions longer ago than so many seconds."""
        return purge(self._database, older_than_s, dry_run=dry_run)

    def save_decision(self, decision_id: str, document: bytes) -> None:
        """Keep a decision as a document, for who asks later why; one kept already stays."""
        self._database.write(
            lambda c: decisions.save(c, decision_id, document), "keeping a decision"
        )

    def decision(self, decision_id: str) -> bytes:
        """Return a decision that was kept; UnknownName when there is none."""
        return self._database.read(lambda c: decisions.load(c, decision_id), "reading a decision")
