# SPDX-License-Identifier: Apache-2.0
"""The zone file: a tree of zones, and its errors."""

import unittest

import msgspec

from valence_sched.errors import InputError, NewerSchema
from valence_sched.model.decision import DecisionZones, SilentZone
from valence_sched.model.zone_registry import parse_zone_file
from valence_sched.words.phrases import zone_lines


def parse(zone, folder="", **fields):
    return parse_zone_file(msgspec.json.encode({"zone": zone, **fields}), "f", folder)


class TestZoneFile(unittest.TestCase):
    def test_every_zone_has_the_way_down_to_it(self):
        leaf = {"name": "c", "inventories": ["c.json"]}
        zone = parse({"name": "a", "children": [{"name": "b", "children": [leaf]}]})
        self.assertEqual(["", "b", "b/c"], [path for path, _ in zone.walk()])

    def test_inventories_are_beside_the_file(self):
        zone = parse({"name": "a", "inventories": ["x.json", "/y.json"]}, "there")
        self.assertEqual(("there/x.json", "/y.json"), zone.inventories)

    def test_what_is_wrong_is_named_with_its_place(self):
        one = {"name": "b", "inventories": ["b.json"]}
        deep = dict(one)
        for _ in range(17):
            deep = {"name": "b", "children": [deep]}
        for zone, text in (
            ({"name": "a"}, r"\$\.zone: found no inventory"),
            ({"name": "a", "children": [one, one]}, r"\$\.zone\.children\[1\]\.name: found 'b' ag"),
            ({**one, "name": "a/b"}, r"\$\.zone\.name: found 'a/b', expected printable"),
            ({**one, "capabilities": "fast"}, r"\$\.zone\.capabilities: "),
            ({**one, "weight_scale": -1}, r"\$\.zone\.weight_scale"),
            ({**one, "inventories": [""]}, r"\$\.zone\.inventories: found an empty name"),
            ({**one, "colour": 1}, "colour"),
            (deep, "a zone 17 levels down"),
        ):
            with self.subTest(text), self.assertRaisesRegex(InputError, text):
                parse(zone)

    def test_a_newer_major_version_is_refused(self):
        with self.assertRaises(NewerSchema):
            parse({"name": "a", "inventories": ["x"]}, version="2.0")


class TestZoneLines(unittest.TestCase):
    """One line for the silent zones, one for the excluded ones."""

    def test_a_few_are_named_and_the_rest_is_counted(self):
        silent = tuple(SilentZone(zone=f"z{n}", reason="late") for n in range(5))
        zones = DecisionZones(answered=1, rounds=1, silent=silent, excluded=silent[:1])
        self.assertEqual(
            [
                "no answer from 5 zones: z0 (late); z1 (late); z2 (late); and 2 more: a better "
                "candidate may be missing",
                "not queried: 1 zone: z0 (late)",
            ],
            list(zone_lines(zones)),
        )

    def test_where_all_answered_there_is_no_line(self):
        self.assertEqual([], list(zone_lines(DecisionZones(answered=3, rounds=1))))
