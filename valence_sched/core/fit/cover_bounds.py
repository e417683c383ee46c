# SPDX-License-Identifier: Apache-2.0
"""Cover bounds: whether a state of a set cover can still be completed, and at which price.

Three bounds, each valid by itself: what the items left give to a demand in all; the same within
the room that the caps leave, best first; and the multipliers of the linear relaxation over all
demands and caps together, for whether and for how much.
"""

import math

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit.cover_table import LARGEST, CoverTable, Ints
from valence_sched.core.fit.relaxation import Multipliers, multipliers

Mask = npt.NDArray[np.bool_]

MOST_GIFTS = 4096  # items, each as often as it is available, whose gifts are sorted for a bound
MOST_CELLS = 100_000  # of the table of a linear programme


class CoverBounds:
    """The bounds of one cover; ``given`` and ``used`` are sums over the items from each on."""

    def __init__(self, table: CoverTable) -> None:
        self._table = table
        self.given = from_each_on(table.gives * table.available[:, None])
        self.used = from_each_on(table.uses * table.available[:, None])
        self._cap_sets = [
            (np.flatnonzero(pattern), (table.uses == pattern).all(axis=1))
            for pattern in np.unique(table.uses, axis=0)
        ]
        self._weights: list[tuple[Ints, Ints, Ints, int]] = []
        rows = len(table.demand) + len(table.room)
        if (table.gives.max(axis=0, initial=0) == 0).any():
            return  # nothing gives to a demand: the sums tell
        if rows * (rows + len(table.gives)) > MOST_CELLS:
            equal = Multipliers(1.0 / table.demand, np.zeros(len(table.room)))
            self._add_weights(equal)
            return
        share, price = multipliers(
            table.gives, table.demand, table.uses, table.room, table.available, table.prices
        )
        self._add_weights(share)
        if price is not None:
            self._add_weights(price, table.prices)

    def _add_weights(self, worth: Multipliers, prices: Ints | None = None) -> None:
        """Add the weights of multipliers, as whole numbers: whatever they are, it is valid."""
        table = self._table
        largest = max(float(worth.demands @ table.demand), float(worth.caps @ table.room))
        if prices is not None:
            largest = max(largest, float(prices @ table.available))
        scale = 2.0 ** math.floor(math.log2(LARGEST / max(largest, 1.0)))
        if scale < 1.0 and prices is not None:
            return
        of_demand = np.rint(worth.demands * scale).astype(np.int64)
        of_cap = np.rint(worth.caps * scale).astype(np.int64)
        unit = 0 if prices is None else int(scale)
        paid = table.prices * unit
        each = np.maximum(table.gives @ of_demand - table.uses @ of_cap - paid, 0) * table.available
        self._weights.append((of_demand, of_cap, from_each_on(each), unit))

    def slack(self, unmet: Ints, room: Ints) -> Ints:
        """Return per state how much is left to do; of two states of a layer, less is better."""
        of_demand, of_cap, _, _ = self._weights[0]
        left: Ints = unmet @ of_demand - room @ of_cap
        return left

    def is_open(
        self, level: int, unmet: Ints, room: Ints, price: Ints, ceilings: Ints | None
    ) -> Mask:
        """Return per state whether the items from ``level`` on might complete it.

        ``ceilings`` are what its covers must cost less than.
        """
        open_: Mask = np.logical_or.reduce(unmet > 0, axis=1)
        if ceilings is not None:
            open_ &= price < ceilings
        open_ &= (unmet <= self.given[level]).all(axis=1)
        for of_demand, of_cap, rest, unit in self._weights:
            lack = unmet @ of_demand - room @ of_cap - rest[level]
            if not unit:
                open_ &= lack <= 0
            elif ceilings is not None:
                open_ &= lack < (ceilings - price) * unit
        rows = np.flatnonzero(open_)
        for column in range(unmet.shape[1]):
            most = self._most_given(level, column, room[rows])
            keeps = unmet[rows, column] <= most
            open_[rows[~keeps]] = False
            rows = rows[keeps]
        return open_

    def _most_given(self, level: int, column: int, room: Ints) -> Ints:
        """Return per state the most that the items from ``level`` on give to a demand."""
        table, total = self._table, np.zeros(len(room), dtype=np.int64)
        for caps, members in self._cap_sets:
            gifts, times = table.gives[level:, column], table.available[level:]
            gifts, times = gifts[members[level:]], times[members[level:]]
            if not len(caps):
                total += int((gifts * times).sum())
                continue
            left = room[:, caps].min(axis=1)
            if times.sum() > MOST_GIFTS:
                best = left * int(gifts.max(initial=0))
                total += np.minimum(best, int((gifts * times).sum()))
                continue
            best_first = np.sort(np.repeat(gifts, times))[::-1]
            sums = np.concatenate(([0], np.cumsum(best_first)))
            total += sums[np.minimum(left, len(best_first))]
        return total


def from_each_on(numbers: Ints) -> Ints:
    """Return the sums over the rows from each on; the last is 0."""
    sums = np.zeros((len(numbers) + 1, *numbers.shape[1:]), dtype=np.int64)
    sums[:-1] = np.cumsum(numbers[::-1], axis=0)[::-1]
    return sums
