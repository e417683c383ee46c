# SPDX-License-Identifier: Apache-2.0
"""Expressions are read whole, or one line names the place in them and what was meant."""

import unittest
from typing import Any

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

EAST = ["=", "$zone", "east"]


def nested(depth: int) -> list[Any]:
    """Return an expression of so many lists, one in another."""
    found: list[Any] = EAST
    for _ in range(depth - 1):
        found = ["not", found]
    return found


class TestParse(unittest.TestCase):
    """What is right."""

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
    """What is wrong, and where."""

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
            (["==", "$id", 1], "$[0]: found no operator \"==\" (did you mean '='?)"),
            (["=>", "$id", 1], "(did you mean '>='?)"),
            (["NOT", EAST], "(did you mean 'not'?)"),
            (["annd", EAST], "(did you mean 'and'?)"),
            (["&&", EAST], "(did you mean 'and'?)"),
            (["and", ["not", ["xor", EAST]]], '$[1][1][0]: found no operator "xor" ('),
            (["x" * 10_000], '$[0]: found no operator "xxx'),
        ):
            self.refuses(value, line)

    def test_too_few_or_too_many_arguments(self):
        for value, line in (
            (["not"], "$: found 'not' of 0, expected one expression"),
            (["not", EAST, EAST], "$: found 'not' of 2, expected one expression"),
            (["and"], "$: found 'and' of 0, expected at least one expression"),
            (["or", ["or"]], "$[1]: found 'or' of 0, expected at least one expression"),
            (["=", "$id"], "$: found '=' of 1, expected two or more arguments"),
            (["in", "$id"], "$: found 'in' of 1, expected two or more arguments"),
            (["<", "$id", 1, 2], "$: found '<' of 3, expected two arguments"),
            (["!=", "$id", 1, 2], "$: found '!=' of 3, expected two arguments"),
        ):
            self.refuses(value, line)

    def test_arguments_that_are_none(self):
        for item, line in (
            (None, "$[2]: found null, expected a text, a number, true or false (what is not told"),
            ([1], "$[2]: found a list, expected a text"),
            ({}, "$[2]: found an object, expected a text"),
            (float("nan"), "$[2]: found nan, expected a finite number"),
            (float("-inf"), "$[2]: found -inf, expected a finite number"),
            (10**300, "expected a finite number of 64 bits"),
            (2**63, "$[2]: found 9223372036854775808, expected a finite number"),
            ("\ud800", "$[2]: found half a character"),
            (b"x", "$[2]: found"),
            ("x" * (MAX_TEXT + 1), "$[2]: found 1,025 characters, expected at most 1,024"),
        ):
            self.refuses(["=", "$id", item], line)

    def test_paths_that_lead_nowhere(self):
        for path, line in (
            ("$", '$[1]: found no path "$" (known: '),
            ("$zne", "$[1]: found no path \"$zne\" (did you mean '$zone'?)"),
            ("$fact.year", "(did you mean '$facts'?)"),
            ("$year", "(a fact is $facts.year; known: "),
            ("$facts", '$[1]: found "$facts", expected $facts.NAME'),
            ("$free.", '$[1]: found "$free.", expected $free.NAME'),
            ("$zone.name", '$[1]: found "$zone.name", expected $zone, which has nothing below it'),
        ):
            self.refuses(["=", path, 1], line)

    def test_what_looks_at_nothing_is_refused_and_a_forgotten_dollar_found(self):
        self.refuses(["=", 1, 1], "$: found no path, expected a text that begins with $ (what does")
        self.refuses(["and", ["=", "facts.year", 1]], "$[1]: found no path")
        self.refuses(["<", "facts.year", 2022], "(did you mean '$facts.year'?)")
        self.refuses(["=", "$$zone", 2022], "found no path")

    def test_too_much_of_it(self):
        deep = f"found more than {MAX_DEPTH} lists one in another"
        self.refuses(nested(MAX_DEPTH + 1), deep)
        self.refuses(nested(100_000), deep)
        many = f"found more than {MAX_NODES} parts, expected fewer"
        self.refuses(["or", *[EAST] * 10_000], f"$[86]: {many}")
        self.refuses(["in", "$id", *["x"] * (MAX_NODES - 1)], f"$[256]: {many}")
        self.refuses(["and", ["in", "$id", *["x"] * 250], EAST, EAST], many)
