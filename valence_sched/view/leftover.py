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

    If no caller needs blocks, there are 0 kinds.
    """

    kinds: BlockKinds
    blocks: Floats
    stocks: dict[str, StockGrants]

    def take(self, rows: Ints) -> Leftover:
        grants = {name: stock_grants.take(rows) for name, stock_grants in self.stocks.items()}
        return Leftover(self.kinds, self.blocks[:, rows], grants)

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

    def blocks_for(self, needs: Iterable[Need]) -> Floats:
        """Return how many blocks of each kind a node takes; shape ``(kinds, rows)``.

        An estimate: need by need the cheapest kinds, where the other devices of a block count for
        the needs that follow. It is exact if one kind of block serves each need; a block that
        several nodes may share counts as taken.
        """
        blocks = np.zeros_like(self.blocks)
        for need in needs:
            if need.kind != "stock" and len(blocks):
                self._add(need, blocks)
        return blocks

    def _add(self, need: Need, blocks: Floats) -> None:
        """Add to ``blocks``, per row, those that supply the amount still missing."""
        amounts = self.kinds.amounts(need)
        missing = need.amount - amounts @ blocks  # whole numbers: exact in any order
        rows = np.flatnonzero(missing > 0.0)
        for kind in self.kinds.cheapest_first(need):
            missing_here, free = missing[rows], (self.blocks[kind] - blocks[kind])[rows]
            extra = np.minimum(np.ceil(missing_here / amounts[kind]), free)
            blocks[kind, rows] += extra
            missing_here -= extra * amounts[kind]
            missing[rows] = missing_here
            rows = rows[missing_here > 0.0]
            if not len(rows):
                return


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return what is free on the rows of a View: the named resources, and blocks if requested."""
    counts = np.zeros((len(view.kinds) if blocks else 0, len(view)))
    if blocks:
        block_counts = view.block_counts
        rows = np.repeat(np.arange(len(view)), np.diff(block_counts.start))
        counts[block_counts.kind, rows] = block_counts.free
    return Leftover(view.kinds, counts, {name: view.stocks_of(name) for name in resources})
