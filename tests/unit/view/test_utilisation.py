# SPDX-License-Identifier: Apache-2.0
"""Free shares: compared with numbers by hand, and never stale after an allocation."""

import unittest

import numpy as np
from hypothesis import given, strategies as st

from tests.unit.core.sites import quietly
from valence_sched.core.evaluation import track_view
from valence_sched.model.need import Need
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.availability import (
    feasible_rows,
    free_share,
    free_share_squared,
    infeasible_rows,
    sufficient,
    weighted_sum,
)
from valence_sched.view.overlay import Overlay


def stock(podm: str, total: float, used: float = 0.0) -> dict:
    stock_ = {"uri": "s", "resource": "gib", "unit": "GiB", "total": total, "used": used}
    return {"id": podm, "stocks": [stock_]}


SITE = view(stock("a", 100, 20), stock("b", 50, 40), {"id": "c"})


def stock_request(amount: float) -> Request:
    return request({"stocks": [{"resource": "gib", "amount": amount}]})


class TestShares(unittest.TestCase):
    """80 of 100, 10 of 50, and nothing at all."""

    def test_the_share_is_0_of_infeasible_rows_and_of_a_total_of_0(self):
        for amount, expected in ((5, [0.75, 0.1, 0.0]), (20, [0.6, 0.0, 0.0])):
            share = free_share(SITE, stock_request(amount).needs, "podm")
            self.assertEqual(expected, share.mean.round(9).tolist())

    @quietly(100)
    @given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 1)), min_size=1, max_size=6),
           st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=4))  # fmt: skip
    def test_it_equals_the_computation_row_by_row(self, pods, amounts):
        site = view(*(stock(f"p{n}", total, total * used) for n, (total, used) in enumerate(pods)))
        needs = tuple([need for amount in amounts for need in stock_request(amount).needs])
        mean, squared = (
            free_share(site, needs, "podm").mean,
            free_share_squared(site, needs, "podm"),
        )
        for row, free in enumerate(site.resources["gib"].free.tolist()):
            if free < max(amounts):
                self.assertEqual(0.0, mean[row])
                continue
            shares = [(free - amount) / site.resources["gib"].total[row] for amount in amounts]
            self.assertAlmostEqual(sum(shares) / len(shares), mean[row], delta=1e-12)
            square = sum(share * share for share in shares) / len(shares)
            self.assertAlmostEqual(square, squared[row], delta=1e-12)

    @quietly(50)
    @given(st.data())
    def test_a_selection_of_columns_has_the_same_sums(self, data):
        random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        rows, columns = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 60))
        table, weights = random.uniform(0, 3, (rows, columns)), random.uniform(-1, 1, rows)
        whole = weighted_sum(table, weights)
        first = data.draw(st.integers(0, columns - 1))
        last = data.draw(st.integers(first + 1, columns))
        for part in (table[:, first:last], table[:, first:last].copy()):
            self.assertEqual(whole[first:last].tolist(), weighted_sum(part, weights).tolist())
        np.testing.assert_allclose(whole, weights @ table, rtol=0, atol=1e-12)

    def test_it_has_the_share_of_needs_of_which_a_row_has_nothing(self):
        share = free_share(SITE, stock_request(20).needs * 2, "podm")
        self.assertEqual([0.0, 0.0, 1.0], share.absent.tolist())
        self.assertIsNone(free_share(SITE.take([0, 1]), stock_request(20).needs, "podm").absent)

    def test_an_allocation_invalidates_the_remembered_share(self):
        overlay, needs = Overlay(SITE), stock_request(5).needs
        self.assertAlmostEqual(0.75, free_share(overlay.view, needs, "podm").mean[0])
        undo = overlay.allocate(0, (), ((0, 30.0),))
        self.assertAlmostEqual(0.45, free_share(overlay.view, needs, "podm").mean[0])
        undo()
        self.assertAlmostEqual(0.75, free_share(overlay.view, needs, "podm").mean[0])

    def test_a_remembered_share_is_tracked_as_a_read_too(self):
        needs = stock_request(5).needs
        free_share(SITE, needs, "podm")
        tracked = track_view(SITE)
        tracked.memoise_free(("free share", "podm"), needs, self.fail)
        self.assertTrue(tracked.was_read)


def stocks(podm: str, *totals: float) -> dict:
    stocks = [
        {"uri": f"s{number}", "resource": "gib", "unit": "GiB", "total": total}
        for number, total in enumerate(totals)
    ]
    return {"id": podm, "stocks": stocks}


STOCK_SITE = view(stocks("a", 100), stocks("b", 50, 60))

AMOUNTS = st.integers(-2, 6).map(float)


class TestAvailability(unittest.TestCase):
    """One stock of 100, and two of 50 and 60."""

    def test_a_stock_must_have_it_for_a_single_grant(self):
        for amount, expected in ((60, [True, True]), (61, [True, False]), (101, [False, False])):
            self.assertEqual(
                [expected],
                [m.tolist() for m in sufficient(STOCK_SITE, stock_request(amount).needs)],
            )

    def test_the_mask_is_all_rows_itself_where_every_row_has_enough(self):
        (mask,) = sufficient(STOCK_SITE, stock_request(60).needs)
        self.assertIs(STOCK_SITE.all_rows, mask)

    def test_all_grants_together_must_be_free_too(self):
        properties = {"stocks": [{"resource": "gib", "amount": 40, "count": 3}]}
        needs = request(properties).needs
        self.assertEqual([False, False], feasible_rows(STOCK_SITE, needs).tolist())
        self.assertEqual([0, 1], infeasible_rows(STOCK_SITE, needs).tolist())
        fewer = request({"stocks": [{"resource": "gib", "amount": 35, "count": 3}]}).needs
        self.assertEqual([1], feasible_rows(STOCK_SITE, fewer).nonzero()[0].tolist())
        self.assertEqual([0], infeasible_rows(STOCK_SITE, fewer).tolist())

    def test_where_all_rows_are_feasible_none_is_infeasible(self):
        self.assertIs(STOCK_SITE.all_rows, feasible_rows(STOCK_SITE, stock_request(60).needs))
        self.assertEqual([], infeasible_rows(STOCK_SITE, stock_request(60).needs).tolist())

    def test_an_allocation_invalidates_the_remembered_answer(self):
        overlay, needs = Overlay(STOCK_SITE), stock_request(60).needs
        self.assertTrue(sufficient(overlay.view, needs)[0][0])
        undo = overlay.allocate(0, (), ((0, 50.0),))
        self.assertFalse(sufficient(overlay.view, needs)[0][0])
        undo()
        self.assertTrue(sufficient(overlay.view, needs)[0][0])

    def test_a_remembered_answer_is_tracked_as_a_read_too(self):
        needs = stock_request(5).needs
        sufficient(STOCK_SITE, needs)
        tracked = track_view(STOCK_SITE)
        sufficient(tracked, needs)
        self.assertTrue(tracked.was_read)


class TestSufficient(unittest.TestCase):
    """Compared with a check of each row."""

    @quietly(40)
    @given(st.lists(AMOUNTS.map(abs), min_size=1, max_size=8), st.lists(AMOUNTS, min_size=1))
    def test_it_is_each_row_that_has_enough(self, have, amounts):
        site = view(*(stock(str(number), total) for number, total in enumerate(have)))
        totals = [float(total) for total in have]
        for amount in amounts:
            needs = (Need(kind="stock", measure="amount", amount=amount, resource="gib"),)
            (mask,) = sufficient(site, needs)
            self.assertEqual([total >= amount for total in totals], mask.tolist())
