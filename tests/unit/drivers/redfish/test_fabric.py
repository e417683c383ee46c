# SPDX-License-Identifier: Apache-2.0
"""Devices that the zones of fabrics attach to hosts: read, attached, detached, read back."""

import unittest

from tests.unit.drivers.live import DIALECTS, LiveTest
from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_change import FIRST, SECOND, writes
from tests.unit.drivers.redfish.test_composer import BLOCKS, bench, quiet
from tests.unit.drivers.redfish.test_hosts import COMPUTE, HOST
from valence_sched.drivers.composer import Change
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.errors import ClaimLost
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.reading import PreviousReading
from valence_sched.model.registration import Registration

SYSTEMS, FABRIC = f"{ROOT}/Systems", f"{ROOT}/Fabrics/row-a"
ONE, TWO, FAR = (f"{SYSTEMS}/Compute-{number}" for number in ("01", "02", "06"))
GPU, OTHER_GPU, THIRD = (
    f"{BLOCKS}/GPU-{name}/Processors/Accelerator-{number}"
    for name, number in (("01", 1), ("01", 2), ("02", 1))
)
ADD, REMOVE = "POST AddEndpoint", "POST RemoveEndpoint"


class TestServedServers(unittest.TestCase):
    """Servers without a composition service, to which only zones attach devices."""

    def change(self, site, attach=(), detach=(), host=ONE):
        return site.composer.change(host, attach, detach, quiet)

    def read(self, site, **words):
        documents = site.podm.documents
        service = LinkedDocuments(documents.get, Diagnostics(), list(documents), **words)
        return read_podm(service, "p", "redfish")

    def test_a_device_that_is_no_block_is_named(self):
        with bench("servers", "fabric-zones") as site:
            site.podm.documents.update(GPU, **{"@odata.type": "#PCIeDevice.v1_9_0.PCIeDevice"})
            remarks = Diagnostics()
            documents = site.podm.documents
            read_podm(LinkedDocuments(documents.get, remarks, list(documents)), "p", "redfish")
        what = "found endpoints of PCIeDevice, expected drives and accelerators (left out)"
        self.assertIn(f"{FABRIC}: {what}", [one.text for one in remarks])

    def test_an_endpoint_without_a_link_to_its_device_is_named(self):
        with bench("servers", "fabric-zones") as site:
            remarks, documents = Diagnostics(), site.podm.documents
            ends = [uri for uri in documents if uri.startswith(f"{FABRIC}/Endpoints/")]
            for uri in ends:
                (entity,) = documents.get(uri)["ConnectedEntities"]
                if entity["EntityLink"]["@odata.id"] in (GPU, OTHER_GPU):
                    documents.update(uri, ConnectedEntities=[{**entity, "EntityLink": None}])
            read_podm(LinkedDocuments(documents.get, remarks, list(documents)), "p", "redfish")
        what = "ConnectedEntities: found a target without EntityLink, expected a device (left out)"
        self.assertEqual(2, sum(one.text.endswith(what) for one in remarks))

    def test_devices_come_and_go_by_the_actions_of_the_zone_or_by_its_list(self):
        for fail, attached, gone in (
            ((), [ADD] * 2, [REMOVE]),
            (("status:405:POST:*Endpoint",), ["PATCH Compute-01"], ["PATCH Compute-01"]),
            (("omit:Actions", "if-match"), ["PATCH Compute-01"], ["PATCH Compute-01"]),
        ):
            with self.subTest(fail), bench("servers", "fabric-zones", *fail) as site:
                for _ in range(2):  # a repeated change writes nothing
                    found = self.change(site, (GPU, OTHER_GPU))
                    self.assertEqual(Change((ONE, GPU, OTHER_GPU)), found)
                self.assertEqual(attached, [it for it in writes(site) if it in attached])
                self.assertEqual(Change((ONE, OTHER_GPU)), self.change(site, (), (GPU,)))
                self.assertEqual(gone[0], writes(site)[-1])
                self.assertEqual((ONE, OTHER_GPU), site.composer.node_blocks(ONE))

    def test_a_refusal_before_the_write_names_the_device(self):
        with bench("servers", "fabric-zones") as site:
            self.change(site, (GPU,))
            before = writes(site)
            for attach, detach, reason, conflicts in (
                ((GPU,), (), f"{GPU}: found part of {ONE}", True),
                (("/none",), (), f"/none: found no endpoint in a fabric of {TWO}", False),
                ((), (TWO,), f"{TWO} cannot be detached: it is the host", False),
            ):
                with self.subTest(reason):
                    found = self.change(site, attach, detach, host=TWO)
                    self.assertEqual(Change((TWO,), reason, conflicts=conflicts), found)
            far = self.change(site, (OTHER_GPU,), host=FAR)
            self.assertIn(f"no endpoint in a fabric of {FAR}", far.reason)
            site.podm.documents.update(OTHER_GPU, Status={"Health": "Critical"})
            self.assertEqual(f"{OTHER_GPU}: found Critical", self.change(site, (OTHER_GPU,)).reason)
            self.assertEqual(before, writes(site))

    def test_each_fault_is_judged_by_what_the_zone_connects(self):
        for rule, devices, reason in (
            ("drop-reply:POST:*AddEndpoint", (GPU,), "^$"),
            ("done-status:500:POST:*AddEndpoint", (GPU,), "^$"),
            ("done-status:404:POST:*AddEndpoint", (GPU,), "^$"),
            ("late-change:400", (GPU,), "^$"),
            ("slow-change:300", (GPU,), "^$"),
            ("other-slot", (GPU,), "^$"),
            ("change-race:GPU-02", (THIRD, GPU), "^$"),
            ("change-off", (), "HTTP 409: .*Compute-01 must be off"),
            ("full-ports:507", (), "HTTP 507: No port of .*Compute-01 is free"),
            ("empty-change", (), f"reported success, but .* without {GPU}"),
            ("half-change", (), "no reply"),
        ):
            with self.subTest(rule), bench("servers", "fabric-zones", rule) as site:
                site.podm.documents.update(ONE, PowerState="On")
                found = self.change(site, (GPU,))
                self.assertEqual(((ONE, *devices), ()), (found.blocks, found.lost))
                self.assertRegex(found.reason, reason)
                self.assertEqual(rule == "empty-change", found.works)

    def test_a_device_that_shows_at_another_endpoint_is_detached_there(self):
        with bench("servers", "fabric-zones", "other-slot") as site:
            self.change(site, (GPU,))
            (_, end) = site.podm.documents.get(f"{FABRIC}/Zones/Compute-01")["Links"]["Endpoints"]
            self.assertEqual(link(f"{FABRIC}/Endpoints/GPU-01-other-slot"), end)
            self.assertEqual(Change((ONE,)), self.change(site, (), (GPU,)))

    def test_a_node_is_placed_with_its_devices_and_leaves_only_its_host(self):
        wanted = CompositionRequest(name="n", blocks=(ONE, GPU))
        with bench("servers", "fabric-zones") as site:
            self.assertIsNone(site.composer.refusal(wanted))
            self.assertEqual([], site.composer.conflicts(wanted))
            self.assertEqual("absent", site.composer.read_node(wanted).state)
            made = site.compose(wanted)
            self.assertEqual(("composed", ONE, (ONE, GPU)), (made.state, made.node, made.blocks))
            self.assertEqual("composed", site.composer.read_node(wanted).state)
            conflicts = site.composer.conflicts(wanted)
            self.assertEqual([f"{ONE}: found a host with {GPU}"], conflicts)
            with self.assertRaisesRegex(ClaimLost, "found a host with"):
                site.compose(wanted)
            self.change(site, (OTHER_GPU,))
            left = site.composer.remove(wanted, ONE, quiet)
            self.assertEqual("left", left.state)
            self.assertIn(f"{ONE} has {OTHER_GPU}, attached by another client", left.reason)
            self.change(site, (), (OTHER_GPU,))
            gone = site.composer.remove(wanted, ONE, quiet)
            self.assertEqual(("absent", (GPU,)), (gone.state, gone.freed))
            self.assertEqual((ONE,), site.composer.node_blocks(ONE))

    def test_a_node_whose_devices_cannot_be_attached_is_absent(self):
        wanted = CompositionRequest(name="n", blocks=(ONE, GPU))
        for rule, state in (("full-ports:507", "absent"), ("empty-change", "unknown")):
            with self.subTest(rule), bench("servers", "fabric-zones", rule) as site:
                self.assertEqual(state, site.compose(wanted).state)
        with bench("servers", "fabric-zones") as site:
            self.assertEqual([], site.composer.conflicts(wanted))
            self.change(site, (GPU,), host=TWO)
            with self.assertRaisesRegex(ClaimLost, f"{GPU}: found part of {TWO}"):
                site.compose(wanted)

    def test_devices_are_blocks_of_the_pools_of_their_fabric(self):
        with bench("servers", "fabric-zones") as site:
            podm = self.read(site, free_hosts=("*",))
            found = {block_.uri: block_ for block_ in podm.blocks}
            self.assertEqual(["row-a", "row-a+row-b", "row-b", "row-c"],
                             [pool.id for pool in podm.pools])  # fmt: skip
            gpu = found[GPU]
            self.assertEqual((("Processor",), ("row-a", "row-a+row-b"), {"fabric": FABRIC}, 1),
                             (gpu.type, gpu.pools, gpu.places, gpu.status.slots))  # fmt: skip
            self.assertEqual((1, 81920), (gpu.devices.accelerators[0].count,
                                          gpu.devices.accelerators[0].memory_mib))  # fmt: skip
            self.assertEqual(("row-b",), found[FAR].pools)

    def test_an_attached_device_is_in_use_by_a_node_and_counted_once(self):
        with bench("servers", "fabric-zones") as site:
            self.change(site, (GPU,))
            lists = f"{ONE}/Processors"  # the host lists what it sees
            own = site.podm.documents.get(lists)["Members"]
            site.podm.documents.update(lists, Members=[*own, link(GPU)])
            podm = self.read(site, free_hosts=("*",))
            found = {block_.uri: block_ for block_ in podm.blocks}
            self.assertEqual([(ONE, (ONE, GPU))], [(it.uri, it.blocks) for it in podm.nodes])
            self.assertEqual([0, 0, 1], [found[it].status.slots for it in (ONE, GPU, OTHER_GPU)])
            self.assertEqual((), found[ONE].devices.accelerators)
            self.assertEqual(1, len(found[GPU].devices.accelerators))


class TestLive(LiveTest):
    def test_a_second_reading_finds_the_same(self):
        with bench("servers", "fabric-zones") as site:
            known = Registration(name="p", url=site.podm.url, hosts="free")
            first = self.ask(known, PreviousReading())
            again = self.ask(known, PreviousReading.of(first.podm))
            self.assertEqual((None, None), (first.failure, again.failure))
            self.assertEqual(first.podm.blocks, again.podm.blocks)
            self.assertIn(GPU, [it.uri for it in again.podm.blocks])

    def ask(self, known, previous):
        (found,) = read([ReadTarget(known, None, previous)], DIALECTS, ReadSettings(raw=False))
        return found


class TestServedHosts(unittest.TestCase):
    """Hosts with resource blocks, whose devices only zones attach."""

    def test_blocks_are_attached_by_the_endpoints_of_their_devices(self):
        with bench("fixed-hosts", "fabric-zones") as site:
            attached = site.composer.change(HOST, (SECOND,), (), quiet)
            self.assertEqual(Change((COMPUTE, SECOND)), attached)
            self.assertEqual(["PATCH Host-Compute-02", ADD], writes(site))
            swapped = site.composer.change(HOST, (FIRST,), (), quiet)
            self.assertEqual(Change((COMPUTE, FIRST, SECOND)), swapped)
            self.assertEqual("PATCH Host-Compute-02", writes(site)[-1])  # it has two devices
            gone = site.composer.change(HOST, (), (FIRST, SECOND), quiet)
            self.assertEqual(Change((COMPUTE,)), gone)


class TestStoredZones(unittest.TestCase):
    """Fabrics of services whose answers do not match their actions."""

    def service(self, **changes):
        ends = {"/F/1/Endpoints": {"Members": links("/E/h", "/E/1", "/E/2")},
                "/E/h": self.end("/S/1", "Initiator"),
                "/E/1": self.end("/Drives/1"), "/E/2": self.end("/Drives/2")}  # fmt: skip
        fabric = {"Zones": link("/Zs"), "Endpoints": link("/F/1/Endpoints"), "FabricType": "PCIe"}
        drives = {f"/Drives/{n}": {"@odata.type": "#Drive.v1_4_0.Drive"} for n in (1, 2)}
        zone = {"Links": {"Endpoints": links("/E/h", "/E/1")}}
        self.podm = StoredPodm({
            ROOT: {"Systems": link("/S"), "Fabrics": link("/F")}, "/S": {"Members": links("/S/1")},
            "/S/1": {"Name": "s"}, "/F": {"Members": links("/F/1")}, "/F/1": fabric,
            "/Zs": {"Members": links("/Z/1")}, "/Z/1": zone, **ends, **drives, **changes,
        })  # fmt: skip
        self.podm.on_patch = self.podm.change
        composer = RedfishComposer(self.podm, self.podm.patience)
        return composer.change("/S/1", ("/Drives/2",), (), quiet)

    def end(self, uri, role="Target"):
        return {"ConnectedEntities": [{"EntityRole": role, "EntityLink": link(uri)}], "Name": "e"}

    def test_the_whole_list_is_sent_below_links(self):
        self.assertEqual(Change(("/S/1", "/Drives/1", "/Drives/2")), self.service())
        expected = {"Links": {"Endpoints": links("/E/h", "/E/1", "/E/2")}}
        self.assertEqual(([expected], ["/Z/1"]), (self.podm.bodies, self.podm.sent("PATCH")))

    def test_intel_rsd_has_it_beside_links(self):
        root = {"Systems": link("/S"), "Fabrics": link("/F"), "Oem": {"Intel_RackScale": {}}}
        found = self.service(**{ROOT: root})
        self.assertEqual([{"Endpoints": links("/E/h", "/E/1", "/E/2")}], self.podm.bodies[:1])
        self.assertIn("reported success, but", found.reason)  # these documents keep Links

    def test_a_device_that_another_write_drops_is_named(self):
        self.service()
        self.podm.on_patch = lambda uri, body: self.podm.change(
            uri, {"Links": {"Endpoints": links("/E/h", "/E/1")}}
        )
        self.podm.documents["/Z/1"] = {"Links": {"Endpoints": links("/E/h", "/E/2")}}
        composer = RedfishComposer(self.podm, self.podm.patience)
        found = composer.change("/S/1", ("/Drives/1",), (), quiet)
        self.assertEqual((("/S/1", "/Drives/1"), ("/Drives/2",)), (found.blocks, found.lost))
        self.assertIn("/S/1 has lost /Drives/2", found.reason)

    def test_a_zone_whose_host_is_unknown_uses_its_devices(self):
        other = {"Links": {"Endpoints": links("/E/2")}}
        found = self.service(**{"/Zs": {"Members": links("/Z/1", "/Z/2")}, "/Z/2": other})
        self.assertEqual("/Drives/2: found part of /Z/2", found.reason)
        self.assertTrue(found.conflicts)
