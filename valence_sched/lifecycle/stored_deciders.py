# SPDX-License-Identifier: Apache-2.0
"""Stored deciders: decide and claim repeatedly on the changing state of a store."""

import contextlib
import functools
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from valence_sched.core.decider import Decider
from valence_sched.errors import InputError, NoPodm, one_line
from valence_sched.inventory.live import StoredMembers, stored_members, stored_podm
from valence_sched.inventory.loader import InventoryLoader, collector_paused
from valence_sched.inventory.sources import SourceReader
from valence_sched.lifecycle.claim import Claimer
from valence_sched.lifecycle.follower import Followed, FollowedPodm, Follower
from valence_sched.lifecycle.intake import Intake
from valence_sched.model.custom_resource import DeclaredResources, with_declared
from valence_sched.model.hardware import PodmOverview
from valence_sched.model.inventory import LeanPodm, PodmStatus
from valence_sched.model.reading import OldReadings, ReadingAges, Selection, stale_error
from valence_sched.model.registration import Registration
from valence_sched.store.snapshot import StoreSnapshot
from valence_sched.store.store import Store

#: Shortest time between two look-ups of the age of an old reading.
ASK_AGAIN_S = 1.0


class StoredInventory:
    """The members of a follower: the stored pod managers of a selection.

    Each update sets the attributes and diagnostics of ``sources`` to the present state.
    """

    def __init__(
        self,
        store: Store,
        sources: SourceReader,
        loader: InventoryLoader,
        selection: Selection,
        declared: DeclaredResources | None = None,
    ) -> None:
        self._store, self._sources, self._loader = store, sources, loader
        self._selection, self._live, self._declared = selection, selection.live, declared
        # the first update reads everything
        self._members: StoredMembers
        self._names: frozenset[str]
        self._live_ids: set[str]
        self._read_ids: set[str]
        self._registered: dict[str, Registration] = {}
        self._ranks: dict[str, int] = {}
        self._reported: set[str] = set()
        self._statuses: dict[str, PodmStatus] = {}
        self._unread: dict[str, str] = {}
        self._refused: set[str] = set()
        self._invalid: dict[str, str] = {}
        self._aged: set[str] = set()
        self._max_ages = ReadingAges(self._live.max_age_s)
        self._warn_ages = ReadingAges(self._live.warn_age_s)
        self._asked_at: dict[str, float] = {}

    @property
    def skipped(self) -> Sequence[str]:
        return [*self._in_order(self._unread), *self._invalid.values()]

    def unread_ids(self) -> Collection[str]:
        return self._unread.keys()

    def update(self, followed: Followed, snapshot: StoreSnapshot, changed: set[str]) -> set[str]:
        """Update the pod managers after changes of any kind, including their ages and liveness."""
        again = set(changed)
        now = self._sources.now()
        reported = {one for one in changed if one in followed and followed[one].report is not None}
        members_changed = snapshot.registry_changed or (self._reported & changed) != reported
        self._reported = (self._reported - changed) | reported
        if members_changed:
            again |= self._read_members()
        for podm_id, ages in itertools.product(changed, (self._max_ages, self._warn_ages)):
            if podm_id in followed:
                ages.note(podm_id, followed[podm_id].podm.read_at, now)
            else:
                ages.forget(podm_id)
        for podm_id in again:
            self._invalid.pop(podm_id, None)
        again |= self._update_ages(followed)
        return again | self._update_statuses(followed)

    def podm(self, podm_id: str, followed: FollowedPodm | None) -> LeanPodm | None:
        """Return a pod manager for decisions, None unless the selection has it."""
        self._unread.pop(podm_id, None)
        self._refused.discard(podm_id)
        if podm_id not in self._ranks:
            return None
        known = failure = report = None
        if followed is not None:
            known, failure, report = followed.podm, followed.failure, followed.report
        one = self._registered.get(podm_id)
        if one is not None:
            limit_s, now = self._live.max_age_s, self._sources.now()
            if failure is not None and failure.refused:
                self._refused.add(podm_id)
            known, reason = stored_podm(one, known, failure, report, LeanPodm, limit_s, now)
            if reason is not None:
                reason = reason.removeprefix(f"{podm_id}: ")
                self._unread[podm_id] = one_line(f"{podm_id}: {reason}")
        if known is None:
            return None
        known = cast(LeanPodm, with_declared(known, self._declared))
        status = self._statuses.get(podm_id, known.status)
        return known if status == known.status else replace(known, status=status)

    def order(self, ids: Collection[str]) -> list[str]:
        return sorted(ids, key=self._ranks.__getitem__)

    def refuse(self, podm_id: str, error: InputError) -> None:
        self._invalid[podm_id] = str(error)

    def check(self, count: int) -> None:
        """Update the sources, and check the selected pod managers.

        Raises:
            NoPodm: no pod manager is selected.
            InventoryStale: a reading is older than the selection allows.
            InventoryIncomplete: with ``strict``, a pod manager could not be read.
        """
        self._note_sources()
        if not self._ranks:
            raise NoPodm(self._sources.no_podm_message(self._live))
        stale = [one for one in self._too_old() if one not in self._unread]
        if stale:
            first = self.order(stale)[0]
            limit, now = self._live.max_age_s or 0.0, self._sources.now()
            raise stale_error(first, self._max_ages.read_at(first), limit, now)
        self._loader.check(count, self._selection)

    def with_read_times(self, overviews: Iterable[PodmOverview]) -> list[PodmOverview]:
        """Return overviews with the time of the last reading, even if it found no change."""
        podms = [(one, one.podm) for one in overviews]
        times = self._store.read_times({podm.id for _, podm in podms} - self._refused)
        return [replace(one, podm=replace(podm, read_at=times.get(podm.id))) for one, podm in podms]

    def _read_members(self) -> set[str]:
        before, ranks_before = self._registered, self._ranks.keys()
        registry = self._sources.registry(self._live.state)
        self._members = stored_members(registry, self._live, self._reported)
        registered = (member.registration for member in self._members.members)
        self._registered = {one.name: one for one in registered}
        names = [*self._registered, *self._members.reporting]
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._names = frozenset(names)
        self._live_ids, self._read_ids = set(names), set(self._registered)
        return _differing(self._registered, before) | (self._ranks.keys() ^ ranks_before)

    def _update_ages(self, followed: Followed) -> set[str]:
        self._ask_times(self._max_ages, self._too_old())
        now = self._sources.now()
        at, old = now.timestamp(), self._warn_ages.older(now) & self._ranks.keys()
        self._asked_at = {one: self._asked_at.get(one, -math.inf) for one in old}
        due = [one for one, asked_at in self._asked_at.items() if at - asked_at >= ASK_AGAIN_S]
        self._ask_times(self._warn_ages, due)
        self._asked_at |= dict.fromkeys(due, at)
        failing = {one for one in self._too_old() if one in followed and followed[one].failure}
        aged, self._aged = self._aged, failing
        return aged ^ failing

    def _too_old(self) -> set[str]:
        if self._live.max_age_s is None:
            return set()
        ages = self._max_ages
        return (ages.older(self._sources.now()) | ages.unknown) & self._ranks.keys()

    def _ask_times(self, ages: ReadingAges, names: Collection[str]) -> None:
        if names:
            for name, read_at in self._store.read_times(names).items():
                ages.note(name, read_at, self._sources.now())

    def _update_statuses(self, followed: Followed) -> set[str]:
        before = self._statuses
        self._sources.read_ids = self._read_ids
        names = [name for name in self._members.reporting if name in followed]
        reports = [(name, followed[name].podm.read_at) for name in names]
        self._statuses = self._loader.statuses(reports, self._live)
        return _differing(self._statuses, before)

    def _note_sources(self) -> None:
        sources, now = self._sources, self._sources.now()
        sources.live_ids, sources.unread_ids = self._live_ids, set(self._unread)
        sources.stored_names = self._names
        sources.diagnostics.clear()
        for line in self._in_order(self._unread):
            sources.diagnostics.unread(line)
        for line in self._invalid.values():
            sources.diagnostics.skip(line)
        old = OldReadings(self._live.warn_age_s)
        for name in self._warn_ages.older(now) & self._ranks.keys():
            old.note(name, self._warn_ages.read_at(name), now)
        old.warn(sources.diagnostics)
        if self._declared:
            self._declared.remarks[:] = dict.fromkeys(self._declared.remarks)
            for remark in (*self._declared.remarks, *self._declared.unmatched_remarks()):
                sources.diagnostics.remark(remark)

    def _in_order(self, lines: dict[str, str]) -> list[str]:
        return [lines[name] for name in self.order(lines)]


def _differing(known: Mapping[str, object], before: Mapping[str, object]) -> set[str]:
    return {name for name in known.keys() | before.keys() if known.get(name) != before.get(name)}


class StoredDeciders:
    """Makes deciders and claimers for a selection of a store; used by one thread at a time."""

    def __init__(self, intake: Intake, store: Store) -> None:
        self.store, self._intake = store, intake
        self._is_new = True

    @functools.cached_property
    def _inventory(self) -> StoredInventory:
        intake = self._intake
        return StoredInventory(
            self.store, intake.sources, intake.loader, intake.selection, intake.declared_resources()
        )

    @functools.cached_property
    def _follower(self) -> Follower:
        make = functools.partial(self._intake.decider, policies=self._intake.policies())
        return Follower(self.store, make, self._inventory)

    def decider(self) -> Decider:
        """Return the decider on the present state; errors as for ``StoredInventory.check``."""
        with collector_paused() if self._is_new else contextlib.nullcontext():
            decider = self._follower.decider()
        self._is_new = False
        return decider

    @contextlib.contextmanager
    def claimer(self) -> Iterator[Claimer]:
        """Yield a claimer on the present state; it claims only pod managers that can be read."""
        self.decider()
        unread = self._inventory.unread_ids
        claimer = Claimer(self.store, self._follower, unclaimable=unread)
        try:
            yield claimer
        finally:
            claimer.close()

    @property
    def changes(self) -> int:
        """Return the number of processed changes of the change log."""
        return 0 if self._is_new else self._follower.position.changes

    def with_read_times(self, overviews: Iterable[PodmOverview]) -> list[PodmOverview]:
        return self._inventory.with_read_times(overviews)
