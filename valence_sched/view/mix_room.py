# SPDX-License-Identifier: Apache-2.0
"""The room for a mix of flavors: the number of nodes of each flavor that every row can make."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from valence_sched.model.need import NameRequirements, Need
from valence_sched.model.request import Mix
from valence_sched.view.block_kinds import BlockKinds, read_only
from valence_sched.view.leftover import Leftover, leftover
from valence_sched.view.stocks import StockGrants
from valence_sched.view.view import Floats, Ints, Labels, Mask, View

MOST_NODES = 10**9  # nodes of a share that count on one row
EPSILON = 1e-9  # the rounding error of a number of nodes


class RoomBefore(Struct, frozen=True, eq=False):
    """The free hardware of every row, and the numbers of nodes of the mix that it can make.

    ``have``, shape ``(lines, rows)``, is how many times each row supplies each line; ``nodes`` has
    shape ``(lists of needs, rows)``.
    """

    free: Leftover
    have: Floats
    nodes: Floats


class MixRoom:
    """The shares of a mix, compiled to distinct lists of needs, and these to distinct lines.

    A line is a need of blocks, or an amount of one stock resource. Shares that differ only in
    traits have the same list of needs. Shares without needs do not count.
    """

    def __init__(self, mix: Mix) -> None:
        shares, self._digest = mix.shares, mix.digest
        self._share_count = len(shares)
        self._indices = [
            number
            for number, share in enumerate(shares)
            if any(need.amount > 0 for need in share.needs)
        ]
        self._shares = [shares[number] for number in self._indices]
        self._weights = np.array([share.weight for share in self._shares])
        numbers: dict[tuple[Need, ...], int] = {}
        self._needs_of = [
            numbers.setdefault(tuple(need for need in share.needs if need.amount > 0), len(numbers))
            for share in self._shares
        ]
        needs = list(numbers)
        flat = list(itertools.chain.from_iterable(needs))
        self._blocks = tuple(dict.fromkeys(need for need in flat if need.kind != "stock"))
        stocks = sorted({(need.resource, need.amount) for need in flat if need.kind == "stock"})
        self._line_of: dict[object, int] = {
            line: number for number, line in enumerate((*self._blocks, *stocks))
        }
        #: By stock resource: the amounts of its lines, shape (n, 1), in the order of lines.
        self._stocks = {
            name: np.array([[amount] for _, amount in group])
            for name, group in itertools.groupby(stocks, key=lambda line: line[0])
        }
        #: Entry n has the line, and the number of grants, of the n-th need of every list of needs.
        #: Shorter lists repeat their last need.
        self._terms: list[tuple[Ints, Floats]] = []
        for number in range(max(map(len, needs), default=0)):
            some = [own[min(number, len(own) - 1)] for own in needs]
            lines = np.array([self._line(need) for need in some])
            counts = np.array([[float(need.count)] for need in some])
            self._terms.append((lines, counts))
        self._parts = np.empty((0, 0))
        self._table: tuple[Sequence[Any] | None, Sequence[float], Floats]
        self._table = None, (), self._parts

    def __bool__(self) -> bool:
        return bool(self._shares)

    def _line(self, need: Need) -> int:
        return self._line_of[(need.resource, need.amount) if need.kind == "stock" else need]

    def before(self, view: View) -> RoomBefore:
        """Return the room of every row; the View remembers the latest mix."""
        key = self._digest, len(view.kinds)  # another site may add block kinds
        return view.memoise_free("mix room", key, lambda: self._before(view))  # type: ignore[no-any-return]

    def _before(self, view: View) -> RoomBefore:
        free = leftover(view, tuple(self._stocks), blocks=bool(self._blocks))
        have = np.zeros((len(self._line_of), len(view)))
        if self._blocks:
            parts = self._block_parts(view.kinds)
            np.matmul(parts, free.blocks, out=have[: len(parts)])
        self._count_stocks(free.stocks, have)
        return RoomBefore(free, *map(read_only, (have, self._nodes(have))))

    def nodes_after(self, before: RoomBefore, needs: Sequence[Need], feasible: Mask) -> Floats:
        """Return the nodes that each row can make after a node with ``needs`` is placed on it.

        The shape is ``(lists of needs, rows)``; rows that are not ``feasible`` are undefined.
        """
        free, have = before.free, before.have.copy()
        if self._blocks:
            parts = self._block_parts(free.kinds)
            free.blocks_for(needs, feasible).subtract(parts, have[: len(parts)])
        self._count_stocks(free.stocks_after(needs), have)
        return self._nodes(have)

    def _count_stocks(self, stocks: Mapping[str, StockGrants], have: Floats) -> None:
        """Write the numbers of grants from stocks into ``have``, shape ``(lines, rows)``."""
        for name, grants in stocks.items():
            amounts = self._stocks[name]
            first = self._line_of[name, float(amounts[0, 0])]
            have[first : first + len(amounts)] = grants.sums(grants.counts(amounts))

    def _nodes(self, have: Floats) -> Floats:
        nodes = np.full((len(self._terms[0][0]), have.shape[1]), np.inf)
        for lines, counts in self._terms:
            number = have[lines]
            if counts.max() > 1.0:
                number /= counts
            np.minimum(nodes, number, out=nodes)
        nodes += EPSILON
        np.floor(nodes, out=nodes)
        return nodes

    def totals(self, view: View) -> tuple[int, ...]:
        """Return per share the number of nodes that all rows can make.

        A row counts for at most ``MOST_NODES``, so that sums are exact in any order.
        """
        totals = [0] * self._share_count
        if len(view):
            nodes = np.minimum(self.before(view).nodes, MOST_NODES).astype(np.int64)
            accepts = self._accepts(view.traits)[:, view.traits.codes]
            for index, number, mask in zip(self._indices, self._needs_of, accepts, strict=True):
                totals[index] = int(nodes[number][mask].sum())
        return tuple(totals)

    def weighted(self, nodes: Floats, traits: Labels, scarcity: Sequence[float]) -> Floats:
        """Return by row the mean of ``nodes`` over the shares, weighted by weight and scarcity."""
        values, known, table = self._table
        if values is not traits.values or known != scarcity:
            weights = self._weights * [scarcity[n] if scarcity else 1.0 for n in self._indices]
            weights /= weights.sum()
            table = np.zeros((len(nodes), len(traits.values)))
            np.add.at(table, self._needs_of, weights[:, None] * self._accepts(traits))
            # selections of one View share the label values
            self._table = (traits.values, scarcity, table)
        total = np.zeros(nodes.shape[1])
        for numbers, by_value in zip(nodes, table, strict=True):
            total += by_value[traits.codes] * numbers  # no matmul: a row must not affect others
        return total

    def _accepts(self, traits: Labels) -> Mask:
        table = [
            [traits_match(share.traits, has) for has in traits.values] for share in self._shares
        ]
        return np.array(table, dtype=bool).reshape(len(table), len(traits.values))

    def _block_parts(self, kinds: BlockKinds) -> Floats:
        """Return the part 0..1 of each need that a block of each kind supplies: (needs, kinds)."""
        if self._parts.shape[1] != len(kinds):
            amounts = np.array([[need.amount] for need in self._blocks])
            self._parts = np.minimum(kinds.amount_matrix(self._blocks) / amounts, 1.0)
        return self._parts


def mix_room(view: View, mix: Mix) -> MixRoom:
    """Return a compiled mix; the View's block kinds remember it."""
    key = ("mix room", mix.digest)
    compiled: MixRoom | None = view.kinds.derived.get(key)
    if compiled is None:
        compiled = view.kinds.derived.store(key, MixRoom(mix))
    return compiled


def traits_match(names: NameRequirements, has: frozenset[str]) -> bool:
    """Return whether a row with these traits meets the requirements of a share."""
    if not has.issuperset(names.required) or not has.isdisjoint(names.forbidden):
        return False
    return not any(map(has.isdisjoint, names.any_of))
