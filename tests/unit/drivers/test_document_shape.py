# SPDX-License-Identifier: Apache-2.0
"""Documents in older and deviating forms, singly and many of one pod manager."""

from __future__ import annotations

import copy
import re
import unittest
from typing import Any
from unittest import TestCase

from hypothesis import given, strategies as st

from tests.unit.core.sites import SOAK, quietly, sized
from tests.unit.drivers.files.test_tree import documents_of, read_map
from valence_sched.drivers.document_shape import MAX_NAMES, ShapeMemo, current_form
from valence_sched.drivers.fields import objects
from valence_sched.model.diagnostic import Diagnostics

LINKS = [{"@odata.id": "/a"}]
TYPES = st.sampled_from([
    "#Zone.v1_0_0.Zone", "#ZoneCollection.ZoneCollection", "#ComputerSystem.v1_0_0.ComputerSystem",
    "#ComputerSystem.1.0.0", "#1.0", "", None, 7, ["#Zone.v1_0_0.Zone"],
])  # fmt: skip
VALUES = st.sampled_from([None, 1, "x", LINKS, {}, {"@odata.id": "/b"}, {"a": LINKS}])
NAMES = st.sampled_from([
    "Name", "Members", "members", "Members@odata.count", "Mem", "bers", "Value", "Items", "Type",
    "Processors", "Memory", "ResourceBlocks", "@odata.context", "nextLink",
])  # fmt: skip
BELOW = st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=3))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document that may be a collection, or nearly one."""
    found: dict[str, Any] = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    if draw(st.booleans()):
        found["@odata.type"] = draw(TYPES)
    if draw(st.booleans()):
        found[draw(st.sampled_from(["Links", "links"]))] = draw(BELOW)
    return found


class ShapeMemoTest(TestCase):
    @quietly(sized(300))
    @given(st.lists(st.tuples(documents(), st.booleans()), max_size=8))
    def test_every_document_has_the_form_that_it_has_alone(
        self, drawn: list[tuple[dict[str, Any], bool]]
    ) -> None:
        memo = ShapeMemo()
        for json, root in drawn * 2:
            expected, found = current_form(json, root=root), memo.current_form(json, root=root)
            self.assertEqual(expected, found)
            self.assertEqual(list(expected), list(found))

    def test_a_document_in_the_present_form_is_itself(self) -> None:
        memo = ShapeMemo()
        json = {"@odata.type": "#Zone.v1_0_0.Zone", "Links": {"ResourceBlocks": LINKS}}
        for _ in range(2):
            self.assertIs(json, memo.current_form(json))

    def test_one_shape_does_not_hide_the_members_of_another(self) -> None:
        memo = ShapeMemo()
        memo.current_form({"@odata.type": "#Zone.v1_0_0.Zone", "Name": "a"})
        odd = {"@odata.type": "#Zone.v1_0_0.Zone", "Name": "a", "members": LINKS}
        self.assertEqual(LINKS, memo.current_form(odd)["Members"])
        below = {"@odata.type": "#Zone.v1_0_0.Zone", "Links": {"Members": LINKS}}
        self.assertEqual(LINKS, memo.current_form(below)["Members"])

    def test_of_very_many_names_or_long_ones_not_all_are_remembered(self) -> None:
        memo, told = ShapeMemo(), "#Zone.v1_0_0.Zone"
        for number in range(3 * MAX_NAMES // 2):
            json = {"@odata.type": told, f"Name{number}": 1}
            self.assertIs(json, memo.current_form(json))
            self.assertLessEqual(len(memo), MAX_NAMES)
        before = len(memo)
        for json in ({"@odata.type": told, "x" * 10_000: 1}, {"@odata.type": f"#{'x' * 10_000}.Y"}):
            self.assertIs(json, memo.current_form(json))
        self.assertEqual(before, len(memo))


BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
ZONES = "/redfish/v1/CompositionService/ResourceZones"
TREES = ("shared-blocks.json", "accelerators.json", "memory-domains.json", "systems.json",
         "rsd-pcie.json", "rsd-network.json")  # fmt: skip
#: Values in place of an object or an array of objects.
ODD = ("zap", 7, [1])
#: Properties that show the place of a device or the dialect of a rack may have useless values.
LOCATIONS = ("Chassis", "Ports", "ConnectedEntities", "PCIeConnectionId", "NetworkAdapter")


def read(documents):
    diagnostics = Diagnostics()
    podm = read_map(documents, diagnostics)
    return podm, diagnostics.lines()


def structures(value, path=()):
    """Yield the paths of objects and of arrays of objects inside a value, except links."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in inner:
        first = inside[0] if isinstance(inside, list) and inside else inside
        if isinstance(first, dict) and set(first) != {"@odata.id"}:
            yield (*path, key)
            yield from structures(inside, (*path, key))


def with_value(document, path, value):
    found = copy.deepcopy(document)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


class EveryShapeTest(unittest.TestCase):
    def test_an_object_of_another_shape_changes_nothing_or_is_noted(self):
        tried = 0
        for name in TREES:
            documents = documents_of(name)
            whole, notes = read(documents)
            alike = set()
            for uri, document in documents.items():
                for path in structures(document):
                    kind = (re.sub(r"[^/]*\d[^/]*", "*", uri), path)
                    if kind in alike or {"Links", *LOCATIONS} & set(path) - {"Links"}:
                        continue
                    alike.add(kind)
                    values = ODD if SOAK else ODD[tried % len(ODD) :][:1]
                    for value in values:
                        changed = {**documents, uri: with_value(document, path, value)}
                        podm, found = read(changed)
                        tried += 1
                        with self.subTest(tree=name, uri=uri, path=path, value=value):
                            self.assertTrue(podm == whole or found != notes)
        self.assertGreater(tried, 200)


class ShapeTest(unittest.TestCase):
    def setUp(self):
        self.documents = documents_of("shared-blocks.json")
        _, self.before = read(self.documents)

    def notes(self):
        podm, found = read(self.documents)
        return podm, [note for note in found if note not in self.before]

    def test_a_status_that_is_a_word_is_noted_once(self):
        self.documents[f"{BLOCKS}/Node-A"]["Status"] = "Disabled"
        _, notes = self.notes()
        self.assertEqual(
            [f"t.json: {BLOCKS}/Node-A: Status: found 'Disabled', expected an object"], notes
        )

    def test_an_empty_array_in_place_of_an_object_says_nothing(self):
        self.documents[f"{BLOCKS}/Node-A"]["Status"] = []
        self.assertEqual([], self.notes()[1])

    def test_what_is_no_object_in_an_array_of_objects_is_left_out(self):
        self.assertEqual(({"a": 1},), objects([{"a": 1}, 7, None]))
        self.assertEqual(({"a": 1},), objects({"a": 1}))

    def test_limits_that_are_no_object_are_noted_and_unknown(self):
        place = "/redfish/v1/CompositionService/EastCapabilities"
        self.documents[place]["@Redfish.ResourceBlockLimits"] = "MaxCompute=2"
        podm, (note,) = self.notes()
        self.assertIn("@Redfish.ResourceBlockLimits: found 'MaxCompute=2', expected an arr", note)
        self.assertEqual(1, podm.pools[0].limits["Compute"].max)

    def test_a_next_page_that_is_null_in_an_array_is_noted(self):
        self.documents[BLOCKS]["Members@odata.nextLink"] = [None]
        podm, notes = self.notes()
        self.assertEqual(6, len(podm.blocks))
        self.assertEqual(1, len(notes))
