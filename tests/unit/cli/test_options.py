# SPDX-License-Identifier: Apache-2.0
"""Options of the commands: their parsing and their errors."""

import argparse
import contextlib
import functools
import importlib.metadata
import io
import pkgutil
import re
import unittest
from pathlib import Path

from valence_sched.errors import InputError, UsageError
from valence_sched.model import flavor, need
from valence_sched.model.need import NameRequirements
from valence_sched.model.node_change import DrainSettings
from valence_sched.model.quantity import parse_percentage, parse_resource_percentage
from valence_sched.model.registration import PasswordReference
from valence_sched.model.scenario import AddBlocks, Clone, Drain, Fail, Remove, SetAttributes
from valence_sched_cli import options
from valence_sched_cli.options.inventory import DRAIN, DRAIN_SETTINGS, drain_settings
from valence_sched_cli.options.parser import (
    _READ,
    _READ_AND_NO_STDIN,
    _WRITTEN,
    FILE_TYPES,
    StoreOnce,
    add_options,
    natural,
    positive,
    seconds,
    whole,
)
from valence_sched_cli.options.request import WEIGHT, add_edit_options
from valence_sched_cli.shell import GROUP, Shell


@functools.cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of all commands, each created only once."""
    points = importlib.metadata.entry_points(group=GROUP)
    return {one.name: one.load()(None, None).get_parser(one.name) for one in points}


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="p")
    add_edit_options(parser)
    add_options(parser, WEIGHT)
    return parser.parse_args(words)


def problem(*words: str) -> str:
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        try:
            parse(*words)
        except SystemExit:
            return stderr.getvalue().splitlines()[-1].removeprefix("p: error: ")
    raise AssertionError(words)


class TestEdits(unittest.TestCase):
    """All edits are in one list, in the order of the command line."""

    def test_the_order_of_the_words_is_the_order_of_the_edits(self):
        args = parse("--fail", "a", "--clone", "bx2", "--drain", "c", "--scenario", "s.yaml#x",
                     "--fail", "d", "--remove", "e/f", "--add", "3xg@h/i")  # fmt: skip
        self.assertEqual([Fail("a"), Clone("b", 2), Drain("c"), Fail("d"), Remove("e/f"),
                          AddBlocks("g", "h/i", 3)], args.edits)  # fmt: skip
        self.assertEqual(["s.yaml#x"], args.scenario)
        self.assertEqual(([], [], []), (parse().edits, parse().scenario, parse().weight))

    def test_numbers_are_found_at_the_end_of_a_clone_and_at_the_front_of_blocks(self):
        for text, edit in (
            ("rack", Clone("rack")), ("rackx2x1", Clone("rackx2")), ("x2", Clone("x2")),
            ("matrix", Clone("matrix")),
        ):  # fmt: skip
            self.assertEqual([edit], parse("--clone", text).edits)
        for text, edit in (
            ("g@p", AddBlocks("g", "p")), ("10x8x@p", AddBlocks("8x", "p", 10)),
            ("2xg@q@p", AddBlocks("g@q", "p", 2)), ("xg@p", AddBlocks("xg", "p")),
            ("2xA100 tray@p/a", AddBlocks("A100 tray", "p/a", 2)),
        ):  # fmt: skip
            self.assertEqual([edit], parse("--add", text).edits)

    def test_values_that_are_set(self):
        for text, edit in (
            ("p:zone=az:2", SetAttributes("p", zone="az:2")),
            ("p:zone=", SetAttributes("p", zone=None)),
            ("host:8000:zone=a", SetAttributes("host:8000", zone="a")),
            (
                "zone=a,status=Online:enabled=no",
                SetAttributes("zone=a,status=Online", enabled=False),
            ),
            ("p:traits=A; B", SetAttributes("p", traits=("A", "B"))),
            ("p:traits=", SetAttributes("p", traits=())),
            ("p:facts.a.b=1e3", SetAttributes("p", facts={"a.b": 1000.0})),
            ("p:facts.a=b=c", SetAttributes("p", facts={"a": "b=c"})),
            ("p:facts.a=b;c", SetAttributes("p", facts={"a": ("b", "c")})),
            ("p:facts.a=", SetAttributes("p", facts={"a": None})),
            ("p:capabilities.os=linux", SetAttributes("p", capabilities={"os": ("linux",)})),
            ("b@p:health=", SetAttributes("b@p", health=None)),
            ("b@p:reserved=yes", SetAttributes("b@p", reserved=True)),
        ):
            with self.subTest(text):
                self.assertEqual([edit], parse("--set", text).edits)

    def test_weights(self):
        weights = parse("--weight", "room=2", "--weight", "pack=0.5").weight
        self.assertEqual([("room", 2.0), ("pack", 0.5)], weights)
        for text in ("room", "room=", "=1", "room=-1", "room=nan", "room=1001"):
            self.assertEqual(f"argument --weight: '{text}' is not WEIGHER=N with N from 0 to 1000",
                             problem("--weight", text))  # fmt: skip

    def test_other_words_are_refused_with_what_is_expected(self):
        forms = "PODM, PODM/POOL, BLOCK@PODM, BLOCK@PODM/POOL or KEY=VALUE,…"
        for words, message in (
            (("--fail", ""), f"--fail: '': found another form, expected {forms}"),
            (("--fail", "zoen=a"), "--fail: 'zoen=a': found unknown field 'zoen' (did you mean "
                                   "'zone'?)"),
            (("--clone", "px0"), "--clone: 'px0': times: found 0, expected int >= 1"),
            (("--clone", "px10001"),
             "--clone: 'px10001': times: found 10001, expected int <= 10000"),
            (("--add", "0xg@p"), "--add: '0xg@p': count: found 0, expected int >= 1"),
            (("--add", "g@model=A100"), "--add: 'g@model=A100', expected pod managers or pools to "
                                        "add blocks to, not blocks"),
            (("--set", "p:"), "--set: 'p:' is not TARGET:KEY=VALUE (as in rack-1:zone=az2)"),
            (("--set", "p:fact.a=1"), "--set: 'p:fact.a=1' is not TARGET:KEY=VALUE (did you mean "
                                      "'facts.NAME'?)"),
            (("--set", "p:status=Of"), "--set: 'p:status=Of': status: found 'Of', expected one of "
                                       "the values of the schema (known: Offline, Online, "
                                       "Unknown)"),
            (("--set", "p:enabled=maybe"), "--set: 'p:enabled=maybe': enabled: found \"maybe\", "
                                           "expected bool"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(f"argument {message}", problem(*words))


class TestDrain(unittest.TestCase):
    """The hook that drains a node."""

    def parse(self, *words):
        parser = argparse.ArgumentParser(prog="p")
        add_options(parser, DRAIN, **DRAIN_SETTINGS)
        return drain_settings(parser.parse_args(words))

    def test_a_command_is_split_without_a_shell(self):
        for text, command in (
            ("drain-node", ("drain-node",)),
            ("ssh 'a b' \"$HOME\" c\\\\ d", ("ssh", "a b", "$HOME", "c\\", "d")),
        ):
            self.assertEqual(DrainSettings(command=command), self.parse("--drain-command", text))
        long = DrainSettings(command=("a",), deadline_s=3600)
        words = ("--drain-command", "a", "--drain-deadline", "3600")
        self.assertEqual(long, self.parse(*words))

    def test_a_url_with_a_key(self):
        url = ("--drain-url", "https://host/x?y=z")
        self.assertEqual(DrainSettings(url=url[1]), self.parse(*url))
        key = PasswordReference(env="KEY")
        wanted = DrainSettings(url=url[1], key=key, deadline_s=5)
        found = self.parse(*url, "--drain-key-env", "KEY", "--drain-deadline", "5")
        self.assertEqual(wanted, found)

    def test_a_command_without_these_options_has_no_hook(self):
        self.assertIsNone(self.parse())
        self.assertIsNone(drain_settings(argparse.Namespace()))

    def test_options_that_contradict_each_other(self):
        for words, error, text in (
            (("--drain-command", "a", "--drain-key-env", "K"), UsageError, "only with --drain-url"),
            (("--drain-key-env", "K"), UsageError, "^--drain-key-env: only with --drain-url"),
            (("--drain-deadline", "5"), UsageError, "only with --drain-command or --drain-url"),
            (("--drain-url", "host"), InputError, r"^--drain-url: \$.url: found an invalid URL"),
            (("--drain-url", "http://ana:canary@host"), InputError, "without a user$"),
            (("--drain-command", "'' a"), InputError, r"^--drain-command: \$.command: found an i"),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, text) as caught:
                self.parse(*words)
            self.assertNotIn("canary", str(caught.exception))

    def test_values_that_are_refused(self):
        form = "is not a command with its arguments, quoted as for a shell"
        for words, text in (
            (("--drain-command", ""), form), (("--drain-command", "a 'b"), form),
            (("--drain-deadline", "0.5"), "must be seconds from 1 to 3,600, got '0.5'"),
            (("--drain-deadline", "nan"), "must be seconds from 1 to 3,600"),
            (("--drain-key-env", ""), "an empty name: name a variable"),
            (("--drain-url", "http://a", "--drain-command", "b"), "not allowed with argument"),
        ):  # fmt: skip
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as stderr:
                with self.assertRaises(SystemExit):
                    self.parse(*words)
                self.assertIn(text, stderr.getvalue())


class TestParsing(unittest.TestCase):
    """The text of one option."""

    def test_each_form(self):
        for parse, text, expected in (
            (flavor.parse_resource, "VCPU=4", ("VCPU", 4)),
            (flavor.parse_resource, "CUSTOM_X=1", ("CUSTOM_X", 1)),
            (need.parse_traits, "A", NameRequirements(("A",))),
            (need.parse_traits, "!A", NameRequirements((), ("A",))),
            (need.parse_traits, "in:A, B", NameRequirements(any_of=(("A", "B"),))),
            (need.parse_forbidden, "A", NameRequirements(forbidden=("A",))),
            (need.parse_aggregates, "a", NameRequirements(("a",))),
            (need.parse_aggregates, "in:a,b", NameRequirements(any_of=(("a", "b"),))),
            (need.parse_aggregates, "!a", NameRequirements(forbidden=("a",))),
            (need.parse_aggregates, "!in:a,b", NameRequirements(forbidden=("a", "b"))),
        ):
            with self.subTest(text):
                self.assertEqual(expected, parse(text))

    def test_a_trait_may_have_in_in_its_name(self):
        self.assertEqual(NameRequirements(("CUSTOM_main:x",)), need.parse_traits("CUSTOM_main:x"))

    def test_what_means_nothing_is_refused(self):
        for parse, text, words in (
            (flavor.parse_resource, "VCPU", "is not CLASS=N"),
            (
                flavor.parse_resource,
                "VCPU=0",
                "must be a whole number of 1 to 1,000,000,000,000,000,",
            ),
            (flavor.parse_resource, "VCPU=1000000000000001", "must be a whole number of 1 to"),
            (flavor.parse_resource, "VCPU=1.5", "must be a whole number of 1 to"),
            (flavor.parse_resource, "VCPUS=1", "did you mean 'VCPU'?"),
            (flavor.parse_resource, "CUSTOM_a b=1", "upper-case letters, digits or _"),
            (flavor.parse_resource, "custom_x=1", "upper-case letters, digits or _"),
            (flavor.parse_resource, "IPV4_ADDRESS=1", "has no counterpart here"),
            (need.parse_traits, "", "an empty name"),
            (need.parse_traits, "A,B", "use in:a,b to require one of them"),
            (need.parse_traits, "A,!B", "use in:a,b to require one of them"),
            (need.parse_traits, "A,in:B,C", "use in:a,b to require one of them"),
            (need.parse_traits, "!A,!B", "use in:a,b to require one of them"),
            (need.parse_traits, "in:A,,B", "an empty name"),
            (need.parse_traits, "!", "an empty name"),
            (need.parse_traits, "in:", "an empty name"),
            (need.parse_traits, "in:A,!B", "'!B' is not allowed here"),
            (need.parse_traits, "!in:A,B", "use --forbidden for each trait"),
            (need.parse_forbidden, "!A", "'!A' is not allowed here"),
            (need.parse_forbidden, "in:A,B", "repeat the option for each name"),
            (need.parse_forbidden, "A,B", "repeat the option for each name"),
            (need.parse_aggregates, "a,b", "use in:a,b to require one of them"),
            (need.parse_aggregates, "!", "an empty name"),
            (need.parse_aggregates, "!!a", "is not allowed here"),
        ):
            with self.subTest(f"{parse.__name__} {text}"):
                with self.assertRaises(ValueError) as caught:
                    parse(text)
                self.assertIn(words, str(caught.exception))


class TestNames(unittest.TestCase):
    """Names of flavors and names of files."""

    def test_they_must_all_hold_and_each_is_said_once(self):
        flavor = NameRequirements(("A",), ("X",), (("P", "Q"),))
        terms = [
            NameRequirements(("A", "B")),
            NameRequirements((), ("Y",)),
            NameRequirements(any_of=(("R",),)),
        ]
        expected = NameRequirements(("A", "B"), ("X", "Y"), (("P", "Q"), ("R",)))
        self.assertEqual(expected, need.merge_names("trait", [flavor, *terms]))
        self.assertEqual(flavor, need.merge_names("trait", [flavor]))

    def test_for_and_against_is_refused(self):
        with self.assertRaises(UsageError) as caught:
            need.merge_names("trait", [NameRequirements(("A",)), NameRequirements((), ("A",))])
        self.assertEqual("trait 'A' is both required and forbidden", str(caught.exception))

    def test_one_of_a_list_that_is_all_forbidden_is_refused(self):
        alternatives = NameRequirements(any_of=(("A", "B"),))
        only_a, both = NameRequirements((), ("A",)), NameRequirements((), ("B", "A"))
        names = need.merge_names("trait", [alternatives, only_a])
        self.assertEqual(("A",), names.forbidden)
        with self.assertRaises(UsageError) as caught:
            need.merge_names("trait", [alternatives, both])
        self.assertEqual("trait in:A,B: each of them is forbidden", str(caught.exception))


#: Options with names of files, of any usage text; a flavor may be a file.
FILES = {*_READ, *_READ_AND_NO_STDIN, *_WRITTEN} - {"flavor"}


class TestNumbers(unittest.TestCase):
    def test_what_is_refused_is_told_beside_what_must_be(self):
        for parse, text, message in (
            (positive, "0", "must be 1 to 1,000,000, got '0'"),
            (natural, "-1", "must be 0 to 1,000,000, got '-1'"),
            (natural, "1000001", "must be 0 to 1,000,000, got '1000001'"),
            (whole, "1.0", "must be a whole number of at most 18 digits, got '1.0'"),
            (seconds, "0", "must be seconds above 0 and at most 86,400, got '0'"),
            (parse_percentage, "101", "must be a percentage above 0 and at most 100, such as 5%, "
             "got '101'"),
            (parse_resource_percentage, "=5%",
             "must be a percentage above 0 and at most 100, such as 5%, got '=5%'"),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(ValueError) as caught:
                parse(text)
            self.assertEqual(message, str(caught.exception))

    def test_both_ends_of_a_range_are_in_it(self):
        self.assertEqual((0, 1_000_000), (natural("0"), natural("1000000")))
        self.assertEqual((1, 1_000_000), (positive("1"), positive("1000000")))


class TestParsers(unittest.TestCase):
    """Parsers of the model that options name by MODULE:FUNCTION, and import when they are used."""

    def test_each_named_parser_exists(self):
        package = Path(options.__file__).parents[1]
        sources = [path.read_text() for path in package.rglob("*.py")]
        names = {name for text in sources for name in re.findall(r'parsed_by\("(.+?)"\)', text)}
        self.assertLess(5, len(names))
        for name in sorted(names):
            with self.subTest(name):
                self.assertTrue(callable(pkgutil.resolve_name(f"valence_sched.model.{name}")))


class TestStoreOnce(unittest.TestCase):
    """A second value is refused."""

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
            self.assertIn("given twice: it takes one value", str(caught.exception))

    def test_one_value_each_is_stored_and_a_parser_forgets(self):
        parser = self.parser()
        for _ in range(2):
            found = parser.parse_args(["--zone", "b", "x", "--seed", "3"])
            self.assertEqual(("b", 3, "x"), (found.zone, found.seed, found.name))

    def test_every_command_has_it(self):
        ours = 0
        for name, parser in parsers().items():
            for group in parser._action_groups:
                if group.title in ("output formatters", "CSV Formatter", "shell formatter",
                                   "table formatter", "json formatter"):  # fmt: skip
                    continue
                for action in group._group_actions:
                    if not isinstance(action, argparse._StoreAction) or not action.option_strings:
                        continue
                    if action.dest in ("sort_columns", "formatter", "prefix"):
                        continue
                    with self.subTest(command=name, option=action.dest):
                        self.assertIsInstance(action, StoreOnce)
                        ours += 1
        self.assertGreater(ours, 50)


class TestAbbreviations(unittest.TestCase):
    """A whole word is no abbreviation: other commands have an option of that name."""

    def refused(self, command: str, *words: str) -> str:
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as stderr:
            parsers()[command].parse_args(words)
        return stderr.getvalue()

    def test_a_word_of_a_longer_option_is_refused_with_a_hint(self):
        for word in ("--podm", "--podm=gpu-east", "--resource"):
            line = self.refused("podm_capture", "--output", "x.json", word)
            self.assertIn(f"did you mean '{word.partition('=')[0]}-file'?", line)
            self.assertEqual(1, line.count("\n"))
        self.assertIn("'--podm-file'", self.refused("podm_claim_reap", "--podm", "gpu-east"))

    def test_a_part_of_a_word_is_an_abbreviation(self):
        found = parsers()["podm_capture"].parse_args(["--podm-f", "x.yaml", "--outp=y.json"])
        self.assertEqual((["x.yaml"], "y.json"), (found.podm_file, found.output))


class TestFileNames(unittest.TestCase):
    """An empty name of a file or a URL is an error, not the default."""

    def test_every_command_refuses_an_empty_one(self):
        refused = set()
        for name, parser in parsers().items():
            for action in parser._actions:
                if not (action.metavar in FILE_TYPES or action.dest in FILES):
                    continue
                with self.subTest(command=name, option=action.dest):
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


if __name__ == "__main__":
    unittest.main()
