# SPDX-License-Identifier: Apache-2.0
"""Filters that use fields of the request: attributes, places, expressions."""

import itertools
import unittest
from typing import Any

from tests.unit.core.deciders import cpu, cpus, engine, engine_of
from valence_sched import testing
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError, UnknownName
from valence_sched.filters.attributes import attributes
from valence_sched.filters.json import json
from valence_sched.filters.location import location
from valence_sched.filters.near import near
from valence_sched.model.need import Proximity
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.terms import podm_fields

PODMS = (
    {"id": "a", "name": "Rack A", "zone": "east-1", "driver": "redfish",
     "facts": {"year": 2024, "rack": "E07", "racks": ["E07", "E08"], "price": 1.5},
     "capabilities": {"os": ["linux", "windows"]}},
    {"id": "b", "zone": "west-1", "status": "Offline",
     "facts": {"year": 2019, "rack": "W11"}, "capabilities": {"os": ["linux"]}},
    {"id": "c", "facts": {"year": "long ago"}},
)  # fmt: skip


def reasons(podm: dict, **asked: str) -> list[str]:
    """Return the reasons against one podm."""
    attributes = {name.replace("__", "."): text for name, text in asked.items()}
    decision = engine_of({**podm, "status": "Online"}).select_destinations(
        request({"processor": {"sockets": 1}}, attributes=attributes)
    )
    return [
        reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "attributes"
    ]


class TestAttributes(unittest.TestCase):
    def test_it_keeps_the_pod_managers_whose_attributes_fulfil_what_is_asked(self):
        for asked, verdicts in (
            ({}, [True, True, True]),
            ({"facts.year": ">= 2020"}, [True, False, False]),
            ({"year": "<= 2020"}, [False, True, False]),
            ({"year": "!= 2019"}, [True, False, False]),
            ({"year": "2019"}, [False, True, False]),
            ({"price": "= 1.5"}, [True, False, False]),
            ({"rack": "<in> E"}, [True, False, False]),
            ({"racks": "E08"}, [True, False, False]),
            ({"facts.nobody_tells": "s!= x"}, [False, False, False]),
            ({"capabilities.os": "linux"}, [True, True, False]),
            ({"capabilities.os": "<all-in> linux windows"}, [True, False, False]),
            ({"capabilities.hv": "kvm"}, [False, False, False]),
            ({"zone": "<in> -1"}, [True, True, False]),
            ({"zone": "s!= east-1"}, [False, True, False]),
            ({"status": "Online"}, [True, False, True]),
            ({"driver": "redfish"}, [True, False, False]),
            ({"id": "<or> a <or> c"}, [True, False, True]),
            ({"name": "Rack A"}, [True, False, False]),
            ({"year": ">= 2000", "zone": "west-1"}, [False, True, False]),
        ):
            with self.subTest(asked):
                found = attributes(view(*PODMS), Request(attributes=asked))
                self.assertEqual(verdicts, found.tolist())

    def test_every_pool_of_a_pod_manager_is_judged_as_it_is(self):
        pools = [{"id": "1"}, {"id": "2"}]
        site = view({**PODMS[1], "pools": pools}, {**PODMS[0], "pools": pools})
        asked = Request(attributes={"year": ">= 2020", "capabilities.os": "<in> win"})
        self.assertEqual([False, False, True, True], attributes(site, asked).tolist())

    def test_a_reason_has_the_attribute_the_condition_and_what_is_told(self):
        for asked, text in (
            ({"facts__year": ">= 2022"}, "attributes: facts.year: needs >= 2022, has 2019"),
            ({"year": "== 2022"}, "attributes: year: needs == 2022, has 2019"),
            ({"facts__colour": "red"}, "attributes: facts.colour: needs red, has unknown"),
            ({"capabilities__os": "bsd"}, "attributes: capabilities.os: needs bsd, has linux"),
            ({"capabilities__hv": "kvm"}, "attributes: capabilities.hv: needs kvm, has none"),
            ({"zone": "<in> east"}, "attributes: zone: needs <in> east, has west-1"),
        ):
            with self.subTest(asked):
                self.assertEqual([text], reasons(PODMS[1], **asked))


PLACES = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1", "labels": ["p", "q"]}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)


def must(**place: object) -> Proximity:
    return Proximity(thing="volume v", **place)


class TestNear(unittest.TestCase):
    """All parts of all places must be shared."""

    def check(self, kept: str, *near_to: Proximity) -> None:
        mask = near(view(*PLACES), Request(near=near_to)).tolist()
        names = (podm["id"] for podm in PLACES)
        self.assertEqual(kept, "".join(itertools.compress(names, mask)))

    def test_the_zone_an_aggregate_and_every_fact_are_shared(self):
        self.check("b", must(zone="z2"))
        self.check("ab", must(aggregates=("x", "w")))
        self.check("a", must(facts={"rack": "r1"}))
        self.check("ab", must(facts={"rack": ("r1", "r2")}))
        self.check("a", must(facts={"labels": "q"}))
        self.check("", must(zone="z2", facts={"rack": "r1"}))

    def test_all_of_several_things_are_near(self):
        self.check("ab", must(aggregates=("x",)))
        self.check("b", must(aggregates=("x",)), must(zone="z2"))

    def test_a_wish_rejects_nothing(self):
        wish = Proximity(thing="volume w", zone="z1", soft=True)
        self.check("abc", wish)
        self.check("b", wish, must(zone="z2"))


class TestFields(unittest.TestCase):
    """The changes of a pod manager that can change a verdict."""

    def test_any_request_may_name_any_part_of_a_place(self):
        self.assertEqual(["aggregates", "facts", "zone"], sorted(podm_fields(near, {})))

    def test_a_request_reads_the_places_of_what_must_be_near_alone(self):
        wish = Proximity(thing="volume w", zone="z2", soft=True)
        asked = Request(near=(wish, must(aggregates=("x",), facts={"rack": "r1"})))
        self.assertEqual(["aggregates", "facts.rack"], sorted(podm_fields(near, {}, asked)))


TOLD = ("dc1/row-3", "dc1/row-3/rack-7", "dc1/row-33", "DC1/row-3", ["dc2/row-1", "dc1/row-4"], 7,
        "dc1/", None, [])  # fmt: skip
SITE = view(
    *(
        {"id": str(number), "facts": {} if reported is None else {"location": reported}}
        for number, reported in enumerate(TOLD)
    )
)


class TestLocation(unittest.TestCase):
    def passing(self, *locations: str) -> list:
        found = location(SITE, Request(locations=locations)).tolist()
        return [reported for reported, keep in zip(TOLD, found, strict=True) if keep]

    def test_a_location_holds_itself_and_what_is_below_it(self):
        self.assertEqual(["dc1/row-3", "dc1/row-3/rack-7"], self.passing("dc1/row-3"))
        self.assertEqual(["dc1/row-3/rack-7"], self.passing("dc1/row-3/rack-7"))
        self.assertEqual([], self.passing("dc1/row-3/rack-7/slot-1"))
        self.assertEqual([], self.passing("row-3"))

    def test_a_name_that_begins_alike_is_another_location(self):
        self.assertEqual(["dc1/row-33"], self.passing("dc1/row-33"))
        self.assertEqual([], self.passing("dc1/row"))

    def test_upper_and_lower_case_differ(self):
        self.assertEqual(["DC1/row-3"], self.passing("DC1"))

    def test_a_slash_at_the_end_does_not_matter(self):
        self.assertEqual(self.passing("dc1"), self.passing("dc1/"))
        self.assertIn("dc1/", self.passing("dc1"))

    def test_a_letter_at_the_end_does(self):
        site = view(*({"id": str(n), "facts": {"location": f"dc/{name}"}}
                      for n, name in enumerate(("rack-X", "rack-", "rack-XX"))))  # fmt: skip
        found = location(site, Request(locations=("dc/rack-X/",)))
        self.assertEqual([True, False, False], found.tolist())

    def test_one_of_several_is_enough_on_either_side(self):
        self.assertEqual([["dc2/row-1", "dc1/row-4"]], self.passing("dc2"))
        self.assertEqual([["dc2/row-1", "dc1/row-4"]], self.passing("dc1/row-4", "nowhere"))
        self.assertEqual(
            ["dc1/row-33", ["dc2/row-1", "dc1/row-4"]], self.passing("dc1/row-33", "dc2")
        )

    def test_a_number_is_a_name(self):
        self.assertEqual([7], self.passing("7"))

    def test_without_a_wish_all_stay_those_that_tell_nothing_too(self):
        self.assertEqual(list(TOLD), self.passing())

    def test_a_reason_has_the_locations_and_what_is_told(self):
        for reported, text in (
            ("dc9", "location: needs dc1 or dc2, has dc9"),
            (["dc8", "dc9"], "location: needs dc1 or dc2, has dc8, dc9"),
            (None, "location: needs dc1 or dc2, has unknown"),
        ):
            podm = {"id": "a", "facts": {} if reported is None else {"location": reported}}
            asked = request({"processor": {"sockets": 1}}, locations=("dc1", "dc2"))
            found = Verdicts(engine_of(podm).select_destinations(asked)).reasons(0)
            self.assertIn(text, [reason.text for reason in found])

    def test_a_location_without_a_name_is_refused(self):
        for name in ("", "/", "//"):
            with self.subTest(name), self.assertRaises(RequestError):
                request({"processor": {"sockets": 1}}, locations=("dc1", name))


JSON_PODMS = (
    {"id": "a", "zone": "east-1", "facts": {"year": 2024, "price": 0}},
    {"id": "b", "zone": "west-1", "facts": {"year": 2019}},
    {"id": "c"},
)
YEAR = [">=", "$facts.year", 2022]
CORES = {"processor": {"total_cores": 8}}


def json_reasons(podm: dict[str, Any], where: Any) -> list[str]:
    """Return the reasons against one podm."""
    decision = engine_of(podm).select_destinations(
        request({"processor": {"sockets": 1}}, where=where)
    )
    return [reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "json"]


class TestJson(unittest.TestCase):
    def test_it_keeps_the_pools_for_which_the_expression_holds(self):
        for where, verdicts in (
            (None, [True, True, True]),
            (YEAR, [True, False, False]),
            (["not", YEAR], [False, True, False]),
            (["or", YEAR, ["=", "$id", "c"]], [True, False, True]),
            (["and", YEAR, ["=", "$facts.price", 0]], [True, False, False]),
        ):
            with self.subTest(where):
                self.assertEqual(verdicts, json(view(*JSON_PODMS), Request(where=where)).tolist())

    def test_what_is_unknown_is_rejected_unless_the_policy_says_otherwise(self):
        asked = Request(where=["not", ["<", "$facts.year", 2022]])
        self.assertEqual([True, False, False], json(view(*JSON_PODMS), asked).tolist())
        self.assertEqual([True, False, True], json(view(*JSON_PODMS), asked, unknown=True).tolist())
        lenient = Policy(name="lenient", filters=(FilterUse("json", {"unknown": True}),))
        podms = [{**podm, "blocks": cpus(1)} for podm in JSON_PODMS]
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
        """The free blocks are read again after each node."""
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
                self.assertEqual(texts, json_reasons({**JSON_PODMS[1], "blocks": cpus(1)}, where))

    def test_a_long_part_is_cut(self):
        (text,) = json_reasons(JSON_PODMS[1], ["in", "$zone", *(f"name-{n}" for n in range(200))])
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
            (["and", ["~", "$zone", "x"]], '$[1][0]: found unknown operator "~"'),
        ):
            with self.subTest(where), self.assertRaises(RequestError) as caught:
                request(CORES, where=where)
            self.assertIn(line, str(caught.exception))

    def test_a_request_that_was_never_sealed_is_refused_by_the_engine(self):
        asked = Request(needs=request(CORES).needs, where=["nor"], id="mine")
        with self.assertRaises(RequestError) as caught:
            engine_of({"id": "a"}).select_destinations(asked)
        self.assertIn("where: $[0]: found unknown operator", str(caught.exception))

    def test_an_amount_written_wrongly_is_refused_by_the_engine(self):
        with self.assertRaises(UnknownName) as caught:
            engine_of({"id": "a"}).select_destinations(request(CORES, where=["<", "$free.gpu", 1]))
        self.assertIn("no amount named 'gpu' (did you mean 'gpus'?)", str(caught.exception))

    def test_another_expression_is_another_question(self):
        plain, asked = request(CORES), request(CORES, where=YEAR)
        self.assertEqual(3, len({plain.id, asked.id, request(CORES, where=["not", YEAR]).id}))
        self.assertEqual(asked.id, request(CORES, where=tuple(YEAR)).id)
