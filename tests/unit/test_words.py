# SPDX-License-Identifier: Apache-2.0
"""The words of the documentation: standard terms, with the glossary's nouns as subjects."""

import re
import unittest
from pathlib import Path

from tests.unit.structure import ROOT

PAGES = (ROOT / "README.rst", *sorted((ROOT / "doc" / "source").rglob("*.rst")))
#: A word that no page has, and what to write.
INSTEAD = {
    r"nobody|somebody|anybody|whoever|whomever": "name the caller, the operator, the pod manager",
    r"whatever": "any, each",
    r"what is there|who logs in|who it was": "name the thing",
    r"by lot": "tie, broken by the seed",
    r"the same again|come to terms|for a word": "the standard term",
    r"thereof|therein|hereof": "of it, in it",
    r"is (?:said|told) (?:by|in|with)": "is set by, is specified with",
}
LITERAL = re.compile(r"``[^`]*``|`[^`]*`_?")
BLOCK = re.compile(r"^(?:\.\. code-block::.*|(?!\.\.).*::)\n(?:\n|[ ]{3,}.*\n)+", re.MULTILINE)


def _prose(page: Path) -> list[str]:
    """Return the lines of a page, those of code and screens empty."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text()).splitlines()


class TestWords(unittest.TestCase):
    maxDiff = None

    def test_no_page_has_a_word_that_is_no_term_of_the_field(self):
        found = [
            f"{page.relative_to(ROOT)}:{number}: {match[0]!r}: {instead}"
            for page in PAGES
            for number, line in enumerate(_prose(page), 1)
            for words, instead in INSTEAD.items()
            for match in re.finditer(rf"\b(?:{words})\b", LITERAL.sub("", line), re.IGNORECASE)
        ]
        self.assertEqual("", "\n".join(found))
