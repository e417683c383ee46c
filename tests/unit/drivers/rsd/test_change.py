# SPDX-License-Identifier: Apache-2.0
"""Pooled devices that are attached to nodes of Intel RSD, and detached; their power."""

import unittest

from tests.unit.drivers.racks import BAYS, FPGAS, GROUP, NETWORK, PCIE, POOL
from tests.unit.drivers.redfish.stored import link, links
from tests.unit.drivers.rsd.rack import Rack
from tests.unit.drivers.rsd.test_composer import rack
from valence_sched.drivers.composer import AmountChange, Change, Reply
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, Grant

VOLUMES = f"{POOL.partition('/StoragePools/')[0]}/Volumes"


def quiet(_state: str) -> None:
    pass


class TestServedRacks(unittest.TestCase):
    """Nodes of served racks, with pooled drives or FPGAs."""

    def change(self, site, attach=(), detach=()):
        return site.composer.change(self.node, attach, detach, quiet)

    def compose(self, site):
        found = site.compose(site.wanted(0))
        self.node, self.system = found.node, found.blocks[0]

    def test_devices_come_and_go_and_a_repeated_change_writes_nothing(self):
        for name, place in ((PCIE, BAYS), (NETWORK, FPGAS)):
            with self.subTest(place), rack(name=name) as site:
                first, *others = [uri for uri in site.free() if uri.startswith(place)]
                self.compose(site)
                attached = Change((self.system, first))
                self.assertEqual(attached, self.change(site, (first,)))
                before = site.podm.traffic.writes
                self.assertEqual(attached, self.change(site, (first,), others[:1]))
                self.assertEqual(before, site.podm.traffic.writes)
                self.assertNotIn(first, site.free())
                self.assertEqual(Change((self.system,)), self.change(site, (), (first,)))
                self.assertIn(first, site.free())

    def test_what_is_attached_to_another_node_or_is_the_system_is_refused(self):
        with rack() as site:
            drive = next(uri for uri in site.free() if uri.startswith(BAYS))
            self.compose(site)
            self.change(site, (drive,))
            mine = self.node
            self.compose(site)
            for attach, detach, reason, conflicts in (
                ((drive,), (), f"{drive}: found Composed", True),
                ((f"{BAYS}/none",), (), f"{BAYS}/none: found no such block", False),
                ((), (self.system,), f"{self.system} cannot be detached", False),
            ):
                with self.subTest(reason):
                    found = self.change(site, attach, detach)
                    self.assertEqual(((self.system,), conflicts), (found.blocks, found.conflicts))
                    self.assertIn(reason, found.reason)
            self.assertEqual((self.system,), site.composer.node_blocks(self.node))
            self.assertIn(drive, site.composer.node_blocks(mine))

    def test_each_fault_is_judged_by_what_the_node_links(self):
        for rule, works, reason in (
            ("drop-reply:POST:*Attach*", True, "^$"),
            ("done-status:500:POST:*Attach*", True, "^$"),
            ("status:409:POST:*Attach*", False, "HTTP 409"),
            ("status:405:POST:*Attach*", False, "HTTP 405"),
            ("empty-change", False, "reported success, but"),
            ("odd-actions", True, "^$"),
        ):
            with self.subTest(rule), rack(rule) as site:
                drive = next(uri for uri in site.free() if uri.startswith(BAYS))
                self.compose(site)
                found = self.change(site, (drive,))
                self.assertEqual((self.system, drive)[: 1 + works], found.blocks)
                self.assertRegex(found.reason, reason)

    def test_the_power_of_a_node(self):
        with rack() as site:
            self.compose(site)
            for on in (True, False, True):
                site.composer.set_power(self.node, on, quiet)
                self.assertIs(on, site.composer.is_on(self.node))


class TestVolumes(unittest.TestCase):
    """Volumes of living nodes of a served rack."""

    def compose(self, site):
        self.node = site.compose(site.wanted(0, "vs-1")).node
        self.first = self.volumes(site)

    def volumes(self, site):
        listed = set(site.podm.documents.member_uris(VOLUMES))
        return {uri for uri in listed if uri in site.podm.documents}

    def linked(self, site):
        found = site.podm.documents.get(self.node)["Links"]["RemoteDrives"]
        return [one["@odata.id"] for one in found]

    def wanted(self, *amounts, stock=POOL):
        grants = (Grant(stock, 10.0),)
        return CompositionRequest(name="vs-1", grants=grants, amounts=amounts)

    def attach(self, site):
        return site.composer.attach_amounts(self.wanted(), self.node, quiet)

    def test_a_volume_is_created_and_attached_and_goes_again(self):
        with rack(name=NETWORK) as site:
            self.compose(site)
            self.assertIsNone(site.composer.amounts_refusal(self.wanted(), self.node))
            found = self.attach(site)
            (volume,) = self.volumes(site) - self.first
            self.assertEqual(AmountChange((Grant(volume, 10.0),)), found)
            self.assertEqual([volume], self.linked(site))
            read = site.composer.read_amounts
            self.assertEqual(found, read(self.wanted(), self.node, new=True))
            of = self.wanted(*found.amounts)
            self.assertEqual(found, read(of, self.node))
            gone = site.composer.detach_amounts(of, self.node, quiet)
            self.assertEqual(AmountChange(()), gone)
            self.assertEqual(((), []), (read(of, self.node).amounts, self.linked(site)))
            self.assertEqual(self.first, self.volumes(site))

    def test_each_fault_is_judged_by_what_the_node_links(self):
        for rule, amounts, works, reason in (
            ("drop-reply:POST:*Attach*", 1, False, "^$"),
            ("done-status:500:POST:*Attach*", 1, False, "^$"),
            ("status:409:POST:*Attach*", 0, False, "is not connected: HTTP 409"),
            ("status:507:POST:*Volumes", 0, False, "HTTP 507"),
            ("empty-change", None, False, "is not connected: the service reported success"),
        ):
            with self.subTest(rule), rack(rule, name=NETWORK) as site:
                self.compose(site)
                found = self.attach(site)
                made = None if found.amounts is None else len(found.amounts)
                self.assertEqual((amounts, works), (made, found.works), found)
                self.assertRegex(found.reason, reason)
                if amounts == 0:
                    self.assertEqual((self.first, []), (self.volumes(site), self.linked(site)))

    def test_a_refused_detachment_keeps_the_volume_attached(self):
        for rule in ("status:409:POST:*Detach*", "status:409:DELETE:*Volumes/*"):
            with self.subTest(rule), rack(rule, name=NETWORK) as site:
                self.compose(site)
                made = self.attach(site).amounts
                kept = site.composer.detach_amounts(self.wanted(*made), self.node, quiet)
                self.assertEqual(made, kept.amounts)
                self.assertIn("HTTP 409", kept.reason)
                self.assertEqual([made[0].uri], self.linked(site))

    def test_a_rack_whose_nodes_cannot_attach_volumes_is_refused_before_a_write(self):
        with rack(name=NETWORK) as site:
            self.compose(site)
            before = site.podm.traffic.writes
            with self.assertRaisesRegex(PodmError, "found neither a memory domain nor a storage"):
                site.composer.attach_amounts(self.wanted(stock=GROUP), self.node, quiet)
            documents = site.podm.documents
            actions = documents.get(self.node)["Actions"]
            kept = {name: it for name, it in actions.items() if "AttachResource" not in name}
            for change, words in (
                ({"Actions": kept}, f"{self.node}: found no action AttachResource"),
                ({"ComposedNodeState": "Assembling"}, "is Assembling, expected Assembled"),
            ):
                documents.update(self.node, **change)
                self.assertIn(words, site.composer.amounts_refusal(self.wanted(), self.node))
                with self.assertRaisesRegex(PodmError, words):
                    self.attach(site)
            self.assertEqual(before, site.podm.traffic.writes)


class TestStoredRacks(unittest.TestCase):
    """Nodes that cannot be changed, and devices that are declared removable."""

    def node(self, state="Assembled", **actions):
        targets = {f"#ComposedNode.{name}": {"target": uri} for name, uri in actions.items()}
        drive = {"@odata.type": "#Drive.v1", "Oem": {"Intel_RackScale": {"DriveErased": True}}}
        pod = Rack(**{"/D/1": drive})
        self.uri = pod.allocate()
        pod.become(self.uri, state)
        pod.documents[self.uri]["Actions"] = targets
        pod.on_post = lambda uri, body: self.act(pod, uri, body["Resource"])
        return pod

    def act(self, pod, uri, named):
        drives = [named] if uri == "/Attach" else []
        linked = {**pod.documents[self.uri]["Links"], "LocalDrives": drives}
        pod.documents[self.uri] |= {"Links": linked}
        return Reply(204, {}, None)

    def test_a_node_in_another_state_is_refused(self):
        states = {"Assembled": 1, "Failed": 1, "Allocated": 0, "Assembling": 0}
        for state, written in states.items():
            with self.subTest(state):
                pod = self.node(state, AttachResource="/Attach", DetachResource="/Detach")
                pod.documents[self.uri]["Links"]["LocalDrives"] = links("/D/1")
                found = pod.composer.change(self.uri, (), ("/D/1",), quiet)
                self.assertEqual(written, len(pod.bodies))
                expected = f"{self.uri} is {state}, expected Assembled or Failed"
                self.assertEqual("" if written else expected, found.reason)
                if written:
                    self.assertEqual({"Resource": link("/D/1")}, pod.bodies[0])

    def test_a_node_without_the_action_is_refused(self):
        pod = self.node(AttachResource="/Attach")
        pod.documents[self.uri]["Links"]["LocalDrives"] = links("/D/1")
        found = pod.composer.change(self.uri, (), ("/D/1",), quiet)
        self.assertEqual((("/S/1", "/D/1"), []), (found.blocks, pod.bodies))
        self.assertIn("found no action DetachResource", found.reason)

    def test_a_missing_node_is_an_error(self):
        with self.assertRaisesRegex(PodmError, "/N/none: found no such node"):
            self.node().composer.change("/N/none", ("/D/1",), (), quiet)

    def test_a_drive_that_declares_it_is_removable(self):
        pod = self.node()
        self.assertFalse(pod.composer.is_hot_removable("/D/1"))
        pod.documents["/D/1"]["ReadyToRemove"] = True
        self.assertTrue(pod.composer.is_hot_removable("/D/1"))
