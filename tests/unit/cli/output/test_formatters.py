# SPDX-License-Identifier: Apache-2.0
"""The table styles."""

import argparse
import io
import unittest
from importlib import metadata

import tabulate
from cliff.columns import FormattableColumn

from valence_sched_cli.output import table as formatters

NO_OPTIONS = argparse.Namespace()


class Tags(FormattableColumn[list[str]]):
    """A list that defines its text in tables."""

    def human_readable(self) -> str:
        """Return the tags with commas between them."""
        return ", ".join(self._value)


def listed(style, names, rows):
    out = io.StringIO()
    style().emit_list(names, iter(rows), out, NO_OPTIONS)
    return out.getvalue()


def shown(style, names, values):
    out = io.StringIO()
    style().emit_one(names, values, out, NO_OPTIONS)
    return out.getvalue()


def styles():
    return [
        getattr(formatters, name)
        for name in dir(formatters)
        if hasattr(getattr(formatters, name), "tablefmt")
    ]


class Maybe(FormattableColumn[int | None]):
    """A number that may be unknown."""

    def human_readable(self) -> str:
        """Return an empty text for an unknown number."""
        return "" if self._value is None else str(self._value)


class TestMarkdown(unittest.TestCase):
    """The output of ``-f markdown``."""

    def test_a_list_is_a_table_with_a_head_and_a_row_per_object(self):
        text = listed(formatters.Markdown, ("Name", "Tags"), [("pod-1", Tags(["gpu", "cxl"]))])
        self.assertEqual(
            ["| Name   | Tags     |", "|:-------|:---------|", "| pod-1  | gpu, cxl |"],
            text.splitlines(),
        )

    def test_one_object_is_a_table_of_fields_and_values(self):
        text = shown(formatters.Markdown, ("Name", "Free"), ("pod-1", 3))
        self.assertEqual(
            [
                "| Field   | Value   |",
                "|:--------|:--------|",
                "| Name    | pod-1   |",
                "| Free    | 3       |",
            ],
            text.splitlines(),
        )

    def test_a_column_of_numbers_is_aligned_right_also_where_one_is_unknown(self):
        rule = listed(formatters.Markdown, ("Free",), [(3,), (None,), (0.25,)]).splitlines()[1]
        self.assertRegex(rule, r"^\|-+:\|$")

    def test_a_number_in_a_formattable_column_is_a_number(self):
        rule = listed(formatters.Markdown, ("Free",), [(Maybe(3),), (Maybe(None),)]).splitlines()[1]
        self.assertRegex(rule, r"^\|-+:\|$")

    def test_a_column_of_truths_or_of_nothing_is_aligned_left(self):
        rule = listed(formatters.Markdown, ("On", "Seen"), [(True, None)]).splitlines()[1]
        self.assertRegex(rule, r"^\|:-+\|:-+\|$")

    def test_text_that_looks_like_a_number_stays_as_it_is(self):
        text = listed(formatters.Markdown, ("ID",), [("0007",), ("1e5",)])
        self.assertIn("| 0007 |", text)
        self.assertIn("| 1e5  |", text)

    def test_a_number_is_printed_in_full(self):
        self.assertIn("0.123456789", listed(formatters.Markdown, ("Score",), [(0.123456789,)]))

    def test_a_pipe_in_a_cell_does_not_end_the_cell(self):
        self.assertIn(r"| a\|b ", listed(formatters.Markdown, ("Name",), [("a|b",)]))

    def test_a_backslash_before_a_pipe_does_not_undo_its_escape(self):
        self.assertIn(r"| a\\\|b ", listed(formatters.Markdown, ("Name",), [(r"a\|b",)]))

    def test_a_pipe_in_a_heading_is_escaped_too(self):
        self.assertIn(r"| a\|b ", listed(formatters.Markdown, ("a|b",), [("x",)]))

    def test_lines_of_a_cell_stay_in_the_cell(self):
        text = listed(formatters.Markdown, ("Why",), [("no GPU\r\nno room",)])
        self.assertEqual(3, len(text.splitlines()))
        self.assertIn("no GPU<br>no room", text)

    def test_what_a_pod_manager_calls_itself_is_no_markup(self):
        self.assertNotIn("<script", listed(formatters.Markdown, ("Name",), [("<script>",)]))

    def test_an_empty_list_is_a_head_without_rows(self):
        self.assertEqual(2, len(listed(formatters.Markdown, ("Name", "Free"), []).splitlines()))


class TestStyles(unittest.TestCase):
    """Rules of every style."""

    def test_tabulate_knows_every_style(self):
        for style in styles():
            with self.subTest(style.__name__):
                self.assertIn(style.tablefmt, tabulate.tabulate_formats)

    def test_every_style_prints_lists_objects_and_nothing(self):
        for style in styles():
            with self.subTest(style.__name__):
                self.assertIn("pod-1", listed(style, ("Name", "Free"), [("pod-1", 3)]))
                self.assertIn("pod-1", shown(style, ("Name", "Free"), ("pod-1", 3)))
                self.assertIn("Name", listed(style, ("Name", "Free"), []))

    def test_a_pipe_does_not_break_a_markup_that_has_pipes_for_cells(self):
        for style in (
            formatters.Asciidoc,
            formatters.Mediawiki,
            formatters.Orgtbl,
            formatters.Textile,
        ):
            with self.subTest(style.__name__):
                self.assertNotIn("a|b", listed(style, ("Name",), [("a|b",)]))

    def test_inline_markup_is_quiet_in_restructuredtext(self):
        text = listed(formatters.Rst, ("Name",), [("*a* `b` |c| d_ e_f",)])
        self.assertIn(r"\*a\* \`b\` \|c\| d\_ e_f", text)


class TestEntryPoints(unittest.TestCase):
    """cliff finds the styles by entry points."""

    def test_every_style_is_there_for_lists_and_for_single_objects(self):
        for group in ("valence_sched.formatter.list", "valence_sched.formatter.show"):
            ours = {
                point.load()
                for point in metadata.entry_points(group=group)
                if point.module == "valence_sched_cli.output.table"
            }
            self.assertEqual(set(styles()), ours, group)

    def test_no_style_takes_the_name_of_one_that_cliff_has(self):
        for kind in ("list", "show"):
            group = f"valence_sched.formatter.{kind}"
            names = [
                point.name
                for one in (group, f"cliff.formatter.{kind}")
                for point in metadata.entry_points(group=one)
            ]
            self.assertEqual(len(names), len(set(names)), group)

    def test_a_style_is_called_as_tabulate_calls_it(self):
        for point in metadata.entry_points(group="valence_sched.formatter.list"):
            if point.module == "valence_sched_cli.output.table" and point.name != "markdown":
                self.assertEqual(point.name, point.load().tablefmt)
