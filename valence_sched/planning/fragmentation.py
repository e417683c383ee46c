# SPDX-License-Identifier: Apache-2.0
"""Fragmentation of a site: its free accelerators that a mix has no use for, and the fewest moves.

It is the measure of the weigher ``fragmentation``, added up over the pools of a podm. A migration
changes two podms, so what it wins is the sum of what each of them does: ``excess`` is what a podm
has above a wanted share; the excesses of all podms add up, and the share is below the wanted one
just when their sum is below 0, or nothing is free. The first search makes again and again the
migration that wins most; the second one tries all plans that are shorter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from valence_sched.core.fit.fit import Fit
from valence_sched.model.relocation import NEVER
from valence_sched.model.request import Mix
from valence_sched.planning.optimise.migrations import (
    MigrationPlan,
    MigrationState,
    MovableNode,
    search_migrations,
)
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.view.blocks import BlockTable
from valence_sched.view.fragmentation import (
    ACCELERATORS,
    FlavorMix,
    flavor_mix,
    has_accelerators,
    useless_and_free,
)
from valence_sched.view.view import View

MOST_MIGRATIONS = 20
MOST_FITS = 20_000  # tried by the exhaustive search, and podms measured
MOST_MEASURED = 50_000  # states of podms that are remembered
LEAST_GAIN = 1e-9  # accelerators

Amounts = tuple[float, float]  # how many free accelerators are useless, and how many are free


def usable_mix(view: View, mix: Mix) -> FlavorMix | None:
    """Return a mix as compiled; None where there are no accelerators, or no flavor needs any."""
    if not mix.shares or not has_accelerators(view):
        return None
    return flavor_mix(view, mix, ACCELERATORS) or None


class FragmentationMeasure:
    """Measures a View that nodes are taken from; only podms in a new state are measured.

    ``view`` returns it as it is now; ``spend`` is told how many podms had to be measured.
    """

    def __init__(
        self, view: Callable[[], View], mix: FlavorMix, spend: Callable[[int], None] | None = None
    ) -> None:
        self._view, self._mix = view, mix
        self._known: dict[Hashable, Amounts] = {}
        self._latest: list[tuple[BlockTable, Amounts] | None] = [None] * len(view().podms)
        self._spend: Callable[[int], None] | None = None
        self.all_amounts()  # as the View is at first, which is no part of a search
        self._spend = spend

    def all_amounts(self) -> list[Amounts]:
        """Return the amounts of every podm."""
        return self._amounts(range(len(self._latest)))

    def excess(self, podm: int, wanted: float) -> float:
        """Return how many useless accelerators a podm has above a share of its free ones."""
        ((useless, free),) = self._amounts([podm])
        return useless - wanted * free

    def share(self) -> float:
        """Return the share of free accelerators that are useless, 0 if none is free."""
        amounts = self.all_amounts()
        free = sum(each for _, each in amounts)
        return sum(useless for useless, _ in amounts) / free if free > 0.0 else 0.0

    def _amounts(self, podms: Sequence[int]) -> list[Amounts]:
        view, unknown = self._view(), dict[int, Hashable]()
        tables = view.block_tables
        for podm in podms:
            latest, table = self._latest[podm], tables[podm]
            if latest is None or latest[0] is not table:
                used = tuple(stock.used for stock in table.stocks)
                key: Hashable = (podm, tuple(table.slots), used)
                if (known := self._known.get(key)) is not None:
                    self._latest[podm] = table, known
                else:
                    unknown[podm] = key
        if unknown:
            if self._spend is not None:
                self._spend(len(unknown))  # each takes about as long as a fit
            if len(self._known) >= MOST_MEASURED:
                self._known.clear()
            spans = [view.first_row[podm : podm + 2].tolist() for podm in unknown]
            rows = np.concatenate([np.arange(first, last) for first, last in spans])
            useless, free = useless_and_free(view, rows, self._mix)
            at = 0
            for (podm, key), (first, last) in zip(unknown.items(), spans, strict=True):
                own = slice(at, at := at + last - first)
                amounts = self._known[key] = float(useless[own].sum()), float(free[own].sum())
                self._latest[podm] = tables[podm], amounts
        return [self._latest[podm][1] for podm in podms]  # type: ignore[index]


def defragment(
    view: View,
    node_types: Sequence[NodeType],
    nodes: Sequence[MovableNode],
    mix: FlavorMix,
    wanted: float,
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> MigrationPlan:
    """Return the fewest migrations for fragmentation below a share, else those that win most."""
    state = MigrationState(view, tuple(node_types), nodes, NEVER)

    def spend(podms: int) -> None:
        state.fits_left -= podms

    goal = FragmentationGoal(FragmentationMeasure(lambda: state.current, mix, spend), wanted)
    while not goal.is_reached() and len(state.migrations) < most and _migrate_best(state, goal):
        pass
    reached, greedy = goal.is_reached(), tuple(state.migrations)
    state.go_back((0, 0))
    if len(nodes) * len(view) > fits:  # not even all single migrations can be tried
        least = goal.lower_bound(state, len(greedy) if reached else most)
    else:
        state.fits_left = fits
        found, least = search_migrations(state, goal, len(greedy) - 1 if reached else most)
        if found is not None:
            return MigrationPlan(found, True, least, True)
    return MigrationPlan(greedy, reached, least, reached or least > most)


@dataclass(frozen=True, slots=True)
class FragmentationGoal:
    """Fragmentation below a share of the free accelerators."""

    measure: FragmentationMeasure
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
        numbers = itertools.chain.from_iterable(state.by_podm().values())
        gains = {number: self.change(state, number) for number in numbers}
        return sorted(gains, key=lambda number: (gains[number], number))

    def change(self, state: MigrationState, number: int) -> float:
        """Return by how much the excess of a node's podm changes once the node has gone."""
        podm, mark = state.podm(number), state.mark()
        before = self.measure.excess(podm, self.wanted)
        state.release(number)
        after = self.measure.excess(podm, self.wanted)
        state.go_back(mark)
        return after - before


def _migrate_best(state: MigrationState, goal: FragmentationGoal) -> bool:
    """Make the migration that wins most, the most promising nodes and podms first, if any wins."""
    measure, wanted = goal.measure, goal.wanted
    releases = []  # what the migration may win at best, the node, what its podm wins, its cards
    for numbers in state.by_podm().values():
        for number in {state.signature(one): one for one in numbers[::-1]}.values():
            change, cards = goal.change(state, number), state.held_accelerators(number)
            releases.append((change - cards, number, change, cards))
    useless_first = sorted(enumerate(measure.all_amounts()), key=lambda one: -one[1][0])
    takes: dict[tuple[int, int], list[tuple[float, Fit]]] = {}
    best, chosen = -LEAST_GAIN, None
    for bound, number, change, cards in sorted(releases):
        if bound >= best:
            break
        node_type, source = state.places[number].node_type, state.podm(number)
        for podm, (useless, _) in useless_first:
            # a podm wins no more than what is useless in it, nor than the cards of the node
            if change - min(useless, cards) >= best:
                break
            known = None if podm == source else takes.get((podm, node_type))
            if known is None:
                known, mark = [], state.mark()
                before = measure.excess(podm, wanted) + (change if podm == source else 0.0)
                for fit in state.fits(node_type, only=podm):
                    state.take(fit)
                    if podm == source:
                        state.release(number)
                    known.append((measure.excess(podm, wanted) - before, fit))
                    state.go_back(mark)
                if podm != source:
                    takes[podm, node_type] = known
            for gain, fit in known:
                if change + gain < best:
                    best, chosen = change + gain, (number, fit)
    if chosen is not None:
        state.migrate(*chosen)
    return chosen is not None
