# SPDX-License-Identifier: Apache-2.0
"""Podm fragmentation: the free accelerators of each podm that a mix has no use for, on a state.

It is the measure of the weigher ``fragmentation``, added up over the pools of a podm. ``excess`` is
what a podm has above a wanted share: the excesses of all podms add up, and the share is below the
wanted one just when their sum is below 0, or nothing is free.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from valence_sched.planning.optimise.migration_state import MigrationState
from valence_sched.view.fragmentation import FlavorMix, useless_and_free

MOST_MEASURED = 200_000  # states of podms that are remembered


@dataclass(slots=True)
class PodmFragmentation:
    """Measures podms as they are now; a podm in a state that was measured before is not again."""

    state: MigrationState
    mix: FlavorMix
    _known: dict[Hashable, tuple[float, float]] = field(default_factory=dict)
    _before: list[tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._before = [self._measure(podm) for podm in range(len(self.state.view.podms))]

    def amounts(self, podm: int) -> tuple[float, float]:
        """Return how many free accelerators of a podm are useless, and how many are free."""
        table = self.state.current.block_tables[podm]
        if table is self.state.view.block_tables[podm]:
            return self._before[podm]
        key = podm, tuple(table.slots), tuple(stock.used for stock in table.stocks)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_MEASURED:
                self._known.clear()
            self.state.fits_left -= 1  # it takes about as long as a fit
            known = self._known[key] = self._measure(podm)
        return known

    def all_amounts(self) -> list[tuple[float, float]]:
        """Return the amounts of every podm."""
        return [self.amounts(podm) for podm in range(len(self._before))]

    def excess(self, podm: int, wanted: float) -> float:
        """Return how many useless accelerators a podm has above a share of its free ones."""
        useless, free = self.amounts(podm)
        return useless - wanted * free

    def share(self) -> float:
        """Return the share of free accelerators that are useless, 0 if none is free."""
        amounts = self.all_amounts()
        free = sum(each for _, each in amounts)
        return sum(useless for useless, _ in amounts) / free if free > 0.0 else 0.0

    def _measure(self, podm: int) -> tuple[float, float]:
        view = self.state.current
        rows = np.arange(view.first_row[podm], view.first_row[podm + 1])
        useless, free = useless_and_free(view, rows, self.mix)
        return float(useless.sum()), float(free.sum())
