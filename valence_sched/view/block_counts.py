# SPDX-License-Identifier: Apache-2.0
"""Block counts: the free and total number of blocks of each kind per row, as flat arrays."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float32]
Array = TypeVar("Array", bound=npt.NDArray[Any])


class BlockCounts(Struct, frozen=True):
    """Entries sorted by row: row ``r`` owns ``[start[r], start[r + 1])`` and has at least one.

    ``kind``, ``free`` and ``total`` have one element per entry: the kind of block, the number of
    free blocks and of all blocks, whole numbers in float32 to halve the copying. ``start`` has one
    element per row and one more.
    """

    start: Ints
    kind: Ints
    free: Counts
    total: Counts

    def __len__(self) -> int:
        return len(self.start) - 1

    def sum(self, amounts: Floats, *, free: bool) -> Floats:
        """Return per row the sum of ``amounts[kind]`` over its blocks; shape ``(rows,)``."""
        counts = self.free if free else self.total
        return np.add.reduceat(amounts[self.kind] * counts, self.start[:-1])

    def sums(self, amounts: Floats, *, free: bool) -> Floats:
        """Return such sums for several needs at once; shape ``(needs, rows)``."""
        counts = self.free if free else self.total
        return np.add.reduceat(amounts[:, self.kind] * counts, self.start[:-1], axis=1)

    def window(self, first: int, last: int) -> BlockCounts:
        """Return rows ``[first, last)`` as windows on the same memory."""
        low, high = int(self.start[first]), int(self.start[last])
        start, part = self.start[first : last + 1] - low, slice(low, high)
        return BlockCounts(start, self.kind[part], self.free[part], self.total[part])

    def take(self, rows: Ints) -> BlockCounts:
        """Return a copy with these rows in this order."""
        if len(self.kind) == len(self):  # an entry each
            start, entries = np.arange(len(rows) + 1), rows
            return read_only(start, self.kind[entries], self.free[entries], self.total[entries])
        sizes = (self.start[1:] - self.start[:-1])[rows]
        start = np.concatenate(([0], np.cumsum(sizes)))
        entries = np.repeat(self.start[rows] - start[:-1], sizes) + np.arange(start[-1])
        return read_only(start, self.kind[entries], self.free[entries], self.total[entries])

    def splice(self, first: int, last: int, other: BlockCounts) -> BlockCounts:
        """Return a copy with ``other`` for ``[first, last)``; unchanged arrays are shared."""
        low, high = int(self.start[first]), int(self.start[last])
        start = self.start
        if not np.array_equal(start[first : last + 1] - low, other.start):
            growth = len(other.kind) - (high - low)
            start = np.concatenate((start[:first], other.start[:-1] + low, start[last:] + growth))
        kind = splice_array(self.kind, low, high, other.kind)
        free = splice_array(self.free, low, high, other.free)
        return read_only(start, kind, free, splice_array(self.total, low, high, other.total))

    def entry(self, row: int, kind: int) -> int:
        """Return the number of the entry of a row and a kind, which must exist."""
        low = int(self.start[row])
        kinds: list[int] = self.kind[low : self.start[row + 1]].tolist()
        return low + kinds.index(kind)

    def entries(self, rows: Ints, kinds: Ints) -> Ints:
        """Return the numbers of the entries of these rows and kinds, which must exist."""
        low = self.start[rows]
        widest = int((self.start[rows + 1] - low).max())
        candidates = np.minimum(low[:, None] + np.arange(widest), len(self.kind) - 1)
        numbers: Ints = low + (self.kind[candidates] == kinds[:, None]).argmax(axis=1)
        return numbers

    def row(self, row: int) -> tuple[Ints, Counts]:
        """Return the kinds of a row, and the number of free blocks of each."""
        low, high = self.start[row], self.start[row + 1]
        return self.kind[low:high], self.free[low:high]

    def kinds(self, row: int) -> list[tuple[int, int]]:
        """Return ``(kind, free blocks)`` of a row, without kinds that have no free block."""
        pairs = zip(*(part.tolist() for part in self.row(row)), strict=True)
        return [(kind, int(free)) for kind, free in pairs if free]


def count_blocks(rows: Ints, kinds: Ints, free: Floats, size: int, kind_count: int) -> BlockCounts:
    """Count blocks: ``rows``, ``kinds`` and ``free`` (0 or 1) have one element per block.

    Every row gets an entry of kind 0, a block of nothing, so that no row is empty.
    """
    keys = np.concatenate((np.arange(size) * kind_count, rows * kind_count + kinds))
    order, inverse = np.unique(keys, return_inverse=True)
    weights = (np.concatenate((np.zeros(size), each)) for each in (free, np.ones(len(rows))))
    counts = (np.bincount(inverse, each, minlength=len(order)) for each in weights)
    free_and_total = (each.astype(np.float32) for each in counts)
    start = np.searchsorted(order, np.arange(size + 1) * kind_count)
    return read_only(start.astype(np.int64), order % kind_count, *free_and_total)


def splice_array(mine: Array, first: int, last: int, theirs: Array) -> Array:
    """Return ``mine`` with ``theirs`` in place of ``[first, last)``; ``mine`` itself if equal."""
    if np.array_equal(mine[first:last], theirs):
        return mine
    return np.concatenate((mine[:first], theirs, mine[last:]))  # type: ignore[return-value]


def read_only(start: Ints, kind: Ints, free: Counts, total: Counts) -> BlockCounts:
    """Return block counts whose arrays are read-only."""
    for array in (start, kind, free, total):
        array.flags.writeable = False
    return BlockCounts(start, kind, free, total)
