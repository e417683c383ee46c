# SPDX-License-Identifier: Apache-2.0
"""What a command waits for, in words that fit into a line."""

import unittest

from valence_sched_cli.output.progress import Awaited

WIDE = 200


class TestAwaited(unittest.TestCase):
    def setUp(self):
        self.awaited = Awaited()

    def test_nothing_is_said_of_nothing(self):
        self.assertEqual(("", False), (self.awaited.text(WIDE), bool(self.awaited)))
        self.awaited.set_count(1, 2, ["a"])
        self.awaited.unset_count()
        self.awaited.set_activity("a", "reading")
        self.awaited.unset_activity("a")
        self.awaited.unset_activity("never begun")
        self.assertEqual(("", False), (self.awaited.text(WIDE), bool(self.awaited)))

    def test_recorded_ones_are_only_counted(self):
        self.awaited.set_count(1512, None, ())
        self.assertEqual("read 1,512 pod managers", self.awaited.text(WIDE))

    def test_those_that_have_not_answered_are_named(self):
        for names, words in (
            (["a"], "a"),
            (["a", "b"], "a and b"),
            (["a", "b", "c"], "a, b and c"),
        ):
            self.awaited.set_count(5 - len(names), 5, names)
            text = f"read {5 - len(names)} of 5 pod managers, waiting for {words}"
            self.assertEqual(text, self.awaited.text(WIDE))
        self.awaited.set_count(5, 5, [])
        self.assertEqual("read 5 of 5 pod managers", self.awaited.text(WIDE))

    def test_those_that_do_not_fit_are_a_number(self):
        self.awaited.set_count(2, 1005, ["rack-1", "rack-2", "rack-3"])
        start = "read 2 of 1,005 pod managers, waiting for"
        for width, text in (
            (WIDE, f"{start} rack-1, rack-2, rack-3 and 1,000 more"),
            (75, f"{start} rack-1, rack-2 and 1,001 more"),
            (60, "read 2 of 1,005, waiting for rack-1 and 1,002 more"),
            (10, "read 2 of 1,005, waiting for rack-1 and 1,002 more"),
        ):
            with self.subTest(width):
                self.assertEqual(text, self.awaited.text(width))

    def test_what_is_done_goes_before_what_is_counted(self):
        self.awaited.set_count(1, None, ())
        self.awaited.set_activity("node a on rack-1", "allocating")
        self.awaited.set_activity("node a on rack-1", "assembling")
        self.assertEqual("node a on rack-1: assembling", self.awaited.text(WIDE))
        self.awaited.set_activity("node b on rack-2", "checking")
        both = "node a on rack-1: assembling and node b on rack-2: checking"
        self.assertEqual(both, self.awaited.text(WIDE))
        self.assertEqual("node a on rack-1: assembling and 1 more", self.awaited.text(50))

    def test_a_long_name_is_cut(self):
        self.awaited.set_count(0, 1, ["x" * 100])
        self.assertIn(f"waiting for {'x' * 39}…", self.awaited.text(WIDE))
