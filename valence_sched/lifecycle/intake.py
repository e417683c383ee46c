# SPDX-License-Identifier: Apache-2.0
"""Intake: reads the pod managers of a selection, and stores them or builds deciders."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from valence_sched.config.settings import Configuration
from valence_sched.core.decider import Decider
from valence_sched.errors import InventoryIncomplete, SchedulerError
from valence_sched.inventory.loader import InventoryLoader, collector_paused
from valence_sched.inventory.sources import SourceReader
from valence_sched.model.custom_resource import DeclaredResources
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.policy import Policy
from valence_sched.model.reading import Selection
from valence_sched.model.request import Mix, Request
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.lifecycle.claim import Claimer
    from valence_sched.store.store import Store


BATCH_SIZE = 500  # pod managers read before they are stored together


class StoredPodms(NamedTuple):
    """Stored readings: their times, and the stored pod managers."""

    read_at: dict[str, str | None]
    podms: dict[str, LeanPodm]


@dataclass
class Intake:
    """Reads the pod managers of ``selection``, with the policies and flavors for them."""

    config: Configuration
    sources: SourceReader
    loader: InventoryLoader
    selection: Selection
    _has_read: bool = False

    def policies(self) -> list[Policy]:
        return list(self.config.policies(self.selection.policy_files).values())

    @functools.cached_property
    def stated(self) -> Mapping[str, tuple[str, ...]]:
        """Return the capabilities that the zone settings state for its pod managers.

        A command does not apply them to recorded pod managers; the service of the zone does.
        """
        if self.selection.zones is None and self.selection.sources:
            return {}
        return (self.selection.zones or self.config.zones()).capability_map

    def declared_resources(self) -> DeclaredResources | None:
        return self.config.declared_resources(self.selection.resource_files)

    def view(self, texts: dict[str, bytes] | None = None) -> View:
        """Read and return the pod managers; errors and ``texts`` as for the loader."""
        self._begin_reading()
        return self.loader.view(self.selection, texts)

    def decider(self, view: View, policies: Iterable[Policy]) -> Decider:
        strict, skipped = self.selection.strict, self.loader.skipped()
        return Decider(
            view, policies, mix=self._mix, skipped=skipped, strict=strict, stated=self.stated
        )

    def claimer(self, store: "Store") -> "Claimer":
        """Store the readings, and return a claimer on them; errors as for :meth:`view`."""
        from valence_sched.lifecycle import claim, follower  # import SQL: only for claims

        with collector_paused():
            stored = self.store_podms(store, self.selection)
        make = functools.partial(
            Decider, policies=self.policies(), mix=self._mix, stated=self.stated,
            strict=self.selection.strict,
        )  # fmt: skip
        members = follower.FixedMembers(
            stored.read_at,
            declared=self.declared_resources(),
            statuses=self.loader.statuses(stored.read_at.items(), self.selection.live),
            skipped=self.loader.skipped(),
        )
        followed = follower.Follower(store, make, members, known=stored.podms)
        return claim.Claimer(store, followed)

    def store_podms(
        self, store: "Store", selection: Selection, only: Collection[str] | None = None
    ) -> StoredPodms:
        """Read pod managers and store them, many in one transaction.

        Declared resources are not stored. After an error, the readings before it are stored.
        """
        self._begin_reading()
        stored = StoredPodms({}, {})
        batch: list[FullPodm] = []

        def store_batch() -> None:
            stored.podms.update(store.remember_all(batch))
            batch.clear()

        try:
            for podm in self.loader.podms(replace(selection, resource_files=())):
                if podm.id in self.sources.unread_ids or (only is not None and podm.id not in only):
                    continue
                stored.read_at[podm.id] = podm.read_at
                # pod managers that only report, or come from the state, are stored already
                if podm.id not in self.sources.reported_ids and not selection.live.stored:
                    batch.append(podm)
                if len(batch) == BATCH_SIZE:
                    store_batch()
        except SchedulerError:
            store_batch()
            raise
        store_batch()
        return stored

    def refuse_outage(self, requests: Sequence[Request], known: Collection[str]) -> None:
        """Raise InventoryIncomplete if no ``known`` pod manager could be read.

        If every request names pod managers, only the named pod managers are checked.
        """
        if all(request.podms for request in requests):
            known = {name for request in requests for name in request.podms}
        if not known or not set(known) <= self.sources.unread_ids:
            return
        starts = tuple(f"{name}: " for name in known)
        unread = self.sources.diagnostics.lines("unread")
        lines = [line for line in unread if line.startswith(starts)]
        if len(lines) == 1:
            raise InventoryIncomplete(f"no pod manager could be read: {lines[0]}")
        hint = "check that they run and that their URLs are right (podm check)"
        raise InventoryIncomplete(f"0 of {len(known):,} pod managers could be read: {hint}")

    def _begin_reading(self) -> None:
        if self._has_read:
            self.sources.diagnostics.clear()
        self._has_read = True

    def _mix(self) -> Mix:
        return self.config.mix(self.selection.flavor_files)
