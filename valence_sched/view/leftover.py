# SPDX-License-Identifier: Apache-2.0
"""Leftover: the free blocks and stocks by row, the blocks of a node, and the imbalance of use."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from valence_sched.model.need import MEASURES, Need
from valence_sched.view.block_kinds import BlockCounts, BlockKinds
from valence_sched.view.stocks import StockGrants
from valence_sched.view.view import Floats, Ints, Mask, View

MANY_ROWS = 256  # with this many rows or more, one line or list of needs at a time is faster


class RankedKinds(Struct, frozen=True, eq=False):
    """The kinds of blocks of some needs, each in the order in which a node takes them.

    ``amounts`` and ``ranks`` have shape ``(needs, kinds)``; the rank of a kind that does not supply
    the need has all bits. ``kinds`` and ``numbers``, shape ``(needs, ranks)``, have the kind of
    each rank and the number of its blocks that make the need, and 0 after the last rank; ``first``
    is the place of the first rank of each need in them, and ``among`` has the kinds of each need
    and kind 0. ``several`` tells of each need whether it may take several blocks of a kind, and
    ``overlaps`` has the earlier needs whose blocks may count for it.
    """

    amounts: Floats
    ranks: npt.NDArray[Any]
    kinds: Ints
    numbers: Floats
    first: Ints
    among: list[Ints]
    several: list[bool]
    overlaps: list[list[int]]


def ranked_kinds(kinds: BlockKinds, needs: tuple[Need, ...]) -> RankedKinds:
    """Return the kinds that supply each need, the cheapest first; the block kinds memoise them."""
    ranked: RankedKinds | None
    size, ranked = kinds.ranked.get(needs, (0, None))
    if ranked is None or size != len(kinds):
        amounts, among, overlaps = kinds.amount_matrix(needs), list[Ints](), list[list[int]]()
        dtype = np.min_scalar_type(len(kinds))
        ranks = np.full(amounts.shape, np.iinfo(dtype).max, dtype=dtype)
        orders = [np.array(kinds.cheapest_first(need), dtype=np.int64) for need in needs]
        kind = np.zeros((len(needs), 1 + max(map(len, orders))), dtype=np.int64)
        number = np.zeros(kind.shape)
        for line, (need, order) in enumerate(zip(needs, orders, strict=True)):
            ranks[line, order] = np.arange(len(order))
            kind[line, : len(order)] = order
            number[line, : len(order)] = np.ceil(need.amount / amounts[line, order])
            overlaps.append([one for one in range(line) if amounts[line, among[one]].any()])
            among.append(np.append(order, 0))
        first = np.arange(len(needs))[:, None] * kind.shape[1]
        several = [bool(own.max() > 1.0) for own in number]
        ranked = RankedKinds(amounts, ranks, kind, number, first, among, several, overlaps)
        kinds.ranked.store(needs, (len(kinds), ranked))
    return ranked


class KindBlocks(Struct, frozen=True, eq=False):
    """The kind and the number of blocks that each row of ``rows`` gives; None means all rows.

    The blocks are for the need of a ``line``. Every kind is one of ``among``, whose last is 0 if a
    row may give no block.
    """

    line: int
    rows: Ints | None
    kinds: Ints
    numbers: Floats
    among: Ints

    def number_of(self, kinds: Ints, rows: Ints, size: int) -> Floats:
        """Return the number of blocks of a kind that each of ``size`` rows gives."""
        places = rows
        if self.rows is not None:
            place_of = np.full(size, len(self.rows))
            place_of[self.rows] = np.arange(len(self.rows))
            places = place_of[rows]
        given, numbers = np.append(self.kinds, -1)[places], np.append(self.numbers, 0.0)[places]
        return np.where(given == kinds, numbers, 0.0)


class NodeBlocks(Struct, frozen=True, eq=False):
    """The blocks that each row gives to one node, part by part.

    ``kinds`` and ``numbers``, shape ``(needs, rows)``, have the parts of all rows.
    """

    kinds: Ints
    numbers: Floats
    parts: list[KindBlocks]

    def supply(self, amounts: Floats, parts: Iterable[KindBlocks]) -> Floats:
        """Return the sum of ``amounts``, by kind, over the blocks of some parts, by row."""
        total = np.zeros(self.kinds.shape[1])
        for part in parts:
            rows = slice(None) if part.rows is None else part.rows
            total[rows] += amounts.take(part.kinds) * part.numbers
        return total

    def subtract(self, amounts: Floats, table: Floats, offset: Ints | None = None) -> None:
        """Subtract the supply of these blocks, ``amounts[line, kind]``, from a table.

        ``offset`` is added to the kinds of each row, whose blocks then supply other amounts.
        """
        parts = self.parts
        if self.kinds.shape[1] < MANY_ROWS:
            kinds = self.kinds if offset is None else self.kinds + offset
            table -= np.add.reduce(amounts.take(kinds, axis=1) * self.numbers, axis=1)
            parts = [part for part in parts if part.rows is not None]
        for part in parts:
            rows, kinds = slice(None) if part.rows is None else part.rows, part.kinds
            if offset is not None:
                kinds = kinds + offset[rows]
            if len(kinds) < MANY_ROWS:
                table[:, rows] -= amounts.take(kinds, axis=1) * part.numbers
                continue
            for line in np.flatnonzero(amounts[:, part.among].any(axis=1)).tolist():
                table[line][rows] -= amounts[line].take(kinds) * part.numbers


class Leftover(Struct, frozen=True, dict=True):
    """The free blocks of every row, None if no caller needs them, and stocks of some resources."""

    kinds: BlockKinds
    counts: BlockCounts | None
    stocks: dict[str, StockGrants]

    @property
    def _tables(self) -> list[BlockCounts | StockGrants]:
        return [*(() if self.counts is None else (self.counts,)), *self.stocks.values()]

    def free_amounts(self) -> list[npt.NDArray[Any]]:
        """Return copies of the free amounts of all blocks and stocks."""
        return [table.free.copy() for table in self._tables]

    def changed_rows(self, earlier: Sequence[npt.NDArray[Any]]) -> Ints:
        """Return the rows whose free amounts differ from earlier ones, in order."""
        changed = [np.empty(0, dtype=np.int64)]
        for table, before in zip(self._tables, earlier, strict=True):
            entries = (table.free != before).nonzero()[0]
            changed.append(table.start.searchsorted(entries, side="right") - 1)
        return np.unique(np.concatenate(changed))

    def take(self, rows: Ints) -> "Leftover":
        """Return a copy of some rows."""
        counts = None if self.counts is None else self.counts.take(rows)
        stocks = {name: grants.take(rows) for name, grants in self.stocks.items()}
        return Leftover(self.kinds, counts, stocks)

    def stocks_after(self, needs: Iterable[Need]) -> dict[str, StockGrants]:
        """Return the changed stocks after a node on every row, granted like ``core.fit.stocks``."""
        grants: dict[str, StockGrants] = {}
        own = [need for need in needs if need.resource in self.stocks]
        for need in sorted(own, key=lambda need: -need.amount):
            remaining = grants.get(need.resource) or self.stocks[need.resource]
            grants[need.resource] = remaining.after_grants(need.amount, need.count)
        return grants

    def blocks_for(self, needs: Iterable[Need], feasible: Mask | None = None) -> NodeBlocks:
        """Return the blocks that every row gives to one node; undefined for rows not ``feasible``.

        The blocks are an estimate, which is exact if one kind of block serves each need. Each need
        in turn takes the cheapest kinds; the other devices of a block count for the needs that
        follow.
        """
        own, counts = tuple([need for need in needs if need.kind != "stock"]), self.counts
        if not counts or not own:
            size = len(own), len(counts) if counts else 0
            return NodeBlocks(np.empty(size, dtype=np.int64), np.empty(size), [])
        ranked, first = ranked_kinds(self.kinds, own), counts.start[:-1]
        has_table = "_absent" in self.__dict__  # of an earlier request: faster than entries
        if has_table:
            best = np.array([np.minimum.reduce(self._ranks(kinds)) for kinds in ranked.among])
        else:
            ranks = ranked.ranks.take(counts.kind, axis=1)
            ranks |= (counts.free == 0.0) * ~ranks.dtype.type(0)  # in place: no new memory
            best = np.minimum.reduceat(ranks, first, axis=1)
        places = np.minimum(best, ranked.kinds.shape[1] - 1) + ranked.first
        parts = list[KindBlocks]()
        taken = NodeBlocks(ranked.kinds.take(places), ranked.numbers.take(places), parts)
        for line, need in enumerate(own):
            kinds, numbers, amounts = taken.kinds[line], taken.numbers[line], ranked.amounts[line]
            overlaps, several = ranked.overlaps[line], ranked.several[line]
            missing: Any = need.amount
            earlier = list[KindBlocks]()
            if overlaps:
                earlier = [part for part in parts if part.line in overlaps]
                have = taken.supply(amounts, earlier)
                missing = need.amount - have
                supplied = have.nonzero()[0]  # these rows give no further block first
                kinds[supplied] = 0
                numbers[supplied] = 0.0
            if several and np.maximum.reduce(numbers, initial=0.0) > 1.0:
                if has_table:
                    free = self.blocks[kinds, np.arange(len(kinds))]
                else:
                    of_kind = counts.kind == kinds.repeat(counts.start[1:] - first)
                    free = np.add.reduceat(of_kind * counts.free, first)
                np.minimum(numbers, free, out=numbers)
            part = KindBlocks(line, None, kinds, numbers, ranked.among[line])
            parts.append(part)
            if several or overlaps:  # else one block is enough
                missing = missing - amounts.take(kinds) * numbers
                more = missing > 0.0 if feasible is None else (missing > 0.0) & feasible
                if len(rows := more.nonzero()[0]):
                    parts += self._more_parts(amounts, part, rows, missing[rows], earlier)
        return taken

    def _more_parts(
        self,
        amounts: Floats,
        first: KindBlocks,
        rows: Ints,
        missing: Floats,
        earlier: list[KindBlocks],
    ) -> Iterator[KindBlocks]:
        """Yield, kind by kind, the further blocks of rows whose first kind gives too little."""
        blocks, kinds = self.blocks, first.among[:-1]
        ranks = self._ranks(kinds, rows)
        ranks[kinds[:, None] == first.kinds[rows]] = absent = np.iinfo(ranks.dtype).max
        while True:
            best = ranks.min(axis=0)
            left = ((best != absent) & (missing > 0.0)).nonzero()[0]
            if not len(left):
                return
            if len(left) < len(rows):
                rows, missing, ranks = rows[left], missing[left], ranks.take(left, axis=1)
                best = best[left]
            of_row = kinds.take(best)
            free = blocks[of_row, rows]
            for part in earlier:
                free = free - part.number_of(of_row, rows, blocks.shape[1])
            numbers = np.minimum(np.ceil(missing / amounts.take(of_row)), free)
            yield KindBlocks(first.line, rows, of_row, numbers, kinds)
            missing = missing - numbers * amounts.take(of_row)
            ranks[best, np.arange(len(rows))] = absent

    def _ranks(self, kinds: Ints, rows: Ints | None = None) -> npt.NDArray[Any]:
        """Return the rank of each kind, shape ``(kinds, rows)``; all bits if no block is free."""
        ranks = self._absent.take(kinds, axis=0)
        if rows is not None:
            ranks = ranks.take(rows, axis=1)
        ranks |= np.arange(len(kinds), dtype=ranks.dtype)[:, None]
        return ranks

    @functools.cached_property
    def _absent(self) -> npt.NDArray[Any]:
        """All bits by kind and row if no block is free, else 0, in numbers that hold every rank."""
        dtype = np.min_scalar_type(len(self.kinds))
        absent: npt.NDArray[Any] = (self.blocks == 0.0) * dtype.type(np.iinfo(dtype).max)
        return absent

    @functools.cached_property
    def blocks(self) -> Floats:
        """The number of free blocks by kind and row."""
        counts = self.counts
        assert counts is not None, "rows without blocks have no parts"
        blocks = np.zeros((len(self.kinds), len(counts)))
        blocks[counts.kind, np.arange(len(counts)).repeat(np.diff(counts.start))] = counts.free
        return blocks


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return the free blocks by row if requested, and the stocks of those resources that exist."""
    stocks = {name: view.resources[name].by_stock for name in resources if name in view.resources}
    return Leftover(view.kinds, view.block_counts if blocks else None, stocks)


#: The resources of the imbalance; the most used resource of a row counts.
MEASURED = ("cores", "memory_mib", "accelerators", "drives")


class UseDeviation(NamedTuple):
    """The standard deviation of use, from 0 to 0.5, over pod managers and over pools."""

    podms: float
    pools: float


def imbalance(view: View) -> UseDeviation:
    """Return the imbalance of a View; podms and pools without a measured block do not count."""
    deviations = []
    for counts in (view.podm_block_counts, view.block_counts):
        use = use_shares(view, counts)
        measured = use[~np.isnan(use)]
        deviations.append(float(measured.std()) if len(measured) else 0.0)
    return UseDeviation(*deviations)


def use_shares(view: View, counts: BlockCounts) -> Floats:
    """Return the share in use of the most used resource of each row; NaN without any resource."""
    amounts = view.kinds.amount_matrix(tuple(MEASURES[name] for name in MEASURED))
    total, free = (counts.sums(amounts, free=only) for only in (False, True))
    share = np.divide(total - free, total, out=np.full(total.shape, -1.0), where=total > 0.0)
    highest = share.max(axis=0)
    return np.where(highest < 0.0, np.nan, highest)
