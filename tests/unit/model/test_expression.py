# SPDX-License-Identifier: Apache-2.0
"""Conditions on pod managers: expressions, and the operators of extra specs."""

import unittest
from typing import Any

from hypothesis import given, strategies as st

from valence_sched.errors import InputError
from valence_sched.model.expression import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_TEXT,
    AttributePath,
    Comparison,
    LogicalOperation,
    conjuncts,
    parse_expression,
)
from valence_sched.model.extra_specs import (
    OPERATORS,
    AttributeCondition,
    condition_problem,
    parse_condition,
    qualify,
    split_attribute,
)

EAST = ["=", "$zone", "east"]


def nested(depth: int) -> list[Any]:
    """Return an expression of this number of nested lists."""
    found: list[Any] = EAST
    for _ in range(depth - 1):
        found = ["not", found]
    return found


class TestParse(unittest.TestCase):
    def test_it_makes_nouns_of_lists(self):
        found = parse_expression(
            ["and", [">=", "$facts.year", 2022], ["not", ["in", "$id", "a", "$name"]]]
        )
        year = Comparison(">=", (AttributePath("facts", "year"), 2022))
        named = Comparison("in", (AttributePath("id"), "a", AttributePath("name")))
        self.assertEqual(LogicalOperation("and", (year, LogicalOperation("not", (named,)))), found)

    def test_tuples_are_lists_and_scalars_stay_what_they_are(self):
        for scalar in (0, -1, 1.5, "", "0", "east", True, False, 2**63 - 1, -1e308, "é\u2028 "):
            with self.subTest(scalar):
                found = parse_expression(("=", "$zone", scalar))
                self.assertEqual((AttributePath("zone"), scalar), found.arguments)
                self.assertIs(type(scalar), type(found.arguments[1]))

    def test_two_dollars_stand_for_one(self):
        found = parse_expression(["=", "$facts.price", "$$5"])
        self.assertEqual("$5", found.arguments[1])
        self.assertEqual("$", parse_expression(["=", "$name", "$$"]).arguments[1])

    def test_a_name_below_a_place_may_hold_points_and_anything_else(self):
        found = parse_expression(["=", "$facts.a.b $c/ü", 1])
        self.assertEqual(AttributePath("facts", "a.b $c/ü"), found.arguments[0])

    def test_it_prints_as_people_read_it(self):
        for written, text in (
            ([">=", "$facts.year", 2022.0], "facts.year >= 2022"),
            (["=", "$zone", "east", "$facts.zone"], "zone = east = facts.zone"),
            (["in", "$zone", "east-1", "a b", ""], 'zone in east-1, "a b", ""'),
            (["=", "$facts.x", "2022"], 'facts.x = "2022"'),
            (["=", "$facts.x", "true"], 'facts.x = "true"'),
            (["=", "$enabled", True], "enabled = true"),
            (["not", ["<", "$free.cores", 1.5]], "not (free.cores < 1.5)"),
            (["or", ["and", EAST, ["not", EAST]], EAST],
             "(zone = east and not (zone = east)) or zone = east"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(text, str(parse_expression(written)))

    def test_what_must_all_hold_stands_side_by_side(self):
        found = parse_expression(
            ["and", EAST, ["and", ["and", EAST], ["or", EAST, EAST]], ["not", EAST]]
        )
        self.assertEqual(
            ["zone = east", "zone = east", "zone = east or zone = east", "not (zone = east)"],
            [str(part) for part in conjuncts(found)],
        )

    def test_as_much_as_the_bounds_allow(self):
        parse_expression(nested(MAX_DEPTH))
        parse_expression(["in", "$id", *["x"] * (MAX_NODES - 2)])
        parse_expression(["=", "$facts." + "x" * (MAX_TEXT - 7), "x" * MAX_TEXT])


class TestWrong(unittest.TestCase):
    def refuses(self, value: object, line: str) -> None:
        with self.subTest(line), self.assertRaises(InputError) as caught:
            parse_expression(value)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertLess(len(text), 400)
        self.assertIn(line, text)
        self.assertTrue(text.startswith("where: $"), text)

    def test_no_list(self):
        for value, line in (
            ("=", '$: found "=", expected a list (as in ["=", "$zone", "east-1"])'),
            ({"=": 1}, "$: found an object, expected a list"),
            (True, "$: found true, expected a list"),
            ([], "$: found an empty list, expected an operator"),
            (["and", EAST, "x"], '$[2]: found "x", expected a list'),
            (["not", None], "$[1]: found null, expected a list"),
        ):
            self.refuses(value, line)

    def test_no_operator_or_none_that_is_known(self):
        for value, line in (
            ([["=", "$id", 1]], "$[0]: found a list, expected an operator (known: and, or"),
            ([3, 4], "$[0]: found 3, expected an operator"),
            (["==", "$id", 1], "$[0]: found unknown operator \"==\" (did you mean '='?)"),
            (["=>", "$id", 1], "(did you mean '>='?)"),
            (["NOT", EAST], "(did you mean 'not'?)"),
            (["annd", EAST], "(did you mean 'and'?)"),
            (["&&", EAST], "(did you mean 'and'?)"),
            (["and", ["not", ["xor", EAST]]], '$[1][1][0]: found unknown operator "xor" ('),
            (["x" * 10_000], '$[0]: found unknown operator "xxx'),
        ):
            self.refuses(value, line)

    def test_too_few_or_too_many_arguments(self):
        for value, line in (
            (["not"], "$: found 'not' with 0, expected one expression"),
            (["not", EAST, EAST], "$: found 'not' with 2, expected one expression"),
            (["and"], "$: found 'and' with 0, expected at least one expression"),
            (["or", ["or"]], "$[1]: found 'or' with 0, expected at least one expression"),
            (["=", "$id"], "$: found '=' with 1, expected two or more arguments"),
            (["in", "$id"], "$: found 'in' with 1, expected two or more arguments"),
            (["<", "$id", 1, 2], "$: found '<' with 3, expected two arguments"),
            (["!=", "$id", 1, 2], "$: found '!=' with 3, expected two arguments"),
        ):
            self.refuses(value, line)

    def test_arguments_that_are_none(self):
        for item, line in (
            (None, "$[2]: found null, expected a text, a number, true or false (a comparison"),
            ([1], "$[2]: found a list, expected a text"),
            ({}, "$[2]: found an object, expected a text"),
            (float("nan"), "$[2]: found nan, expected a finite number"),
            (float("-inf"), "$[2]: found -inf, expected a finite number"),
            (10**300, "expected a finite number of 64 bits"),
            (2**63, "$[2]: found 9223372036854775808, expected a finite number"),
            ("\ud800", "$[2]: found an unpaired surrogate"),
            (b"x", "$[2]: found"),
            ("x" * (MAX_TEXT + 1), "$[2]: found 1,025 characters, expected at most 1,024"),
        ):
            self.refuses(["=", "$id", item], line)

    def test_paths_that_lead_nowhere(self):
        for path, line in (
            ("$", '$[1]: found unknown path "$" (known: '),
            ("$zne", "$[1]: found unknown path \"$zne\" (did you mean '$zone'?)"),
            ("$fact.year", "(did you mean '$facts'?)"),
            ("$year", "(write a fact as $facts.year; known: "),
            ("$facts", '$[1]: found "$facts", expected $facts.NAME'),
            ("$free.", '$[1]: found "$free.", expected $free.NAME'),
            ("$zone.name", '$[1]: found "$zone.name", expected $zone, which has no attributes'),
        ):
            self.refuses(["=", path, 1], line)

    def test_what_looks_at_nothing_is_refused_and_a_forgotten_dollar_found(self):
        self.refuses(
            ["=", 1, 1], "$: found no path, expected a text that begins with $ (without a path"
        )
        self.refuses(["and", ["=", "facts.year", 1]], "$[1]: found no path")
        self.refuses(["<", "facts.year", 2022], "(did you mean '$facts.year'?)")
        self.refuses(["=", "$$zone", 2022], "found no path")

    def test_too_much_of_it(self):
        deep = f"found more than {MAX_DEPTH} nested lists"
        self.refuses(nested(MAX_DEPTH + 1), deep)
        self.refuses(nested(100_000), deep)
        many = f"found more than {MAX_NODES} parts, expected fewer"
        self.refuses(["or", *[EAST] * 10_000], f"$[86]: {many}")
        self.refuses(["in", "$id", *["x"] * (MAX_NODES - 1)], f"$[256]: {many}")
        self.refuses(["and", ["in", "$id", *["x"] * 250], EAST, EAST], many)


TABLE = (
    # expression, values that meet it, values that do not
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
    ("<or> a b", "expected '<or>', got 'b'"),
    ("s== Red Hat", "'s==' takes one word, got also 'Hat'"),
    (">= abc", "'>=' needs a number, got 'abc'"),
    ("!= linux", "'!=' needs a number, got 'linux' ('s!=' compares text)"),
    ("= linux", "'=' needs a number, got 'linux' ('s==' compares text)"),
    ("== nan", "'==' needs a number, got 'nan' ('s==' compares text)"),
    ("", "an empty condition"),
    (" \t", "an empty condition"),
)

VALUES = st.none() | st.text() | st.floats() | st.integers() | st.booleans()
ARGUMENTS = st.sampled_from(OPERATORS) | st.text(max_size=6)


class TestHolds(unittest.TestCase):
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


class TestParseCondition(unittest.TestCase):
    """Refused conditions, and the error texts."""

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
            ("fact.x", "no namespace 'fact' of attributes in 'fact.x' (did you mean 'facts'?)"),
            ("capability.x", "(did you mean 'capabilities'?)"),
            ("zzz.x", "(known: capabilities, driver, facts, id, name, status, zone)"),
            ("zone.x", "'zone' has no attributes below it: 'zone.x'"),
            ("facts", "'facts' has no name: write facts.NAME"),
            ("capabilities.", "'capabilities.' has no name: write capabilities.NAME"),
            ("", "no namespace ''"),
            (".x", "no namespace ''"),
        ):
            with self.subTest(path):
                with self.assertRaises(ValueError) as caught:
                    split_attribute(path)
                self.assertIn(words, str(caught.exception))

    @given(st.text(), st.text())
    def test_a_fault_is_one_line_or_none(self, path, text):
        self.assertTrue((condition_problem(path, text) or "none").isprintable())
