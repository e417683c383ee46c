# SPDX-License-Identifier: Apache-2.0
"""Leftover: the free blocks and stocks per row, and an estimate of what one node takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.stock_grants import StockGrants
from valence_sched.view.view import Floats, Ints, Mask, View


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

    def _free(self, kind: int, rows: Ints | None = None) -> Floats:
        """Return the free blocks of a kind on some of the rows, on all if None."""
        free: Floats = self.blocks[kind]
        if rows is not None and self.rows is not None:
            rows = self.rows.take(rows)
        rows = self.rows if rows is None else rows
        return free if rows is None else free.take(rows)

    def with_node(self, needs: Sequence[Need]) -> Leftover:
        """Return what is free twice: as it is, then after every row has given one node."""
        stocks, after = {}, self.stocks_after(needs)
        for name, grants in self.stocks.items():
            stocks[name] = grants.followed_by(after.get(name, grants))
        before = self.all_blocks()
        if not len(before):
            return Leftover(self.kinds, np.empty((0, 2 * len(self))), stocks)
        blocks = np.concatenate((before, before), axis=1)
        kinds, taken = self.blocks_for(needs)
        blocks[kinds, len(self) :] -= taken
        return Leftover(self.kinds, blocks, stocks)

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

    def selected(self, rows: Ints) -> Leftover:
        """Return a copy of what is free on some rows."""
        part = self.take(rows)
        return Leftover(self.kinds, part.all_blocks(), part.stocks)

    def blocks_for(
        self, needs: Iterable[Need], feasible: Mask | None = None
    ) -> tuple[list[int], Floats]:
        """Return the kinds of which a node takes blocks, and how many; shape ``(kinds, rows)``.

        An estimate: need by need the cheapest kinds, where the other devices of a block count for
        the needs that follow. It is exact if one kind of block serves each need; a block that
        several nodes may share counts as taken.
        """
        taken: dict[int, Floats] = {}
        for need in needs:
            if need.kind != "stock" and len(self.blocks):
                self._add(need, taken, feasible)
        kinds = sorted(kind for kind, numbers in taken.items() if numbers.any())
        return kinds, np.array([taken[kind] for kind in kinds]).reshape(len(kinds), len(self))

    def _add(self, need: Need, taken: dict[int, Floats], feasible: Mask | None) -> None:
        """Add to what is taken, per row and by kind, what supplies the amount still missing."""
        amounts, kinds = self.kinds.amounts(need), self.kinds.cheapest_first(need)
        counted = [kind for kind in taken if amounts[kind]]
        if not kinds:
            return
        if counted:
            missing = np.full(len(self), float(need.amount))
            for kind in counted:
                missing -= amounts[kind] * taken[kind]  # whole numbers: exact in any order
            rows = _both(missing > 0.0, feasible).nonzero()[0]
            missing = missing[rows]
        else:  # every row misses the same: most have that of the cheapest kind
            cheapest, free = kinds[0], self._free(kinds[0])
            number = np.ceil(need.amount / amounts[cheapest])
            taken[cheapest] = np.minimum(free, number)
            rows, kinds = _both(free < number, feasible).nonzero()[0], kinds[1:]
            missing = need.amount - taken[cheapest][rows] * amounts[cheapest]
        for kind in kinds:
            if not len(rows):
                return
            free = self._free(kind, rows)
            if kind in taken:
                free = free - taken[kind][rows]
            else:
                taken[kind] = np.zeros(len(self))
            extra = np.minimum(np.ceil(missing / amounts[kind]), free)
            taken[kind][rows] += extra
            missing = missing - extra * amounts[kind]
            left = (missing > 0.0).nonzero()[0]
            rows, missing = rows[left], missing[left]


def _both(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask & other


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return what is free on the rows of a View: the named resources, and blocks if requested."""
    counts = np.zeros((len(view.kinds) if blocks else 0, len(view)))
    if blocks:
        block_counts = view.block_counts
        rows = np.repeat(np.arange(len(view)), np.diff(block_counts.start))
        counts[block_counts.kind, rows] = block_counts.free
    return Leftover(view.kinds, counts, {name: view.stocks_of(name) for name in resources})
