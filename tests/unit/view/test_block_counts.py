# SPDX-License-Identifier: Apache-2.0
"""Counts of blocks per row and kind, as flat arrays."""

import unittest

import numpy as np

from valence_sched.view.block_counts import count_blocks


def counts():
    """Rows 0 and 2 have blocks of kinds 1 and 2; row 1 has none."""
    rows, kinds = np.array([2, 0, 0, 2, 0]), np.array([1, 2, 1, 1, 1])
    return count_blocks(rows, kinds, np.array([1.0, 0.0, 1.0, 1.0, 0.0]), 3, 3)


class TestBlockCounts(unittest.TestCase):
    """Sums, windows, selections and replacements by hand."""

    AMOUNTS = np.array([0.0, 10.0, 7.0])

    def test_sums_per_row(self):
        self.assertEqual([10, 0, 20], counts().sum(self.AMOUNTS, free=True).tolist())
        self.assertEqual([27, 0, 20], counts().sum(self.AMOUNTS, free=False).tolist())

    def test_kinds_of_a_row_are_those_that_have_a_free_block(self):
        self.assertEqual([(1, 1)], counts().kinds(0))
        self.assertEqual([], counts().kinds(1))
        self.assertEqual([(1, 2)], counts().kinds(2))

    def test_an_entry_is_found_in_its_own_row(self):
        rows, kinds = np.array([2, 0, 1, 2, 0]), np.array([1, 2, 0, 0, 1])
        result = counts().entries(rows, kinds)
        self.assertEqual(kinds.tolist(), counts().kind[result].tolist())
        low, high = counts().start[rows], counts().start[rows + 1]
        self.assertTrue(((low <= result) & (result < high)).all())

    def test_a_window_and_a_selection_have_the_sums_of_their_rows(self):
        whole = counts().sum(self.AMOUNTS, free=False)
        part = counts().window(1, 3)
        self.assertEqual(whole[1:].tolist(), part.sum(self.AMOUNTS, free=False).tolist())
        part = counts().take(np.array([2, 0, 2]))
        self.assertEqual(whole[[2, 0, 2]].tolist(), part.sum(self.AMOUNTS, free=False).tolist())
        self.assertEqual(3, len(part))

    def test_a_replaced_row_may_have_more_or_fewer_rows_and_kinds(self):
        two = count_blocks(np.array([0, 1, 1]), np.array([2, 1, 2]), np.ones(3), 2, 3)
        result = counts().splice(0, 1, two).sum(self.AMOUNTS, free=True)
        self.assertEqual([7, 17, 0, 20], result.tolist())
        none = count_blocks(np.empty(0, int), np.empty(0, int), np.empty(0), 1, 3)
        result = counts().splice(0, 2, none).sum(self.AMOUNTS, free=True)
        self.assertEqual([0, 20], result.tolist())
