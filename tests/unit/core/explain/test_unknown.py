# SPDX-License-Identifier: Apache-2.0
"""Warnings about requested terms, values and places that are unknown to all pod managers."""

import unittest

from msgspec import json

from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from valence_sched.core.explain.report import decision_warnings
from valence_sched.model.inventory import LeanPodm
from valence_sched.testing import request, view
from valence_sched.view.builder import ViewBuilder

TOLD = {"id": "a", "zone": "z", "blocks": cpus(1),
        "facts": {"year": 2022, "location": ["dc1/row-3/rack-7", "hall-1"]},
        "capabilities": {"os": ["linux"]}, "aggregates": ["gold"], "traits": ["T"]}  # fmt: skip


def warnings(**words) -> list[str]:
    asked = request({"processor": {"sockets": 1}}, **words)
    return decision_warnings(engine_of(TOLD).select_destinations(asked))


class TestUntold(unittest.TestCase):
    """One line for each unknown name, with the nearest known name."""

    def test_a_fact_or_capability_that_nobody_tells_is_named_with_the_nearest(self):
        for words, line in (
            ({"attributes": {"yaer": ">= 1"}}, "'facts.yaer' (did you mean 'year'?)"),
            ({"attributes": {"zoen": "z"}}, "'facts.zoen' (did you mean 'zone'?)"),
            ({"attributes": {"capabilities.so": "linux"}},
             "'capabilities.so' (did you mean 'os'?)"),
            ({"capabilities": {"oss": ("linux",)}}, "'capabilities.oss' (did you mean 'os'?)"),
            ({"where": ["=", "$facts.yaer", 1]}, "'facts.yaer' (did you mean 'year'?)"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual([f"no pod manager reports {line}"], warnings(**words))

    def test_each_is_said_once_and_what_is_told_not_at_all(self):
        self.assertEqual([], warnings())
        reported = {"attributes": {"year": ">= 1", "zone": "z"}, "capabilities": {"os": ("linux",)}}
        self.assertEqual([], warnings(**reported, where=["=", "$facts.year", "$free.cores"]))
        named = {"zone": "z", "aggregates": ["gold"], "traits": {"any_of": [["T"]]}}
        self.assertEqual([], warnings(**named))
        twice = warnings(attributes={"rack": "1"}, where=["=", "$facts.rack", 1])
        self.assertEqual(1, len(twice))

    def test_a_zone_aggregate_trait_or_value_that_nobody_has_is_named_with_the_nearest(self):
        for words, line in (
            ({"zone": "zz"}, "is in the zone 'zz' (did you mean 'z'?)"),
            ({"locations": ["dc1/row-3/"]}, None),
            ({"locations": ["hall-1", "dc1/rwo-3"]},
             "is at the location 'dc1/rwo-3' (did you mean 'dc1/row-3'?)"),
            ({"aggregates": ["glod"]}, "is in the aggregate 'glod' (did you mean 'gold'?)"),
            ({"traits": {"any_of": [["T", "X"]]}}, "has the trait 'X' (known: T)"),
            ({"capabilities": {"os": ("linus",)}},
             "has the capability os 'linus' (did you mean 'linux'?)"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual([f"no pod manager {line}"] if line else [], warnings(**words))

    def test_what_is_forbidden_and_nowhere_is_doubtful_only_where_one_is_like_it(self):
        like = warnings(traits={"forbidden": ["TT", "LAB"]})
        self.assertEqual(["no pod manager has the trait 'TT' (did you mean 'T'?)"], like)


DRIVE = {"uri": "d", "devices": {"drives": [{"media": "SSD", "remote": False}]}}
DRIVE_SITE = {"id": "a", "blocks": [
    cpu("c", 8), gpu("g", model="NVIDIA A100 80GB"), {**DRIVE, "places": {"switch": "s"}},
]}  # fmt: skip


def device_warnings(properties, *podms, **words) -> list[str]:
    asked = request(properties, **words)
    return decision_warnings(engine_of(*podms or [DRIVE_SITE]).select_destinations(asked))


class TestUnmade(unittest.TestCase):
    """One line for each unknown value, with the nearest known value."""

    def test_a_value_that_no_device_has_is_named_with_the_nearest(self):
        for properties, line in (
            ({"accelerators": [{"kind": "GPPU"}]},
             "accelerator has the kind 'GPPU' (did you mean 'GPU'?)"),
            ({"drives": [{"media": "SDD"}]}, "drive has the media 'SDD' (did you mean 'SSD'?)"),
            ({"accelerators": [{"model": "A1000"}]},
             "accelerator has the model 'A1000' (did you mean 'A100'?)"),
            ({"drives": [{"protocol": "NVMe"}]},
             "drive has the protocol 'NVMe' (no name is known)"),
        ):  # fmt: skip
            with self.subTest(properties):
                self.assertEqual([f"no {line}"], device_warnings(properties))

    def test_hardware_that_is_gone_is_not_known(self):
        """A service knew each model that it ever read: a removed one hid that no device has it."""
        before = view({"id": "gone", "blocks": [gpu("h", model="NVIDIA H200")]})
        builder = ViewBuilder(before.kinds)
        builder.add(json.decode(json.encode(DRIVE_SITE), type=LeanPodm), "testing")
        asked = request({"accelerators": [{"model": "H200"}]})
        found = decision_warnings(engine(builder.view()).select_destinations(asked))
        expected = "no accelerator has the model 'H200' (known: NVIDIA A100 80GB)"
        self.assertEqual([expected], found)

    def test_of_alternatives_one_may_be_nowhere_but_not_all(self):
        first = [{"accelerators": [{"model": "H200"}]}, {"accelerators": [{"model": "A100"}]}]
        self.assertEqual([], device_warnings({}, first_of=first))
        first[1] = {"drives": [{"media": "SDD"}]}
        self.assertEqual(
            ["no accelerator has the model 'H200' (known: NVIDIA A100 80GB)",
             "no drive has the media 'SDD' (did you mean 'SSD'?)"],
            device_warnings({}, first_of=first),
        )  # fmt: skip

    def test_what_is_there_in_any_spelling_or_where_no_device_is_gets_no_line(self):
        for properties in (
            {"accelerators": [{"kind": "gpu", "model": "a100"}]},
            {"drives": [{"media": "ssd", "remote": True}]},
            {"nics": [{"speed_mbps": 9}]},
            {"memory": {"capacity_mib": 9, "type": "DDR9"}},
        ):
            with self.subTest(properties):
                self.assertEqual([], device_warnings(properties))

    def test_a_place_that_no_block_tells_is_named_with_the_nearest(self):
        nics = {"uri": "n", "devices": {"nics": [{}, {}]}}
        other = {"id": "b", "blocks": [nics]}
        for place, line in (
            ("swich", ["no block reports a 'swich' (did you mean 'switch'?)"]),
            ("switch", []),
            ("zone", []),
        ):
            with self.subTest(place):
                asked = {"drives": [{"count": 1, "same": place}]}
                self.assertEqual(line, device_warnings(asked, other, DRIVE_SITE))
