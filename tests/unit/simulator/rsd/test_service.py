# SPDX-License-Identifier: Apache-2.0
"""A recorded rack, served: its Nodes service over a socket, and the faults it has."""

from pathlib import Path

from tests.unit.simulator.server.test_podm import Case
from tests.unit.simulator.site import ROOT, Client, Clock
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.testing.served import served

RACK = str(Path(__file__).parents[3] / "recorded" / "rsd-pcie.json")


class TestRacks(Case):
    def rack(self, *fail):
        self.clock = Clock()
        settings = SimulatorSettings(clock=self.clock, task_s=5)
        podms = self.stack.enter_context(served(RACK, fail=fail, settings=settings))
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
