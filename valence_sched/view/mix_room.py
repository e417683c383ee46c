# SPDX-License-Identifier: Apache-2.0
"""The room for a mix of flavors: the number of nodes of each flavor that every row can make."""

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from valence_sched.model.inventory import SINGLE_PER_NODE, BlockType, Limit
from valence_sched.model.need import NameRequirements, Need, need_for_measure
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.view.availability import feasible_rows, infeasible_rows
from valence_sched.view.block_kinds import BlockKinds, BoundedMemo, read_only
from valence_sched.view.leftover import MANY_ROWS, Leftover, leftover
from valence_sched.view.stocks import StockGrants
from valence_sched.view.view import Floats, Ints, Labels, Mask, View

ONE_PER_NODE = frozenset(SINGLE_PER_NODE)
MOST_LOST = 16  # requests whose lost nodes are memoised
MOST_NODES = 10**9  # nodes of a share that count on one row
COPIED_FROM = 8  # of many rows of stocks, the feasible ones are copied if one of 8 is infeasible
EPSILON = 1e-9  # the rounding error of a number of nodes
#: If a resource is named, the other resources of a flavor count as if they allowed this many times
#: more nodes, because nodes of other flavors need less of them.
OTHERS_FACTOR = 2.5


class RoomBefore(Struct, frozen=True, eq=False):
    """The free hardware of every row, and the numbers of nodes of the mix that it can make.

    ``have``, shape ``(lines, rows)``, is the number of times that each row supplies each line.
    ``nodes`` has shape ``(lists of needs, rows)``; it is None for few rows, for which it is
    computed together with the numbers after a node. ``offset`` is added to the kinds of the blocks
    of a row (``MixRoom._block_parts``).
    """

    free: Leftover
    offset: Ints
    have: Floats
    nodes: Floats | None = None
    #: By the needs and scarcity of recent requests: the lost nodes of every row.
    lost: BoundedMemo[tuple[tuple[Need, ...], Sequence[float]], Floats] = field(
        default_factory=lambda: BoundedMemo(MOST_LOST)
    )

    def take(self, rows: Ints) -> "RoomBefore":
        """Return a copy of some rows."""
        nodes = None if self.nodes is None or len(rows) < MANY_ROWS else self.nodes[:, rows]
        have = self.have.take(rows, axis=1)
        return RoomBefore(self.free.take(rows), self.offset[rows], have, nodes, self.lost)


class MixRoom:
    """The shares of a mix, compiled to distinct lists of needs; each need is one of the ``lines``.

    A line is a need of blocks, or an amount of one stock resource. Shares that differ only in
    traits have the same list of needs. Shares without needs do not count.

    ``of`` names a measure or a stock resource. For a share that needs it, a row counts the nodes
    that this resource allows, at most ``OTHERS_FACTOR`` times the nodes that the other resources
    allow. A row that cannot make a whole node counts none.
    """

    def __init__(self, mix: Mix, of: str = "") -> None:
        shares, self._key = mix.shares, (mix.digest, of)
        self._share_count = len(shares)
        self._indices = [
            number
            for number, share in enumerate(shares)
            if any(need.amount > 0 for need in share.needs)
        ]
        self._shares = [shares[number] for number in self._indices]
        self._weights = np.array([share.weight for share in self._shares])
        self.needs, self._needs_of = _distinct_needs(self._shares)
        flat = list(itertools.chain.from_iterable(self.needs))
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
        #: By list of needs: the lines of its needs, and the number of grants from each.
        self._lists = [
            ([self._line(need) for need in own], [float(need.count) for need in own])
            for own in self.needs
        ]
        #: By list of needs: the factors of the nodes of its needs; empty if all are 1.
        self._factors = [_factors(own, of) for own in self.needs]
        longest = max(map(len, self.needs), default=0)

        def padded(lists: Iterable[Sequence[float]]) -> npt.NDArray[Any]:
            """Return lists as columns; shorter lists repeat their last item."""
            return np.array([[*own] + [own[-1]] * (longest - len(own)) for own in lists]).T

        #: The lines, grants and factors of the needs of every list; shape ``(needs, lists)``.
        self._lines = padded(own for own, _ in self._lists)
        self._counts = padded(own for _, own in self._lists)[..., None]
        self._grants_several = bool((self._counts != 1.0).any())
        factors = (own or [1.0] * longest for own in self._factors)
        self._factor_table = padded(factors)[..., None]
        self._parts = np.empty((0, 0))
        self._table: tuple[Sequence[Any] | None, Sequence[float], Floats]
        self._table = None, (), self._parts

    def __bool__(self) -> bool:
        return bool(self._shares)

    def _line(self, need: Need) -> int:
        return self._line_of[(need.resource, need.amount) if need.kind == "stock" else need]

    def before(self, view: View) -> RoomBefore:
        """Return the room of every row; the View memoises it for the latest mix."""
        key = *self._key, len(view.kinds)  # another site may add block kinds
        return view.memoise_free("mix room", key, lambda: self._before(view))  # type: ignore[no-any-return]

    def _before(self, view: View) -> RoomBefore:
        free = leftover(view, tuple(self._stocks), blocks=bool(self._blocks))
        offset = _part_offset(view)
        if len(view) < MANY_ROWS:
            return RoomBefore(free, offset, read_only(self._have(free, offset)))
        # one item, or none at first: nodes change the hardware of few rows
        latest: list[tuple[RoomBefore, list[npt.NDArray[Any]]]]
        latest = view.memoise_latest(("latest room",), self._key, list)
        known, amounts = latest[0] if latest else (None, [])
        if known is None or known.nodes is None or known.offset is not offset:
            have = self._have(free, offset)
            nodes = self._nodes(have)
        else:
            have, nodes = known.have.copy(), known.nodes.copy()
            if len(rows := free.changed_rows(amounts)):
                have[:, rows] = some = self._have(free.take(rows), offset[rows])
                nodes[:, rows] = self._nodes(some)
        before = RoomBefore(free, offset, read_only(have), read_only(nodes))
        latest[:] = [(before, free.free_amounts())]
        return before

    def _have(self, free: Leftover, offset: Ints) -> Floats:
        """Return the number of times that each row supplies each line; shape ``(lines, rows)``."""
        have = np.zeros((len(self._line_of), len(offset)))
        if free.counts is not None:
            start, parts = free.counts.start, self._block_parts(free.kinds)
            kinds = free.counts.kind + offset.repeat(start[1:] - start[:-1])
            step = 1 if len(offset) >= MANY_ROWS else len(parts)
            for lines in (slice(line, line + step) for line in range(0, len(parts), step)):
                supply = parts[lines].take(kinds, axis=1)
                supply *= free.counts.free  # in place: new memory takes longer
                np.add.reduceat(supply, start[:-1], axis=1, out=have[lines])
        self._count_stocks(free.stocks, have)
        return have

    def lost(self, view: View, needs: tuple[Need, ...], scarcity: Sequence[float]) -> Floats:
        """Return the number of nodes that each row loses if it makes a node with ``needs``.

        The number is the mean over the shares of the mix, by their weight and scarcity. It is
        infinite for rows that cannot make the node.
        """
        before = self.before(view)
        whole = tuple(map(view.kinds.whole_amount, needs))
        lost = before.lost.get((whole, scarcity))  # the same blocks satisfy equal needs
        if lost is None:
            feasible, infeasible = feasible_rows(view, needs), infeasible_rows(view, needs)
            table, codes = self.weight_table(view.traits, scarcity), view.traits.codes
            copied = before.free.counts is None and len(view) >= MANY_ROWS
            if not copied or len(infeasible) < len(view) / COPIED_FROM:
                lost = self._lost(before, whole, feasible, table, codes)
                lost[infeasible] = np.inf
            else:
                lost = np.full(len(view), np.inf)
                if len(rows := feasible.nonzero()[0]):
                    lost[rows] = self._lost(before.take(rows), whole, None, table, codes[rows])
            before.lost.store((whole, scarcity), read_only(lost))
        return lost

    def _lost(
        self,
        before: RoomBefore,
        needs: Sequence[Need],
        feasible: Mask | None,
        table: Floats,
        codes: Ints,
    ) -> Floats:
        """Return the lost nodes by row, undefined for rows that are not ``feasible``.

        A row has the weights ``table[:, code]`` of the lists of needs.
        """
        free, have = before.free, before.have.copy()
        taken = free.blocks_for(needs, feasible)
        if taken.parts:
            parts = self._block_parts(free.kinds)
            taken.subtract(parts, have[: len(parts)], before.offset)
        stocks = free.stocks_after(needs)
        self._count_stocks(stocks, have)
        # lists are added one after another, so that a row does not depend on other rows
        if before.nodes is None:
            nodes, rows = self._nodes(np.concatenate((before.have, have), axis=1)), len(codes)
            lost = nodes[:, :rows] - nodes[:, rows:]
            return np.add.accumulate(table.take(codes, axis=1) * lost)[-1]  # type: ignore[no-any-return]
        touched = np.zeros(len(have), dtype=bool)  # lines
        for part in taken.parts:
            touched[: len(self._blocks)] |= self._parts[:, part.among].any(axis=1)
        for name in stocks:
            touched[self._stock_lines(name)] = True
        total = np.zeros(len(codes))
        for number, (lines, _) in enumerate(self._lists):
            if touched[lines].any() and before.nodes[number].any():
                lost = before.nodes[number] - self._nodes_of(number, have)
                total += lost * (table[number][codes] if table.shape[1] > 1 else table[number, 0])
        return total

    def _count_stocks(self, stocks: Mapping[str, StockGrants], have: Floats) -> None:
        """Write the numbers of grants from stocks into ``have``, shape ``(lines, rows)``."""
        for name, grants in stocks.items():
            have[self._stock_lines(name)] = grants.sums(grants.counts(self._stocks[name]))

    def _stock_lines(self, name: str) -> slice:
        first = self._line_of[name, float(self._stocks[name][0, 0])]
        return slice(first, first + len(self._stocks[name]))

    def _nodes(self, have: Floats) -> Floats:
        """Return the number of nodes by list of needs and row."""
        if have.shape[1] >= MANY_ROWS:
            return np.array([self._nodes_of(number, have) for number in range(len(self._lists))])
        own = have.take(self._lines, axis=0)
        if self._grants_several:
            own /= self._counts
        nodes = least = np.minimum.reduce(own)
        if any(self._factors):
            nodes = np.minimum.reduce(own * self._factor_table)
        return _whole(nodes, least)

    def _nodes_of(self, number: int, have: Floats) -> Floats:
        (first, *lines), (count, *counts) = self._lists[number]
        factors = self._factors[number]
        least = have[first] / count
        nodes = least * factors[0] if factors else least
        for place, (line, divisor) in enumerate(zip(lines, counts, strict=True), 1):
            own = have[line] / divisor if divisor != 1.0 else have[line]
            np.minimum(least, own, out=least)
            if factors:
                np.minimum(nodes, own * factors[place], out=nodes)
        return _whole(nodes, least)

    def totals(self, view: View) -> tuple[int, ...]:
        """Return the number of nodes of each share that all rows can make.

        A row counts for at most ``MOST_NODES``, so that sums are exact in any order.
        """
        totals = [0] * self._share_count
        if len(view) and self:
            before = self.before(view)
            nodes = self._nodes(before.have) if before.nodes is None else before.nodes
            nodes = np.minimum(nodes, MOST_NODES).astype(np.int64)
            accepts = _accepted(self._shares, view.traits)[:, view.traits.codes]
            for index, number, mask in zip(self._indices, self._needs_of, accepts, strict=True):
                totals[index] = int(nodes[number][mask].sum())
        return tuple(totals)

    def weight_table(self, traits: Labels, scarcity: Sequence[float] = ()) -> Floats:
        """Return the weight of each list of needs by the traits of a row; the sum is 1."""
        values, known, table = self._table
        if values is not traits.values or known != scarcity:
            weights = self._weights * [scarcity[n] if scarcity else 1.0 for n in self._indices]
            weights /= weights.sum()
            table = np.zeros((len(self._lists), len(traits.values)))
            np.add.at(table, self._needs_of, weights[:, None] * _accepted(self._shares, traits))
            # selections of one View share the label values
            self._table = (traits.values, scarcity, table)
        return table

    def _block_parts(self, kinds: BlockKinds) -> Floats:
        """Return the part of each need that one block of each kind supplies, at most 1.

        As many columns follow for rows whose nodes have one compute block: on these rows, a block
        that supplies only a part of a need is not counted.
        """
        if self._parts.shape[1] != 2 * len(kinds):
            amounts = np.array([[need.amount] for need in self._blocks])
            parts = np.minimum(kinds.amount_matrix(self._blocks) / amounts, 1.0)
            single = [not ONE_PER_NODE.isdisjoint(kind.types) for kind in kinds.kinds]
            self._parts = np.hstack((parts, np.where((parts < 1.0) & single, 0.0, parts)))
        return self._parts


def _factors(needs: Sequence[Need], of: str) -> tuple[float, ...]:
    """Return the factor of the nodes of each need; empty if the factor is 1 for all."""
    wanted = need_for_measure(of).as_measure
    named = [one.as_measure == wanted for one in needs]
    if all(named) or not any(named):
        return ()
    return tuple([1.0 if one else OTHERS_FACTOR for one in named])


def _whole(nodes: Floats, least: Floats) -> Floats:
    """Return whole numbers of nodes; 0 where ``least`` is below 1."""
    nodes += EPSILON
    whole: Floats = np.floor(nodes, out=nodes)
    if least is not nodes:
        np.copyto(whole, 0.0, where=least + EPSILON < 1.0)
    return whole


def _part_offset(view: View) -> Ints:
    """Return per row the number of kinds if its nodes have one compute block, else 0."""

    def is_single(limits: Mapping[BlockType, Limit]) -> bool:
        return any(limits[kind].max == 1 for kind in SINGLE_PER_NODE if kind in limits)

    def make() -> Ints:
        single = [bool(pool.limits) and is_single(pool.limits) for pool in view.pools]
        return np.array(single, dtype=np.int64) * len(view.kinds)

    return view.memoise_selected(("single", len(view.kinds)), operator.getitem, make)  # type: ignore[no-any-return]


def mix_room(view: View, mix: Mix, of: str = "") -> MixRoom:
    """Return a compiled mix, which the block kinds of the View memoise."""
    key = ("mix room", mix.digest, of)
    compiled: MixRoom | None = view.kinds.derived.get(key)
    if compiled is None:
        compiled = view.kinds.derived.store(key, MixRoom(mix, of))
    return compiled


def _distinct_needs(shares: Iterable[FlavorShare]) -> tuple[list[tuple[Need, ...]], list[int]]:
    """Return the distinct lists of needs above 0, and the number of the list of each share."""
    numbers: dict[tuple[Need, ...], int] = {}
    lists = (tuple(need for need in share.needs if need.amount > 0) for share in shares)
    needs_of = [numbers.setdefault(own, len(numbers)) for own in lists]
    return list(numbers), needs_of


def _accepted(shares: Sequence[FlavorShare], traits: Labels) -> Mask:
    """Return whether rows with each value of ``traits`` meet the requirements of each share."""

    def match(names: NameRequirements, has: frozenset[str]) -> bool:
        if not has.issuperset(names.required) or not has.isdisjoint(names.forbidden):
            return False
        return not any(map(has.isdisjoint, names.any_of))

    table = [[match(share.traits, has) for has in traits.values] for share in shares]
    return np.array(table, dtype=bool).reshape(len(table), len(traits.values))
