# SPDX-License-Identifier: Apache-2.0
"""The glossary: each term has a class or module, and no name has a meaningless word."""

import ast
import re
import unittest
from collections.abc import Iterator

from tests.unit.structure import ROOT, every_module, public_classes

PAGE = (ROOT / "doc" / "source" / "concepts" / "glossary.rst").read_text(encoding="utf-8")
MOST_TERMS = 40
TERM = re.compile(r"^   (\w[^\n]*)\n      ((?:.*\n      )*.*)", re.MULTILINE)
SOURCE = re.compile(r":source:`([^`]+)`")
ROW = re.compile(r"^   \* - (.+)$", re.MULTILINE)
#: Words without meaning in a name.
RULED_OUT = """
alike ask asked asks becoming bond bonds census claimant common company deed draft ending
enough fallback fallbacks flip flips forms founding furnish gifts gives
granting greedy handler hands held helper
holdings impl joined judge judged judgement kept knows lacking looked losing low making
marks misc moves offered opinion pins possible pour preparation question reached reaper said seats
shapes sheet shelf spot spots standin standing stood thing things told unmade untold utils
visit wanted ware watched ways wire world worlds
"""
#: Words that fields, functions and parameters must not have either: the glossary has others for
#: them.
RENAMED = {
    "company": "group state",
    "bond": "topology constraint",
    "bonds": "topology",
    "fallback": "alternative",
    "fallbacks": "other alternatives",
    "elsewhere": "other zones",
    "gifts": "coverage",
    "gives": "coverage",
    "preparation": "bound policies",
    "tells": "reports",
    "told": "reported",
}
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
TERMS, EQUIVALENTS = PAGE.split("\nEquivalents\n===")


def names() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each module and public class."""
    for module in every_module():
        yield str(module.path.relative_to(ROOT)), module.address.rpartition("/")[2]
    for name, module, line in public_classes():
        yield module.at(line), name


def members() -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each function, parameter and field of a class."""
    for module in every_module():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                yield module.at(node.lineno), node.name
            elif isinstance(node, ast.arg):
                yield module.at(node.lineno), node.arg
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield module.at(node.lineno), node.target.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield module.at(node.lineno), node.attr


class TestGlossary(unittest.TestCase):
    maxDiff = None

    def test_a_term_stands_once_and_what_carries_it_exists(self):
        classes = {name for name, _, _ in public_classes()}
        known = classes.union(*((module.room, module.address) for module in every_module()))
        found = TERM.findall(TERMS)
        self.assertLessEqual(len(found), MOST_TERMS)
        self.assertEqual(len(found), len(dict(found)))
        for term, text in found:
            with self.subTest(term):
                self.assertTrue(SOURCE.findall(text))
                self.assertEqual(set(), set(SOURCE.findall(text)) - known)

    def test_each_equivalent_is_of_a_term(self):
        _, *rows = ROW.findall(EQUIVALENTS)
        self.assertTrue(rows)
        self.assertEqual([], [row for row in rows if row not in dict(TERM.findall(TERMS))])

    def test_no_module_and_no_public_class_has_a_word_that_is_ruled_out(self):
        wrong = [
            f"{place}: {name} has the word {word}"
            for place, name in names()
            for word in map(str.lower, WORD.findall(name))
            if word in RULED_OUT.split()
        ]
        self.assertEqual("", "\n".join(wrong))

    def test_no_public_member_has_a_word_that_another_replaced(self):
        public = [(place, name) for place, name in members() if not name.startswith("_")]
        self.assertGreater(len(public), 5000)
        wrong = [
            f"{place}: {name} has the word {word}: say {RENAMED[word]}"
            for place, name in public
            for word in map(str.lower, WORD.findall(name))
            if word in RENAMED
        ]
        self.assertEqual("", "\n".join(wrong))
