# SPDX-License-Identifier: Apache-2.0
"""Node types: the nodes that are asked for, many of equal needs, and what pools offer to them.

To all node types together most kinds of block look alike: a drive of 1 TB and one of 2 TB, if 1 TB
is asked for. Such kinds are one *block class*, so that pools with unlike blocks become equal ones.

A pool group is the pools of one podm that share free blocks or stocks. What happens in one group
leaves all others as they are: a site is the sum of its groups. Groups with equal offers are one
problem, which is solved once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from msgspec import Struct

from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.fit.stocks import stock_amounts
from valence_sched.model.inventory import BlockType, Limit, free_amount, grant_size
from valence_sched.model.need import Alternative, TopologyConstraint
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.model.request import MAX_NODES, Request
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import Ints, Mask, View


@dataclass(frozen=True, slots=True, eq=False)
class NodeType:
    """Nodes of equal needs: the alternatives that make one, the pools that may, and how many.

    ``rows`` are the pools that the filters of a policy leave, all if None: what is free does not
    belong in it. ``most`` is how many nodes are asked for, None for as many as fit. ``costs`` are
    the costs of the pools by a policy, which only the goal ``least-cost`` reads.
    """

    name: str
    alternatives: tuple[Alternative, ...]
    rows: Mask | None = None
    most: int | None = None
    costs: Ints | None = None

    @classmethod
    def of(cls, request: Request, rows: Mask | None = None, most: int | None = None) -> NodeType:
        """Return the node type of a compiled request."""
        first = Alternative(needs=request.needs, bonds=request.bonds)
        return cls(request.flavor or request.id, (first, *request.fallbacks), rows, most)

    @classmethod
    def in_context(cls, context: EvaluationContext, most: int | None = None) -> NodeType:
        """Return the node type of a request in the pools that the filters of its policy leave.

        Filters that read free capacity or the group of the request change their answers with each
        node and are passed over: a bound then counts more than the policy allows, never less.
        """
        evaluation = context.evaluation
        changing = evaluation.availability_readers | evaluation.group_state_readers
        rows = context.view.all_rows
        for filter_, verdicts in zip(context.bound.filters, evaluation.verdicts, strict=True):
            if filter_.name not in changing:
                rows = rows & verdicts
        return cls.of(context.request, rows, most)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One alternative of a node type, prepared: its fitter, and the amounts that it takes."""

    node_type: int
    fitter: Fitter
    #: ``(resource, size of a grant, number of grants)``
    grants: tuple[tuple[str, float, int], ...]

    @property
    def demands(self) -> tuple[int, ...]:
        return tuple(demand.amount for demand in self.fitter.demands)


def variants_of(
    node_types: Sequence[NodeType], kinds: BlockKinds, budget: Budget = DEFAULT_BUDGET
) -> tuple[Variant, ...]:
    """Return the alternatives of all node types."""
    variants = []
    for number, node_type in enumerate(node_types):
        for alternative in node_type.alternatives:
            amounts = stock_amounts(alternative.needs)
            grants = [
                (resource, amount, each.count(amount))
                for resource, each in amounts.items()
                for amount in sorted(set(each))
            ]
            fitter = Fitter(alternative.needs, kinds, alternative.bonds, budget)
            variants.append(Variant(number, fitter, tuple(grants)))
    return tuple(variants)


class BlockClass(Struct, frozen=True):
    """What kinds of block have in common that look alike to all variants.

    ``gives`` is what one block gives to each demand of each variant, no more than is demanded;
    ``types`` are those of its types that some pool limits. Where classes differ by price, too,
    ``price`` is that of a block, else 0.
    """

    gives: tuple[tuple[int, ...], ...]
    types: frozenset[BlockType]
    price: int = 0


@dataclass(slots=True)
class BlockClasses:
    """The block classes by number, in the order in which their kinds were met."""

    variants: tuple[Variant, ...]
    kinds: BlockKinds
    limited: frozenset[BlockType]
    by_price: bool = False
    classes: list[BlockClass] = field(default_factory=list)
    _numbers: dict[BlockClass, int] = field(default_factory=dict)
    _of_kind: dict[int, int | None] = field(default_factory=dict)

    def of_kind(self, kind: int) -> int | None:
        """Return the class of a kind of block, None if it is of no use to any variant."""
        if kind in self._of_kind:
            return self._of_kind[kind]
        gives = tuple(
            tuple(map(min, variant.fitter.gives(kind), variant.demands))
            for variant in self.variants
        )
        price = self.kinds.kinds[kind].price if self.by_price else 0
        types = self.limited.intersection(self.kinds.kinds[kind].types)
        number = None
        if types or any(map(any, gives)):
            found = BlockClass(gives, types, price)
            number = self._numbers.setdefault(found, len(self.classes))
            if number == len(self.classes):
                self.classes.append(found)
        self._of_kind[kind] = number
        return number


def most_by_topology(fitter: Fitter, table: BlockTable, position: int) -> int:
    """Return a bound of the nodes in the pool at a position; the largest request without any."""
    same = (one for one in fitter.bonds if one.relation == "same" and one.place != "zone")
    return min((_most_nodes(fitter, one, table, position) for one in same), default=MAX_NODES)


def _most_nodes(
    fitter: Fitter, constraint: TopologyConstraint, table: BlockTable, position: int
) -> int:
    lines = [
        (number, demand) for number, demand in enumerate(fitter.demands)
        if demand.amount and all(map(constraint.applies_to, demand.needs))
    ]  # fmt: skip
    gifts = [_gifts_by_value(fitter, constraint.place, table, position, line) for line, _ in lines]
    values = set().union(*gifts) | {None}
    most = 0
    for value in values if lines else ():
        by_line = []
        for (_, demand), line in zip(lines, gifts, strict=True):
            # a block without a value may serve as one of any value, if the need allows that
            allowed = any(need.unknown == "allow" for need in demand.needs)
            unreported = line[None] if allowed else 0
            given = unreported + (line[value] if value is not None else 0)
            by_line.append(given // demand.amount)
        most += min(by_line)
    return most if lines else MAX_NODES


def _gifts_by_value(
    fitter: Fitter, place: str, table: BlockTable, position: int, line: int
) -> Counter[str | None]:
    amount = fitter.demands[line].amount
    gifts: Counter[str | None] = Counter()
    for block, (kind, slots) in enumerate(zip(table.kinds, table.slots, strict=True)):
        if slots and position in table.pools[block]:
            (value,) = table.topology_values(block, (place,))
            gifts[value] += slots * min(fitter.gives(kind)[line], amount)
    return gifts


Positions = tuple[int, ...]
Limits = tuple[tuple[BlockType, Limit], ...]


class ClassOffer(NamedTuple):
    """Free blocks of one class in the same pools, each for so many more nodes."""

    block_class: int
    pools: Positions
    slots: int
    number: int


class StockOffer(NamedTuple):
    """A stock, the pools that it is in, and the grant that it makes of each amount."""

    pools: Positions
    resource: str
    free: float
    grants: tuple[float | None, ...]


class PoolOffer(NamedTuple):
    """The limits of a pool, the variants whose nodes it may make, and a bound for each."""

    limits: Limits
    variants: tuple[int, ...]
    most: tuple[int, ...]


class GroupOffer(Struct, frozen=True):
    """What a pool group offers; pools are numbered within the group."""

    pools: tuple[PoolOffer, ...]
    blocks: tuple[ClassOffer, ...]
    stocks: tuple[StockOffer, ...]


class PoolGroup(NamedTuple):
    """A pool group of a site: its podm, its rows in the order of its pools, and its offer."""

    podm: int
    rows: tuple[int, ...]
    offer: GroupOffer

    def pairs(self) -> list[tuple[int, int]]:
        """Return the rows with the variants whose nodes they may make."""
        pools = zip(self.rows, self.offer.pools, strict=True)
        return [(row, variant) for row, pool in pools for variant in pool.variants]


def pool_groups(
    view: View, node_types: tuple[NodeType, ...], classes: BlockClasses
) -> list[PoolGroup]:
    """Return the pool groups of a View that may make a node, in the order of their rows."""
    masks = (node_types[variant.node_type].rows for variant in classes.variants)
    open_rows = [None if mask is None else mask.tolist() for mask in masks]
    groups: list[PoolGroup] = []
    for podm, table in enumerate(view.block_tables):
        first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
        usable = {
            row - first: variants for row in range(first, last)
            if (variants := tuple(number for number, mask in enumerate(open_rows)
                                  if mask is None or mask[row]))
        }  # fmt: skip
        if usable:
            groups += _groups_of(view, podm, first, table, usable, classes)
    return groups


def _groups_of(
    view: View,
    podm: int,
    first: int,
    table: BlockTable,
    usable: dict[int, tuple[int, ...]],
    classes: BlockClasses,
) -> Iterator[PoolGroup]:
    blocks = _block_offers(table, usable, classes)
    amounts = [grant[:2] for variant in classes.variants for grant in variant.grants]
    resources = {resource for resource, _ in amounts}
    stocks = [
        StockOffer(within, stock.resource, free_amount(stock), tuple(
            grant_size(stock, amount) if resource == stock.resource else None
            for resource, amount in amounts
        ))
        for stock, pools in zip(table.stocks, table.stock_pools, strict=True)
        if (within := _positions(pools, usable)) and stock.resource in resources
    ]  # fmt: skip
    links = [one.pools for one in blocks] + [one.pools for one in stocks]
    for positions in _connected(usable, links):
        rows = tuple(first + position for position in positions)
        limits = (tuple(view.pools[row].limits.items()) for row in rows)
        variants = [usable[position] for position in positions]
        most = [
            tuple(most_by_topology(classes.variants[one].fitter, table, position) for one in own)
            for position, own in zip(positions, variants, strict=True)
        ]
        pools = map(PoolOffer, limits, variants, most)
        local = {position: number for number, position in enumerate(positions)}
        own_blocks = _renumbered(blocks, local)
        own_stocks = _renumbered(stocks, local)
        yield PoolGroup(podm, rows, GroupOffer(tuple(pools), own_blocks, own_stocks))


Offer = TypeVar("Offer", ClassOffer, StockOffer)


def _renumbered(offers: Iterable[Offer], local: dict[int, int]) -> tuple[Offer, ...]:
    """Return the offers in the pools of a group, whose positions become numbers in the group."""
    return tuple(
        one._replace(pools=tuple(local[position] for position in one.pools))
        for one in offers
        if one.pools[0] in local
    )


def _block_offers(
    table: BlockTable, usable: dict[int, tuple[int, ...]], classes: BlockClasses
) -> list[ClassOffer]:
    counts: Counter[tuple[int, Positions, int]] = Counter()
    for (kind, pools, slots), number in Counter(
        zip(table.kinds, table.pools, table.slots, strict=True)
    ).items():
        block_class = classes.of_kind(kind) if slots else None
        within = _positions(pools, usable)
        if block_class is not None and within:
            counts[block_class, within, slots] += number
    return [ClassOffer(*key, number) for key, number in sorted(counts.items())]


def _positions(pools: Positions, usable: dict[int, tuple[int, ...]]) -> Positions:
    return tuple(sorted({position for position in pools if position in usable}))


def _connected(usable: dict[int, tuple[int, ...]], links: list[Positions]) -> list[tuple[int, ...]]:
    parent = {position: position for position in usable}

    def root(position: int) -> int:
        while parent[position] != position:
            parent[position] = position = parent[parent[position]]
        return position

    for positions in links:
        for position in positions[1:]:
            low, high = sorted((root(positions[0]), root(position)))
            parent[high] = low
    groups: dict[int, list[int]] = {}
    for position in usable:
        groups.setdefault(root(position), []).append(position)
    return [tuple(group) for group in groups.values()]
