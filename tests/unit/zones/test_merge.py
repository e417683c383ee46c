# SPDX-License-Identifier: Apache-2.0
"""Merging offers: scale and offset, ranges, and answers that lie."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine_of
from valence_sched.model.decision import Candidate
from valence_sched.model.request import Request
from valence_sched.model.zone import Offer, OfferQuery, ZoneAnswer
from valence_sched.testing import request
from valence_sched.zones.merge import OfferOrder, Part, Weighting, merge_nodes, merge_ranking

QUERY = OfferQuery(request=Request(id="r"))


def offer(podm: str, cost: int) -> Offer:
    candidate = Candidate(
        podm=podm, pool="p", score=0.0, cost=cost, scores={}, blocks=(), grants=(), waste=0
    )
    return Offer(candidate=candidate, token=podm)


def answer(*costs: int, worst: int = 1000, name: str = "p") -> ZoneAnswer:
    offers = tuple(offer(f"{name}{number}", cost) for number, cost in enumerate(costs))
    return ZoneAnswer(nodes=offers, ranking=offers, worst_cost=worst)


def ranked(*parts: Part) -> list[tuple[str, int]]:
    order = OfferOrder(QUERY, parts)
    return [
        (one.candidate.podm, order.cost(part, one)) for part, one in merge_ranking(parts, order)
    ]


class TestOrder(unittest.TestCase):
    """What is sorted by."""

    def test_costs_of_all_zones_are_in_one_order(self):
        """S41: the merged order is that of the costs."""
        found = ranked(Part(answer(100, 300, name="a"), "a"), Part(answer(200, name="b"), "b"))
        self.assertEqual([("a0", 100), ("b0", 200), ("a1", 300)], found)

    def test_scale_and_offset_weigh_the_scores_of_a_child(self):
        """S41: offset + scale x score: 0.5 + 0.5 x 0.4 = 0.7, a cost of 300."""
        part = Part(answer(600), "a", Weighting(scale=0.5, offset=0.5))
        self.assertEqual([("p0", 300)], ranked(part))
        self.assertEqual([("p0", 800)], ranked(Part(answer(600), "a", Weighting(scale=0.5))))

    def test_a_weighted_score_stays_between_0_and_1(self):
        for weighting, cost in ((Weighting(offset=5.0), 0), (Weighting(offset=-5.0), 1000)):
            with self.subTest(weighting):
                self.assertEqual([("p0", cost)], ranked(Part(answer(600), "a", weighting)))

    def test_zones_with_other_weights_are_brought_to_one_scale(self):
        found = ranked(Part(answer(100), "a"), Part(answer(5, worst=10, name="b"), "b"))
        self.assertEqual([("p0", 100), ("b0", 500)], found)

    def test_a_zone_that_lies_about_its_costs_is_taken_for_its_best_or_its_worst(self):
        found = ranked(Part(answer(-7, 10**9), "liar"), Part(answer(0, name="b"), "b"))
        self.assertEqual({("p0", 0), ("b0", 0), ("p1", 1000)}, set(found))

    def test_no_cost_is_more_than_the_query_allows(self):
        for most, worst in ((None, 1000), (2000, 1000), (500, 500), (0, 0)):
            parts = [Part(answer(100, worst=10)), Part(answer(100), "a")]
            with self.subTest(most=most):
                order = OfferOrder(replace(QUERY, most_cost=most), parts)
                self.assertEqual(worst, order.worst_cost)
        self.assertEqual(0, OfferOrder(QUERY, []).worst_cost)

    def test_an_offer_has_the_cost_and_the_scores_of_the_zone_above(self):
        one = offer("p", 1)
        scores = {"low": -0.5, "room": 0.25, "high": 1.5}
        one = replace(one, zone="x", candidate=replace(one.candidate, scores=scores))
        parts = [Part(ZoneAnswer(worst_cost=3)), Part(ZoneAnswer(worst_cost=300), "a")]
        found = OfferOrder(QUERY, parts).as_above(parts[0], one)
        self.assertEqual((100, 0.666667), (found.candidate.cost, found.candidate.score))
        self.assertEqual({"low": 0.0, "room": 0.25, "high": 1.0}, found.candidate.scores)
        self.assertEqual(("p", "p", "x"), (found.candidate.podm, found.token, found.zone))
        free = [Part(ZoneAnswer(worst_cost=0))]
        self.assertEqual(1.0, OfferOrder(QUERY, free).as_above(free[0], one).candidate.score)
        for worst in (1, 2):
            parts = [Part(ZoneAnswer(worst_cost=worst))]
            found = OfferOrder(QUERY, parts).as_above(parts[0], one)
            self.assertEqual(1.0 - 1 / worst, found.candidate.score)

    def test_equals_are_drawn_by_names_and_not_by_zones(self):
        alone = ranked(Part(answer(5, 5, 5, 5)))
        first, second = answer(5, 5), answer(5, 5)
        second = ZoneAnswer(ranking=(offer("p2", 5), offer("p3", 5)), worst_cost=1000)
        self.assertEqual(alone, ranked(Part(second, "b"), Part(first, "a")))


class TestAsFlat(unittest.TestCase):
    """Equals are in the order in which one flat zone has them, wherever zones begin and end."""

    def podms(self):
        pools = [{"id": "p"}, {"id": "q"}]
        blocks = [cpu(f"{pool}0", 8, pools=[pool]) for pool in "pq"]
        return [{"id": f"podm-{n}", "pools": pools, "blocks": blocks} for n in range(6)]

    def test_pools_of_one_score_are_drawn_as_in_one_zone_by_cost_and_by_lot(self):
        podms, orders = self.podms(), set()
        flat, first, second = engine_of(*podms), engine_of(*podms[:3]), engine_of(*podms[3:])
        for order, policy in (("cost", "default"), ("lot", "chance")):
            for turn in (0, 1, 2):
                asked = OfferQuery(
                    request=request({"processor": {"total_cores": 8}}, id="r", policy=policy),
                    order=order, limit=12, turn=turn,
                )  # fmt: skip
                parts = [Part(first.offers(asked, ()), "a"), Part(second.offers(asked, ()), "b")]
                found = tuple(
                    (one.candidate.podm, one.candidate.pool)
                    for _, one in merge_ranking(parts, OfferOrder(asked, parts))
                )
                with self.subTest(order, turn=turn):
                    expected = flat.offers(asked, ()).ranking
                    names = tuple((one.candidate.podm, one.candidate.pool) for one in expected)
                    self.assertEqual(names, found)
                orders.add(found)
        self.assertEqual(4, len(orders), "each turn by lot is another order, by cost none is")


class TestNodes(unittest.TestCase):
    """Rows of nodes merge by their heads."""

    def test_a_node_that_costs_less_than_the_one_before_it_waits_for_it(self):
        parts = [Part(answer(300, 10, name="a"), "a"), Part(answer(200, 250, 400, name="b"), "b")]
        found = merge_nodes(parts, OfferOrder(QUERY, parts), 4)
        names = [one.candidate.podm for _, one in found]
        self.assertEqual(["b0", "b1", "a0", "a1"], names)

    def test_no_more_nodes_than_asked_for(self):
        parts = [Part(answer(*range(9)))]
        self.assertEqual(3, len(merge_nodes(parts, OfferOrder(QUERY, parts), 3)))
        self.assertEqual([], merge_nodes([], OfferOrder(QUERY, []), 3))
