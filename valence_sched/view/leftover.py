# SPDX-License-Identifier: Apache-2.0
"""Leftover: the free blocks and stocks per row, and an estimate of what one node takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.stock_grants import StockGrants
from valence_sched.view.view import View

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Leftover:
    """Free blocks by kind, shape ``(kinds, rows)``, and the stocks of some resources.

    Where nobody looks at blocks there are no kinds.
    """

    kinds: BlockKinds
    blocks: Floats
    stocks: dict[str, StockGrants]

    def take(self, rows: Ints) -> Leftover:
        """Return a copy with these rows in this order."""
        grants = {name: found.take(rows) for name, found in self.stocks.items()}
        return Leftover(self.kinds, self.blocks[:, rows], grants)

    def stocks_after(self, needs: Iterable[Need]) -> dict[str, StockGrants]:
        """Return the stocks that change when every row gives what one node needs of them.

        They give as ``core.pour`` lets them, the tightest first; the largest amounts go first.
        """
        asked = [need for need in needs if need.resource in self.stocks]
        grants: dict[str, StockGrants] = {}
        for need in sorted(asked, key=lambda need: -need.amount):
            found = grants.get(need.resource) or self.stocks[need.resource]
            grants[need.resource] = found.after_grants(need.amount, need.count)
        return grants

    def blocks_for(self, needs: Iterable[Need]) -> Floats:
        """Return how many blocks of each kind a node takes; shape ``(kinds, rows)``.

        An estimate: need by need the kinds that cost least for what they give, and what a block
        brings besides counts for the needs that follow. Where one kind of block serves each need
        these are the very blocks; a block that several nodes may share counts as taken.
        """
        taken = np.zeros_like(self.blocks)
        for need in needs:
            if need.kind != "stock" and len(taken):
                self._add(need, taken)
        return taken

    def _add(self, need: Need, taken: Floats) -> None:
        """Add to what is taken, per row, the blocks that bring what is still missing."""
        gives = self.kinds.amounts(need)
        missing = need.amount - gives @ taken  # whole numbers: exact in any order
        rows = np.flatnonzero(missing > 0.0)
        for kind in self.kinds.cheapest_first(need):
            here = missing[rows]
            more = np.minimum(np.ceil(here / gives[kind]), (self.blocks[kind] - taken[kind])[rows])
            taken[kind, rows] += more
            here -= more * gives[kind]
            missing[rows] = here
            rows = rows[here > 0.0]
            if not len(rows):
                return


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return what is free on the rows of a View: the named resources, and blocks if wanted."""
    counts = np.zeros((len(view.kinds) if blocks else 0, len(view)))
    if blocks:
        census = view.block_counts
        rows = np.repeat(np.arange(len(view)), np.diff(census.start))
        counts[census.kind, rows] = census.free
    return Leftover(view.kinds, counts, {name: view.stocks_of(name) for name in resources})
