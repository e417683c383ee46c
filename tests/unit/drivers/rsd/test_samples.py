# SPDX-License-Identifier: Apache-2.0
"""The public samples of rsd-lib, put together as services, with numbers counted by hand.

The samples are not part of this project. Each is one resource of its own, so they are placed
where the links of the others lead: a service with one system, one pooled drive and one store.
"""

import json
import unittest
from pathlib import Path

from tests.unit.drivers.files.test_tree import read_map
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.dialect import recognised_dialect
from valence_sched.model.diagnostic import Diagnostics

SAMPLES = Path(__file__).parents[4].parent / "shared" / "data" / "rsd-lib" / "json_samples"
V = "/redfish/v1"
SYSTEM = f"{V}/Systems/System1"
PCIE, NVME = f"{V}/Fabrics/PCIe", f"{V}/Fabrics/NVMeoE"
BAY = f"{V}/Chassis/PCIeSwitch1/Drives/Disk.Bay.0"
SERVICE = f"{V}/StorageServices/NVMeoE1"

OLDEST = {
    V: "v2_1/root",
    f"{V}/Systems": None,
    SYSTEM: "v2_1/system",
    f"{SYSTEM}/Processors": None,
    f"{SYSTEM}/Processors/CPU1": "v2_1/processor",
    f"{SYSTEM}/Memory": None,
    f"{SYSTEM}/Memory/Dimm1": "v2_1/memory",
    f"{SYSTEM}/Storage": "v2_1/storage_collection",
    f"{V}/Systems/1/Storage/SATA": "v2_1/storage",
    f"{V}/Chassis/Blade1/Drives/Disk1": "v2_1/drive",
    f"{SYSTEM}/EthernetInterfaces": None,
    f"{SYSTEM}/EthernetInterfaces/LAN1": "v2_1/system_ethernet_interface",
    f"{V}/Nodes": None,
    f"{V}/Services": None,
    f"{V}/Services/1": "v2_1/storage_service",
    f"{V}/Services/RSS1/LogicalDrives": None,
    f"{V}/Services/RSS1/LogicalDrives/1": "v2_1/logical_drive",
    f"{V}/Fabrics": None,
    PCIE: "v2_1/fabric",
    f"{PCIE}/Endpoints": None,
    f"{PCIE}/Endpoints/NVMeDrivePF1": "v2_1/endpoint",
    f"{PCIE}/Zones": None,
    f"{PCIE}/Zones/1": "v2_1/zone",
    f"{PCIE}/Switches": None,
    f"{PCIE}/Switches/1": "v2_1/switch",
    f"{PCIE}/Switches/1/Ports": None,
    f"{PCIE}/Switches/1/Ports/Up1": "v2_1/fabrics_port",
    BAY: "v2_1/drive",
}
STORAGE = {
    f"{V}/StorageServices": None,
    SERVICE: "v2_3/storage_service",
    f"{V}/StorageServices/1/StoragePools": None,
    f"{V}/StorageServices/1/StoragePools/2": "v2_3/storage_pool",
    f"{V}/StorageServices/1/Volumes/1": "v2_3/volume",
    f"{V}/Fabrics": None,
    NVME: "v2_3/fabric",
    f"{NVME}/Endpoints": None,
    f"{NVME}/Endpoints/1": "v2_3/endpoint_1",
    f"{NVME}/Endpoints/2": "v2_3/endpoint_2",
    f"{NVME}/Zones": None,
    f"{NVME}/Zones/1": "v2_3/zone",
}
NEWER = {
    **{uri: sample for uri, sample in OLDEST.items() if "/Services" not in uri
       and "/Fabrics" not in uri},
    f"{V}/Services": None,
    V: "v2_4/root",
    f"{SYSTEM}/Processors/CPU1": "v2_4/processor",
    **STORAGE,
}  # fmt: skip


def assembled(plan, **nodes):
    """Return the documents of a plan; a collection lists what stands right below it."""
    found = {}
    for uri, sample in {**plan, **{f"{V}/Nodes/{name}": it for name, it in nodes.items()}}.items():
        if sample is not None:
            found[uri] = json.loads((SAMPLES / f"{sample}.json").read_bytes())
    for uri, sample in plan.items():
        if sample is None:
            below = [{"@odata.id": it} for it in found if it.rpartition("/")[0] == uri]
            found[uri] = {"Members": below}
    return found


@unittest.skipUnless(SAMPLES.is_dir(), f"the samples of rsd-lib are not at {SAMPLES}")
class SamplesTest(unittest.TestCase):
    def read(self, plan, **nodes):
        self.diagnostics = Diagnostics()
        self.podm = read_map(assembled(plan, **nodes), self.diagnostics)
        self.blocks = {block.uri: block for block in self.podm.blocks}

    def test_the_roots_of_all_versions_are_told(self):
        for version in ("v2_1", "v2_2", "v2_3", "v2_4"):
            root = json.loads((SAMPLES / version / "root.json").read_bytes())
            self.assertEqual("rsd", recognised_dialect(root, DIALECTS).name)

    def test_a_service_of_2_1(self):
        self.read(OLDEST)
        self.assertEqual([SYSTEM, BAY], list(self.blocks))
        found = self.blocks[SYSTEM].devices
        self.assertEqual([(1, 8, 16)], [(p.count, p.cores, p.threads) for p in found.processors])
        self.assertEqual([16384], [memory.capacity_mib for memory in found.memory])
        self.assertEqual([899527000000], [drive.capacity_bytes for drive in found.drives])
        self.assertEqual(1, sum(nic.count for nic in found.nics))
        self.assertEqual(1, self.blocks[SYSTEM].status.slots)
        (stock,) = self.podm.stocks
        self.assertEqual(("storage_gib", 8096, 0), (stock.resource, stock.total, stock.used))

    def test_its_cable_tells_that_the_system_reaches_the_fabric(self):
        self.read(OLDEST)
        self.assertEqual(("PCIe",), self.blocks[SYSTEM].pools)
        self.assertEqual(("PCIe",), self.blocks[BAY].pools)
        self.assertFalse(
            [it for it in self.diagnostics.lines() if "found no system that it is cabled" in it]
        )

    def test_its_drive_is_in_a_system_already_and_not_free(self):
        self.read(OLDEST)
        self.assertEqual("Composed", self.blocks[BAY].status.state)

    def test_a_node_of_each_version_has_the_system(self):
        for plan, sample in ((OLDEST, "v2_1"), (NEWER, "v2_3"), (NEWER, "v2_4")):
            with self.subTest(sample):
                self.read(plan, Node1=f"{sample}/node")
                self.assertEqual((SYSTEM,), self.podm.nodes[0].blocks)
                self.assertEqual(0, self.blocks[SYSTEM].status.slots)

    def test_a_service_of_2_4_has_its_storage_in_gib_and_its_volume_is_no_block(self):
        self.read(NEWER)
        self.assertEqual([SYSTEM], list(self.blocks))
        (stock,) = self.podm.stocks
        self.assertEqual((477.0, 2.861), (stock.total, round(stock.used, 3)))
        self.assertEqual(["all"], [pool.id for pool in self.podm.pools])


if __name__ == "__main__":
    unittest.main()
