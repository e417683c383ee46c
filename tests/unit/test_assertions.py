# SPDX-License-Identifier: Apache-2.0
"""Tests replace no assertion: a method with the name of a unittest method would override it.

``assertEqual`` of two lists calls ``self.fail``: a test with its own ``fail`` cannot fail.
"""

import ast
import re
import unittest
from pathlib import Path

from tests.unit.structure import ROOT

#: Methods that a test case should define, or may define.
FIXTURES = {"setUp", "tearDown", "setUpClass", "tearDownClass", "maxDiff", "longMessage"}
OF_UNITTEST = {*dir(unittest.TestCase)} - {*dir(object)} - FIXTURES
DEFINED = re.compile(rf"def ({'|'.join(OF_UNITTEST)})\(")
WORDS = "from unittest import TestCase\nclass A(TestCase):\n    def {name}(self): ...\n"


def replaced(tree: ast.Module) -> list[str]:
    """Return the unittest names that test classes define."""
    return [
        f"{case.name}.{one.name}"
        for case in ast.walk(tree) if isinstance(case, ast.ClassDef)
        if case.name.startswith("Test") or any("Case" in ast.unparse(base) for base in case.bases)
        for one in case.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        if one.name in OF_UNITTEST
    ]  # fmt: skip


def tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


class TestAssertions(unittest.TestCase):
    """No test class replaces an assertion."""

    def test_no_method_has_the_name_of_one_of_unittest(self):
        found = {
            str(path.relative_to(ROOT)): names
            for path in tests()
            if DEFINED.search(text := path.read_text())
            if (names := replaced(ast.parse(text)))
        }
        self.assertEqual({}, found)

    def test_one_that_has_is_found(self):
        for name, expected in (
            ("fail", ["A.fail"]),
            ("assertEqual", ["A.assertEqual"]),
            ("setUp", []),
            ("test_fail", []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, replaced(ast.parse(WORDS.format(name=name))))
