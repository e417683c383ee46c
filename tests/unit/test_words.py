# SPDX-License-Identifier: Apache-2.0
"""The words of documentation, messages and comments: standard terms of the field."""

import re
import tokenize
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.unit.structure import PACKAGES, ROOT

PAGES = (ROOT / "README.rst", *sorted((ROOT / "doc" / "source").rglob("*.rst")))
NOTES = sorted((ROOT / "releasenotes" / "notes").glob("*.yaml"))
EXAMPLES = sorted(
    path
    for folder in ("examples", "doc/source/examples")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.suffix != ".txt"
)
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
#: Words that must not be on a page or in a release note, and their replacements.
INSTEAD = {
    r"nobody|somebody|anybody|whoever|whomever": "name the caller, the operator, the pod manager",
    r"whatever": "any, each",
    r"what is there|who logs in|who it was": "name the thing",
    r"by lot": "tie, broken by the seed",
    r"the same again|come to terms|for a word": "the standard term",
    r"thereof|therein|hereof": "of it, in it",
    r"is (?:said|told) (?:by|in|with)": "is set by, is specified with",
    r"but for|named alike": "except for, of the same name",
    r"lands? again": "is re-placed",
    r"says? so": "states this, with a warning, with a remark",
    r"in a row": "consecutive",
    r"(?:eight|nine) tenths|a tenth|nine(?:teen)? of (?:ten|twenty)": "a percentage",
    r"(?:no|without a|finds? a) place": "does not fit, is re-placed",
}
#: Words that must not be in a string, docstring or comment, and their replacements.
INSTEAD_IN_SOURCES = {
    r"what is there|who logs in|who it was": "name the thing",
    r"by lot": "tie, broken by the seed",
    r"the same again|come to terms|for a word": "the standard term",
    r"thereof|therein|hereof": "of it, in it",
    r"is (?:said|told) (?:by|in|with)": "is set by, is specified with",
    r"broken off": "interrupted",
    r"no one|somebody's|others'|else's": "name the caller, the operator, the pod manager",
    r"lets? in": "authenticates, accepts",
    r"goes? by|bears?|for want of": "the standard term",
    r"but for|named alike": "except for, of the same name",
    r"lands? again": "is re-placed",
}
LITERAL = re.compile(r"``[^`]*``|`[^`]*`_?")
BLOCK = re.compile(r"^(?:\.\. code-block::.*|(?!\.\.).*::)\n(?:\n|[ ]{3,}.*\n)+", re.MULTILINE)


def _prose(page: Path) -> list[str]:
    """Return the lines of a page or a note, with empty lines for code and screens."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text()).splitlines()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _strings_and_comments(path: Path) -> list[str]:
    """Return the lines of a source file with only its strings, docstrings and comments."""
    lines = [""] * (len(path.read_text().splitlines()) + 1)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                for number, line in enumerate(token.string.splitlines(), token.start[0] - 1):
                    lines[number] += f" {line}"
    return lines


class TestWords(unittest.TestCase):
    maxDiff = None

    def test_no_page_has_a_word_that_is_no_term_of_the_field(self):
        self.check(PAGES, _prose, INSTEAD)

    def test_no_release_note_has_a_word_that_is_no_term_of_the_field(self):
        self.check(NOTES, _prose, INSTEAD)

    def test_no_example_has_a_word_that_is_no_term_of_the_field(self):
        self.check(EXAMPLES, _lines, INSTEAD)

    def test_no_string_or_comment_has_a_word_that_is_no_term_of_the_field(self):
        self.check(SOURCES, _strings_and_comments, INSTEAD_IN_SOURCES)

    def check(
        self, files: Iterable[Path], lines: Callable[[Path], list[str]], instead: dict[str, str]
    ) -> None:
        """Fail with a line for each word in the files that must be replaced."""
        any_words = re.compile(rf"\b(?:{'|'.join(instead)})\b", re.IGNORECASE)
        found = [
            f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: {hint}"
            for path in files
            for number, line in enumerate(lines(path), 1)
            if any_words.search(text := LITERAL.sub("", line))
            for words, hint in instead.items()
            for match in re.finditer(rf"\b(?:{words})\b", text, re.IGNORECASE)
        ]
        self.assertEqual("", "\n".join(found))
