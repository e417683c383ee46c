# SPDX-License-Identifier: Apache-2.0
"""Amounts that cannot be right are unknown, and so are devices that are told unreadably."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.test_device_identity import Case, V, links
from valence_sched.drivers.fields import Json
from valence_sched.model.inventory import Devices

CPU, DIMM = {"TotalCores": 16}, {"CapacityMiB": 16384}
ABSENT, CRITICAL = {"Status": {"State": "Absent"}}, {"Status": {"Health": "Critical"}}


class TestAmounts(Case):
    """What a part tells of its own size."""

    def amount(self, kind: str, field: str, link: str, json: Json) -> Any:
        self.setUp()
        self.block("b", **{link: links(self.put(f"{V}/D", **json))})
        (line,) = getattr(self.read().blocks[0].devices, kind)
        return getattr(line, field)

    def test_0_and_a_size_in_another_unit_are_unknown_and_noted(self) -> None:
        gpu = {"ProcessorType": "GPU"}
        for kind, field, link, json, found in (
            ("processors", "cores", "Processors", {"TotalCores": 0}, None),
            ("processors", "cores", "Processors", {"TotalCores": 0, "TotalEnabledCores": 8}, 8),
            ("processors", "cores", "Processors", {"TotalCores": 10**6}, None),
            ("memory", "capacity_mib", "Memory", {"CapacityMiB": 0}, None),
            ("memory", "capacity_mib", "Memory", {"CapacityMiB": 64}, None),
            ("memory", "capacity_mib", "Memory", {"CapacityMiB": 512}, None),
            ("memory", "capacity_mib", "Memory", {"CapacityMiB": "0", "VolatileSizeMiB": 8192},
             8192),
            ("memory", "capacity_mib", "Memory", {"CapacityMiB": 64 << 30}, None),
            ("drives", "capacity_bytes", "Drives", {"CapacityBytes": 960}, None),
            ("drives", "capacity_bytes", "Drives", {"CapacityBytes": 4 << 50}, None),
            ("accelerators", "memory_mib", "Processors",
             {"MemorySummary": {"TotalMemorySizeMiB": 80}} | gpu, None),
            ("nics", "speed_mbps", "EthernetInterfaces", {"SpeedMbps": 0}, None),
            ("nics", "speed_mbps", "EthernetInterfaces", {"SpeedMbps": 25 * 10**9}, None),
        ):  # fmt: skip
            with self.subTest(json):
                self.assertEqual(found, self.amount(kind, field, link, json))
                self.assertTrue(self.noted("/D: ", "it is unknown)"))

    def test_a_disk_of_0_bytes_is_of_unknown_number_and_an_empty_medium_is_no_drive(self) -> None:
        for told, counts in (({"MediaType": "SSD"}, [None]), ({"Protocol": "NVMe"}, [None]),
                             ({"Protocol": "USB"}, []), ({}, [])):  # fmt: skip
            with self.subTest(told):
                self.setUp()
                self.block("b", Drives=links(self.drive("/D", CapacityBytes=0, **told)))
                self.assertEqual(counts, self.counts())
                self.assertTrue(self.noted("/D", "of 0 bytes" if not counts else "found 0"))

    def test_media_and_their_older_views_are_one_line(self) -> None:
        media = [self.drive(f"/D/{n}", CapacityBytes=0, Protocol="USB") for n in range(9)]
        views = [{"Name": f"USB{n}"} for n in range(9)]
        disk = self.drive("/D/9", Protocol="NVMe")
        self.block("b", Drives=links(disk, *media), SimpleStorage=self.simple(*views))
        self.assertEqual([1], self.counts())
        self.assertTrue(self.noted("/b: found 9 drives of 0 bytes", "/D/0, ", "/D/1, …"))


class TestSummaries(Case):
    """What a system tells in sum, beside its parts."""

    def devices(
        self, cpus: list[Json], dimms: list[Json], *, gib: float | None = None, **cores: int
    ) -> Devices:
        self.setUp()
        parts = {"Processors": cpus, "Memory": dimms}
        lists = {
            name: links(*(self.put(f"{V}/{name}/{n}", **it) for n, it in enumerate(found)))
            for name, found in parts.items()
        }
        summaries = {"ProcessorSummary": cores, "MemorySummary": {"TotalSystemMemoryGiB": gib}}
        system = self.put(f"{V}/S/1", **lists, **summaries)
        self.block("b", ComputerSystems=links(system))
        return self.read().blocks[0].devices

    def cores(self, *args: Any, **sums: Any) -> list[tuple[int | None, int | None]]:
        found = self.devices(*args, **sums)
        return [(it.count, it.cores) for it in found.processors]

    def mib(self, *args: Any, **sums: Any) -> list[tuple[int | None, int | None]]:
        return [(it.count, it.capacity_mib) for it in self.devices(*args, **sums).memory]

    def test_parts_without_a_size_have_their_share_of_the_sum(self) -> None:
        self.assertEqual([(2, 12)], self.cores([{}, {}], [], Count=2, CoreCount=24))
        self.assertTrue(self.noted("ProcessorSummary: found 24 cores, and 2 processors without"))
        for dimms, gib, found in (
            ([{}] * 4, 64, [(4, 16384)]),
            ([DIMM, DIMM, {}, {}], 64, [(4, 16384)]),
            ([{"CapacityMiB": 0}] * 4, 64, [(4, 16384)]),
            ([{"CapacityMiB": 64}] * 2, 128, [(2, 65536)]),
            ([{}] * 3, 10, [(2, 3413), (1, 3414)]),
            ([{}, {}], 0, [(2, None)]),
            ([{}, {}], None, [(2, None)]),
            ([{}, CRITICAL], 64, [(1, None), (1, None)]),
            ([{}, ABSENT], 64, [(1, 65536)]),
        ):
            with self.subTest(dimms, gib=gib):
                self.assertEqual(found, self.mib([], dimms, gib=gib))
                is_known = all(size for _, size in found)
                self.assertEqual(is_known, self.noted("MemorySummary: found", "has its share"))

    def test_a_sum_that_contradicts_the_parts_is_noted_and_the_parts_hold(self) -> None:
        for dimms, gib, noted in (
            ([DIMM] * 4, 64, False),
            ([DIMM] * 4, 60, False),
            ([DIMM] * 4, 32, True),
            ([DIMM] * 4, 256, True),
            ([DIMM] * 3 + [DIMM | CRITICAL], 64, False),
        ):
            with self.subTest(gib=gib):
                self.assertEqual(16384, self.mib([], dimms, gib=gib)[0][1])
                self.assertEqual(noted, self.noted("MemorySummary: found", "are believed"))
        self.assertEqual([(2, 16)], self.cores([CPU, CPU], [], Count=4))
        self.assertTrue(self.noted("ProcessorSummary: Count: found 4, and 2 processors"))
        self.assertEqual([(2, 16)], self.cores([CPU, CPU], [], Count=4, CoreCount=64))
        self.assertTrue(self.noted("ProcessorSummary: Count: found 4, and 2 processors"))
        self.assertTrue(self.noted("ProcessorSummary: found 64 cores, and 32 cores of 2"))

    def test_a_sum_in_another_unit_is_noted_beside_parts_too(self) -> None:
        for dimms, found in (([{}, {}], (2, None)), ([DIMM, DIMM], (2, 16384))):
            self.assertEqual([found], self.mib([], dimms, gib=32768))
            self.assertTrue(self.noted("MemorySummary: TotalSystemMemoryGiB: found 32,768", "unit"))

    def test_parts_that_are_all_absent_beside_a_sum_are_unknown(self) -> None:
        cpus, dimms = [CPU | ABSENT] * 2, [DIMM | ABSENT] * 4
        self.assertEqual([(None, None)], self.cores(cpus, dimms, gib=64, Count=2, CoreCount=32))
        self.assertEqual([(1, None)], self.mib(cpus, dimms, gib=64, Count=2, CoreCount=32))
        for noun in ("2 processors", "4 memory modules"):
            self.assertTrue(self.noted(f"and {noun}, all absent"))
        self.assertEqual([], self.mib([], dimms, gib=0))

    def test_a_sum_in_another_unit_or_one_that_does_not_count_is_unknown(self) -> None:
        gib = "TotalSystemMemoryGiB"
        for sums in (
            {gib: 64 << 20},
            {gib: 0},
            {"TotalSystemMemoryGB": 64},
            {},
            {gib: 0, "Status": {"State": "Disabled"}},
            {gib: 64, "Status": {"HealthRollup": "Critical"}},
        ):
            with self.subTest(sums):
                self.setUp()
                self.block("b", ComputerSystems=links(self.put(f"{V}/S/1", MemorySummary=sums)))
                (memory,) = self.read().blocks[0].devices.memory
                self.assertEqual((1, None, None),
                                 (memory.count, memory.capacity_mib, memory.condition))  # fmt: skip

    def test_gpus_in_the_list_of_processors_do_not_stand_for_cpus(self) -> None:
        gpu = {"ProcessorType": "GPU"}
        self.assertEqual([(2, 16)], self.cores([gpu], [], Count=2, CoreCount=32))


class TestUnreadable(Case):
    """Devices that are there, and are told in no way that Redfish has."""

    def found(self, **json: Any) -> dict[str, list[int | None]]:
        """Return the counts of the devices of a block by their kind, without those of none."""
        self.documents.setdefault(f"{V}/Chassis/1", {"Name": "c", "Oem": {"V": {"GPUs": [{}]}}})
        self.block("b", **json)
        devices = self.read().blocks[0].devices
        kinds = {name: getattr(devices, name) for name in devices.__struct_fields__}
        return {name: [line.count for line in lines] for name, lines in kinds.items() if lines}

    def test_links_into_a_vendors_part_and_links_without_a_target_are_unknown(self) -> None:
        both: dict[str, list[int | None]] = {"processors": [None], "accelerators": [None]}
        for name, link, found in (
            ("Processors", f"{V}/Chassis/1#/Oem/V/GPUs/0", both),
            ("Memory", f"{V}/Chassis/1#/Oem/V/GPUs/0", {"memory": [None]}),
            ("Drives", f"{V}/Chassis/1#/Oem/V/GPUs/0", {"drives": [None]}),
            ("Storage", f"{V}/Chassis/1#/Oem/V/GPUs/0", {"drives": [None]}),
            ("EthernetInterfaces", f"{V}/Chassis/1#/Links/Oem/V/0", {"nics": [None]}),
            ("Drives", "", {"drives": [None]}),
            ("Drives", None, {"drives": [None]}),
        ):
            with self.subTest(name, link=link):
                self.setUp()
                self.assertEqual(
                    found, self.found(**{name: [{} if link is None else {"@odata.id": link}]})
                )
                self.assertTrue(self.noted("/b: ", "there are is unknown)"))

    def test_a_link_to_a_part_of_a_document_is_that_part(self) -> None:
        sizes = [10**12, 2 * 10**12]
        self.put(f"{V}/St", Parts={"a/b": [{"CapacityBytes": size} for size in sizes]})
        self.block("b", Drives=links(*(f"{V}/St#/Parts/a~1b/{n}" for n in (0, 1))))
        found = [it.capacity_bytes for it in self.read().blocks[0].devices.drives]
        self.assertEqual(sizes, found)
        self.assertEqual([], self.notes.lines())

    def test_lists_in_a_vendors_part_alone_are_unknown(self) -> None:
        link = {"@odata.id": f"{V}/Vendor/X"}
        for json, found in (
            ({"Oem": {"V": {"GPUs": [link]}}}, {"accelerators": [None]}),
            ({"Oem": {"Hpe": {"Links": {"SmartStorage": link}}}}, {"drives": [None]}),
            ({"Links": {"Oem": {"V": {"Drives": [link, link]}}}}, {"drives": [None]}),
            ({"Oem": {"V": {"PhysicalDrives": {"Disk1": {}, "Disk2": {}}}}}, {"drives": [None]}),
            ({"Oem": {"V": {"Processors": link, "Memory": link}}},
             {"processors": [None], "memory": [None]}),
            ({"Oem": {"V": {"GPUs": [f"{V}/Vendor/X"]}}}, {"accelerators": [None]}),
            ({"Oem": {"V": {"Drive": f"{V}/Vendor/X"}}}, {"drives": [None]}),
            ({"Oem": {"V": {"StorageStatus": "OK", "MemoryLimit": 4, "Drives": []}}}, {}),
            ({"Drives": links(self.drive("/D")), "Oem": {"V": {"Drives": [link]}}},
             {"drives": [1]}),
        ):  # fmt: skip
            with self.subTest(json):
                self.setUp()
                self.drive("/D")
                self.assertEqual(found, self.found(**json))

    def test_a_link_below_a_vendors_part_that_dangles_has_an_unknown_number(self) -> None:
        both: dict[str, list[int | None]] = {"processors": [None], "accelerators": [None]}
        for name, found in (
            ("Processors", both),
            ("Memory", {"memory": [None]}),
            ("Drives", {"drives": [None]}),
            ("Storage", {"drives": [None]}),
            ("SimpleStorage", {"drives": [None]}),
            ("EthernetInterfaces", {"nics": [None]}),
            ("NetworkInterfaces", {"nics": [None]}),
        ):
            one = links(f"{V}/Chassis/1/Oem/V/X/9")
            for value in (one, one[0], links(f"https://elsewhere.invalid{one[0]['@odata.id']}")):
                with self.subTest(name, value=value):
                    self.setUp()
                    self.documents[V]["@odata.id"] = f"https://here.invalid{V}"
                    self.block("first", Links={"Chassis": links(f"https://here.invalid{V}/C")})
                    self.block("b", **{name: value})
                    devices = self.read().blocks[1].devices
                    names = devices.__struct_fields__
                    lines = {it: [line.count for line in getattr(devices, it)] for it in names}
                    self.assertEqual(found, {it: counts for it, counts in lines.items() if counts})
                    self.assertTrue(self.noted("/b: ", "there are is unknown)"))

    def test_a_link_below_a_vendors_part_that_is_there_is_a_device(self) -> None:
        drive = self.drive("/Chassis/1/Oem/V/Drives/1")
        self.assertEqual({"drives": [1]}, self.found(Drives=links(drive)))
        self.assertEqual([], self.notes.lines())

    def test_a_storage_that_tells_no_drives_has_an_unknown_number(self) -> None:
        count = "Drives@odata.count"
        for told, found in (({}, {"drives": [None]}), ({"Drives": []}, {}),
                            ({"Drives": [], count: 0}, {}),
                            ({"Drives": [], count: 2}, {"drives": [None]})):  # fmt: skip
            with self.subTest(told):
                self.setUp()
                self.assertEqual(found, self.found(Storage=links(self.put(f"{V}/St", **told))))

    def test_a_list_that_is_empty_though_its_count_is_more_is_unknown(self) -> None:
        for name, found in (("Processors", {"processors": [None], "accelerators": [None]}),
                            ("Memory", {"memory": [None]}), ("Drives", {"drives": [None]}),
                            ("EthernetInterfaces", {"nics": [None]})):  # fmt: skip
            for count, expected in ((3, found), (0, {}), ("0", {})):
                with self.subTest(name, count=count):
                    self.setUp()
                    self.assertEqual(
                        expected, self.found(**{name: [], f"{name}@odata.count": count})
                    )

    def test_properties_of_a_vendor_in_place_of_lists_are_unknown(self) -> None:
        system = self.put(f"{V}/S/1", Memory={"TotalSystemMemoryGB": 64}, Processors={"Count": 2})
        found = self.found(ComputerSystems=links(system))
        self.assertEqual({"processors": [None], "accelerators": [None], "memory": [None]}, found)
        self.setUp()
        system = self.put(f"{V}/S/1", Memory={"TotalSystemMemoryGB": 64},
                          MemorySummary={"TotalSystemMemoryGiB": 64})  # fmt: skip
        self.assertEqual({"memory": [1]}, self.found(ComputerSystems=links(system)))
