# SPDX-License-Identifier: Apache-2.0
"""Need: the fewest, or cheapest, blocks that have to be added so that so many nodes fit.

The count model of every pool group gets a column for each block that may be bought for one of its
pools, and the nodes become a requirement. Small sites are solved as one integer programme. Of a
large one the linear relaxation gives the least price; then the groups that it buys for, and others
as far as the effort goes, are solved as an integer programme, the rest of the site as it is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from valence_sched.core.fit.optimiser import (
    DEFAULT_EFFORT,
    ROUNDING,
    Effort,
    Floats,
    Programme,
    Solution,
)
from valence_sched.errors import RequestError
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.planning.optimise.cover_parts import CoverFinder
from valence_sched.planning.optimise.model import Addition, GroupModel, Terms
from valence_sched.planning.optimise.node_types import BlockClasses, NodeType, variants_of
from valence_sched.planning.optimise.pool_groups import Limits, PoolGroup, pool_groups
from valence_sched.view.view import View

CHOSEN_COLUMNS = 2_000  # of the integer programme of a large site


class PurchaseOption(Struct, frozen=True):
    """Blocks of one kind that may be added to the pools of some rows, and the price of one.

    The kind is a number of the View's ``BlockKinds``. With the price 1 the fewest blocks are the
    cheapest. ``most`` is how many there are for all pools together.
    """

    kind: int
    rows: tuple[int, ...]
    price: int = 1
    most: int = MAX_NODES


class PurchaseItem(Struct, frozen=True):
    """So many blocks of an option, by its number, for the pool of a row."""

    option: int
    row: int
    number: int


class Purchase(Struct, frozen=True):
    """What to buy, its price, and the least price that any purchase has that is enough.

    Where ``exact_model`` is false, the fit may still refuse some nodes: ask for the most nodes of
    the site with these blocks.
    """

    items: tuple[PurchaseItem, ...]
    price: int
    bound: int
    exact_model: bool

    @property
    def is_optimal(self) -> bool:
        return self.price == self.bound


def smallest_purchase(
    view: View,
    node_types: Sequence[NodeType],
    options: Sequence[PurchaseOption],
    effort: Effort = DEFAULT_EFFORT,
) -> Purchase | None:
    """Return what to add so that ``most`` nodes of each type fit, all of them at once.

    None: all that may be bought does not suffice, or the effort ended before enough was found.

    Raises:
        RequestError: a node type does not say how many nodes, or a price is below 0.
    """
    wanted = _wanted(node_types, options)
    variants = variants_of(node_types, view.kinds)
    limited = frozenset(name for pool in view.pools for name in pool.limits)
    classes = BlockClasses(variants, view.kinds, limited)
    offers = list(_purchase_offers(view, tuple(node_types), options, classes, wanted))
    columns = sum(len(offer.model.programme.upper) for offer in offers)
    if columns <= effort.most_columns:
        programme = _PurchaseProgramme(options, offers, wanted)
        solution = programme.solve(effort, whole=True)
        return programme.purchase(solution, _least_price(solution))
    relaxation = _PurchaseProgramme(options, offers, wanted, aggregate=True)
    relaxed = relaxation.solve(effort, whole=False)
    if relaxed.values is None:
        return None
    chosen = relaxation.buying(relaxed.values, min(effort.most_columns, CHOSEN_COLUMNS))
    rows = {row for offer in chosen for row in offer.group.rows}
    for node in most_nodes(view, node_types, effort=effort).nodes:
        wanted[node.node_type] -= node.fit.row not in rows
    programme = _PurchaseProgramme(options, chosen, wanted)
    solution = programme.solve(effort, whole=True)
    return programme.purchase(solution, _least_price(relaxed))


def _wanted(node_types: Sequence[NodeType], options: Sequence[PurchaseOption]) -> list[int]:
    """Return how many nodes of each type are to fit; RequestError if that is not said."""
    for option in options:
        if option.price < 0:
            raise RequestError(f"price {option.price}: give a whole number from 0")
    wanted = [node_type.most for node_type in node_types]
    if not wanted or None in wanted:
        raise RequestError("give how many nodes of each flavor are to fit")
    return [number or 0 for number in wanted]


def _least_price(solution: Solution) -> int:
    """Return the least price in whole numbers; the programme maximises the price below 0."""
    return max(0, math.ceil(-solution.bound - ROUNDING)) if solution.feasible else 0


@dataclass(frozen=True, slots=True)
class _PurchaseOffer:
    """A pool group, the options that its pools may get, and the model, which equal ones share."""

    group: PoolGroup
    options: tuple[int, ...]
    model: GroupModel

    def additions(self) -> Iterator[tuple[int, Addition, int]]:
        """Yield each option with its addition and the column of the model."""
        yield from zip(self.options, self.model.additions, self.model.addition_columns, strict=True)


class _AddedColumn(NamedTuple):
    option: int
    row: int
    column: int
    model: int  # the identity of the model, which equal groups share


def _purchase_offers(
    view: View,
    node_types: tuple[NodeType, ...],
    options: Sequence[PurchaseOption],
    classes: BlockClasses,
    wanted: Sequence[int],
) -> Iterator[_PurchaseOffer]:
    """Yield all pool groups; a block class must be known before the first model is made."""
    rows = [frozenset(option.rows) for option in options]
    found = [classes.of_kind(option.kind) for option in options]
    models: dict[Hashable, GroupModel] = {}
    finder = CoverFinder()
    for group in pool_groups(view, node_types, classes):
        pairs = [
            (number, Addition(pool, block_class, _useful(classes, option, offer.limits, wanted)))
            for pool, (row, offer) in enumerate(zip(group.rows, group.offer.pools, strict=True))
            for number, (option, block_class) in enumerate(zip(options, found, strict=True))
            if block_class is not None and row in rows[number]
        ]
        additions = tuple(addition for _, addition in pairs)
        numbers = tuple(number for number, _ in pairs)
        key = (group.offer, numbers, additions)
        if key not in models:
            models[key] = GroupModel(group.offer, classes, finder, additions)
        yield _PurchaseOffer(group, numbers, models[key])


def _useful(
    classes: BlockClasses, option: PurchaseOption, limits: Limits, wanted: Sequence[int]
) -> int:
    """Return how many blocks of an option all nodes that are wanted can use in one pool."""
    least = [limit.min for name, limit in limits if name in classes.kinds.kinds[option.kind].types]
    useful = 0
    for variant in classes.variants:
        pairs = zip(variant.demands, variant.fitter.gives(option.kind), strict=True)
        blocks = [-(-amount // gift) for amount, gift in pairs if gift]
        useful += wanted[variant.node_type] * max(blocks + least, default=0)
    return min(useful, option.most)


class _PurchaseProgramme:
    """Minimise the price of what is added to some groups, so that they make so many nodes."""

    def __init__(
        self,
        options: Sequence[PurchaseOption],
        offers: Sequence[_PurchaseOffer],
        wanted: Sequence[int],
        *,
        aggregate: bool = False,
    ) -> None:
        self._options, self._programme = options, Programme()
        self._members: dict[int, list[_PurchaseOffer]] = {}
        for number, offer in enumerate(offers):
            key = id(offer.model) if aggregate else number
            self._members.setdefault(key, []).append(offer)
        self._added: list[_AddedColumn] = []
        nodes: list[Terms] = [[] for _ in wanted]
        bought: list[Terms] = [[] for _ in options]
        for members in self._members.values():
            offer = members[0]
            first = self._programme.add(offer.model.programme, len(members))
            for node in offer.model.nodes:
                node_type = offer.model.classes.variants[node.variant].node_type
                nodes[node_type].append((first + node.column, 1.0))
            for option, addition, column in offer.additions():
                self._programme.set_cost(first + column, -float(options[option].price))
                bought[option].append((first + column, 1.0))
                row = offer.group.rows[addition.pool]
                self._added.append(_AddedColumn(option, row, first + column, id(offer.model)))
        for terms, number in zip(nodes, wanted, strict=True):
            self._programme.row(terms, lower=number)
        for terms, one in zip(bought, options, strict=True):
            self._programme.row(terms, upper=one.most)

    def solve(self, effort: Effort, *, whole: bool) -> Solution:
        return self._programme.solve(effort, whole=whole)

    def buying(self, values: Floats, most_columns: int) -> list[_PurchaseOffer]:
        """Return the groups for which a solution buys most, no more than are columns left."""
        amounts: dict[int, float] = {}
        for added in self._added:
            amounts[added.model] = amounts.get(added.model, 0.0) + float(values[added.column])
        order = sorted(
            self._members.values(), key=lambda group: -amounts.get(id(group[0].model), 0.0)
        )
        chosen: list[_PurchaseOffer] = []
        for offer in (offer for members in order for offer in members):
            most_columns -= len(offer.model.programme.upper)
            if chosen and most_columns < 0:
                break
            chosen.append(offer)
        return chosen

    def purchase(self, solution: Solution, bound: int) -> Purchase | None:
        """Return what a solution buys; the bound is the least price of any purchase."""
        if solution.values is None:
            return None
        numbers = [(one, round(solution.values[one.column])) for one in self._added]
        items = [PurchaseItem(one.option, one.row, number) for one, number in numbers if number]
        price = sum(self._options[item.option].price * item.number for item in items)
        offers = (members[0] for members in self._members.values())
        exact = all(offer.model.is_exact for offer in offers)
        return Purchase(tuple(items), price, min(bound, price), exact)
