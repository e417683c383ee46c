# SPDX-License-Identifier: Apache-2.0
"""Rebalance: the fewest migrations of nodes that make room for one more, in a safe order.

There are two searches. The first one aims: to make room on a podm it removes a set of
its nodes on paper, and where that helps finds a destination for each, for which room may have to be
made first. The second one tries all plans that are shorter, and so proves which number is the
fewest; it also finds plans in which a node waits at a spare place. ``least`` is proven: no plan has
fewer migrations.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.model.relocation import NEVER
from valence_sched.planning.optimise.deadlock import waiting_nodes
from valence_sched.planning.optimise.migration_search import search_migrations
from valence_sched.planning.optimise.migration_state import Migration, MigrationState, MovableNode
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.view.view import View

MOST_MIGRATIONS = 3
MOST_FITS = 50_000  # tried in each search


class MigrationPlan(Struct, frozen=True):
    """Migrations in order, and what then makes the new node; None where no plan was found.

    No plan has fewer than ``least`` migrations. ``complete`` is false where the fits ran out before
    all plans of so many migrations were tried. ``waiting`` are nodes that would make room if they
    could move at once, where no plan was found: they need each other's places.
    """

    migrations: tuple[Migration, ...]
    fit: Fit | None
    least: int
    complete: bool
    waiting: tuple[int, ...] = ()

    @property
    def is_fewest(self) -> bool:
        return self.fit is not None and len(self.migrations) == self.least


def fewest_migrations(
    view: View,
    node_types: Sequence[NodeType],
    wanted: int,
    nodes: Sequence[MovableNode],
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> MigrationPlan:
    """Return a plan of at most so many migrations that makes room for one more node of a type.

    ``wanted`` is the number of the type. ``rows`` of a node type are also the destinations of its
    nodes.
    """
    state = MigrationState(view, tuple(node_types), nodes, fits)
    aimed = _aimed_migrations(state, wanted, most)
    shorter = most if aimed is None else len(aimed) - 1
    state.go_back((0, 0))
    state.fits_left = fits
    found = search_migrations(state, RoomGoal(wanted), 0, shorter)
    if found.migrations is None and aimed is not None:
        found.migrations = aimed
        for migration in aimed:
            state.migrate(migration.node, migration.fit)
    if found.migrations is None:
        state.fits_left = fits
        waiting = waiting_nodes(state, wanted) if most else ()
        return MigrationPlan((), None, found.least, found.least > most, waiting)
    state.fits_left = max(state.fits_left, 0) + len(view) + 1  # enough to look where the room is
    return MigrationPlan(found.migrations, state.fit(wanted), found.least, True)


@dataclass(frozen=True, slots=True)
class RoomGoal:
    """Room for one more node of a type."""

    node_type: int

    def lower_bound(self, state: MigrationState, left: int) -> int:
        """Return 0 with room, 1 without, and never where no podm would make the node if empty."""
        if state.fit(self.node_type) is not None:
            return 0
        if left and not self._podms(state) and not (state.is_open or state.is_spent):
            return NEVER
        return 1

    def candidates(self, state: MigrationState, left: int) -> Iterable[int]:
        """Return the nodes that make room alone as the last ones that move, in pairs before."""
        if left > 2:
            return range(len(state.places))
        singles = [number for numbers in self._podms(state).values() for number in numbers
                   if would_help(state, [number], self.node_type)]  # fmt: skip
        if singles and left == 2:
            return range(len(state.places))
        if singles or left == 1:
            return singles
        pairs = (pair for numbers in self._podms(state).values()
                 for pair in itertools.combinations(numbers, 2)
                 if would_help(state, pair, self.node_type))  # fmt: skip
        return sorted({number for pair in pairs for number in pair})

    def _podms(self, state: MigrationState) -> dict[int, list[int]]:
        """Return the nodes of each podm that makes the node once all of its own have gone."""
        # where the removal of all nodes does not help, that of some does not
        return {podm: numbers for podm, numbers in state.by_podm().items()
                if would_help(state, numbers, self.node_type)}  # fmt: skip


def would_help(state: MigrationState, chosen: Iterable[int], node_type: int) -> bool:
    """Return whether the podm of these nodes makes one of a type once they have gone."""
    mark, podm = state.mark(), -1
    for number in chosen:
        podm = state.podm(number)
        state.release(number)
    fit = state.fit(node_type, only=podm)
    state.go_back(mark)
    return fit is not None


def _aimed_migrations(
    state: MigrationState, wanted: int, most: int
) -> tuple[Migration, ...] | None:
    """Return migrations that make room, the first ones that the aimed search finds."""
    search = _AimedSearch(state)
    for number in range(most + 1):
        if search.make_room(wanted, number) is not None:
            return tuple(state.migrations)
        if state.is_spent:
            break
    return None


@dataclass(frozen=True, slots=True)
class _AimedSearch:
    """Makes room by moving nodes away that stand in the way; each node moves once."""

    state: MigrationState

    def make_room(self, node_type: int, most: int, avoid: int = -1) -> Fit | None:
        """Return what makes a node after at most so many migrations, which are made; else None.

        None leaves the state as it was. The node shall not come to the podm ``avoid``.
        """
        state = self.state
        fit = state.fit(node_type, avoid=avoid)
        if fit is not None:
            return fit
        if not most:
            return None
        # where the removal of all nodes does not help, that of some does not
        podms = [podm for podm, numbers in self._unmoved(avoid).items()
                 if would_help(state, numbers, node_type)]  # fmt: skip
        for size in range(1, most + 1):
            for podm, chosen in self._removals(size, podms):
                if state.is_spent:
                    return None
                if would_help(state, chosen, node_type):
                    fit = self._move_away(podm, chosen, node_type, most - size)
                    if fit is not None:
                        return fit
        return None

    def _unmoved(self, avoid: int) -> dict[int, list[int]]:
        """Return by podm the nodes that have not moved, but for the podm ``avoid``."""
        moved = {migration.node for migration in self.state.migrations}
        found = {podm: [number for number in numbers if number not in moved]
                 for podm, numbers in self.state.by_podm().items()
                 if podm != avoid}  # fmt: skip
        return {podm: numbers for podm, numbers in found.items() if numbers}

    def _removals(self, size: int, podms: Iterable[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield sets of nodes of one podm that have not moved yet; of equal sets one."""
        left = self._unmoved(avoid=-1)
        for podm in podms:
            seen: set[Hashable] = set()
            for chosen in itertools.combinations(left[podm], size):
                key = frozenset(Counter(map(self.state.signature, chosen)).items())
                if key not in seen:
                    seen.add(key)
                    yield podm, chosen

    def _move_away(
        self, podm: int, chosen: tuple[int, ...], node_type: int, spare: int
    ) -> Fit | None:
        """Migrate these nodes, with so many others to make room for them; return the new fit."""
        state = self.state
        mark, before = state.mark(), len(state.migrations)
        for order, number in enumerate(chosen):
            moving = state.places[number].node_type
            left = spare - (len(state.migrations) - before - order)
            fit = self.make_room(moving, left, avoid=podm) or state.fit(moving, only=podm)
            if fit is None:
                state.go_back(mark)
                return None
            state.migrate(number, fit)
        fit = state.fit(node_type, only=podm)
        if fit is None:
            state.go_back(mark)
        return fit
