# SPDX-License-Identifier: Apache-2.0
"""Devices that a block lists in several ways are counted once, or their number is unknown."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from tests.unit.drivers.files.test_tree import read_map
from valence_sched.drivers.fields import Json
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm

V = "/redfish/v1"
BLOCKS = f"{V}/ResourceBlocks"
SIZE = 480103981056

#: Kind, the properties of one device, and the property without which it tells too little.
KINDS = (
    ("drives", "Drives", {"CapacityBytes": SIZE, "MediaType": "SSD"}, "CapacityBytes"),
    ("processors", "Processors", {"TotalCores": 16, "ProcessorType": "CPU"}, "TotalCores"),
    ("accelerators", "Processors", {"Model": "Lantern L40", "ProcessorType": "GPU"}, "Model"),
    ("accelerators", "Processors", {"Model": "Kiln F2", "ProcessorType": "FPGA"}, "Model"),
    ("memory", "Memory", {"CapacityMiB": 32768, "MemoryDeviceType": "DDR5"}, "CapacityMiB"),
    ("nics", "EthernetInterfaces", {"SpeedMbps": 25000}, "SpeedMbps"),
)


def links(*uris: str) -> list[Json]:
    return [{"@odata.id": uri} for uri in uris]


class Case(TestCase):
    def setUp(self) -> None:
        self.documents: dict[str, Json] = {
            V: {"Name": "p", "CompositionService": links(f"{V}/C"), "Systems": links(f"{V}/S")},
            f"{V}/C": {"ResourceBlocks": {"@odata.id": BLOCKS}},
            BLOCKS: {"Members": []},
            f"{V}/S": {"Members": []},
        }

    def put(self, uri: str, **json: Any) -> str:
        self.documents[uri] = {"@odata.type": "#Device.v1_0_0.Device", **json}
        return uri

    def drive(self, uri: str, **json: Any) -> str:
        return self.put(f"{V}{uri}", **({"CapacityBytes": SIZE} | json))

    def storage(self, uri: str, *drives: str) -> list[Json]:
        return links(self.put(f"{V}{uri}", Drives=links(*drives)))

    def simple(self, *devices: Json, **json: Any) -> list[Json]:
        return links(self.put(f"{V}/Simple/1", Devices=list(devices), **json))

    def block(self, name: str, **json: Any) -> None:
        uri = self.put(f"{BLOCKS}/{name}", **({"ResourceBlockType": ["Storage"],
                       "CompositionStatus": {"CompositionState": "Unused"}} | json))  # fmt: skip
        self.documents[BLOCKS]["Members"] += links(uri)

    def read(self) -> FullPodm:
        self.notes = Diagnostics()
        return read_map(self.documents, self.notes)

    def counts(self, kind: str = "drives", block: int = 0) -> list[int | None]:
        return [line.count for line in getattr(self.read().blocks[block].devices, kind)]

    def noted(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.notes.lines())


class TestDrives(Case):
    """The ways in which one drive has been seen in a block."""

    def test_one_drive_under_one_uri_however_it_is_spelled_is_one_and_nothing_is_noted(
        self,
    ) -> None:
        one = self.drive("/Chassis/1/Drives/1")
        for other in (one, one + "/", one.upper().replace("/REDFISH", "/redfish"), f"{one}#/x"):
            self.setUp()
            self.drive("/Chassis/1/Drives/1")
            self.block("b", Drives=links(one), Storage=self.storage("/St/1", other))
            self.assertEqual([1], self.counts(), other)
            self.assertEqual([], self.notes.lines())

    def test_a_drive_in_three_lists_without_a_common_link_is_one_and_that_is_noted(self) -> None:
        self.block(
            "b",
            Drives=links(self.drive("/Chassis/1/Drives/1", MediaType="SSD")),
            Storage=self.storage("/St/1", self.drive("/St/1/Drives/1", Protocol="NVMe")),
            SimpleStorage=self.simple({"CapacityBytes": SIZE, "Model": "Fjord F1"}),
        )
        (drive,) = self.read().blocks[0].devices.drives
        self.assertEqual((1, "SSD", "NVMe", "Fjord F1"),
                         (drive.count, drive.media, drive.protocol, drive.model))  # fmt: skip
        self.assertTrue(self.noted("/b: found 1 drive in Drives and Storage", "counted once"))

    def test_a_common_name_says_that_two_are_one_and_is_not_noted(self) -> None:
        for first, second in (
            ({"SerialNumber": "Z9"}, {"SerialNumber": " z9 "}),
            ({"Identifiers": [{"DurableName": "50000397D8"}]},
             {"Identifiers": [{"DurableName": "x"}, {"DurableName": "50000397d8"}]}),
            ({"UUID": "9f-1"}, {"UUID": "9F-1"}),
            ({"PhysicalLocation": {"PartLocation": {"ServiceLabel": "Bay 3"}},
              "Links": {"Chassis": {"@odata.id": f"{V}/C/1"}}},) * 2,
        ):  # fmt: skip
            with self.subTest(first):
                self.setUp()
                drives = self.drive("/a", **first), self.drive("/b", **second, CapacityBytes=None)
                self.block("b", Drives=links(drives[0]), Storage=self.storage("/St", drives[1]))
                self.assertEqual([1], self.counts())
                self.assertEqual([], self.notes.lines())

    def test_drives_with_names_of_their_own_or_that_look_different_are_several(self) -> None:
        for first, second in (
            ({"SerialNumber": "Z9"}, {"SerialNumber": "Z8"}),
            ({"CapacityBytes": SIZE}, {"CapacityBytes": 2 * SIZE}),
            ({"MediaType": "SSD"}, {"MediaType": "HDD"}),
            ({"Model": "Fjord F1"}, {"Model": "Fjord H1"}),
        ):
            with self.subTest(first):
                self.setUp()
                drives = self.drive("/a", **first), self.drive("/b", **second)
                self.block("b", Drives=links(drives[0]), Storage=self.storage("/St", drives[1]))
                self.assertEqual(2, sum(count or 0 for count in self.counts()))
                self.assertEqual([], self.notes.lines())

    def test_members_of_one_list_are_several_whatever_they_look_like(self) -> None:
        drives = [self.drive(f"/d/{i}") for i in range(3)]
        more = self.storage("/St/2", self.drive("/d/9"))
        self.block("b", Storage=self.storage("/St/1", *drives) + more)
        self.assertEqual([4], self.counts())
        self.assertEqual([], self.notes.lines())

    def test_the_longer_of_two_lists_that_look_alike_counts(self) -> None:
        drives = [self.drive(f"/d/{i}") for i in range(3)]
        self.block("b", Drives=links(drives[0]), Storage=self.storage("/St/1", *drives[1:]))
        self.assertEqual([2], self.counts())

    def test_of_what_tells_too_little_the_number_is_unknown_and_no_more_than_certain_counts(
        self,
    ) -> None:
        self.block(
            "b",
            Drives=links(self.drive("/d/1", CapacityBytes=None)),
            SimpleStorage=self.simple({"CapacityBytes": SIZE}, {"CapacityBytes": SIZE}),
        )
        lines = self.read().blocks[0].devices.drives
        self.assertEqual({(None, None), (SIZE, 2)}, {(it.capacity_bytes, it.count) for it in lines})
        self.assertTrue(self.noted("/b: found 1 drive ", "so how many is unknown"))

    def test_a_drive_that_one_of_two_lists_knows_to_be_gone_is_not_counted(self) -> None:
        for gone, condition in (({"Status": {"State": "Absent"}}, None),
                                ({"Enabled": False}, "Disabled")):  # fmt: skip
            self.setUp()
            here = {"Status": {"State": "Enabled"}, "Enabled": True, "SerialNumber": "Z9"}
            drives = self.drive("/a", **here), self.drive("/b", SerialNumber="Z9", **gone)
            self.block("b", Drives=links(drives[0]), Storage=self.storage("/St", drives[1]))
            found = self.read().blocks[0].devices.drives
            self.assertEqual([condition] * bool(condition), [it.condition for it in found])

    def test_what_cannot_be_read_of_one_in_two_lists_is_noted_where_it_was_first(self) -> None:
        drives = [self.drive(uri, SerialNumber="Z9") for uri in ("/a", "/b")]
        self.documents[drives[1]]["RotationSpeedRPM"] = "fast"
        self.block("b", Drives=links(drives[0]), Storage=self.storage("/St", drives[1]))
        self.assertEqual([1], self.counts())
        what = "RotationSpeedRPM: found 'fast', expected a number"
        self.assertTrue(self.noted(f"{V}/a: {what}"))

    def test_an_empty_slot_is_no_drive_whoever_lists_it(self) -> None:
        slot = self.drive("/d/1", Status={"State": "Absent"})
        self.block("b", Drives=links(slot), SimpleStorage=self.simple({"CapacityBytes": SIZE}))
        self.assertEqual([1], self.counts())


class TestKinds(Case):
    """A block that lists its devices, and its system that lists them again."""

    def system(self, way: str, *devices: str, **json: Any) -> list[Json]:
        below = self.put(f"{V}/S/1/{way}", Members=links(*devices))
        if way == "Drives":
            store = self.put(f"{V}/S/1/Store", Drives=links(*devices))
            json["Storage"] = {"@odata.id": self.put(f"{V}/S/1/Storage", Members=links(store))}
        return links(self.put(f"{V}/S/1", **({way: {"@odata.id": below}} | json)))

    def test_a_device_of_each_kind_that_block_and_system_list_is_one(self) -> None:
        for kind, way, device, _ in KINDS:
            with self.subTest(device):
                self.setUp()
                one, other = self.put(f"{V}/one", **device), self.put(f"{V}/other", **device)
                self.block("b", **{way: links(one)}, ComputerSystems=self.system(way, other))
                self.assertEqual([1], self.counts(kind))
                both = f"in {way} and {way} of ComputerSystems without a common name"
                self.assertTrue(self.noted(both, "counted once"))

    def test_one_that_tells_too_little_may_be_the_same(self) -> None:
        for kind, way, device, key in KINDS:
            with self.subTest(device):
                self.setUp()
                bare = {name: value for name, value in device.items() if name != key}
                one, other = self.put(f"{V}/one", **bare), self.put(f"{V}/other", **device)
                self.block("b", **{way: links(one)}, ComputerSystems=self.system(way, other))
                counts = self.counts(kind)
                self.assertEqual(1, sum(count or 0 for count in counts))
                self.assertIn(None, counts)
                self.assertTrue(self.noted(" (they may be the same, so how many is unknown)"))

    def test_two_kinds_of_processor_are_two(self) -> None:
        card = self.put(f"{V}/card", ProcessorType="GPU", Model="Lantern L40")
        cpu = self.put(f"{V}/cpu", TotalCores=16)
        self.block("b", Processors=links(card), ComputerSystems=self.system("Processors", cpu))
        self.assertEqual([1], self.counts("accelerators"))
        self.assertEqual([1], self.counts("processors"))

    def test_a_processor_without_a_type_is_a_cpu_and_may_be_one_that_says_so(self) -> None:
        cpu = self.put(f"{V}/cpu", TotalCores=16)
        same = self.put(f"{V}/same", TotalCores=16, ProcessorType="CPU")
        self.block("b", Processors=links(cpu), ComputerSystems=self.system("Processors", same))
        self.assertEqual([1], self.counts("processors"))

    def test_a_summary_does_not_count_beside_the_devices_of_the_block(self) -> None:
        summaries = {
            "ProcessorSummary": {"Count": 2},
            "MemorySummary": {"TotalSystemMemoryGiB": 64},
        }
        cpus = [self.put(f"{V}/cpu/{i}", TotalCores=16) for i in range(2)]
        module = self.put(f"{V}/dimm", CapacityMiB=65536)
        system = self.system("Memory", **summaries)
        self.block("b", Processors=links(*cpus), Memory=links(module), ComputerSystems=system)
        self.assertEqual([2], self.counts("processors"))
        self.assertEqual([1], self.counts("memory"))

    def test_a_summary_without_a_number_is_unknown_and_so_is_one_of_0(self) -> None:
        for told, found in (
            ({"Count": None, "CoreCount": 32}, [(None, None)]),
            ({"Count": "2", "CoreCount": 32}, [(2, 16)]),
            ({"Count": 0}, [(None, None)]),
            ({}, [(None, None)]),
        ):
            with self.subTest(told):
                self.setUp()
                system = self.put(f"{V}/S/1", ProcessorSummary=told)
                self.block("b", ComputerSystems=links(system))
                lines = self.read().blocks[0].devices.processors
                self.assertEqual(found, [(line.count, line.cores) for line in lines])
        for gib, found in ((None, [None]), (0, [None]), ("64", [65536])):
            system = self.put(f"{V}/S/1", MemorySummary={"TotalSystemMemoryGiB": gib})
            lines = self.read().blocks[0].devices.memory
            self.assertEqual(found, [line.capacity_mib for line in lines])

    def test_a_port_is_its_interface_by_link_address_or_speed_and_else_unknown(self) -> None:
        for nic, port, counts in (
            ({"Links": {"Ports": links(f"{V}/A/P/1")}}, {"MaxSpeedGbps": 100}, [1]),
            (
                {"PermanentMACAddress": "AA:01"},
                {"Ethernet": {"AssociatedMACAddresses": ["aa:01"]}},
                [1],
            ),
            ({"MACAddress": "AA:01"}, {"AssociatedNetworkAddresses": ["AA:01"]}, [1]),
            ({"MACAddress": "AA:01"}, {"AssociatedNetworkAddresses": ["AA:02"]}, [1, 1]),
            ({}, {"MaxSpeedGbps": 25}, [1]),
            ({}, {"MaxSpeedGbps": 100}, [1, None]),
        ):
            with self.subTest(nic=nic, port=port):
                self.setUp()
                ports = self.put(f"{V}/A/P", Members=links(self.put(f"{V}/A/P/1", **port)))
                adapter = self.put(f"{V}/A", Ports={"@odata.id": ports})
                interface = self.put(f"{V}/E/1", **({"SpeedMbps": 25000} | nic))
                self.block(
                    "b", EthernetInterfaces=links(interface), NetworkInterfaces=links(adapter)
                )
                found = [
                    c for line in self.counts("nics") for c in ([1] * line if line else [line])
                ]
                self.assertEqual(counts, found)

    def test_a_virtual_interface_is_none(self) -> None:
        both = [self.put(f"{V}/E/{i}", EthernetInterfaceType=it)
                for i, it in enumerate(("Physical", "Virtual"))]  # fmt: skip
        self.block("b", EthernetInterfaces=links(*both))
        self.assertEqual([1], self.counts("nics"))
