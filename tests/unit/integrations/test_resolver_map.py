# SPDX-License-Identifier: Apache-2.0
"""The map of external resources: its answers and its errors."""

import unittest

from valence_sched.errors import InputError
from valence_sched.integrations.resolvers.map import parse_map, things
from valence_sched.model.request_spec import Place

MAP = b"""
volume:
  db-1: {zone: west-1, aggregates: [bulk, gold]}
  scratch: {facts: {rack: W02, year: 2020, labels: [a, b]}}
dataset: {climate: {zone: east-1}}
"""


class TestMap(unittest.TestCase):
    """A YAML map of kind, name and place."""

    def test_it_tells_where_a_thing_is(self):
        found = parse_map(MAP, "m")
        place = Place(zone="west-1", aggregates=("bulk", "gold"))
        self.assertEqual(place, found.find("volume", "db-1"))
        facts = {"rack": "W02", "year": 2020, "labels": ("a", "b")}
        self.assertEqual(Place(facts=facts), found.find("volume", "scratch"))

    def test_a_name_is_known_only_under_its_kind(self):
        found = parse_map(MAP, "m")
        self.assertIsNone(found.find("dataset", "db-1"))
        self.assertIsNone(found.find("port", "db-1"))
        self.assertEqual(["db-1", "scratch"], list(found.known("volume")))
        self.assertEqual([], list(found.known("port")))

    def test_what_is_no_map_is_refused_with_the_place(self):
        for text, line in (
            (b"volume: {v: {zon: a}}", "unknown field 'zon' (did you mean 'zone'?)"),
            (b"volume: {v: {}}", "m: $.volume['v']: found no place, expected zone, aggregates or"),
            (b"volume: {v: {zone: [a]}}", """m: $.volume['v'].zone: found ["a"]"""),
            (b"volume: [v]", 'm: $.volume: found ["v"], expected object'),
            (b"[]", "m: $: found [], expected object"),
            (b"volume: {v: {zone: a}, v: {zone: b}}", "the key 'v' twice"),
            (b"volume: {v: &x {zone: a}, w: *x}", "an alias"),
            (b"volume: {", "expected plain YAML or JSON"),
        ):
            with self.subTest(text), self.assertRaises(InputError) as caught:
                parse_map(text, "m")
            self.assertIn(line, str(caught.exception))

    def test_a_file_that_is_not_there_is_named(self):
        line = "/no/map.yaml: found no such file or directory, expected a readable file"
        with self.assertRaises(InputError) as caught:
            things("/no/map.yaml")
        self.assertEqual(line, str(caught.exception))
