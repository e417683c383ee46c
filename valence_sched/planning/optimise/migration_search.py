# SPDX-License-Identifier: Apache-2.0
"""Migration search: the fewest migrations that reach a goal, by trying all of them.

Iterative deepening (Korf, 1985): no migration, then one, then two and more, each node to each pool
that makes it, also a node that has moved before: so it finds a spare place for two nodes that need
each other's place. The work is counted in fits; what was tried to the end is proven.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from valence_sched.core.fit.fit import Fit
from valence_sched.planning.optimise.migration_state import Migration, MigrationState


class MigrationGoal(Protocol):
    """What migrations are made for."""

    def lower_bound(self, state: MigrationState, left: int) -> int:
        """Return a number of migrations such that no fewer reach the goal; 0 if it is reached.

        A bound above ``left`` need not be exact.
        """

    def candidates(self, state: MigrationState, left: int) -> Iterable[int]:
        """Return the nodes of which one moves next in every plan of ``left`` migrations."""


@dataclass(slots=True)
class SearchResult:
    """Migrations that reach the goal, None if none were found; no plan has fewer than ``least``."""

    migrations: tuple[Migration, ...] | None
    least: int


def search_migrations(
    state: MigrationState, goal: MigrationGoal, least: int, most: int
) -> SearchResult:
    """Try all plans of ``least`` to ``most`` migrations, while fits are left.

    The state keeps the migrations that were found. ``least`` is proven already.
    """
    if state.is_spent:
        return SearchResult(None, least)
    least = max(least, goal.lower_bound(state, most))
    for number in range(least, most + 1):
        if _Deepening(state, goal).reach(number):
            return SearchResult(tuple(state.migrations), least if state.is_open else number)
        if state.is_spent or state.is_open:
            return SearchResult(None, number if not state.is_open else least)
    return SearchResult(None, max(least, most + 1))


@dataclass(slots=True)
class _Deepening:
    """One depth: the states that were tried in vain, with the number of migrations then left."""

    state: MigrationState
    goal: MigrationGoal
    tried: dict[Hashable, int] = field(default_factory=dict)

    def reach(self, left: int) -> bool:
        state = self.state
        state.fits_left -= 1
        bound = self.goal.lower_bound(state, left)
        if not bound:
            return True
        if bound > left or state.is_spent:
            return False
        key = state.fingerprint()
        if self.tried.get(key, -1) >= left:
            return False
        for number, fit in self._migrations(self.goal.candidates(state, left)):
            mark = state.mark()
            state.migrate(number, fit)
            if self.reach(left - 1):
                return True
            state.go_back(mark)
        if not state.is_spent:
            self.tried[key] = left
        return False

    def _migrations(self, candidates: Iterable[int]) -> Iterator[tuple[int, Fit]]:
        """Yield each node with each destination; of nodes that stand for one another one."""
        state = self.state
        seen: set[Hashable] = set()
        fits: dict[int, Sequence[Fit]] = {}
        for number in candidates:
            key = state.podm(number), state.signature(number)
            if key in seen:
                continue
            seen.add(key)
            node_type = state.places[number].node_type
            if node_type not in fits:
                fits[node_type] = _distinct(state, state.fits(node_type))
            for fit in fits[node_type]:
                yield number, fit


def _distinct(state: MigrationState, fits: Iterable[Fit]) -> list[Fit]:
    """Return fits without those that take the same blocks and amounts of the same podm."""
    podms = state.view.podm_of
    return list({(int(podms[fit.row]), fit.blocks, fit.grants): fit for fit in fits}.values())
