# SPDX-License-Identifier: Apache-2.0
"""Fault rules of the changes of the blocks of systems, over a socket."""

import requests

from tests.unit.simulator.server.test_podm import Case
from tests.unit.simulator.site import BLOCKS, ROOT, Clock, link, links, message_key

C2, D1, G1 = (f"{BLOCKS}/{name}" for name in ("C2", "D1", "G1"))


ZONE = f"{ROOT}/Fabrics/B/Zones/C2"
HOST, END = (f"{ROOT}/Fabrics/B/Endpoints/{name}" for name in ("C2", "G1"))


class TestFaults(Case):
    def composed(self, *fail, **settings):
        client = self.serve(*fail, **settings)
        self.where = client.compose("C2").headers["Location"]
        return client

    def add(self, block=D1):
        action = f"{self.where}/Actions/ComputerSystem.AddResourceBlock"
        return self.client.post(action, {"ResourceBlock": link(block)})

    def patch(self, *blocks):
        return self.client.ask("PATCH", self.where, {"Links": {"ResourceBlocks": links(*blocks)}})

    def blocks(self):
        found = self.client.get(self.where).json()["Links"]["ResourceBlocks"]
        return [one["@odata.id"] for one in found]

    def test_hot_plug_declares_the_slot_of_each_device(self):
        client = self.serve("hot-plug")
        for device in (f"{D1}/Drives/1", f"{G1}/Processors/1"):
            carrier = client.get(device).json()["Links"]["PCIeDevice"]["@odata.id"]
            self.assertIs(True, client.get(carrier).json()["Slot"]["HotPluggable"])

    def test_change_off_refuses_until_the_system_is_off(self):
        client = self.composed("change-off")
        for answer in (self.add(), self.patch(C2, D1)):
            self.assertEqual((409, "ResourceInUse"), (answer.status_code, message_key(answer)))
        off = {"ResetType": "ForceOff"}
        client.post(f"{self.where}/Actions/ComputerSystem.Reset", off)
        self.assertEqual(204, self.add().status_code)
        self.assertEqual([C2, D1], self.blocks())

    def test_change_race_attaches_another_block_before_and_answers_412_once(self):
        self.composed("change-race:G1")
        self.assertEqual(412, self.add().status_code)
        self.assertEqual([C2, G1], self.blocks())
        self.assertEqual(200, self.patch(C2, G1, D1).status_code)
        self.assertEqual([C2, G1, D1], self.blocks())

    def test_full_ports_refuses_to_attach_and_lets_detach(self):
        self.composed("full-ports:507")
        answer = self.add()
        self.assertEqual((507, "ResourceExhaustion"), (answer.status_code, message_key(answer)))
        self.assertEqual(200, self.patch(C2).status_code)
        self.assertEqual([C2], self.blocks())

    def test_a_port_is_free_again_after_a_block_is_detached(self):
        client = self.serve("full-ports:507")
        self.where = client.compose("C2", "D1").headers["Location"]
        self.assertEqual(507, self.add(G1).status_code)
        self.assertEqual(200, self.patch(C2).status_code)
        self.assertEqual(204, self.add(G1).status_code)
        self.assertEqual([C2, G1], self.blocks())

    def test_slow_change_is_a_task_and_its_blocks_are_composing(self):
        clock = Clock()
        client = self.composed("slow-change:3000", clock=clock)
        monitor = self.add().headers["Location"]
        self.assertEqual(([C2], "Composing"), (self.blocks(), client.state("D1")))
        self.assertEqual(202, client.get(monitor).status_code)
        clock.now_s += 3
        task = client.get(monitor).json()
        self.assertEqual(("Completed", "OK"), (task["TaskState"], task["TaskStatus"]))
        self.assertEqual(([C2, D1], "ComposedAndAvailable"), (self.blocks(), client.state("D1")))

    def test_task_warning_completes_with_a_message(self):
        client = self.composed("slow-change:0", "task-warning")
        task = client.get(self.add().headers["Location"]).json()
        self.assertEqual(("Completed", "Warning"), (task["TaskState"], task["TaskStatus"]))
        self.assertIn("lower speed", task["Messages"][0]["Message"])
        self.assertEqual([C2, D1], self.blocks())

    def test_late_change_answers_first_and_shows_later(self):
        clock = Clock()
        self.composed("late-change:2000", clock=clock)
        self.assertEqual([204, 204], [self.add().status_code, self.patch(C2, D1).status_code])
        self.assertEqual([C2], self.blocks())
        clock.now_s += 2
        self.assertEqual([C2, D1], self.blocks())

    def test_empty_change_answers_204_and_changes_nothing(self):
        self.composed("empty-change")
        self.assertEqual([204, 204], [self.add().status_code, self.patch(C2, D1).status_code])
        self.assertEqual([C2], self.blocks())

    def test_half_change_is_cut_after_half_of_it_once(self):
        self.composed("half-change")
        with self.assertRaises(requests.ConnectionError):
            self.patch(C2, D1, G1)
        self.assertEqual([C2, D1], self.blocks())
        self.assertEqual(200, self.patch(C2, D1, G1).status_code)
        self.assertEqual([C2, D1, G1], self.blocks())

    def test_done_status_is_the_answer_to_what_is_carried_out(self):
        self.composed("done-status:500:POST:*Block:1")
        self.assertEqual([500, 204], [self.add().status_code, self.add(G1).status_code])
        self.assertEqual([C2, D1, G1], self.blocks())

    def test_an_action_takes_a_bare_uri_and_empty_tags(self):
        client = self.composed()
        for verb, blocks in (("AddResourceBlock", [C2, D1]), ("RemoveResourceBlock", [C2])):
            body = {"ResourceBlock": D1, "ComputerSystemETag": "", "ResourceBlockETag": ""}
            action = f"{self.where}/Actions/ComputerSystem.{verb}"
            self.assertEqual(204, client.post(action, body).status_code)
            self.assertEqual(blocks, self.blocks())
            self.assertEqual(400, client.post(action, {"ResourceBlock": ""}).status_code)

    def test_an_outdated_etag_of_an_action_is_412(self):
        client = self.composed()
        action = f"{self.where}/Actions/ComputerSystem.AddResourceBlock"
        own, of_block = (client.get(uri).headers["ETag"] for uri in (self.where, D1))
        tags = {"ComputerSystemETag": own, "ResourceBlockETag": of_block}
        for outdated in tags:
            body = {"ResourceBlock": link(D1), **tags, outdated: 'W/"0"'}
            self.assertEqual(412, client.post(action, body).status_code)
        self.assertEqual(204, client.post(action, {"ResourceBlock": link(D1), **tags}).status_code)

    def test_other_slot_takes_hot_plug_from_an_attached_device(self):
        client = self.composed("hot-plug", "other-slot")
        self.add()
        carrier = client.get(f"{D1}/Drives/1").json()["Links"]["PCIeDevice"]["@odata.id"]
        self.assertIs(False, client.get(carrier).json()["Slot"]["HotPluggable"])

    def test_drop_other_detaches_a_block_of_another_system_for_some_time(self):
        clock = Clock()
        client = self.composed("drop-other:2000", clock=clock)
        other, self.where = self.where, client.compose("C1", "D1").headers["Location"]
        self.where, other = other, self.where
        self.assertEqual(204, self.add(G1).status_code)
        found = client.get(other).json()["Links"]["ResourceBlocks"]
        self.assertEqual([f"{BLOCKS}/C1"], [one["@odata.id"] for one in found])
        clock.now_s += 2
        found = client.get(other).json()["Links"]["ResourceBlocks"]
        self.assertEqual([f"{BLOCKS}/C1", D1], [one["@odata.id"] for one in found])
        self.assertEqual([C2, G1], self.blocks())

    def ends(self):
        found = self.client.get(ZONE).json()["Links"]["Endpoints"]
        return [one["@odata.id"] for one in found]

    def act(self, verb, **body):
        return self.client.post(f"{ZONE}/Actions/Zone.{verb}", body)

    def test_fabric_zones_have_endpoints_that_come_and_go_by_action_and_by_list(self):
        client = self.serve("servers", "fabric-zones")
        entity = client.get(END).json()["ConnectedEntities"][0]
        self.assertEqual(("Target", link(f"{G1}/Processors/1")),
                         (entity["EntityRole"], entity["EntityLink"]))  # fmt: skip
        tags = {"ZoneETag": client.get(ZONE).headers["ETag"]}
        for verb, present in (("AddEndpoint", [END]), ("RemoveEndpoint", [])):
            self.assertEqual(204, self.act(verb, Endpoint=link(END), **tags).status_code)
            self.assertEqual([HOST, *present], self.ends())
            outdated = self.act("AddEndpoint", Endpoint=link(END), ZoneETag='W/"0"')
            self.assertEqual(412, outdated.status_code)
            tags = {}
        body = {"Links": {"Endpoints": links(HOST, END)}}
        self.assertEqual(200, client.ask("PATCH", ZONE, body).status_code)
        self.assertEqual([HOST, END], self.ends())

    def test_fabric_zones_refuse_what_they_cannot_have(self):
        client = self.serve("servers", "fabric-zones")
        for ends, status in (([END], 400), ([HOST, f"{G1}/none"], 400)):
            body = {"Links": {"Endpoints": links(*ends)}}
            self.assertEqual(status, client.ask("PATCH", ZONE, body).status_code)
        body = {"Endpoints": links(HOST)}
        self.assertEqual(400, client.ask("PATCH", ZONE, body).status_code)
        for verb in ("AddEndpoint", "RemoveEndpoint"):
            self.assertEqual(400, self.act(verb).status_code)
        self.assertEqual([HOST], self.ends())

    def test_other_slot_and_drop_other_change_zones(self):
        clock = Clock()
        client = self.serve("servers", "fabric-zones", "other-slot", "drop-other:2000", clock=clock)
        self.act("AddEndpoint", Endpoint=link(END))
        self.assertEqual([HOST, f"{END}-other-slot"], self.ends())
        first, drive = (f"{ROOT}/Fabrics/A/Endpoints/{name}" for name in ("C1", "D1"))
        zone = f"{ROOT}/Fabrics/A/Zones/C1"
        client.post(f"{zone}/Actions/Zone.AddEndpoint", {"Endpoint": link(drive)})
        self.assertEqual([HOST], self.ends())
        clock.now_s += 2
        self.assertEqual([HOST, f"{END}-other-slot"], self.ends())
        self.assertEqual(links(first, f"{drive}-other-slot"),
                         client.get(zone).json()["Links"]["Endpoints"])  # fmt: skip
