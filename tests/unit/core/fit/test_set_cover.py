# SPDX-License-Identifier: Apache-2.0
"""The cheapest cover agrees with trying every choice."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.core.fit import set_cover
from valence_sched.core.fit.set_cover import Item, cheaper_cover, cheapest_cover, upper_bound

DEMANDS = 3
ITEMS = st.lists(
    st.builds(
        Item,
        available=st.integers(0, 3),
        price=st.integers(1, 9),
        gives=st.tuples(*[st.integers(0, 4)] * DEMANDS),
        caps=st.sampled_from([(), (0,), (1,), (0, 1)]),
    ),
    max_size=5,
)
ASKED = st.tuples(*[st.integers(0, 9)] * DEMANDS)
CAPS = st.tuples(st.integers(0, 5), st.integers(0, 5))


def covers(items: list[Item], counts: tuple[int, ...], asked: tuple[int, ...], caps) -> bool:
    for demand, least in enumerate(asked):
        if sum(n * item.gives[demand] for n, item in zip(counts, items, strict=True)) < least:
            return False
    return all(
        sum(n for n, item in zip(counts, items, strict=True) if cap in item.caps) <= room
        for cap, room in enumerate(caps)
    )


def choices(items: list[Item]):
    return itertools.product(*(range(item.available + 1) for item in items))


def price(items: list[Item], counts: tuple[int, ...]) -> int:
    return sum(n * item.price for n, item in zip(counts, items, strict=True))


class TestCheapest(unittest.TestCase):
    """Small questions."""

    @quietly(1500)
    @given(ITEMS, ASKED, CAPS)
    def test_it_is_the_least_price_of_all_choices_that_cover(self, items, asked, caps):
        prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
        found = cheapest_cover(items, asked, caps)
        if found is None:
            self.assertEqual([], prices)
            return
        self.assertTrue(covers(items, tuple(found), asked, caps))
        self.assertTrue(all(0 <= n <= i.available for n, i in zip(found, items, strict=True)))
        self.assertEqual(min(prices), price(items, tuple(found)))

    @quietly(500)
    @given(ITEMS, ASKED, CAPS)
    def test_an_upper_bound_is_one(self, items, asked, caps):
        for demand in range(DEMANDS):
            gifts = [
                sum(n * item.gives[demand] for n, item in zip(counts, items, strict=True))
                for counts in choices(items)
                if covers(items, counts, (0,) * DEMANDS, caps)
            ]
            self.assertLessEqual(max(gifts), upper_bound(items, demand, caps))

    def test_whether_there_is_a_cover_is_never_given_up_on(self):
        """Even when improving a cover would be, the first one is found."""
        before, set_cover.IMPROVE_STATES = set_cover.IMPROVE_STATES, 0
        self.addCleanup(setattr, set_cover, "IMPROVE_STATES", before)
        items = [Item(1, 10 + n, (2**n, 1), (0,)) for n in range(12)]
        found = cheapest_cover(items, (1365, 6), (6,))  # 1365 is every second bit of twelve
        self.assertTrue(covers(items, tuple(found), (1365, 6), (6,)))
        self.assertIsNone(cheapest_cover(items, (4096, 0), (12,)))

    def test_equal_questions_get_equal_answers(self):
        items = [Item(3, 5, (1, 0)), Item(3, 5, (1, 0)), Item(2, 7, (0, 1))]
        self.assertEqual([[3, 1, 1]] * 3, [cheapest_cover(items, (4, 1)) for _ in range(3)])


class TestImproving(unittest.TestCase):
    """The first cover goes by price per share; a cheaper one is searched for within bounds."""

    #: For a demand of 6: two of the first cost 10, one of each 9, two of the second 8.
    ITEMS = (Item(available=2, price=5, gives=(5,)), Item(available=2, price=4, gives=(3,)))

    def cover(self, **words):
        return cheaper_cover(self.ITEMS, (6,), **words)[0]

    def test_it_goes_on_to_the_cheapest_unless_the_states_are_spent(self):
        self.assertEqual([0, 2], self.cover())
        self.assertEqual([0, 2], self.cover(states=10))
        self.assertEqual([2, 0], self.cover(states=0))

    def test_a_cover_must_cost_less_than_the_ceiling(self):
        for ceiling, found in ((11, [0, 2]), (9, [0, 2]), (8, None), (1, None)):
            self.assertEqual(found, self.cover(ceiling=ceiling), ceiling)
        self.assertIsNone(self.cover(ceiling=9, states=0))
        self.assertEqual([2, 0], self.cover(ceiling=None, states=0))

    def test_what_cannot_cost_less_is_not_searched(self):
        for ceiling, searched in ((6, False), (7, True)):  # at best 1 for each of 6
            _, states = cheaper_cover(self.ITEMS, (6,), ceiling=ceiling)
            self.assertEqual(searched, states > 0, ceiling)

    def test_no_demand_is_met_by_nothing_where_nothing_is_cheap_enough(self):
        for ceiling, found in ((None, [0, 0]), (1, [0, 0]), (0, None)):
            self.assertEqual((found, 0), cheaper_cover(self.ITEMS, (0,), ceiling=ceiling))

    def test_a_state_is_visited_again_only_at_a_lower_price(self):
        alike = [Item(available=1, price=3, gives=(2, 3)), Item(available=1, price=3, gives=(3, 2))]
        _, states = cheaper_cover(alike * 8, (19, 19), states=10**6)
        self.assertLess(states, 2000)

    def test_of_equal_prices_the_earlier_items_win(self):
        two = [Item(available=1, price=2, gives=(1,)), Item(available=1, price=2, gives=(1,))]
        self.assertEqual([1, 0], cheapest_cover(two, (1,)))
