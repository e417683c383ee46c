# SPDX-License-Identifier: Apache-2.0
"""Rows with sufficient and with insufficient free capacity, by hand and as tracked reads."""

import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.availability import Threshold, feasible_rows, infeasible_rows, sufficient
from valence_sched.view.overlay import Overlay
from valence_sched.view.tracking import track_view


def stock(podm: str, *totals: float) -> dict:
    stocks = [
        {"uri": f"s{number}", "resource": "gib", "unit": "GiB", "total": total}
        for number, total in enumerate(totals)
    ]
    return {"id": podm, "stocks": stocks}


SITE = view(stock("a", 100), stock("b", 50, 60))

AMOUNTS = st.integers(-2, 6).map(float)


def stock_request(amount: float) -> Request:
    return request({"stocks": [{"resource": "gib", "amount": amount}]})


class TestAvailability(unittest.TestCase):
    """One stock of 100, and two of 50 and 60."""

    def test_a_stock_must_have_it_for_a_single_grant(self):
        for amount, expected in ((60, [True, True]), (61, [True, False]), (101, [False, False])):
            self.assertEqual(
                [expected], [m.tolist() for m in sufficient(SITE, stock_request(amount).needs)]
            )

    def test_the_mask_is_all_rows_itself_where_every_row_has_enough(self):
        (mask,) = sufficient(SITE, stock_request(60).needs)
        self.assertIs(SITE.all_rows, mask)

    def test_all_grants_together_must_be_free_too(self):
        properties = {"stocks": [{"resource": "gib", "amount": 40, "count": 3}]}
        needs = request(properties).needs
        self.assertEqual([False, False], feasible_rows(SITE, needs).tolist())
        self.assertEqual([0, 1], infeasible_rows(SITE, needs).tolist())
        fewer = request({"stocks": [{"resource": "gib", "amount": 35, "count": 3}]}).needs
        self.assertEqual([1], feasible_rows(SITE, fewer).nonzero()[0].tolist())
        self.assertEqual([0], infeasible_rows(SITE, fewer).tolist())

    def test_where_all_rows_are_feasible_none_is_infeasible(self):
        self.assertIs(SITE.all_rows, feasible_rows(SITE, stock_request(60).needs))
        self.assertEqual([], infeasible_rows(SITE, stock_request(60).needs).tolist())

    def test_an_allocation_invalidates_the_remembered_answer(self):
        overlay, needs = Overlay(SITE), stock_request(60).needs
        self.assertTrue(sufficient(overlay.view, needs)[0][0])
        undo = overlay.allocate(0, (), ((0, 50.0),))
        self.assertFalse(sufficient(overlay.view, needs)[0][0])
        undo()
        self.assertTrue(sufficient(overlay.view, needs)[0][0])

    def test_a_remembered_answer_is_tracked_as_a_read_too(self):
        needs = stock_request(5).needs
        sufficient(SITE, needs)
        tracked = track_view(SITE)
        sufficient(tracked, needs)
        self.assertTrue(tracked.was_read)


class TestThreshold(unittest.TestCase):
    """Against a comparison of each row."""

    @quietly(200)
    @given(st.lists(AMOUNTS, max_size=8), st.lists(AMOUNTS, max_size=6))
    def test_it_finds_each_row_that_has_less(self, have, amounts):
        threshold = Threshold(np.array(have))
        for amount in amounts:
            expected = [row for row, amount_here in enumerate(have) if amount_here < amount]
            self.assertEqual(expected, sorted(threshold.below(amount).tolist()))
