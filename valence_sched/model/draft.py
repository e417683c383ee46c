# SPDX-License-Identifier: Apache-2.0
"""A private copy of a View in which nodes are taken one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from valence_sched.model import stocks
from valence_sched.model.census import Array, Census, Counts
from valence_sched.model.view import View

Undo = Callable[[], None]


class Draft:
    """Virtual depletion: ``view`` is read-only and shows what is left; the original is untouched.

    Only counts are copied: free blocks, free stock, and the shelves of podms that gave some.
    """

    def __init__(self, view: View) -> None:
        self._base = view
        self._free = view.census.free.copy()
        self._podm_free = view.podm_census.free.copy()
        self._stocks = {
            name: (column.free.copy(), column.most.copy(), column.podm_free.copy())
            for name, column in view.resources.items()
        }
        self._shelves = view.shelves.copy()
        self.view = replace(
            view,
            census=replace(view.census, free=_window(self._free)),
            podm_census=replace(view.podm_census, free=_window(self._podm_free)),
            shelves=self._shelves,
            resources={
                name: replace(view.resources[name], free=_window(free), most=_window(most),
                              podm_free=_window(podm_free))
                for name, (free, most, podm_free) in self._stocks.items()
            },
            _kept={},
        )  # fmt: skip

    def more(self, podm: int, blocks: Iterable[int]) -> Undo:
        """Let a node of a podm go that has these blocks; return what takes them again."""
        first, last = self.rows(podm)
        before = self._shelves[podm]
        blocks = tuple(dict.fromkeys(blocks))
        after = before.more(blocks)
        undo = self._undo(podm, ())
        self._shelves[podm] = after
        back = [block for block in blocks if after.slots[block] and not before.slots[block]]
        _add(self.view.podm_census, self._podm_free, podm, [after.kinds[b] for b in back], 1)
        for position in range(last - first):
            here = [after.kinds[block] for block in back if position in after.pools[block]]
            _add(self.view.census, self._free, first + position, here, 1)
        return undo

    def less(self, row: int, blocks: Iterable[int], grants: Iterable[tuple[int, float]]) -> Undo:
        """Take blocks and amounts from the podm of ``row``; return what gives them back."""
        podm = int(self.view.podm_of[row])
        first, last = self.rows(podm)
        before = self._shelves[podm]
        blocks, grants = tuple(blocks), tuple(grants)
        after = before.less(blocks, grants)
        resources = {after.stocks[number].resource for number, _ in grants}
        undo = self._undo(podm, resources)
        self.view.forget_free()
        self._shelves[podm] = after
        gone = [block for block in blocks if not after.slots[block]]
        _add(self.view.podm_census, self._podm_free, podm, [after.kinds[b] for b in gone], -1)
        for position in range(last - first):
            here = [after.kinds[block] for block in gone if position in after.pools[block]]
            _add(self.view.census, self._free, first + position, here, -1)
        for resource in resources:
            self._refresh(resource, podm, first, last)
        return undo

    def rows(self, podm: int) -> tuple[int, int]:
        """Return the first row of a podm and one past its last."""
        return int(self.view.first_row[podm]), int(self.view.first_row[podm + 1])

    def _undo(self, podm: int, resources: Iterable[str]) -> Undo:
        first, last = self.rows(podm)
        start, podm_start = self.view.census.start, self.view.podm_census.start
        slices: list[tuple[npt.NDArray[np.generic], int, int]] = [
            (self._free, int(start[first]), int(start[last])),
            (self._podm_free, int(podm_start[podm]), int(podm_start[podm + 1])),
        ]
        slices += [(array, first, last) for name in resources for array in self._stocks[name]]
        shelf = self._shelves[podm]
        kept = [(array, low, array[low:high].copy()) for array, low, high in slices]

        def undo() -> None:
            self.view.forget_free()
            self._shelves[podm] = shelf
            for array, low, values in kept:
                array[low : low + len(values)] = values

        return undo

    def window(self, first: int, last: int) -> View:
        """Return the rows of one podm as they are now; totals come from the original."""
        window = self.view.window(first, last)
        for key, found in self._base._kept.items():
            if key[0] in ("total", "inverse"):
                window._kept[key] = found[first:last]
        return window

    def _refresh(self, resource: str, podm: int, first: int, last: int) -> None:
        shelf = self._shelves[podm]
        every = [stock for stock in shelf.stocks if stock.resource == resource]
        free, most, podm_free = self._stocks[resource]
        for row in range(first, last):
            pool = [
                stock
                for stock, positions in zip(shelf.stocks, shelf.stock_pools, strict=True)
                if stock.resource == resource and row - first in positions
            ]
            values = stocks.row_values(pool, every)
            free[row], most[row], podm_free[row] = values[0], values[2], values[3]


def _add(census: Census, free: Counts, row: int, kinds: list[int], step: int) -> None:
    if kinds:
        low, high = int(census.start[row]), int(census.start[row + 1])
        places = census.kind[low:high].tolist()
        for kind in kinds:
            free[low + places.index(kind)] += step


def _window(array: Array) -> Array:
    window = array.view()
    window.flags.writeable = False
    return window
