# SPDX-License-Identifier: Apache-2.0
"""Flavors and compose bodies in the format of Valence."""

import unittest
from pathlib import Path

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.unit.config.refusal import parsed, refusal
from valence_sched.config import parsers
from valence_sched.errors import SchedulerError, UnknownName
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor

UUID = "7c2b7f8e-0d53-4f4b-9a3e-1f6d2a9b4c11"
BIG = {"name": "big", "uuid": UUID, "properties": {"memory": {"capacity_mib": 999}}}


def known() -> dict[str, Flavor]:
    return {"big": convert(BIG, Flavor, "known")}


def read(document) -> Flavor:
    return parsed(document, known=known).flavor


def needs(**properties) -> list[tuple]:
    return [
        (need.kind, need.measure, need.amount, need.count, [test.value for test in need.tests])
        for need in read({"name": "x", "properties": properties}).needs
    ]


class TestProperties(unittest.TestCase):
    """Texts as numbers, lists as maps, types with numbers of devices."""

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
    """Answers with flavors, and bodies that compose."""

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

    def test_of_a_uuid_and_an_equal_name_the_flavor_that_comes_first_wins(self):
        big = known()["big"]
        named = replace(big, name=UUID, uuid=None)
        for flavors, name in (
            ({"big": big, UUID: named}, "big"),
            ({UUID: named, "big": big}, UUID),
        ):
            with self.subTest(name):
                found = parsed({"flavor_id": UUID}, known=lambda flavors=flavors: flavors)
                self.assertEqual(name, found.flavor.name)

    def test_a_flavor_nobody_knows_is_named_with_the_nearest(self):
        line = "f: $.flavor_id: no flavor named 'bigg' (did you mean 'big'?)"
        self.assertEqual(line, refusal(read, {"flavor_id": "bigg"}, kind=UnknownName))

    def test_what_is_wrong_is_named_with_its_place_in_the_document(self):
        for document, line in (
            ({"name": "x", "properties": {"memory": [{"capacity_mib": "lots"}]}},
             'f: $.properties.memory[0].capacity_mib: found "lots", expected int'),
            ({"name": "x", "properties": {"memory": [
                {"capacity_mib": 1, "type": "DDR3"}, {"capacity_mib": 1, "type": "DDR4"}]}},
             "f: $.properties.memory[1]: found another kind, expected the same values as in [0], "
             "except for capacity_mib (a node has one kind: use the stricter values in every item)"
             ),
            ({"name": "x", "properties": {"processor": [{"total_cores": 1}, {}]}},
             "f: $.properties.processor[1]: found no total_cores, expected one in every item of "
             "the list"),
            ({"name": "x", "properties": {"processor": [{"total_core": 1}]}},
             "f: $.properties.processor[0]: found unknown field 'total_core' "
             "(did you mean 'total_cores'?)"),
            ({"name": "x", "flavor_id": "big", "properties": {}},
             "f: $: found unknown field 'properties' (known: description, flavor_id, name)"),
            ({"name": "x", "podm_id": "p1", "properties": {}},
             "f: $.podm_id: found a restriction that valence-sched does not support "
             "(name the pod manager with --podm)"),
            ({"flavor_id": 7}, "f: $.flavor_id: found 7, expected str"),
            ("text", 'f: $: found "text", expected object'),
        ):  # fmt: skip
            with self.subTest(line):
                self.assertEqual(line, refusal(read, document))


SAMPLES = Path(__file__).parents[4].parent / "shared" / "data" / "valence"

VIA = "90dd7dcd-166a-43c9-a6af-bcf3fbe67b66"  # the flavor_id of the sample

#: Files, and the needs of their flavors: kind, amount, and the values of its tests.
REQUESTS = {
    "flavor-create-request.json": {
        "test": [("processor", 10, ["Intel"]), ("memory", 3000, ["DDR2"])]
    },
    "flavor-create-response.json": {
        "test": [("processor", 10, ["Intel"]), ("memory", 3000, ["DDR2"])]
    },
    "flavor-list-response.json": {
        "test": [("processor", 10, []), ("memory", 3000, ["DDR3"])],
        "test 2": [("processor", 2, ["Intel"]), ("memory", 1000, [])],
    },
    "composed-node-create-request.json": {
        "test_node": [
            ("processor", 2, ["Multi-Core Intel(R) Xeon(R) processor 7xxx Series"]),
            ("memory", 8000, ["DDR2"]),
            ("stock", 100, []),
        ]
    },
    "composed-node-create-via-flavor-request.json": {"test_node": [("memory", 2048, [])]},
}


@unittest.skipUnless(SAMPLES.is_dir(), f"the samples of Valence are not at {SAMPLES}")
class ValenceSamplesTest(unittest.TestCase):
    """Every file of the folder is in the table, or is refused."""

    def read(self, name: str) -> list[Flavor]:
        data = {"name": "known", "uuid": VIA, "properties": {"memory": {"capacity_mib": 2048}}}
        known = {"known": convert(data, Flavor, "known")}
        return parsers.parse_flavors((SAMPLES / name).read_bytes(), name, lambda: known)

    def test_requests_are_read_exactly_as_they_are(self):
        for name, flavors in REQUESTS.items():
            with self.subTest(name):
                found = {
                    flavor.name: [
                        (need.kind, need.amount, [test.value for test in need.tests])
                        for need in flavor.needs
                    ]
                    for flavor in self.read(name)
                }
                self.assertEqual(flavors, found)

    def test_the_uuid_of_an_answer_is_kept(self):
        (flavor,) = self.read("flavor-create-response.json")
        self.assertEqual("c5136808-8162-4595-9b19-6c92f5956766", flavor.uuid)

    def test_everything_else_is_no_flavor_and_one_line_says_so(self):
        others = sorted(path.name for path in SAMPLES.glob("*.json") if path.name not in REQUESTS)
        self.assertGreater(len(others), 20)
        for name in others:
            with self.subTest(name):
                said = refusal(self.read, name, kind=SchedulerError)
                self.assertTrue(said.startswith(f"{name}: "))
                self.assertNotIn("\n", said)


WORDS = st.sampled_from([
    "name", "uuid", "properties", "memory", "processor", "capacity_mib", "total_cores", "type",
    "flavor_id", "links", "podm_id", "pci_device", "remote_storage", "capacity_gib",
    "Name", "TotalSystemCoreCount", "Processors", "Memory", "LocalDrives", "RemoteDrives",
    "EthernetInterfaces", "Security", "Boot", "Oem", "Resource", "VLANs", "CapacityGiB",
    "CapacityMiB", "TotalCores", "ProcessorType", "TpmPresent", "Protocol",
    "vcpus", "ram", "disk", "flavor", "extra_specs", "swap", "resources:VCPU", "resources:X",
    "trait:A", "capabilities:x", "hw:a", "plain", 7, None, True,
])  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 10**16), st.floats(), st.text(max_size=3),
    st.sampled_from(["1", "required", ">= 4", "CPU", "FPGA", "DDR4"]),
)  # fmt: skip
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


class TestRead(unittest.TestCase):
    """All kinds of documents."""

    @settings(max_examples=600)
    @given(DOCUMENTS)
    def test_it_is_a_flavor_or_an_error_of_one_line(self, document):
        try:
            found = parsed(document)
        except SchedulerError as error:
            self.assertTrue(str(error).startswith("f: $"), error)
            self.assertNotIn("\n", str(error))
        else:
            self.assertIsInstance(found.flavor, Flavor)
            self.assertTrue(found.flavor.name)
            for remark in found.remarks:
                self.assertTrue(remark.startswith("f: $"), remark)
