# SPDX-License-Identifier: Apache-2.0
"""Nova's operators, each where it holds and where it does not."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.model.extra_specs import (
    OPERATORS,
    AttributeCondition,
    condition_problem,
    parse_condition,
    qualify,
    split_attribute,
)

TABLE = (
    # expression, values that fulfil it, values that do not
    ("= 3", ["3", "4", 3, 3.5, "3.0", " 3 "], ["2", 2.99, "x", "", None, float("nan"), "nan"]),
    (">= 3", ["3", "4", 3, 1e9, float("inf")], ["2", -3, "three", None, float("-inf")]),
    ("== 123", ["123", 123.0, "123.0", "1.23e2"], ["124", 122, "x123", None, float("nan")]),
    ("!= 123", ["124", 0, "-123"], ["123", 123.0, "123.00", "text", None, float("nan"), "nan"]),
    ("<= 10", ["10", 9, "-1", "2"], ["11", 10.5, "x", None, "nan"]),
    ("<= inf", [10**300, "inf"], ["x", None, 10**400]),
    ("s== 123", ["123", 123, 123.0], ["1234", "123.0", "0123", None]),
    ("s== linux", ["linux"], ["Linux", "linux ", "", None]),
    ("s!= 123", ["1234", "", "x", "123.0"], ["123", 123.0, None, float("nan")]),
    ("s< 9", ["10", "1000", 10], ["9", "91", "a", None]),
    ("s< 1000", ["10", "100"], ["1000", "2", None]),
    ("s<= 9", ["10", "9", 9.0], ["91", "a", None]),
    ("s> 9", ["91", "a"], ["9", "10", "", None]),
    ("s>= 1000", ["1000", "2", "b"], ["10", "100", None]),
    ("<in> 11", ["12311321", "11", 2011], ["12310321", "", None]),
    ("<in> x86", ["cpu x86-64"], ["X86", None]),
    ("<all-in> aes", ["aes mmx", "aesni"], ["AES", "mmx", None]),
    ("<all-in> aes mmx", ["aes mmx aux", "mmx,aes"], ["aes", "aes mm x", None]),
    ("<or> 12", ["12", 12.0], ["123", "1", None]),
    ("<or> 11 <or> 12", ["12", "11"], ["13", "11 12", "<or>", None]),
    ("<or> 11 <or> 12 <or> 13", [11, "13"], ["14", "", None]),
    ("linux", ["linux"], ["Linux", "linuxes", "", None]),
    ("2022", ["2022", 2022.0, 2022], ["2022.0", 2022.5, None]),
    ("1.6", ["1.6", 1.6], [1.60001, 2, None]),
    ("Red Hat", ["Red Hat"], ["Red", "RedHat", None]),
    ("in or out", ["in or out"], ["in", None]),
    ("a <or> b", ["a <or> b"], ["a", "b", None]),
    ("3 >= 2", ["3 >= 2"], ["3", 3, None]),
    ("-3", ["-3", -3], [3, None]),
)

WRONG = (
    ("=< 3", "no operator named '=<' (did you mean '<='?)"),
    ("=> 3", "no operator named '=>' (did you mean '>='?)"),
    ("s= x", "no operator named 's=' (did you mean 's=='?)"),
    ("=== 3", "no operator named '===' (did you mean '=='?)"),
    ("=! 3", "no operator named '=!' (did you mean '!='?)"),
    ("> 2", "no operator named '>' (did you mean '>='?)"),
    ("< 2", "no operator named '<' (did you mean '<='?)"),
    ("<inn> x", "no operator named '<inn>' (did you mean '<in>'?)"),
    ("<IN> x", "no operator named '<IN>' (did you mean '<in>'?)"),
    ("<all_in> x", "no operator named '<all_in>' (did you mean '<all-in>'?)"),
    ("<3", "no operator named '<' (did you mean '<='?)"),
    ("~ x", "no operator named '~' (did you mean "),
    ("<zzzz> x", "no operator named '<zzzz>' (known: <all-in>, <in>, <or>)"),
    ("<in>x", "no space between operator '<in>' and its value in '<in>x'"),
    (">=2022", "no space between operator '>=' and its value in '>=2022'"),
    ("s==linux", "no space between operator 's==' and its value in 's==linux'"),
    (">=", "operator '>=' without a value"),
    ("<in> ", "operator '<in>' without a value"),
    ("<all-in>", "operator '<all-in>' without a value"),
    ("<or>", "operator '<or>' without a value"),
    ("<or> a <or>", "operator '<or>' without a value"),
    ("<or> <or> a", "operator '<or>' without a value"),
    ("<or> a b", "'b' stands where '<or>' is expected"),
    ("s== Red Hat", "'s==' takes one word, 'Hat' is a second"),
    (">= abc", "'>=' compares numbers, 'abc' is none"),
    ("!= linux", "'!=' compares numbers, 'linux' is none ('s!=' compares text)"),
    ("= linux", "'=' compares numbers, 'linux' is none ('s==' compares text)"),
    ("== nan", "'==' compares numbers, 'nan' is none ('s==' compares text)"),
    ("", "an empty expression"),
    (" \t", "an empty expression"),
)

VALUES = st.none() | st.text() | st.floats() | st.integers() | st.booleans()
ARGUMENTS = st.sampled_from(OPERATORS) | st.text(max_size=6)


class TestHolds(unittest.TestCase):
    """The table of meanings."""

    def test_every_operator_is_in_the_table(self):
        self.assertEqual({*OPERATORS, ""}, {parse_condition(text).operator for text, _, _ in TABLE})

    def test_it_holds_where_nova_says_and_nowhere_else(self):
        for text, fulfilling, others in TABLE:
            for value in fulfilling:
                with self.subTest(text, value=value):
                    self.assertIs(True, parse_condition(text).holds(value))
            for value in others:
                with self.subTest(text, value=value):
                    self.assertIs(False, parse_condition(text).holds(value))

    def test_of_several_values_one_is_enough_and_of_none_none(self):
        for text, value, verdict in (
            ("linux", ("windows", "linux"), True),
            ("linux", ("windows",), False),
            ("linux", (), False),
            (">= 3", ["x", "4"], True),
            (">= 3", [None, "2"], False),
            ("s!= linux", ("linux", "windows"), True),
            ("s!= linux", ("linux",), False),
            ("<or> a <or> b", {"b", "c"}, True),
            ("<in> win", frozenset({"windows"}), True),
        ):
            with self.subTest(text, value=value):
                self.assertIs(verdict, parse_condition(text).holds(value))

    def test_the_words_of_all_in_may_be_parts_of_different_values(self):
        wanted = parse_condition("<all-in> aes mmx")
        self.assertTrue(wanted.holds(("aes", "sse", "mmx")))
        self.assertFalse(wanted.holds(("aes", "sse")))
        self.assertFalse(wanted.holds(()))

    @given(st.sampled_from([text for text, _, _ in TABLE]), VALUES | st.lists(VALUES))
    def test_it_never_raises(self, text, value):
        self.assertIsInstance(parse_condition(text).holds(value), bool)

    @given(VALUES | st.lists(VALUES))
    def test_equal_and_greater_are_one_for_numbers(self, value):
        self.assertEqual(parse_condition("= 3").holds(value), parse_condition(">= 3").holds(value))


class TestParse(unittest.TestCase):
    """What is refused, and in which words."""

    def test_what_is_wrong_is_named_with_what_was_meant(self):
        for text, words in WRONG:
            with self.subTest(text):
                with self.assertRaises(ValueError) as caught:
                    parse_condition(text)
                self.assertTrue(str(caught.exception).startswith(words), str(caught.exception))

    def test_space_around_operator_and_value_does_not_count(self):
        self.assertEqual(AttributeCondition(">=", ("3",)), parse_condition("  >=   3 "))

    @given(st.text() | st.lists(ARGUMENTS, max_size=5).map(" ".join), VALUES)
    def test_any_text_parses_or_is_a_value_error_on_one_line(self, text, value):
        try:
            found = parse_condition(text)
        except ValueError as error:
            self.assertTrue(str(error).isprintable())
        else:
            self.assertIsInstance(found.holds(value), bool)


class TestLocate(unittest.TestCase):
    """Paths of attributes."""

    def test_where_an_attribute_stands(self):
        for path, place in (
            ("facts.year", ("facts", "year")),
            ("year", ("facts", "year")),
            ("facts.a.b", ("facts", "a.b")),
            ("facts.zone", ("facts", "zone")),
            ("capabilities.os", ("capabilities", "os")),
            ("zone", ("zone", "")),
            ("driver", ("driver", "")),
        ):
            with self.subTest(path):
                self.assertEqual(place, split_attribute(path))
                self.assertEqual(place, split_attribute(qualify(path)))

    def test_no_such_place_is_answered_with_the_nearest(self):
        for path, words in (
            ("fact.x", "no place 'fact' for attributes in 'fact.x' (did you mean 'facts'?)"),
            ("capability.x", "(did you mean 'capabilities'?)"),
            ("zzz.x", "(known: capabilities, driver, facts, id, name, status, zone)"),
            ("zone.x", "'zone' has no attributes below it: 'zone.x'"),
            ("facts", "'facts' names no attribute: write facts.NAME"),
            ("capabilities.", "'capabilities.' names no attribute: write capabilities.NAME"),
            ("", "no place ''"),
            (".x", "no place ''"),
        ):
            with self.subTest(path):
                with self.assertRaises(ValueError) as caught:
                    split_attribute(path)
                self.assertIn(words, str(caught.exception))

    @given(st.text(), st.text())
    def test_a_fault_is_one_line_or_none(self, path, text):
        self.assertTrue((condition_problem(path, text) or "none").isprintable())
