# SPDX-License-Identifier: Apache-2.0
"""Node types: requested nodes of equal needs, and the offers of pools to them.

Kinds of block that are equal for all node types, such as drives of 1 TB and of 2 TB for requests of
1 TB, are one *block class*. So pools with different blocks have equal offers.

A pool group is the pools of one podm that share free blocks or stocks. Groups are independent, and
groups with equal offers are solved once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from msgspec import Struct

from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.fit.set_cover import connected
from valence_sched.core.fit.stocks import stock_amounts
from valence_sched.model.inventory import BlockType, Limit, free_amount, grant_size
from valence_sched.model.need import Alternative
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.model.request import MAX_NODES, Request
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import Ints, Mask, View


@dataclass(frozen=True, slots=True, eq=False)
class NodeType:
    """Nodes of equal needs: their alternatives, pools and number.

    ``rows`` are the pools that pass the filters, except filters on free capacity; None: all pools.
    ``most`` is None without a limit. ``costs`` are those of the pools, for the goal ``least-cost``.
    """

    name: str
    alternatives: tuple[Alternative, ...]
    rows: Mask | None = None
    most: int | None = None
    costs: Ints | None = None

    @classmethod
    def of(cls, request: Request, rows: Mask | None = None, most: int | None = None) -> Self:
        first = Alternative(needs=request.needs, topology=request.topology)
        return cls(request.flavor or request.id, (first, *request.other_alternatives), rows, most)

    @classmethod
    def in_context(cls, context: EvaluationContext, most: int | None = None) -> Self:
        """Return the node type of a request in the pools that pass the filters of its policy.

        Filters on free capacity or groups are ignored, so that a bound is never too low.
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
    """One alternative of a node type, by number: its fitter, and the stock amounts of a node."""

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
    variants = []
    for number, node_type in enumerate(node_types):
        for alternative in node_type.alternatives:
            amounts = stock_amounts(alternative.needs)
            grants = [
                (resource, amount, each.count(amount))
                for resource, each in amounts.items()
                for amount in sorted(set(each))
            ]
            fitter = Fitter(alternative.needs, kinds, alternative.topology, budget)
            variants.append(Variant(number, fitter, tuple(grants)))
    return tuple(variants)


class BlockClass(Struct, frozen=True):
    """Kinds of block that are equal for all variants; ``coverage`` is by variant and demand.

    ``types`` are those that some pool limits. ``price`` is 0 unless classes differ by price.
    """

    coverage: tuple[tuple[int, ...], ...]
    types: frozenset[BlockType]
    price: int = 0


def _most_by_topology(fitter: Fitter, table: BlockTable, position: int) -> int:
    """Return an upper bound of the nodes in the pool at a position, by the topology constraints."""
    most = MAX_NODES
    for constraint in fitter.constraints:
        lines = [
            (number, demand)
            for number, demand in enumerate(fitter.demands)
            if demand.amount and all(map(constraint.applies_to, demand.needs))
        ]
        if constraint.relation != "same" or constraint.place == "zone" or not lines:
            continue
        sums = [Counter[str | None]() for _ in lines]  # the sum of each line, by value
        for block, (kind, slots) in enumerate(zip(table.kinds, table.slots, strict=True)):
            if slots and position in table.pools[block]:
                (value,) = table.topology_values(block, (constraint.place,))
                for by_value, (number, demand) in zip(sums, lines, strict=True):
                    by_value[value] += slots * min(fitter.coverage(kind)[number], demand.amount)
        total = 0
        for value in {None}.union(*sums):
            counts = []
            for by_value, (_, demand) in zip(sums, lines, strict=True):
                # a block without a reported value may have any value, if the need allows it
                allowed = any(need.unknown == "allow" for need in demand.needs)
                amount = by_value[None] if allowed else 0
                amount += 0 if value is None else by_value[value]
                counts.append(amount // demand.amount)
            total += min(counts)
        most = min(most, total)
    return most


Positions = tuple[int, ...]
Limits = tuple[tuple[BlockType, Limit], ...]


class ClassOffer(NamedTuple):
    """Free blocks of one class in the same pools, with equal numbers of free slots."""

    block_class: int
    pools: Positions
    slots: int
    number: int


class StockOffer(NamedTuple):
    """A stock, its pools, and its grant by requested amount, None if it cannot grant it."""

    pools: Positions
    resource: str
    free: float
    grants: tuple[float | None, ...]


class PoolOffer(NamedTuple):
    """The limits of a pool, its possible variants, and an upper bound of nodes by variant."""

    limits: Limits
    variants: tuple[int, ...]
    most: tuple[int, ...]


class GroupOffer(Struct, frozen=True):
    """The offer of a pool group; pools are numbered within the group."""

    pools: tuple[PoolOffer, ...]
    blocks: tuple[ClassOffer, ...]
    stocks: tuple[StockOffer, ...]


class PoolGroup(NamedTuple):
    """A pool group of a site: its podm, its rows in the order of its pools, and its offer."""

    podm: int
    rows: tuple[int, ...]
    offer: GroupOffer

    def pairs(self) -> list[tuple[int, int]]:
        pools = zip(self.rows, self.offer.pools, strict=True)
        return [(row, variant) for row, pool in pools for variant in pool.variants]


Offer = TypeVar("Offer", ClassOffer, StockOffer)


def _renumbered(offers: Iterable[Offer], group: Sequence[int]) -> tuple[Offer, ...]:
    """Return the offers with the positions of their pools replaced by numbers within the group."""
    local = {position: number for number, position in enumerate(group)}
    return tuple(
        one._replace(pools=tuple(local[position] for position in one.pools))
        for one in offers
        if one.pools[0] in local
    )


class BlockClasses:
    """The block classes by number, in the order of their first kinds."""

    def __init__(
        self,
        node_types: Sequence[NodeType],
        view: View,
        budget: Budget = DEFAULT_BUDGET,
        *,
        by_price: bool = False,
    ) -> None:
        self._node_types, self._view, self._by_price = node_types, view, by_price
        self.variants, self.kinds = variants_of(node_types, view.kinds, budget), view.kinds
        self._limited = frozenset(name for pool in view.pools for name in pool.limits)
        self.classes: list[BlockClass] = []
        self._numbers: dict[BlockClass, int] = {}
        self._of_kind: dict[int, int | None] = {}

    def of_kind(self, kind: int) -> int | None:
        """Return the class of a kind of block, None if it is useless for all variants."""
        if kind in self._of_kind:
            return self._of_kind[kind]
        one, number = self.kinds.kinds[kind], None
        coverage = tuple(
            tuple(map(min, variant.fitter.coverage(kind), variant.demands))
            for variant in self.variants
        )
        tolerated = any(variant.fitter.is_tolerated(kind) for variant in self.variants)
        types = self._limited.intersection(one.types if tolerated else ())
        if types or any(map(any, coverage)):
            found = BlockClass(coverage, types, one.price if self._by_price else 0)
            number = self._numbers.setdefault(found, len(self.classes))
            if number == len(self.classes):
                self.classes.append(found)
        self._of_kind[kind] = number
        return number

    def pool_groups(self) -> list[PoolGroup]:
        """Return the pool groups that may fit a node, in the order of their rows."""
        view = self._view
        masks = (self._node_types[variant.node_type].rows for variant in self.variants)
        open_rows = list(enumerate(None if mask is None else mask.tolist() for mask in masks))
        groups: list[PoolGroup] = []
        for podm in range(len(view.podms)):
            first, last = view.first_row[podm : podm + 2].tolist()
            usable = {}
            for row in range(first, last):
                variants = tuple(number for number, mask in open_rows if mask is None or mask[row])
                if variants:
                    usable[row - first] = variants
            if usable:
                groups += self._groups_of(podm, usable)
        return groups

    def _groups_of(self, podm: int, usable: dict[int, tuple[int, ...]]) -> Iterator[PoolGroup]:
        view = self._view
        table, first = view.block_tables[podm], int(view.first_row[podm])

        def within(pools: Iterable[int]) -> Positions:
            return tuple(sorted(usable.keys() & pools))

        counts = Counter[tuple[int, Positions, int]]()
        alike = Counter(zip(table.kinds, table.pools, table.slots, strict=True))
        for (kind, pools, slots), number in alike.items():
            block_class = self.of_kind(kind) if slots else None
            if block_class is not None and (positions := within(pools)):
                counts[block_class, positions, slots] += number
        blocks = [ClassOffer(*key, number) for key, number in sorted(counts.items())]
        amounts = [grant[:2] for variant in self.variants for grant in variant.grants]
        resources = {resource for resource, _ in amounts}
        stocks = []
        for stock, pools in zip(table.stocks, table.stock_pools, strict=True):
            if stock.resource in resources and (positions := within(pools)):
                grants = tuple(
                    grant_size(stock, amount) if resource == stock.resource else None
                    for resource, amount in amounts
                )
                stocks.append(StockOffer(positions, stock.resource, free_amount(stock), grants))
        links = [one.pools for one in blocks] + [one.pools for one in stocks]
        for group in connected(usable, links):
            rows = tuple(first + position for position in group)
            offers = []
            for row, position in zip(rows, group, strict=True):
                fitters = (self.variants[one].fitter for one in usable[position])
                most = tuple(_most_by_topology(fitter, table, position) for fitter in fitters)
                offers.append(
                    PoolOffer(tuple(view.pools[row].limits.items()), usable[position], most)
                )
            own_blocks, own_stocks = _renumbered(blocks, group), _renumbered(stocks, group)
            yield PoolGroup(podm, rows, GroupOffer(tuple(offers), own_blocks, own_stocks))
