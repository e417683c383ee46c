# SPDX-License-Identifier: Apache-2.0
"""Documents whose properties have another shape than Redfish gives them are never silent."""

import copy
import re
import unittest

from tests.unit.drivers.files.test_tree import by_name, documents_of, read_map
from valence_sched.model.diagnostic import Diagnostics

BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
ZONES = "/redfish/v1/CompositionService/ResourceZones"
TREES = ("shared-blocks.json", "accelerators.json", "memory-domains.json", "systems.json",
         "rsd-pcie.json", "rsd-network.json")  # fmt: skip
#: Values in place of an object or an array of them.
ODD = ("zap", 7, [1])
#: What tells where a device is, or of which dialect its rack is, may say nothing of use.
LOCATIONS = ("Chassis", "Ports", "ConnectedEntities", "PCIeConnectionId", "NetworkAdapter")


def read(documents):
    diagnostics = Diagnostics()
    podm = read_map(documents, diagnostics)
    return podm, diagnostics.lines()


def structures(value, path=()):
    """Yield the paths of the objects, and of the arrays of them, inside a value; not of links."""
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
                    for value in ODD:
                        changed = {**documents, uri: with_value(document, path, value)}
                        podm, found = read(changed)
                        tried += 1
                        with self.subTest(tree=name, uri=uri, path=path, value=value):
                            self.assertTrue(podm == whole or found != notes)
        self.assertGreater(tried, 500)


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

    def test_null_in_place_of_a_member_is_noted(self):
        self.documents[BLOCKS]["Members"][0] = None
        podm, notes = self.notes()
        self.assertEqual([f"t.json: {BLOCKS}: found a link without @odata.id, expected one"], notes)
        self.assertIn("Node-A", by_name(podm))  # its zone links it too

    def test_limits_that_are_no_object_are_noted_and_unknown(self):
        place = "/redfish/v1/CompositionService/EastCapabilities"
        self.documents[place]["@Redfish.ResourceBlockLimits"] = "MaxCompute=2"
        podm, (note,) = self.notes()
        self.assertIn("@Redfish.ResourceBlockLimits: found 'MaxCompute=2', expected an arr", note)
        self.assertEqual(1, podm.pools[0].limits["Compute"].max)

    def test_the_case_of_a_use_case_does_not_matter(self):
        whole, _ = read(self.documents)
        (capability,) = self.documents[f"{ZONES}/east"]["@Redfish.CollectionCapabilities"][
            "Capabilities"
        ]
        capability["UseCase"] = "computerSystemComposition"
        podm, notes = self.notes()
        self.assertEqual((whole, []), (podm, notes))

    def test_limits_for_what_is_no_zone_are_noted(self):
        capabilities = self.documents[f"{ZONES}/east"].pop("@Redfish.CollectionCapabilities")
        (capability,) = capabilities["Capabilities"]
        capability["Links"] = {"RelatedItem": [{"@odata.id": f"{ZONES}/eats"}]}
        self.documents["/redfish/v1/Systems"]["@Redfish.CollectionCapabilities"] = capabilities
        _, (note,) = self.notes()
        self.assertIn(f"Links/RelatedItem: found {ZONES}/eats, expected a zone of", note)

    def test_a_composed_system_of_a_block_that_is_not_listed_is_noted(self):
        link = self.documents["/redfish/v1/Systems/web-1"]["Links"]["ResourceBlocks"][0]
        link["@odata.id"] = f"{BLOCKS}/Node-Z"
        _, notes = self.notes()
        self.assertEqual(
            [f"t.json: {BLOCKS}/Node-Z: found no such document, expected it: "
             "/redfish/v1/Systems/web-1 links it",
             f"t.json: /redfish/v1/Systems/web-1: Links/ResourceBlocks: found {BLOCKS}/Node-Z, "
             "expected a resource block that is listed"],
            notes,
        )  # fmt: skip

    def test_a_block_without_a_type_is_noted(self):
        self.documents[f"{BLOCKS}/Node-A"]["ResourceBlockType"] = None
        podm, (note,) = self.notes()
        self.assertEqual((), by_name(podm)["Node-A"].type)
        self.assertIn("ResourceBlockType: found none (no limit", note)

    def test_a_zone_of_a_type_that_is_none_is_noted(self):
        self.documents[f"{ZONES}/east"]["ZoneType"] = "Blocks"
        podm, notes = self.notes()
        self.assertEqual(["west", "plain"], [pool.id for pool in podm.pools])
        self.assertTrue(any("ZoneType: found Blocks, expected" in note for note in notes))

    def test_a_next_page_that_is_null_in_an_array_is_noted(self):
        self.documents[BLOCKS]["Members@odata.nextLink"] = [None]
        podm, notes = self.notes()
        self.assertEqual(6, len(podm.blocks))
        self.assertEqual(1, len(notes))


class RackShapeTest(unittest.TestCase):
    def test_a_node_of_a_system_that_is_not_listed_is_noted(self):
        documents = documents_of("rsd-pcie.json")
        _, before = read(documents)
        documents["/redfish/v1/Nodes/1"]["Links"]["ComputerSystem"] = "/redfish/v1/Systems/sled-x"
        _, found = read(documents)
        self.assertEqual(
            ["t.json: /redfish/v1/Nodes/1: Links/ComputerSystem: found /redfish/v1/Systems/sled-x, "
             "expected a system that is listed"],
            [note for note in found if note not in before],
        )  # fmt: skip
