# SPDX-License-Identifier: Apache-2.0
"""Requests of users, single or in a workload, and as compiled."""

import gc
import unittest

import msgspec

from valence_sched.app import App
from valence_sched.config.parsers import parse_requests
from valence_sched.errors import RequestError, SchedulerError, UnknownName
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import to_json
from valence_sched.model.need import Alternative, NameRequirements, Proximity
from valence_sched.model.request import (
    MAX_DEVICE_GROUPS,
    FlavorShare,
    Group,
    GroupState,
    Mix,
    Request,
    Spread,
    sealed,
)
from valence_sched.model.request_spec import (
    ExternalResource,
    Place,
    RequestSpec,
    compile_request,
    parse_duration,
    parse_moment,
    parse_rate,
    parse_trace_column,
    resolve_resource,
)
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 8}}


class TestSealed(unittest.TestCase):
    def test_a_request_for_nothing_is_refused(self):
        with self.assertRaisesRegex(RequestError, "has no needs"):
            sealed(Request())

    def test_it_is_checked_once_and_holds_no_reference_to_itself(self):
        plain, named = request(CORES), request(CORES, id="named")
        again = msgspec.structs.replace(plain, id="")
        self.assertIs(sealed(again), sealed(again))
        self.assertEqual(plain, sealed(again))
        self.assertIs(named, sealed(named))
        self.assertNotIn(named, gc.get_referents(named.__dict__))

    def test_for_and_against_one_pod_manager_is_refused_by_name(self):
        with self.assertRaisesRegex(RequestError, "'b' is both requested and excluded"):
            request(CORES, podms=["a", "b"], exclude_podms=["b"])

    def test_an_id_that_no_file_may_have_is_refused(self):
        self.assertEqual("i" * 255, request(CORES, id="i" * 255).id)
        with self.assertRaisesRegex(RequestError, "^request i{20}...: its ID has 256 characters"):
            sealed(Request(id="i" * 256, needs=request(CORES).needs))

    def test_too_many_groups_of_one_kind_are_refused(self):
        request({"nics": [{"speed_mbps": n + 1} for n in range(MAX_DEVICE_GROUPS)]})
        with self.assertRaisesRegex(RequestError, "9 groups of nics, at most 8"):
            request({"nics": [{"speed_mbps": n + 1} for n in range(MAX_DEVICE_GROUPS + 1)]})

    def test_a_model_without_a_word_which_any_device_would_have_is_refused(self):
        for model in ("---", "(R)", "_", "™"):
            with (
                self.subTest(model),
                self.assertRaisesRegex(RequestError, "neither a letter nor a digit"),
            ):
                request({"accelerators": [{"model": model}]})
        request({"accelerators": [{"model": "(R) 7"}]})

    def test_devices_that_are_to_be_together_and_apart_at_one_place_are_refused(self):
        groups = [{"name": "a"}, {"name": "b"}]
        for properties in (
            {"nics": [{"count": 2, "same": "switch", "apart": "switch"}]},
            {"nics": groups, "topology": [{"of": ["a", "b"], "apart": "switch"},
                                       {"of": ["b", "a"], "same": "switch"}]},
        ):  # fmt: skip
            with self.subTest(properties), self.assertRaisesRegex(RequestError, "apart: remove"):
                request(properties)
        for properties in (
            {"nics": [{"count": 1, "same": "switch", "apart": "switch"}]},
            {"nics": [{"count": 2, "same": "chassis", "apart": "switch"}]},
            {"nics": [{**group, "count": 2, "same": "switch"} for group in groups],
             "topology": [{"of": ["a", "b"], "apart": "switch"}]},
        ):  # fmt: skip
            with self.subTest(properties):
                request(properties)

    def test_an_attribute_or_an_operator_that_does_not_exist_is_refused_with_the_nearest(self):
        for attributes, words in (
            ({"fact.year": "2022"}, "attribute 'fact.year': no namespace .*did you mean 'facts'"),
            ({"facts.year": "=< 3"}, "attribute 'facts.year': no operator .*did you mean '<='"),
        ):
            with self.subTest(attributes), self.assertRaisesRegex(RequestError, words):
                request(CORES, attributes=attributes)

    def test_an_id_of_its_own_stays(self):
        self.assertEqual("mine", request(CORES, id="mine").id)

    def test_equal_requests_have_one_id_and_different_ones_have_not(self):
        self.assertEqual(request(CORES).id, request(CORES).id)
        others = [
            request(CORES, zone="a"),
            request(CORES, podms=["a"]),
            request({"processor": {"total_cores": 9}}),
        ]
        self.assertEqual(4, len({request(CORES).id, *(other.id for other in others)}))

    def test_asking_for_more_of_the_same_has_the_same_id(self):
        more = request(CORES, count=5, alternates=2)
        self.assertEqual(request(CORES).id, more.id)

    def test_the_seed_is_no_part_of_the_identity(self):
        self.assertEqual(request(CORES).id, request(CORES, seed=5).id)

    def test_the_evaluation_key_is_what_plugins_may_read(self):
        one = request(CORES, zone="a")
        for words in ({"seed": 3}, {"id": "x"}, {"count": 5}, {"alternates": 2}, {"flavor": "f"}):
            self.assertEqual(
                one.evaluation_key, request(CORES, zone="a", **words).evaluation_key, words
            )
        for words in ({"zone": "b"}, {"zone": "a", "podms": ["p"]}, {"zone": "a", "traits": {
            "required": ["T"]}}, {"zone": "a", "attributes": {"year": "1"}}):  # fmt: skip
            self.assertNotEqual(one.evaluation_key, request(CORES, **words).evaluation_key, words)

    def test_whatever_differs_in_what_plugins_may_read_differs_in_the_evaluation_key(self):
        needs, other = request(CORES).needs, request({"processor": {"total_cores": 9}}).needs
        one = Request(needs=needs)
        names = NameRequirements(forbidden=("a",))
        fields = [
            {}, {"needs": other}, {"other_alternatives": (Alternative(other),)}, {"podms": ("a",)},
            {"exclude_podms": ("a",)}, {"zone": "a"}, {"zone": ""}, {"owner": ""}, {"owner": "a"},
            {"where": 0}, {"where": False}, {"locations": ("a",)}, {"attributes": {"a": "1"}},
            {"capabilities": {"a": ()}}, {"traits": names}, {"aggregates": names},
            {"aggregates": NameRequirements(("a",))}, {"near": (Proximity(thing="a"),)},
            {"group": Group(name="a")}, {"group_state": GroupState(members={"a": {"b": 1}})},
            {"mix": Mix((FlavorShare(other),))}, {"mix": Mix((FlavorShare(needs),))},
        ]  # fmt: skip
        for sets in (fields, [{"zone": "z", "owner": "o"} | field for field in fields]):
            keys = {msgspec.structs.replace(one, **field).evaluation_key: field for field in sets}
            distinct = {repr(field) for field in sets}
            self.assertEqual(distinct, {repr(field) for field in keys.values()})

    def test_a_request_makes_the_round_trip(self):
        one = request({**CORES, "accelerators": [{"model": "A100"}]}, zone="a", count=3, seed=9)
        text = msgspec.json.encode(one)
        self.assertEqual(one, msgspec.json.decode(text, type=Request))


FLAVOR = {
    "name": "web",
    "properties": {"processor": {"total_cores": 4}},
    "zone": "a",
    "aggregates": ["ssd"],
    "capabilities": "os=linux, net=fast",
    "attributes": {"year": ">= 2020"},
    "traits": {"required": ["X"], "any_of": [["P", "Q"]]},
    "where": ["=", "$zone", "a"],
    "policy": "pack",
}


def compiled(**words):
    flavor = convert(FLAVOR, Flavor, "f")
    return compile_request(convert({"flavor": "web", **words}, RequestSpec, "f"), flavor)


class TestCompiled(unittest.TestCase):
    """A flavor, and the additions of the request."""

    def test_what_is_not_said_is_the_flavors(self):
        request = compiled()
        self.assertEqual(("a", "pack", 0), (request.zone, request.policy, request.seed))
        self.assertEqual(("ssd",), request.aggregates.required)
        self.assertEqual({"os": ("linux",), "net": ("fast",)}, request.capabilities)
        self.assertEqual(FLAVOR["where"], request.where)

    def test_single_words_take_the_flavors_place(self):
        request = compiled(zone="b", policy="default", seed=7, capabilities={"os": ["bsd"]},
                       attributes={"facts.year": "< 2020"})  # fmt: skip
        self.assertEqual(("b", "default", 7), (request.zone, request.policy, request.seed))
        self.assertEqual({"os": ("bsd",), "net": ("fast",)}, request.capabilities)
        self.assertEqual({"facts.year": "< 2020"}, request.attributes)

    def test_names_and_expressions_add_up(self):
        request = compiled(aggregates={"forbidden": ["hdd"]}, traits={"required": ["X", "Y"]},
                       where=["=", "$facts.row", 1])  # fmt: skip
        self.assertEqual(("ssd",), request.aggregates.required)
        self.assertEqual(("hdd",), request.aggregates.forbidden)
        self.assertEqual(("X", "Y"), request.traits.required)
        self.assertEqual((("P", "Q"),), request.traits.any_of)
        self.assertEqual(["and", FLAVOR["where"], ["=", "$facts.row", 1]], request.where)


class TestFiles(unittest.TestCase):
    """Strict files, with one line for each error."""

    def refuses(self, line, text):
        with self.assertRaises(SchedulerError) as caught:
            parse_requests(text.encode(), "f")
        self.assertEqual(line, str(caught.exception))

    def test_one_request_or_many(self):
        one = parse_requests(b"{flavor: web, count: 2}", "f")
        many = parse_requests(b"requests: [{flavor: web}, {id: x, properties: {nics: [{}]}}]", "f")
        self.assertEqual([("$", 2)], [(place, asked.count) for place, asked in one])
        self.assertEqual(["$.requests[0]", "$.requests[1]"], [place for place, _ in many])

    def test_what_is_wrong_is_named_with_its_place(self):
        self.refuses("f: $.requests[0]: found unknown field 'flavour' (did you mean 'flavor'?)",
                     "requests: [{flavour: web}]")  # fmt: skip
        self.refuses("f: $.requests[1].id: found 'a' again, expected a unique id",
                     "requests: [{id: a, flavor: x}, {id: a, flavor: x}]")  # fmt: skip
        self.refuses("f: $.requests[0].count: found 0, expected `int` >= 1".replace("`", ""),
                     "requests: [{flavor: web, count: 0}]")  # fmt: skip

    def test_a_flavor_or_properties_and_never_both(self):
        for text in ("count: 1", "{flavor: web, properties: {nics: [{}]}}"):
            with self.assertRaisesRegex(SchedulerError, "flavor, or else properties"):
                parse_requests(text.encode(), "f")

    def test_a_compiled_request_of_a_newer_major_version_is_refused(self):
        """S20."""
        text = '{"schema": "valence-sched/request", "version": "%s", "seed": 3}'
        ((_, request),) = parse_requests((text % "1.0").encode(), "f")
        self.assertEqual(3, request.seed)
        with self.assertRaisesRegex(SchedulerError, "version"):
            parse_requests((text % "2.0").encode(), "f")

    def test_an_unknown_flavor_is_named_with_its_place(self):
        app = App(environ={}, stdin=_Stdin(b"requests: [{flavor: smal}]"))
        with self.assertRaises(SchedulerError) as caught:
            app.config.read_requests("-")
        self.assertRegex(str(caught.exception), r"\$\.requests\[0\]\.flavor.*did you mean 'small'")


class _Stdin:
    def __init__(self, data):
        self.data = data

    def read(self, size):
        return self.data[:size]


class TestSending(unittest.TestCase):
    """A compiled request is unchanged after it is sent."""

    def test_every_built_in_flavor_is_the_same_request_after_it_was_sent(self):
        """S68: a changed amount would be another request, with other lots."""
        flavors = App(environ={"XDG_CONFIG_HOME": "/nope"}).config.flavors().values()
        self.assertGreater(len(flavors), 3)
        for flavor in flavors:
            with self.subTest(flavor.name):
                request = compile_request(RequestSpec(flavor=flavor.name), flavor)
                arrived = msgspec.json.decode(to_json(request), type=Request)
                self.assertEqual(to_json(request), to_json(arrived))
                self.assertEqual(request.identity, arrived.identity)


class TestGroup(unittest.TestCase):
    """Rules of groups and counts of members."""

    def test_rules_are_hard_or_soft_and_name_their_domains(self):
        hard = Group(
            name="g", at_most={"zone": 2}, affinity=("location",), spread=(Spread("zone"),)
        )
        self.assertEqual((True, False), (hard.hard, hard.soft))
        self.assertEqual(("location", "zone"), hard.domains)
        soft = Group(name="g", soft_affinity=("zone",), spread=(Spread("podm", 2, True),))
        self.assertEqual((False, True), (soft.hard, soft.soft))
        self.assertEqual(("zone", "podm"), soft.domains)
        self.assertEqual((False, False), (Group(name="g").hard, Group(name="g").soft))

    def test_the_smallest_count_of_an_open_value_may_be_0(self):
        state = GroupState(members={"zone": {"a": 3, "b": 1, "shut": 0}}, open={"zone": ("a", "b")})
        self.assertEqual(1, state.fewest_members("zone"))
        self.assertEqual(0, GroupState(open={"zone": ("a", "c")}).fewest_members("zone"))
        self.assertEqual(0, GroupState().fewest_members("zone"))


class FixedResolver:
    """Knows one volume, and another volume without its place."""

    where = "shelf"

    def find(self, kind, name):
        places = {"v-1": Place(zone="z1"), "v-2": Place()}
        return places.get(name) if kind == "volume" else None

    def known(self, kind):
        return ["v-1", "v-2"] if kind == "volume" else []

    def kinds(self):
        return ["volume"]


class TestResources(unittest.TestCase):
    def test_a_map_of_kinds_gives_resources(self):
        names_by_kind = {"volume": "v", "port": ["p", "q"]}
        resources = RequestSpec(flavor="f", prefer_near=names_by_kind).external_resources
        self.assertEqual(
            ["volume v", "port p", "port q"], [resource.text for resource in resources]
        )
        self.assertEqual({True}, {resource.soft for resource in resources})
        for wrong in ({"volume": ""}, {"": "v"}, {"volume": ["v", ""]}):
            with self.assertRaisesRegex(RequestError, "a kind and a name"):
                _ = RequestSpec(flavor="f", near=wrong).external_resources

    def test_the_first_resolver_that_knows_a_resource_has_its_place(self):
        near = resolve_resource(ExternalResource("volume", "v-1", soft=True), [FixedResolver()])
        self.assertEqual(Proximity(thing="volume v-1", zone="z1", soft=True), near)

    def test_an_unknown_resource_is_refused_with_the_sources_and_the_nearest(self):
        with self.assertRaises(UnknownName) as caught:
            resolve_resource(ExternalResource("volume", "v-11"), [FixedResolver(), FixedResolver()])
        line = "looked in shelf, shelf: no volume named 'v-11' (did you mean 'v-1'?)"
        self.assertEqual(line, str(caught.exception))
        with self.assertRaisesRegex(RequestError, "shelf has volume v-2 without its place"):
            resolve_resource(ExternalResource("volume", "v-2"), [FixedResolver()])
        with self.assertRaisesRegex(RequestError, "cannot locate .* --near-map"):
            resolve_resource(ExternalResource("volume", "v-1"), [])


class TestTimes(unittest.TestCase):
    def test_a_duration_is_a_number_of_seconds_or_has_a_unit(self):
        for text, seconds in ((90, 90), ("90", 90), ("1.5", 1.5), ("90s", 90), ("2h", 7200),
                              ("3d", 259_200), ("10m", 600), (0, 0)):  # fmt: skip
            self.assertEqual(seconds, parse_duration(text), text)

    def test_a_moment_may_be_a_date_without_a_zone_in_utc(self):
        for text in ("1970-01-02T00:00:00Z", "1970-01-02 00:00:00", "1970-01-02T01:00:00+01:00"):
            self.assertEqual(86_400, parse_moment(text), text)
        self.assertEqual(1_700_000_000, parse_moment("1700000000"))

    def test_what_is_no_time_is_refused_in_one_line_that_names_it(self):
        texts = ("soon", "-3", "1_0", "nan", "inf", "9e99", "2026-13-45T00:00:00")
        for text in (*texts, -3, True, None, []):
            with self.assertRaises(ValueError) as raised:
                parse_moment(text)
            self.assertNotIn("\n", str(raised.exception))
            self.assertIn(str(text).lower()[:2], str(raised.exception).lower())

    def test_a_duration_is_no_date(self):
        with self.assertRaises(ValueError):
            parse_duration("2026-01-05T00:00:00")


class TestRates(unittest.TestCase):
    def test_a_rate_is_a_number_in_a_period(self):
        for text, rate in (("10/h", 10 / 3600), ("0.5/s", 0.5), ("200/2d", 200 / 172_800)):
            self.assertAlmostEqual(rate, parse_rate(text), 12, text)

    def test_what_is_none_or_not_above_0_is_refused(self):
        for text in ("10", "10/", "/h", "0/h", "-1/h", "x/h", "10/week", "nan/h", "1/0s"):
            with self.assertRaisesRegex(ValueError, "must be a rate such as 10/h"):
                parse_rate(text)


class TestTraceColumns(unittest.TestCase):
    def test_a_column_may_have_a_factor(self):
        for text, column, factor in (("creation_time", "creation_time", 1),
                                     ("cpu_milli/1000", "cpu_milli", 1 / 1000),
                                     ("minutes*60", "minutes", 60), ("a/b", "a/b", 1)):  # fmt: skip
            found = parse_trace_column(text)
            self.assertEqual((column, factor), (found.column, found.factor), text)

    def test_a_factor_of_0_is_refused(self):
        with self.assertRaisesRegex(ValueError, "a factor above 0"):
            parse_trace_column("cpu/0")


if __name__ == "__main__":
    unittest.main()
