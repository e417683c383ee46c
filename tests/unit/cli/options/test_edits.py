# SPDX-License-Identifier: Apache-2.0
"""Options that edit an inventory: the edits that their words are."""

import argparse
import contextlib
import io
import unittest

from valence_sched.model.scenario import AddBlocks, Clone, Drain, Fail, Remove, SetAttributes
from valence_sched_cli.options.whatif import add_edit_options, add_weight_option


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="p")
    add_edit_options(parser)
    add_weight_option(parser)
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
            (("--fail", ""), f"--fail: '': found none of its forms, expected {forms}"),
            (("--fail", "zoen=a"), "--fail: 'zoen=a': found unknown field 'zoen' (did you mean "
                                   "'zone'?)"),
            (("--clone", "px0"), "--clone: 'px0': times: found 0, expected int >= 1"),
            (("--clone", "px10001"),
             "--clone: 'px10001': times: found 10001, expected int <= 10000"),
            (("--add", "0xg@p"), "--add: '0xg@p': count: found 0, expected int >= 1"),
            (("--add", "g@model=A100"), "--add: 'g@model=A100', expected pod managers or pools to "
                                        "add blocks to, no blocks"),
            (("--set", "p:"), "--set: 'p:' is not TARGET:KEY=VALUE (as in rack-1:zone=az2)"),
            (("--set", "p:fact.a=1"), "--set: 'p:fact.a=1' is not TARGET:KEY=VALUE (did you mean "
                                      "'facts.NAME'?)"),
            (("--set", "p:status=Of"), "--set: 'p:status=Of': status: found 'Of', expected one of "
                                       "the words of the schema (known: Offline, Online, Unknown)"),
            (("--set", "p:enabled=maybe"), "--set: 'p:enabled=maybe': enabled: found \"maybe\", "
                                           "expected bool"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(f"argument {message}", problem(*words))
