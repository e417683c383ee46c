# SPDX-License-Identifier: Apache-2.0
"""Exact sums of the lines of a table, against fractions."""

import unittest
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.view.fragmentation import exact_sums

NUMBERS = st.floats(-1e15, 1e15)
LINES = st.integers(0, 40).flatmap(
    lambda size: st.lists(st.lists(NUMBERS, min_size=size, max_size=size), min_size=1, max_size=4)
)


class TestExactSums(unittest.TestCase):
    """Tables of finite numbers."""

    @quietly(200)
    @given(LINES)
    def test_the_parts_add_up_to_the_sum_of_the_line(self, lines):
        found = exact_sums(np.array(lines, dtype=float))
        for line, parts in zip(lines, found, strict=True):
            self.assertEqual(sum(map(Fraction, line)), sum(map(Fraction, parts)))

    def test_whole_numbers_have_one_part(self):
        self.assertEqual([(1225.0,), (0.5,)],
                         exact_sums(np.array([np.arange(50.0), [0.5] + [0.0] * 49])))  # fmt: skip

    def test_what_one_float_cannot_hold_has_several(self):
        ((*parts,),) = exact_sums(np.array([[1e16, 1.0, 2.0**-60]]))
        self.assertEqual(Fraction(10**16 + 1) + Fraction(1, 2**60), sum(map(Fraction, parts)))
        self.assertGreater(len(parts), 1)

    def test_nothing_has_no_part(self):
        self.assertEqual([(), ()], exact_sums(np.zeros((2, 3))))
        self.assertEqual([()], exact_sums(np.zeros((1, 0))))
        self.assertEqual([], exact_sums(np.zeros((0, 3))))

    def test_the_table_stays(self):
        table = np.array([[1e16, 1.0]])
        exact_sums(table)
        self.assertEqual([[1e16, 1.0]], table.tolist())
