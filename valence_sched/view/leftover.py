# SPDX-License-Identifier: Apache-2.0
"""Leftover: the free blocks and stocks by row, the blocks of a node, and the imbalance of use."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from valence_sched.model.need import MEASURES, Need
from valence_sched.view.block_kinds import BlockCounts, BlockKinds
from valence_sched.view.stocks import StockGrants
from valence_sched.view.view import Floats, Ints, Mask, View

MOST_RANKED = 64  # the number of block kinds that one step handles
ABSENT = 255  # the rank of a kind that a row lacks
MANY_ROWS = 256  # with this many rows or more, one line or list of needs at a time is faster


class RankedKinds(Struct, frozen=True, eq=False):
    """Kinds of blocks in the order in which a need takes them, at most ``MOST_RANKED``.

    ``kind`` and ``number`` have the kind and the number of its blocks that make the need, by rank,
    and 0 after the last rank. ``ranks`` has shape ``(kinds, 1)``.
    """

    kinds: Ints
    kind: Ints
    number: Floats
    ranks: npt.NDArray[np.uint8]


def ranked_kinds(kinds: BlockKinds, need: Need) -> list[RankedKinds]:
    """Return the kinds that supply a need, the cheapest first; the block kinds memoise them."""
    size, ranked = kinds.ranked.get(need, (0, []))
    if size != len(kinds):
        amounts, order = kinds.amounts(need), np.array(kinds.cheapest_first(need), dtype=np.int64)
        ranked = []
        for first in range(0, len(order), MOST_RANKED):
            some = order[first : first + MOST_RANKED]
            number = np.ceil(need.amount / amounts[some])
            ranks = np.arange(len(some), dtype=np.uint8)[:, None]
            ranked.append(RankedKinds(some, np.append(some, 0), np.append(number, 0.0), ranks))
        kinds.ranked.store(need, (len(kinds), ranked))
    return ranked


class KindBlocks(Struct, frozen=True, eq=False):
    """The kind and the number of blocks that each row of ``rows`` gives; None means all rows.

    Every kind is one of ``among``, or 0 if the row gives no block.
    """

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
    """The blocks that each of ``size`` rows gives to one node, part by part."""

    size: int
    parts: list[KindBlocks]

    def supply(self, amounts: Floats) -> Floats | None:
        """Return the sum of ``amounts``, by kind, over the blocks of each row; None if all 0."""
        total: Floats | None = None
        for part in self.parts:
            if amounts[part.among].any():
                supplied = amounts.take(part.kinds) * part.numbers
                if part.rows is not None:
                    total = np.zeros(self.size) if total is None else total
                    total[part.rows] += supplied
                else:
                    total = supplied if total is None else np.add(total, supplied, out=total)
        return total

    def subtract(self, amounts: Floats, table: Floats, offset: Ints | None = None) -> None:
        """Subtract the supply of these blocks, ``amounts[line, kind]``, from a table.

        ``offset`` is added to the kinds of each row, whose blocks then supply other amounts.
        """
        for part in self.parts:
            rows, kinds = slice(None) if part.rows is None else part.rows, part.kinds
            if offset is not None:
                kinds = kinds + offset[rows]
            if len(kinds) < MANY_ROWS:
                table[:, rows] -= amounts.take(kinds, axis=1) * part.numbers
                continue
            for line in np.flatnonzero(amounts[:, part.among].any(axis=1)).tolist():
                table[line][rows] -= amounts[line].take(kinds) * part.numbers


class Leftover(Struct, frozen=True, dict=True):
    """Free blocks by kind, shape ``(kinds, rows)``, and the stocks of some resources.

    If no caller needs blocks, there are 0 kinds.
    """

    kinds: BlockKinds
    blocks: Floats
    stocks: dict[str, StockGrants]

    def __len__(self) -> int:
        return int(self.blocks.shape[1])

    def stocks_after(self, needs: Iterable[Need]) -> dict[str, StockGrants]:
        """Return the changed stocks after a node on every row, granted like ``core.fit.stocks``."""
        grants: dict[str, StockGrants] = {}
        for need in sorted(needs, key=lambda need: -need.amount):
            if need.resource in self.stocks:
                remaining = grants.get(need.resource) or self.stocks[need.resource]
                grants[need.resource] = remaining.after_grants(need.amount, need.count)
        return grants

    def blocks_for(self, needs: Iterable[Need], feasible: Mask | None = None) -> NodeBlocks:
        """Return the blocks that every row gives to one node; undefined for rows not ``feasible``.

        The blocks are an estimate, which is exact if one kind of block serves each need. Each need
        in turn takes the cheapest kinds; the other devices of a block count for the needs that
        follow.
        """
        taken = NodeBlocks(len(self), [])
        for need in needs:
            if need.kind != "stock" and len(self.blocks):
                self._add(need, taken, feasible)
        return taken

    def _add(self, need: Need, taken: NodeBlocks, feasible: Mask | None) -> None:
        amounts = self.kinds.amounts(need)
        for ranked in ranked_kinds(self.kinds, need):
            earlier, counted = list(taken.parts), taken.supply(amounts)
            part = self._first_part(ranked, counted)
            have = amounts.take(part.kinds) * part.numbers
            if counted is not None:
                have += counted
            taken.parts.append(part)
            missing = have < need.amount
            rows = (missing if feasible is None else missing & feasible).nonzero()[0]
            if len(rows):
                others = [] if counted is None else earlier
                missing_amounts = need.amount - have[rows]
                more = self._more_parts(amounts, ranked, part, rows, missing_amounts, others)
                taken.parts.extend(more)

    def _first_part(self, ranked: RankedKinds, counted: Floats | None) -> KindBlocks:
        """Return the blocks that each row gives, all of the first of these kinds that it has free.

        Rows whose earlier blocks count for the need give no blocks.
        """
        best: Ints = np.minimum.reduce(self._ranks(ranked))
        if counted is not None:
            best[counted.nonzero()[0]] = ABSENT
        of_row = ranked.kind.take(best, mode="clip")  # kind 0, without devices, if absent
        numbers = ranked.number.take(best, mode="clip")
        if np.maximum.reduce(ranked.number) > 1.0:  # each of these rows has at least one block
            numbers = np.minimum(numbers, self.blocks[of_row, np.arange(len(self))])
        return KindBlocks(None, of_row, numbers, ranked.kinds)

    def _more_parts(
        self,
        amounts: Floats,
        ranked: RankedKinds,
        first: KindBlocks,
        rows: Ints,
        missing: Floats,
        earlier: list[KindBlocks],
    ) -> Iterator[KindBlocks]:
        """Yield, kind by kind, the further blocks of rows whose first kind gives too little."""
        blocks, kinds = self.blocks, ranked.kinds
        ranks = self._ranks(ranked, rows)
        ranks[kinds[:, None] == first.kinds[rows]] = ABSENT
        while True:
            best = ranks.min(axis=0)
            left = ((best != ABSENT) & (missing > 0.0)).nonzero()[0]
            if not len(left):
                return
            if len(left) < len(rows):
                rows, missing, ranks = rows[left], missing[left], ranks.take(left, axis=1)
                best = best[left]
            of_row = kinds.take(best)
            free = blocks[of_row, rows]
            for part in earlier:
                free = free - part.number_of(of_row, rows, len(self))
            numbers = np.minimum(np.ceil(missing / amounts.take(of_row)), free)
            yield KindBlocks(rows, of_row, numbers, kinds)
            missing = missing - numbers * amounts.take(of_row)
            ranks[best, np.arange(len(rows))] = ABSENT

    def _ranks(self, ranked: RankedKinds, rows: Ints | None = None) -> npt.NDArray[np.uint8]:
        """Return ranks of shape ``(kinds, rows)``; ABSENT where a row has no free block."""
        absent = self._absent[ranked.kinds]
        if rows is not None:
            absent = absent.take(rows, axis=1)
        return absent | ranked.ranks

    @functools.cached_property
    def _absent(self) -> npt.NDArray[np.uint8]:
        return np.where(self.blocks > 0.0, 0, ABSENT).astype(np.uint8)


def leftover(view: View, resources: Sequence[str], *, blocks: bool) -> Leftover:
    """Return the free stocks of the named resources, and free blocks if requested, by row."""
    counts = np.zeros((len(view.kinds) if blocks else 0, len(view)))
    if blocks:
        block_counts = view.block_counts
        rows = np.repeat(np.arange(len(view)), np.diff(block_counts.start))
        counts[block_counts.kind, rows] = block_counts.free
    return Leftover(view.kinds, counts, {name: view.stock(name).by_stock for name in resources})


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
