# SPDX-License-Identifier: Apache-2.0
"""SECURITY.rst: each test that it names exists."""

import ast
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.rst").read_text(encoding="utf-8")


def guarantees():
    """Return the names of the tests of each guarantee, by its text."""
    table = PAGE.partition("\nGuarantees\n")[2].partition("``doc/source")[0]
    rows = [row.partition("\n     - | ") for row in table.split("\n   * - ")[2:]]
    return {text: re.findall(r"``(tests\.[\w.]+)``", tests) for text, _, tests in rows}


def tests_of(name):
    """Return the names of the tests in a module, a class or a method.

    The module is not imported: some of them take seconds.
    """
    words, inside = name.split("."), []
    while not (path := ROOT.joinpath(*words).with_suffix(".py")).is_file():
        inside.insert(0, words.pop())
    nodes = [ast.parse(path.read_text(encoding="utf-8"))]
    for word in inside:
        nodes = [one for node in nodes for one in node.body if getattr(one, "name", "") == word]
    every = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.FunctionDef)]
    return [one.name for one in every if one.name.startswith("test_")]


class TestGuarantees(unittest.TestCase):
    def test_tests_hold_each(self):
        self.assertEqual(11, len(guarantees()))
        self.assertEqual([], [text for text, names in guarantees().items() if not names])

    def test_each_named_test_exists(self):
        for names in guarantees().values():
            for name in names:
                with self.subTest(name):
                    self.assertTrue(tests_of(name))


if __name__ == "__main__":
    unittest.main()
