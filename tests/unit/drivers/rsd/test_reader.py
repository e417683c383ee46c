# SPDX-License-Identifier: Apache-2.0
"""The reading of racks of Intel Rack Scale Design."""

import json
import random
import unittest
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.unit.core.sites import sized
from tests.unit.drivers.files.test_tree import read_map
from tests.unit.drivers.racks import BAYS, FPGAS, GROUP, NETWORK, NODES, PCIE, SYSTEMS, Rack, V
from tests.unit.drivers.served import DIALECTS, Server
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.dialect import recognised_dialect
from valence_sched.drivers.fields import NO_NOTES, Link, Parts
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.rsd.dialect import rsd
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import (
    Accelerator,
    Drive,
    FullPodm,
    Limit,
    Memory,
    Node,
    Processor,
    to_json,
)
from valence_sched.model.registration import Registration

ENDS = f"{V}/Fabrics/PCIe/Endpoints"
ONE = {"ComputerSystem": Limit(1, 1)}


class ToldTest(unittest.TestCase):
    """A service root names its dialect."""

    def test_who_composes_nodes_is_a_rack_and_everybody_else_is_not(self):
        for root, expected in (
            ({"Nodes": {}}, "rsd"),
            ({"Oem": {"Intel_RackScale": {"Nodes": {}}}}, "rsd"),
            ({"Oem": {"Intel_RackScale": {"ApiVersion": "2.4.0"}}}, "redfish"),
            ({"Oem": {"Intel_RackScale": []}}, "redfish"),
            ({"Nodes": None}, "redfish"),
            ({"Oem": None}, "redfish"),
            ({"CompositionService": {}}, "redfish"),
            ({}, "redfish"),
        ):
            with self.subTest(root):
                self.assertEqual(expected, recognised_dialect(root, DIALECTS).name)


class SystemsTest(unittest.TestCase):
    def setUp(self):
        self.rack = Rack(PCIE)
        self.rack.read()

    def devices(self, name):
        return self.rack.blocks[f"{SYSTEMS}/{name}"].devices

    def test_a_system_is_one_block_with_all_its_devices(self):
        block, found = self.rack.blocks[f"{SYSTEMS}/sled-1"], self.devices("sled-1")
        self.assertEqual(("ComputerSystem",), block.type)
        cpu = Processor(count=2, cores=12, threads=24, model="Tarn E5 2650", architecture="x86",
                        instruction_set="x86-64", speed_mhz=2900)  # fmt: skip
        self.assertEqual((cpu,), found.processors)
        memory = Memory(count=4, capacity_mib=16384, type="DDR4", speed_mhz=2400)
        self.assertEqual((memory,), found.memory)
        self.assertEqual([(2, 10000)], [(nic.count, nic.speed_mbps) for nic in found.nics])
        drive = Drive(capacity_bytes=480103981056, media="SSD", protocol="SATA",
                      model="Fjord S1", remote=False)  # fmt: skip
        self.assertEqual((drive,), found.drives)

    def test_numbers_as_text_summaries_and_simple_storage_are_read(self):
        found = self.devices("sled-4")
        self.assertEqual((16, 2100), (found.processors[0].cores, found.processors[0].speed_mhz))
        self.assertEqual((Memory(capacity_mib=32768),), found.memory)
        self.assertEqual([960197124096], [drive.capacity_bytes for drive in found.drives])
        self.assertEqual(7200, self.devices("sled-5").drives[0].rpm)

    def test_a_failed_node_keeps_its_blocks_and_would_free_them(self):
        self.rack[f"{SYSTEMS}/sled-5"]["Status"] = {"State": "Enabled", "Health": "OK"}
        self.assertEqual(1, self.rack.status(f"{SYSTEMS}/sled-5").release_gain)

    def test_nodes_have_their_system_and_the_pooled_devices_they_link(self):
        blocks = (f"{SYSTEMS}/sled-2", f"{BAYS}/bay-1")
        self.assertEqual(
            Node(uri=f"{NODES}/1", name="node 1", blocks=blocks), self.rack.podm.nodes[0]
        )
        rack = Rack(NETWORK)
        self.assertEqual((f"{SYSTEMS}/host-2", f"{FPGAS}/2"), rack.read().nodes[0].blocks)


class PooledTest(unittest.TestCase):
    """Drives and FPGAs in fabrics."""

    def setUp(self):
        self.rack, self.network = Rack(PCIE), Rack(NETWORK)

    def test_pooled_drives_are_blocks_of_storage_and_fpgas_of_processors(self):
        self.rack.read()
        bay = self.rack.blocks[f"{BAYS}/bay-2"]
        self.assertEqual((("Storage",), 1), (bay.type, bay.devices.drives[0].count))
        self.network.read()
        box = self.network.blocks[f"{FPGAS}/1"]
        self.assertEqual(("Processor",), box.type)
        self.assertEqual((Accelerator(kind="FPGA", model="Kelp 10"),), box.devices.accelerators)

    def test_an_fpga_is_free_unless_it_says_that_it_is_not_erased(self):
        self.assertEqual([1, 0, 0], [self.network.slots(f"{FPGAS}/{n}") for n in (1, 2, 3)])
        del self.network[f"{FPGAS}/3"]["Oem"]
        self.assertEqual(1, self.network.slots(f"{FPGAS}/3"))

    def test_each_link_of_a_node_and_bad_health_is_a_sign_of_use(self):
        free = f"{BAYS}/bay-2"
        for name, change in {
            "node": lambda rack: rack[f"{NODES}/2"]["Links"]["LocalDrives"].append(
                {"@odata.id": free}),
            "remote": lambda rack: rack[f"{NODES}/2"]["Links"].update(
                RemoteDrives=[{"@odata.id": free}]),
            "2.5": lambda rack: rack[f"{NODES}/2"]["Links"].update(Storage=[{"@odata.id": free}]),
            "ill": lambda rack: rack[free]["Status"].update(Health="Critical"),
        }.items():  # fmt: skip
            with self.subTest(name):
                rack = Rack(PCIE)
                change(rack)
                self.assertEqual(0, rack.slots(free))

    def test_a_fabric_that_offers_nothing_makes_no_pool(self):
        self.rack[ENDS]["Members"] = []
        pools = {block.pools for block in self.rack.read().blocks}
        self.assertEqual({("all",)}, pools)

    def test_a_pooled_drive_that_a_system_lists_is_not_counted_with_the_system(self):
        self.rack[f"{SYSTEMS}/sled-2/Storage/1"]["Drives"].append({"@odata.id": f"{BAYS}/bay-1"})
        self.rack.read()
        drives = self.rack.blocks[f"{SYSTEMS}/sled-2"].devices.drives
        self.assertEqual([480103981056], [drive.capacity_bytes for drive in drives])


class StorageTest(unittest.TestCase):
    """Storage by amount."""

    def amounts(self, rack, uri):
        rack.read()
        stock = rack.stocks[uri]
        return stock.resource, stock.unit, stock.total, stock.used

    def test_a_group_of_logical_drives_is_a_stock_and_its_volumes_are_used(self):
        rack = Rack(PCIE)
        self.assertEqual(("storage_gib", "GiB", 2000, 750), self.amounts(rack, GROUP))
        self.assertEqual(("PCIe", "unswitched"), rack.stocks[GROUP].pools)

    def test_the_same_services_under_two_links_are_read_once(self):
        rack = Rack(NETWORK)
        rack[V]["Oem"]["Intel_RackScale"]["Services"] = rack[V]["StorageServices"]
        self.assertEqual(2, len(rack.read().stocks))


class DeclaredTest(unittest.TestCase):
    """Documents are prefetched as declared."""

    def linked(self, documents):
        """Return the targets of all declared links, from the root down."""
        self.found, self.left = set(), [(V, rsd().root)]
        service = LinkedDocuments(documents.get, NO_NOTES, documents)
        while self.left:
            uri, type_ = self.left.pop()
            if (uri, type_) in self.found:
                continue
            self.found.add((uri, type_))
            json = service.json(uri, "a test") or {}
            if "Members" in json:
                self.left += [(member["@odata.id"], type_) for member in json["Members"]]
            else:
                self.follow(service, type_(uri, json, NO_NOTES))
        return {uri for uri, _ in self.found}

    def follow(self, service, resource):
        for name in dir(type(resource)):
            way = getattr(type(resource), name)
            if isinstance(way, Parts) and resource.leads:
                for json in way.of(resource):
                    self.follow(service, resource.part(way.to, json, way.path))
            elif isinstance(way, Link) and resource.leads:
                uris = (service.uri(link, resource.uri) for link in way.of(resource))
                self.left += [(uri, way.to) for uri in uris]

    def test_all_that_is_read_is_behind_declared_links(self):
        for name in (PCIE, NETWORK):
            documents, read = Rack(name).documents, set()

            def get(uri, documents=documents, read=read):
                read.add(uri)
                return documents.get(uri)

            rsd().read(LinkedDocuments(get, NO_NOTES, documents), "t", "rsd")
            self.assertGreater(len(read), 60)
            self.assertEqual(set(), read - self.linked(documents))


class LiveTest(unittest.TestCase):
    """Over the network, every requested document is read."""

    def read(self, name, expand):
        documents = {uri: msgspec.json.encode(json) for uri, json in Rack(name).documents.items()}
        server = Server(documents, expand=expand)
        self.addCleanup(server.close)
        target = ReadTarget(Registration(name="t", url=server.url))
        (reading,) = read([target], DIALECTS, ReadSettings())
        podm = msgspec.structs.replace(reading.podm, url=None, read_at=None)
        again = msgspec.json.decode(to_json(podm), type=FullPodm)
        recorded = msgspec.structs.replace(Rack(name).read(), id="t")
        self.assertEqual(recorded, again)
        return reading

    def test_each_document_is_asked_for_once_and_with_expand_each_collection(self):
        for name, documents, collections in ((PCIE, 92, 7), (NETWORK, 102, 6)):
            with self.subTest(name):
                plain, expanded = self.read(name, 0), self.read(name, 6)
                self.assertEqual((documents, documents), (plain.requests, len(plain.documents)))
                self.assertEqual(collections, expanded.requests)


class BrokenTest(unittest.TestCase):
    """Broken documents raise no exception."""

    def test_a_rack_of_nothing_is_a_podm_with_nothing(self):
        diagnostics = Diagnostics()
        podm = read_map({V: {"Nodes": {"@odata.id": NODES}}}, diagnostics)
        self.assertEqual(("rsd", (), ()), (podm.driver, podm.blocks, podm.stocks))
        self.assertTrue(any("found no system" in problem for problem in diagnostics.lines()))

    @settings(max_examples=sized(240), suppress_health_check=list(HealthCheck))
    @given(st.sampled_from((PCIE, NETWORK)), st.integers(0, 2**32), st.integers(1, 6))
    def test_whatever_is_spoilt_the_rest_is_read(self, name, seed, count):
        rng, rack = random.Random(seed), Rack(name)
        rack.spoil(rng, count)
        self.assertEqual("rsd", rack.read().driver)


SAMPLES = Path(__file__).parents[4].parent / "shared" / "data" / "rsd-lib" / "json_samples"
SYSTEM = f"{V}/Systems/System1"
SWITCHED, NVME = f"{V}/Fabrics/PCIe", f"{V}/Fabrics/NVMeoE"
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
    SWITCHED: "v2_1/fabric",
    f"{SWITCHED}/Endpoints": None,
    f"{SWITCHED}/Endpoints/NVMeDrivePF1": "v2_1/endpoint",
    f"{SWITCHED}/Zones": None,
    f"{SWITCHED}/Zones/1": "v2_1/zone",
    f"{SWITCHED}/Switches": None,
    f"{SWITCHED}/Switches/1": "v2_1/switch",
    f"{SWITCHED}/Switches/1/Ports": None,
    f"{SWITCHED}/Switches/1/Ports/Up1": "v2_1/fabrics_port",
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
    """Return the documents of a plan; a collection lists the documents directly below it."""
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
        # The cable shows that the system reaches the fabric; the drive is already in a system.
        self.assertEqual([("PCIe",)] * 2, [self.blocks[uri].pools for uri in (SYSTEM, BAY)])
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
