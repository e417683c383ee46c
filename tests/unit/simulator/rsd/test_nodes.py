# SPDX-License-Identifier: Apache-2.0
"""The Nodes service of a rack, read back with the dialect: allocated hardware is in use."""

import random
import unittest
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.unit.drivers.files.test_tree import documents_of, read_map
from tests.unit.drivers.racks import (
    BAYS,
    FPGAS,
    GROUP,
    NETWORK,
    NODES,
    PCIE,
    POOL,
    SYSTEMS,
    Rack,
    V,
)
from tests.unit.simulator.server.test_podm import Case as ServedCase
from tests.unit.simulator.site import ROOT, Client, Clock
from valence_sched.simulator.rsd.choice import BODY
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.documents import DocumentTree
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.testing.served import served

FUNNEL = (
    "Available assets count after applying filters: [available: {} -> status: {} -> resource: {}"
    " -> chassis: {} -> processors: {} -> memory: {} -> local drives: {}"
    " -> ethernet interfaces: {} -> computer system attributes: {}]"
)
HOST_2 = f"{NODES}/1"


class Case(unittest.TestCase):
    """A rack, its Nodes service and a clock."""

    recording = NETWORK

    def setUp(self):
        self.now = 100.0
        self.documents = DocumentTree(documents_of(self.recording))
        self.rsd = NodesService(self.documents, lambda: self.now, assemble_s=5)

    def read(self):
        podm = read_map({uri: self.documents.get(uri) for uri in self.documents})
        self.blocks = {block.uri: block for block in podm.blocks}
        self.stocks = {stock.uri: stock for stock in podm.stocks}
        self.nodes = {node.uri: node for node in podm.nodes}
        return podm

    def slots(self, uri):
        self.read()
        return self.blocks[uri].status.slots

    def allocate(self, **body):
        answer = self.rsd.allocate(body)
        self.assertEqual(201, answer.status, answer)
        return answer.headers["Location"]

    def refused(self, status, answer):
        self.assertEqual(status, answer.status, answer)
        info = answer.body["error"]["@Message.ExtendedInfo"]
        return [one["Message"] for one in info]

    def state(self, uri):
        return self.documents.get(uri)["ComposedNodeState"]


class TestAllocate(Case):
    def test_the_first_system_that_is_left_is_taken(self):
        uri = self.allocate(Name="web", TotalSystemCoreCount=2)
        node = self.documents.get(uri)
        self.assertEqual(("web", "Allocated"), (node["Name"], node["ComposedNodeState"]))
        self.assertEqual({"@odata.id": f"{SYSTEMS}/host-1"}, node["Links"]["ComputerSystem"])

    def test_what_is_allocated_is_read_as_used_and_what_is_deleted_as_free(self):
        before = self.read()
        uri = self.allocate(
            Processors=[{"ProcessorType": "FPGA"}] * 2,
            RemoteDrives=[{"CapacityGiB": 100, "Protocol": "NVMeOverFabrics"}],
        )
        self.read()
        self.assertEqual((f"{SYSTEMS}/host-1", f"{FPGAS}/1"), self.nodes[uri].blocks)
        self.assertEqual(0, self.blocks[f"{SYSTEMS}/host-1"].status.slots)
        self.assertEqual(0, self.blocks[f"{FPGAS}/1"].status.slots)
        self.assertEqual(612, self.stocks[POOL].used)
        answer = self.rsd.delete(uri)
        self.assertEqual((204, None), (answer.status, answer.body))
        self.assertEqual(before, self.read())

    def test_its_document_links_what_the_system_has(self):
        links = self.documents.get(self.allocate())["Links"]
        host = f"{SYSTEMS}/host-1"
        self.assertEqual(
            [f"{host}/Processors/CPU1", f"{host}/Processors/CPU2", f"{host}/Processors/FPGA1"],
            [link["@odata.id"] for link in links["Processors"]],
        )
        self.assertEqual(6, len(links["Memory"]))
        self.assertEqual(2, len(links["EthernetInterfaces"]))
        self.assertEqual([{"@odata.id": f"{V}/Chassis/u1/Drives/host-1-1"}], links["LocalDrives"])
        self.assertEqual([], links["RemoteDrives"])

    def test_a_body_that_nothing_suits_is_told_the_counts(self):
        none = "There are no computer systems available for this allocation request."
        for body, counts in (
            ({"Processors": [{"TotalCores": 21}]}, (2, 2, 2, 2, 0, 0, 0, 0, 0)),
            ({"Processors": [{}, {}, {}]}, (2, 2, 2, 2, 0, 0, 0, 0, 0)),
            ({"Memory": [{"CapacityMiB": 32768}] * 12, "EthernetInterfaces": [{}, {}]},
             (2, 2, 2, 2, 2, 1, 1, 0, 0)),
            ({"LocalDrives": [{}, {}, {}]}, (2, 2, 2, 2, 2, 2, 0, 0, 0)),
            ({"TotalSystemMemoryMiB": 400000}, (2, 2, 2, 2, 2, 2, 2, 2, 0)),
            ({"TotalSystemCoreCount": 41}, (2, 2, 2, 2, 2, 2, 2, 2, 0)),
            ({"Security": {"TpmPresent": True}}, (2, 2, 2, 2, 2, 2, 2, 2, 0)),
            ({"Processors": [{"Chassis": {"@odata.id": f"{V}/Chassis/u9"}}]},
             (2, 2, 2, 0, 0, 0, 0, 0, 0)),
            ({"Memory": [{"Resource": {"@odata.id": f"{SYSTEMS}/host-2/Memory/Dimm1"}}]},
             (2, 2, 0, 0, 0, 0, 0, 0, 0)),
        ):  # fmt: skip
            with self.subTest(body):
                answer = self.rsd.allocate(body)
                self.assertEqual([none, FUNNEL.format(*counts)], self.refused(409, answer))
                error = answer.body["error"]
                self.assertEqual("Base.1.0.ResourcesStateMismatch", error["code"])
                self.assertEqual("Conflict during allocation", error["message"])

    def test_a_system_that_is_ill_is_available_and_does_not_pass_status(self):
        for name in ("host-1", "host-3"):
            self.documents.get(f"{SYSTEMS}/{name}")["Status"]["Health"] = "Warning"
        self.assertIn("[available: 2 -> status: 0 ->", self.refused(409, self.rsd.allocate({}))[1])

    def test_chassis_that_enclose_the_chassis_of_a_system_suit(self):
        self.documents.put(f"{V}/Chassis/row", {"Id": "row"})
        self.documents.get(f"{V}/Chassis/u3")["Links"] = {
            "ContainedBy": {"@odata.id": f"{V}/Chassis/row"}
        }
        uri = self.allocate(Memory=[{"Chassis": {"@odata.id": f"{V}/Chassis/row"}}])
        self.assertIn(f"{SYSTEMS}/host-3", str(self.documents.get(uri)["Links"]))

    def test_a_device_asked_for_by_name_decides_the_system(self):
        link = {"@odata.id": f"{SYSTEMS}/host-3/Memory/Dimm7"}
        uri = self.allocate(Memory=[{"CapacityMiB": 1}, {"Resource": link}])
        self.assertIn(f"{SYSTEMS}/host-3", str(self.documents.get(uri)["Links"]))

    def test_brand_and_capabilities_are_looked_at_in_both_places(self):
        cpu = self.documents.get(f"{SYSTEMS}/host-3/Processors/CPU1")
        cpu["Oem"] = {"Intel_RackScale": {"Brand": "Gold", "Capabilities": ["avx", "sse"]}}
        wanted_processor = {"Brand": "Gold", "Capabilities": ["sse"]}
        for oem in (wanted_processor, {"Intel_RackScale": wanted_processor}):
            with self.subTest(oem):
                uri = self.allocate(Processors=[{"Oem": oem}])
                self.assertIn(f"{SYSTEMS}/host-3", str(self.documents.get(uri)["Links"]))
                self.rsd.delete(uri)
        self.refused(409, self.rsd.allocate({"Processors": [{"Oem": {"Brand": "Silver"}}]}))
        for oem in (5, {"Intel_RackScale": "x"}, {"Capabilities": [[1]]}, {"Capabilities": "sse"}):
            with self.subTest(oem):
                self.refused(400, self.rsd.allocate({"Processors": [{"Oem": oem}]}))

    def test_who_names_a_device_comes_first(self):
        link = {"@odata.id": f"{SYSTEMS}/host-1/Memory/Dimm1"}
        uri = self.allocate(Memory=[{"CapacityMiB": 1}, {"Resource": link}])
        self.assertIn(f"{SYSTEMS}/host-1", str(self.documents.get(uri)["Links"]))

    def test_each_ask_takes_the_smallest_that_suits_and_the_order_of_the_asks_stays(self):
        self.documents.get(f"{V}/Chassis/u3/Drives/host-3-1")["CapacityBytes"] = 4000 * 2**30
        self.allocate(LocalDrives=[{}, {"CapacityGiB": 3000}])
        self.setUp()
        self.documents.get(f"{V}/Chassis/u3/Drives/host-3-2")["CapacityBytes"] = 4000 * 2**30
        self.allocate(LocalDrives=[{"CapacityGiB": 3000}, {}])

    def test_greed_may_refuse_what_could_be_served(self):
        for n, (size, media) in enumerate(((1000, "SSD"), (2000, "HDD")), 1):
            drive = self.documents.get(f"{V}/Chassis/u3/Drives/host-3-{n}")
            drive.update(CapacityBytes=size * 2**30, MediaType=media)
        asks = [{"CapacityGiB": 500}, {"Type": "SSD"}]
        self.assertIn(
            "local drives: 0", self.refused(409, self.rsd.allocate({"LocalDrives": asks}))[1]
        )
        self.allocate(LocalDrives=asks[::-1])

    def test_each_wrong_word_is_a_message_of_its_own(self):
        wrong = self.rsd.allocate({
            "Nme": "x", "TotalSystemCoreCount": -1, "Processors": [{"TotalCores": "many"}, 5],
            "LocalDrives": [{"Type": "Tape"}], "Memory": {},
            "RemoteDrives": [{"Protocol": "NVMeOverFabrics", "Master": {"Type": "Clone"}}],
            "EthernetInterfaces": [{"Resource": {"@odata.id": "/nowhere"}}],
        })  # fmt: skip
        messages = self.refused(400, wrong)
        words = ("Nme", "TotalSystemCoreCount", "Processors[0].TotalCores", "Processors[1]",
                 "LocalDrives[0].Type", "Memory", "RemoteDrives[0].CapacityGiB",
                 "RemoteDrives[0].Master", "EthernetInterfaces[0].Resource")  # fmt: skip
        self.assertEqual(set(words), {message.partition(":")[0] for message in messages})
        self.assertEqual(len(words), len(messages))
        self.assertEqual(1, len(self.refused(400, self.rsd.allocate([1]))))

    def test_an_asset_that_is_away_is_asked_for_later(self):
        self.rsd.lose(f"{SYSTEMS}/host-1")
        answer = self.rsd.allocate(
            {"Processors": [{"Resource": {"@odata.id": f"{SYSTEMS}/host-1"}}]}
        )
        self.assertEqual([f"{SYSTEMS}/host-1 does not answer"], self.refused(503, answer))
        self.assertEqual("5", answer.headers["Retry-After"])


class TestStorage(Case):
    def test_a_pool_of_another_protocol_or_without_room_serves_nobody_and_nothing_is_kept(self):
        before = self.read()
        for drives in (
            [{"CapacityGiB": 1, "Protocol": "iSCSI"}],
            [{"CapacityGiB": 1537}],
            [{"CapacityGiB": 1000}, {"CapacityGiB": 1000}],
        ):
            with self.subTest(drives):
                (reason,) = self.refused(409, self.rsd.allocate({"RemoteDrives": drives}))
                self.assertIn("no storage pool with room", reason)
                self.assertEqual(before, self.read())

    def test_a_pool_gives_all_it_has(self):
        self.allocate(RemoteDrives=[{"CapacityGiB": 1536}])
        self.read()
        self.assertEqual(self.stocks[POOL].total, self.stocks[POOL].used)

    def test_a_recorded_node_gives_its_volume_and_fpga_back(self):
        self.assertEqual(204, self.rsd.delete(HOST_2).status)
        self.read()
        self.assertEqual(0, self.stocks[POOL].used)
        self.assertEqual(1, self.blocks[f"{FPGAS}/2"].status.slots)
        self.assertEqual(1, self.blocks[f"{SYSTEMS}/host-2"].status.slots)


class TestOlderRack(Case):
    """PCIe fabrics and logical drives."""

    recording = PCIE

    def test_drives_of_a_fabric_are_local_drives_of_the_systems_that_reach_it(self):
        body = {"LocalDrives": [{"Interface": "NVMe", "CapacityGiB": 1000}]}
        uri = self.allocate(**body)
        self.read()
        self.assertEqual((f"{SYSTEMS}/sled-1", f"{BAYS}/bay-2"), self.nodes[uri].blocks)
        self.assertIn("local drives: 0", self.refused(409, self.rsd.allocate(body))[1])

    def test_drives_of_a_fabric_are_not_for_systems_that_it_does_not_reach(self):
        body = {"Processors": [{"TotalCores": 16}], "LocalDrives": [{"Interface": "NVMe"}]}
        text = self.refused(409, self.rsd.allocate(body))[1]
        self.assertIn("processors: 1 -> memory: 1 -> local drives: 0", text)

    def test_assembling_connects_and_deleting_disconnects_and_erases(self):
        before = self.read()
        zones = f"{V}/Fabrics/PCIe/Zones"
        uri = self.allocate(LocalDrives=[{"Interface": "NVMe"}])
        self.assertEqual(1, len(self.documents.get(zones)["Members"]))
        self.rsd.assemble(uri)
        self.assertEqual(2, len(self.documents.get(zones)["Members"]))
        self.now += 5
        self.assertEqual(204, self.rsd.delete(uri).status)
        self.assertEqual(1, len(self.documents.get(zones)["Members"]))
        self.assertEqual(before, self.read())

    def test_a_drive_that_is_not_erased_on_detach_stays_unfree(self):
        self.documents.get(f"{BAYS}/bay-2")["Oem"]["Intel_RackScale"]["EraseOnDetach"] = False
        self.rsd.delete(self.allocate(LocalDrives=[{"Interface": "NVMe"}]))
        self.assertEqual(0, self.slots(f"{BAYS}/bay-2"))
        self.rsd.delete(HOST_2)
        self.assertEqual(1, self.slots(f"{BAYS}/bay-1"))

    def test_a_remote_drive_is_a_logical_drive_behind_a_target(self):
        uri = self.allocate(RemoteDrives=[{"CapacityGiB": 100, "Protocol": "iSCSI"}])
        self.read()
        self.assertEqual(850, self.stocks[GROUP].used)
        self.rsd.delete(uri)
        self.read()
        self.assertEqual(750, self.stocks[GROUP].used)
        self.rsd.delete(HOST_2)
        self.read()
        self.assertEqual(250, self.stocks[GROUP].used)

    def test_a_node_whose_system_is_away_fails_until_it_is_back(self):
        self.assertEqual("Failed", self.state(f"{NODES}/2"))
        self.rsd.tick()
        self.assertEqual("Failed", self.state(f"{NODES}/2"))
        self.documents.get(f"{SYSTEMS}/sled-5")["Status"] = {"State": "Enabled", "Health": "OK"}
        self.rsd.tick()
        self.assertEqual("Assembled", self.state(f"{NODES}/2"))


class TestChanges(Case):
    """Pooled devices that are attached to assembled nodes, and detached."""

    def act(self, verb, device, uri=HOST_2):
        body = {"Resource": {"@odata.id": device}}
        return self.rsd.reply("POST", f"{uri}/Actions/ComposedNode.{verb}", body)

    def test_a_device_is_connected_in_use_and_then_free_again(self):
        before, card = self.read(), f"{FPGAS}/1"
        for verb, slots in (("AttachResource", 0), ("DetachResource", 1)):
            self.assertEqual(204, self.act(verb, card).status)
            self.assertEqual(slots, self.slots(card))
            self.assertEqual(not slots, card in self.nodes[HOST_2].blocks)
            self.assertIn(f"{FPGAS}/2", self.nodes[HOST_2].blocks)
        self.assertEqual(before, self.read())

    def test_what_is_in_use_or_is_no_pooled_device_is_refused(self):
        before, own = self.read(), f"{V}/Chassis/u2/Drives/host-2-1"
        for verb, device in (
            ("AttachResource", f"{FPGAS}/2"), ("AttachResource", "/none"), ("AttachResource", ""),
            ("DetachResource", f"{FPGAS}/1"), ("DetachResource", f"{SYSTEMS}/host-2"),
            ("DetachResource", own),
        ):  # fmt: skip
            with self.subTest(device):
                (reason,) = self.refused(400, self.act(verb, device))
                self.assertRegex(reason, "^Resource: .* cannot be (at|de)tached$")
        self.assertEqual(before, self.read())

    def test_a_node_that_is_not_assembled_is_refused(self):
        uri = self.allocate()
        (reason,) = self.refused(409, self.act("AttachResource", f"{FPGAS}/1", uri))
        self.assertIn("this one is Allocated", reason)


class TestReplies(Case):
    """Requests as they arrive over the network."""

    def test_targets_that_documents_name_are_answered(self):
        target = self.documents.get(NODES)["Actions"]["#ComposedNodeCollection.Allocate"]["target"]
        answer = self.rsd.reply("POST", target, {"Name": "n"})
        self.assertEqual(201, answer.status)
        uri = answer.headers["Location"]
        actions = self.documents.get(uri)["Actions"]
        target = actions["#ComposedNode.Assemble"]["target"]
        self.assertEqual(204, self.rsd.reply("POST", target).status)
        self.now += 5
        target = actions["#ComposedNode.Reset"]["target"]
        self.assertEqual(204, self.rsd.reply("POST", target, {"ResetType": "ForceOff"}).status)
        self.assertEqual(204, self.rsd.reply("DELETE", f"{uri}/").status)
        self.assertIsNone(self.rsd.reply("DELETE", uri))

    def test_a_target_of_2_5_forces_a_delete(self):
        self.documents.get(V)["Oem"]["Intel_RackScale"]["ApiVersion"] = "2.5.0"
        uri = self.allocate()
        target = self.documents.get(uri)["Actions"]["#ComposedNode.ForceDelete"]["target"]
        self.rsd.lose(f"{SYSTEMS}/host-1")
        self.assertEqual(204, self.rsd.reply("POST", target, {}).status)

    def test_what_is_for_others_is_left_to_them(self):
        reset = f"{SYSTEMS}/host-1/Actions/ComputerSystem.Reset"
        for method, uri in (
            ("GET", NODES), ("POST", NODES), ("POST", reset),
            ("DELETE", f"{SYSTEMS}/host-1"), ("POST", f"{SYSTEMS}/Actions/Allocate"),
            ("POST", f"{NODES}/1/Actions/ComposedNode.NoSuchAction"), ("POST", ""),
        ):  # fmt: skip
            with self.subTest((method, uri)):
                self.assertIsNone(self.rsd.reply(method, uri, {}))


class TestStrange(Case):
    """Unexpected bodies and documents raise no exception."""

    VALUES = st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("Resource", "Chassis", "@odata.id", "Oem", "CapacityGiB", "Model",
                             "Protocol", "Master", "Intel_RackScale", "Capabilities")),
            inner, max_size=4,
        ),
        max_leaves=8,
    )  # fmt: skip

    @settings(max_examples=80, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from((*BODY, "Odd")), VALUES) | VALUES)
    def test_every_body_is_answered(self, body):
        self.setUp()
        before = self.read()
        answer = self.rsd.allocate(body)
        self.assertIn(answer.status, (201, 400, 409))
        if answer.status != 201:
            self.assertEqual(before, self.read())

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from((PCIE, NETWORK)), st.integers(0, 2**32), st.integers(1, 4))
    def test_every_document_may_be_spoilt(self, recording, seed, count):
        rack = Rack(recording)
        rack.spoil(random.Random(seed), count)
        rsd = NodesService(DocumentTree(rack.documents), lambda: self.now)
        body = {
            "RemoteDrives": [{"CapacityGiB": 1}], "Security": {"TpmPresent": False},
            "Processors": [{"Oem": {"Brand": "E5", "Capabilities": ["sse"]}, "TotalCores": 2}],
            "Memory": [{"DataWidthBits": 64}], "LocalDrives": [{"SerialNumber": "x", "MinRPM": 1}],
        }  # fmt: skip
        self.assertIn(rsd.allocate(body).status, (201, 404, 409))
        answer = rsd.allocate({})
        for uri in (HOST_2, f"{NODES}/2", answer.headers.get("Location", "/")):
            rsd.assemble(uri)
            rsd.reset(uri, {"ResetType": "On"})
            rsd.delete(uri)
            rsd.force_delete(uri)


class TestStates(Case):
    def test_assembling_takes_its_time(self):
        uri = self.allocate()
        self.assertEqual(204, self.rsd.assemble(uri).status)
        self.now += 4.9
        self.rsd.tick()
        self.assertEqual("Assembling", self.state(uri))
        self.read()
        self.assertEqual("Composing", self.blocks[f"{SYSTEMS}/host-1"].status.state)
        self.now += 0.1
        self.rsd.tick()
        self.assertEqual("Assembled", self.state(uri))
        self.assertEqual("On", self.documents.get(uri)["PowerState"])
        self.assertEqual("On", self.documents.get(f"{SYSTEMS}/host-1")["PowerState"])

    def test_a_recorded_node_that_assembles_comes_to_an_end_too(self):
        self.rsd.tick()
        self.assertEqual("Assembling", self.state(f"{NODES}/2"))
        self.now += 5
        self.rsd.tick()
        self.assertEqual("Assembled", self.state(f"{NODES}/2"))

    def test_only_an_allocated_node_is_assembled(self):
        for uri in (f"{NODES}/1", f"{NODES}/2"):
            state = self.state(uri)
            (reason,) = self.refused(409, self.rsd.assemble(uri))
            self.assertIn(state, reason)
            self.assertEqual(state, self.state(uri))

    def test_a_node_that_lost_an_asset_fails_and_returns_by_itself(self):
        for begin in ("Allocated", "Assembling", "Assembled"):
            uri = self.allocate(Processors=[{"ProcessorType": "FPGA"}] * 2)
            if begin != "Allocated":
                self.rsd.assemble(uri)
            if begin == "Assembled":
                self.now += 5
                self.rsd.tick()
            for asset in (f"{SYSTEMS}/host-1", f"{FPGAS}/1"):
                with self.subTest((begin, asset)):
                    status = self.documents.get(asset)["Status"]
                    self.rsd.lose(asset)
                    self.assertEqual("Failed", self.state(uri))
                    self.assertEqual("Critical", self.documents.get(uri)["Status"]["Health"])
                    self.assertEqual(0, self.slots(f"{SYSTEMS}/host-1"))
                    for answer in (self.rsd.delete(uri), self.rsd.assemble(uri),
                                   self.rsd.reset(uri, {"ResetType": "On"})):  # fmt: skip
                        self.assertIn(f"{asset} does not answer", self.refused(503, answer))
                        self.assertIn("Retry-After", answer.headers)
                    self.documents.update(asset, Status=status)
                    self.rsd.tick()
                    self.assertEqual(begin, self.state(uri))
                    self.assertEqual("OK", self.documents.get(uri)["Status"]["Health"])
            self.assertEqual(204, self.rsd.force_delete(uri).status)

    def test_a_node_is_reset_when_it_is_assembled(self):
        power = []
        for kind in ("ForceOff", "On", "GracefulRestart", "PushPowerButton", "Nmi", "ForceOn"):
            self.assertEqual(204, self.rsd.reset(HOST_2, {"ResetType": kind}).status)
            power.append(self.documents.get(f"{SYSTEMS}/host-2")["PowerState"])
        self.assertEqual(["Off", "On", "On", "Off", "Off", "On"], power)
        for body in ({"ResetType": "Kick"}, {}, None, [1]):
            self.assertIn("expected one of On", self.refused(400, self.rsd.reset(HOST_2, body))[0])
        answer = self.rsd.reset(f"{NODES}/2", {"ResetType": "On"})
        self.assertIn("Assembling", self.refused(409, answer)[0])

    def test_a_node_that_assembles_is_not_deleted_and_can_be_forced(self):
        uri = f"{NODES}/2"
        self.assertIn("Assembling", self.refused(409, self.rsd.delete(uri))[0])
        self.assertEqual(204, self.rsd.force_delete(uri).status)
        self.assertEqual(1, self.slots(f"{SYSTEMS}/host-4"))

    def test_what_is_no_node_is_not_found(self):
        for uri in (f"{NODES}/9", f"{SYSTEMS}/host-1", "/"):
            self.refused(404, self.rsd.delete(uri))
            self.refused(404, self.rsd.force_delete(uri))
            self.refused(404, self.rsd.assemble(uri))
            self.refused(404, self.rsd.reset(uri, {"ResetType": "On"}))

    def test_a_link_of_a_deleted_node_is_gone(self):
        self.rsd.delete(HOST_2)
        self.assertIsNone(self.documents.get(HOST_2))
        self.assertEqual(1, self.documents.get(NODES)["Members@odata.count"])
        self.refused(404, self.rsd.delete(HOST_2))


RACK = str(Path(__file__).parents[3] / "recorded" / "rsd-pcie.json")


class TestRacks(ServedCase):
    def rack(self, *fail):
        self.clock = Clock()
        settings = SimulatorSettings(clock=self.clock, task_s=5)
        podms = self.enterContext(served(RACK, fail=fail, settings=settings))
        (self.podm,) = podms.values()
        self.client = Client(self.podm)
        root = self.client.get(ROOT).json()
        oem = root.get("Oem", {}).get("Intel_RackScale", {})
        nodes = (root.get("Nodes") or oem["Nodes"])["@odata.id"]
        actions = self.client.get(nodes).json()["Actions"]
        self.allocate = actions["#ComposedNodeCollection.Allocate"]["target"]
        return self.client

    def node(self):
        answer = self.client.post(self.allocate, {"Name": "node"})
        self.assertEqual(201, answer.status_code)
        return answer.headers["Location"]

    def assemble(self, node):
        actions = self.client.get(node).json()["Actions"]
        return self.client.post(actions["#ComposedNode.Assemble"]["target"], {}).status_code

    def state(self, node):
        return self.client.get(node).json()["ComposedNodeState"]

    def test_a_node_is_allocated_assembled_in_its_time_and_deleted(self):
        client = self.rack()
        node = self.node()
        self.assertEqual("Allocated", self.state(node))
        self.assertEqual(204, self.assemble(node))
        self.assertEqual("Assembling", self.state(node))
        self.clock.now_s += 5
        self.assertEqual("Assembled", self.state(node))
        self.assertEqual(204, client.ask("DELETE", node).status_code)
        self.assertEqual(404, client.get(node).status_code)

    def test_what_no_system_has_is_409_with_the_counts(self):
        body = {"Name": "node", "Memory": [{"CapacityMiB": 10**9}]}
        answer = self.rack().post(self.allocate, body)
        self.assertEqual(409, answer.status_code)
        self.assertIn("memory: 0", answer.text)

    def test_failed_node_fails_when_it_is_assembled(self):
        self.rack("failed-node")
        node = self.node()
        self.assertEqual(204, self.assemble(node))
        self.clock.now_s += 5
        self.assertEqual("Failed", self.state(node))

    def test_ghost_stays_after_204(self):
        client = self.rack("ghost")
        node = self.node()
        self.assertEqual(204, client.ask("DELETE", node).status_code)
        self.assertEqual("Allocated", self.state(node))

    def test_empty_create_is_201_and_no_node(self):
        client = self.rack("empty-create")
        self.assertEqual(404, client.get(self.node()).status_code)
