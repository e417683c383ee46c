# SPDX-License-Identifier: Apache-2.0
"""Options of one value are said once, in every command."""

import argparse
import importlib.metadata
import unittest

from valence_sched_cli.options.types import StoreOnce
from valence_sched_cli.shell import GROUP


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


if __name__ == "__main__":
    unittest.main()
