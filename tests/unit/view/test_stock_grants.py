# SPDX-License-Identifier: Apache-2.0
"""The number of equal grants that the stocks of a row can make, against grants one by one."""

import unittest

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.model.test_stock import STOCKS
from valence_sched.core.fit.stocks import allocate
from valence_sched.model.inventory import free_amount, grant_size
from valence_sched.view.stock_grants import build_grants, no_grants
from valence_sched.view.stocks import grant_bounds

ENOUGH = 10_000_000  # states of a search
POOLS = st.lists(st.lists(STOCKS, max_size=4), min_size=1, max_size=3)


def count_grants(pool, amount):
    """Count by hand: grant again and again until no stock can."""
    number = 0
    for pool_stock in pool:
        stock = pool_stock
        while (granted := grant_size(stock, amount)) is not None:
            stock = msgspec.structs.replace(stock, used=stock.used + granted)
            number += 1
    return number


class TestSplice(unittest.TestCase):
    """Rows in the place of others."""

    def test_rows_without_stocks_are_those_of_nothing(self):
        for rows in (0, 1, 3):
            pairs = zip(build_grants([()] * rows).arrays(), no_grants(rows).arrays(), strict=True)
            for built, none in pairs:
                self.assertEqual((built.dtype, built.tolist()), (none.dtype, none.tolist()))
                self.assertFalse(none.flags.writeable)

    def test_what_does_not_change_is_shared(self):
        site = build_grants([[(4.0, 1.0, 8.0, 0.0)], [(5.0, 1.0, 8.0, 0.0)]])
        spliced = site.splice(1, 2, build_grants([[(3.0, 1.0, 8.0, 0.0)]]))
        self.assertEqual([4.0, 3.0], spliced.free.tolist())
        self.assertIs(site.start, spliced.start)
        self.assertIs(site.max, spliced.max)
        longer = site.splice(0, 1, build_grants([[(1.0, 0.0, 1.0, 0.0)], [(2.0, 0.0, 1.0, 0.0)]]))
        self.assertEqual(
            ([0, 1, 2, 3], [1.0, 2.0, 5.0]), (longer.start.tolist(), longer.free.tolist())
        )


class TestGrants(unittest.TestCase):
    """Exact for equal amounts, whatever min, max and step are (semantics.md 18)."""

    @quietly(400)
    @given(POOLS, st.integers(1, 8))
    def test_the_count_equals_grants_made_one_by_one(self, pools, amount):
        grants = build_grants([grant_bounds(pool) for pool in pools])
        by_hand = [count_grants(pool, amount) for pool in pools]
        self.assertEqual(by_hand, grants.grant_count(amount).tolist())

    @quietly(300)
    @given(POOLS, st.integers(1, 6), st.integers(1, 4))
    def test_as_many_can_be_allocated_as_are_counted(self, pools, amount, count):
        number = build_grants([grant_bounds(pool) for pool in pools]).grant_count(amount)
        for pool, most in zip(pools, number, strict=True):
            self.assertEqual(
                most >= count, allocate(pool, [amount] * count, ENOUGH).found is not None
            )

    @quietly(300)
    @given(POOLS, st.integers(1, 6))
    def test_one_grant_comes_from_the_stock_that_the_allocation_chooses(self, pools, amount):
        after = build_grants([grant_bounds(pool) for pool in pools]).after_grants(amount, 1)
        for row, pool in enumerate(pools):
            rest = [free_amount(stock) for stock in pool]
            for number, granted in allocate(pool, [amount], ENOUGH).found or []:
                rest[number] -= granted
            free_here = after.free[after.start[row] : after.start[row + 1]]
            self.assertEqual(rest or [0.0], free_here.tolist())

    def test_several_grants_empty_the_tightest_first(self):
        grants = build_grants([[(9.0, 0.0, np.inf, 0.0), (4.0, 0.0, np.inf, 0.0)]])
        self.assertEqual([7.0, 0.0], grants.after_grants(2.0, 3).free.tolist())
