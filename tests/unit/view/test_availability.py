# SPDX-License-Identifier: Apache-2.0
"""Where each need finds enough: by hand, by one grant, and noticed by whoever watches."""

import unittest

from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.availability import feasible_rows, infeasible_rows, sufficient
from valence_sched.view.overlay import Overlay
from valence_sched.view.tracking import track_view


def stock(podm: str, *totals: float) -> dict:
    stocks = [
        {"uri": f"s{number}", "resource": "gib", "unit": "GiB", "total": total}
        for number, total in enumerate(totals)
    ]
    return {"id": podm, "stocks": stocks}


SITE = view(stock("a", 100), stock("b", 50, 60))


def asked(amount: float) -> Request:
    return request({"stocks": [{"resource": "gib", "amount": amount}]})


class TestEnough(unittest.TestCase):
    """One stock of 100, and two of 50 and 60."""

    def test_a_stock_must_have_it_for_a_single_grant(self):
        for amount, expected in ((60, [True, True]), (61, [True, False]), (101, [False, False])):
            self.assertEqual(
                [expected], [m.tolist() for m in sufficient(SITE, asked(amount).needs)]
            )

    def test_where_no_row_lacks_any_it_is_every(self):
        (mask,) = sufficient(SITE, asked(60).needs)
        self.assertIs(SITE.all_rows, mask)

    def test_all_grants_together_must_be_there_too(self):
        asked_ = {"stocks": [{"resource": "gib", "amount": 40, "count": 3}]}
        needs = request(asked_).needs
        self.assertEqual([False, False], feasible_rows(SITE, needs).tolist())
        self.assertEqual([0, 1], infeasible_rows(SITE, needs).tolist())
        fewer = request({"stocks": [{"resource": "gib", "amount": 35, "count": 3}]}).needs
        self.assertEqual([1], feasible_rows(SITE, fewer).nonzero()[0].tolist())
        self.assertEqual([0], infeasible_rows(SITE, fewer).tolist())

    def test_where_nobody_lacks_anything_it_is_every_and_nobody(self):
        self.assertIs(SITE.all_rows, feasible_rows(SITE, asked(60).needs))
        self.assertEqual([], infeasible_rows(SITE, asked(60).needs).tolist())

    def test_what_was_found_is_forgotten_when_something_is_taken(self):
        draft, needs = Overlay(SITE), asked(60).needs
        self.assertTrue(sufficient(draft.view, needs)[0][0])
        undo = draft.allocate(0, (), ((0, 50.0),))
        self.assertFalse(sufficient(draft.view, needs)[0][0])
        undo()
        self.assertTrue(sufficient(draft.view, needs)[0][0])

    def test_whoever_looks_is_noticed_also_where_it_was_kept(self):
        needs = asked(5).needs
        sufficient(SITE, needs)
        watched = track_view(SITE)
        sufficient(watched, needs)
        self.assertTrue(watched.was_read)
