# SPDX-License-Identifier: Apache-2.0
"""The glossary: each term is carried by a class or module, and no name has a word it rules out."""

import re
import unittest
from collections.abc import Iterator

from tests.unit.structure import ROOT, every_module, public_classes

PAGE = (ROOT / "doc" / "source" / "concepts" / "glossary.rst").read_text(encoding="utf-8")
TERM = re.compile(r"^   (\w[^\n]*)\n      ((?:.*\n      )*.*)", re.MULTILINE)
SOURCE = re.compile(r":source:`([^`]+)`")
NOT = re.compile(r"^   \* - (.+)$", re.MULTILINE)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def terms() -> dict[str, str]:
    """Return the terms of the page with their texts."""
    return dict(TERM.findall(PAGE.partition("Words that name nothing")[0]))


def ruled_out() -> set[str]:
    """Return the words of the first column of the last table."""
    _, *cells = NOT.findall(PAGE.partition("Words that name nothing")[2])
    return {word for cell in cells for word in cell.split(", ")}


def names() -> Iterator[tuple[str, str]]:
    """Yield where a module or a public class is, and what it is called."""
    for module in every_module():
        yield str(module.path.relative_to(ROOT)), module.address.rpartition("/")[2]
    for name, module, line in public_classes():
        yield module.at(line), name


class TestGlossary(unittest.TestCase):
    maxDiff = None

    def test_each_term_stands_once_with_what_carries_it(self):
        found = [term for term, _ in TERM.findall(PAGE.partition("Words that name nothing")[0])]
        self.assertGreater(len(found), 60)
        self.assertEqual(sorted(set(found)), sorted(found))
        self.assertEqual([], [term for term, text in terms().items() if not SOURCE.search(text)])

    def test_what_carries_a_term_exists(self):
        classes = {name for name, _, _ in public_classes()}
        rooms = {module.room for module in every_module()}
        addresses = {module.address for module in every_module()}
        for term, text in terms().items():
            for name in SOURCE.findall(text):
                with self.subTest(term):
                    self.assertTrue(name in classes | rooms | addresses, name)

    def test_a_word_is_either_a_term_or_ruled_out(self):
        self.assertGreater(len(ruled_out()), 60)
        self.assertEqual(set(), ruled_out() & set(terms()))

    def test_no_module_and_no_public_class_has_a_word_that_is_ruled_out(self):
        wrong = [
            f"{place}: {name} has the word {word}"
            for place, name in names()
            for word in map(str.lower, WORD.findall(name))
            if word in ruled_out()
        ]
        self.assertEqual("", "\n".join(wrong))
