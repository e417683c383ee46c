# SPDX-License-Identifier: Apache-2.0
"""Tables: titles, widths, formats."""

import argparse
import importlib.metadata
import io
import os
import unittest
from unittest import mock

from cliff.columns import FormattableColumn
from cliff.display import DisplayCommandBase
from hypothesis import given, strategies as st
from stevedore import ExtensionManager

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.output.cells import Absent, Sentence, WordLines
from valence_sched_cli.output.hardware import FreeCell
from valence_sched_cli.output.table import (
    BORDER,
    PreparedFormatter,
    fit_rows,
    full_titles,
    screen_width,
    table_width,
    telling_columns,
)

#: Commands that only print; they may learn their columns while they read.
READ_ONLY = {
    "podm_block_list", "podm_block_show", "podm_check", "podm_claim_list", "podm_claim_show",
    "podm_device_list", "podm_fit", "podm_flavor_list", "podm_flavor_show",
    "podm_flavor_validate", "podm_inventory_diff", "podm_inventory_validate", "podm_list",
    "podm_node_list", "podm_node_show", "podm_pool_list", "podm_show", "podm_stats_show",
    "scheduler_audit_list", "scheduler_explain", "scheduler_filter_list", "scheduler_policy_list",
    "scheduler_policy_show", "scheduler_policy_validate", "scheduler_quota_list",
    "scheduler_quota_show", "scheduler_weigher_list",
    "scheduler_whatif_drain", "scheduler_whatif_fail", "scheduler_whatif_need",
    "scheduler_whatif_rebalance", "scheduler_whatif_run", "scheduler_zone_info",
    "scheduler_zone_list", "scheduler_zone_show", "scheduler_zone_tree",
}  # fmt: skip


class NameColumn(FormattableColumn[str]):
    """A name that defines its text in tables."""

    def human_readable(self) -> str:
        return self._value


class TestNarrowStreams(unittest.TestCase):
    """A stream whose encoding lacks characters of the cells."""

    ROWS = (("机架-7", "é", 3), ("rack-b", NameColumn("東京"), None))

    def printed(self, name: str) -> str:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        formatter = ExtensionManager("cliff.formatter.list", invoke_on_load=True)[name].obj
        options = argparse.Namespace(
            max_width=0,
            fit_width=False,
            print_empty=False,
            noindent=False,
            quote_mode="nonnumeric",
            columns=(),
            print_header=True,
        )
        text = io.StringIO()
        PreparedFormatter(formatter, name, stream=stream).emit_list(
            ("Podm", "Zone", "Cores"), self.ROWS, text, options
        )
        return text.getvalue()

    def test_escapes_are_in_the_widths_of_a_table(self):
        lines = self.printed("table").splitlines()
        self.assertEqual(1, len(set(map(len, lines))), lines)
        self.assertTrue("".join(lines).isascii())

    def test_escapes_are_those_of_json(self):
        self.assertEqual(r"\u673a\u67b6-7 \u00e9 3", self.printed("value").splitlines()[0])


class TestNumbers(unittest.TestCase):
    """Numbers that a table shows as text."""

    TITLES = ("Podm", "Free Cores")

    def printed(self, columns: int, *cells, max_width: int = 0) -> list[str]:
        formatter = ExtensionManager("cliff.formatter.list", invoke_on_load=True)["table"].obj
        options = argparse.Namespace(max_width=max_width, fit_width=False, print_empty=False)
        text, rows = io.StringIO(), [("rack", cell) for cell in cells]
        with mock.patch.dict(os.environ, {"COLUMNS": str(columns)}):
            PreparedFormatter(formatter, "table").emit_list(self.TITLES, rows, text, options)
        return text.getvalue().splitlines()

    def free(self, free, total=432, usable=True):
        return FreeCell(free, total, in_mib=False, usable=usable)

    def test_they_are_aligned_right_also_below_an_unusable_or_unknown_amount(self):
        rows = self.printed(80, Absent(), self.free(192, None, usable=False), self.free(7))[3:-1]
        self.assertEqual(["|       |", "| (192) |", "| 7/432 |"], [row[7:] for row in rows])

    def test_a_narrow_screen_shows_what_is_free_alone(self):
        cells = self.free(224, 432), self.free(16, 128, usable=False)
        self.assertIn("| rack |  224/432 |", self.printed(19, *cells))
        self.assertIn("| rack |  (16) |", self.printed(18, *cells))

    def test_the_option_of_the_width_overrides_the_screen_and_breaks_no_name(self):
        self.assertIn("| rack | 224/432 |", self.printed(18, self.free(224, 432), max_width=80))
        self.assertEqual(["Podm   rack", "Cores  224/432"],
                         self.printed(80, self.free(224, 432), max_width=12))  # fmt: skip


class TestTitles(unittest.TestCase):
    """Names are compared as in the formatters."""

    def test_a_column_is_known_in_any_case_and_with_underscores(self):
        names = ["id", "created_at", " Created At"]
        self.assertEqual(names, full_titles(names, ["ID", "Created At"], "--column"))

    def test_one_unknown_column_among_known_ones_is_refused_with_the_nearest(self):
        with self.assertRaises(UsageError) as caught:
            full_titles(["ID", "Zonee"], ["ID", "Zone", "Zone"], "--column")
        self.assertEqual("--column: no column named 'Zonee' (did you mean 'Zone'?)",
                         str(caught.exception))  # fmt: skip


class TestRedundant(unittest.TestCase):
    """Columns without information are left out of tables, but not of other formats."""

    def left(self, rows, formatter="table", **named):
        words = {"columns": [], "sort_columns": []} | named
        args = argparse.Namespace(formatter=formatter, **words)
        titles = ("Node", "Rank", "URI")
        cells = [dict(zip(titles, row, strict=True)) for row in rows]
        return tuple(telling_columns(titles, cells, args, {"Rank": "1", "URI": None}))

    def test_a_column_goes_where_every_row_says_nothing(self):
        self.assertEqual(("Node",), self.left([(1, 1, "u"), (2, 1, "v")]))
        self.assertEqual(("Node", "Rank"), self.left([(1, 1, "u"), (1, 2, "v")]))

    def test_programs_get_every_column_and_a_person_those_that_are_named(self):
        every = ("Node", "Rank", "URI")
        self.assertEqual(every, self.left([(1, 1, "u")], formatter="json"))
        self.assertEqual(("Node", "URI"), self.left([(1, 1, "u")], columns=["uri"]))
        self.assertEqual(("Node", "Rank"), self.left([(1, 1, "u")], sort_columns=["Rank"]))


class TestCommands(unittest.TestCase):
    """A command with an effect knows its columns beforehand."""

    def test_each_that_is_not_read_only_says_its_columns(self):
        printing = {}
        for entry_point in importlib.metadata.entry_points(group="openstack.podm.v1"):
            if issubclass(found := entry_point.load(), DisplayCommandBase):
                printing[entry_point.name] = found
        self.assertLessEqual(READ_ONLY, set(printing))
        for name in sorted(set(printing) - READ_ONLY):
            with self.subTest(name):
                command = printing[name]
                is_own = command.column_names is not base.PodmCommand.column_names
                self.assertTrue(is_own or command.known_columns)


TITLES = ("Podm", "Problem", "Blocks")
WORDS = st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=12).map(" ".join)


def width_of(titles, rows):
    """Return the width of the table."""
    columns = [(title, *(str(row[number]) for row in rows)) for number, title in enumerate(titles)]
    widths = (max(len(line) for cell in cells for line in cell.split("\n")) for cells in columns)
    return 1 + sum(width + BORDER for width in widths)


class TestScreenWidth(unittest.TestCase):
    """The width of a screen."""

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
    def test_an_age_stays_on_one_line(self):
        rows = [("327d ago", "several words that fold"), ("2s ago", "x")]
        fitted = fit_rows(("Read", "Text"), rows, 30)
        self.assertEqual(["327d ago", "2s ago"], [row[0] for row in fitted])
        self.assertIn("\n", fitted[0][1])

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

    def test_a_wide_character_counts_as_two_columns(self):
        titles, rows = ["Podm", "Zone"], [["机架-7", "東京 リージョン 第一"]]
        self.assertEqual([["机架-7", "東京\nリージョン\n第一"]], fit_rows(titles, rows, 25))
        self.assertIs(rows, fit_rows(titles, rows, 33))
        self.assertEqual(33, table_width(titles, rows))
        self.assertEqual(33, table_width(["机架-7", "東京 リージョン 第一"], []))

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


if __name__ == "__main__":
    unittest.main()
