# SPDX-License-Identifier: Apache-2.0
"""Purchase: the fewest or the cheapest blocks of some kinds that make room for nodes.

A small site is one integer programme: the count models of all pool groups, with a column for the
blocks of an option in a pool. For a large site, the linear relaxation gives a lower bound of the
price; only the groups with the largest purchases in it are solved as an integer programme.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from valence_sched.core.fit import optimiser
from valence_sched.errors import RequestError, UnknownName, UsageError
from valence_sched.model.capacity import PurchaseLine, PurchaseResult
from valence_sched.model.inventory import WHOLE_POOL
from valence_sched.model.request import MAX_NODES, Request
from valence_sched.model.scenario import AddBlocks
from valence_sched.planning.edits import NewBlocks, edited
from valence_sched.planning.optimise.bound import JointProgramme, most_nodes
from valence_sched.planning.optimise.model import Addition, CoverFinder, GroupModel, Terms
from valence_sched.planning.optimise.node_types import BlockClasses, Limits, NodeType, PoolGroup
from valence_sched.planning.replay import reason_groups
from valence_sched.planning.site import Site, find_targets
from valence_sched.planning.succession import Succession
from valence_sched.view.view import View

# if no purchase is enough: blocks added per option to find the resource that is still exhausted
MOST_BLOCKS = 20_000
CHOSEN_COLUMNS = 2_000  # columns in the integer programme of a large site
Prices = Mapping[str, float]  # of one block, by its name
PRICE_UNITS = 100  # whole numbers per unit of price: the optimiser uses cents


class PurchaseOption(Struct, frozen=True):
    """Blocks that some rows may get, all of one ``kind``: its number in the View's ``BlockKinds``.

    ``price`` is the price of one block; ``most`` limits the blocks of all pools together.
    """

    kind: int
    rows: tuple[int, ...]
    price: int = 1
    most: int = MAX_NODES


def smallest_purchase(
    site: Site, request: Request, choices: Sequence[AddBlocks], prices: Prices | None = None
) -> PurchaseResult:
    """Return the smallest purchase after which all nodes of a request fit.

    ``choices`` add one block each; ``prices`` override those of templates; without prices the
    blocks count. UsageError: no choice, or some blocks lack a price. UnknownName: a price without a
    choice. NothingMatches: a choice matches no pod manager or pool.
    """
    if not choices:
        raise UsageError("no block to buy given: add --buy BLOCK@PODM")
    priced = _prices(site, choices, prices or {})
    options, places = _options(site, choices, priced)
    succession = Succession(site.decider())
    sealed = succession.prepare(request)
    node_types = [NodeType.of(sealed, succession.eligible(sealed), most=request.count)]
    purchase = cheapest_purchase(site.view(), node_types, options)
    flavor, wanted = request.flavor or request.id, request.count
    found = PurchaseResult(flavor=flavor, wanted=wanted, priced=bool(priced), lines=None)
    whole = msgspec.structs.replace(request, min_count=0)
    if purchase is None:
        tried = min(wanted, max(1, MOST_BLOCKS // max(1, len(places))))
        many = [msgspec.structs.replace(choice, count=tried) for choice in choices]
        decision = edited(site, many).decider().select_destinations(whole)
        placed, shortages = len(decision.placed_nodes), reason_groups(decision)
        return msgspec.structs.replace(found, placed=placed, tried=tried, shortages=shortages)
    units = PRICE_UNITS if priced else 1
    bought = [(places[item.option, item.row], item.number) for item in purchase.items]
    edits = [AddBlocks(add=place.block, to=place.to, count=number) for place, number in bought]
    after = edited(site, edits)
    bought.sort(key=lambda one: (one[0].podm, one[0].pool, one[0].block))
    return msgspec.structs.replace(
        found,
        lines=tuple(
            PurchaseLine(
                block=place.block,
                podm=place.podm,
                pool=place.pool,
                number=number,
                price=priced.get(place.block),
            )
            for place, number in bought
        ),
        total=purchase.price / units,
        bound=purchase.bound / units,
        placed=len(after.decider().select_destinations(whole).placed_nodes),
        exact_model=purchase.exact_model,
    )


class _Place(NamedTuple):
    block: str
    podm: str
    pool: str
    to: str


def _prices(site: Site, choices: Sequence[AddBlocks], prices: Prices) -> dict[str, float]:
    names = dict.fromkeys(choice.add for choice in choices)
    for name in prices:
        if name not in names:
            raise UnknownName("block to buy", name, names)
    templates = (site.templates[name] for name in names if name in site.templates)
    known = {one.name: one.price for one in templates if one.price is not None} | dict(prices)
    if known and len(known) < len(names):
        lacking = next(name for name in names if name not in known)
        raise UsageError(f"{lacking!r} has no price, but others have one: add --price {lacking}=N")
    return known


def _options(
    site: Site, choices: Sequence[AddBlocks], prices: Prices
) -> tuple[list[PurchaseOption], dict[tuple[int, int], _Place]]:
    view, options = site.view(), list[PurchaseOption]()
    places: dict[tuple[int, int], _Place] = {}
    for choice in choices:
        price = round(prices[choice.add] * PRICE_UNITS) if prices else 1
        by_kind: dict[int, list[tuple[int, _Place]]] = {}
        for match in find_targets(site.podms, choice.target, site.kinds):
            block = NewBlocks(choice, site).added(match).blocks[-1]
            named = f"block {choice.add}"
            kind = site.kinds.number(block.type, block.devices, named, "$.devices")
            podm = site.podms[match.podm]
            for row in range(*view.first_row[match.podm : match.podm + 2].tolist()):
                pool = view.pools[row].id
                if not match.pools or pool in match.pools:
                    whole = not podm.pools or pool == WHOLE_POOL
                    to = podm.id if whole else f"{podm.id}/{pool}"
                    place = _Place(choice.add, podm.id, pool, to)
                    by_kind.setdefault(kind, []).append((row, place))
        for kind, rows in by_kind.items():
            places.update({(len(options), row): place for row, place in rows})
            options.append(PurchaseOption(kind, tuple(row for row, _ in rows), price))
    return options, places


class PurchaseItem(Struct, frozen=True):
    """A number of blocks for the pool of a row; ``option`` is the number of their option."""

    option: int
    row: int
    number: int


class Purchase(Struct, frozen=True):
    """The blocks to buy, their price, and a proven lower bound; a fit may refuse inexact models."""

    items: tuple[PurchaseItem, ...]
    price: int
    bound: int
    exact_model: bool


def cheapest_purchase(
    view: View,
    node_types: Sequence[NodeType],
    options: Sequence[PurchaseOption],
    effort: optimiser.Effort = optimiser.DEFAULT_EFFORT,
) -> Purchase | None:
    """Return the cheapest purchase after which ``most`` nodes of each type fit; None: none found.

    RequestError: a node type without ``most``, or a price below 0.
    """
    for option in options:
        if option.price < 0:
            raise RequestError(f"price {option.price}: give a whole number from 0")
    most = [node_type.most for node_type in node_types]
    if not most or None in most:
        raise RequestError("no number of nodes given for a flavor")
    wanted = [number or 0 for number in most]
    offers = list(_purchase_offers(BlockClasses(node_types, view), options, wanted))
    columns = sum(len(offer.model.programme.upper) for offer in offers)
    relaxed = None
    if columns > effort.most_columns:
        relaxation = _PurchaseProgramme(options, offers, wanted, aggregate=True)
        relaxed = relaxation.programme.solve(effort, whole=False)
        if relaxed.values is None:
            return None
        offers = relaxation.buying(relaxed.values, min(effort.most_columns, CHOSEN_COLUMNS))
        rows = {row for offer in offers for row in offer.group.rows}
        for node in most_nodes(view, node_types, effort=effort).nodes:
            wanted[node.node_type] -= node.fit.row not in rows
    programme = _PurchaseProgramme(options, offers, wanted)
    solution = programme.programme.solve(effort, whole=True)
    return programme.purchase(solution, relaxed or solution)


class _PurchaseOffer(NamedTuple):
    """A pool group, the options for its pools, and the model, which equal groups share."""

    group: PoolGroup
    options: tuple[int, ...]
    model: GroupModel


class _AddedColumn(NamedTuple):
    option: int
    row: int
    column: int
    model: int  # the identity of the model, which equal groups share


def _purchase_offers(
    classes: BlockClasses, options: Sequence[PurchaseOption], wanted: Sequence[int]
) -> Iterator[_PurchaseOffer]:
    """Yield all pool groups; all block classes are found before the first model is made."""
    rows = [frozenset(option.rows) for option in options]
    found = [classes.of_kind(option.kind) for option in options]
    models: dict[Hashable, GroupModel] = {}
    finder = CoverFinder()
    for group in classes.pool_groups():
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
    """Return the number of blocks of an option that all wanted nodes can use in one pool."""
    least = [limit.min for name, limit in limits if name in classes.kinds.kinds[option.kind].types]
    useful = 0
    for variant in classes.variants:
        pairs = zip(variant.demands, variant.fitter.coverage(option.kind), strict=True)
        blocks = [-(-amount // size) for amount, size in pairs if size]
        useful += wanted[variant.node_type] * max(blocks + least, default=0)
    return min(useful, option.most)


class _PurchaseProgramme:
    """Minimise the price of the blocks after which the wanted nodes fit in some pool groups."""

    def __init__(
        self,
        options: Sequence[PurchaseOption],
        offers: Sequence[_PurchaseOffer],
        wanted: Sequence[int],
        *,
        aggregate: bool = False,
    ) -> None:
        self._options = options
        self._members: dict[int, list[_PurchaseOffer]] = {}
        for number, offer in enumerate(offers):
            key = id(offer.model) if aggregate else number
            self._members.setdefault(key, []).append(offer)
        self._added: list[_AddedColumn] = []
        costs: dict[int, float] = {}
        bought: list[Terms] = [[] for _ in options]
        models = [(members[0].model, len(members)) for members in self._members.values()]
        joint = JointProgramme(models, [None] * len(wanted))
        self.programme = joint.programme
        for (offer, *_), first in zip(self._members.values(), joint.first, strict=True):
            additions, columns = offer.model.additions, offer.model.addition_columns
            for option, addition, column in zip(offer.options, additions, columns, strict=True):
                costs[first + column] = -float(options[option].price)
                bought[option].append((first + column, 1.0))
                row = offer.group.rows[addition.pool]
                self._added.append(_AddedColumn(option, row, first + column, id(offer.model)))
        self.programme.costs = costs
        for terms, number in zip(joint.by_type, wanted, strict=True):
            self.programme.row(terms, lower=number)
        for terms, one in zip(bought, options, strict=True):
            self.programme.row(terms, upper=one.most)

    def buying(self, values: optimiser.Floats, most_columns: int) -> list[_PurchaseOffer]:
        amounts = defaultdict[int, float](float)
        for added in self._added:
            amounts[added.model] += float(values[added.column])
        order = sorted(self._members.values(), key=lambda group: -amounts[id(group[0].model)])
        chosen: list[_PurchaseOffer] = []
        for offer in (offer for members in order for offer in members):
            most_columns -= len(offer.model.programme.upper)
            if chosen and most_columns < 0:
                break
            chosen.append(offer)
        return chosen

    def purchase(self, solution: optimiser.Solution, least: optimiser.Solution) -> Purchase | None:
        """Return the purchase of a solution; ``least`` bounds the price, the negative objective."""
        if solution.values is None:
            return None
        bound = max(0, math.ceil(-least.bound - optimiser.ROUNDING)) if least.feasible else 0
        numbers = [(one, round(solution.values[one.column])) for one in self._added]
        items = [PurchaseItem(one.option, one.row, number) for one, number in numbers if number]
        price = sum(self._options[item.option].price * item.number for item in items)
        offers = (members[0] for members in self._members.values())
        exact = all(offer.model.is_exact for offer in offers)
        return Purchase(tuple(items), price, min(bound, price), exact)
