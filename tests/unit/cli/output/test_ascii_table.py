# SPDX-License-Identifier: Apache-2.0
"""A table of ASCII is the one that cliff prints."""

import argparse
import io
import os
import unittest
from unittest import mock

from cliff.columns import FormattableColumn
from cliff.formatters.table import TableFormatter
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched_cli.output.table import ascii_table


class Shouted(FormattableColumn[str]):
    """A cell that people see in capitals."""

    def human_readable(self) -> str:
        return self._value.upper()


LINES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
TEXTS = st.one_of(LINES, st.tuples(LINES, LINES).map("\n".join))
CELLS = st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.none(), TEXTS.map(Shouted))
NAMES = st.lists(LINES, min_size=1, max_size=4, unique=True)
FIELDS = ("Field", "Value")
TABLES = NAMES.flatmap(
    lambda names: st.tuples(
        st.just(names), st.lists(st.tuples(*[CELLS] * len(names)), min_size=1, max_size=4)
    )
)


def by_cliff(names: list, rows: list) -> str:
    """Return the table that cliff prints."""
    words = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
    stream = io.StringIO()
    TableFormatter().emit_list(names, rows, stream, words)
    return stream.getvalue()


class TestAsciiTable(unittest.TestCase):
    """Against cliff's formatter."""

    @quietly(300)
    @given(TABLES)
    def test_it_is_the_table_of_cliff(self, table):
        names, rows = table
        self.assertEqual(by_cliff(names, rows), f"{ascii_table(names, rows)}\n")

    @quietly(100)
    @given(NAMES, st.data())
    def test_one_object_is_as_cliff_prints_it(self, names, data):
        cells = data.draw(st.tuples(*[CELLS] * len(names)))
        words = argparse.Namespace(max_width=0, fit_width=False)
        stream = io.StringIO()
        TableFormatter().emit_one(names, cells, stream, words)
        rows = list(zip(names, cells, strict=True))
        self.assertEqual(stream.getvalue(), f"{ascii_table(FIELDS, rows, aligned=False)}\n")

    def test_what_is_not_certain_is_left_to_cliff(self):
        for names, rows in (
            (["A"], []), (["A"], [("é",)]), (["A"], [("\t",)]), (["é"], [("a",)]),
            (["A", "A"], [("a", "b")]), (["A", "B"], [("a",)]),
        ):  # fmt: skip
            self.assertIsNone(ascii_table(names, rows), (names, rows))

    def test_a_table_that_is_wider_than_the_terminal_is_left_to_cliff(self):
        size = os.terminal_size((9, 24))
        with mock.patch("sys.stdout.isatty", return_value=True, create=True), \
             mock.patch("os.get_terminal_size", return_value=size):  # fmt: skip
            self.assertIsNotNone(ascii_table(["A"], [("12345",)]))
            self.assertIsNone(ascii_table(["A"], [("123456",)]))
