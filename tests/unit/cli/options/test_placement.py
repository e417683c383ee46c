# SPDX-License-Identifier: Apache-2.0
"""The words of Placement's queries on the command line (semantics.md 19)."""

import argparse
import unittest

from valence_sched.errors import UsageError
from valence_sched.model.request import Names
from valence_sched_cli.options import placement
from valence_sched_cli.options.placement import Terms


class TestParsing(unittest.TestCase):
    """One option's text."""

    def test_each_form(self):
        for parse, text, expected in (
            (placement.resource, "VCPU=4", ("VCPU", 4)),
            (placement.resource, "CUSTOM_X=1", ("CUSTOM_X", 1)),
            (placement.traits, "A", Terms(("A",))),
            (placement.traits, "A, B", Terms(("A", "B"))),
            (placement.traits, "!A", Terms((), ("A",))),
            (placement.traits, "A,!B,in:C,D", Terms(("A",), ("B",), (("C", "D"),))),
            (placement.traits, "in:A,B", Terms(any_of=(("A", "B"),))),
            (placement.forbidden, "A,B", Terms(forbidden=("A", "B"))),
            (placement.aggregates, "a", Terms(("a",))),
            (placement.aggregates, "in:a,b", Terms(any_of=(("a", "b"),))),
            (placement.aggregates, "!a", Terms(forbidden=("a",))),
            (placement.aggregates, "!in:a,b", Terms(forbidden=("a", "b"))),
        ):
            with self.subTest(text):
                self.assertEqual(expected, parse(text))

    def test_a_trait_may_have_in_in_its_name(self):
        self.assertEqual(Terms(("CUSTOM_main:x",)), placement.traits("CUSTOM_main:x"))

    def test_what_means_nothing_is_refused(self):
        for parse, text, words in (
            (placement.resource, "VCPU", "is not CLASS=N"),
            (placement.resource, "VCPU=0", "no whole number from 1 on"),
            (placement.resource, "VCPU=1.5", "no whole number from 1 on"),
            (placement.resource, "VCPUS=1", "did you mean 'VCPU'?"),
            (placement.resource, "IPV4_ADDRESS=1", "has no counterpart here"),
            (placement.traits, "", "an empty name"),
            (placement.traits, "A,,B", "an empty name"),
            (placement.traits, "!", "an empty name"),
            (placement.traits, "in:", "an empty name"),
            (placement.traits, "in:A,!B", "'!B' has no place here"),
            (placement.traits, "!in:A,B", "is !A,!B"),
            (placement.forbidden, "!A", "'!A' has no place here"),
            (placement.forbidden, "in:A,B", "'in:A,B': none of several is A,B"),
            (placement.aggregates, "a,b", "in:a,b is one of them"),
            (placement.aggregates, "!", "an empty name"),
            (placement.aggregates, "!!a", "has no place here"),
        ):
            with self.subTest(f"{parse.__name__} {text}"):
                with self.assertRaises(argparse.ArgumentTypeError) as caught:
                    parse(text)
                self.assertIn(words, str(caught.exception))


class TestNames(unittest.TestCase):
    """Those of the flavor and those of the shell."""

    def test_they_must_all_hold_and_each_is_said_once(self):
        flavor = Names(("A",), ("X",), (("P", "Q"),))
        terms = [Terms(("A", "B")), Terms((), ("Y",)), Terms(any_of=(("R",),))]
        expected = Names(("A", "B"), ("X", "Y"), (("P", "Q"), ("R",)))
        self.assertEqual(expected, placement.joined("trait", flavor, terms))
        self.assertEqual(flavor, placement.joined("trait", flavor, []))

    def test_for_and_against_is_refused(self):
        with self.assertRaises(UsageError) as caught:
            placement.joined("trait", Names(("A",)), [Terms(forbidden=("A",))])
        self.assertEqual("trait 'A' is both required and forbidden", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
