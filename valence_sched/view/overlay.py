# SPDX-License-Identifier: Apache-2.0
"""The overlay: a copy of a View in which nodes are allocated, while the View is unchanged."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from msgspec import structs

from valence_sched.model.inventory import free_amount, largest_grant
from valence_sched.view import stocks
from valence_sched.view.block_kinds import read_only
from valence_sched.view.blocks import BlockTable
from valence_sched.view.stocks import StockColumn
from valence_sched.view.view import Ints, View, new_memo

Undo = Callable[[], None]
Blocks = tuple[int, ...]
StockAmounts = tuple[tuple[int, float], ...]
Allocation = tuple[int, Blocks, StockAmounts]  # row, blocks and stock amounts
#: A podm number, its table after the change, and the blocks and amounts that differ.
Change = tuple[int, BlockTable, Blocks, StockAmounts]


class Overlay:
    """Allocations on a View: ``view`` is read-only and shows their effect; the base is unchanged.

    Only counts are copied: free blocks, free stock, and the block tables of podms that changed.
    """

    def __init__(self, view: View) -> None:
        self._base = view
        self._free = view.block_counts.free.copy()
        podm_counts = view.podm_block_counts
        self._podm_free = podm_counts.free.copy()
        self._stocks = {name: _StockOverlay(column) for name, column in view.resources.items()}
        self._block_tables = view.block_tables.copy()
        self._first_row: list[int] = view.first_row.tolist()  # lists are faster to index
        self.view = replace(
            view.with_own_memo(),
            block_counts=structs.replace(view.block_counts, free=read_only(self._free.view())),
            podm_block_counts=structs.replace(podm_counts, free=read_only(self._podm_free.view())),
            block_tables=self._block_tables,
            resources={name: overlay.column for name, overlay in self._stocks.items()},
            _free_memo=new_memo(),
        )

    def remove_node(self, podm: int, blocks: Iterable[int]) -> Undo:
        """Remove a node of a podm that has these blocks; return the change that undoes it."""
        before = self._block_tables[podm]
        blocks = tuple(dict.fromkeys(blocks))
        self.apply([(podm, before.remove_node(blocks), blocks, ())])
        return functools.partial(self.apply, [(podm, before, blocks, ())])

    def close(self, podm: int) -> Undo:
        """Close a podm to all nodes; return the change that undoes it."""
        before = self._block_tables[podm]
        blocks = tuple(range(len(before.uris)))
        amounts = tuple((number, 0.0) for number in range(len(before.stocks)))
        self.apply([(podm, before.only(), blocks, amounts)])
        return functools.partial(self.apply, [(podm, before, blocks, amounts)])

    def allocate(
        self, row: int, blocks: Iterable[int], grants: Iterable[tuple[int, float]]
    ) -> Undo:
        """Allocate blocks and amounts of the podm of ``row``; return the change that undoes it."""
        before = self.allocate_each([(row, tuple(blocks), tuple(grants))])
        return functools.partial(self.apply, before)

    def allocate_each(self, allocations: Iterable[Allocation]) -> list[Change]:
        """Allocate several times, each on another podm; return the changes that undo it."""
        after: list[Change] = []
        before: list[Change] = []
        for row, blocks, grants in allocations:
            podm = int(self.view.podm_of[row])
            table = self._block_tables[podm]
            after.append((podm, table.allocate(blocks, grants), blocks, grants))
            before.append((podm, table, blocks, grants))
        self.apply(after)
        return before

    def deallocate(
        self, row: int, blocks: Iterable[int], grants: Iterable[tuple[int, float]]
    ) -> None:
        """Free blocks and amounts that were allocated on the podm of ``row``."""
        podm = int(self.view.podm_of[row])
        blocks, grants = tuple(blocks), tuple(grants)
        after = self._block_tables[podm].deallocate(blocks, grants, self._base.block_tables[podm])
        self.apply([(podm, after, blocks, grants)])

    def rows(self, podm: int) -> tuple[int, int]:
        return self._first_row[podm], self._first_row[podm + 1]

    def apply(self, changes: Iterable[Change]) -> None:
        """Replace the block tables of podms; only the blocks and amounts of a change may differ."""
        self.view.invalidate_free()
        counts, podm_counts = self.view.block_counts, self.view.podm_block_counts
        for podm, after, blocks, grants in changes:
            slots, first = self._block_tables[podm].slots, self._first_row[podm]
            self._block_tables[podm] = after
            for block in blocks:
                difference = bool(after.slots[block]) - bool(slots[block])
                if difference:
                    kind = after.kinds[block]
                    self._podm_free[podm_counts.entry(podm, kind)] += difference
                    for place in after.pools[block]:
                        self._free[counts.entry(first + place, kind)] += difference
            changed: dict[str, set[int]] = {}
            for number, _ in grants:
                positions = changed.setdefault(after.stocks[number].resource, set())
                positions.update(after.stock_pools[number])
            for resource, positions in changed.items():
                self._stocks[resource].refresh(resource, after, *self.rows(podm), positions)

    def reduce_counts(self, entries: Ints, podm_entries: Ints) -> None:
        """Subtract one free block from each given entry; an entry may be given several times."""
        self.view.invalidate_free()
        np.subtract.at(self._free, entries, np.float32(1.0))
        np.subtract.at(self._podm_free, podm_entries, np.float32(1.0))

    def whole_window(self) -> View:
        """Return a window on all rows; the caller must invalidate values after changes."""
        view = self.view.window(0, len(self.view))
        view.block_tables, view._memo = self._block_tables, self.view._memo
        return view


class _StockOverlay:
    """The changing arrays of one resource; ``column`` is the stock column over these arrays."""

    def __init__(self, column: StockColumn) -> None:
        table = np.array(column.row_arrays())
        self.free, _, self.largest_grant, self.podm_free, *_ = table
        self.stock_free = column.by_stock.free.copy()
        self.start, unlimited = column.by_stock.start, not column.by_stock.has_limits()
        window, free = read_only(table.view()), read_only(self.stock_free.view())
        by_stock = structs.replace(column.by_stock, free=free, unlimited=unlimited)
        self.column = StockColumn(by_stock, *window)

    def refresh(
        self, resource: str, table: BlockTable, first: int, last: int, positions: Iterable[int]
    ) -> None:
        """Update the amounts of a podm with rows ``[first, last)``; only these pools changed."""
        of_podm = [free_amount(stock) for stock in table.stocks if stock.resource == resource]
        free_on_podm = stocks.free_sum(of_podm)
        self.podm_free[first:last] = free_on_podm
        for row in (first + position for position in positions):
            pool = [table.stocks[number] for number in table.stocks_of(row - first, resource)]
            whole = len(pool) == len(of_podm)
            free = of_podm if whole else [free_amount(stock) for stock in pool]
            self.free[row] = free_on_podm if whole else stocks.free_sum(free)
            self.largest_grant[row] = max(map(largest_grant, pool), default=0.0)
            if pool:
                low = int(self.start[row])
                self.stock_free[low : low + len(pool)] = free
