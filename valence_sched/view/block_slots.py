# SPDX-License-Identifier: Apache-2.0
"""Block slots: the free slots of all blocks of a View as arrays, while nodes take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from valence_sched.view.block_columns import BlockArrays, block_arrays
from valence_sched.view.block_counts import BlockCounts, Ints
from valence_sched.view.view import View


@dataclass(frozen=True, slots=True)
class BlockEntries:
    """Which blocks each entry of the block counts counts, and which entries count each block.

    Blocks are numbered through all pod managers. Those of pool entry ``e`` are
    ``blocks[start[e]:start[e + 1]]``: those in the fewest pools first, then in inventory order. The
    pool entries of block ``b`` are ``entries[first[b]:first[b + 1]]``, and its only entry of pod
    managers is ``podm_entry[b]``.
    """

    start: Ints
    blocks: Ints
    first: Ints
    entries: Ints
    podm_entry: Ints


class BlockSlots:
    """The free slots of all blocks while nodes take them, one after another; the View stays."""

    def __init__(self, view: View) -> None:
        arrays = view.memoise_free("block arrays", (), lambda: block_arrays(view.block_tables))
        self._slots = arrays.slots.astype(np.int64)
        self._shared = arrays.shared.copy()
        #: What the View's counts have of each block.
        self.of: BlockEntries = view.memoise_latest(
            ("constant", "block entries"), (), lambda: _block_entries(view, arrays)
        )

    def take(self, entries: Ints, numbers: Ints) -> Ints:
        """Take a slot of ``numbers[n]`` blocks of pool entry ``entries[n]``, which has as many.

        The blocks are those that :meth:`BlockTable.free_blocks` has. No block may be in two of the
        entries. Return the blocks that are full now.
        """
        low = self.of.start[entries]
        sizes = self.of.start[entries + 1] - low
        blocks = self.of.blocks[ranges(low, sizes)]
        question = np.repeat(np.arange(len(entries)), sizes)
        free = self._slots[blocks] > 0
        blocks, question = blocks[free], question[free]
        if (shared := self._shared[blocks]).any():
            order = np.lexsort((~shared, question))
            blocks, question = blocks[order], question[order]
        begin = np.searchsorted(question, np.arange(len(entries)))
        taken = blocks[np.arange(len(blocks)) - begin[question] < numbers[question]]
        self._slots[taken] -= 1
        self._shared[taken] = True
        full: Ints = taken[self._slots[taken] == 0]
        return full

    def entries(self, blocks: Ints) -> Ints:
        """Return the pool entries of some blocks, of each all."""
        low = self.of.first[blocks]
        entries: Ints = self.of.entries[ranges(low, self.of.first[blocks + 1] - low)]
        return entries


def _block_entries(view: View, arrays: BlockArrays) -> BlockEntries:
    size = len(arrays.kind)
    podm_of = np.repeat(np.arange(len(view.podms)), np.diff(arrays.start))
    pool_numbers = np.array([len(some) for some in arrays.positions], dtype=np.int64)
    flat = np.array([place for some in arrays.positions for place in some], dtype=np.int64)
    starts = np.cumsum(pool_numbers) - pool_numbers
    codes = arrays.pools.astype(np.int64)
    in_pools = pool_numbers[codes]
    block = np.repeat(np.arange(size), in_pools)
    row = view.first_row[podm_of][block] + flat[ranges(starts[codes], in_pools)]
    kinds = len(view.kinds)
    entries = _find_entries(view.block_counts, row, arrays.kind[block], kinds)
    order = np.lexsort((in_pools[block], entries))  # it keeps the order of equal ones
    ends = np.searchsorted(entries[order], np.arange(len(view.block_counts.kind) + 1))
    return BlockEntries(
        start=ends,
        blocks=block[order],
        first=np.concatenate(([0], np.cumsum(in_pools))),
        entries=entries,
        podm_entry=_find_entries(view.podm_block_counts, podm_of, arrays.kind, kinds),
    )


def _find_entries(counts: BlockCounts, rows: Ints, kinds: Ints, kind_count: int) -> Ints:
    """Return the entries of rows and kinds, which must exist; ``kind_count`` is above all kinds."""
    keys = np.repeat(np.arange(len(counts)), np.diff(counts.start)) * kind_count + counts.kind
    order = np.argsort(keys, kind="stable")
    found: Ints = order[np.searchsorted(keys, rows * kind_count + kinds, sorter=order)]
    return found


def ranges(low: Ints, sizes: Ints) -> Ints:
    """Return the numbers from each of ``low`` on, so many as its size, one after another."""
    ends = np.cumsum(sizes)
    ranges: Ints = np.repeat(low - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)
    return ranges
