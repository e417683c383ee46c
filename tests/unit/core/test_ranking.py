# SPDX-License-Identifier: Apache-2.0
"""An updated order is the order that ranking anew would give."""

import itertools
import unittest

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.core.test_evaluate import ASKED, site
from valence_sched.core.evaluation import INFINITE_COST
from valence_sched.core.ranking import MIN_TURNS, MOST_CHANGES, RankedRows, rank_rows

SIZE = 3 * MOST_CHANGES
SITE = site(SIZE)
COSTS = st.one_of(st.integers(0, 3), st.integers(0, 2_000_000), st.just(int(INFINITE_COST)))
MOVES = st.dictionaries(st.integers(0, SIZE - 1), COSTS, max_size=4)
ALL = st.lists(COSTS, min_size=SIZE, max_size=SIZE)
BATCH = msgspec.structs.replace(ASKED, count=9)


class TestRanking(unittest.TestCase):
    """Turn after turn."""

    @quietly(150)
    @given(ALL, st.lists(st.one_of(MOVES, MOVES, MOVES, ALL), max_size=12), st.data())
    def test_it_is_the_order_of_ranking_anew_whatever_moved_and_however_far_it_is_read(
        self, costs, turns, data
    ):
        cost, ranking = np.array(costs), RankedRows()
        for turn, moves in enumerate(turns):
            self.alike(cost, ranking, turn, data.draw(st.integers(0, SIZE), "read"))
            rows = list(moves) if isinstance(moves, dict) else range(SIZE)
            cost[rows] = list(moves.values()) if isinstance(moves, dict) else moves
            ranking.note_changes(np.array(rows))
        self.alike(cost, ranking, len(turns), SIZE)

    def alike(self, cost: np.ndarray, ranking: RankedRows, turn: int, most: int) -> None:
        """Check the first rows, asked for twice on one turn."""
        expected = list(itertools.islice(rank_rows(SITE, cost, BATCH, turn), most))
        for _ in range(2):
            rows = ranking.rows(SITE, cost, BATCH, turn)
            self.assertEqual(expected, list(itertools.islice(rows, most)))

    def test_a_long_batch_takes_the_best_and_puts_it_back_anywhere(self):
        draw = np.random.default_rng(1)
        cost, ranking = draw.integers(0, 400, SIZE), RankedRows()
        for turn in range(600):
            row = next(ranking.rows(SITE, cost, BATCH, turn))
            self.assertEqual(next(rank_rows(SITE, cost, BATCH, turn)), row)
            self.assertIs(int, type(row))
            cost[row] = draw.integers(0, 800)
            ranking.note_changes(range(row, row + 1))

    def test_what_it_is_not_told_it_does_not_see(self):
        """The order is updated, or the tests above would compare ranking with itself."""
        cost, ranking = np.arange(SIZE), RankedRows()
        ranking.note_changes([0])
        self.assertEqual(0, next(ranking.rows(SITE, cost, BATCH, MIN_TURNS)))
        cost[SIZE - 1] = -1
        self.assertEqual(0, next(ranking.rows(SITE, cost, BATCH, MIN_TURNS)))
