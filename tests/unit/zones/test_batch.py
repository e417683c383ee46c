# SPDX-License-Identifier: Apache-2.0
"""Several requests over zones: scarcest first, and in another order where that leaves nodes out."""

import itertools
import unittest
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.core.sites import quietly
from tests.unit.zones.test_scarcity_as_flat import NO_INVENTORY
from tests.unit.zones.test_selection import offer
from tests.unit.zones.test_tree_as_flat import CARD, CORES, decider, podm, tree
from valence_sched.errors import NoPodm, UnknownName
from valence_sched.model.request import Request
from valence_sched.model.zone import SealedRequest
from valence_sched.planning.batches import BatchPlan
from valence_sched.planning.succession import Succession
from valence_sched.zones.decider import MOST_TRIALS, ZoneBatch, ZoneDecider
from valence_sched.zones.selection import PlacedOffer, Selected

LARGE = replace(CORES, amount=16)


class FlatPodms:
    """Seals requests for a tree as one zone with all pod managers does."""

    def __init__(self, flat):
        self._flat = flat

    def seal(self, request):
        sealed = self._flat.seal(request)
        policy, most_cost = self._flat.policy(sealed)
        return SealedRequest(request=sealed, policy=policy, most_cost=most_cost,
                             inventory=NO_INVENTORY)  # fmt: skip

    def select_destinations(self, request, *, detail="placements"):
        raise NoPodm("this zone has none")


def zoned(zone, flat, **words) -> ZoneDecider:
    return ZoneDecider(FlatPodms(flat), zone, **words)


def requests(random: Random, least: int = 2) -> list[Request]:
    """Return up to four requests, each of which must have all of its nodes."""
    return [
        Request(
            needs=random.choice([(CORES,), (CORES, CARD), (LARGE,), (CARD,)]),
            count=random.choice([1, 1, 2, 3]),
            policy=random.choice(["default", "pack"]),
            exclude_podms=random.choice([(), (), ("podm-1",)]),
            seed=random.randint(0, 9),
        )
        for _ in range(random.randint(least, 4))
    ]


def fits_in_order(flat, order) -> bool:
    """Return whether one zone places all nodes of requests, one request after another."""
    succession = Succession(flat)
    for asked in order:
        decision = succession.decide(asked)
        if decision.fit_count < asked.required_count:
            return False
        for node in decision.fitting_nodes:
            succession.take(asked, node.chosen)
    return True


class TestTree(unittest.TestCase):
    """Batches of a tree against those of one zone with all pod managers."""

    def site(self, seed):
        random = Random(seed)
        podms = [podm(number, random) for number in range(random.randint(2, 5))]
        flat = decider(podms)
        return flat, zoned(tree(podms, random), flat, deadline_s=600.0), requests(random)

    @quietly(40)
    @given(st.integers(0, 2**32))
    def test_where_any_order_fits_all_are_placed(self, seed):
        """Up to four requests: every order is tried until one fits; else nothing is placed."""
        flat, top, asked = self.site(seed)
        fits = any(fits_in_order(flat, order) for order in itertools.permutations(asked))
        report = top.select_all(asked).report
        self.assertEqual(sum(one.count for one in asked) if fits else 0, report.placed)
        if fits:
            decided = [one.request.needs for one in report.decisions]
            self.assertEqual([one.needs for one in asked], decided)

    @quietly(40)
    @given(st.integers(0, 2**32))
    def test_the_first_order_is_that_of_one_zone(self, seed):
        """Where it places all nodes, they are on the same blocks."""
        flat, top, asked = self.site(seed)
        plan = BatchPlan(Succession(flat), asked, Succession(flat).budget(asked))
        first = plan.trial(next(plan._orders()))
        if first.score != (0, 0):
            return
        found = [[one.chosen for one in each.placements]
                 for each in top.select_all(asked).report.decisions]  # fmt: skip
        expected = [[one.chosen for one in each.placements] for each in first.decisions]
        self.assertEqual(expected, found)

    def test_the_order_as_asked_often_would_not_do(self):
        """The properties have power."""
        other_order = 0
        for seed in range(150):
            flat, top, asked = self.site(seed)
            placed = top.select_all(asked).report.placed
            other_order += bool(placed) and not fits_in_order(flat, asked)
        self.assertGreater(other_order, 3)

    def test_an_error_names_the_request(self):
        _, top, asked = self.site(1)
        strange = replace(asked[0], podms=("nowhere",))
        with self.assertRaisesRegex(UnknownName, "request 2"):
            top.select_all([asked[0], strange])


class Trials:
    """Selects nodes by a table of how many fit, and notes the orders that are tried."""

    def __init__(self, fitting):
        self.fitting, self.orders = fitting, []

    def __call__(self):
        order = []
        self.orders.append(order)

        def select(number, _others):
            order.append(number)
            count = self.fitting(tuple(order))
            nodes = [PlacedOffer(1, offer(f"p{number}", place)) for place in range(count)]
            return Selected(nodes=nodes)

        return select


class TestOrders(unittest.TestCase):
    """Which orders are tried, and when that ends."""

    def batch(self, fitting, most=(9, 9, 9, 9), late=lambda: False, **words):
        request = Request(needs=(CORES,), count=1, **words)
        sealed = [SealedRequest(request=request, policy=None, most_cost=1, inventory=NO_INVENTORY)
                  for _ in most]  # fmt: skip
        trials = Trials(fitting)
        return ZoneBatch(sealed, most, trials, late), trials.orders

    def test_the_scarcest_comes_first(self):
        batch, orders = self.batch(lambda _order: 1, most=(3, 1, 2))
        self.assertEqual((0, 0), batch.best().score)
        self.assertEqual([[1, 2, 0]], orders)

    def test_no_order_is_tried_that_cannot_do(self):
        batch, orders = self.batch(lambda _order: 1, most=(3, 0, 2))
        self.assertIsNone(batch.best())
        self.assertEqual([], orders)

    def test_all_orders_of_four_are_tried_and_no_more_than_that_of_five(self):
        for count, expected in ((4, MOST_TRIALS), (5, 1)):
            with self.subTest(count):
                batch, orders = self.batch(lambda _order: 0, most=(9,) * count)
                self.assertIsNone(batch.best())
                self.assertEqual(expected, len(orders))
                self.assertEqual(expected, len(set(map(tuple, orders))))

    def test_the_best_of_all_is_taken_if_not_every_node_must_be_placed(self):
        batch, _ = self.batch(lambda order: int(order[0] == 2), most=(9, 9, 9), min_count=0)
        best = batch.best()
        self.assertEqual((0, 0), best.score)
        batch, _ = self.batch(lambda order: int(order == (1,)), most=(9, 9, 9), min_count=0)
        best = batch.best()
        self.assertEqual(((0, 2), 1), (best.score, len(best.selected[1].nodes)))

    def test_no_other_order_is_begun_once_time_is_over(self):
        batch, orders = self.batch(lambda _order: 0, late=lambda: True)
        self.assertIsNone(batch.best())
        self.assertEqual(1, len(orders))

    def test_in_the_order_asked_the_first_that_fails_is_the_last(self):
        batch, _ = self.batch(lambda order: int(len(order) < 2))
        self.assertEqual([1, 0], [len(one.nodes) for one in batch.in_order()])
