# SPDX-License-Identifier: Apache-2.0
"""Leftover: the free blocks and stocks per row, and an estimate of what one node takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.stock_grants import StockGrants
from valence_sched.view.view import Floats, Ints, View


class Leftover(Struct, frozen=True):
    """Free blocks by kind, shape ``(kinds, rows)``, and the stocks of some resources.

    If no caller needs blocks, there are 0 kinds. With ``rows`` it is of these rows of the blocks.
    """

    kinds: BlockKinds
    blocks: Floats
    stocks: dict[str, StockGrants]
    rows: Ints | None = None

    def take(self, rows: Ints) -> Leftover:
        """Return what is free on some rows; of the blocks only what is read is copied."""
        grants = {name: stock_grants.take(rows) for name, stock_grants in self.stocks.items()}
        rows = rows if self.rows is None else self.rows[rows]
        return Leftover(self.kinds, self.blocks, grants, rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.blocks.shape[1] if self.rows is None else len(self.rows)

    def all_blocks(self) -> Floats:
        """Return the free blocks of every kind; shape ``(kinds, rows)``."""
        return self.blocks if self.rows is None else self.blocks[:, self.rows]

    def _free(self, kind: int) -> Floats:
        free: Floats = self.blocks[kind]
        return free if self.rows is None else free.take(self.rows)

    def stocks_after(self, needs: Iterable[Need]) -> dict[str, StockGrants]:
        """Return the stocks that change when every row grants the needs of one node.

        As in ``core.fit.stock_allocation``: the largest amounts first, each to the tightest stock.
        """
        grants: dict[str, StockGrants] = {}
        for need in sorted(needs, key=lambda need: -need.amount):
            if need.resource in self.stocks:
                remaining = grants.get(need.resource) or self.stocks[need.resource]
                grants[need.resource] = remaining.after_grants(need.amount, need.count)
        return grants

    def blocks_for(self, needs: Iterable[Need]) -> tuple[list[int], Floats]:
        """Return the kinds of which a node takes blocks, and how many; shape ``(kinds, rows)``.

        An estimate: need by need the cheapest kinds, where the other devices of a block count for
        the needs that follow. It is exact if one kind of block serves each need; a block that
        several nodes may share counts as taken.
        """
        taken: dict[int, Floats] = {}
        for need in needs:
            if need.kind != "stock" and len(self.blocks):
                self._add(need, taken)
        kinds = sorted(kind for kind, numbers in taken.items() if numbers.any())
        return kinds, np.array([taken[kind] for kind in kinds]).reshape(len(kinds), -1)

    def _add(self, need: Need, taken: dict[int, Floats]) -> None:
        """Add to what is taken, per row and by kind, what supplies the amount still missing."""
        amounts = self.kinds.amounts(need)
        missing = np.full(len(self), float(need.amount))
        for kind in taken:
            if amounts[kind]:
                missing -= amounts[kind] * taken[kind]  # whole numbers: exact in any order
        np.maximum(missing, 0.0, out=missing)
        rows: Ints | slice = slice(None)
        for kind in self.kinds.cheapest_first(need):
            missing_here, free = missing[rows], self._free(kind)[rows]
            if kind in taken:
                free = free - taken[kind][rows]
            else:
                taken[kind] = np.zeros(len(missing))
            extra = np.ceil(missing_here / amounts[kind])
            np.minimum(extra, free, out=extra)
            taken[kind][rows] += extra
            np.multiply(extra, amounts[kind], out=extra)
            missing[rows] = missing_here = np.maximum(missing_here - extra, 0.0)
            left = missing_here.nonzero()[0]
            if not len(left):
                return
            if 2 * len(left) < len(missing_here):  # else all of them are sooner done than some
                rows = left if isinstance(rows, slice) else rows[left]


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return what is free on the rows of a View: the named resources, and blocks if requested."""
    counts = np.zeros((len(view.kinds) if blocks else 0, len(view)))
    if blocks:
        block_counts = view.block_counts
        rows = np.repeat(np.arange(len(view)), np.diff(block_counts.start))
        counts[block_counts.kind, rows] = block_counts.free
    return Leftover(view.kinds, counts, {name: view.stocks_of(name) for name in resources})
