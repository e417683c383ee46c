# SPDX-License-Identifier: Apache-2.0
"""Layered search: the cheapest cover, item by item over all states that are still open (exact).

The states of one layer have decided on the same items. They are rows of one table, so that a
hundred thousand are a few passes of numpy. Of states with the same needs unmet and the same room
left one remains, the cheapest, and of equally cheap ones the one with more of the earlier items:
that is the cover which a depth-first search finds. A state is dropped when a bound shows that the
items left cannot complete it, or not at a lower price than the best cover known.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.relaxation import Multipliers, multipliers

Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

LARGEST = 1 << 45  # sums of numbers below stay whole in 64 bits
BEAM_WIDTH = 512  # states of a layer that go on where not all can
BEAM_SHARE = 4  # the part of all states that is left for them
MOST_GIFTS = 4096  # items, each as often as it is available, whose gifts are sorted for a bound


class LayeredSearch:
    """One search over items in their order; ``states`` counts the states that were made.

    ``ceiling`` is what a cover must cost less than, None where any will do.
    """

    def __init__(
        self,
        items: Sequence[Item],
        demand: Sequence[int],
        caps: Sequence[int],
        ceiling: int | None,
        most: int,
    ) -> None:
        self.most, self.states = most, 0
        self.best: list[int] | None = None
        self.ceiling = ceiling
        #: the states before it have more of the earlier items than the best cover: of these one
        #: that costs as much is better
        self._before_best = 0
        self.within_range = _is_within_range(items, demand)
        if not self.within_range:
            return
        wanted = [number for number, amount in enumerate(demand) if amount]
        gives = [[min(item.gives[j], demand[j]) for j in wanted] for item in items]
        amounts = [demand[j] for j in wanted]
        for column, amount in enumerate(amounts):
            _divide(gives, amounts, column, amount)
        self.gives = np.array(gives, dtype=np.int64).reshape(len(items), len(wanted))
        self.demand = np.array(amounts, dtype=np.int64)
        self.uses = np.zeros((len(items), len(caps)), dtype=np.int64)
        for row, item in enumerate(items):
            self.uses[row, list(item.caps)] = 1
        self.prices = np.array([item.price for item in items], dtype=np.int64)
        self.available = np.array(
            [min([item.available, *[caps[cap] for cap in item.caps]]) for item in items],
            dtype=np.int64,
        )
        self.available = np.minimum(self.available, self._helpful(self.demand[None, :]).max(axis=0))
        if ceiling is not None:
            self.ceiling = min(ceiling, int(self.prices @ self.available) + 1)
        most_used = (self.available[:, None] * self.uses).sum(axis=0)
        self.room = np.minimum(np.array(caps, dtype=np.int64), most_used)
        self._trail: list[
            tuple[int, SmallInts, SmallInts]
        ] = []  # item, and per state parent and number
        self._bounds: list[tuple[Ints, Ints, Ints, int]] = []

    def run(self) -> bool:
        """Search; return whether all was searched: then ``best`` is the cheapest, or there is none.

        Else ``best`` may be a cover all the same.
        """
        if not self.within_range:
            return False
        self._prepare_bounds()
        unmet, room = self.demand[None, :], self.room[None, :]
        price = np.zeros(1, dtype=np.int64)
        open_ = self._is_open(0, unmet, room, price)
        unmet, room, price = unmet[open_], room[open_], price[open_]
        whole, exact = True, self.most - self.most // BEAM_SHARE
        for level in range(len(self.gives)):
            most = self._most_of(level, unmet, room, price)
            numbers = np.maximum(most - self._least_of(level, unmet) + 1, 0)
            if self.states + int(numbers.sum()) > exact:
                if self.best is not None:
                    return False
                whole, rows = False, self._beam(level, unmet, room)
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
            unmet = np.maximum(unmet[parents] - taken[:, None] * self.gives[level], 0)
            room = room[parents] - taken[:, None] * self.uses[level]
            np.minimum(room, self._used[level + 1], out=room)  # more is of no use
            price = price[parents] + taken * self.prices[level]
            self._before_best = int(numbers[: self._before_best].sum())
            self._note_covers(level, parents, taken, unmet, price)
            rows = np.flatnonzero(self._is_open(level + 1, unmet, room, price))
            rows = rows[_cheapest_of_equals(unmet[rows], room[rows], price[rows])]
            unmet, room, price = unmet[rows], room[rows], price[rows]
            self._before_best = int(np.searchsorted(rows, self._before_best))
            before, number = parents[rows].astype(np.int32), taken[rows].astype(np.int32)
            self._trail.append((level, before, number))
        return whole

    def is_cover(self, counts: Ints) -> bool:
        """Return whether so many of each item meet every demand within the caps."""
        return bool(
            ((counts >= 0) & (counts <= self.available)).all()
            and (counts @ self.gives >= self.demand).all()
            and (counts @ self.uses <= self.room).all()
        )

    def _helpful(self, unmet: Ints) -> Ints:
        """Return per state and item how many of the item help to meet some demand."""
        gives = np.maximum(self.gives, 1)
        each = -(-unmet[:, None, :] // gives[None, :, :]) * (self.gives > 0)
        helpful: Ints = each.max(axis=2, initial=0)
        return helpful

    def _beam(self, level: int, unmet: Ints, room: Ints) -> Ints:
        """Return the states from which the items left seem likeliest to complete a cover."""
        of_demand, of_cap, _, _ = self._bounds[0]
        likeliest = np.argsort(unmet @ of_demand - room @ of_cap, kind="stable")
        return np.sort(likeliest[:BEAM_WIDTH])

    def _least_of(self, level: int, unmet: Ints) -> Ints:
        """Return per state how many of an item must be taken: the others cannot give the rest."""
        least = np.zeros(len(unmet), dtype=np.int64)
        for column in np.flatnonzero(self.gives[level]).tolist():
            lack = unmet[:, column] - self._given[level + 1, column]
            np.maximum(least, -(-lack // self.gives[level, column]), out=least)
        return least

    def _most_of(self, level: int, unmet: Ints, room: Ints, price: Ints) -> Ints:
        """Return per state how many of an item can be taken, and help."""
        most = np.zeros(len(unmet), dtype=np.int64)
        for column in np.flatnonzero(self.gives[level]).tolist():
            np.maximum(most, -(-unmet[:, column] // self.gives[level, column]), out=most)
        np.minimum(most, self.available[level], out=most)
        for cap in np.flatnonzero(self.uses[level]).tolist():
            np.minimum(most, room[:, cap], out=most)
        ceilings = self._ceilings(len(unmet))
        if ceilings is not None and self.prices[level]:
            np.minimum(most, (ceilings - 1 - price) // self.prices[level], out=most)
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
        self.best = [0] * len(self.gives)
        row, self.best[level] = int(parents[first]), int(taken[first])
        for item, before, number in reversed(self._trail):
            self.best[item] += int(number[row])
            row = int(before[row])

    def _prepare_bounds(self) -> None:
        """Prepare what :meth:`_is_open` compares with: sums over the items from each layer on."""
        self._given = _from_each_on(self.gives * self.available[:, None])
        self._used = _from_each_on(self.uses * self.available[:, None])
        self._cap_sets = [
            (np.flatnonzero(pattern), (self.uses == pattern).all(axis=1))
            for pattern in np.unique(self.uses, axis=0)
        ]
        if (self.gives.max(axis=0, initial=0) == 0).any():
            return  # nothing gives to a demand: the sums tell
        share, price = multipliers(
            self.gives, self.demand, self.uses, self.room, self.available, self.prices
        )
        self._add_bound(share)
        if price is not None:
            self._add_bound(price, self.prices)

    def _add_bound(self, worth: Multipliers, prices: Ints | None = None) -> None:
        """Add the bound of multipliers, as whole numbers: whatever they are, it is valid."""
        largest = max(float(worth.demands @ self.demand), float(worth.caps @ self.room))
        if prices is not None:
            largest = max(largest, float(prices @ self.available))
        scale = 2.0 ** math.floor(math.log2(LARGEST / max(largest, 1.0)))
        if scale < 1.0 and prices is not None:
            return
        of_demand = np.rint(worth.demands * scale).astype(np.int64)
        of_cap = np.rint(worth.caps * scale).astype(np.int64)
        unit = 0 if prices is None else int(scale)
        paid = self.prices * unit
        each = np.maximum(self.gives @ of_demand - self.uses @ of_cap - paid, 0) * self.available
        self._bounds.append((of_demand, of_cap, _from_each_on(each), unit))

    def _is_open(self, level: int, unmet: Ints, room: Ints, price: Ints) -> Mask:
        """Return per state whether the items from ``level`` on might complete it, and cheaply."""
        open_: Mask = np.logical_or.reduce(unmet > 0, axis=1)
        ceilings = self._ceilings(len(price))
        if ceilings is not None:
            open_ &= price < ceilings
        open_ &= (unmet <= self._given[level]).all(axis=1)
        for of_demand, of_cap, rest, unit in self._bounds:
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
        total = np.zeros(len(room), dtype=np.int64)
        for caps, members in self._cap_sets:
            gifts, times = self.gives[level:, column], self.available[level:]
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


def _from_each_on(numbers: Ints) -> Ints:
    """Return the sums over the rows from each on; the last is 0."""
    sums = np.zeros((len(numbers) + 1, *numbers.shape[1:]), dtype=np.int64)
    sums[:-1] = np.cumsum(numbers[::-1], axis=0)[::-1]
    return sums


def _is_within_range(items: Sequence[Item], demand: Sequence[int]) -> bool:
    prices = sum(item.price * item.available for item in items)
    return max(demand) * (len(items) + 1) * len(demand) < LARGEST and prices < LARGEST


def _divide(gives: list[list[int]], amounts: list[int], column: int, amount: int) -> None:
    """Count a demand in the unit that all gifts to it are multiples of, rounded up."""
    unit = math.gcd(*[line[column] for line in gives if line[column] < amount])
    if unit > 1:
        amounts[column] = whole = -(-amount // unit)
        for line in gives:
            line[column] = min(whole, -(-line[column] // unit))


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
