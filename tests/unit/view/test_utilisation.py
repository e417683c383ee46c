# SPDX-License-Identifier: Apache-2.0
"""Shares of what there is: by hand numbers, and never stale once something is taken."""

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
    one = {"uri": "s", "resource": "gib", "unit": "GiB", "total": total, "used": used}
    return {"id": podm, "stocks": [one]}


SITE = view(stock("a", 100, 20), stock("b", 50, 40), {"id": "c"})


def asked(amount: float) -> Request:
    return request({"stocks": [{"resource": "gib", "amount": amount}]})


class TestShares(unittest.TestCase):
    """Of 80 out of 100, 10 out of 50, and nothing at all."""

    def test_what_lacks_leaves_nothing_and_of_nothing_nothing_is_left(self):
        for amount, expected in ((5, [0.75, 0.1, 0.0]), (20, [0.6, 0.0, 0.0])):
            found = free_share(SITE, asked(amount).needs, "podm")
            self.assertEqual(expected, found.mean.round(9).tolist())

    @quietly(100)
    @given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 1)), min_size=1, max_size=6),
           st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=4))  # fmt: skip
    def test_it_is_what_each_row_says_by_itself(self, pods, amounts):
        site = view(*(stock(f"p{n}", total, total * used) for n, (total, used) in enumerate(pods)))
        needs = tuple([need for amount in amounts for need in asked(amount).needs])
        mean, squared = (
            free_share(site, needs, "podm").mean,
            free_share_squared(site, needs, "podm"),
        )
        for row, each in enumerate(site.resources["gib"].free.tolist()):
            if each < max(amounts):
                self.assertEqual(0.0, mean[row])
                continue
            shares = [(each - amount) / site.resources["gib"].total[row] for amount in amounts]
            self.assertAlmostEqual(sum(shares) / len(shares), mean[row], delta=1e-12)
            square = sum(share * share for share in shares) / len(shares)
            self.assertAlmostEqual(square, squared[row], delta=1e-12)

    @quietly(50)
    @given(st.data())
    def test_rows_by_themselves_are_added_up_as_among_others(self, drawn):
        random = np.random.default_rng(drawn.draw(st.integers(0, 2**32)))
        rows, columns = drawn.draw(st.integers(1, 12)), drawn.draw(st.integers(1, 60))
        table, weights = random.uniform(0, 3, (rows, columns)), random.uniform(-1, 1, rows)
        whole = weighted_sum(table, weights)
        first = drawn.draw(st.integers(0, columns - 1))
        last = drawn.draw(st.integers(first + 1, columns))
        for part in (table[:, first:last], table[:, first:last].copy()):
            self.assertEqual(whole[first:last].tolist(), weighted_sum(part, weights).tolist())
        np.testing.assert_allclose(whole, weights @ table, rtol=0, atol=1e-12)

    def test_it_is_told_of_how_many_needs_a_row_has_nothing_at_all(self):
        found = free_share(SITE, asked(20).needs * 2, "podm")
        self.assertEqual([0.0, 0.0, 1.0], found.absent.tolist())
        self.assertIsNone(free_share(SITE.take([0, 1]), asked(20).needs, "podm").absent)

    def test_what_was_added_up_is_forgotten_when_something_is_taken(self):
        draft, needs = Overlay(SITE), asked(5).needs
        self.assertAlmostEqual(0.75, free_share(draft.view, needs, "podm").mean[0])
        undo = draft.allocate(0, (), ((0, 30.0),))
        self.assertAlmostEqual(0.45, free_share(draft.view, needs, "podm").mean[0])
        undo()
        self.assertAlmostEqual(0.75, free_share(draft.view, needs, "podm").mean[0])

    def test_whoever_looks_is_noticed_also_where_it_was_kept(self):
        needs = asked(5).needs
        free_share(SITE, needs, "podm")
        watched = track_view(SITE)
        watched.memoise_free(("left", "podm"), needs, self.fail)
        self.assertTrue(watched.was_read)
