# SPDX-License-Identifier: Apache-2.0
"""Layered search: the cheapest cover, item by item over all states that are still open (exact).

The states of one layer have decided on the same items. They are rows of one table, so that a
hundred thousand are a few passes of numpy. Of states with the same needs unmet and the same room
left one remains, the cheapest, and of equally cheap ones the one with more of the earlier items:
that is the cover which a depth-first search finds. A state is dropped when a bound shows that the
items left cannot complete it, or not at a lower price than the best cover known.

Where the states run out and no cover is known, the states are joined with all choices of the items
left, if these are few (``cover_join``). Else the likeliest of each layer go on: they may find a
cover, and then it is one as any other.
"""

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit.cover_bounds import CoverBounds
from valence_sched.core.fit.cover_join import CoverJoin
from valence_sched.core.fit.cover_table import LARGEST, CoverTable, Ints

SmallInts = npt.NDArray[np.int32]

BEAM_WIDTH = 512  # states of a layer that go on where not all can
BEAM_SHARE = 4  # the part of all states that is left for them


class LayeredSearch:
    """One search over the items of a table in their order; ``states`` counts those it made.

    ``ceiling`` is what a cover must cost less than, None where any will do.
    """

    def __init__(self, table: CoverTable, ceiling: int | None, most: int) -> None:
        self.most, self.states = most, 0
        self.best: list[int] | None = None
        self.ceiling = ceiling
        if ceiling is not None:
            self.ceiling = min(ceiling, int(table.prices @ table.available) + 1)
        #: the states before it have more of the earlier items than the best cover: of these one
        #: that costs as much is better
        self._before_best = 0
        self._table, self._bounds = table, CoverBounds(table)
        #: per layer its item, and per state its parent and the number of the item
        self._trail: list[tuple[int, SmallInts, SmallInts]] = []

    def run(self) -> bool:
        """Search; return whether all was searched: then ``best`` is the cheapest, or there is none.

        Else ``best`` may be a cover all the same.
        """
        table = self._table
        unmet, room = table.demand[None, :], table.room[None, :]
        price = np.zeros(1, dtype=np.int64)
        open_ = self._bounds.is_open(0, unmet, room, price, self._ceilings(1))
        unmet, room, price = unmet[open_], room[open_], price[open_]
        whole, exact = True, self.most - self.most // BEAM_SHARE
        for level in range(len(table.gives)):
            most = self._most_of(level, unmet, room, price)
            numbers = np.maximum(most - self._least_of(level, unmet) + 1, 0)
            if self.states + int(numbers.sum()) > exact:
                if self.best is not None:
                    return False
                join = CoverJoin(table, level)
                if whole and self.ceiling is None and join.is_possible:
                    return self._complete(join, level, unmet, room, price)
                whole, rows = False, self._beam(unmet, room)
                unmet, room, price = unmet[rows], room[rows], price[rows]
                most, numbers = most[rows], numbers[rows]
                none = np.zeros(len(rows), dtype=np.int32)
                self._trail.append((level, rows.astype(np.int32), none))
            made = int(numbers.sum())
            self.states += made
            if self.states > self.most:
                return False
            if not made:
                return whole
            parents = np.repeat(np.arange(len(price)), numbers)
            first = np.repeat(np.cumsum(numbers) - numbers, numbers)
            taken = most[parents] - (np.arange(made) - first)
            unmet = np.maximum(unmet[parents] - taken[:, None] * table.gives[level], 0)
            room = room[parents] - taken[:, None] * table.uses[level]
            np.minimum(room, self._bounds.used[level + 1], out=room)  # more is of no use
            price = price[parents] + taken * table.prices[level]
            self._before_best = int(numbers[: self._before_best].sum())
            self._note_covers(level, parents, taken, unmet, price)
            rows = np.flatnonzero(
                self._bounds.is_open(level + 1, unmet, room, price, self._ceilings(made))
            )
            rows = rows[_cheapest_of_equals(unmet[rows], room[rows], price[rows])]
            unmet, room, price = unmet[rows], room[rows], price[rows]
            self._before_best = int(np.searchsorted(rows, self._before_best))
            before, number = parents[rows].astype(np.int32), taken[rows].astype(np.int32)
            self._trail.append((level, before, number))
        return whole

    def _beam(self, unmet: Ints, room: Ints) -> Ints:
        """Return the states from which the items left seem likeliest to complete a cover."""
        likeliest = np.argsort(self._bounds.slack(unmet, room), kind="stable")
        return np.sort(likeliest[:BEAM_WIDTH])

    def _least_of(self, level: int, unmet: Ints) -> Ints:
        """Return per state how many of an item must be taken: the others cannot give the rest."""
        table = self._table
        least = np.zeros(len(unmet), dtype=np.int64)
        for column in np.flatnonzero(table.gives[level]).tolist():
            lack = unmet[:, column] - self._bounds.given[level + 1, column]
            np.maximum(least, -(-lack // table.gives[level, column]), out=least)
        return least

    def _most_of(self, level: int, unmet: Ints, room: Ints, price: Ints) -> Ints:
        """Return per state how many of an item can be taken, and help."""
        table = self._table
        most = np.zeros(len(unmet), dtype=np.int64)
        for column in np.flatnonzero(table.gives[level]).tolist():
            np.maximum(most, -(-unmet[:, column] // table.gives[level, column]), out=most)
        np.minimum(most, table.available[level], out=most)
        for cap in np.flatnonzero(table.uses[level]).tolist():
            np.minimum(most, room[:, cap], out=most)
        ceilings = self._ceilings(len(unmet))
        if ceilings is not None and table.prices[level]:
            np.minimum(most, (ceilings - 1 - price) // table.prices[level], out=most)
        return most

    def _ceilings(self, states: int) -> Ints | None:
        """Return per state of a layer what its covers must cost less than."""
        if self.ceiling is None:
            return None
        ceilings = np.full(states, self.ceiling, dtype=np.int64)
        ceilings[: self._before_best] += 1
        return ceilings

    def _note_covers(
        self, level: int, parents: Ints, taken: Ints, unmet: Ints, price: Ints
    ) -> None:
        """Note the cheapest of the states that meet every demand, the first of equals."""
        met = np.flatnonzero(~unmet.any(axis=1))
        if not len(met):
            return
        first = int(met[price[met].argmin()])
        ceilings = self._ceilings(len(price))
        if ceilings is not None and price[first] >= ceilings[first]:
            return
        self.ceiling, self._before_best = int(price[first]), first
        self.best = self._taken(int(parents[first]))
        self.best[level] += int(taken[first])

    def _complete(self, join: CoverJoin, level: int, unmet: Ints, room: Ints, price: Ints) -> bool:
        """Complete a state of a layer by a choice of all items left; return as :meth:`run` does."""
        self.states += join.size
        completion = join.complete(unmet, room)
        if completion is None:
            return True
        self.best = self._taken(completion.state)
        self.best[level:] = completion.counts
        left = self._table.prices[level:] @ np.array(completion.counts)
        self.ceiling = int(price[completion.state] + left)
        return False

    def _taken(self, row: int) -> list[int]:
        """Return how many of each item the state in a row of the last layer has taken."""
        counts = [0] * len(self._table.gives)
        for item, before, number in reversed(self._trail):
            counts[item] += int(number[row])
            row = int(before[row])
        return counts


def _cheapest_of_equals(unmet: Ints, room: Ints, price: Ints) -> Ints:
    """Return the rows to keep of those that are equal but for the price, in their order."""
    if len(price) < 2:
        return np.arange(len(price))
    columns = [unmet[:, n] for n in range(unmet.shape[1])]
    columns += [room[:, n] for n in range(room.shape[1])]
    keys: list[Ints] = []
    radix = LARGEST
    for column in columns:  # as few keys as hold all columns
        low, size = int(column.min()), int(column.max() - column.min()) + 1
        if size == 1:
            continue
        if radix * size >= LARGEST:
            keys.append(column - low)
            radix = size
        else:
            keys[-1] = keys[-1] * size + (column - low)
            radix *= size
    if not keys:
        return np.array([int(price.argmin())])
    order = np.lexsort((price, *keys))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    return np.sort(order[first])
