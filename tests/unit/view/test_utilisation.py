# SPDX-License-Identifier: Apache-2.0
"""Free shares: against numbers by hand, and never stale after an allocation."""

import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.overlay import Overlay
from valence_sched.view.tracking import track_view
from valence_sched.view.utilisation import free_share, free_share_squared, weighted_sum


def stock(podm: str, total: float, used: float = 0.0) -> dict:
    stock_ = {"uri": "s", "resource": "gib", "unit": "GiB", "total": total, "used": used}
    return {"id": podm, "stocks": [stock_]}


SITE = view(stock("a", 100, 20), stock("b", 50, 40), {"id": "c"})


def stock_request(amount: float) -> Request:
    return request({"stocks": [{"resource": "gib", "amount": amount}]})


class TestShares(unittest.TestCase):
    """Of 80 out of 100, 10 out of 50, and nothing at all."""

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
