# SPDX-License-Identifier: Apache-2.0
"""Tables that fit a width: what is folded, and what is left whole."""

import os
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from valence_sched_cli.output.cells import Sentence, WordLines
from valence_sched_cli.output.table import BORDER, fit_rows, screen_width

TITLES = ("Podm", "Problem", "Blocks")
WORDS = st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=12).map(" ".join)


def width_of(titles, rows):
    """Return the width of the table."""
    columns = [(title, *(str(row[number]) for row in rows)) for number, title in enumerate(titles)]
    widths = (max(len(line) for cell in cells for line in cell.split("\n")) for cells in columns)
    return 1 + sum(width + BORDER for width in widths)


class TestScreenWidth(unittest.TestCase):
    """How wide a screen is."""

    def width(self, columns: str | None) -> int | None:
        words = {} if columns is None else {"COLUMNS": columns}
        with mock.patch.dict(os.environ, words, clear=True):
            return screen_width()

    def test_what_the_environment_says_counts_where_it_is_a_width(self):
        self.assertEqual(60, self.width("60"))
        with mock.patch("os.get_terminal_size", return_value=os.terminal_size((97, 24))):
            self.assertEqual(60, self.width("60"))
            for columns in (None, "", "0", "-3", "wide"):
                self.assertEqual(97, self.width(columns), columns)

    def test_a_pipe_has_none_and_nothing_is_folded_for_it(self):
        rows = [("a", Sentence("word " * 90), 4)]
        for error in (OSError, ValueError, AttributeError):
            with mock.patch("os.get_terminal_size", side_effect=error):
                self.assertIsNone(self.width(None))
                with mock.patch.dict(os.environ, clear=True):
                    self.assertIs(rows, fit_rows(TITLES, rows))


class TestFitting(unittest.TestCase):
    def test_what_fits_stays_as_it_is(self):
        rows = [("gpu-east", Sentence("it is up"), 4)]
        self.assertIs(rows, fit_rows(TITLES, rows, 80))

    def test_sentences_are_folded_at_spaces_and_numbers_stay_numbers(self):
        rows = [("gpu-east", Sentence("connection refused: is it up?"), 4), ("b", Sentence(""), 2)]
        (first, second) = fit_rows(TITLES, rows, 46)
        self.assertEqual(["gpu-east", "connection refused: is\nit up?", 4], first)
        self.assertEqual(["b", "", 2], second)

    def test_a_name_is_never_broken_and_makes_no_other_column_narrow_in_vain(self):
        rows = [("vs-" + "0" * 80, Sentence("one two three"), 4)]
        self.assertIs(rows, fit_rows(TITLES, rows, 80))

    def test_a_line_of_several_goes_on_below_with_an_indentation(self):
        rows = [("a", WordLines(["one two three", "four"]), 4)]
        ((_, cell, _),) = fit_rows(TITLES, rows, 32)
        self.assertEqual("one two\n  three\nfour", cell)

    def test_the_second_line_of_an_earlier_fold_is_folded_with_the_first(self):
        rows = [("a", "one two three four\n  five six", 4)]
        ((_, cell, _),) = fit_rows(TITLES, rows, 33)
        self.assertEqual("one two three\nfour five six", cell)

    @given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(20, 90))
    def test_a_table_fits_or_is_as_it_was_and_no_word_is_lost(self, rows, width):
        fitted = fit_rows(TITLES, rows, width)
        if fitted is not rows:
            self.assertGreater(width_of(TITLES, rows), width)
            self.assertLessEqual(width_of(TITLES, fitted), width)
        words = [[cell.split() for cell in row] for row in rows]
        self.assertEqual(words, [[cell.split() for cell in row] for row in fitted])
