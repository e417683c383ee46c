# SPDX-License-Identifier: Apache-2.0
"""Devices that a block lists in several ways are counted once, or their number is unknown."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import TestCase

from tests.unit.drivers.files.test_tree import read_map
from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_owners
from valence_sched.drivers.redfish.schema import ResourceBlock, System
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Status

V = "/redfish/v1"
BLOCKS = f"{V}/ResourceBlocks"
SIZE = 480103981056

#: Kind, the properties of one device, and the property without which it cannot be identified.
KINDS = (
    ("drives", "Drives", {"CapacityBytes": SIZE, "MediaType": "SSD"}, "CapacityBytes"),
    ("processors", "Processors", {"TotalCores": 16, "ProcessorType": "CPU"}, "TotalCores"),
    ("accelerators", "Processors", {"Model": "Lantern L40", "ProcessorType": "GPU"}, "Model"),
    ("accelerators", "Processors", {"Model": "Kiln F2", "ProcessorType": "FPGA"}, "Model"),
    ("memory", "Memory", {"CapacityMiB": 32768, "MemoryDeviceType": "DDR5"}, "CapacityMiB"),
    ("nics", "EthernetInterfaces", {"SpeedMbps": 25000}, "SpeedMbps"),
)


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
    """The ways in which services list one drive in a block."""

    def test_one_drive_under_one_uri_is_one_however_it_is_spelled(self) -> None:
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

    def test_equal_models_without_a_letter_or_digit_are_one_model(self) -> None:
        drives = self.drive("/a", Model="--"), self.drive("/St/1/b", Model="--")
        self.block("b", Drives=links(drives[0]), Storage=self.storage("/St/1", drives[1]))
        self.assertEqual([1], self.counts())

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

    def test_the_number_of_what_tells_too_little_is_unknown(self) -> None:
        self.block(
            "b",
            Drives=links(self.drive("/d/1", CapacityBytes=None)),
            SimpleStorage=self.simple({"CapacityBytes": SIZE}, {"CapacityBytes": SIZE}),
        )
        lines = self.read().blocks[0].devices.drives
        self.assertEqual({(None, None), (SIZE, 2)}, {(it.capacity_bytes, it.count) for it in lines})
        self.assertTrue(self.noted("/b: found 1 drive ", "the count is unknown"))

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
                self.assertTrue(self.noted(" (they may be the same: the count is unknown)"))

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


class TestNames(Case):
    """Names that do not identify, and names in several blocks."""

    def test_a_name_that_firmware_copied_identifies_nothing_and_is_noted_once(self) -> None:
        for name, json in (
            ("serial number", {"SerialNumber": "K1"}),
            ("UUID", {"UUID": "K1"}),
            ("durable name", {"Identifiers": [{"DurableName": "K1"}]}),
        ):
            self.setUp()
            drives = [self.drive(f"/d/{i}", **json) for i in range(3)]
            self.block("b", Storage=self.storage("/St", *drives))
            self.assertEqual([3], self.counts())
            (note,) = self.notes.lines()
            what = f"found {name} k1 on several drives, expected it on one"
            self.assertTrue(note.endswith(f"{what} (not used to identify a device)"), note)

    def test_of_several_copied_names_one_is_noted_and_how_many_others_there_are(self) -> None:
        names = {"UUID": "9f-1", "SerialNumber": "K1", "Identifiers": [{"DurableName": "Z9"}]}
        for number, others in ((2, "the same for 1 other name"), (3, "the same for 2 other names")):
            self.setUp()
            copied = dict(list(names.items())[:number])
            self.block("b", Drives=links(*(self.drive(f"/d/{i}", **copied) for i in range(3))))
            self.assertEqual([3], self.counts())
            (note,) = self.notes.lines()
            self.assertIn("on several drives, expected it on one", note)
            self.assertTrue(note.endswith(f"(not used to identify a device; {others})"), note)

    def test_of_two_members_of_one_list_with_one_name_one_is_uncertain(self) -> None:
        drives = [self.drive(f"/d/{i}", SerialNumber="K1") for i in range(2)]
        self.block("b", Drives=links(*drives))
        self.assertEqual([1, None], self.counts())
        self.assertTrue(self.noted("/d/1: found the serial number of", "one or two devices"))

    def test_a_name_of_devices_that_differ_in_a_stronger_name_is_copied(self) -> None:
        serial, name = {"SerialNumber": "K1"}, {"Identifiers": [{"DurableName": "N1"}]}
        for common, each, counts in (
            (serial, [{"UUID": "9f-1"}, {"UUID": "9f-2"}], [2]),
            (serial, [{"UUID": "9f-1"}, {}], [1, None]),
            (name, [{"SerialNumber": "K1"}, {"SerialNumber": "K2"}], [2]),
        ):
            with self.subTest(each):
                self.setUp()
                drives = [self.drive(f"/d/{i}", **common, **own) for i, own in enumerate(each)]
                self.block("b", Drives=links(*drives))
                self.assertEqual(counts, self.counts())
                self.setUp()
                for i, own in enumerate(each):
                    self.block(f"{i}", Drives=links(self.drive(f"/d/{i}", **common, **own)))
                several = all("UUID" in own for own in each)
                self.assertEqual([[1], [1] if several else []],
                                 [self.counts(block=it) for it in (0, 1)])  # fmt: skip

    def test_a_slot_of_several_members_of_one_list_identifies_none_of_them(self) -> None:
        place = {"PhysicalLocation": {"PartLocation": {"ServiceLabel": "Bay 3"}},
                 "Links": {"Chassis": {"@odata.id": f"{V}/C/1"}}}  # fmt: skip
        self.block("b", Drives=links(*(self.drive(f"/d/{i}", **place) for i in range(2))))
        self.assertEqual([2], self.counts())
        self.assertTrue(self.noted(f"found slot bay 3 of {V.casefold()}/c/1 on several drives"))

    def test_half_a_place_identifies_nothing(self) -> None:
        chassis = {"Links": {"Chassis": {"@odata.id": f"{V}/C/1"}}}
        label = {"PhysicalLocation": {"PartLocation": {"ServiceLabel": "Bay 3"}}}
        for half in (label, {"PhysicalLocation": {}, **chassis}):
            with self.subTest(half):
                self.setUp()
                one, other = self.drive("/a", **half), self.drive("/b", **half, MediaType="SSD")
                self.block("b", Drives=links(one), Storage=self.storage("/St", other))
                self.assertEqual([1], self.counts())
                self.assertTrue(self.noted("Drives and Storage without a common name"))

    def test_a_durable_name_that_is_no_text_is_noted_where_it_stands(self) -> None:
        self.block("b", Drives=links(self.drive("/a", Identifiers=[{"DurableName": {}}])))
        self.assertEqual([1], self.counts())
        self.assertTrue(self.noted(f"{V}/a#/Identifiers: DurableName: found {{}}, expected text"))

    def test_a_placeholder_is_no_name(self) -> None:
        for text in ("N/A", "", "0000", "Not  Specified", None):
            self.setUp()
            for name in "ab":
                drive = self.drive(f"/{name}", SerialNumber=text)
                self.block(name, Drives=links(drive))
            self.assertEqual([[1], [1]], [self.counts(block=it) for it in (0, 1)])
            self.assertEqual([], self.notes.lines())

    def test_a_device_that_two_blocks_list_under_two_uris_is_in_the_one_in_use(self) -> None:
        self.block("a", Drives=links(self.drive("/a", SerialNumber="Z9")))
        used = {"CompositionState": "Composed"}
        drive = self.drive("/b", SerialNumber="Z9")
        self.block("b", Drives=links(drive), CompositionStatus=used)
        self.assertEqual([[], [1]], [self.counts(block=it) for it in (0, 1)])
        self.assertTrue(self.noted("/a: found in", "/ResourceBlocks/b)"))

    def test_a_name_in_many_blocks_is_copied(self) -> None:
        for name in "abc":
            self.block(name, Drives=links(self.drive(f"/{name}", SerialNumber="Z9")))
        self.assertEqual([[1], [1], [1]], [self.counts(block=it) for it in range(3)])
        self.assertTrue(self.noted("serial number z9", "not used to identify"))


FREE = Status(state="Unused")
MISSING = "found no such document, but"


class Service(unittest.TestCase):
    """Documents by URI; ``_`` in a name stands for ``/``."""

    def service(self, documents: dict[str, Any]) -> LinkedDocuments:
        found = {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        self.notes = Diagnostics()
        return LinkedDocuments(found.get, self.notes)

    def of_blocks(
        self, blocks: dict[str, Any], statuses: dict[str, Status] | None = None, **documents: Any
    ) -> dict[str, list[str]]:
        """Return the URIs of the devices of each block."""
        service = self.service(documents)
        every = [ResourceBlock(uri, json, self.notes) for uri, json in blocks.items()]
        free = dict.fromkeys(blocks, FREE)
        found = device_owners.devices_by_block(service, every, free | (statuses or {}))
        return {uri: [device.uri for device in devices] for uri, devices in found.items()}

    def of(self, block: dict[str, Any], **documents: Any) -> list[str]:
        return self.of_blocks({"/B/1": block}, **documents)["/B/1"]

    def of_system(self, system: dict[str, Any], **documents: Any) -> list[str]:
        service = self.service(documents)
        found, _ = device_owners.devices_of_systems(service, [System("/S/1", system, self.notes)])
        return list(found["/S/1"])


class TestFound(Service):
    """The ways in which devices are linked."""

    def test_the_devices_of_a_block_are_found_in_each_of_its_lists(self):
        block = {"Processors": links("/P"), "Memory": links("/M"), "Drives": links("/D/1"),
                 "Storage": links("/St"), "SimpleStorage": links("/Si"),
                 "EthernetInterfaces": links("/E"), "NetworkInterfaces": links("/N")}  # fmt: skip
        found = self.of(
            block, P={"TotalCores": 8}, M={"CapacityMiB": 8}, D_1={"CapacityBytes": 1},
            St={"Drives": links("/D/2")}, D_2={"CapacityBytes": 2},
            Si={"Devices": [{"CapacityBytes": 3}, {"CapacityBytes": 4}]}, E={"SpeedMbps": 1},
            N={"Ports": link("/N/P")}, N_P={"Members": links("/N/P/1")},
            N_P_1={"MaxSpeedGbps": 25},
        )  # fmt: skip
        simple = ["/Si#/Devices/0", "/Si#/Devices/1"]
        expected = ["/P", "/M", "/D/1", "/D/2", *simple, "/E", "/N/P/1"]
        self.assertEqual(sorted(expected), sorted(found))

    def test_each_document_that_is_missing_is_noted_with_what_links_it(self):
        for holder, missing, where, documents in (
            ({"Processors": links("/X")}, "/X", "/B/1", {}),
            ({"Memory": links("/X")}, "/X", "/B/1", {}),
            ({"Drives": links("/X")}, "/X", "/B/1", {}),
            ({"Storage": links("/X")}, "/X", "/B/1", {}),
            ({"Storage": links("/St")}, "/X", "/St", {"St": {"Drives": links("/X")}}),
            ({"SimpleStorage": links("/X")}, "/X", "/B/1", {}),
            ({"EthernetInterfaces": links("/X")}, "/X", "/B/1", {}),
            ({"NetworkInterfaces": links("/X")}, "/X", "/B/1", {}),
            ({"NetworkInterfaces": links("/N")}, "/X", "/N", {"N": {"Ports": link("/X")}}),
            ({"NetworkInterfaces": links("/N")}, "/X", "/N",
             {"N": {"Links": {"NetworkAdapter": link("/X")}}}),
            ({"NetworkInterfaces": links("/N")}, "/X", "/A",
             {"N": {"Links": {"NetworkAdapter": link("/A")}}, "A": {"Ports": link("/X")}}),
            ({"ComputerSystems": links("/X")}, "/X", "/B/1", {}),
            ({"ComputerSystems": links("/S")}, "/X", "/S", {"S": {"Memory": link("/X")}}),
        ):  # fmt: skip
            with self.subTest(holder=holder, documents=documents):
                self.of(holder, **documents)
                self.assertEqual([f"{missing}: {MISSING} {where} links it"], self.notes.lines())

    def test_a_link_without_a_target_is_noted_where_it_stands(self):
        line = "found a link without @odata.id, expected @odata.id"
        for where, documents in (
            ("/E", {"E": {"Links": {"Ports": [{}]}}, "N": {}}),
            ("/Si", {"Si": {"Devices": [], "Links": {"Storage": [{}]}}}),
        ):
            self.of({"EthernetInterfaces": links("/E"), "NetworkInterfaces": links("/N"),
                     "SimpleStorage": links("/Si")},
                    **{"E": {"SpeedMbps": 1}, "N": {"Name": "n"}, "Si": {"Devices": []}}
                    | documents)  # fmt: skip
            self.assertIn(f"{where}: {line}", self.notes.lines())

    def test_simple_storage_that_is_a_view_of_the_storage_is_no_drive(self):
        devices = [{"CapacityBytes": 9}]
        block = {"Storage": links("/St"), "SimpleStorage": links("/Si")}
        words = {"St": {"Drives": links("/D")}, "D": {"CapacityBytes": 5}}
        for same, simple in ((links("/St"), []), (links("/Other"), ["/Si#/Devices/0"])):
            found = self.of(block, **words, Si={"Devices": devices, "Links": {"Storage": same}})
            self.assertEqual(["/D", *simple], found)

    def test_a_system_has_simple_storage_only_where_it_has_no_other_drive(self):
        simple = {"SimpleStorage": links("/Si")}
        words = {"Si": {"Devices": [{"CapacityBytes": 9}]}, "D": {"CapacityBytes": 5}}
        self.assertEqual(["/Si#/Devices/0"], self.of_system(simple, **words))
        both = {**simple, "Storage": links("/St")}
        self.assertEqual(["/D"], self.of_system(both, St={"Drives": links("/D")}, **words))
        empty = self.of_system(both, St={"Name": "s", "Drives": []}, **words)
        self.assertEqual(["/Si#/Devices/0"], empty)

    def test_the_ports_of_a_system_only_stand_in_for_its_interfaces(self):
        nics = {"EthernetInterfaces": links("/E"), "NetworkInterfaces": links("/N")}
        words = {"N": {"Ports": links("/N/P/1")}, "N_P_1": {"MaxSpeedGbps": 100}}
        self.assertEqual(["/E"], self.of_system(nics, E={"SpeedMbps": 1}, **words))
        self.assertEqual(["/N/P/1"], self.of_system({"NetworkInterfaces": links("/N")}, **words))

    def test_of_a_block_those_ports_count_that_no_interface_is_a_view_of(self):
        nics = {"EthernetInterfaces": links("/E"), "NetworkInterfaces": links("/N")}
        ports = {"N": {"Ports": links("/N/P/1", "/N/P/2")}, "N_P_1": {"MaxSpeedGbps": 100},
                 "N_P_2": {"MaxSpeedGbps": 50}}  # fmt: skip
        view = {"SpeedMbps": 1, "Links": {"Ports": links("/N/P/1")}}
        self.assertEqual(["/E", "/N/P/2"], sorted(self.of(nics, E=view, **ports)))

    def test_an_adapter_has_the_ports_of_an_interface_that_lists_none(self):
        nics = {"NetworkInterfaces": links("/N", "/N/2")}
        words = {"N": {"Links": {"NetworkAdapter": link("/A")}}, "A": {"Ports": links("/A/P")},
                 "A_P": {"MaxSpeedGbps": 10}, "N_2": {"Name": "bare"}}  # fmt: skip
        self.assertEqual(["/A/P", "/N/2"], self.of(nics, **words))


class TestSummaries(Service):
    """Summaries of systems replace devices that are not listed."""

    SUMMARY = ("/S/1#/ProcessorSummary", "/S/1#/MemorySummary")

    def test_those_of_a_kind_that_is_listed_are_left_out(self):
        sums = {"ProcessorSummary": {"Count": 2}, "MemorySummary": {"TotalSystemMemoryGiB": 1}}
        cpus, ram = self.SUMMARY
        words = {"P": {"TotalCores": 8}, "M": {"CapacityMiB": 8}}
        for more, expected in (
            ({}, [cpus, ram]),
            ({"Processors": links("/P")}, ["/P", ram]),
            ({"Memory": links("/M")}, ["/M", cpus]),
            ({"Processors": links("/P"), "Memory": links("/M")}, ["/P", "/M"]),
        ):
            with self.subTest(more):
                self.assertEqual(expected, self.of_system({**sums, **more}, **words))
                found = self.of({"ComputerSystems": links("/S/1")}, S_1={**sums, **more}, **words)
                self.assertEqual(expected, found)

    def test_what_the_block_lists_stands_before_the_summaries_of_all_its_systems(self):
        sums = {"ProcessorSummary": {"Count": 2}, "MemorySummary": {"TotalSystemMemoryGiB": 1}}
        block = {"Processors": links("/P"), "ComputerSystems": links("/S/1", "/S/2")}
        found = self.of(block, P={"TotalCores": 8}, S_1=sums, S_2=sums)
        self.assertEqual(["/P", "/S/1#/MemorySummary", "/S/2#/MemorySummary"], found)

    def test_names_that_identify_devices_of_systems_are_returned_with_them(self):
        service = self.service({"D": {"SerialNumber": "Z9"}})
        system = System("/S/1", {"Storage": links("/St")}, self.notes)
        self.assertEqual(frozenset(), device_owners.devices_of_systems(service, [system])[1])
        service = self.service({"D": {"SerialNumber": "Z9"}, "St": {"Drives": links("/D")}})
        _, names = device_owners.devices_of_systems(service, [system])
        self.assertEqual({("drive", "serial number", "z9")}, names)


class TestOwners(Service):
    """A device that several blocks link belongs to one of them."""

    def owner(self, *statuses: Status, **drives: Any) -> str:
        """Return the block of the device that all of these blocks link."""
        uris = [f"/B/{number}" for number in range(len(statuses))]
        links_of = {f"D_{number}": drives.get(f"D_{number}", {"CapacityBytes": 5})
                    for number in range(len(statuses))}  # fmt: skip
        blocks = {uri: {"Drives": links(f"/D/{n}" if drives else "/D/0")}
                  for n, uri in enumerate(uris)}  # fmt: skip
        found = self.of_blocks(blocks, dict(zip(uris, statuses, strict=True)), **links_of)
        (owner,) = (uri for uri, devices in found.items() if devices)
        what = f"found in {', '.join(uris)}, expected one block (counted in {owner})"
        self.assertEqual([f"/D/0: {what}"], self.notes.lines())
        return owner

    def test_it_is_in_the_one_in_use_else_in_one_that_is_not_free_else_in_the_first(self):
        failed, reserved = Status(state="Failed"), Status(state="Unused", reserved=True)
        for state in ("Composing", "Composed", "ComposedAndAvailable"):
            self.assertEqual("/B/2", self.owner(FREE, failed, Status(state=state)))
        used = Status(state="Failed", compositions=1)
        self.assertEqual("/B/2", self.owner(FREE, failed, used))
        self.assertEqual("/B/1", self.owner(FREE, failed, reserved))
        self.assertEqual("/B/1", self.owner(FREE, reserved, failed))
        self.assertEqual("/B/0", self.owner(FREE, FREE))

    def test_one_that_has_two_uris_and_one_name_is_one(self):
        named = {"CapacityBytes": 5, "SerialNumber": "Z9"}
        self.assertEqual("/B/1", self.owner(FREE, Status(state="Composed"), D_0=named, D_1=named))

    def test_a_slot_names_a_device_in_its_own_block_alone(self):
        slot = {"PhysicalLocation": {"PartLocation": {"ServiceLabel": "Bay 3"}},
                "Links": {"Chassis": links("/C/1")}}  # fmt: skip
        blocks = {"/B/1": {"Drives": links("/D/1")}, "/B/2": {"Drives": links("/D/2")}}
        found = self.of_blocks(blocks, D_1=slot, D_2=slot)
        self.assertEqual({"/B/1": ["/D/1"], "/B/2": ["/D/2"]}, found)
        self.assertEqual([], self.notes.lines())
