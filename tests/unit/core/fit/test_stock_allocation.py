# SPDX-License-Identifier: Apache-2.0
"""Amounts are poured into stocks: each from one stock, as little surplus as can be."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.fit import brute
from tests.unit.core.sites import quietly
from valence_sched.core.fit import stock_allocation
from valence_sched.core.fit.stock_allocation import StockAmount
from valence_sched.model.inventory import Stock


def stock(total: float | None = 10.0, **words: float | None) -> Stock:
    return Stock(uri="s", resource="gib", total=total, **words)


def allocate(stocks: list[Stock], amounts: list[float]) -> list[StockAmount] | None:
    return stock_allocation.allocate(stocks, amounts, 10_000_000).found


STOCKS = st.lists(
    st.builds(
        lambda total, step, least, most: stock(total, step=step, min=least, max=most),
        st.integers(3, 12).map(float),
        st.sampled_from([0.0, 2.0, 3.0, 5.0]),
        st.sampled_from([0.0, 0.0, 2.0, 4.0]),
        st.sampled_from([None, None, 0.0, 5.0]),
    ),
    min_size=2,
    max_size=3,
)


class TestPour(unittest.TestCase):
    """By brute force, and small cases by hand."""

    @quietly(1200)
    @given(STOCKS, st.lists(st.integers(1, 6), min_size=2, max_size=4))
    def test_the_total_granted_is_the_least_of_all_assignments(self, stocks, amounts):
        found = allocate(stocks, [float(amount) for amount in amounts])
        least = brute.least_granted(stocks, amounts)
        self.assertEqual(least, None if found is None else sum(amount for _, amount in found))

    def test_the_largest_amount_does_not_get_the_finest_stock_if_that_costs_more(self):
        found = allocate([stock(3.0), stock(6.0, step=3.0)], [3.0, 1.0])
        self.assertEqual([(1, 3.0), (0, 1.0)], found)

    def test_nothing_asked_is_granted_without_any_stock(self):
        self.assertEqual([], allocate([], []))

    def test_grants_come_in_the_order_of_the_amounts(self):
        self.assertEqual([(0, 2.0), (1, 7.0)], allocate([stock(3.0), stock(8.0)], [2.0, 7.0]))

    def test_the_stock_that_is_left_with_least_goes_first(self):
        self.assertEqual([(1, 4.0)], allocate([stock(9.0), stock(5.0), stock(6.0)], [4.0]))

    def test_a_step_rounds_up_and_another_stock_avoids_the_surplus(self):
        self.assertEqual([(0, 64.0)], allocate([stock(640.0, step=64.0)], [10.0]))
        self.assertEqual([(1, 10.0)], allocate([stock(640.0, step=64.0), stock(999.0)], [10.0]))

    def test_a_minimum_is_granted_even_when_less_is_asked(self):
        self.assertEqual([(0, 5.0)], allocate([stock(min=5.0)], [2.0]))

    def test_a_stock_that_grants_nothing_does_not_hide_an_equal_one_without_that_maximum(self):
        self.assertEqual([(1, 3.0)], allocate([stock(max=0.0), stock()], [3.0]))

    def test_an_untold_total_grants_nothing(self):
        self.assertIsNone(allocate([stock(None)], [1.0]))

    def test_greed_that_leads_nowhere_is_taken_back(self):
        # 5 fits the smaller stock tightest, and then 4 and 4 have only 6 left.
        self.assertIsNotNone(allocate([stock(8.0), stock(5.0)], [5.0, 4.0, 4.0]))
        found = allocate([stock(9.0), stock(8.0)], [5.0, 4.0, 4.0, 4.0])
        self.assertEqual([9.0, 8.0], [sum(a for n, a in found if n == s) for s in (0, 1)])

    def test_thousands_of_amounts_are_no_deeper_than_one(self):
        self.assertEqual([(0, 3.0)] * 3000, allocate([stock(9000.0)], [3.0] * 3000))
        self.assertIsNone(allocate([stock(8999.0)], [3.0] * 3000))
