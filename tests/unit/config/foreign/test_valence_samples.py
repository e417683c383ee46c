# SPDX-License-Identifier: Apache-2.0
"""The request samples of OpenStack Valence, exactly as they are.

They are not part of this project. Devices, systems and nodes among them are inventory and
answers: no request, and refused as one.
"""

import unittest
from pathlib import Path

from valence_sched.config import parsers
from valence_sched.errors import SchedulerError
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor

SAMPLES = Path(__file__).parents[4].parent / "shared" / "data" / "valence"

VIA = "90dd7dcd-166a-43c9-a6af-bcf3fbe67b66"  # the flavor_id of the sample

#: File and what each of its flavors needs: kind, amount, the values of its tests.
REQUESTS = {
    "flavor-create-request.json": {
        "test": [("processor", 10, ["Intel"]), ("memory", 3000, ["DDR2"])],
    },
    "flavor-create-response.json": {
        "test": [("processor", 10, ["Intel"]), ("memory", 3000, ["DDR2"])],
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
        ],
    },
    "composed-node-create-via-flavor-request.json": {
        "test_node": [("memory", 2048, [])],
    },
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
                with self.assertRaises(SchedulerError) as caught:
                    self.read(name)
                self.assertTrue(str(caught.exception).startswith(f"{name}: "))
                self.assertNotIn("\n", str(caught.exception))
