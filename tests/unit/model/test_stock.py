# SPDX-License-Identifier: Apache-2.0
"""The grants of one stock."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.fit import brute
from tests.unit.core.sites import quietly
from valence_sched.model.inventory import Stock, free_amount, grant_size, largest_grant

STOCKS = st.builds(
    Stock,
    uri=st.just("s"),
    resource=st.just("gib"),
    total=st.sampled_from([None, *map(float, range(15))]),
    used=st.integers(0, 6).map(float),
    min=st.integers(0, 5).map(float),
    max=st.sampled_from([None, 0.0, 3.0, 7.0, 12.0]),
    step=st.sampled_from([0.0, 1.0, 2.0, 5.0]),
)


class TestGrant(unittest.TestCase):
    """Least amounts."""

    @quietly(800)
    @given(STOCKS, st.integers(1, 10))
    def test_it_is_the_smallest_valid_amount_that_is_enough(self, stock, requested):
        self.assertEqual(brute.grants_of(stock, requested), grant_size(stock, requested))

    @quietly(400)
    @given(STOCKS)
    def test_the_largest_grant_is_the_largest_that_is_granted(self, stock):
        granted = [grant_size(stock, requested) for requested in range(1, 16)]
        self.assertEqual(max((g for g in granted if g), default=0), largest_grant(stock))

    def test_by_hand(self):
        # (words of the stock, asked, granted)
        for fields, requested, granted in (
            ({"total": 65536.0, "step": 64.0}, 1000, 1024),
            ({"total": 65536.0, "step": 64.0, "min": 2048.0}, 1000, 2048),
            ({"total": 1000.0}, 999.5, 999.5),
            ({"total": 1000.0, "used": 1.0}, 999.5, None),
            ({"total": 1000.0, "max": 100.0}, 101, None),
            ({"total": 100.0, "step": 64.0}, 65, None),
            ({"total": 10.0, "used": 12.0}, 1, None),
            ({}, 1, None),
            ({"total": 0.3, "step": 0.1}, 0.3, 0.3),
            ({"total": 1.05, "step": 0.35}, 1.05, 1.05),
        ):
            with self.subTest(words=fields, asked=requested):
                self.assertEqual(
                    granted, grant_size(Stock(uri="s", resource="r", **fields), requested)
                )

    def test_an_overdrawn_stock_has_nothing_left(self):
        self.assertEqual(0, free_amount(Stock(uri="s", resource="r", total=10.0, used=12.0)))
