# SPDX-License-Identifier: Apache-2.0
"""Requests: checked, and given an identity."""

import gc
import unittest

import msgspec

from valence_sched.errors import RequestError
from valence_sched.model.group import Group, GroupState
from valence_sched.model.need import Alternative
from valence_sched.model.request import (
    MAX_DEVICE_GROUPS,
    FlavorShare,
    Mix,
    NameRequirements,
    Proximity,
    Request,
    sealed,
)
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 8}}


class TestSealed(unittest.TestCase):
    """Checks and identity."""

    def test_a_request_for_nothing_is_refused(self):
        with self.assertRaisesRegex(RequestError, "asks for nothing"):
            sealed(Request())

    def test_it_is_checked_once_and_holds_no_reference_to_itself(self):
        plain, named = request(CORES), request(CORES, id="named")
        again = msgspec.structs.replace(plain, id="")
        self.assertIs(sealed(again), sealed(again))
        self.assertEqual(plain, sealed(again))
        self.assertIs(named, sealed(named))
        self.assertNotIn(named, gc.get_referents(named.__dict__))

    def test_for_and_against_one_pod_manager_is_refused_by_name(self):
        with self.assertRaisesRegex(RequestError, "'b' is both asked for and excluded"):
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
            with self.subTest(model), self.assertRaisesRegex(RequestError, "any would do"):
                request({"accelerators": [{"model": model}]})
        request({"accelerators": [{"model": "(R) 7"}]})

    def test_devices_that_are_to_be_together_and_apart_at_one_place_are_refused(self):
        groups = [{"name": "a"}, {"name": "b"}]
        for properties in (
            {"nics": [{"count": 2, "same": "switch", "apart": "switch"}]},
            {"nics": groups, "bonds": [{"of": ["a", "b"], "apart": "switch"},
                                       {"of": ["b", "a"], "same": "switch"}]},
        ):  # fmt: skip
            with self.subTest(properties), self.assertRaisesRegex(RequestError, "its own: leave"):
                request(properties)
        for properties in (
            {"nics": [{"count": 1, "same": "switch", "apart": "switch"}]},
            {"nics": [{"count": 2, "same": "chassis", "apart": "switch"}]},
            {"nics": [{**group, "count": 2, "same": "switch"} for group in groups],
             "bonds": [{"of": ["a", "b"], "apart": "switch"}]},
        ):  # fmt: skip
            with self.subTest(properties):
                request(properties)

    def test_an_attribute_or_an_operator_that_does_not_exist_is_refused_with_the_nearest(self):
        for attributes, words in (
            ({"fact.year": "2022"}, "attribute 'fact.year': no place .*did you mean 'facts'"),
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
            {}, {"needs": other}, {"fallbacks": (Alternative(other),)}, {"podms": ("a",)},
            {"exclude_podms": ("a",)}, {"zone": "a"}, {"zone": ""}, {"owner": ""}, {"owner": "a"},
            {"where": 0}, {"where": False}, {"locations": ("a",)}, {"attributes": {"a": "1"}},
            {"capabilities": {"a": ()}}, {"traits": names}, {"aggregates": names},
            {"aggregates": NameRequirements(("a",))}, {"near": (Proximity(thing="a"),)},
            {"group": Group(name="a")}, {"company": GroupState(members={"a": {"b": 1}})},
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
