# SPDX-License-Identifier: Apache-2.0
"""Merge: the offers of several zones in the same order as in a flat zone.

Costs are absolute, and ties are broken by lots of names: the best offer is the best of its zone.
Each zone lists the nodes that it would place in turn; a node changes only costs of its own zone.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from valence_sched.core.ranking import pool_lot
from valence_sched.model.zone import Offer, OfferQuery, ZoneAnswer


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weight of a zone's scores in the zone above: ``offset + scale × score``."""

    scale: float = 1.0
    offset: float = 0.0

    def cost(self, cost: int, worst: int) -> float:
        """Return the weighted cost of an offer of this ``cost``; a score of 0 costs ``worst``."""
        if self == PLAIN:
            return cost
        return worst * (1.0 - self.offset) - self.scale * (worst - cost)


PLAIN = Weighting()


@dataclass(frozen=True, slots=True)
class Part:
    """The answer of a zone directly below, or without a name, of the zone's own pod managers."""

    answer: ZoneAnswer
    child: str = ""
    weighting: Weighting = PLAIN


class OfferOrder:
    """The order of the offers of several zones, with costs scaled to the largest ``worst_cost``."""

    def __init__(self, query: OfferQuery, parts: Sequence[Part]) -> None:
        self._query = query
        worst = max((part.answer.worst_cost for part in parts), default=0)
        self.worst_cost = worst if query.most_cost is None else min(worst, query.most_cost)

    def as_above(self, part: Part, offer: Offer) -> Offer:
        """Return an offer with its cost in this zone, and scores within 0..1."""
        one, cost = offer.candidate, self.cost(part, offer)
        score = round(1.0 - cost / self.worst_cost, 6) if self.worst_cost else 1.0
        scores = {name: min(max(value, 0.0), 1.0) for name, value in one.scores.items()}
        return replace(offer, candidate=replace(one, cost=cost, score=score, scores=scores))

    def cost(self, part: Part, offer: Offer) -> int:
        worst = part.answer.worst_cost
        cost = min(max(offer.candidate.cost, 0), worst)
        if worst != self.worst_cost and worst:
            cost = cost * self.worst_cost // worst
        weighted = round(part.weighting.cost(cost, self.worst_cost))
        return min(max(weighted, 0), self.worst_cost)

    def key(self, part: Part, offer: Offer) -> tuple[int, int]:
        one, request = offer.candidate, self._query.request
        if self._query.order == "cost":
            return self.cost(part, offer), pool_lot(one.podm, one.pool, request)
        turn = self._query.turn
        podm_lot = pool_lot(one.podm, "", request, turn)
        return podm_lot, pool_lot(one.podm, one.pool, request, turn)


def merge_ranking(parts: Sequence[Part], order: OfferOrder) -> list[tuple[Part, Offer]]:
    found = ((part, offer) for part in parts for offer in part.answer.ranking)
    return sorted(found, key=lambda one: order.key(*one))


def merge_nodes(parts: Sequence[Part], order: OfferOrder, count: int) -> list[tuple[Part, Offer]]:
    rows = ([(part, offer) for offer in part.answer.nodes] for part in parts)
    merged = heapq.merge(*rows, key=lambda one: order.key(*one))
    return list(itertools.islice(merged, count))
