# SPDX-License-Identifier: Apache-2.0
"""The very blocks and stocks of one podm: which pools they stand in and how often they are free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from valence_sched.model.inventory import Stock

Positions = tuple[int, ...]  # of pools within their podm


@dataclass(frozen=True, slots=True)
class Shelf:
    """Parallel sequences, one element a block: URI, kind, free slots, in use by others, pools.

    ``gains`` is how many slots a block gets back once a node lets it go.
    """

    uris: list[str]
    kinds: list[int]
    slots: list[int]
    shared: list[bool]
    pools: list[Positions]
    stocks: tuple[Stock, ...]
    stock_pools: tuple[Positions, ...]
    gains: list[int]
    _by_kind: dict[int, list[int]] = field(default_factory=dict, repr=False, compare=False)

    def free_blocks(self, position: int, wanted: Mapping[int, int]) -> list[int]:
        """Return ``wanted[kind]`` free blocks of each kind in the pool at ``position``.

        Of equal blocks, those already shared go first, then those in the fewest pools, so that
        other pools keep theirs; then inventory order.
        """
        chosen: list[int] = []
        for kind, number in wanted.items():
            free = [
                (not self.shared[block], len(self.pools[block]), block)
                for block in self._of_kind(kind)
                if self.slots[block] and position in self.pools[block]
            ]
            chosen += [block for _, _, block in sorted(free)[:number]]
        return sorted(chosen)

    def _of_kind(self, kind: int) -> list[int]:
        if not self._by_kind:
            for block, number in enumerate(self.kinds):
                self._by_kind.setdefault(number, []).append(block)
        return self._by_kind.get(kind, [])

    def stocks_in(self, position: int) -> list[int]:
        """Return the stocks that stand in the pool at ``position``."""
        return [number for number, pools in enumerate(self.stock_pools) if position in pools]

    def less(self, blocks: Iterable[int], grants: Iterable[tuple[int, float]]) -> Shelf:
        """Return the shelf with one slot of each block and the granted amounts taken."""
        slots, shared, stocks = self.slots.copy(), self.shared.copy(), self.stocks
        for block in blocks:
            slots[block] -= 1
            shared[block] = True
        for number, amount in grants:
            used = stocks[number].used + amount
            taken = msgspec.structs.replace(stocks[number], used=used)
            stocks = (*stocks[:number], taken, *stocks[number + 1 :])
        return Shelf(self.uris, self.kinds, slots, shared, self.pools, stocks,
                     self.stock_pools, self.gains, self._by_kind)  # fmt: skip

    def more(self, blocks: Iterable[int]) -> Shelf:
        """Return the shelf once a node has let go of these blocks, each named once."""
        slots = self.slots.copy()
        for block in blocks:
            slots[block] += self.gains[block]
        return Shelf(self.uris, self.kinds, slots, self.shared, self.pools, self.stocks,
                     self.stock_pools, self.gains, self._by_kind)  # fmt: skip
