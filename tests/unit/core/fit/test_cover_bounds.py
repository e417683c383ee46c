# SPDX-License-Identifier: Apache-2.0
"""The bounds of a cover close no state that can be completed, and close those that they can."""

import itertools
import unittest
from random import Random
from unittest import mock

import numpy as np

from tests.unit.core.fit.covers import near_cover
from tests.unit.core.fit.hard_covers import FAMILIES
from valence_sched.core.fit import cover_bounds
from valence_sched.core.fit.cover_bounds import CoverBounds, from_each_on
from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.fit.dive import Item


def table(items: list[Item], demand: tuple[int, ...], caps: tuple[int, ...] = ()) -> CoverTable:
    made = CoverTable.of(items, demand, caps)
    assert made is not None
    return made


def is_open(made: CoverTable, level: int, unmet, room=(), price: int = 0, ceiling=None) -> bool:
    """Ask about one state."""
    state = np.array([unmet]), np.array([room], dtype=np.int64).reshape(1, -1), np.array([price])
    ceilings = None if ceiling is None else np.array([ceiling])
    return bool(CoverBounds(made).is_open(level, *state, ceilings)[0])


def states(made: CoverTable, level: int):
    """Yield every choice of the items before a level: what is unmet, the room, the price."""
    for counts in itertools.product(*(range(int(n) + 1) for n in made.available[:level])):
        taken = np.array(counts, dtype=np.int64)
        unmet = np.maximum(made.demand - taken @ made.gives[:level], 0)
        room = made.room - taken @ made.uses[:level]
        if (room >= 0).all():
            yield unmet, room, int(taken @ made.prices[:level])


def least_price(made: CoverTable, level: int, unmet, room) -> int | None:
    """Return the least price of the items from a level on that complete a state."""
    prices = []
    for counts in itertools.product(*(range(int(n) + 1) for n in made.available[level:])):
        taken = np.array(counts, dtype=np.int64)
        fits = (taken @ made.uses[level:] <= room).all()
        if fits and (taken @ made.gives[level:] >= unmet).all():
            prices.append(int(taken @ made.prices[level:]))
    return min(prices, default=None)


class TestSound(unittest.TestCase):
    """No state is closed that can be completed, at a price below the ceiling where there is one."""

    def test_against_every_choice_of_the_items_left(self):
        closed = opened = 0
        for seed in range(60):
            made = table(*near_cover(Random(seed)))
            bounds = CoverBounds(made)
            for level in range(len(made.gives)):
                for unmet, room, price in itertools.islice(states(made, level), 6):
                    least = least_price(made, level, unmet, room)
                    state = unmet[None, :], room[None, :], np.array([price])
                    for ceiling in (None, 10_000, *([price + least + 1] if least else [])):
                        ceilings = None if ceiling is None else np.array([ceiling])
                        found = bool(bounds.is_open(level, *state, ceilings)[0])
                        if least and unmet.any():
                            self.assertTrue(found, (seed, level))
                        opened, closed = opened + found, closed + (not found)
        self.assertGreater(opened, 300)
        self.assertGreater(closed, 300)

    def test_states_are_judged_one_by_one(self):
        made = table([Item(2, 3, (2, 1), (0,)), Item(2, 4, (1, 2), (0,))], (5, 4), (3,))
        lines = list(states(made, 1))
        unmet, room, price = (np.array(column) for column in zip(*lines, strict=True))
        every = CoverBounds(made).is_open(1, unmet, room, price, np.full(len(lines), 12))
        alone = [is_open(made, 1, *line, ceiling=12) for line in lines]
        self.assertEqual(alone, every.tolist())
        self.assertEqual({True, False}, set(alone))

    def test_one_that_is_complete_is_closed_beside_one_that_is_not(self):
        made = table([Item(2, 3, (2, 1))], (4, 2))
        unmet, room = np.array([[0, 0], [1, 0], [0, 1]]), np.zeros((3, 0), dtype=np.int64)
        for ceilings in (None, np.full(3, 99)):
            found = CoverBounds(made).is_open(0, unmet, room, np.zeros(3, dtype=np.int64), ceilings)
            self.assertEqual([False, True, True], found.tolist())


class TestTight(unittest.TestCase):
    """What each bound closes."""

    def test_what_needs_nothing_more_is_not_open(self):
        made = table([Item(2, 3, (2, 5))], (4, 9))
        self.assertFalse(is_open(made, 0, (0, 0)))
        self.assertTrue(is_open(made, 0, (1, 0)))
        self.assertTrue(is_open(made, 0, (0, 1)))

    def test_the_items_left_must_give_enough_to_every_demand(self):
        made = table([Item(2, 3, (2, 3)), Item(3, 3, (1, 2))], (7, 12))
        for level, unmet, found in (
            (0, (7, 12), True),
            (0, (8, 1), False),
            (1, (3, 6), True),
            (1, (4, 1), False),
            (1, (1, 7), False),
            (2, (1, 0), False),
        ):
            self.assertEqual(found, is_open(made, level, unmet), (level, unmet))

    def test_they_must_do_so_within_the_room_of_the_caps_the_best_first(self):
        items = [Item(2, 1, (5,), (0,)), Item(3, 1, (3,), (0,)), Item(1, 1, (2,))]
        made = table(items, (21,), (5,))
        for level, unmet, room, found in (
            (0, 21, 5, True),
            (0, 12, 2, True),
            (0, 13, 2, False),
            (0, 15, 3, True),
            (0, 16, 3, False),
            (0, 2, 0, True),
            (0, 3, 0, False),
            (1, 8, 2, True),
            (1, 9, 2, False),
            (1, 11, 5, True),
            (1, 12, 5, False),
        ):
            with self.subTest(level=level, unmet=unmet, room=room):
                self.assertEqual(found, is_open(made, level, (unmet,), (room,)))

    def test_of_several_caps_the_one_with_least_room_counts(self):
        made = table([Item(3, 1, (2,), (0, 1)), Item(1, 1, (1,), (1,))], (7,), (3, 4))
        for unmet, room, found in (((7,), (3, 4), True), ((5,), (3, 2), True),
                                   ((6,), (3, 2), False), ((3,), (1, 4), True),
                                   ((4,), (1, 4), False)):  # fmt: skip
            self.assertEqual(found, is_open(made, 0, unmet, room), (unmet, room))

    def test_very_many_items_are_bounded_by_the_best_of_them(self):
        items = [Item(3, 1, (5,), (0,)), Item(9, 1, (3,), (0,))]
        made = table(items, (42,), (12,))
        with mock.patch.object(cover_bounds, "MOST_GIFTS", 12):
            self.assertFalse(is_open(made, 0, (25,), (6,)))
        with mock.patch.object(cover_bounds, "MOST_GIFTS", 11):
            bounds = CoverBounds(made)
            most = [int(bounds._most_given(0, 0, np.array([[room]]))[0]) for room in (0, 6, 12)]
            self.assertEqual([0, 30, 42], most)
            self.assertEqual([12, 27], [int(bounds._most_given(1, 0, np.array([[room]]))[0])
                                        for room in (4, 10)])  # fmt: skip

    def test_demands_that_no_choice_meets_together_are_seen_together(self):
        for size in (8, 12, 16):
            items, asked, caps = FAMILIES["complementary"](size, Random(size))
            made = table(items, asked, caps)
            self.assertFalse(is_open(made, 0, made.demand, made.room))
            self.assertTrue(is_open(made, 0, made.demand - [1, 0], made.room))

    def test_the_price_of_parts_of_items_is_a_bound_of_the_price(self):
        made = table([Item(9, 3, (2, 0)), Item(9, 5, (0, 7))], (16, 21))
        least = 8 * 3 + 3 * 5
        for price, ceiling, found in (
            (0, least, False),
            (0, least + 1, True),
            (4, least + 4, False),
            (4, least + 5, True),
            (9, 9, False),
        ):
            self.assertEqual(found, is_open(made, 0, made.demand, (), price, ceiling), ceiling)
        self.assertTrue(is_open(made, 1, (0, 3), (), 24, 24 + 16))
        self.assertFalse(is_open(made, 1, (0, 3), (), 24, 24 + 15))

    def test_what_costs_the_ceiling_is_closed_though_nothing_bounds_the_rest(self):
        made = table([Item(9, 0, (2,))], (16,))
        self.assertFalse(is_open(made, 0, (2,), (), 7, 7))
        self.assertTrue(is_open(made, 0, (2,), (), 6, 7))

    def test_a_demand_that_nothing_gives_to_closes_every_state(self):
        made = table([Item(2, 3, (2, 0))], (3, 1))
        self.assertFalse(is_open(made, 0, (2, 1)))
        self.assertTrue(is_open(made, 0, (2, 0)))

    def test_of_very_many_demands_the_sum_of_their_shares_is_the_bound(self):
        items = [Item(1, 1, (4, 1), (0,)), Item(1, 1, (1, 4), (0,)), Item(1, 1, (3, 3), (0,))]
        made = table(items, (8, 8), (3,))
        with mock.patch.object(cover_bounds, "MOST_CELLS", 3 * (3 + 3)):
            self.assertEqual(2, len(CoverBounds(made)._weights))
        with mock.patch.object(cover_bounds, "MOST_CELLS", 3 * (3 + 3) - 1):
            bounds = CoverBounds(made)
            ((of_demand, of_cap, rest, unit),) = bounds._weights
            self.assertEqual(of_demand[0], of_demand[1])
            self.assertEqual(([0], 0), (of_cap.tolist(), unit))
            self.assertEqual([16, 11, 6, 0], (rest // of_demand[0]).tolist())

    def test_of_two_states_the_one_with_less_left_to_do_has_less_slack(self):
        made = table([Item(9, 3, (2, 1), (0,)), Item(9, 5, (1, 3), (0,))], (20, 20), (12,))
        unmet = np.array([[20, 20], [19, 20], [20, 19], [20, 20]])
        room = np.array([[12], [12], [12], [13]])
        all_left, *less = CoverBounds(made).slack(unmet, room).tolist()
        self.assertTrue(all(one < all_left for one in less), less)


class TestSums(unittest.TestCase):
    def test_the_sums_from_each_row_on_end_with_nothing(self):
        self.assertEqual([6, 5, 3, 0], from_each_on(np.array([1, 2, 3])).tolist())
        self.assertEqual(
            [[4, 6], [3, 4], [0, 0]], from_each_on(np.array([[1, 2], [3, 4]])).tolist()
        )
        self.assertEqual([0], from_each_on(np.array([], dtype=np.int64)).tolist())
        self.assertEqual(np.int64, from_each_on(np.array([1])).dtype)
