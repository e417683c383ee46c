# SPDX-License-Identifier: Apache-2.0
"""The stock column: free, total and largest grant of one stock resource per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from valence_sched.model.inventory import Stock, free_amount, largest_grant, to_a_billionth
from valence_sched.view.block_counts import Floats, Ints, splice_array
from valence_sched.view.stock_grants import StockGrants, build_grants, no_grants


class _RowAmounts(Struct, frozen=True):
    """The arrays of a resource with an element a row."""

    free: Floats
    total: Floats
    largest_grant: Floats
    podm_free: Floats
    podm_total: Floats
    inverse: Floats
    podm_inverse: Floats


class StockColumn(_RowAmounts, frozen=True, kw_only=True):
    """One resource; every plain array has shape ``(rows,)`` and the unit of the resource.

    ``free`` and ``total`` are sums over the pool's stocks, ``podm_free`` and ``podm_total`` over
    all of the podm's; ``largest_grant`` is the largest single grant; ``inverse`` is one over the
    total; ``by_stock`` has every stock of the pool by itself. Rows without such a stock have 0, and
    so has a stock of unknown total, whatever a policy says of unknown attributes.
    """

    by_stock: StockGrants
    #: The row arrays as lines of one table, where they are: sooner selected together.
    table: Floats | None = None

    def window(self, first: int, last: int) -> StockColumn:
        sums = (array[first:last] for array in self.row_arrays())
        return StockColumn(*sums, by_stock=self.by_stock.window(first, last))

    def take(self, rows: Ints) -> StockColumn:
        by_stock = self.by_stock.take(rows)
        if self.table is None:
            return read_only(*(array[rows] for array in self.row_arrays()), by_stock=by_stock)
        table = self.table[:, rows]
        table.flags.writeable = False
        return StockColumn(*table, by_stock=by_stock, table=table)

    def splice(self, first: int, last: int, other: StockColumn) -> StockColumn:
        pairs = zip(self.row_arrays(), other.row_arrays(), strict=True)
        sums = (splice_array(mine, first, last, theirs) for mine, theirs in pairs)
        return read_only(*sums, by_stock=self.by_stock.splice(first, last, other.by_stock))

    def row_arrays(self) -> tuple[Floats, ...]:
        """Return the arrays of one element per row, in the order in which they are declared."""
        return (self.free, self.total, self.largest_grant, self.podm_free, self.podm_total,
                self.inverse, self.podm_inverse)  # fmt: skip

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all arrays, those of ``by_stock`` last."""
        return (*self.row_arrays(), *self.by_stock.arrays())


def empty_column(rows: int) -> StockColumn:
    """Return the column of a resource that no pool has."""
    sums = (np.zeros(rows) for _ in range(7))
    return read_only(*sums, by_stock=no_grants(rows))


def build_column(
    values: Mapping[int, tuple[float, ...]], pools: Mapping[int, Sequence[Stock]], rows: int
) -> StockColumn:
    """Return a column from the stocks of some rows and their :func:`row_values`.

    The other rows have no stock of the resource.
    """
    table = np.zeros((5, rows))
    if values:
        table[:, list(values)] = np.array(list(values.values())).T
    free, total, largest, podm_free, podm_total = (row.copy() for row in table)
    grants = build_grants([grant_bounds(pools.get(row, ())) for row in range(rows)])
    inverses = inverse(total), inverse(podm_total)
    return read_only(free, total, largest, podm_free, podm_total, *inverses, by_stock=grants)


def grant_bounds(pool: Sequence[Stock]) -> list[tuple[float, float, float, float]]:
    """Return the free amount of each stock of a pool, and minimum, maximum, step of its grants."""
    most = [math.inf if stock.max is None else stock.max for stock in pool]
    return [(free_amount(one), one.min, top, one.step) for one, top in zip(pool, most, strict=True)]


def inverse(total: Floats) -> Floats:
    """Return ``1 / total``, and 0 where the total is 0."""
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0)


def read_only(*arrays: Floats, by_stock: StockGrants) -> StockColumn:
    """Return a column whose arrays are read-only."""
    for array in arrays:
        array.flags.writeable = False
    return StockColumn(*arrays, by_stock=by_stock)


def free_sum(amounts: Sequence[float]) -> float:
    """Return the sum of the free amounts of some stocks, whatever their order."""
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
