# SPDX-License-Identifier: Apache-2.0
"""Purchase: the fewest or the cheapest blocks of some sorts that make room for so many nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.inventory import WHOLE_POOL
from valence_sched.model.purchase import PurchaseLine, PurchaseResult
from valence_sched.model.request import Request
from valence_sched.model.scenario import AddBlocks
from valence_sched.planning.additions import NewBlocks
from valence_sched.planning.edits import edited
from valence_sched.planning.optimise.need import Purchase, PurchaseItem, PurchaseOption
from valence_sched.planning.optimise.need import smallest_purchase as solve
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.site import Site
from valence_sched.planning.statuses import StatusChanges
from valence_sched.planning.succession import Succession
from valence_sched.planning.targets import TargetMatch, find_targets

PRICE_UNITS = 100  # whole numbers a unit of price: the optimiser counts cents


def smallest_purchase(
    site: Site,
    request: Request,
    choices: Sequence[AddBlocks],
    prices: Mapping[str, float] | None = None,
) -> PurchaseResult:
    """Return the smallest purchase after which all nodes of a request fit.

    ``choices`` are edits that add one block: what may be bought, and for which pod managers or
    pools. ``prices`` are by block, and win over those of templates; without any, the fewest blocks
    are the smallest purchase. A block is bought for one pool.

    Raises:
        UsageError: no choice, or some blocks have a price and others none.
        UnknownName: a price is of no choice.
        NothingMatches: a choice is nowhere.
    """
    if not choices:
        raise UsageError("nothing may be bought: name blocks with --buy BLOCK@PODM")
    priced = _prices(site, choices, prices or {})
    options, places = _options(site, choices, priced)
    node_type = NodeType.of(
        request, Succession(site.decider()).eligible(request), most=request.count
    )
    purchase = solve(site.view(), [node_type], options)
    found = PurchaseResult(
        flavor=request.flavor or request.id, wanted=request.count, priced=bool(priced), lines=None
    )
    if purchase is None:
        return found
    units = PRICE_UNITS if priced else 1
    after = edited(site, [places[item.option, item.row].edit(item.number)
                          for item in purchase.items])  # fmt: skip
    whole = msgspec.structs.replace(request, min_count=0)
    return msgspec.structs.replace(
        found,
        lines=tuple(_lines(purchase, places, priced)),
        total=purchase.price / units,
        bound=purchase.bound / units,
        placed=len(after.decider().select_destinations(whole).placed_nodes),
        exact_model=purchase.exact_model,
    )


class _Place(msgspec.Struct, frozen=True):
    """A block that may be bought for one pool."""

    block: str
    podm: str
    pool: str
    to: str

    def edit(self, number: int) -> AddBlocks:
        return AddBlocks(add=self.block, to=self.to, count=number)


def _prices(
    site: Site, choices: Sequence[AddBlocks], prices: Mapping[str, float]
) -> dict[str, float]:
    """Return the price of each block that may be bought, or no prices at all."""
    names = dict.fromkeys(choice.add for choice in choices)
    for name in prices:
        if name not in names:
            raise UnknownName("block to buy", name, names)
    known = dict(prices)
    for name in names:
        template = site.templates.get(name)
        if name not in known and template is not None and template.price is not None:
            known[name] = template.price
    if known and len(known) < len(names):
        lacking = next(name for name in names if name not in known)
        raise UsageError(f"{lacking!r} has no price, and others have one: --price {lacking}=N")
    return known


def _options(
    site: Site, choices: Sequence[AddBlocks], prices: Mapping[str, float]
) -> tuple[list[PurchaseOption], dict[tuple[int, int], _Place]]:
    """Return what may be bought, and of each option and row the place that it is for."""
    options: list[PurchaseOption] = []
    places: dict[tuple[int, int], _Place] = {}
    for choice in choices:
        price = round(prices[choice.add] * PRICE_UNITS) if prices else 1
        by_kind: dict[int, list[tuple[int, _Place]]] = {}
        for match in find_targets(site.podms, choice.target, site.kinds):
            kind = _kind(site, choice, match)
            by_kind.setdefault(kind, []).extend(_rows(site, choice, match))
        for kind, rows in by_kind.items():
            for row, place in rows:
                places[len(options), row] = place
            options.append(PurchaseOption(kind, tuple(row for row, _ in rows), price))
    return options, places


def _kind(site: Site, choice: AddBlocks, match: TargetMatch) -> int:
    new = NewBlocks(choice, site.podms, site.templates, site.kinds, StatusChanges())
    block = new.added(match).blocks[-1]
    return site.kinds.number(block.type, block.devices, f"block {choice.add}", "$.devices")


def _rows(site: Site, choice: AddBlocks, match: TargetMatch) -> Iterator[tuple[int, _Place]]:
    view = site.view()
    podm = site.podms[match.podm]
    first, last = int(view.first_row[match.podm]), int(view.first_row[match.podm + 1])
    for row in range(first, last):
        pool = view.pools[row].id
        if not match.pools or pool in match.pools:
            whole = not podm.pools or pool == WHOLE_POOL
            to = podm.id if whole else f"{podm.id}/{pool}"
            yield row, _Place(choice.add, podm.id, pool, to)


def _lines(
    purchase: Purchase, places: Mapping[tuple[int, int], _Place], prices: Mapping[str, float]
) -> Iterator[PurchaseLine]:
    def place_of(item: PurchaseItem) -> _Place:
        return places[item.option, item.row]

    for item in sorted(purchase.items, key=lambda one: (place_of(one).podm, place_of(one).pool,
                                                        place_of(one).block)):  # fmt: skip
        place = place_of(item)
        yield PurchaseLine(block=place.block, podm=place.podm, pool=place.pool,
                           number=item.number, price=prices.get(place.block))  # fmt: skip
