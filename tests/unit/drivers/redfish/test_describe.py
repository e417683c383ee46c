# SPDX-License-Identifier: Apache-2.0
"""Devices as inventory nouns; equal resources are parsed once."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import TestCase

from tests.unit.drivers.redfish.stored import links
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.describe import (
    MAX_CONTENT_BYTES,
    MAX_CONTENTS,
    MAX_SET_DEVICES,
    MAX_SETS,
    ContentMemo,
    Describer,
    topology_of,
)
from valence_sched.drivers.redfish.schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    MemorySummary,
    NetworkInterface,
    Port,
    ProcessorDevice,
    ProcessorSummary,
    ResourceBlock,
    Storage,
)
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor

GB = 10**9


class TestAlike(TestCase):
    def setUp(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.notes = Diagnostics()
        self.alike = ContentMemo(self._understood)

    def _understood(self, drive: DriveDevice) -> int | None:
        self.seen.append(drive.json)
        return drive.capacity_bytes

    def _of(self, uri: str, **content: Any) -> int | None:
        return self.alike.of(DriveDevice(uri, content, self.notes))

    def test_what_says_the_same_is_understood_once(self) -> None:
        self.assertEqual([5, 5], [self._of(uri, CapacityBytes=5) for uri in "ab"])
        self.assertEqual(1, len(self.seen))

    def test_names_and_links_make_no_difference_and_are_not_seen(self) -> None:
        self._of("a", CapacityBytes=5, Name="one", Links={"Chassis": []})
        self._of("b", CapacityBytes=5, Name="two")
        self.assertEqual(1, len(self.seen))
        self.assertFalse({"Name", "Links"} & self.seen[0].keys())

    def test_values_that_are_equal_in_python_only_are_told_apart(self) -> None:
        self.assertEqual([1, None], [self._of("a", CapacityBytes=value) for value in (1, True)])

    def test_types_are_told_apart(self) -> None:
        kinds: ContentMemo[Any, str] = ContentMemo(lambda device: type(device).__name__)
        found = [kinds.of(type_("a", {}, NO_NOTES)) for type_ in (DriveDevice, ProcessorDevice)]
        self.assertEqual(["DriveDevice", "ProcessorDevice"], found)

    def test_of_very_many_contents_or_long_ones_not_all_are_remembered(self) -> None:
        for size in (*range(MAX_CONTENTS + 1), MAX_CONTENTS, 0):
            self.assertEqual(size, self._of("a", CapacityBytes=size))
        self.assertEqual([MAX_CONTENTS, 0], [it["CapacityBytes"] for it in self.seen[-2:]])
        self.seen.clear()
        for _ in range(2):
            self._of("a", CapacityBytes=5, Model="x" * MAX_CONTENT_BYTES)
        self.assertEqual(2, len(self.seen))

    def test_what_is_nested_too_deep_to_be_written_is_understood_each_time(self) -> None:
        model: list[Any] = []
        for _ in range(100_000):
            model = [model]
        found = [self._of(uri, CapacityBytes=5, Model=model, Name=uri) for uri in "ab"]
        self.assertEqual(([5, 5], ["a", "b"]), (found, [it["Name"] for it in self.seen]))


class TestNouns(TestCase):
    """The inventory noun of each kind of device."""

    def setUp(self) -> None:
        self.notes = Diagnostics()

    def device(self, type_: type[Device], uri: str = "/d", **json: Any) -> Device:
        return type_(uri, json, self.notes)

    def one(self, type_: type[Device], **json: Any) -> Any:
        """Return the noun of a single device, None if it has no noun."""
        found = Describer().describe([self.device(type_, **json)])
        nouns = [noun for kind in found.__struct_fields__ for noun in getattr(found, kind)]
        self.assertLessEqual(len(nouns), 1)
        return nouns[0] if nouns else None

    def test_a_cpu_has_its_cores_threads_and_what_it_is(self) -> None:
        words = {"Model": "X", "ProcessorArchitecture": "x86", "InstructionSet": "x86-64"}
        numbers = {"TotalCores": 16, "TotalEnabledCores": 8, "TotalThreads": 32}
        found = self.one(ProcessorDevice, **words, **numbers, MaxSpeedMHz=3000)
        expected = Processor(count=1, cores=16, threads=32, model="X", architecture="x86",
                             instruction_set="x86-64", speed_mhz=3000)  # fmt: skip
        self.assertEqual(expected, found)
        for kind in (None, "cpu", "CPU"):
            found = self.one(ProcessorDevice, ProcessorType=kind, TotalEnabledCores=8)
            self.assertEqual(Processor(cores=8), found)
        self.assertEqual(8, self.one(ProcessorDevice, TotalCores=0, TotalEnabledCores=8).cores)

    def test_parts_of_a_processor_are_none_themselves(self) -> None:
        for kind in ("Core", "Thread", "thread"):
            self.assertIsNone(self.one(ProcessorDevice, ProcessorType=kind, TotalCores=1))

    def test_every_other_processor_is_an_accelerator_by_its_usual_name(self) -> None:
        for kind in ("GPU", "FPGA", "DSP", "Accelerator", "Partition", "OEM"):
            found = self.one(ProcessorDevice, ProcessorType=kind.lower(), Model="A", TotalCores=9)
            self.assertEqual(Accelerator(kind=kind, model="A"), found)
        self.assertEqual("Quantum", self.one(ProcessorDevice, ProcessorType="Quantum").kind)

    def test_the_memory_of_an_accelerator_is_its_sum_without_caches(self) -> None:
        hbm, ddr = {"MemoryType": "HBM2", "CapacityMiB": 40960}, {"CapacityMiB": 2048}
        cache = {"MemoryType": "L2Cache", "CapacityMiB": 6}
        for parts, total, size in (
            ([hbm, ddr, cache], None, 43008),
            ([hbm, {"MemoryType": "HBM2"}], None, None),
            ([hbm, {"MemoryType": "L1cache"}], None, 40960),
            ([cache], None, None),
            ([], None, None),
            ([hbm], 81920, 81920),
            ([hbm], 80, None),
            ([hbm], 0, 40960),
        ):
            with self.subTest(parts=parts, total=total):
                summary = {"TotalMemorySizeMiB": total}
                found = self.one(ProcessorDevice, ProcessorType="GPU", ProcessorMemory=parts,
                                 MemorySummary=summary)  # fmt: skip
                self.assertEqual(size, found.memory_mib)

    def test_unreadable_memory_of_an_accelerator_is_noted_where_it_is(self) -> None:
        self.one(ProcessorDevice, ProcessorType="GPU", ProcessorMemory=[{"CapacityMiB": "x"}])
        line = "/d#/ProcessorMemory: CapacityMiB: found 'x', expected a number"
        self.assertEqual([line], self.notes.lines())

    def test_a_summary_of_processors_is_divided_by_their_number(self) -> None:
        found = self.one(ProcessorSummary, Count=3, CoreCount=50, LogicalProcessorCount=100,
                         Model="X")  # fmt: skip
        self.assertEqual(Processor(count=3, cores=16, threads=33, model="X"), found)
        self.assertEqual(Processor(count=2), self.one(ProcessorSummary, Count=2))
        self.assertEqual([], self.notes.lines())
        self.assertEqual(Processor(count=None), self.one(ProcessorSummary, Count=0, CoreCount=8))

    def test_sums_of_an_unknown_number_of_processors_are_unknown_and_noted(self) -> None:
        what = "found a sum of cores or threads, but no count of CPUs (cores per CPU are unknown)"
        for sums in ({"CoreCount": 8}, {"LogicalProcessorCount": 8}):
            with self.subTest(sums):
                self.notes.clear()
                found = self.one(ProcessorSummary, Model="X", **sums)
                self.assertEqual(Processor(count=None, model="X"), found)
                self.assertEqual([f"/d/Count: {what}"], self.notes.lines())
        self.notes.clear()
        self.assertEqual(Processor(count=None), self.one(ProcessorSummary))
        self.assertEqual([], self.notes.lines())

    def test_a_memory_module_has_its_size_type_and_speed(self) -> None:
        found = self.one(MemoryDevice, CapacityMiB=2048, VolatileSizeMiB=1024, MemoryType="DRAM",
                         MemoryDeviceType="DDR5", OperatingSpeedMhz=4800)  # fmt: skip
        self.assertEqual(Memory(capacity_mib=2048, type="DDR5", speed_mhz=4800), found)
        self.assertEqual(Memory(capacity_mib=1024), self.one(MemoryDevice, VolatileSizeMiB=1024))
        self.assertEqual(Memory(), self.one(MemoryDevice))

    def test_a_cache_is_no_memory(self) -> None:
        self.assertIsNone(self.one(MemoryDevice, CapacityMiB=8, MemoryType="Cache"))
        self.assertEqual([], self.notes.lines())

    def test_of_a_persistent_module_only_what_forgets_is_memory(self) -> None:
        types = ("NVDIMM_N", "nvdimm_f", "NVDIMM_P", "IntelOptane")
        media: tuple[object, ...] = (["DRAM", "NAND"], "Intel3DXPoint")
        kinds = [{"MemoryType": kind} for kind in types] + [{"MemoryMedia": it} for it in media]
        for kind in kinds:
            with self.subTest(kind):
                self.assertIsNone(self.one(MemoryDevice, CapacityMiB=1024, **kind))
                found = self.one(MemoryDevice, CapacityMiB=1024, VolatileSizeMiB=256, **kind)
                self.assertEqual(256, found.capacity_mib)
        dram = self.one(MemoryDevice, CapacityMiB=8192, MemoryMedia=["DRAM"])
        self.assertEqual(8192, dram.capacity_mib)

    def test_a_summary_of_memory_is_in_gib_unless_it_looks_like_mib(self) -> None:
        for gib, mib in ((64, 65536), (1.5, 1536), (8191, 8191 * 1024)):
            self.assertEqual(Memory(capacity_mib=mib),
                             self.one(MemorySummary, TotalSystemMemoryGiB=gib))  # fmt: skip
        self.assertEqual(Memory(count=None), self.one(MemorySummary, TotalSystemMemoryGiB=None))
        self.assertEqual([], self.notes.lines())
        doubt = "1 to 8,191 GiB (unknown, perhaps another unit)"
        for gib, found, expected in ((8192, "8,192", doubt), (0.0625, "0.0625", doubt),
                                     (0, "0", "more than 0 (unknown)")):  # fmt: skip
            self.notes.clear()
            self.assertEqual(Memory(count=None), self.one(MemorySummary, TotalSystemMemoryGiB=gib))
            line = f"/d: TotalSystemMemoryGiB: found {found}, expected {expected}"
            self.assertEqual([line], self.notes.lines())

    def test_a_drive_has_its_size_its_kind_and_whether_it_is_remote(self) -> None:
        found = self.one(DriveDevice, CapacityBytes=5 * GB, MediaType="HDD", Protocol="SAS",
                         RotationSpeedRPM=7200, Model="F")  # fmt: skip
        expected = Drive(capacity_bytes=5 * GB, media="HDD", protocol="SAS", rpm=7200, model="F",
                         remote=False)  # fmt: skip
        self.assertEqual(expected, found)
        self.assertEqual(Drive(), self.one(DriveDevice))
        for protocol in ("iSCSI", "FC", "FCP", "FCoE", "FICON", "NVMeOverFabrics", "NVMeOverTCP",
                         "RoCE", "RoCEv2", "iWARP", "Ethernet", "TCP", "UDP", "NFSv3", "NFSv4",
                         "SMB"):  # fmt: skip
            self.assertIs(True, self.one(DriveDevice, Protocol=protocol).remote, protocol)

    def test_a_network_interface_has_its_speed_in_mbps(self) -> None:
        for type_, json, speed in (
            (EthernetInterface, {"SpeedMbps": 25000}, 25000),
            (Port, {"MaxSpeedGbps": 2.5, "CurrentSpeedGbps": 1}, 2500),
            (Port, {"CurrentSpeedGbps": 10}, 10000),
            (Port, {}, None),
            (NetworkInterface, {}, None),
        ):
            self.assertEqual(Nic(speed_mbps=speed), self.one(type_, **json))

    def test_what_is_absent_or_virtual_is_not_there(self) -> None:
        for json in ({"Status": {"State": "Absent"}}, {"EthernetInterfaceType": "virtual"}):
            self.assertIsNone(self.one(EthernetInterface, **json))
        for json in ({"Status": {"State": "Enabled"}}, {"Enabled": True}, {"Enabled": None},
                     {"EthernetInterfaceType": "Physical"}):  # fmt: skip
            self.assertEqual(Nic(), self.one(EthernetInterface, **json))
        self.assertEqual([], self.notes.lines())
        self.assertEqual(Drive(), self.one(DriveDevice, EthernetInterfaceType="Virtual"))

    def test_a_device_of_another_kind_is_nothing(self) -> None:
        self.assertIsNone(self.one(Storage, Drives=[]))

    def test_identical_devices_are_one_line_with_their_number(self) -> None:
        many = [
            self.device(DriveDevice, "/1", CapacityBytes=5 * GB),
            self.device(ProcessorDevice, "/2", TotalCores=8),
            self.device(DriveDevice, "/3", CapacityBytes=7 * GB),
            self.device(DriveDevice, "/4", CapacityBytes=5 * GB, Name="other"),
            self.device(ProcessorDevice, "/5", ProcessorType="GPU"),
            self.device(MemoryDevice, "/6", CapacityMiB=8192),
            self.device(EthernetInterface, "/7", SpeedMbps=10),
            self.device(DriveDevice, "/8", Status={"State": "Absent"}),
        ]
        expected = Devices(
            processors=(Processor(cores=8),), accelerators=(Accelerator(kind="GPU"),),
            memory=(Memory(capacity_mib=8192),), nics=(Nic(speed_mbps=10),),
            drives=(Drive(count=2, capacity_bytes=5 * GB), Drive(capacity_bytes=7 * GB)),
        )  # fmt: skip
        describer = Describer()
        self.assertEqual(expected, describer.describe(many))
        self.assertIs(describer.describe(many), describer.describe(many))
        self.assertEqual(Devices(), describer.describe([]))

    def test_summaries_count_as_many_as_they_say(self) -> None:
        two = [self.device(ProcessorSummary, Count=count, CoreCount=8 * count) for count in (2, 3)]
        self.assertEqual((Processor(count=5, cores=8),), Describer().describe(two).processors)

    def test_devices_that_may_have_been_counted_are_of_unknown_number(self) -> None:
        first, second = (self.device(DriveDevice, uri, CapacityBytes=5 * GB) for uri in "ab")
        second.certain = False
        lines = Drive(count=1, capacity_bytes=5 * GB), Drive(count=None, capacity_bytes=5 * GB)
        self.assertEqual(lines, Describer().describe([first, second]).drives)


class TestDescriber(TestCase):
    def setUp(self) -> None:
        self.notes, self.describer = Diagnostics(), Describer()

    def _describe(self, block: str, *contents: dict[str, Any], certain: bool = True) -> Devices:
        devices = [DriveDevice(f"/{block}/{at}", it, self.notes) for at, it in enumerate(contents)]
        for device in devices:
            device.certain = certain
        return self.describer.describe(devices)

    def test_equal_sets_of_devices_are_one_and_others_are_not(self) -> None:
        small, large = {"CapacityBytes": 5 * GB}, {"CapacityBytes": 7 * GB}
        first = self._describe("a", small, small)
        self.assertEqual((Drive(count=2, capacity_bytes=5 * GB),), first.drives)
        self.assertIs(first, self._describe("b", small, small))
        self.assertEqual((Drive(capacity_bytes=5 * GB),), self._describe("c", small).drives)
        both = (Drive(capacity_bytes=7 * GB), Drive(capacity_bytes=5 * GB))
        self.assertEqual(both, self._describe("d", large, small).drives)

    def test_devices_that_may_be_counted_elsewhere_are_of_unknown_number_there_alone(self) -> None:
        drive = {"CapacityBytes": 5 * GB}
        for _ in range(2):
            self.assertEqual((1,), tuple(it.count for it in self._describe("a", drive).drives))
            doubtful = self._describe("b", drive, certain=False).drives
            self.assertEqual((Drive(count=None, capacity_bytes=5 * GB),), doubtful)

    def test_what_is_noted_is_noted_for_each_block(self) -> None:
        for block in "ab":
            self._describe(block, {"CapacityBytes": 5 * GB}, {"CapacityBytes": "much"})
        note = "CapacityBytes: found 'much', expected a number"
        self.assertEqual([f"/{block}/1: {note}" for block in "ab"], self.notes.lines())

    def test_devices_that_cannot_be_written_are_described_and_noted_each_time(self) -> None:
        for block in "ab":
            found = self._describe(block, {"CapacityBytes": 2**80}).drives
            self.assertEqual((Drive(),), found)
        self.assertEqual(2, len(self.notes))

    def test_of_very_many_sets_or_large_ones_not_all_are_remembered(self) -> None:
        sets = [({"CapacityBytes": size * GB},) for size in range(1, MAX_SETS + 2)]
        first, *_, last = [self._describe("a", *it) for it in sets]
        self.assertIs(last, self._describe("b", *sets[-1]))
        again = self._describe("b", *sets[0])
        self.assertEqual((first, False), (again, first is again))
        large = [{"CapacityBytes": 5 * GB}] * (MAX_SET_DEVICES + 1)
        one, two = (self._describe("c", *large) for _ in range(2))
        self.assertEqual((one, False), (two, one is two))


FABRICS = "/redfish/v1/Fabrics"


def device(number: int, **links) -> Device:
    return ProcessorDevice(f"/p/{number}", {"Links": links}, notes.append)


notes: list[str] = []


class TestPlaces(unittest.TestCase):
    """Chassis, fabric, switch."""

    def topology(self, *devices: Device, **links) -> dict[str, str] | None:
        service = LinkedDocuments(lambda uri: None, notes.append)
        block = ResourceBlock("/b", {"Links": links}, notes.append)
        return topology_of(service, block.uri, block.chassis, list(devices))

    def test_nothing_linked_is_nothing_told(self):
        self.assertIsNone(self.topology(device(1)))

    def test_the_chassis_of_the_block_goes_before_those_of_its_devices(self):
        card = device(1, Chassis=links("/c/2"))
        self.assertEqual({"chassis": "/c/1"}, self.topology(card, Chassis=links("/c/1")))
        self.assertEqual({"chassis": "/c/2"}, self.topology(card))

    def test_a_chassis_that_is_not_named_is_noted_with_its_block(self):
        notes.clear()
        service = LinkedDocuments(lambda uri: None, Diagnostics())
        block = ResourceBlock("/b", {"Links": {"Chassis": [{}]}}, service.notes)
        self.assertEqual({}, topology_of(service, block.uri, block.chassis, []) or {})
        what = "/b: found a link without @odata.id, expected @odata.id"
        self.assertEqual([what], service.notes.lines())

    def test_what_several_values_are_told_of_is_not_told(self):
        self.assertIsNone(self.topology(Chassis=links("/c/1", "/c/2")))
        pair = [device(n, Chassis=links(f"/c/{n}")) for n in (1, 2)]
        self.assertIsNone(self.topology(*pair))

    def test_fabric_and_switch_are_read_from_the_uris_of_links(self):
        at_switch = device(1, ConnectedSwitchPorts=links(f"{FABRICS}/F/Switches/S/Ports/3"))
        in_fabric = device(2, Endpoints=links(f"{FABRICS}/F/Endpoints/E"))
        expected = {"fabric": f"{FABRICS}/F", "switch": f"{FABRICS}/F/Switches/S"}
        self.assertEqual(expected, self.topology(at_switch, in_fabric))
        other = device(3, Endpoints=links(f"{FABRICS}/G/Endpoints/E"))
        self.assertEqual({"switch": f"{FABRICS}/F/Switches/S"}, self.topology(at_switch, other))

    def test_a_device_that_is_absent_says_nothing(self):
        gone = device(1, Chassis=links("/c/2"))
        gone.json["Status"] = {"State": "Absent"}
        self.assertIsNone(self.topology(gone))
