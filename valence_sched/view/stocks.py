# SPDX-License-Identifier: Apache-2.0
"""The stock column: the amounts of one resource per row, and its stocks with limits of grants."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from valence_sched.model.inventory import Stock, free_amount, largest_grant, to_a_billionth
from valence_sched.view.block_kinds import (
    Floats,
    Ints,
    all_read_only,
    read_only,
    splice_array,
    splice_starts,
    taken_entries,
)

NO_STOCK = (0.0, 0.0, 0.0, 0.0)
EPSILON = 1e-9  # the rounding error of a quotient


class StockGrants(Struct, frozen=True):
    """Stocks sorted by row: row ``r`` owns ``[start[r], start[r + 1])`` and has at least one.

    A stock has its ``free`` amount, and the ``min``, ``max`` (or infinity) and ``step`` of a grant,
    in its unit. With ``unlimited``, no stock has a limit.
    """

    unlimited: bool
    start: Ints
    free: Floats
    min: Floats
    max: Floats
    step: Floats

    def has_limits(self) -> bool:
        if self.unlimited:
            return False
        return bool(self.min.any() or self.step.any() or np.isfinite(self.max).any())

    def sizes_and_counts(self, amounts: Floats) -> tuple[Floats, Floats]:
        """Return the size of one grant, and the number of grants, per amount ``(n, 1)`` and stock.

        The answers have shape ``(n, stocks)``; a size is infinite without a grant.
        """
        if not self.has_limits():
            number = self._unlimited_counts(amounts)  # usual stocks have no limits
            return np.where(number > 0.0, np.maximum(amounts, EPSILON), np.inf), number
        amounts = np.maximum(amounts, EPSILON)
        size = np.maximum(amounts, self.min)
        largest = np.minimum(self.free, self.max)
        if self.step.any():
            stepped = self.step > 0.0
            step = np.where(stepped, self.step, 1.0)
            size = np.where(stepped, np.ceil(size / step - EPSILON) * step, size)
            largest = np.where(stepped, np.floor(largest / step + EPSILON) * step, largest)
        size = np.where(size <= largest, size, np.inf)
        return size, np.floor(self.free / size + EPSILON)

    def counts(self, amounts: Floats) -> Floats:
        """Return the number of grants per amount and stock, as in ``sizes_and_counts``."""
        if self.has_limits():
            return self.sizes_and_counts(amounts)[1]
        return self._unlimited_counts(amounts)

    def _unlimited_counts(self, amounts: Floats) -> Floats:
        number: Floats = self.free / np.maximum(amounts, EPSILON)
        number += EPSILON
        return np.floor(number, out=number)

    def sums(self, values: Floats) -> Floats:
        """Return the sum per row of ``values``, one per stock, along the last axis."""
        if len(self.free) == len(self.start) - 1:
            return values
        return np.add.reduceat(values, self.start[:-1], axis=-1)

    def grant_count(self, amount: float) -> Floats:
        """Return the number of separate grants of ``amount`` by the stocks of each row."""
        counts: Floats = self.sums(self.counts(np.array([[amount]])))[0]
        return counts

    def after_grants(self, amount: float, count: int) -> "StockGrants":
        """Return the stocks after ``count`` grants, or the most possible, tightest stocks first."""
        size, number = (array[0] for array in self.sizes_and_counts(np.array([[amount]])))
        if len(self.free) == len(self.start) - 1:
            granted = np.minimum(number, count)
        elif count == 1:
            tightest = self._tightest(size, number)
            free, given = self.free.copy(), size[tightest]
            free[tightest] = np.round(free[tightest] - given, 9)
            return structs.replace(self, free=free)
        else:
            rows = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
            order = np.lexsort((self.free - size, size, rows))
            sorted_numbers = number[order]
            preceding = np.cumsum(sorted_numbers) - sorted_numbers
            preceding -= preceding[self.start[:-1]][rows]
            granted = np.empty_like(number)
            granted[order] = np.clip(count - preceding, 0.0, sorted_numbers)
        amounts = np.multiply(granted, size, out=np.zeros_like(granted), where=granted > 0.0)
        return structs.replace(self, free=np.round(self.free - amounts, 9))

    def _tightest(self, size: Floats, number: Floats) -> Ints:
        """Return the first stock with the least surplus of each row that can make a grant."""
        first, sizes = self.start[:-1], self.start[1:] - self.start[:-1]
        smallest = size == np.minimum.reduceat(size, first).repeat(sizes)
        surplus = np.where(smallest & (number > 0.0), self.free - size, np.inf)
        places, last = np.arange(len(size)), len(size)
        least = surplus == np.minimum.reduceat(surplus, first).repeat(sizes)
        tightest: Ints = np.minimum.reduceat(np.where(least, places, last), first)
        return tightest[number[tightest] > 0.0]

    def window(self, first: int, last: int) -> "StockGrants":
        low, high = int(self.start[first]), int(self.start[last])
        parts = (array[low:high] for array in self.stock_arrays())
        return StockGrants(self.unlimited, self.start[first : last + 1] - low, *parts)

    def take(self, rows: Ints) -> "StockGrants":
        start, entries = taken_entries(self.start, rows)
        parts = (start, *(array[entries] for array in self.stock_arrays()))
        return StockGrants(self.unlimited, *all_read_only(parts))

    def splice(self, first: int, last: int, other: "StockGrants") -> "StockGrants":
        low, high = self.start[[first, last]].tolist()
        pairs = zip(self.stock_arrays(), other.stock_arrays(), strict=True)
        parts = (splice_array(mine, low, high, theirs) for mine, theirs in pairs)
        start = splice_starts(self.start, first, last, other.start)
        return StockGrants(False, *all_read_only((start, *parts)))

    def stock_arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the arrays that have one element per stock, in the order of their declaration."""
        return self.free, self.min, self.max, self.step

    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return (self.start, *self.stock_arrays())


def build_grants(values: Sequence[Sequence[tuple[float, ...]]]) -> StockGrants:
    """Return the stocks of rows; a row has (free amount, min, max, step) for each stock."""
    rows = [row or (NO_STOCK,) for row in values]
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    table = np.array([stock for row in rows for stock in row], dtype=np.float64).reshape(-1, 4)
    return StockGrants(False, *all_read_only((start, *(column.copy() for column in table.T))))


class StockColumn(Struct, frozen=True):
    """One resource; every plain array has shape ``(rows,)`` and the unit of the resource.

    Sums are over the stocks of pool or podm; ``inverse`` is 1 / ``total``; ``by_stock`` has every
    stock of the pool. Missing and unknown totals are 0.
    """

    by_stock: StockGrants
    free: Floats
    total: Floats
    largest_grant: Floats
    podm_free: Floats
    podm_total: Floats
    inverse: Floats
    podm_inverse: Floats

    def window(self, first: int, last: int) -> "StockColumn":
        sums = (array[first:last] for array in self.row_arrays())
        return StockColumn(self.by_stock.window(first, last), *sums)

    def take(self, rows: Ints) -> "StockColumn":
        parts = (read_only(array[rows]) for array in self.row_arrays())
        return StockColumn(self.by_stock.take(rows), *parts)

    def splice(self, first: int, last: int, other: "StockColumn") -> "StockColumn":
        pairs = zip(self.row_arrays(), other.row_arrays(), strict=True)
        sums = (read_only(splice_array(mine, first, last, theirs)) for mine, theirs in pairs)
        return StockColumn(self.by_stock.splice(first, last, other.by_stock), *sums)

    def row_arrays(self) -> tuple[Floats, ...]:
        """Return the arrays of one element per row, in the order in which they are declared."""
        return tuple([getattr(self, name) for name in _ROW_ARRAYS])

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all arrays, the arrays of ``by_stock`` last."""
        return (*self.row_arrays(), *self.by_stock.arrays())


_ROW_ARRAYS = StockColumn.__struct_fields__[1:]


def empty_column(rows: int) -> StockColumn:
    """Return the column of a resource that no pool has."""
    nothing, start = read_only(np.zeros(rows)), read_only(np.arange(rows + 1))
    by_stock = StockGrants(False, start, *[nothing] * len(NO_STOCK))
    return StockColumn(by_stock, *[nothing] * len(_ROW_ARRAYS))


def build_column(
    values: Mapping[int, tuple[float, ...]], pools: Mapping[int, Sequence[Stock]], rows: int
) -> StockColumn:
    """Return a column; ``values`` has the :func:`row_values`, ``pools`` the stocks, by row."""
    table = np.zeros((5, rows))
    if values:
        table[:, list(values)] = np.array(list(values.values())).T
    sums = [row.copy() for row in table]
    grants = build_grants([grant_bounds(pools.get(row, ())) for row in range(rows)])
    inverses = inverse(sums[1]), inverse(sums[4])  # one over the totals of pool and podm
    return StockColumn(grants, *all_read_only((*sums, *inverses)))


def grant_bounds(pool: Sequence[Stock]) -> list[tuple[float, float, float, float]]:
    """Return the free amount of each stock of a pool, and minimum, maximum, step of its grants."""
    most = [math.inf if stock.max is None else stock.max for stock in pool]
    return [(free_amount(one), one.min, top, one.step) for one, top in zip(pool, most, strict=True)]


def inverse(total: Floats) -> Floats:
    """Return ``1 / total``, and 0 where the total is 0."""
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0)


def free_sum(amounts: Sequence[float]) -> float:
    """Return the sum of the free amounts of some stocks; it does not depend on their order."""
    return to_a_billionth(math.fsum(amounts))


def row_values(pool: Sequence[Stock], podm: Sequence[Stock]) -> tuple[float, ...]:
    """Return one row of a column from the pool's and the podm's stocks of one resource."""
    return (
        free_sum([free_amount(stock) for stock in pool]),
        math.fsum(stock.total or 0.0 for stock in pool),
        max((largest_grant(stock) for stock in pool), default=0.0),
        free_sum([free_amount(stock) for stock in podm]),
        math.fsum(stock.total or 0.0 for stock in podm),
    )
