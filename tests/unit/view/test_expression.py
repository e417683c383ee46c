# SPDX-License-Identifier: Apache-2.0
"""Expressions over a View: every operator, three values, and a plain evaluator for comparison."""

import unittest
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.unit.core.deciders import cpu, gpu
from valence_sched.errors import UnknownName
from valence_sched.model.expression import parse_expression
from valence_sched.testing import view
from valence_sched.view.expression import check_amounts, reported_values, truth_values

YES, NO, UNKNOWN = 1, -1, 0
TALL = {
    "id": "tall", "name": "Tall", "driver": "redfish", "zone": "east-1",
    "aggregates": ["gold", "ssd"], "traits": ["CXL"],
    "capabilities": {"os": ["linux", "windows"], "none": []},
    "facts": {"year": 2022, "zero": 0, "empty": "", "text": "2022", "rack": "r9", "price": 1.5,
              "racks": ["r7", "r9"], "years": ["2019", "2022"], "nothing": [], "dollar": "$5",
              "yes": "true"},
    "blocks": [cpu("c1", 16, 1024), cpu("c2", None), gpu("g", 4)],
    "stocks": [{"uri": "s", "resource": "storage_gib", "total": 100, "used": 40}],
}  # fmt: skip
BARE = {"id": "bare", "enabled": False}
SITE = view(TALL, BARE)


def answers(expression: Any) -> list[int]:
    return truth_values(SITE, parse_expression(expression)).tolist()


class TestComparisons(unittest.TestCase):
    """A pod manager that reports much, and one that reports nothing."""

    def test_every_operator(self):
        for expression, expected in (
            (["=", "$facts.year", 2022], YES),
            (["=", "$facts.year", 2022.5], NO),
            (["=", 2022, "$facts.year"], YES),
            (["=", "$facts.year", 2022, 2022.0, "2022"], YES),
            (["=", "$facts.year", 2022, 2021], NO),
            (["!=", "$facts.year", 2022], NO),
            (["!=", "$facts.year", 2021], YES),
            (["<", "$facts.year", 2023], YES),
            (["<", "$facts.year", 2022], NO),
            (["<=", "$facts.year", 2022], YES),
            ([">", "$facts.year", 2021.9], YES),
            ([">", "$facts.year", 2022], NO),
            ([">=", "$facts.year", 2022], YES),
            ([">=", "$facts.year", 2023], NO),
            (["in", "$facts.year", 1, 2022], YES),
            (["in", "$facts.year", 1, 2], NO),
            (["<", 1, "$facts.price"], YES),
        ):
            with self.subTest(expression):
                self.assertEqual([expected, UNKNOWN], answers(expression))

    def test_a_falsy_value_is_a_value(self):
        """JsonFilter of Nova reads 0 as a missing value."""
        for expression in (
            ["=", "$facts.zero", 0], ["<", "$facts.zero", 1], [">=", "$facts.zero", 0],
            ["not", ["=", "$facts.zero", 1]], ["=", "$facts.empty", ""],
            ["<", "$facts.empty", "a"], ["!=", "$facts.nothing", "x"],
            ["not", ["in", "$facts.nothing", "x"]],
        ):  # fmt: skip
            with self.subTest(expression):
                self.assertEqual([YES, UNKNOWN], answers(expression))

    def test_nothing_is_one_of_an_empty_list(self):
        for sign in ("=", "<", "<=", ">", ">=", "in"):
            with self.subTest(sign):
                self.assertEqual([NO, UNKNOWN], answers([sign, "$facts.nothing", ""]))
                self.assertEqual([NO, UNKNOWN], answers([sign, "$capabilities.none", ""]))

    def test_a_text_that_is_a_number_compares_with_a_number_as_that(self):
        for expression, expected in (
            (["=", "$facts.text", 2022], YES),
            ([">", "$facts.text", 300], YES),
            (["=", "$facts.year", "2022.0"], YES),
            (["=", "$facts.text", "2022.0"], NO),
            ([">", "$facts.text", "300"], NO),
            (["<", "$facts.rack", "r10"], NO),
        ):
            with self.subTest(expression):
                self.assertEqual([expected, UNKNOWN], answers(expression))

    def test_unlike_values_are_not_equal_and_not_in_order(self):
        for left, right in (
            ("$facts.rack", 9), ("$facts.year", "r9"), ("$facts.year", ""), ("$facts.empty", 0),
            ("$facts.zero", False), ("$facts.yes", True), ("$facts.text", "nan"),
        ):  # fmt: skip
            for sign in ("=", "<", "<=", ">", ">=", "in"):
                with self.subTest([sign, left, right]):
                    expected = NO
                    if sign in ("<", "<=") and (left, right) == ("$facts.text", "nan"):
                        expected = YES  # two texts
                    self.assertEqual([expected, UNKNOWN], answers([sign, left, right]))
            self.assertEqual([YES, UNKNOWN], answers(["!=", left, right]))

    def test_one_of_several_values_is_enough_and_unequal_is_none_of_them(self):
        for expression, expected in (
            (["=", "$facts.racks", "r9"], YES),
            (["in", "$facts.racks", "r1", "r7"], YES),
            (["in", "r7", "$facts.racks"], YES),
            (["in", "$facts.rack", "$facts.racks"], YES),
            (["!=", "$facts.racks", "r9"], NO),
            (["!=", "$facts.racks", "r1"], YES),
            ([">=", "$facts.years", 2020], YES),
            (["<", "$facts.years", 2000], NO),
            (["=", "$capabilities.os", "windows"], YES),
            (["in", "$capabilities.os", "esxi", "bsd"], NO),
            (["=", "$facts.racks", "$facts.years"], NO),
        ):
            with self.subTest(expression):
                self.assertEqual([expected, UNKNOWN], answers(expression))

    def test_what_every_pod_manager_reports(self):
        for expression, expected in (
            (["in", "$traits", "CXL", "X"], [YES, NO]),
            (["not", ["in", "$traits", "CXL"]], [NO, YES]),
            (["in", "$aggregates", "gold"], [YES, NO]),
            (["in", "gold", "$aggregates"], [YES, NO]),
            (["!=", "$aggregates", "gold"], [NO, YES]),
            (["=", "$enabled", True], [YES, NO]),
            (["!=", "$enabled", True], [NO, YES]),
            (["=", "$enabled", 1], [NO, NO]),
            (["=", "$id", "tall"], [YES, NO]),
            (["<", "$id", "c"], [NO, YES]),
            (["=", "$status", "Online"], [YES, YES]),
            (["=", "$name", "Tall"], [YES, UNKNOWN]),
            (["=", "$driver", "redfish"], [YES, UNKNOWN]),
            (["=", "$zone", "east-1"], [YES, UNKNOWN]),
            (["=", "$facts.dollar", "$$5"], [YES, UNKNOWN]),
        ):
            with self.subTest(expression):
                self.assertEqual(expected, answers(expression))

    def test_amounts_are_numbers_and_never_unknown(self):
        for expression, expected in (
            ([">=", "$free.cores", 16], [YES, NO]),
            (["=", "$free.cores", "16"], [YES, NO]),
            (["=", "$free.cores", 0], [NO, YES]),
            (["=", "$total.memory_mib", 1024], [YES, NO]),
            (["=", "$free.gpus", 4], [YES, NO]),
            (["=", "$total.accelerators", 4], [YES, NO]),
            (["=", "$free.drives", 0], [YES, YES]),
            (["=", "$free.nics", 0], [YES, YES]),
            (["=", "$free.storage_gib", 60], [YES, NO]),
            (["<", "$free.storage_gib", "$total.storage_gib"], [YES, NO]),
            (["<", "$free.nobody_has_it", 1], [YES, YES]),
            (["<", "$free.cores", "x"], [NO, NO]),
            (["<", "$free.cores", "$facts.year"], [YES, UNKNOWN]),
            (["in", "$facts.zero", 5, "$free.drives"], [YES, UNKNOWN]),
        ):
            with self.subTest(expression):
                self.assertEqual(expected, answers(expression))


VALUES = {
    YES: ["=", "$id", "tall", "$id"],
    NO: ["=", "$id", "other"],
    UNKNOWN: ["=", "$facts.untold", 1],
}


class TestJoints(unittest.TestCase):
    """Kleene's tables."""

    def test_not_is_the_contrary_and_of_unknown_unknown(self):
        """In JsonFilter of Nova, ``not`` returns a list, which is always true."""
        for value, expression in VALUES.items():
            self.assertEqual(-value, answers(["not", expression])[0])
            self.assertEqual(value, answers(["not", ["not", expression]])[0])
            self.assertEqual(-value, answers(["not", ["not", ["not", expression]]])[0])

    def test_and_is_the_least_and_or_the_greatest(self):
        for one, first in VALUES.items():
            self.assertEqual(one, answers(["and", first])[0])
            self.assertEqual(one, answers(["or", first])[0])
            for other, second in VALUES.items():
                self.assertEqual(min(one, other), answers(["and", first, second])[0])
                self.assertEqual(max(one, other), answers(["or", first, second])[0])

    def test_one_missing_of_several_values(self):
        self.assertEqual(YES, answers(["in", "$id", "$facts.untold", "tall"])[0])
        self.assertEqual(UNKNOWN, answers(["in", "$id", "$facts.untold", "x"])[0])
        self.assertEqual(NO, answers(["=", "$id", "$facts.untold", "x"])[0])
        self.assertEqual(UNKNOWN, answers(["=", "$id", "$facts.untold", "tall"])[0])


class TestReportedValues(unittest.TestCase):
    """The values of rows at the paths, for the explanation."""

    def test_one_path_is_its_value_and_several_are_a_map(self):
        for expression, row, expected in (
            (["=", "$facts.year", 1], 0, "2022"),
            (["=", "$facts.year", 1], 1, None),
            (["=", "$free.cores", 1], 0, 16.0),
            (["=", "$enabled", True], 1, "false"),
            (["in", "$facts.racks", "x"], 0, ("r7", "r9")),
            (["and", ["=", "$zone", 1], ["=", "$facts.zero", "$zone"]], 0,
             {"zone": ["east-1"], "facts.zero": ["0"]}),
            (["=", "$enabled", "$free.cores"], 0, {"enabled": ["true"], "free.cores": ["16"]}),
            (["=", "$zone", "$aggregates"], 1, {"zone": ["unknown"], "aggregates": ["none"]}),
        ):  # fmt: skip
            with self.subTest(expression):
                self.assertEqual(expected, reported_values(SITE, parse_expression(expression))[row])


class TestAmounts(unittest.TestCase):
    def test_a_misspelt_amount_is_refused_with_the_nearest(self):
        for name, meant in (("coers", "cores"), ("core", "cores"), ("gpu", "gpus"),
                            ("memory", "memory_mib"), ("storage_gb", "storage_gib")):  # fmt: skip
            with self.subTest(name), self.assertRaises(UnknownName) as caught:
                check_amounts(SITE, parse_expression(["not", ["<", f"$total.{name}", 1]]))
            text = f"where: $total.{name}: no amount named {name!r} (did you mean {meant!r}?)"
            self.assertEqual(text, str(caught.exception))

    def test_the_name_of_a_stock_that_a_site_may_have_tomorrow_is_not(self):
        for name in ("cxl_memory_mib", "licences", "cores", "storage_gib"):
            check_amounts(SITE, parse_expression([">", f"$free.{name}", 1]))
        check_amounts(SITE, parse_expression(["=", "$facts.coers", 1]))


# A plain evaluator, written from the documentation: None is unknown.


def plainly(podm: dict[str, Any], expression: list[Any]) -> bool | None:
    operator, *rest = expression
    if operator == "not":
        inner = plainly(podm, rest[0])
        return None if inner is None else not inner
    if operator in ("and", "or"):
        found = [plainly(podm, part) for part in rest]
        decides = operator == "or"
        if decides in found:
            return decides
        return None if None in found else not decides
    first, *others = (value_of(podm, item) for item in rest)
    if operator == "!=":
        equal = pair(podm, "=", first, others[0])
        return None if equal is None else not equal
    found = [pair(podm, "=" if operator == "in" else operator, first, item) for item in others]
    decides = operator == "in"
    if decides in found:
        return decides
    return None if None in found else not decides


def value_of(podm: dict[str, Any], item: Any) -> Any:
    if not isinstance(item, str) or not item.startswith("$"):
        return item
    place, _, name = item[1:].partition(".")
    if place == "facts":
        return podm["facts"].get(name)
    if place == "capabilities":
        return podm["capabilities"].get(name)
    if place == "free":
        return sum(block["devices"]["processors"][0]["cores"] for block in podm["blocks"])
    return podm.get(place, [] if place == "aggregates" else None)


def pair(podm: dict[str, Any], sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    lefts = left if isinstance(left, list) else [left]
    rights = right if isinstance(right, list) else [right]
    return any(compare(sign, x, y) for x in lefts for y in rights)


def compare(sign: str, x: Any, y: Any) -> bool:
    if isinstance(x, bool) != isinstance(y, bool):
        return False
    if isinstance(x, bool):
        return sign == "=" and x == y
    if isinstance(x, str) != isinstance(y, str):
        try:
            x, y = float(x), float(y)
        except ValueError:
            return False
    return {"=": x == y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[sign]


TEXTS = st.sampled_from(["", "0", "1", "1.0", "a", "b", "nan", "é"])
NUMBERS = st.sampled_from([0, 1, 2, 1.5, -1])
FACTS = st.one_of(NUMBERS, TEXTS, st.lists(TEXTS, max_size=2))
PODMS = st.lists(
    st.fixed_dictionaries(
        {
            "facts": st.dictionaries(st.sampled_from("xyz"), FACTS),
            "capabilities": st.dictionaries(st.sampled_from("cd"), st.lists(TEXTS, max_size=2)),
            "blocks": st.lists(st.just(1), max_size=2),
        },
        optional={
            "zone": TEXTS.filter(bool),
            "aggregates": st.lists(TEXTS.filter(bool), max_size=2, unique=True),
        },
    ),
    min_size=1,
    max_size=4,
)
PATHS = st.sampled_from(
    ["$facts.x", "$facts.y", "$facts.z", "$capabilities.c", "$zone", "$aggregates", "$enabled",
     "$free.cores"]
)  # fmt: skip
ARGUMENTS = st.one_of(PATHS, NUMBERS, TEXTS, st.booleans())
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in"]), PATHS, ARGUMENTS),
    st.tuples(st.sampled_from(["=", "in"]), ARGUMENTS, ARGUMENTS, PATHS),
).map(list)
EXPRESSIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        inner.map(lambda one: ["not", one]),
        st.lists(inner, min_size=1, max_size=3).map(lambda many: ["and", *many]),
        st.lists(inner, min_size=1, max_size=3).map(lambda many: ["or", *many]),
    ),
    max_leaves=6,
)


class TestAgainstAPlainEvaluator(unittest.TestCase):
    """Arrays give the same answers as a loop."""

    @settings(max_examples=100)
    @given(PODMS, EXPRESSIONS)
    def test_every_row_answers_as_the_plain_evaluator_does(self, podms, expression):
        for number, podm in enumerate(podms):
            blocks = [cpu(f"c{at}", 1) for at in range(len(podm["blocks"]))]
            podm |= {"id": str(number), "enabled": number % 2 == 0, "blocks": blocks}
        found = truth_values(view(*podms), parse_expression(expression)).tolist()
        names = {True: YES, False: NO, None: UNKNOWN}
        self.assertEqual([names[plainly(podm, expression)] for podm in podms], found)
