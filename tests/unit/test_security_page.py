# SPDX-License-Identifier: Apache-2.0
"""SECURITY.rst: each test that it names exists."""

import re
import unittest
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "SECURITY.rst").read_text(encoding="utf-8")


def guarantees():
    """Return the names of the tests of each guarantee, by its text."""
    table = PAGE.partition("\nGuarantees\n")[2].partition("``doc/source")[0]
    rows = [row.partition("\n     - | ") for row in table.split("\n   * - ")[2:]]
    return {text: re.findall(r"``(tests\.[\w.]+)``", tests) for text, _, tests in rows}


class TestGuarantees(unittest.TestCase):
    def test_tests_hold_each(self):
        self.assertEqual(11, len(guarantees()))
        self.assertEqual([], [text for text, names in guarantees().items() if not names])

    def test_each_named_test_exists(self):
        for names in guarantees().values():
            for name in names:
                with self.subTest(name):
                    loader = unittest.TestLoader()
                    self.assertTrue(loader.loadTestsFromName(name).countTestCases())
                    self.assertEqual([], loader.errors)


if __name__ == "__main__":
    unittest.main()
