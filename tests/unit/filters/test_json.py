# SPDX-License-Identifier: Apache-2.0
"""Expressions of a request: which pools stay, and how a rejection reads."""

import unittest
from typing import Any

from tests.unit.core.deciders import cpu, cpus, engine, engine_of
from valence_sched import testing
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError, UnknownName
from valence_sched.filters.json import json
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.model.request import Request
from valence_sched.testing import request, view

PODMS = (
    {"id": "a", "zone": "east-1", "facts": {"year": 2024, "price": 0}},
    {"id": "b", "zone": "west-1", "facts": {"year": 2019}},
    {"id": "c"},
)
YEAR = [">=", "$facts.year", 2022]
CORES = {"processor": {"total_cores": 8}}


def reasons(podm: dict[str, Any], where: Any) -> list[str]:
    """Return the reasons against one podm."""
    decision = engine_of(podm).select_destinations(
        request({"processor": {"sockets": 1}}, where=where)
    )
    return [reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "json"]


class TestJson(unittest.TestCase):
    """The filter."""

    def test_it_keeps_the_pools_for_which_the_expression_holds(self):
        for where, verdicts in (
            (None, [True, True, True]),
            (YEAR, [True, False, False]),
            (["not", YEAR], [False, True, False]),
            (["or", YEAR, ["=", "$id", "c"]], [True, False, True]),
            (["and", YEAR, ["=", "$facts.price", 0]], [True, False, False]),
        ):
            with self.subTest(where):
                self.assertEqual(verdicts, json(view(*PODMS), Request(where=where)).tolist())

    def test_what_is_unknown_is_rejected_unless_the_policy_says_otherwise(self):
        asked = Request(where=["not", ["<", "$facts.year", 2022]])
        self.assertEqual([True, False, False], json(view(*PODMS), asked).tolist())
        self.assertEqual([True, False, True], json(view(*PODMS), asked, unknown=True).tolist())
        lenient = Policy(name="lenient", filters=(FilterUse("json", {"unknown": True}),))
        podms = [{**podm, "blocks": cpus(1)} for podm in PODMS]
        asked = request(CORES, where=YEAR, policy="lenient", count=3, min_count=0)
        placed = engine(view(*podms), lenient).select_destinations(asked).placements
        self.assertEqual({"a", "c"}, {placement.chosen.podm for placement in placed})

    def test_it_keeps_the_contract_with_its_option_too(self):
        testing.check_filter(json, unknown=True)

    def test_pools_of_one_pod_manager_differ_in_amounts_and_traits(self):
        pools = [{"id": "1", "traits": ["CXL"]}, {"id": "2"}]
        blocks = [cpu("c1", 16, pools=["1"]), cpu("c2", 64, pools=["2"])]
        site = view({"id": "a", "pools": pools, "blocks": blocks})
        for where, verdicts in (
            ([">", "$free.cores", 16], [False, True]),
            (["in", "$traits", "CXL"], [True, False]),
            (["or", ["in", "$traits", "CXL"], [">", "$free.cores", 16]], [True, True]),
        ):
            self.assertEqual(verdicts, json(site, Request(where=where)).tolist())

    def test_nodes_that_are_placed_count_at_once(self):
        """What is free is looked at again after each node."""
        site = engine_of({"id": "a", "blocks": cpus(10, 8)})
        asked = request(CORES, where=[">", "$free.cores", 40], count=10, min_count=0)
        self.assertEqual(5, len(site.select_destinations(asked).placements))
        asked = request(CORES, where=[">", "$total.cores", 40], count=10, min_count=0)
        self.assertEqual(10, len(site.select_destinations(asked).placements))

    def test_a_reason_has_the_part_that_does_not_hold_and_what_is_told(self):
        for where, texts in (
            (YEAR, ["json: needs facts.year >= 2022, has 2019"]),
            (["and", ["=", "$zone", "west-1"], YEAR], ["json: needs facts.year >= 2022, has 2019"]),
            (["and", ["=", "$zone", "x"], ["not", ["<", "$facts.price", 1]]],
             ["json: needs zone = x, has west-1",
              "json: needs not (facts.price < 1), has unknown"]),
            (["or", YEAR, ["in", "$aggregates", "gold"]],
             ["json: needs facts.year >= 2022 or aggregates in gold, "
              "has facts.year=2019, aggregates=none"]),
            ([">=", "$free.cores", 4000], ["json: needs free.cores >= 4000, has 8"]),
            (["=", "$enabled", False], ["json: needs enabled = false, has true"]),
        ):  # fmt: skip
            with self.subTest(where):
                self.assertEqual(texts, reasons({**PODMS[1], "blocks": cpus(1)}, where))

    def test_a_long_part_is_cut(self):
        (text,) = reasons(PODMS[1], ["in", "$zone", *(f"name-{n}" for n in range(200))])
        self.assertLess(len(text), 300)
        self.assertIn("…", text)


class TestRequest(unittest.TestCase):
    """The expression as a part of a request."""

    def test_a_wrong_one_is_refused_when_the_request_is_sealed(self):
        for where, line in (
            ([], "where: $: found an empty list"),
            (0, "where: $: found 0, expected a list"),
            (False, "where: $: found false, expected a list"),
            ("", 'where: $: found "", expected a list'),
            (["and", ["~", "$zone", "x"]], '$[1][0]: found no operator "~"'),
        ):
            with self.subTest(where), self.assertRaises(RequestError) as caught:
                request(CORES, where=where)
            self.assertIn(line, str(caught.exception))

    def test_a_request_that_was_never_sealed_is_refused_by_the_engine(self):
        asked = Request(needs=request(CORES).needs, where=["nor"], id="mine")
        with self.assertRaises(RequestError) as caught:
            engine_of({"id": "a"}).select_destinations(asked)
        self.assertIn("where: $[0]: found no operator", str(caught.exception))

    def test_an_amount_written_wrongly_is_refused_by_the_engine(self):
        with self.assertRaises(UnknownName) as caught:
            engine_of({"id": "a"}).select_destinations(request(CORES, where=["<", "$free.gpu", 1]))
        self.assertIn("no amount named 'gpu' (did you mean 'gpus'?)", str(caught.exception))

    def test_another_expression_is_another_question(self):
        plain, asked = request(CORES), request(CORES, where=YEAR)
        self.assertEqual(3, len({plain.id, asked.id, request(CORES, where=["not", YEAR]).id}))
        self.assertEqual(asked.id, request(CORES, where=tuple(YEAR)).id)
