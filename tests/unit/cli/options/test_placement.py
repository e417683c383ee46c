# SPDX-License-Identifier: Apache-2.0
"""The words of Placement's queries on the command line (semantics.md 19)."""

import argparse
import unittest

from valence_sched.errors import UsageError
from valence_sched.model.request import NameRequirements
from valence_sched_cli.options import placement
from valence_sched_cli.options.placement import NameConstraints


class TestParsing(unittest.TestCase):
    """One option's text."""

    def test_each_form(self):
        for parse, text, expected in (
            (placement.parse_resource, "VCPU=4", ("VCPU", 4)),
            (placement.parse_resource, "CUSTOM_X=1", ("CUSTOM_X", 1)),
            (placement.parse_traits, "A", NameConstraints(("A",))),
            (placement.parse_traits, "!A", NameConstraints((), ("A",))),
            (placement.parse_traits, "in:A, B", NameConstraints(any_of=(("A", "B"),))),
            (placement.parse_forbidden, "A", NameConstraints(forbidden=("A",))),
            (placement.parse_aggregates, "a", NameConstraints(("a",))),
            (placement.parse_aggregates, "in:a,b", NameConstraints(any_of=(("a", "b"),))),
            (placement.parse_aggregates, "!a", NameConstraints(forbidden=("a",))),
            (placement.parse_aggregates, "!in:a,b", NameConstraints(forbidden=("a", "b"))),
        ):
            with self.subTest(text):
                self.assertEqual(expected, parse(text))

    def test_a_trait_may_have_in_in_its_name(self):
        self.assertEqual(
            NameConstraints(("CUSTOM_main:x",)), placement.parse_traits("CUSTOM_main:x")
        )

    def test_what_means_nothing_is_refused(self):
        for parse, text, words in (
            (placement.parse_resource, "VCPU", "is not CLASS=N"),
            (
                placement.parse_resource,
                "VCPU=0",
                "must be a whole number of 1 to 1,000,000,000,000,000,",
            ),
            (placement.parse_resource, "VCPU=1000000000000001", "must be a whole number of 1 to"),
            (placement.parse_resource, "VCPU=1.5", "must be a whole number of 1 to"),
            (placement.parse_resource, "VCPUS=1", "did you mean 'VCPU'?"),
            (placement.parse_resource, "CUSTOM_a b=1", "capitals, digits and underscores"),
            (placement.parse_resource, "custom_x=1", "capitals, digits and underscores"),
            (placement.parse_resource, "IPV4_ADDRESS=1", "has no counterpart here"),
            (placement.parse_traits, "", "an empty name"),
            (placement.parse_traits, "A,B", "in:a,b is one of them, and the option twice is both"),
            (placement.parse_traits, "A,!B", "in:a,b is one of them"),
            (placement.parse_traits, "A,in:B,C", "in:a,b is one of them"),
            (placement.parse_traits, "!A,!B", "in:a,b is one of them"),
            (placement.parse_traits, "in:A,,B", "an empty name"),
            (placement.parse_traits, "!", "an empty name"),
            (placement.parse_traits, "in:", "an empty name"),
            (placement.parse_traits, "in:A,!B", "'!B' has no place here"),
            (placement.parse_traits, "!in:A,B", "none of several is --forbidden for each"),
            (placement.parse_forbidden, "!A", "'!A' has no place here"),
            (placement.parse_forbidden, "in:A,B", "none of several is the option for each of them"),
            (placement.parse_forbidden, "A,B", "none of several is the option for each of them"),
            (placement.parse_aggregates, "a,b", "in:a,b is one of them"),
            (placement.parse_aggregates, "!", "an empty name"),
            (placement.parse_aggregates, "!!a", "has no place here"),
        ):
            with self.subTest(f"{parse.__name__} {text}"):
                with self.assertRaises(argparse.ArgumentTypeError) as caught:
                    parse(text)
                self.assertIn(words, str(caught.exception))


class TestNames(unittest.TestCase):
    """Those of the flavor and those of the shell."""

    def test_they_must_all_hold_and_each_is_said_once(self):
        flavor = NameRequirements(("A",), ("X",), (("P", "Q"),))
        terms = [
            NameConstraints(("A", "B")),
            NameConstraints((), ("Y",)),
            NameConstraints(any_of=(("R",),)),
        ]
        expected = NameRequirements(("A", "B"), ("X", "Y"), (("P", "Q"), ("R",)))
        self.assertEqual(expected, placement.merge_names("trait", flavor, terms))
        self.assertEqual(flavor, placement.merge_names("trait", flavor, []))

    def test_for_and_against_is_refused(self):
        with self.assertRaises(UsageError) as caught:
            placement.merge_names(
                "trait", NameRequirements(("A",)), [NameConstraints(forbidden=("A",))]
            )
        self.assertEqual("trait 'A' is both required and forbidden", str(caught.exception))

    def test_one_of_a_list_that_is_all_forbidden_is_refused(self):
        alternatives = NameConstraints(any_of=(("A", "B"),))
        only_a, both = NameConstraints((), ("A",)), NameConstraints((), ("B", "A"))
        names = placement.merge_names("trait", NameRequirements(), [alternatives, only_a])
        self.assertEqual(("A",), names.forbidden)
        with self.assertRaises(UsageError) as caught:
            placement.merge_names("trait", NameRequirements(), [alternatives, both])
        self.assertEqual("trait in:A,B: each of them is forbidden", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
