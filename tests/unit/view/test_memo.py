# SPDX-License-Identifier: Apache-2.0
"""A memo stays within its bound."""

import unittest

from valence_sched.view.block_kinds import BoundedMemo


class TestBoundedMemo(unittest.TestCase):
    """Storing and dropping."""

    def test_a_stored_value_is_returned_and_read_again(self):
        memo = BoundedMemo(2)
        self.assertEqual(1, memo.store("a", 1))
        self.assertEqual(1, memo.get("a"))
        self.assertIsNone(memo.get("b"))

    def test_a_full_memo_drops_all_values_before_the_next(self):
        memo = BoundedMemo(2)
        for number, key in enumerate("abc"):
            memo.store(key, number)
        self.assertEqual({"c": 2}, memo)

    def test_a_copy_is_of_its_own(self):
        memo = BoundedMemo(2)
        memo.store("a", 1)
        copy = BoundedMemo(2, memo.items())
        copy.store("b", 2)
        self.assertEqual({"a": 1}, memo)
        self.assertEqual({"a": 1, "b": 2}, copy)
