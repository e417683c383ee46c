# SPDX-License-Identifier: Apache-2.0
"""Pooled devices that are attached to nodes of Intel RSD, and detached; their power."""

import unittest

from tests.unit.drivers.racks import BAYS, FPGAS, NETWORK, PCIE
from tests.unit.drivers.redfish.stored import link, links
from tests.unit.drivers.rsd.rack import Rack
from tests.unit.drivers.rsd.test_composer import rack
from valence_sched.drivers.composer import Change, Reply
from valence_sched.errors import PodmError


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
