# SPDX-License-Identifier: Apache-2.0
"""The help of every command: narrow, in sections, with examples that its parser accepts."""

import argparse
import contextlib
import io
import json
import re
import shlex
import unittest
from importlib.metadata import EntryPoint, entry_points

from tests.functional.programs import PROGRAMS, asked
from tests.functional.test_live import Live
from valence_sched.store.store import Store
from valence_sched_cli.options.parser import SECTIONS

COMMANDS = sorted(entry_points(group="openstack.podm.v1"), key=lambda point: point.name)
WIDTH = 80
MANY_OPTIONS = 12  # number of own options from which a command has sections and examples
EXAMPLES = re.compile(r"\Ausage: [^\n]+\n(?: +[^\n]+\n)*\nexamples:\n((?:  [^\n]+\n)+)\n(\S+)")


def words_of(point: EntryPoint) -> list[str]:
    """Return the words of the command of an entry point."""
    return point.name.split("_")


def parser_of(point: EntryPoint) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser: argparse.ArgumentParser = point.load()(None, None).get_parser(point.name)
    return parser


def own_options(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the group of each option that is not from cliff, by its longest name."""
    return {
        action.option_strings[0]: str(group.title)
        for group in parser._action_groups
        if not str(group.title).casefold().endswith(("formatter", "formatters"))
        for action in group._group_actions
        if action.option_strings and action.help != argparse.SUPPRESS
    }


class TestHelp(unittest.TestCase):
    """The help of every command with an entry point, in both programs."""

    def test_no_line_of_any_help_is_wider_than_the_terminal(self):
        nouns = {tuple(words_of(point)[:n]) for point in COMMANDS for n in (1, 2)}
        screens = [((*words_of(point), "--help"), program)
                   for point in COMMANDS for program in PROGRAMS]  # fmt: skip
        screens += [(noun, "valence-sched") for noun in sorted(nouns)]  # lists its commands
        screens += [(("--help",), "valence-sched"), (("complete", "--help"), "valence-sched")]
        for words, program in screens:
            with self.subTest(words, program=program):
                text = asked(program, *words, COLUMNS=str(WIDTH)).out
                self.assertEqual([], [line for line in text.splitlines() if len(line) > WIDTH])

    def test_help_fits_on_a_screen_and_names_what_must_be_given(self):
        for point in COMMANDS:
            for program in PROGRAMS:
                with self.subTest(point.name, program=program):
                    text = asked(program, *words_of(point), "--help", COLUMNS=str(WIDTH)).out
                    self.assertLessEqual(text.count("\n"), 40)
                    for action in parser_of(point)._actions:
                        name = (action.option_strings or [action.metavar or action.dest])[0]
                        if action.required:
                            self.assertIn(str(name), text)

    def test_the_rest_is_below_help_all(self):
        for point in COMMANDS:
            short, whole = (
                asked("valence-sched", *words_of(point), option, COLUMNS=str(WIDTH)).out
                for option in ("--help", "--help-all")
            )
            with self.subTest(point.name):
                missing = [
                    option
                    for action in parser_of(point)._actions
                    for option in action.option_strings
                    if action.help != argparse.SUPPRESS and option not in whole
                ]
                self.assertEqual([], missing)
                self.assertEqual(short != whole, "more options: " in short)

    def test_the_program_lists_its_commands_by_noun(self):
        for words in (("--help",), ("help",)):
            text = asked("valence-sched", *words, COLUMNS=str(WIDTH)).out
            self.assertLess(text.count("\n"), 50)
            listed = dict(re.findall(r"^  (\S+(?: \S+)?) {2,}(\S.*(?:\n {5,}.*)*)", text, re.M))
            for point in COMMANDS:
                noun, _, verb = " ".join(words_of(point)).rpartition(" ")
                self.assertIn(verb, re.split(r",\s+", listed[noun]))

    def test_a_long_help_has_a_section_for_each_option_and_two_examples(self):
        long = [one for one in COMMANDS if len(own_options(parser_of(one))) - 2 > MANY_OPTIONS]
        self.assertGreater(len(long), 10)
        for point in long:
            groups = own_options(parser_of(point))
            with self.subTest(point.name):
                self.assertEqual({"-h": "options", "--help-all": "options"},
                                 {option: title for option, title in groups.items()
                                  if title not in SECTIONS})  # fmt: skip
                self.assertGreaterEqual(len({*groups.values()}), 2)
                self.assertGreaterEqual(len(point.load().examples), 2)

    def test_sections_come_in_their_order_and_before_the_formats(self):
        for point in COMMANDS:
            titles = [str(group.title) for group in parser_of(point)._action_groups]
            own = [title for title in titles if title in SECTIONS]
            with self.subTest(point.name):
                self.assertEqual(sorted(own, key=SECTIONS.index), own)
                self.assertEqual(["positional arguments", "options", *own],
                                 titles[: len(own) + 2])  # fmt: skip

    def test_examples_come_first_name_the_program_and_are_taken_by_the_parser(self):
        for point in COMMANDS:
            if not point.load().examples:
                continue
            for program in PROGRAMS:
                with self.subTest(point.name, program=program):
                    text = asked(program, *words_of(point), "--help", COLUMNS=str(WIDTH)).out
                    found = EXAMPLES.match(text)
                    self.assertIsNotNone(found, text)
                    self.assertEqual(point.load().__doc__.split("\n")[0].split()[0],
                                     found[2])  # fmt: skip
                    self.check_examples(point, program, found[1])

    def check_examples(self, point: EntryPoint, program: str, text: str) -> None:
        lines = text.replace("\\\n", "").splitlines()
        self.assertEqual(len(point.load().examples), len(lines))
        for line in lines:
            start = [program, *words_of(point)]
            words = shlex.split(line)
            self.assertEqual(start, words[: len(start)])
            with contextlib.redirect_stderr(io.StringIO()) as err:
                try:
                    parser_of(point).parse_args(words[len(start) :])
                except SystemExit:
                    self.fail(err.getvalue())


NODE = ("schedule", "--flavor", "small", "-f", "json")


class TestHeld(Live):
    """One pod manager of the example site: claimed from, decided on and read again."""

    def setUp(self):
        super().setUp()
        self.found = self.serve()
        self.register({"gpu-east": self.found["gpu-east"]})

    def free(self, *words: str) -> int:
        (row,) = self.podm("list", "--long", "-f", "json", *words).data
        return int(row["Free Blocks"])

    def fitting(self) -> int:
        return sum(row["Nodes"] for row in self.podm("fit", "--flavor", "small", "-f", "json").data
                   if row["Podm"] == "gpu-east")  # fmt: skip

    def blocks(self, *words: str) -> list[str]:
        (row,) = [row for row in self.podm(*NODE, *words).data if row["Rank"] == 1]
        return [str(block) for block in row["Blocks"]]

    def told(self) -> list[str]:
        """Return the states of all blocks from a capture, which a conversion must confirm."""
        found = []
        for words in (("capture", "--all"), ("inventory", "convert")):
            file = self.folder / f"{words[0]}.json"
            self.podm(*words, "-o", str(file))
            podms = json.loads(file.read_bytes())["podms"]
            found.append([block.get("status") for podm in podms for block in podm["blocks"]])
        self.assertEqual(found[0], found[1])
        return found[0]

    def test_a_claim_is_taken_off_what_is_decided_on_and_nowhere_else(self):
        before, free, fitting = self.told(), self.free(), self.fitting()
        held = self.blocks("--claim")
        self.assertEqual(free - len(held), self.free())
        self.assertEqual(fitting - 1, self.fitting())
        self.assertFalse(set(held) & set(self.blocks()))
        self.assertEqual(before, self.told())

    def test_what_was_held_is_free_again_and_nothing_of_it_was_remembered(self):
        """A hold that was written to the cache would never be removed from it."""
        free, before = self.free(), self.told()
        for _ in range(2):
            self.blocks("--claim")
        with Store(f"sqlite:///{self.state}") as store:
            self.assertEqual(2, len(store.claims.list()))
            for claim in store.claims.list():
                store.claims.release(claim.id)
            kept = [block.status for block in store.load_podms()["gpu-east"].blocks]
        states = [(one.state, one.reserved) if one else None for one in kept]
        self.assertEqual(free, self.free())
        self.assertEqual(before, self.told())
        told = [(one.get("state", "Unused"), one.get("reserved", False)) for one in before]
        self.assertEqual(told, states)

    def test_what_was_composed_is_counted_once(self):
        free = self.free()
        (node,) = self.podm(*NODE, "--compose").data
        (claim,) = self.podm("claim", "list", "-f", "json").data
        self.assertEqual("COMPOSED", claim["State"])
        self.assertEqual(free - len(node["Blocks"]), self.free())
        (claim,) = self.podm("claim", "list", "-f", "json").data
        self.assertEqual("SETTLED", claim["State"])
        for screen in (self.podm("claim", "list").out, self.podm("claim", "show", claim["ID"]).out):
            self.assertRegex(screen, r"\| IN USE +\|")
            self.assertNotIn("SETTLED", screen)
        done = self.podm("claim", "renew", claim["ID"], code=1)
        self.assertIn(f"claim {claim['ID']} is IN USE: only a held claim can be renewed", done.err)
        self.assertEqual(free - len(node["Blocks"]), self.free())

    def test_the_holder_of_a_block_is_shown_and_what_is_somebody_elses(self):
        held = self.blocks("--claim")
        (claim,) = self.podm("claim", "list", "-f", "json").data
        taken = self.blocks()[0]
        documents = self.found["gpu-east"].documents
        before = documents.get(taken)
        status = {**before["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(taken, {**before, "CompositionStatus": status})
        shown = self.podm("show", "gpu-east", "-f", "json").data
        self.assertEqual(dict.fromkeys(held, claim["ID"]), shown["Held Blocks"])
        self.assertIn(taken, shown["Unmanaged Blocks"])
        self.assertFalse(set(held) & set(shown["Unmanaged Blocks"]))

    def test_a_recorded_one_is_decided_on_as_recorded_unless_the_state_is_named(self):
        file = str(self.folder / "recorded.json")
        self.podm("capture", "--all", "-o", file)
        held, words = self.blocks("--claim"), ("--inventory", file)
        self.assertEqual(held, self.blocks(*words))
        self.assertNotEqual(held, self.blocks(*words, "--state", str(self.state)))
