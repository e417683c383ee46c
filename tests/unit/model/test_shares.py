# SPDX-License-Identifier: Apache-2.0
"""Shares of what there is: by hand numbers, and never stale once something is taken."""

import unittest

from valence_sched.model.draft import Draft
from valence_sched.model.request import Request
from valence_sched.model.shares import left
from valence_sched.model.watched import watch
from valence_sched.testing import request, view


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
            found = left(SITE, asked(amount).needs, "podm")
            self.assertEqual(expected, found.total.round(9).tolist())
            self.assertEqual([expected], found.shares.round(9).tolist())

    def test_it_is_told_of_how_many_needs_a_row_has_nothing_at_all(self):
        found = left(SITE, asked(20).needs * 2, "podm")
        self.assertEqual([0.0, 0.0, 2.0], found.none.tolist())
        self.assertIsNone(left(SITE.take([0, 1]), asked(20).needs, "podm").none)

    def test_what_was_added_up_is_forgotten_when_something_is_taken(self):
        draft, needs = Draft(SITE), asked(5).needs
        self.assertAlmostEqual(0.75, left(draft.view, needs, "podm").total[0])
        undo = draft.less(0, (), ((0, 30.0),))
        self.assertAlmostEqual(0.45, left(draft.view, needs, "podm").total[0])
        undo()
        self.assertAlmostEqual(0.75, left(draft.view, needs, "podm").total[0])

    def test_whoever_looks_is_noticed_also_where_it_was_kept(self):
        needs = asked(5).needs
        left(SITE, needs, "podm")
        watched = watch(SITE)
        watched.of_free(("left", "podm"), needs, self.fail)
        self.assertTrue(watched.looked)
