# SPDX-License-Identifier: Apache-2.0
"""Lots: the order of equals."""

import unittest
from collections import Counter

import msgspec
import numpy as np

from tests.unit.chi_square import chi_square
from tests.unit.core.test_evaluate import ASKED, site
from valence_sched.core.fit.fit import Fit
from valence_sched.core.ranking import choose_fit, draw_lots, order_by_lot, pool_lot


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

    def test_each_turn_of_a_batch_is_a_draw_of_its_own(self):
        seen, rows = site(30), np.arange(30)
        for count in (1, 5):
            asked = msgspec.structs.replace(ASKED, count=count)
            orders = {tuple(order_by_lot(seen, rows, asked, turn).tolist()) for turn in range(9)}
            self.assertEqual(9, len(orders))
            lots = {tuple(draw_lots(seen.lot, asked, turn).tolist()) for turn in range(9)}
            self.assertEqual(9, len(lots))

    def test_each_turn_takes_another_one_of_the_best(self):
        seen = site(8)
        fits = [Fit(row=row, blocks=(), grants=(), waste=0) for row in range(8)]
        chosen = Counter()
        for turn in range(400):
            found = choose_fit(seen, iter(range(8)), fits.__getitem__, ASKED, 4, turn, set(), set())
            chosen[found.row] += 1
        self.assertEqual({0, 1, 2, 3}, set(chosen))
        self.assertLess(chi_square(chosen, 4), 11.34, chosen)  # 3 degrees of freedom, p = 0.01

    def test_the_lot_of_a_pool_is_the_same_wherever_it_is_drawn(self):
        seen = site(40)
        for turn in (0, 3):
            drawn = draw_lots(seen.lot, ASKED, turn).tolist()
            alone = [pool_lot(seen.podms[podm].id, pool.id, ASKED, turn)
                     for podm, pool in zip(seen.podm_of, seen.pools, strict=True)]  # fmt: skip
            self.assertEqual(drawn, alone)

    def test_who_goes_first_does_not_depend_on_who_else_is_there(self):
        seen = site(20)
        order = order_by_lot(seen, np.arange(20), ASKED).tolist()
        few = [3, 7, 11, 19]
        self.assertEqual([row for row in order if row in few],
                         order_by_lot(seen, np.array(few), ASKED).tolist())  # fmt: skip
        part = seen.take(few)
        again = [few[row] for row in order_by_lot(part, np.arange(4), ASKED)]
        self.assertEqual([row for row in order if row in few], again)
