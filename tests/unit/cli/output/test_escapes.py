# SPDX-License-Identifier: Apache-2.0
"""No name controls a terminal: every formatter, the log and the status line escape it."""

import argparse
import functools
import io
import json
import logging
import sys
import unittest
from importlib import metadata
from unittest import mock

import yaml
from hypothesis import given, settings, strategies as st

from tests.unit.cli.output.hostile import EVIL, FORBIDDEN, WORDS, raw
from valence_sched.errors import InputError, OutputError, escape, one_line
from valence_sched.model import diagnostic
from valence_sched.model.codec import dump_yaml, escape_json
from valence_sched.model.need import Need, Test
from valence_sched.streams import EscapingFormatter, escape_logs, open_missing, write
from valence_sched.words.phrases import need_phrase
from valence_sched_cli import base
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import PreparedFormatter

TEXT = st.text(st.sampled_from([*sorted(FORBIDDEN), *"ab \\é界"]), max_size=8)
WIDE = 9999  # wide enough that no table folds its lines
OPTIONS = argparse.Namespace(
    noindent=False, quote_mode="nonnumeric", variables=[], prefix="", max_width=WIDE,
    fit_width=False, print_empty=False,
)  # fmt: skip


def formatters():
    """Return every formatter that a command offers, by kind and name."""
    return {
        (kind, one.name): one.load()()
        for kind in ("list", "show")
        for group in (f"cliff.formatter.{kind}", f"{base.STYLES}.{kind}")
        for one in metadata.entry_points(group=group)
    }


def printed(kind, name, formatter, names, row):
    page = io.StringIO()
    prepared = PreparedFormatter(formatter, name)
    if kind == "list":
        prepared.emit_list(names, [row], page, OPTIONS)
    else:
        prepared.emit_one(names, row, page, OPTIONS)
    return page.getvalue()


def row_of(text):
    """Return a cell of each kind with a text in each place."""
    need = Need(kind="stock", measure="amount", amount=1, resource=text,
                tests=(Test(attribute=text, operator="at_least", value=1),))  # fmt: skip
    return (
        text, cells.Words([text]), cells.WordLines([text, "b"]), cells.Sentence(text),
        cells.Sentences([text]), cells.Pairs({text: text}), cells.PairLines({"a": [text]}),
        cells.noun_lines([{text: {"b": text}}], cells.format_value), cells.UriTails([f"/a/{text}"]),
        cells.noun_lines([[text, "b"]], " or ".join), cells.noun_lines([need], need_phrase),
        cells.Shown(text, str.upper), cells.Absent(), 7, None,
    )  # fmt: skip


CLEAN = row_of("x")


@functools.cache
def lines_of(kind, name, number):
    """Return the number of lines of a cell with a harmless text."""
    formatter = TestFormats.FORMATTERS[kind, name]
    return printed(kind, name, formatter, ["a"], [CLEAN[number]]).count("\n")


def is_folded(cell):
    """Return whether a cell is a list whose texts are folded."""
    return isinstance(cell, cells.Shown) and cell._people is cells.Sentences.keywords["people"]


class TestFormats(unittest.TestCase):
    """All cells in all formats."""

    FORMATTERS = formatters()

    def check(self, text):
        row = row_of(text)
        for (kind, name), formatter in self.FORMATTERS.items():
            for number, cell in enumerate(row):
                where = f"{kind} {name}, cell {number}"
                out = printed(kind, name, formatter, ["a"], [cell])
                self.assertEqual("", raw(out, "\n\t" if name == "tsv" else "\n"), where)
                lines = lines_of(kind, name, number)
                folded = isinstance(cell, cells.Sentence) or is_folded(cell)
                if name != "yaml" and not folded:  # each breaks long lines or lists
                    self.assertEqual(lines, out.count("\n"), where)

    def test_nothing_of_a_hostile_name_reaches_the_terminal_and_no_line_is_made(self):
        for text in (*WORDS, EVIL, "\ud800"):
            self.check(text)

    @settings(max_examples=8)
    @given(TEXT)
    def test_so_it_is_with_any_text(self, text):
        self.check(f"x{text}x")

    def test_a_heading_is_escaped_as_well(self):
        for (kind, name), formatter in self.FORMATTERS.items():
            with self.subTest(kind, format=name):
                out = printed(kind, name, formatter, [EVIL], [1])
                self.assertEqual("", raw(out, "\n\t" if name == "tsv" else "\n"))

    def test_what_people_see_is_the_escape(self):
        for (kind, name), formatter in self.FORMATTERS.items():
            with self.subTest(name):
                out = printed(kind, name, formatter, ["A"], ["\u202e1"])
                self.assertIn("u202e1", out.replace("\\u202E", "\\u202e"))

    def test_programs_read_the_same_from_json_and_yaml(self):
        row = (EVIL, cells.Pairs({EVIL: [EVIL]}))
        for name, load in (("json", json.loads), ("yaml", yaml.safe_load)):
            for kind in ("list", "show"):
                out = load(printed(kind, name, self.FORMATTERS[kind, name], ("A", "B"), row))
                expected = {"A": EVIL, "B": {EVIL: [EVIL]}}
                self.assertEqual([expected] if kind == "list" else expected, out)
        flat = printed("list", "value", self.FORMATTERS["list", "value"], ("B",), row[1:])
        self.assertEqual({EVIL: [EVIL]}, json.loads(flat))

    def test_a_list_is_json_in_a_flat_cell_whatever_its_type(self):
        for words in (["a", "b"], ("a", "b")):
            row = (cells.Words(words),)
            flat = printed("show", "value", self.FORMATTERS["show", "value"], ("A",), row)
            self.assertEqual('["a", "b"]\n', flat)


class TestText(unittest.TestCase):
    """The function that escapes."""

    def test_escapes_are_those_of_json(self):
        cases = {"\x1b[2J": "\\u001b[2J", "a\nb\r\t": "a\\nb\\r\\t", "\x7f\x9b": "\\u007f\\u009b",
                 "\u202e": "\\u202e", "\ud800": "\\ud800", "\U000e0001": "\\udb40\\udc01",
                 "é界 \\n": "é界 \\n", "": ""}  # fmt: skip
        self.assertEqual(cases, {text: escape(text) for text in cases})
        self.assertEqual("a\n\\t", escape("a\n\t", keep="\n"))

    @given(TEXT)
    def test_nothing_is_left_of_what_may_not_be_there_and_twice_is_once(self, text):
        self.assertEqual("", raw(escape(text), ""))
        self.assertEqual(escape(text), escape(escape(text)))
        self.assertEqual("", raw(one_line(text), ""))
        self.assertEqual("", raw(str(InputError(text, text, text, text, text)), ""))

    @given(TEXT.filter(lambda text: text.encode(errors="replace").decode() == text))
    def test_a_document_with_escapes_decodes_to_the_same(self, text):
        data = escape_json(json.dumps({text: [text]}, ensure_ascii=False, indent=1).encode())
        self.assertEqual("", raw(data.decode()))
        self.assertEqual({text: [text]}, json.loads(data))
        self.assertEqual("", raw(dump_yaml({text: [text]})))
        self.assertEqual({text: [text]}, yaml.safe_load(dump_yaml({text: [text]})))


class TestStreams(unittest.TestCase):
    """Output beside the data."""

    def logged(self, logger, *words, **more):
        page = io.StringIO()
        handler = logging.StreamHandler(page)
        handler.setFormatter(EscapingFormatter(logging.Formatter("%(message)s")))
        one = logging.Logger(logger)
        one.addHandler(handler)
        one.warning(*words, **more)
        return page.getvalue()

    def test_a_line_of_ours_is_one_line_and_one_of_others_keeps_its_own(self):
        for logger, lines in (("valence_sched.drivers", 1), ("aiohttp.server", 2)):
            out = self.logged(logger, "%s: it is\nthere", EVIL.replace("\n", ""))
            self.assertEqual(("", lines), (raw(out), out.count("\n")), out)

    def test_a_traceback_is_harmless(self):
        try:
            raise ValueError(EVIL)
        except ValueError:
            out = self.logged("valence_sched_cli.base", "x", exc_info=True)
        self.assertEqual("", raw(out))
        self.assertIn("Traceback", out)

    def test_every_handler_of_the_program_escapes_and_once_only(self):
        root, handler = logging.getLogger(), logging.NullHandler()
        root.addHandler(handler)
        self.addCleanup(root.removeHandler, handler)
        escape_logs()
        first = handler.formatter
        escape_logs()
        self.assertIsInstance(first, EscapingFormatter)
        self.assertIs(first, handler.formatter)

    def test_a_closed_standard_stream_is_opened_so_that_no_file_has_its_number(self):
        with mock.patch.multiple(sys, stdin=None, stdout=None, stderr=None):
            open_missing()
            with sys.stdin, sys.stdout, sys.stderr:
                self.assertEqual("", sys.stdin.read())
                sys.stderr.write("lost")
                with self.assertRaisesRegex(OutputError, "standard output: not writable"):
                    write(sys.stdout, "lost")

    def test_the_progress_line_is_one_line(self):
        waiting = diagnostic.Awaited()
        waiting.count = (0, 1, [EVIL])
        self.assertEqual("", raw(waiting.text(80), ""))
        waiting.activities[EVIL] = EVIL
        self.assertEqual("", raw(waiting.text(80), ""))
