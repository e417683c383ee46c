# SPDX-License-Identifier: Apache-2.0
"""Numbers of the shell, and options of one value, which are said once in every command."""

import argparse
import contextlib
import importlib.metadata
import io
import unittest

from valence_sched_cli.options.parser import (
    _READ,
    _READ_AND_NO_STDIN,
    _WRITTEN,
    NAMES,
    StoreOnce,
    natural,
    percentage,
    positive,
    seconds,
    whole,
)
from valence_sched_cli.shell import GROUP, Shell

#: What holds names of files, whatever its usage text calls them; a flavor may be one.
FILES = {*_READ, *_READ_AND_NO_STDIN, *_WRITTEN} - {"flavor"}


class TestNumbers(unittest.TestCase):
    def test_what_is_refused_is_told_beside_what_must_be(self):
        for parse, text, message in (
            (positive, "0", "must be 1 to 1,000,000, got '0'"),
            (natural, "-1", "must be 0 to 1,000,000, got '-1'"),
            (natural, "1000001", "must be 0 to 1,000,000, got '1000001'"),
            (whole, "1.0", "must be a whole number of at most 18 digits, got '1.0'"),
            (seconds, "0", "must be seconds above 0 and at most 86,400, got '0'"),
            (percentage, "101", "must be a percentage above 0 and at most 100, such as 5%, "
             "got '101'"),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError) as caught:
                parse(text)
            self.assertEqual(message, str(caught.exception))

    def test_both_ends_of_a_range_are_in_it(self):
        self.assertEqual((0, 1_000_000), (natural("0"), natural("1000000")))
        self.assertEqual((1, 1_000_000), (positive("1"), positive("1000000")))


class TestStoreOnce(unittest.TestCase):
    """The second value is refused."""

    def parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(exit_on_error=False)
        for name in (None, "store"):
            parser.register("action", name, StoreOnce)
        parser.add_argument("--zone", default="a")
        group = parser.add_argument_group("more")
        group.add_mutually_exclusive_group().add_argument("--seed", type=int, action="store")
        parser.add_argument("name", nargs="?")
        return parser

    def test_a_second_value_is_refused_even_the_same_or_the_default(self):
        for words in (["--zone", "a", "--zone", "b"], ["--zone", "a", "--zone", "a"],
                      ["--seed", "1", "x", "--seed", "1"]):  # fmt: skip
            with self.subTest(words), self.assertRaises(argparse.ArgumentError) as caught:
                self.parser().parse_args(words)
            self.assertIn("given twice: it has one value", str(caught.exception))

    def test_one_value_each_is_stored_and_a_parser_forgets(self):
        parser = self.parser()
        for _ in range(2):
            found = parser.parse_args(["--zone", "b", "x", "--seed", "3"])
            self.assertEqual(("b", 3, "x"), (found.zone, found.seed, found.name))

    def test_every_command_has_it(self):
        ours = 0
        for entry_point in importlib.metadata.entry_points(group=GROUP):
            parser = entry_point.load()(None, None).get_parser(entry_point.name)
            for group in parser._action_groups:
                if group.title in ("output formatters", "CSV Formatter", "shell formatter",
                                   "table formatter", "json formatter"):  # fmt: skip
                    continue
                for action in group._group_actions:
                    if not isinstance(action, argparse._StoreAction) or not action.option_strings:
                        continue
                    if action.dest in ("sort_columns", "formatter", "prefix"):
                        continue
                    with self.subTest(command=entry_point.name, option=action.dest):
                        self.assertIsInstance(action, StoreOnce)
                        ours += 1
        self.assertGreater(ours, 50)


class TestNames(unittest.TestCase):
    """An empty name of a file or a URL is none: it does not mean the default."""

    def test_every_command_refuses_an_empty_one(self):
        refused = set()
        for entry_point in importlib.metadata.entry_points(group=GROUP):
            parser = entry_point.load()(None, None).get_parser(entry_point.name)
            for action in parser._actions:
                if not (action.metavar in NAMES or action.dest in FILES):
                    continue
                with self.subTest(command=entry_point.name, option=action.dest):
                    with self.assertRaisesRegex(argparse.ArgumentError, "an empty name"):
                        parser._get_values(action, [""])
                    refused.add(action.dest)
        self.assertGreater(len(refused), 25)

    def test_so_do_the_global_options(self):
        for option in ("--os-scheduler-endpoint", "--log-file"):
            parser = Shell().build_option_parser("", "")
            err = io.StringIO()
            with (
                self.subTest(option),
                contextlib.redirect_stderr(err),
                self.assertRaisesRegex(SystemExit, "2"),
            ):
                parser.parse_args([option, ""])
            self.assertIn(f"argument {option}: an empty name: name a ", err.getvalue())


if __name__ == "__main__":
    unittest.main()
