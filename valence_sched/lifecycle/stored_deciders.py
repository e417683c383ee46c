# SPDX-License-Identifier: Apache-2.0
"""Stored deciders: decide and claim on what a store knows, one decision after another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator

from valence_sched.core.decider import Decider
from valence_sched.inventory.loader import collector_paused
from valence_sched.lifecycle.claim import Claimer
from valence_sched.lifecycle.follower import Follower
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.stored_inventory import StoredInventory
from valence_sched.model.podm_overview import PodmOverview
from valence_sched.store.store import Store


class StoredDeciders:
    """One follower of a store for the decisions and the claims of a selection; for one thread."""

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
        """Return the follower, made for the first decision: what only changes needs none."""
        return Follower(self.store, self._intake.make_decider(), self._inventory)

    def decider(self) -> Decider:
        """Return the decider on the present state of the store; errors as of its inventory."""
        with collector_paused() if self._is_new else contextlib.nullcontext():
            decider = self._follower.decider()
        self._is_new = False
        return decider

    @contextlib.contextmanager
    def claimer(self) -> Iterator[Claimer]:
        """Yield a claimer that decides with the same follower; it claims of what is read only."""
        self.decider()
        unread = self._inventory.unread_ids
        claimer = Claimer(self.store, (), follower=self._follower, unclaimable=unread)
        try:
            yield claimer
        finally:
            claimer.close()

    @property
    def changes(self) -> int:
        """Return how many changes of the change log are taken in."""
        return 0 if self._is_new else self._follower.position.changes

    def with_read_times(self, overviews: Iterable[PodmOverview]) -> list[PodmOverview]:
        """Return overviews with the times at which the pod managers were read last."""
        return self._inventory.with_read_times(overviews)
