# SPDX-License-Identifier: Apache-2.0
"""Implausible amounts are unknown, and so are unreadable devices."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.stored import links
from tests.unit.drivers.redfish.test_device_identity import BLOCKS, Case, V
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import explain_decision as explain
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.drivers.fields import Json
from valence_sched.drivers.redfish.schema import STATES
from valence_sched.model.codec import decode
from valence_sched.model.inventory import Devices, LeanPodm, to_json
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.testing import request
from valence_sched.view.builder import ViewBuilder
from valence_sched.words.phrases import ReasonPhrases

CPU, DIMM = {"TotalCores": 16}, {"CapacityMiB": 16384}
ABSENT, CRITICAL = {"Status": {"State": "Absent"}}, {"Status": {"Health": "Critical"}}


class TestAmounts(Case):
    """The size that a part reports."""

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
                self.assertTrue(self.noted("/D: ", "unknown"))

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
    """The sums that a system reports, beside its parts."""

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
        self.assertTrue(self.noted("ProcessorSummary: found 24 cores, but 2 processors without"))
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
                self.assertEqual(
                    is_known, self.noted("MemorySummary: found", "gets an equal share")
                )

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
                self.assertEqual(noted, self.noted("MemorySummary: found", "their sum is used"))
        self.assertEqual([(2, 16)], self.cores([CPU, CPU], [], Count=4))
        self.assertTrue(self.noted("ProcessorSummary: Count: found 4, but 2 processors"))
        self.assertEqual([(2, 16)], self.cores([CPU, CPU], [], Count=4, CoreCount=64))
        self.assertTrue(self.noted("ProcessorSummary: Count: found 4, but 2 processors"))
        self.assertTrue(self.noted("ProcessorSummary: found 64 cores, but 32 cores of 2"))

    def test_a_sum_in_another_unit_is_noted_beside_parts_too(self) -> None:
        for dimms, found in (([{}, {}], (2, None)), ([DIMM, DIMM], (2, 16384))):
            self.assertEqual([found], self.mib([], dimms, gib=32768))
            self.assertTrue(self.noted("MemorySummary: TotalSystemMemoryGiB: found 32,768", "unit"))

    def test_parts_that_are_all_absent_beside_a_sum_are_unknown(self) -> None:
        cpus, dimms = [CPU | ABSENT] * 2, [DIMM | ABSENT] * 4
        self.assertEqual([(None, None)], self.cores(cpus, dimms, gib=64, Count=2, CoreCount=32))
        self.assertEqual([(None, None)], self.mib(cpus, dimms, gib=64, Count=2, CoreCount=32))
        for noun in ("2 processors", "4 memory modules"):
            self.assertTrue(self.noted(f"but {noun}, all absent"))
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
                self.assertEqual((None, None, None),
                                 (memory.count, memory.capacity_mib, memory.condition))  # fmt: skip

    def test_gpus_in_the_list_of_processors_do_not_stand_for_cpus(self) -> None:
        gpu = {"ProcessorType": "GPU"}
        self.assertEqual([(2, 16)], self.cores([gpu], [], Count=2, CoreCount=32))
        for count, noted in ((1, False), (2, True), (3, False)):  # without or with the GPUs
            self.assertEqual([(1, 16)], self.cores([CPU, gpu, gpu], [], Count=count))
            self.assertEqual(noted, self.noted("ProcessorSummary: Count"))


class TestUnreadable(Case):
    """Existing devices in a form that Redfish does not define."""

    def found(self, **json: Any) -> dict[str, list[int | None]]:
        """Return the counts of the devices of a block by kind, without zeros."""
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
                self.assertTrue(self.noted("/b: ", "is unknown)"))

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
            ({"Oem": {"Hpe": {"Links": {"PCIDevices": link}}}}, {"accelerators": [None]}),
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
                    self.assertTrue(self.noted("/b: ", "is unknown)"))

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


GPU = {"ProcessorType": "GPU", "Model": "A100"}
#: A status, and the name of its problem, empty if it is fine.
CONDITIONS: tuple[tuple[Json | None, str | None], ...] = (
    (None, None),
    ({}, None),
    ({"State": None, "Health": None}, None),
    ({"State": "enabled", "Health": "ok"}, None),
    ({"State": "Qualified"}, None),
    ({"State": "Degraded"}, "Warning"),
    ({"State": "Degraded", "Health": "Critical"}, "Critical"),
    ({"Health": "Warning"}, "Warning"),
    ({"Health": "OK", "HealthRollup": "Warning"}, "Warning"),
    ({"Health": "Fatal"}, "Warning"),
    ({"State": "Enabled", "Health": "Critical"}, "Critical"),
    ({"State": "Enabled", "Health": "OK", "HealthRollup": "Critical"}, "Critical"),
    ({"State": "Quiesced", "Health": "Critical"}, "Critical"),
    ({"State": "Hibernating", "Health": "OK"}, "Hibernating"),
    *(({"State": word.upper(), "Health": "OK"}, word) for word in STATES
      if word not in ("Enabled", "Qualified", "Degraded", "Absent")),
)  # fmt: skip


class TestConditions(Case):
    """One rule for a device, a block, and the system of a block."""

    def gpus(self, *statuses: Json | None, **json: Any) -> None:
        """Put a block of a GPU with each of these statuses."""
        uris = [self.put(f"{V}/G/{at}", **GPU, Status=it) for at, it in enumerate(statuses)]
        self.block("g", ResourceBlockType=["Processor"], Processors=links(*uris), **json)

    def test_a_device_counts_unless_its_state_or_its_health_forbids_it(self) -> None:
        for status, word in CONDITIONS:
            with self.subTest(status):
                self.setUp()
                self.gpus(None, None, None, status)
                found = {
                    it.condition: it.count for it in self.read().blocks[0].devices.accelerators
                }
                self.assertEqual({None: 3, word: 1} if word else {None: 4}, found)
                self.assertEqual(word is not None, self.noted("/G/3: Status: found"))

    def test_a_block_and_the_system_that_it_is_count_by_the_same_rule(self) -> None:
        for status, word in (*CONDITIONS, ({"State": "Absent"}, "Absent")):
            for at in ("block", "system"):
                with self.subTest(status, at=at):
                    self.setUp()
                    system = self.put(f"{V}/S/1", Status=status if at == "system" else None)
                    self.gpus({}, ComputerSystems=links(system),
                              Status=status if at == "block" else None)  # fmt: skip
                    found = self.read().blocks[0].status
                    self.assertEqual(word, found.condition)
                    self.assertEqual(word in (None, "Warning"), found.slots == 1)
                    self.assertEqual(word is not None, self.noted("Status: found"))

    def test_what_awaits_the_failure_of_another_drive_does_not_count(self) -> None:
        for told, word in (
            ({"HotspareType": "Global"}, "StandbySpare"),
            ({"HotspareType": "Dedicated", "Status": {"Health": "Warning"}}, "StandbySpare"),
            ({"HotspareType": "None"}, None),
            ({"StatusIndicator": "Hotspare"}, "StandbySpare"),
            ({"StatusIndicator": "Fail"}, "Critical"),
            ({"StatusIndicator": "OK", "FailurePredicted": False}, None),
            ({"FailurePredicted": True}, "Warning"),
        ):
            with self.subTest(told):
                self.setUp()
                self.block("b", Drives=links(self.drive("/D/1", **told)))
                (drive,) = self.read().blocks[0].devices.drives
                self.assertEqual(word, drive.condition)

    def test_drives_behind_a_storage_are_in_its_condition(self) -> None:
        for status, word in (
            ({"Health": "Critical"}, "Critical"),
            ({"State": "Starting"}, "Starting"),
            ({"Health": "Warning"}, "Warning"),
            ({"State": "Degraded"}, "Warning"),
            ({"Health": "OK", "HealthRollup": "Critical"}, None),
            ({"Health": "Warning", "HealthRollup": "Critical"}, "Warning"),
        ):
            with self.subTest(status):
                self.setUp()
                storage = self.storage("/St", self.drive("/D/1"))
                self.documents[f"{V}/St"]["Status"] = status
                self.block("b", Storage=storage)
                (drive,) = self.read().blocks[0].devices.drives
                self.assertEqual(word, drive.condition)
                self.assertEqual(word is not None, self.noted("/St: Status: found"))

    def test_a_device_that_tells_that_it_is_critical_does_not_take_its_block_with_it(self) -> None:
        rolled_up = {"Health": "OK", "HealthRollup": "Critical"}
        system = self.put(f"{V}/S/1", Status=rolled_up)
        self.gpus({}, {"Health": "Critical"}, Status=rolled_up, ComputerSystems=links(system))
        status = self.read().blocks[0].status
        self.assertEqual((1, "Warning"), (status.slots, status.condition))

    def test_a_compute_block_counts_by_the_free_system_that_it_links(self) -> None:
        system = self.put(f"{V}/S/1", SystemType="Physical", Status={"State": "Updating"})
        self.documents[f"{V}/S"]["Members"] += links(system)
        for kind, slots in (("Compute", 0), ("Storage", 1)):
            self.documents[BLOCKS]["Members"].clear()
            self.block("b", ResourceBlockType=[kind], Links={"ComputerSystems": links(system)})
            self.assertEqual(slots, self.read().blocks[0].status.slots)


class TestDecisions(Case):
    """Excluded devices are not chosen, and the explanation says why."""

    def decide(self, worst: str = "Warning", **gpus: Any) -> tuple[str, list[str], str]:
        """Request four GPUs of one block; return the outcome, the notes and the reasons."""
        wanted = request({"accelerators": [{"kind": "GPU", "model": "A100", "count": 4}]},
                         policy="p")  # fmt: skip
        builder = ViewBuilder()
        builder.add(decode(to_json(self.read()), LeanPodm, "t.json", "$"), "t.json")
        policy = Policy(
            name="p", filters=(FilterUse("health", {"worst": worst}), FilterUse("devices"))
        )
        decision = Decider(builder.view(), [policy]).select_destinations(wanted)
        reasons = Verdicts(decision).podm_verdict(0).pool_reasons
        words = ReasonPhrases().of_pool(reasons[0].reasons) if reasons else ""
        return decision.outcome, list(explain(decision).notes), words

    def site(self, *statuses: Json, block: Json | None = None) -> None:
        self.setUp()
        uris = [self.put(f"{V}/G/{at}", **GPU, Status=it) for at, it in enumerate(statuses)]
        self.block("g", ResourceBlockType=["Processor"], Processors=links(*uris), Status=block)

    def test_the_reason_counts_what_does_not_count_by_its_condition(self) -> None:
        critical, quiesced = {"Health": "Critical"}, {"State": "Quiesced"}
        for statuses, block, words in (
            ([{}, {}, {}, critical], None, "3 of 4 A100 (1 of 4 A100 is Critical)"),
            ([{}, critical, critical, quiesced], None,
             "1 of 4 A100 (2 of 4 A100 are Critical, 1 is Quiesced)"),
            ([critical] * 4, None, "no A100 (4 of 4 A100 are Critical)"),
            ([{}] * 4, {"State": "UnavailableOffline"},
             "no A100 (4 of 4 A100 are UnavailableOffline)"),
            ([{}, {}, {}, critical], {"State": "Updating"},
             "no A100 (1 of 4 A100 is Critical, 3 are Updating)"),
        ):  # fmt: skip
            with self.subTest(statuses, block=block):
                self.site(*statuses, block=block)
                self.assertEqual(("nothing_fits", [], words), self.decide())

    def test_warning_counts_and_is_told_unless_the_policy_is_stricter(self) -> None:
        warning = {"Health": "Warning"}
        for statuses, block, note, words in (
            ([{}, {}, {}, warning], None, "1 GPU A100", "3 of 4 A100 (1 of 4 A100 is Warning)"),
            ([{}] * 4, warning, "the block", "no A100 (4 of 4 A100 are Warning)"),
        ):
            with self.subTest(statuses, block=block):
                self.site(*statuses, block=block)
                told = [f"health Warning: {note} (in g of t)"]
                self.assertEqual(("placed", told, ""), self.decide())
                self.assertEqual(("nothing_fits", [], words), self.decide("OK"))
