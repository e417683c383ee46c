# SPDX-License-Identifier: Apache-2.0
"""Flavors and compose bodies in the words of Valence."""

import unittest

from valence_sched.config.foreign.base import DocumentCursor
from valence_sched.config.parsers import parse_flavor
from valence_sched.errors import InputError, UnknownName
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor

UUID = "7c2b7f8e-0d53-4f4b-9a3e-1f6d2a9b4c11"
BIG = {"name": "big", "uuid": UUID, "properties": {"memory": {"capacity_mib": 999}}}


def known() -> dict[str, Flavor]:
    return {"big": convert(BIG, Flavor, "known")}


def read(document) -> Flavor:
    return parse_flavor(document, DocumentCursor("f"), known).flavor


def needs(**properties) -> list[tuple]:
    return [
        (need.kind, need.measure, need.amount, need.count, [test.value for test in need.tests])
        for need in read({"name": "x", "properties": properties}).needs
    ]


class TestProperties(unittest.TestCase):
    """Texts for numbers, lists for maps, types for numbers of devices."""

    def test_a_list_of_one_is_the_one(self):
        plain = needs(memory={"capacity_mib": "512", "type": "DDR3"}, processor={"total_cores": 4})
        self.assertEqual(
            plain,
            needs(memory=[{"capacity_mib": 512, "type": "DDR3"}], processor=[{"total_cores": "4"}]),
        )

    def test_items_that_differ_in_their_total_only_are_added_up(self):
        self.assertEqual(
            [("memory", "capacity_mib", 1536, 1, ["DDR4"])],
            needs(memory=[{"capacity_mib": n, "type": "DDR4"} for n in ("512", 1024)]),
        )
        self.assertEqual(
            [("processor", "cores", 12, 1, ["Xeon"])],
            needs(processor=[{"total_cores": n, "model": "Xeon"} for n in (8, 4)]),
        )

    def test_an_empty_list_asks_for_nothing(self):
        only = [("processor", "cores", 2, 1, [])]
        self.assertEqual(only, needs(memory=[], processor=[{"total_cores": 2}]))

    def test_a_type_said_three_times_is_three_devices_and_storage_is_an_amount(self):
        self.assertEqual(
            [
                ("accelerator", "devices", 3, 1, ["GPU"]),
                ("nic", "devices", 1, 1, []),
                ("stock", "amount", 40, 1, []),
            ],
            needs(
                pci_device={"type": ["GPU", "NIC", "GPU", "GPU"]},
                remote_storage={"capacity_gib": "40"},
            ),
        )


class TestBodies(unittest.TestCase):
    """Answers about flavors, and bodies that compose."""

    def test_what_valence_says_about_its_records_is_no_part_of_the_flavor(self):
        record = {"created_at": "then", "updated_at": "now", "links": [{"rel": "self"}]}
        self.assertEqual(read(BIG), read(BIG | record))
        self.assertEqual(UUID, read(BIG).uuid)

    def test_a_body_names_a_flavor_by_uuid_or_name_and_itself(self):
        for word in (UUID, "big"):
            with self.subTest(word):
                found = read({"name": "n7", "description": "mine", "flavor_id": word})
                self.assertEqual(("n7", "mine", None), (found.name, found.description, found.uuid))
                self.assertEqual(known()["big"].properties, found.properties)
        self.assertEqual("big", read({"flavor_id": "big"}).name)

    def test_a_flavor_nobody_knows_is_named_with_the_nearest(self):
        with self.assertRaises(UnknownName) as caught:
            read({"flavor_id": "bigg"})
        line = "f: $.flavor_id: no flavor named 'bigg' (did you mean 'big'?)"
        self.assertEqual(line, str(caught.exception))

    def test_what_is_wrong_is_named_with_its_place_in_the_document(self):
        for document, line in (
            ({"name": "x", "properties": {"memory": [{"capacity_mib": "lots"}]}},
             'f: $.properties.memory[0].capacity_mib: found "lots", expected int'),
            ({"name": "x", "properties": {"memory": [
                {"capacity_mib": 1, "type": "DDR3"}, {"capacity_mib": 1, "type": "DDR4"}]}},
             "f: $.properties.memory[1]: found another kind, expected the same as in [0] but for "
             "capacity_mib (one node has one kind of it: ask for the stricter)"),
            ({"name": "x", "properties": {"processor": [{"total_cores": 1}, {}]}},
             "f: $.properties.processor[1]: found no total_cores, expected one in every item of "
             "the list"),
            ({"name": "x", "properties": {"processor": [{"total_core": 1}]}},
             "f: $.properties.processor[0]: found unknown field 'total_core' "
             "(did you mean 'total_cores'?)"),
            ({"name": "x", "flavor_id": "big", "properties": {}},
             "f: $: found unknown field 'properties' (known: description, flavor_id, name)"),
            ({"name": "x", "podm_id": "p1", "properties": {}},
             "f: $.podm_id: found a restriction that has no word here (name the pod manager with "
             "--podm)"),
            ({"flavor_id": 7}, "f: $.flavor_id: found 7, expected str"),
            ("text", 'f: $: found "text", expected object'),
        ):  # fmt: skip
            with self.subTest(line):
                with self.assertRaises(InputError) as caught:
                    read(document)
                self.assertEqual(line, str(caught.exception))
