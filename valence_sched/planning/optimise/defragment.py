# SPDX-License-Identifier: Apache-2.0
"""Defragmentation: the fewest migrations that bring fragmentation below a share.

A migration changes two podms, so what it wins is the sum of what each of them does. The first
search makes again and again the migration that wins most; the second one tries all plans that are
shorter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.model.relocation import NEVER
from valence_sched.planning.optimise.migration_search import search_migrations
from valence_sched.planning.optimise.migration_state import Migration, MigrationState, MovableNode
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.optimise.podm_fragmentation import PodmFragmentation
from valence_sched.view.fragmentation import FlavorMix
from valence_sched.view.view import View

MOST_MIGRATIONS = 20
MOST_FITS = 20_000  # tried by the exhaustive search, and podms measured
LEAST_GAIN = 1e-9  # accelerators


class DefragmentationPlan(Struct, frozen=True):
    """Migrations in order, which reach the goal or not; no plan that does has fewer than ``least``.

    ``complete`` is false where migrations may exist that reach the goal, and none were found.
    """

    migrations: tuple[Migration, ...]
    reached: bool
    least: int
    complete: bool


def defragment(
    view: View,
    node_types: Sequence[NodeType],
    nodes: Sequence[MovableNode],
    mix: FlavorMix,
    wanted: float,
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> DefragmentationPlan:
    """Return a plan of at most so many migrations after which fragmentation is below a share.

    ``rows`` of a node type are the destinations of its nodes. Where no plan is found, the
    migrations are those that win most one after another.
    """
    state = MigrationState(view, tuple(node_types), nodes, NEVER)
    measure = PodmFragmentation(state, mix)
    goal = FragmentationGoal(measure, wanted)
    best = _BestMigrations(state, measure, wanted)
    while not goal.is_reached() and len(state.migrations) < most and best.make():
        pass
    reached, greedy = goal.is_reached(), tuple(state.migrations)
    state.go_back((0, 0))
    if len(nodes) * len(view) > fits:  # not even all single migrations can be tried
        least = goal.lower_bound(state, len(greedy) if reached else most)
        return DefragmentationPlan(greedy, reached, least, reached or least > most)
    state.fits_left = fits
    found = search_migrations(state, goal, 0, len(greedy) - 1 if reached else most)
    if found.migrations is not None:
        return DefragmentationPlan(found.migrations, True, found.least, True)
    return DefragmentationPlan(greedy, reached, found.least, reached or found.least > most)


@dataclass(frozen=True, slots=True)
class FragmentationGoal:
    """Fragmentation below a share of the free accelerators."""

    measure: PodmFragmentation
    wanted: float

    def is_reached(self) -> bool:
        return self.measure.share() < self.wanted

    def lower_bound(self, state: MigrationState, left: int) -> int:
        """Return 0 below the share; else 1, and before the first migration what is least then.

        Each of so many migrations changes two podms, in which nothing less than nothing is useless
        then; and its node frees at most the accelerators that it has.
        """
        if self.is_reached():
            return 0
        if state.migrations or not left:
            return 1
        amounts = self.measure.all_amounts()
        useless = sorted((each for each, _ in amounts), reverse=True)
        cards = sorted(map(state.held_accelerators, range(len(state.places))), reverse=True)
        free, rest = sum(each for _, each in amounts), math.fsum(useless)
        for number in range(1, left + 1):
            free += cards[number - 1] if number <= len(cards) else 0.0
            rest -= math.fsum(useless[2 * number - 2 : 2 * number])
            if rest - self.wanted * free < LEAST_GAIN:
                return number
        return left + 1

    def candidates(self, state: MigrationState, left: int) -> Iterable[int]:
        """Return all nodes, those first whose removal wins most."""
        gains = {}
        for numbers in state.by_podm().values():
            before = self.measure.excess(state.podm(numbers[0]), self.wanted)
            for number in numbers:
                gains[number] = _after_release(state, self.measure, number, self.wanted) - before
        return sorted(gains, key=lambda number: (gains[number], number))


class _Release(NamedTuple):
    """A node that may leave its podm: what that wins, and how many cards it takes elsewhere.

    ``bound`` is what its migration may win at best; the lowest one is looked at first.
    """

    bound: float
    node: int
    change: float
    cards: float


class _Take(NamedTuple):
    """What a podm wins by one more node: a change of the excess, below 0 if it wins."""

    change: float
    fit: Fit


@dataclass(slots=True)
class _BestMigrations:
    """Finds the single migration that wins most, the most promising nodes and podms first.

    Only podms that changed are looked at again.
    """

    state: MigrationState
    measure: PodmFragmentation
    wanted: float
    _releases: dict[int, list[_Release]] = field(default_factory=dict)
    _takes: dict[tuple[int, int], list[_Take]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._look(range(len(self.state.view.podms)))

    def make(self) -> bool:
        """Make the migration that wins most; return whether any wins."""
        best, chosen = -LEAST_GAIN, None
        podms = self._most_useless_first()
        releases = (one for some in self._releases.values() for one in some)
        for release in sorted(releases):
            if release.bound >= best:
                break
            for podm, useless in podms:
                # a podm wins no more than what is useless in it, nor than the cards of the node
                if release.change - min(useless, release.cards) >= best:
                    break
                for take in self._changes(release, podm):
                    if release.change + take.change < best:
                        best, chosen = release.change + take.change, (release.node, take.fit)
        if chosen is None:
            return False
        source = self.state.podm(chosen[0])
        self.state.migrate(*chosen)
        self._look({source, self.state.podm(chosen[0])})
        return True

    def _most_useless_first(self) -> list[tuple[int, float]]:
        amounts = enumerate(self.measure.all_amounts())
        return sorted(((podm, each) for podm, (each, _) in amounts), key=lambda one: -one[1])

    def _changes(self, release: _Release, podm: int) -> list[_Take]:
        """Return what each pool of a podm wins by the node; on its own podm beyond its release."""
        state, node_type = self.state, self.state.places[release.node].node_type
        own = podm == state.podm(release.node)
        known = None if own else self._takes.get((podm, node_type))
        if known is None:
            before = self.measure.excess(podm, self.wanted) + (release.change if own else 0.0)
            known = [_Take(self._after(fit, podm, release.node if own else None) - before, fit)
                     for fit in state.fits(node_type, only=podm)]  # fmt: skip
            if not own:
                self._takes[podm, node_type] = known
        return known

    def _look(self, podms: Collection[int]) -> None:
        by_podm = self.state.by_podm()
        for key in [key for key in self._takes if key[0] in podms]:
            del self._takes[key]
        for podm in podms:
            before = self.measure.excess(podm, self.wanted)
            numbers = {self.state.signature(one): one for one in by_podm.get(podm, ())[::-1]}
            self._releases[podm] = [self._release(number, before) for number in numbers.values()]

    def _release(self, number: int, before: float) -> _Release:
        after = _after_release(self.state, self.measure, number, self.wanted)
        cards = self.state.held_accelerators(number)
        return _Release(after - before - cards, number, after - before, cards)

    def _after(self, fit: Fit, podm: int, moved: int | None) -> float:
        """Return the excess of a podm once it has made a node, and one of its own has gone."""
        mark = self.state.mark()
        self.state.take(fit)
        if moved is not None:
            self.state.release(moved)
        after = self.measure.excess(podm, self.wanted)
        self.state.go_back(mark)
        return after


def _after_release(
    state: MigrationState, measure: PodmFragmentation, number: int, wanted: float
) -> float:
    """Return the excess of a node's podm once the node has gone."""
    mark, podm = state.mark(), state.podm(number)
    state.release(number)
    after = measure.excess(podm, wanted)
    state.go_back(mark)
    return after
