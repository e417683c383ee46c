# SPDX-License-Identifier: Apache-2.0
"""The order of the pools, and the choice among them."""

import unittest

import msgspec
import numpy as np

from tests.unit.core.test_evaluate import ASKED, site
from valence_sched.core.fit.fit import Fit
from valence_sched.core.fit.spending import Undecided
from valence_sched.core.policy import INFINITE_COST
from valence_sched.core.ranking import (
    alternate_fits,
    batch_lots,
    choose_fit,
    draw_lots,
    order_by_lot,
    rank_rows,
)
from valence_sched.testing import view

BATCH = msgspec.structs.replace(ASKED, count=9)
#: What these rows drew on turns 0 and 3 since lots are drawn so.
RECORDED_LOTS = [7364972092233856716, 16576498745873898467, 13188716101872798616,
                 8416397781187786964, 18337321993921327294, 2798256574727370876]  # fmt: skip
RECORDED_LATER = [11848408305013334593, 8250155175741546073, 15642875105771184799,
                  10050397935796105940, 5513082353300930717, 9177245865611915930]  # fmt: skip


def fit_of(row: int) -> Fit:
    return Fit(row=row, blocks=(row,), grants=(), waste=0)


class TestRows(unittest.TestCase):
    """All rows ranked at once."""

    def test_the_cheapest_come_first_equals_by_their_lot_and_none_that_fail(self):
        cost = np.array([5, 2, INFINITE_COST, 2, 5, 0, 2, INFINITE_COST])
        seen = site(8)
        rows = list(rank_rows(seen, cost, ASKED, 0))
        self.assertEqual([5], rows[:1])
        self.assertEqual(order_by_lot(seen, np.array([1, 3, 6]), ASKED).tolist(), rows[1:4])
        self.assertEqual(order_by_lot(seen, np.array([0, 4]), ASKED).tolist(), rows[4:])
        self.assertEqual([5, 2, INFINITE_COST, 2, 5, 0, 2, INFINITE_COST], cost.tolist())
        self.assertEqual([], list(rank_rows(seen, np.full(8, INFINITE_COST), ASKED, 0)))
        self.assertEqual([], list(rank_rows(site(0), np.array([], dtype=np.int64), ASKED, 0)))

    def test_equals_are_in_the_same_order_on_every_turn(self):
        cost = np.zeros(30, dtype=np.int64)
        orders = {tuple(rank_rows(site(30), cost, BATCH, turn)) for turn in range(6)}
        self.assertEqual(1, len(orders))

    def test_a_lot_is_that_of_the_recorded_request(self):
        """A replay of years ago gives the order of years ago."""
        seen = site(6)
        asked = msgspec.structs.replace(ASKED, id="recorded", seed=7)
        self.assertEqual(RECORDED_LOTS, [int(lot) for lot in draw_lots(seen.lot, asked)])
        self.assertEqual(RECORDED_LATER, [int(lot) for lot in draw_lots(seen.lot, asked, 3)])

    def test_the_first_nodes_of_a_batch_share_one_draw_and_later_turns_have_their_own(self):
        seen, rows = site(20), np.array([3, 9, 4, 17])
        self.assertIs(batch_lots(seen, BATCH), batch_lots(seen, BATCH))
        self.assertEqual(draw_lots(seen.lot, BATCH).tolist(), batch_lots(seen, BATCH).tolist())
        for asked in (ASKED, BATCH):
            for turn in (0, 1, 2):
                lots = draw_lots(seen.lot, asked, turn)[rows]
                expected = [
                    row for _, row in sorted(zip(lots.tolist(), rows.tolist(), strict=True))
                ]
                self.assertEqual(expected, order_by_lot(seen, rows, asked, turn).tolist())

    def test_the_draw_of_another_request_is_not_remembered_for_this_one(self):
        seen = site(9)
        for other in (
            msgspec.structs.replace(BATCH, id="x"),
            msgspec.structs.replace(BATCH, seed=4),
        ):
            batch_lots(seen, BATCH)
            self.assertEqual(draw_lots(seen.lot, other).tolist(), batch_lots(seen, other).tolist())


class TestChoice(unittest.TestCase):
    """The fits of the first rows that have one."""

    def choose(self, finds, best_of=1, turn=0, without=(), seen=None):
        """Return the row that is chosen, the rows without a fit, those undecided, those asked."""
        asked, rows_without, undecided = [], set(without), set()

        def find(row):
            asked.append(row)
            return finds.get(row)

        chosen = choose_fit(seen or site(9), iter(range(9)), find, ASKED, best_of, turn,
                            rows_without, undecided)  # fmt: skip
        return chosen and chosen.row, rows_without, undecided, asked

    def test_the_first_row_with_a_fit_is_chosen_and_no_further_row_is_asked(self):
        finds = {2: fit_of(2), 3: fit_of(3)}
        self.assertEqual((2, {0, 1}, set(), [0, 1, 2]), self.choose(finds))

    def test_without_any_fit_every_row_is_noted(self):
        self.assertEqual((None, set(range(9)), set(), [*range(9)]), self.choose({}))

    def test_rows_known_to_have_no_fit_are_not_asked_again(self):
        finds = {row: fit_of(row) for row in range(9)}
        self.assertEqual((3, {0, 1, 2}, set(), [3]), self.choose(finds, without=(0, 1, 2)))

    def test_an_undecided_row_is_noted_apart_and_is_no_choice(self):
        finds = {0: Undecided(9), 2: fit_of(2)}
        self.assertEqual((2, {1}, {0}, [0, 1, 2]), self.choose(finds))
        self.assertEqual((None, {*range(1, 9)}, {0}, [*range(9)]), self.choose({0: Undecided(9)}))

    def test_of_the_best_few_one_is_chosen_by_lot_of_the_turn(self):
        finds = {row: fit_of(row) for row in (1, 3, 4, 6, 8)}
        seen = site(9)
        for turn in range(6):
            row, without, _, asked = self.choose(finds, 3, turn, seen=seen)
            lot = order_by_lot(seen, np.array([1, 3, 4]), ASKED, 1 + turn)
            self.assertEqual((lot[0], {0, 2}, [0, 1, 2, 3, 4]), (row, without, asked))

    def test_fewer_fits_than_the_best_few_are_all_there_is_to_choose_from(self):
        self.assertEqual(1, self.choose({1: fit_of(1)}, 3)[0])
        self.assertIn(self.choose({1: fit_of(1), 5: fit_of(5)}, 3)[0], (1, 5))


class TestAlternates(unittest.TestCase):
    """The next best pools, each on a podm of its own."""

    def alternates(self, finds, most: int, chosen: int = 0):
        pools = [{"id": "p"}, {"id": "q"}]
        seen = view(*({"id": str(number), "pools": pools} for number in range(4)))
        asked: list[int] = []

        def find(row: int):
            asked.append(row)
            return finds.get(row)

        found = alternate_fits(seen, iter(range(8)), find, fit_of(chosen), most)
        return [one.row for one in found], asked

    def test_each_is_on_another_podm_and_none_on_the_chosen_one(self):
        finds = {row: fit_of(row) for row in range(8)}
        self.assertEqual(([2, 4, 6], [2, 4, 6]), self.alternates(finds, 9))
        self.assertEqual(([0, 4, 6], [0, 4, 6]), self.alternates(finds, 9, chosen=3))

    def test_no_more_are_looked_for_than_are_wanted(self):
        finds = {row: fit_of(row) for row in range(8)}
        self.assertEqual(([2, 4], [2, 4]), self.alternates(finds, 2))
        self.assertEqual(([], []), self.alternates(finds, 0))

    def test_a_pool_without_a_fit_or_undecided_leaves_its_podm_to_the_next_pool(self):
        finds = {3: fit_of(3), 4: Undecided(9), 5: fit_of(5)}
        self.assertEqual(([3, 5], [2, 3, 4, 5, 6, 7]), self.alternates(finds, 9))
