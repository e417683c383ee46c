# SPDX-License-Identifier: Apache-2.0
"""Chooses the memory chunks and volumes that a living node keeps, lacks and gives away."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.errors import RequestError
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import DECLARED_SCHEME, Stock, to_a_billionth
from valence_sched.model.need import Alternative, Need
from valence_sched.model.request import Request


class NodeAmounts:
    """The memory chunks and volumes of a node and its pod manager, without declared stocks."""

    def __init__(self, node: ComposedNode, stocks: Iterable[Stock]) -> None:
        self._node, every = node, tuple(stocks)
        self.stocks = [one for one in every if not one.uri.startswith(DECLARED_SCHEME)]
        self._declared = {it.resource for it in every} - {it.resource for it in self.stocks}
        known = {stock.uri: stock for stock in self.stocks}
        own: list[Grant] = []
        for one, grant in zip(node.amounts, node.grants_of(node.amounts), strict=True):
            stock = known.get(grant.uri)
            resource = grant.resource or (stock.resource if stock else "")
            unit = grant.unit or (stock.unit if stock else "")
            own.append(replace(one, resource=resource, unit=unit))
        #: The amounts of the node with the resource and the unit of their stocks.
        self.own = tuple(own)

    def missing(self, request: Request, *, own: bool = True) -> Request:
        """Return a request with the part of each amount that the node lacks.

        Without ``own``, the node keeps its amounts, and lacks all. RequestError for a declared
        amount, unless the request of the node has it as well.
        """
        kept = self._node.request.needs if own and self._node.request is not None else ()
        alternatives = [
            Alternative(tuple(self._missing(one.needs, kept, own)), one.topology)
            for one in request.alternatives
        ]
        first, *others = alternatives
        return replace(request, needs=first.needs, other_alternatives=tuple(others))

    def _missing(self, needs: Iterable[Need], kept: Collection[Need], own: bool) -> Iterator[Need]:
        left = _totals(self.own) if own else {}
        for need in needs:
            if need.kind != "stock":
                yield need
            elif need.resource in self._declared:
                if need not in kept:
                    what = f"{need.resource} is an amount that the operator declared"
                    text = f"{what}: it cannot be attached to a node or detached from it"
                    raise RequestError(text)
            else:
                wanted, has = need.total_amount(), left.get(need.resource, 0.0)
                left[need.resource] = to_a_billionth(max(0.0, has - wanted))
                if not has:
                    yield need
                elif (lack := to_a_billionth(wanted - has)) > 0:
                    count = math.ceil(lack / need.amount - 1e-9)
                    yield replace(need, count=count, amount=to_a_billionth(lack / count))

    def idle(self, needs: Iterable[Need], granted: Iterable[Grant] = ()) -> tuple[Grant, ...]:
        """Return the amounts that the node does not need besides ``granted``, the most possible."""
        wanted: dict[str, float] = {}
        for need in needs:
            if need.kind == "stock":
                wanted[need.resource] = wanted.get(need.resource, 0.0) + need.total_amount()
        for resource, amount in _totals(granted).items():
            wanted[resource] = wanted.get(resource, 0.0) - amount
        kept: set[str] = set()
        for resource in {one.resource for one in self.own}:
            every = [one for one in self.own if one.resource == resource]
            some = smallest_amounts(every, wanted.get(resource, 0.0))
            kept.update(one.uri for one in (every if some is None else some))
        return tuple(one for one in self.own if one.uri not in kept)

    def leaving(self, needs: Iterable[Need], besides: Collection[str] = ()) -> tuple[Grant, ...]:
        """Return amounts, not those ``besides``, that meet the needs; RequestError if too few."""
        found: list[Grant] = []
        rest = [one for one in self.own if one.uri not in besides]
        for need in needs:
            left = [it for it in rest if it.resource == need.resource and it not in found]
            some = smallest_amounts(left, need.total_amount())
            if some is None:
                has = sum(it.amount for it in left)
                unit = next((f" {it.unit}" for it in left if it.unit), "")
                what = f"has {has:g}{unit} of {need.resource}, expected {need.total_amount():g}"
                raise RequestError(f"node {self._node.id} {what} or more")
            found += some
        return tuple(found)


def smallest_amounts(amounts: Sequence[Grant], wanted: float) -> tuple[Grant, ...] | None:
    """Return the fewest amounts with the least total of at least ``wanted``; None if too little."""
    if wanted <= 0:
        return ()
    best: tuple[float, int, tuple[Grant, ...]] | None = None
    sums: dict[float, tuple[Grant, ...]] = {0.0: ()}
    for one in sorted(amounts, key=lambda it: (-it.amount, it.uri)):
        for total, some in [*sums.items()]:
            more = (*some, one)
            reached = to_a_billionth(total + one.amount)
            if reached + 1e-6 >= wanted:
                if best is None or (reached, len(more)) < best[:2]:
                    best = reached, len(more), more
            elif reached not in sums or len(more) < len(sums[reached]):
                sums[reached] = more
    return None if best is None else best[2]


def grants_in(decision: DecisionResult) -> tuple[Grant, ...]:
    """Return the grants of the placed node."""
    placements = decision.report.placements
    refs = placements[0].chosen.grants if placements else ()
    return tuple(Grant(it.uri, float(it.amount), it.resource, it.unit) for it in refs)


def _totals(grants: Iterable[Grant]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in grants:
        found[one.resource] = to_a_billionth(found.get(one.resource, 0.0) + one.amount)
    return found
