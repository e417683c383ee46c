# SPDX-License-Identifier: Apache-2.0
"""Allocate bodies of Intel Rack Scale Design, decided on recorded racks by the real program."""

import json
import unittest
from pathlib import Path

from tests.functional.programs import Case, run
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.documents import DocumentTree

RECORDED = Path(__file__).parents[1] / "recorded"
V = "/redfish/v1"
HOST_1, FPGA = f"{V}/Systems/host-1", f"{V}/Chassis/fpga-box/Processors/1"
SLED_1, SLED_4, BAY = (
    f"{V}/Systems/sled-1",
    f"{V}/Systems/sled-4",
    f"{V}/Chassis/pcie-1/Drives/bay-2",
)
POOL, GROUP = (
    f"{V}/StorageServices/nvme-1/StoragePools/1",
    f"{V}/Services/rss/LogicalDrives/group-1",
)

#: Rack, body, and the blocks and amounts that it gets; None when it gets nothing.
TABLE = (
    ("rsd-network", {"Processors": [{"ProcessorType": "FPGA"}] * 2}, ([FPGA, HOST_1], {})),
    ("rsd-network", {"Processors": [{"ProcessorType": "FPGA"}] * 3}, None),
    ("rsd-network", {"EthernetInterfaces": [{"SpeedMbps": 25000}] * 2,
                     "RemoteDrives": [{"CapacityGiB": 1000, "Protocol": "NVMeOverFabrics"}]},
     ([HOST_1], {POOL: 1000})),
    ("rsd-network", {"RemoteDrives": [{"CapacityGiB": 1537}]}, None),
    ("rsd-network", {"TotalSystemCoreCount": 41}, None),
    ("rsd-network", {"TotalSystemCoreCount": 40, "TotalSystemMemoryMiB": 393217}, None),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe", "CapacityGiB": 1000}]},
     ([BAY, SLED_1], {})),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe"}] * 2}, None),
    ("rsd-pcie", {"LocalDrives": [{"Interface": "NVMe"}], "Processors": [{"TotalCores": 16}]},
     None),
    ("rsd-pcie", {"Processors": [{"TotalCores": 16}],
                  "RemoteDrives": [{"CapacityGiB": 600, "Protocol": "iSCSI"}] * 2},
     ([SLED_4], {GROUP: 1200})),
    ("rsd-pcie", {"RemoteDrives": [{"CapacityGiB": 1251}]}, None),
)  # fmt: skip


class TestAllocateBodies(Case):
    """From the body to the blocks."""

    def decided(self, rack, body):
        """Return the blocks and the amounts by stock that are chosen, None for nothing."""
        file, source = self.write("body.json", json.dumps(body)), str(RECORDED / f"{rack}.json")
        words = ("--inventory", source, "--flavor", file, "-f", "json")
        done = run("valence-sched", "podm", "schedule", *words)
        self.assertIn(done.code, (0, 3), done.err)
        if done.code == 3:
            return None
        amounts = {}
        for grant in done.data[0]["Amounts"] or ():
            amounts[grant["uri"]] = amounts.get(grant["uri"], 0) + grant["amount"]
        return sorted(done.data[0]["Blocks"]), amounts

    def test_each_body_gets_what_fits_or_nothing(self):
        for rack, body, expected in TABLE:
            with self.subTest((rack, body)):
                self.assertEqual(expected, self.decided(rack, body))

    def test_a_rack_refuses_what_does_not_fit_and_takes_what_does(self):
        for rack, body, expected in TABLE:
            with self.subTest((rack, body)):
                documents = DocumentTree(json.loads((RECORDED / f"{rack}.json").read_bytes()))
                answer = NodesService(documents, lambda: 0.0).allocate(body)
                self.assertEqual(201 if expected else 409, answer.status)
                if expected:
                    links = str(documents.get(answer.headers["Location"])["Links"])
                    self.assertTrue(all(block in links for block in expected[0]), links)

    def test_a_folder_of_racks_is_listed_with_all_other_trees(self):
        done = run(
            "valence-sched", "podm", "list", "--long", "--inventory", str(RECORDED), "-f", "json"
        )
        self.assertEqual(0, done.code, done.err)
        found = {row["Podm"]: row["Free Blocks"] for row in done.data}
        self.assertEqual((3, 3), (found["rsd-network"], found["rsd-pcie"]))
        self.assertIn("no-zones", found)


if __name__ == "__main__":
    unittest.main()
