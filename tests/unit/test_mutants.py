# SPDX-License-Identifier: Apache-2.0
"""The list of equivalent mutants is about code that is there, and says why for each."""

import re
import tomllib
import unittest

from tests.unit.structure import ROOT, every_module

LIST = ROOT / "tests" / "mutants" / "equivalent.toml"


def spaceless(text: str) -> str:
    return re.sub(r"\s", "", text)


class TestEquivalents(unittest.TestCase):
    """What ``make mutants`` does not count."""

    ENTRIES = tomllib.loads(LIST.read_text()).get("equivalent", [])

    def test_each_is_about_a_line_that_is_there_and_has_a_reason(self):
        modules = {module.name: module.path.read_text() for module in every_module()}
        for entry in self.ENTRIES:
            with self.subTest(entry["function"], line=entry["line"]):
                name = max((name for name in modules if entry["function"].startswith(f"{name}.")),
                           key=len)  # fmt: skip
                source = modules[name]
                self.assertIn(f"def {entry['function'].rpartition('.')[2]}(", source)
                self.assertIn(spaceless(entry["line"]), spaceless(source))
                self.assertTrue(entry["changes"])
                self.assertNotIn(entry["line"], entry["changes"])
                self.assertGreater(len(entry["reason"].split()), 3)

    def test_none_stands_twice(self):
        keys = [(one["function"], one["line"], change)
                for one in self.ENTRIES for change in one["changes"]]  # fmt: skip
        self.assertEqual(sorted(set(keys)), sorted(keys))
