# SPDX-License-Identifier: Apache-2.0
"""The block table: the blocks and stocks of one pod manager, their pools, slots and topology."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field, structs

from valence_sched.model.inventory import Stock

Positions = tuple[int, ...]  # positions of pools within their podm
Topology = Mapping[str, str]  # the values of a block by domain
TopologyValues = tuple[str | None, ...]  # of some domains; None where unknown
KindAndTopology = tuple[int, TopologyValues]


class BlockTable(Struct, frozen=True, eq=False, gc=False):
    """Parallel sequences, one element per block: URI, kind, free slots, shared or not, pools.

    A table never changes. A ``shared`` block is in use, and another node may use it as well;
    ``gains`` are the slots that the removal of a node frees. ``topologies`` may be None.
    """

    uris: list[str]
    kinds: list[int]
    slots: list[int]
    shared: list[bool]
    pools: list[Positions]
    stocks: tuple[Stock, ...]
    stock_pools: tuple[Positions, ...]
    gains: list[int]
    topologies: Sequence[Topology | None] | None = None
    _ordered: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _stocks_of: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def numbers(self) -> Mapping[str, int]:
        if not self._numbers:
            self._numbers.update({uri: number for number, uri in enumerate(self.uris)})
        return self._numbers

    def free_blocks(self, position: int, counts: Mapping[int, int]) -> list[int]:
        """Return ``counts[kind]`` free blocks: shared first, then those in the fewest pools."""
        chosen: list[int] = []
        for kind, number in counts.items():
            free = [block for block in self._in_order(kind, position) if self.slots[block]]
            chosen += self._shared_first(free)[:number]
        return sorted(chosen)

    def _in_order(self, kind: int, position: int) -> Sequence[int]:
        ordered = self._ordered
        if not ordered:
            kinds, pools = self.kinds, self.pools
            pool_counts = list(map(len, pools))
            for block in sorted(range(len(kinds)), key=pool_counts.__getitem__):
                for pool_position in pools[block]:
                    ordered.setdefault((kinds[block], pool_position), []).append(block)
        return ordered.get((kind, position), ())

    def _shared_first(self, blocks: list[int]) -> list[int]:
        if not any(map(self.shared.__getitem__, blocks)):
            return blocks
        return sorted(blocks, key=lambda block: not self.shared[block])

    def topology_values(self, block: int, names: Sequence[str]) -> TopologyValues:
        topology = (self.topologies[block] if self.topologies else None) or {}
        return tuple(topology.get(name) for name in names)

    def free_by_topology(self, position: int, names: Sequence[str]) -> Counter[KindAndTopology]:
        """Count the free blocks of the pool at ``position`` by kind and topology values."""
        return Counter(
            (self.kinds[block], self.topology_values(block, names))
            for block, pools in enumerate(self.pools)
            if self.slots[block] and position in pools
        )

    def free_blocks_by_topology(
        self, position: int, counts: Mapping[KindAndTopology, int], names: Sequence[str]
    ) -> list[int]:
        """Return ``counts[kind, values]`` free blocks of a pool, ordered as in ``free_blocks``."""
        free: dict[KindAndTopology, list[int]] = {}
        for kind in {kind for kind, _ in counts}:
            for block in self._in_order(kind, position):
                if self.slots[block]:
                    free.setdefault((kind, self.topology_values(block, names)), []).append(block)
        some = (self._shared_first(free.get(key, []))[:number] for key, number in counts.items())
        return sorted(itertools.chain.from_iterable(some))

    def stocks_of(self, position: int, resource: str) -> Sequence[int]:
        """Return the numbers of the stocks of one resource in the pool at ``position``."""
        if not self._stocks_of:
            for number, pools in enumerate(self.stock_pools):
                for pool_position in pools:
                    key = (pool_position, self.stocks[number].resource)
                    self._stocks_of.setdefault(key, []).append(number)
        return self._stocks_of.get((position, resource), ())

    def allocate(self, blocks: Iterable[int], grants: Iterable[tuple[int, float]]) -> "BlockTable":
        """Return the table after one slot of each block and the granted amounts are allocated."""
        slots, shared = self.slots.copy(), self.shared.copy()
        for block in blocks:
            slots[block] -= 1
            shared[block] = True
        if not grants:
            return self._replace_state(slots, shared, self.stocks)
        stocks = list(self.stocks)
        for number, amount in grants:
            used = stocks[number].used + amount
            stocks[number] = structs.replace(stocks[number], used=used)
        return self._replace_state(slots, shared, tuple(stocks))

    def deallocate(
        self, blocks: Iterable[int], grants: Iterable[tuple[int, float]], base: "BlockTable"
    ) -> "BlockTable":
        """Return the table after freeing slots and amounts that were allocated since ``base``."""
        slots, shared, stocks = self.slots.copy(), self.shared.copy(), list(self.stocks)
        for block in blocks:
            slots[block] += 1
            shared[block] = base.shared[block] or slots[block] < base.slots[block]
        for number, amount in grants:
            used = round(stocks[number].used - amount, 9)
            stocks[number] = structs.replace(stocks[number], used=used)
        return self._replace_state(slots, shared, tuple(stocks))

    def remove_node(self, blocks: Iterable[int]) -> "BlockTable":
        """Return the table after removing the node with these blocks; each block is given once."""
        slots = self.slots.copy()
        for block in blocks:
            slots[block] += self.gains[block]
        return self._replace_state(slots, self.shared, self.stocks)

    def only(
        self, blocks: Iterable[int] = (), grants: Iterable[tuple[int, float]] = ()
    ) -> "BlockTable":
        """Return a table where only one slot of each given block and the given amounts are free."""
        slots = [0] * len(self.slots)
        for block in blocks:
            slots[block] = 1
        full = [max(stock.used, stock.total or 0.0) for stock in self.stocks]
        for number, amount in grants:
            full[number] -= amount
        pairs = zip(self.stocks, full, strict=True)
        used = tuple([structs.replace(stock, used=amount) for stock, amount in pairs])
        return self._replace_state(slots, self.shared, used)

    def _replace_state(
        self, slots: list[int], shared: list[bool], stocks: tuple[Stock, ...]
    ) -> "BlockTable":
        return structs.replace(self, slots=slots, shared=shared, stocks=stocks)
