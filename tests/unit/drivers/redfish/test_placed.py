# SPDX-License-Identifier: Apache-2.0
"""Servers of a service without a CompositionService: read as hosts, on which nodes are placed."""

from __future__ import annotations

import unittest
from typing import Any

import msgspec

from tests.unit.drivers.live import DIALECTS, NOON, LiveTest
from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_composer import bench, quiet
from tests.unit.drivers.served import Server
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Node, Pool
from valence_sched.model.reading import PreviousReading
from valence_sched.model.registration import Registration

SYSTEMS, BMC = f"{ROOT}/Systems", f"{ROOT}/Chassis/1"
ONE, TWO = f"{SYSTEMS}/1", f"{SYSTEMS}/2"
WHOLE = Pool(id="all", limits={"Compute": Limit(0, 1), "ComputerSystem": Limit(0, 1)})
OFF = {"PowerState": "Off", "Status": {"State": "Disabled", "Health": "OK"}}
EXAMPLE = CompositionRequest(name="node-1", pool="all", blocks=(ONE,))


class Servers:
    """The documents of a service with these servers and nothing to compose."""

    def __init__(self, *servers: Json) -> None:
        self.documents: dict[str, Any] = {ROOT: {"Name": "BMC", "Systems": link(SYSTEMS)}}
        self.documents[SYSTEMS] = {"Members": []}
        for number, json in enumerate(servers, 1):
            uri = f"{SYSTEMS}/{number}"
            self.documents[uri] = {"@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", **json}
            self.documents[SYSTEMS]["Members"] += links(uri)

    def list(self, name: str, *members: Json, of: str = ONE) -> None:
        """Give a server a collection of devices."""
        uris = [f"{of}/{name}/{number}" for number in range(len(members))]
        self.documents |= dict(zip(uris, members, strict=True))
        self.documents[f"{of}/{name}"] = {"Members": links(*uris)}
        self.documents[of][name] = link(f"{of}/{name}")

    def read(self, **words: Any) -> FullPodm:
        self.notes = Diagnostics()
        service = LinkedDocuments(self.documents.get, self.notes, list(self.documents), **words)
        return read_podm(service, "p", "redfish")


class TestReading(unittest.TestCase):
    def test_a_server_is_a_block_of_all_its_devices_in_the_only_pool(self) -> None:
        site = Servers({"Name": "web", "Links": {"Chassis": links(BMC)}})
        gpu = {"ProcessorType": "GPU", "Model": "Lantern L40"}
        site.list("Processors", *[{"TotalCores": 16, "TotalThreads": 32}] * 2, gpu)
        site.list("Memory", *[{"CapacityMiB": 32768}] * 4)
        site.list("EthernetInterfaces", {"SpeedMbps": 25000})
        site.documents["/d"] = {"CapacityBytes": 10**12, "MediaType": "SSD"}
        site.list("Storage", {"Drives": links("/d")})
        podm = site.read(free_hosts=("*",))
        (block,) = podm.blocks
        self.assertEqual([], site.notes.lines())
        self.assertEqual([WHOLE], list(podm.pools))
        self.assertEqual(
            (ONE, "web", ("ComputerSystem",), ("all",), {"chassis": BMC}),
            (block.uri, block.name, block.type, block.pools, block.places),
        )
        devices = block.devices
        counts = [getattr(devices, name)[0].count for name in devices.__struct_fields__]
        self.assertEqual([2, 1, 4, 1, 1], counts)
        self.assertEqual((16, "Lantern L40", 32768, 10**12, 25000), (
            devices.processors[0].cores, devices.accelerators[0].model,
            devices.memory[0].capacity_mib, devices.drives[0].capacity_bytes,
            devices.nics[0].speed_mbps,
        ))  # fmt: skip

    def test_amounts_that_a_server_does_not_list_are_unknown(self) -> None:
        for name in ("nothing", "empty lists"):
            site = Servers({})
            if name != "nothing":
                site.list("Processors")
                site.list("Memory")
            devices = site.read().blocks[0].devices
            self.assertEqual([None], [one.count for one in devices.processors], name)
            self.assertEqual([None], [one.capacity_mib for one in devices.memory], name)
            self.assertEqual([None], [one.count for one in devices.drives], name)
            self.assertEqual([None], [one.count for one in devices.nics], name)
        site = Servers({"ProcessorSummary": {"Count": 2}, "MemorySummary": {}})
        site.list("Storage")
        site.list("EthernetInterfaces")
        devices = site.read().blocks[0].devices
        self.assertEqual([(2, None)], [(one.count, one.cores) for one in devices.processors])
        self.assertEqual([None], [one.capacity_mib for one in devices.memory])
        self.assertEqual(((), ()), (devices.drives, devices.nics))

    def test_only_physical_servers_are_hosts(self) -> None:
        types = (None, "Physical", "physical", "Virtual", "OS", "DPU", "Composed", "Unheard")
        site = Servers(*({"SystemType": it} if it else {} for it in types))
        uris = [block.uri.rpartition("/")[2] for block in site.read().blocks]
        self.assertEqual(["1", "2", "3"], uris)

    def test_a_host_is_in_use_by_an_unmanaged_node_unless_hosts_are_free(self) -> None:
        site = Servers({"Name": "a", "HostName": "web1"}, {"Name": "b"} | OFF)
        podm = site.read()
        self.assertEqual(["Composed"] * 2, [block.status.state for block in podm.blocks])
        self.assertEqual(
            (Node(uri=ONE, name="web1", blocks=(ONE,)), Node(uri=TWO, name="b", blocks=(TWO,))),
            podm.nodes,
        )
        podm = site.read(free_hosts=("*",))
        self.assertEqual([1, 1], [block.status.slots for block in podm.blocks])
        self.assertEqual(((), []), (podm.nodes, site.notes.lines()))

    def test_a_name_of_several_hosts_names_no_node(self) -> None:
        names = ({"Name": "System"}, {"Name": "System"}, {"Name": "System", "HostName": "db"})
        found = [node.name for node in Servers(*names).read().nodes]
        self.assertEqual([None, None, "db"], found)

    def test_patterns_of_uris_or_of_their_last_parts_select_the_free_hosts(self) -> None:
        site = Servers({}, {}, {})
        for patterns, free in (
            (("2",), [False, True, False]),
            ((f"{SYSTEMS}/[13]",), [True, False, True]),
            (("1", "3*"), [True, False, True]),
            (("12", "Systems"), [False] * 3),
        ):
            podm = site.read(free_hosts=patterns)
            self.assertEqual(free, [block.status.slots == 1 for block in podm.blocks], patterns)
            self.assertEqual(free.count(False), len(podm.nodes))

    def test_a_free_host_in_a_bad_condition_is_not_free_and_one_switched_off_is(self) -> None:
        for slots, condition, json in (
            (1, None, OFF),
            (1, None, {"PowerState": "Off", "Status": {"State": "StandbyOffline"}}),
            (1, "Warning", {"Status": {"Health": "Warning"}}),
            (0, "Disabled", OFF | {"PowerState": "On"}),
            (0, "InTest", OFF | {"Status": {"State": "InTest"}}),
            (0, "Critical", {"Status": {"Health": "Critical"}}),
        ):
            with self.subTest(json):
                (block,) = Servers(json).read(free_hosts=("*",)).blocks
                found = block.status.slots, block.status.condition
                self.assertEqual((slots, condition), found)

    def test_a_system_that_does_not_boot_is_part_of_the_only_host(self) -> None:
        site = Servers({"Boot": {}}, {"Name": "Baseboard"})
        site.list("Processors", {"TotalCores": 8})
        gpu = {"ProcessorType": "GPU", "Model": "Lantern L40"}
        site.list("Processors", gpu, gpu, of=TWO)
        own = {"CapacityMiB": 81920, "Links": {"Processors": links(f"{TWO}/Processors/0")}}
        site.list("Memory", own, of=TWO)
        (block,) = site.read().blocks
        self.assertEqual((8, 2), (block.devices.processors[0].cores,
                                  block.devices.accelerators[0].count))  # fmt: skip
        self.assertEqual([None], [one.count for one in block.devices.memory])  # not of its GPU

    def test_it_is_left_out_if_there_are_several_hosts(self) -> None:
        site = Servers({"Boot": {}}, {"Boot": {}}, {})
        self.assertEqual([ONE, TWO], [block.uri for block in site.read().blocks])
        self.assertIn("found no Boot, expected one host", "".join(site.notes.lines()))

    def test_with_a_composition_service_or_blocks_servers_are_no_blocks(self) -> None:
        for name in ("CompositionService", "ResourceBlocks"):
            site = Servers({})
            site.documents |= {"/x": {"Members": []}}
            site.documents[ROOT][name] = link("/x")
            podm = site.read()
            self.assertEqual(((), ()), (podm.blocks, podm.nodes))

    def test_a_server_that_cannot_be_read_stays_a_node_of_the_last_reading(self) -> None:
        site = Servers({}, {})
        known = site.read().nodes
        site.documents[TWO] = {}
        found = site.read(known_nodes=known)
        self.assertEqual([(ONE, False), (TWO, True)], [(it.uri, it.stale) for it in found.nodes])


class TestLive(LiveTest):
    def ask(self, server: Server, previous: PreviousReading | None = None) -> Reading:
        known = Registration(name="p", url=server.url)
        target = ReadTarget(known, None, previous or PreviousReading())
        (found,) = read([target], DIALECTS, ReadSettings(raw=False), clock=lambda: NOON)
        return found

    def test_only_device_lists_are_requested_and_a_second_reading_finds_the_same(self) -> None:
        site = Servers({"Bios": link(f"{ONE}/Bios"), "LogServices": link(f"{ONE}/LogServices")},
                       {"SystemType": "Virtual", "Memory": link(f"{TWO}/Memory")})  # fmt: skip
        site.list("Processors", {"TotalCores": 16})
        site.list("Storage", {"Drives": links("/d")})
        site.documents["/d"] = {"CapacityBytes": 10**12}
        documents = {uri: msgspec.json.encode(json) for uri, json in site.documents.items()}
        server = self.serve(documents)
        first = self.ask(server)
        (hint,) = first.diagnostics
        self.assertIn("1 host in use by an unmanaged system (--hosts free", hint.text)
        self.assertIsNone(first.failure)
        self.assertEqual([ONE], [block.uri for block in first.podm.blocks])
        paths = server.gets()
        self.assertFalse([it for it in paths if "Bios" in it or "Log" in it or (it.startswith(TWO)
                          and it != TWO)], paths)  # fmt: skip
        again = self.ask(server, previous=PreviousReading.of(first.podm))
        self.assertEqual((None, first.podm.blocks), (again.failure, again.podm.blocks))


class TestComposer(unittest.TestCase):
    def composer(self, site: Servers) -> RedfishComposer:
        self.podm = StoredPodm(site.documents)
        return RedfishComposer(self.podm, self.podm.patience)

    def nothing_is_sent(self) -> None:
        self.assertEqual({"GET"}, {method for method, _ in self.podm.requests})

    def test_a_node_is_placed_and_released_without_a_write(self) -> None:
        composer = self.composer(Servers(OFF))
        self.assertIsNone(composer.refusal(EXAMPLE))
        self.assertEqual([], list(composer.conflicts(EXAMPLE)))
        self.assertFalse(composer.reserve(EXAMPLE))
        made = composer.compose(EXAMPLE, quiet)
        self.assertEqual(("composed", ONE, (ONE,)), (made.state, made.node, made.blocks))
        self.assertEqual("composed", composer.read_node(EXAMPLE, ONE).state)
        self.assertEqual((ONE,), composer.node_blocks(ONE))
        gone = composer.remove(EXAMPLE, ONE, quiet)
        self.assertEqual(("absent", None), (gone.state, gone.node))
        composer.unreserve(EXAMPLE)
        self.nothing_is_sent()

    def test_without_a_uri_the_node_is_absent(self) -> None:
        self.assertEqual("absent", self.composer(Servers({})).read_node(EXAMPLE).state)

    def test_a_server_that_is_gone_or_unusable_is_a_conflict_on_or_off(self) -> None:
        for json, why in (
            ({}, None),
            ({"PowerState": "On"}, None),
            (OFF, None),
            ({"Status": {"State": "Disabled"}}, "found Disabled"),
            ({"Status": {"Health": "Critical"}}, "found Critical"),
            ({"SystemType": "Virtual"}, "found no such host"),
        ):
            with self.subTest(json):
                found = self.composer(Servers(json)).conflicts(EXAMPLE)
                self.assertEqual([f"{ONE}: {why}"] if why else [], list(found))
        composer = self.composer(Servers({}))
        del self.podm.documents[ONE]
        self.assertEqual([f"{ONE}: found no such host"], list(composer.conflicts(EXAMPLE)))
        self.assertEqual("absent", composer.compose(EXAMPLE, quiet).state)
        self.assertEqual("absent", composer.read_node(EXAMPLE, ONE).state)
        self.assertIsNone(composer.node_blocks(ONE))
        self.podm.documents[ONE] = 503
        self.assertEqual("unknown", composer.read_node(EXAMPLE, ONE).state)
        self.assertEqual("unknown", composer.remove(EXAMPLE, ONE, quiet).state)
        with self.assertRaisesRegex(PodmError, "503"):
            composer.node_blocks(ONE)
        self.nothing_is_sent()

    def test_nothing_can_be_attached(self) -> None:
        composer = self.composer(Servers({}))
        change = composer.change(ONE, [TWO], [], quiet)
        self.assertEqual((ONE,), change.blocks)
        self.assertEqual(
            "nothing can be attached or detached: the service has no CompositionService, and no"
            " fabric has a zone of the host",
            change.reason,
        )
        self.nothing_is_sent()

    def test_two_hosts_are_sent_nowhere(self) -> None:
        two = CompositionRequest(name="node-1", pool="all", blocks=(ONE, TWO))
        composer = self.composer(Servers({}, {}))
        self.assertIn("a node is one host", str(composer.refusal(two)))
        self.nothing_is_sent()

    def test_a_served_podm_without_a_composition_service_is_used_so(self) -> None:
        with bench("servers") as site:
            wanted = CompositionRequest(name="n", blocks=(f"{SYSTEMS}/Compute-02",))
            self.assertEqual("composed", site.compose(wanted).state)
            self.assertEqual("absent", site.composer.remove(wanted, wanted.blocks[0], quiet).state)
