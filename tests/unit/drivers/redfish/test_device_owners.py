# SPDX-License-Identifier: Apache-2.0
"""Where the devices of blocks and systems are found, and which block has one that several reach."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_owners
from valence_sched.drivers.redfish.schema import ResourceBlock, System
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Status

FREE = Status(state="Unused")
MISSING = "found no such document, expected it"


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
                self.assertEqual([f"{missing}: {MISSING}: {where} links it"], self.notes.lines())

    def test_a_link_without_a_target_is_noted_where_it_stands(self):
        line = "found a link without @odata.id, expected one"
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
    """Summaries of systems stand in for devices that nobody lists."""

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
    """A device that several blocks reach is in one of them."""

    def owner(self, *statuses: Status, **drives: Any) -> str:
        """Return the block of the device that all of these blocks link."""
        uris = [f"/B/{number}" for number in range(len(statuses))]
        links_of = {f"D_{number}": drives.get(f"D_{number}", {"CapacityBytes": 5})
                    for number in range(len(statuses))}  # fmt: skip
        blocks = {uri: {"Drives": links(f"/D/{n}" if drives else "/D/0")}
                  for n, uri in enumerate(uris)}  # fmt: skip
        found = self.of_blocks(blocks, dict(zip(uris, statuses, strict=True)), **links_of)
        (owner,) = (uri for uri, devices in found.items() if devices)
        what = f"found in {', '.join(uris)}, expected one block ({owner} has it)"
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
