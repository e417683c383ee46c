# SPDX-License-Identifier: Apache-2.0
"""The depth-first search: its order, its bounds, and where it stops."""

import unittest

from valence_sched.core.fit.dive import Dive, Item, upper_bound

INFINITE = float("inf")


def dived(items, demand, caps=(), ceiling=None, most=1000, improve=True) -> Dive:
    dive = Dive(items, demand, ceiling, most)
    dive.improve = improve
    dive.run(demand, caps)
    return dive


class TestOrder(unittest.TestCase):
    """Cheapest share of the demand first."""

    def test_items_go_by_price_per_share_of_the_demand_then_by_price(self):
        items = [
            Item(1, 6, (2, 0)),  # a half of one demand for 6: 12
            Item(1, 9, (9, 0)),  # no more than all of it counts: 9
            Item(1, 5, (0, 0)),  # nothing: last
            Item(1, 8, (2, 2)),  # two halves: 8
            Item(1, 3, (1, 0)),  # 12 as the first, and cheaper
            Item(1, 1, (0, 0)),
        ]
        self.assertEqual([3, 1, 4, 0, 5, 2], Dive(items, (4, 4), None, 0).order)

    def test_a_demand_of_nothing_has_no_share(self):
        items = [Item(1, 5, (1, 9)), Item(1, 4, (1, 0))]
        self.assertEqual([1, 0], Dive(items, (2, 0), None, 0).order)

    def test_numbers_in_order_are_told_as_numbers_of_the_items_as_given(self):
        dive = Dive([Item(1, 9, (1,)), Item(1, 3, (1,)), Item(1, 6, (1,))], (2,), None, 0)
        self.assertEqual([1, 2, 0], dive.order)
        self.assertEqual([0, 5, 7], dive.counts((5, 7)))
        self.assertEqual([4, 5, 7], dive.counts((5, 7, 4)))
        self.assertIsNone(dive.counts(None))


class TestBounds(unittest.TestCase):
    """What the items left can give, and must cost."""

    ITEMS = (Item(2, 4, (3, 0), (0,)), Item(5, 9, (1, 2), (0, 1)), Item(1, 8, (2, 1)))

    def test_gifts_are_summed_by_set_of_caps_from_each_item_on(self):
        dive = Dive(self.ITEMS, (9, 9), None, 0)
        self.assertEqual([0, 2, 1], dive.order)  # 12, 24 and 27 for a share
        self.assertEqual([(), (0,), (0, 1)], dive.groups)
        self.assertEqual([[(2, 2), (6, 3), (5, 1)], [(1, 1), (0, 0), (10, 2)]],
                         dive.remaining_gifts[0])  # fmt: skip
        self.assertEqual([[(2, 2), (0, 0), (5, 1)], [(1, 1), (0, 0), (10, 2)]],
                         dive.remaining_gifts[1])  # fmt: skip
        self.assertEqual([[(0, 0)] * 3] * 2, dive.remaining_gifts[3])

    def test_the_least_price_of_a_unit_is_that_of_the_best_item_left(self):
        dive = Dive(self.ITEMS, (9, 9), None, 0)
        self.assertEqual([[4 / 3, 4.5], [4.0, 4.5], [9.0, 4.5], [INFINITE, INFINITE]],
                         dive.least_unit_price)  # fmt: skip

    def test_room_is_the_least_of_the_caps_of_a_set_and_none_without_caps(self):
        dive = Dive(self.ITEMS, (9, 9), None, 0)
        self.assertEqual([None, 4, 2], dive.cap_room((4, 2)))
        self.assertEqual([None, 1, 1], dive.cap_room((1, 2)))

    def test_an_upper_bound_is_the_sum_or_the_room_times_the_best_of_each_set_of_caps(self):
        for caps, demand, bound in (
            ((9, 9), 0, 6 + 5 + 2),
            ((1, 9), 0, 3 + 1 + 2),
            ((2, 9), 0, 6 + 2 + 2),
            ((0, 9), 0, 2),
            ((9, 3), 1, 6 + 1),
            ((9, 5), 1, 10 + 1),
        ):
            with self.subTest(caps=caps, demand=demand):
                self.assertEqual(bound, upper_bound(self.ITEMS, demand, caps))


class TestRun(unittest.TestCase):
    """Small searches, state by state."""

    def test_the_cheapest_cover_is_found_and_it_says_when_all_was_searched(self):
        dive = dived([Item(2, 5, (3,)), Item(3, 2, (1,))], (4,))
        self.assertEqual(([1, 1], 7, True), (dive.counts(dive.best), dive.ceiling, dive.complete))

    def test_a_cover_must_cost_less_than_the_ceiling(self):
        items = [Item(2, 5, (3,)), Item(3, 2, (1,))]
        for ceiling, counts in ((7, None), (8, [1, 1])):
            dive = dived(items, (4,), ceiling=ceiling)
            self.assertEqual((counts, 7), (dive.counts(dive.best), dive.ceiling))

    def test_without_improvement_the_first_cover_ends_it(self):
        items = [Item(1, 9, (4,)), Item(1, 6, (2,)), Item(1, 2, (1,)), Item(2, 3, (1,))]
        first = dived(items, (4,), improve=False)
        self.assertFalse(first.complete)
        best = dived(items, (4,))
        self.assertTrue(best.complete)
        self.assertGreaterEqual(first.ceiling, best.ceiling)
        self.assertLess(first.states, best.states)

    def test_it_stops_one_state_beyond_the_most_and_says_so(self):
        items = [Item(1, 2**n + 7, (2**n, 1), (0,)) for n in range(10)]
        demand, caps = (sum(2**n for n in range(0, 10, 2)), 5), (5,)
        whole = dived(items, demand, caps)
        self.assertTrue(whole.complete)
        for most in (0, 1, 5, whole.states - 1):
            dive = dived(items, demand, caps, most=most)
            self.assertEqual((False, most + 1), (dive.complete, dive.states))
        self.assertTrue(dived(items, demand, caps, most=whole.states).complete)

    def test_most_of_an_item_is_tried_first_within_what_helps_is_there_and_has_room(self):
        dive = Dive([Item(3, 5, (2, 1), (0, 1)), Item(9, 1, (1, 1))], (5, 2), None, 0)
        item = dive.items[dive.order.index(0)]
        for demand, caps, useful in (
            ((5, 2), (9, 9), 3),
            ((3, 2), (9, 9), 2),
            ((1, 1), (9, 9), 1),
            ((1, 3), (9, 9), 3),
            ((5, 2), (2, 9), 2),
            ((5, 2), (9, 1), 1),
            ((0, 0), (9, 9), 0),
            ((5, 2), (-1, 9), 0),
        ):
            with self.subTest(demand=demand, caps=caps):
                self.assertEqual(useful, dive._useful(item, demand, caps))

    def test_an_item_that_gives_nothing_to_what_is_unmet_is_of_no_use(self):
        dive = Dive([Item(3, 5, (0, 2))], (5, 2), None, 0)
        for demand, useful in (((5, 0), 0), ((0, 2), 1), ((0, 0), 0)):
            self.assertEqual(useful, dive._useful(dive.items[0], demand, ()))
        self.assertEqual(0, dive._useful(Item(3, 5, (0, 0)), (5, 2), ()))

    def test_a_branch_is_what_stays_unmet_the_room_that_is_left_and_the_price(self):
        dive = Dive([Item(2, 5, (2, 1), (1,)), Item(9, 99, (9, 9))], (5, 2), None, 100)
        self.assertEqual(
            [(2, (1, 0), (7, 6), 13), (1, (3, 1), (7, 7), 8), (0, (5, 2), (7, 8), 3)],
            list(dive._steps(0, (5, 2), (7, 8), 3)),
        )
        self.assertEqual(3, dive.states)
        self.assertEqual([], list(dive._steps(0, (5, 2), (7, 8), 3)), "it was visited at 3")
        self.assertEqual([], list(dive._steps(0, (5, 2), (7, 8), 4)))
        self.assertEqual(3, len(list(dive._steps(0, (5, 2), (7, 8), 2))), "it is cheaper now")

    def test_a_branch_that_costs_the_ceiling_is_counted_and_left_out(self):
        dive = Dive([Item(2, 5, (3,))], (4,), 13, 100)
        self.assertEqual([(1, (1,), (), 8), (0, (4,), (), 3)], list(dive._steps(0, (4,), (), 3)))
        self.assertEqual(3, dive.states)

    def test_what_the_items_left_cannot_give_or_not_below_the_ceiling_cannot_improve(self):
        dive = Dive([Item(2, 4, (3,), (0,)), Item(1, 8, (2,))], (8,), None, 0)
        for position, demand, caps, spent, ceiling, improves in (
            (0, (8,), (2,), 0, None, True),
            (0, (9,), (2,), 0, None, False),
            (0, (6,), (1,), 0, None, False),
            (0, (5,), (1,), 0, None, True),
            (1, (2,), (2,), 0, None, True),
            (1, (3,), (2,), 0, None, False),
            (1, (2,), (2,), 3, 11, False),
            (1, (2,), (2,), 3, 12, True),
            (0, (6,), (2,), 3, 11, False),
            (0, (6,), (2,), 3, 12, True),
            (2, (0,), (2,), 3, None, True),
            (2, (0,), (2,), 3, 3, False),
        ):
            with self.subTest(position=position, demand=demand, ceiling=ceiling):
                dive.ceiling = ceiling
                self.assertEqual(improves, dive._can_improve(position, demand, caps, spent))
