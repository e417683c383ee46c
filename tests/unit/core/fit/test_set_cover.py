# SPDX-License-Identifier: Apache-2.0
"""The cheapest cover agrees with trying every choice."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.core.fit import set_cover
from valence_sched.core.fit.set_cover import Item, cheapest_cover, upper_bound

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
