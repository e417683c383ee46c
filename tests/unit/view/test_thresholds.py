# SPDX-License-Identifier: Apache-2.0
"""Who has too little: the same answer however often it is asked."""

import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.view.availability import Threshold

AMOUNTS = st.integers(-2, 6).map(float)


class TestLow(unittest.TestCase):
    """Against comparing each."""

    @quietly(200)
    @given(st.lists(AMOUNTS, max_size=8), st.lists(AMOUNTS, max_size=6))
    def test_it_finds_each_row_that_has_less(self, have, asked):
        low = Threshold(np.array(have))
        for amount in asked:
            expected = [row for row, here in enumerate(have) if here < amount]
            self.assertEqual(expected, sorted(low.below(amount).tolist()))
