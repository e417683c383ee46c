# SPDX-License-Identifier: Apache-2.0
"""A private copy of a View in which nodes are taken one after another, and given back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from valence_sched.view import stocks
from valence_sched.view.block_counts import Array, Census, Counts
from valence_sched.view.blocks import Shelf
from valence_sched.view.stocks import Column
from valence_sched.view.view import Ints, View

Undo = Callable[[], None]
Blocks = tuple[int, ...]
Grants = tuple[tuple[int, float], ...]
Take = tuple[int, Blocks, Grants]  # of the podm of this row
More = tuple[int, int, int]  # row, kind, and how many more of its blocks are free there
Change = tuple[int, Shelf, Blocks, Grants]  # number of the podm, what its shelf is now


class Draft:
    """Virtual depletion: ``view`` is read-only and shows what is left; the original is untouched.

    Only counts are copied: free blocks, free stock, and the shelves of podms that gave some.
    """

    def __init__(self, view: View) -> None:
        self._base = view
        self._free = view.census.free.copy()
        self._podm_free = view.podm_census.free.copy()
        self._stocks = {name: _Books(column) for name, column in view.resources.items()}
        self._shelves = view.shelves.copy()
        self._first_row: list[int] = view.first_row.tolist()  # quicker to look up one by one
        self.view = replace(
            view,
            census=replace(view.census, free=_window(self._free)),
            podm_census=replace(view.podm_census, free=_window(self._podm_free)),
            shelves=self._shelves,
            resources={name: books.column for name, books in self._stocks.items()},
            _kept={},
        )

    def let_go(self, podm: int, blocks: Iterable[int]) -> Undo:
        """Let a node of a podm go that has these blocks; return what takes them again."""
        blocks = tuple(dict.fromkeys(blocks))
        before = self._shelves[podm]
        self.put([(podm, before.let_go(blocks), blocks, ())])
        return functools.partial(self.put, [(podm, before, blocks, ())])

    def less(self, row: int, blocks: Iterable[int], grants: Iterable[tuple[int, float]]) -> Undo:
        """Take blocks and amounts from the podm of ``row``; return what gives them back."""
        return functools.partial(self.put, self.less_each([(row, tuple(blocks), tuple(grants))]))

    def less_each(self, takes: Iterable[Take]) -> list[Change]:
        """Take several ``(row, blocks, grants)``, each of another podm; return what gives back."""
        after: list[Change] = []
        before: list[Change] = []
        for row, blocks, grants in takes:
            podm = int(self.view.podm_of[row])
            shelf = self._shelves[podm]
            after.append((podm, shelf.less(blocks, grants), blocks, grants))
            before.append((podm, shelf, blocks, grants))
        self.put(after)
        return before

    def more(self, row: int, blocks: Iterable[int], grants: Iterable[tuple[int, float]]) -> None:
        """Give back to the podm of ``row`` blocks and amounts that were taken from it."""
        podm = int(self.view.podm_of[row])
        blocks, grants = tuple(blocks), tuple(grants)
        after = self._shelves[podm].more(blocks, grants, self._base.shelves[podm])
        self.put([(podm, after, blocks, grants)])

    def rows(self, podm: int) -> tuple[int, int]:
        """Return the first row of a podm and one past its last."""
        return self._first_row[podm], self._first_row[podm + 1]

    def put(self, changes: Iterable[Change]) -> None:
        """Put shelves in the place of those of their podms; only what a change names is other."""
        self.view.forget_free()
        pools: list[More] = []
        podms: list[More] = []
        for podm, after, blocks, grants in changes:
            before, first = self._shelves[podm], self._first_row[podm]
            self._shelves[podm] = after
            for block in blocks:
                by = bool(after.slots[block]) - bool(before.slots[block])
                if by:
                    kind = after.kinds[block]
                    podms.append((podm, kind, by))
                    for position in after.pools[block]:
                        pools.append((first + position, kind, by))
            if grants:
                self._refresh(podm, after, grants)
        _add(self.view.census, self._free, pools)
        _add(self.view.podm_census, self._podm_free, podms)

    def _refresh(self, podm: int, after: Shelf, grants: Grants) -> None:
        """Write down what the stocks have left of which something was granted."""
        touched: dict[str, set[int]] = {}
        for number, _ in grants:
            places = touched.setdefault(after.stocks[number].resource, set())
            places.update(after.stock_pools[number])
        for resource, positions in touched.items():
            self._stocks[resource].refresh(resource, after, *self.rows(podm), positions)

    def window(self, first: int, last: int) -> View:
        """Return the rows of whole podms as they are now; totals come from the original."""
        return self._with_totals(self.view.window(first, last), slice(first, last))

    def take(self, rows: Ints) -> View:
        """Return a copy of these rows as they are now; totals come from the original."""
        return self._with_totals(self.view.take(rows), rows)

    def _with_totals(self, part: View, rows: slice | Ints) -> View:
        for key, found in self._base._kept.items():
            if key[0] in ("total", "inverse"):
                part._kept[key] = found[rows]
        return part


class _Books:
    """The arrays of one resource that depletion changes, and the column that shows them."""

    def __init__(self, column: Column) -> None:
        self.free, self.most = column.free.copy(), column.most.copy()
        self.podm_free, self.left = column.podm_free.copy(), column.each.left.copy()
        self.start = column.each.start
        self.column = replace(column, free=_window(self.free), most=_window(self.most),
                              podm_free=_window(self.podm_free),
                              each=replace(column.each, left=_window(self.left)))  # fmt: skip

    def refresh(
        self, resource: str, shelf: Shelf, first: int, last: int, positions: Iterable[int]
    ) -> None:
        """Write down what the stocks of a podm have left, whose rows are ``[first, last)``.

        Only those in the pools at these positions have changed.
        """
        every = [stock for stock in shelf.stocks if stock.resource == resource]
        self.podm_free[first:last] = stocks.row_values((), every)[3]
        for row in (first + position for position in positions):
            pool = [shelf.stocks[number] for number in shelf.stocks_of(row - first, resource)]
            values = stocks.row_values(pool, ())
            self.free[row], self.most[row] = values[0], values[2]
            if pool:
                low, high = int(self.start[row]), int(self.start[row + 1])
                self.left[low:high] = [stocks.left(stock) for stock in pool]


def _add(census: Census, free: Counts, more: list[More]) -> None:
    if more:
        rows, kinds, by = np.array(more).T
        np.add.at(free, census.entries(rows, kinds), by.astype(free.dtype))


def _window(array: Array) -> Array:
    window = array.view()
    window.flags.writeable = False
    return window
