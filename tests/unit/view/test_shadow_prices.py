# SPDX-License-Identifier: Apache-2.0
"""Shadow prices: against their conditions, and numbers by hand."""

import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.view.shadow_prices import TEMPERATURE, shadow_prices

PART = st.floats(0.001, 0.2)


class TestShadowPrices(unittest.TestCase):
    """Kinds of hardware, each with the part of all that names it and that is of it."""

    def test_what_more_name_than_there_is_costs_most(self):
        self.assertEqual([1.0], shadow_prices([0.2], [0.2]).tolist())
        self.assertEqual([1.0], shadow_prices([0.2], [0.1]).tolist())

    def test_what_few_name_costs_next_to_nothing(self):
        self.assertLess(shadow_prices([0.01], [0.5])[0], 0.01)

    def test_no_kind_has_no_price(self):
        self.assertEqual(0, len(shadow_prices([], [])))

    def test_a_fifth_that_names_a_quarter_of_the_site(self):
        # 0.8 of all spreads over 0.75 and what exp(-price / T) lets take of 0.25: 0.05 of it
        price = TEMPERATURE * np.log(0.25 / 0.05 * 0.75 / 0.75)
        self.assertAlmostEqual(price, shadow_prices([0.2], [0.25])[0], 9)

    def test_what_everybody_names_costs_nothing_where_there_is_enough(self):
        self.assertEqual([1.0, 0.0], shadow_prices([0.5, 0.5], [0.3, 0.7]).tolist())

    @quietly(200)
    @given(st.lists(st.tuples(PART, PART), min_size=1, max_size=4))
    def test_requests_that_name_nothing_take_what_the_others_leave(self, kinds):
        demand, supply = map(np.array, zip(*kinds, strict=True))
        prices = shadow_prices(demand, supply)
        self.assertTrue(((prices >= 0.0) & (prices <= 1.0)).all())
        weights = np.exp(-prices / TEMPERATURE)
        rate = (1.0 - demand.sum()) / (1.0 - supply.sum() + (supply * weights).sum())
        taken, left = rate * weights, 1.0 - demand / supply
        between = (prices > 0.0) & (prices < 1.0)
        np.testing.assert_allclose(taken[between], left[between], rtol=1e-6)
        self.assertTrue((taken[prices == 0.0] <= left[prices == 0.0] + 1e-6).all())
        self.assertTrue((taken[prices == 1.0] >= left[prices == 1.0] - 1e-6).all())
