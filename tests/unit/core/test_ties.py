# SPDX-License-Identifier: Apache-2.0
"""Lots: the order of equals."""

import unittest
from collections import Counter

import msgspec
import numpy as np

from tests.unit.chi_square import chi_square
from tests.unit.core.test_evaluate import ASKED, site
from valence_sched.core.ranking import draw_lots, order_by_lot


class TestLots(unittest.TestCase):
    """Equals are drawn."""

    def test_ties_are_drawn_uniformly_over_3000_requests(self):
        seen, first, orders = site(3), Counter(), Counter()
        for number in range(3000):
            asked = msgspec.structs.replace(ASKED, id=f"request-{number}")
            order = tuple(order_by_lot(seen, np.arange(3), asked).tolist())
            first[order[0]] += 1
            orders[order] += 1
        self.assertLess(chi_square(first, 3), 9.21)  # 2 degrees of freedom, p = 0.01
        self.assertLess(chi_square(orders, 6), 15.09)  # 5 degrees of freedom, p = 0.01

    def test_seeds_draw_uniformly_too(self):
        seen, first = site(5), Counter()
        for seed in range(3000):
            asked = msgspec.structs.replace(ASKED, seed=seed)
            first[int(order_by_lot(seen, np.arange(5), asked)[0])] += 1
        self.assertLess(chi_square(first, 5), 13.28)  # 4 degrees of freedom, p = 0.01

    def test_a_draw_is_the_same_on_replay_and_another_for_another_seed(self):
        lots = site(50).lot
        other = msgspec.structs.replace(ASKED, seed=1)
        self.assertEqual(draw_lots(lots, ASKED, 0).tolist(), draw_lots(lots, ASKED, 0).tolist())
        self.assertNotEqual(draw_lots(lots, ASKED, 0).tolist(), draw_lots(lots, other, 0).tolist())

    def test_who_goes_first_does_not_depend_on_who_else_is_there(self):
        seen = site(20)
        order = order_by_lot(seen, np.arange(20), ASKED).tolist()
        few = [3, 7, 11, 19]
        self.assertEqual([row for row in order if row in few],
                         order_by_lot(seen, np.array(few), ASKED).tolist())  # fmt: skip
        part = seen.take(few)
        again = [few[row] for row in order_by_lot(part, np.arange(4), ASKED)]
        self.assertEqual([row for row in order if row in few], again)
