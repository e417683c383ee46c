# SPDX-License-Identifier: Apache-2.0
"""The store: registry, pod managers as last read, and what is claimed of them, by URL."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from valence_sched.errors import StoreError, one_line
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import Registration
from valence_sched.model.stats import Stats, podm_id
from valence_sched.model.usage import Usage
from valence_sched.store import decisions, expiry, podms, registry, schema
from valence_sched.store.claims import Claims
from valence_sched.store.database import Database, WorkCounts
from valence_sched.store.events import Event, events
from valence_sched.store.expiry import PurgeCounts, purge
from valence_sched.store.faults import RowRefused
from valence_sched.store.nodes import Nodes
from valence_sched.store.snapshot import LogPosition, StoreSnapshot, take_snapshot
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

        The generation moves only when something other than the time of reading did. A reading
        older than the stored one changes nothing.
        """
        return self.upsert(podm).generation

    def upsert(self, podm: FullPodm) -> FullPodm:
        """Store a pod manager as it was read; return it as it is known from now on.

        What it reported by itself stands in place of what was read. A reading older than the
        stored one changes nothing, and the stored one is returned.
        """
        return self._upsert([podm])[0]

    def remember_all(self, podms: Sequence[FullPodm]) -> list[int | StoreError]:
        """Store pod managers as they were read; return their generations, errors as they are."""
        told = self.upsert_all(podms)
        return [one if isinstance(one, StoreError) else one.generation for one in told]

    def upsert_all(self, podms: Sequence[FullPodm]) -> list[FullPodm | StoreError]:
        """Store pod managers as they were read, many in one transaction.

        Returns each as it is known from now on, or the error that names it where it alone cannot
        be stored. StoreError is raised where nothing can be.
        """
        found: list[FullPodm | StoreError] = []
        for first in range(0, len(podms), BATCH_SIZE):
            some = podms[first : first + BATCH_SIZE]
            try:
                found += self._upsert(some)
            except RowRefused:
                found += [self._upsert_alone(podm) for podm in some]
        return found

    def _upsert(self, some: Sequence[FullPodm]) -> list[FullPodm]:
        return self._database.write(lambda c: podms.remember(c, some), "storing what was read")

    def _upsert_alone(self, podm: FullPodm) -> FullPodm | StoreError:
        try:
            return self.upsert(podm)
        except RowRefused as error:
            return StoreError(one_line(f"{podm.id}: {error}"))

    def update_stats(self, name: str | tuple[str, str], stats: Stats) -> int:
        """Take in what a pod manager reports by itself; return its generation.

        ``name`` is its id, or host and node. Words that are no fields of a pod manager are kept
        as facts. One that nobody knows yet is known from then on.

        Raises:
            InputError: something reported is not what it must be; nothing is stored.
        """
        podm = podm_id(name)
        return self._database.write(
            lambda c: podms.store_report(c, podm, stats), "storing a report"
        )

    def reported_stats(self) -> dict[str, Stats]:
        """Return what pod managers reported by themselves, by name."""
        return self._database.read(podms.reported_stats, "reading reports")

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
        return self._database.read(podms.report_ages_s, "reading reports")

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

    def snapshot(self, since: LogPosition | None = None) -> StoreSnapshot:
        """Return pod managers and what is held of them, as far as they moved since ``known``.

        One consistent snapshot. What claims hold whose time is over is freed before.
        """
        found = self._snapshot(since)
        if found.expired_claims:
            expiry.expire_claims(self._database)
            found = self._snapshot(since)
        return found

    def _snapshot(self, since: LogPosition | None) -> StoreSnapshot:
        return self._database.read(
            lambda c: take_snapshot(c, since or LogPosition(), self._database.counts), "looking"
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
