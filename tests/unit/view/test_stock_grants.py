# SPDX-License-Identifier: Apache-2.0
"""How many equal grants the stocks of a row hand out, against handing them out one by one."""

import unittest

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.model.test_stock import STOCKS
from valence_sched.core.fit.stock_allocation import allocate
from valence_sched.model.stock import free_amount, grant_size
from valence_sched.view.stock_grants import build_grants
from valence_sched.view.stocks import grant_bounds

POOLS = st.lists(st.lists(STOCKS, max_size=4), min_size=1, max_size=3)


def handed_out(pool, asked):
    """Count by hand: grant again and again until no stock can."""
    number = 0
    for one in pool:
        stock = one
        while (granted := grant_size(stock, asked)) is not None:
            stock = msgspec.structs.replace(stock, used=stock.used + granted)
            number += 1
    return number


class TestGrants(unittest.TestCase):
    """Exact for equal amounts, whatever min, max and step are (semantics.md 18)."""

    @quietly(400)
    @given(POOLS, st.integers(1, 8))
    def test_the_count_is_how_many_can_be_handed_out_one_by_one(self, pools, asked):
        found = build_grants([grant_bounds(pool) for pool in pools])
        by_hand = [handed_out(pool, asked) for pool in pools]
        self.assertEqual(by_hand, found.grant_count(asked).tolist())

    @quietly(300)
    @given(POOLS, st.integers(1, 6), st.integers(1, 4))
    def test_so_many_are_poured_just_when_they_are_counted(self, pools, asked, count):
        number = build_grants([grant_bounds(pool) for pool in pools]).grant_count(asked)
        for pool, most in zip(pools, number, strict=True):
            self.assertEqual(most >= count, allocate(pool, [asked] * count) is not None)

    @quietly(300)
    @given(POOLS, st.integers(1, 6))
    def test_one_grant_comes_from_the_stock_that_is_poured_from(self, pools, asked):
        after = build_grants([grant_bounds(pool) for pool in pools]).after_grants(asked, 1)
        for row, pool in enumerate(pools):
            rest = [free_amount(stock) for stock in pool]
            for number, granted in allocate(pool, [asked]) or []:
                rest[number] -= granted
            here = after.free[after.start[row] : after.start[row + 1]]
            self.assertEqual(rest or [0.0], here.tolist())

    def test_several_grants_empty_the_tightest_first(self):
        found = build_grants([[(9.0, 0.0, np.inf, 0.0), (4.0, 0.0, np.inf, 0.0)]])
        self.assertEqual([7.0, 0.0], found.after_grants(2.0, 3).free.tolist())
