# SPDX-License-Identifier: Apache-2.0
"""A cover as a table: no choice is lost, and no number is larger than it needs to be."""

import itertools
import unittest
from random import Random

import numpy as np

from tests.unit.core.fit.covers import choices, covers, near_cover, price
from valence_sched.core.fit.cover_table import LARGEST, CoverTable
from valence_sched.core.fit.dive import Item


def table(items: list[Item], demand: tuple[int, ...], caps: tuple[int, ...] = ()) -> CoverTable:
    made = CoverTable.of(items, demand, caps)
    assert made is not None
    return made


class TestCoverTable(unittest.TestCase):
    """By hand, and against every choice."""

    def test_no_gift_is_above_its_demand(self):
        made = table([Item(1, 5, (9, 2)), Item(1, 5, (3, 1)), Item(1, 5, (2, 8))], (4, 7))
        self.assertEqual([[4, 2], [3, 1], [2, 7]], made.gives.tolist())
        self.assertEqual([4, 7], made.demand.tolist())

    def test_a_demand_of_nothing_is_left_out(self):
        made = table([Item(1, 5, (9, 2, 3)), Item(1, 5, (3, 1, 2))], (0, 7, 0))
        self.assertEqual([[2], [1]], made.gives.tolist())
        self.assertEqual([7], made.demand.tolist())

    def test_a_demand_is_counted_in_the_unit_that_all_gifts_are_multiples_of(self):
        for gifts, amount, counted, whole in (
            ((4, 6), 9, [2, 3], 5),
            ((4, 6), 10, [2, 3], 5),
            ((4, 6), 11, [2, 3], 6),
            ((3, 4), 7, [3, 4], 7),
            ((4, 50), 9, [1, 3], 3),  # what gives all of it has no say
            ((9, 50), 9, [9, 9], 9),
            ((0, 4), 9, [0, 1], 3),
            ((2, 2), 3, [1, 1], 2),
        ):
            with self.subTest(gifts=gifts, amount=amount):
                made = table([Item(1, 5, (gift,)) for gift in gifts], (amount,))
                self.assertEqual(counted, made.gives[:, 0].tolist())
                self.assertEqual([whole], made.demand.tolist())

    def test_each_demand_has_a_unit_of_its_own(self):
        made = table([Item(1, 5, (4, 3)), Item(1, 5, (6, 5))], (9, 8))
        self.assertEqual(([[2, 3], [3, 5]], [5, 8]), (made.gives.tolist(), made.demand.tolist()))

    def test_no_item_is_there_more_often_than_can_help_or_its_caps_allow(self):
        for item, available in (
            (Item(9, 5, (2, 0)), 4),
            (Item(9, 5, (2, 1)), 5),
            (Item(3, 5, (2, 1)), 3),
            (Item(9, 5, (2, 1), (0,)), 2),
            (Item(9, 5, (2, 1), (1,)), 3),
            (Item(9, 5, (2, 1), (0, 1)), 2),
            (Item(9, 5, (0, 0)), 0),
        ):
            with self.subTest(item):
                other = Item(1, 5, (3, 1))
                made = table([item, other], (7, 5), (2, 3))
                self.assertEqual([available, 1], made.available.tolist())

    def test_uses_are_one_for_each_cap_of_an_item_and_room_is_no_more_than_they_come_to(self):
        items = [Item(2, 5, (1,), (0,)), Item(1, 7, (1,), (0, 2)), Item(3, 9, (1,))]
        made = table(items, (4,), (2, 8, 8))
        self.assertEqual([[1, 0, 0], [1, 0, 1], [0, 0, 0]], made.uses.tolist())
        self.assertEqual([2, 0, 1], made.room.tolist())
        self.assertEqual([5, 7, 9], made.prices.tolist())

    def test_every_array_is_of_whole_numbers(self):
        for made in (table([Item(1, 5, (3, 1), (0,))], (4, 7), (1,)), table([], (4,), (1,))):
            for name in ("gives", "uses", "prices", "available", "demand", "room"):
                self.assertEqual(np.int64, getattr(made, name).dtype, name)
        self.assertEqual((0, 2), table([], (4, 1), (1, 2, 3)).gives.shape)
        self.assertEqual((0, 3), table([], (4, 1), (1, 2, 3)).uses.shape)

    def test_numbers_too_large_to_count_with_make_no_table(self):
        edge = LARGEST // 2
        for items, demand, caps, fits in (
            ([Item(1, LARGEST - 1, (1,))], (1,), (), True),
            ([Item(1, LARGEST, (1,))], (1,), (), False),
            ([Item(2, edge, (1,))], (2,), (), False),
            ([Item(1, edge, (1,))] * 2, (2,), (), False),
            ([Item(1, 1, (edge - 1,)), Item(1, 1, (3,))][:1], (edge - 2,), (), True),
            ([Item(1, 1, (3,))], (edge - 1,), (), True),
            ([Item(1, 1, (edge,)), Item(1, 1, (1,))], (edge,), (), False),
            ([Item(1, 1, (edge // 2, 1)), Item(1, 1, (1, 1))], (edge // 2, 2), (), False),
        ):
            with self.subTest(items=items, demand=demand):
                self.assertEqual(fits, CoverTable.of(items, demand, caps) is not None)

    def test_a_cheapest_choice_covers_in_the_table_just_when_it_does_outside(self):
        seen = set()
        for seed in range(60):
            items, asked, caps = near_cover(Random(seed))
            made = table(items, asked, caps)
            limits = [range(int(most) + 1) for most in made.available]
            for counts in itertools.islice(itertools.product(*limits), 300):
                is_cover = covers(items, counts, asked, caps)
                self.assertEqual(is_cover, made.is_cover(np.array(counts)), (seed, counts))
                seen.add(is_cover)
            prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
            within = [c for c in itertools.product(*limits) if made.is_cover(np.array(c))]
            least = min((int(made.prices @ c) for c in within), default=None)
            self.assertEqual(min(prices, default=None), least, seed)
        self.assertEqual({True, False}, seen)

    def test_a_cover_takes_no_more_than_there_is_and_no_less_than_nothing(self):
        made = table([Item(2, 5, (2,)), Item(2, 5, (1,))], (3,))
        for counts, is_cover in (((2, 0), True), ((1, 1), True), ((3, -1), False), ((0, 3), False),
                                 ((1, 0), False), ((2, 2), True)):  # fmt: skip
            self.assertEqual(is_cover, made.is_cover(np.array(counts)), counts)
