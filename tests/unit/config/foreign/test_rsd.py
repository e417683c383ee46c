# SPDX-License-Identifier: Apache-2.0
"""Allocate bodies of Intel Rack Scale Design."""

import unittest

from tests.unit.config.refusal import Parsed, parsed, refusal
from valence_sched.model.flavor import GIB


def read(**body) -> Parsed:
    return parsed(body)


def needs(**body) -> list[tuple]:
    return [
        (need.kind, need.measure, need.amount, need.count,
         {test.attribute: test.value for test in need.tests})
        for need in read(**body).flavor.needs
    ]  # fmt: skip


class TestNeeds(unittest.TestCase):
    """Each property, and its need."""

    TABLE = (
        ({"TotalSystemCoreCount": 16}, [("processor", "cores", 16, 1, {})]),
        ({"TotalProcessorCoreCount": "16", "TotalSystemCoreCount": 8},
         [("processor", "cores", 16, 1, {})]),
        ({"TotalSystemMemoryMiB": 64, "TotalMemoryCapacityMiB": 65},
         [("memory", "capacity_mib", 65, 1, {})]),
        ({"Processors": [{}]}, [("processor", "devices", 1, 1, {})]),
        ({"Processors": [{"Model": "Xeon", "TotalCores": 8, "AchievableSpeedMHz": 2000,
                          "InstructionSet": "x86-64", "ProcessorType": "CPU"}] * 2},
         [("processor", "devices", 2, 1, {"model": "Xeon", "cores": 8, "speed_mhz": 2000,
                                          "instruction_set": "x86-64"})]),
        ({"Processors": [{"TotalCores": 8}, {"TotalCores": 4}]},
         [("processor", "devices", 1, 1, {"cores": 8}),
          ("processor", "devices", 1, 1, {"cores": 4})]),
        ({"Processors": [{"ProcessorType": "FPGA", "Model": "Arria"}]},
         [("accelerator", "devices", 1, 1, {"kind": "FPGA", "model": "Arria"})]),
        ({"Memory": [{"CapacityMiB": 8192, "MemoryDeviceType": "DDR4", "SpeedMHz": 2400,
                      "MemoryType": "DRAM"}]},
         [("memory", "devices", 1, 1,
           {"capacity_mib": 8192, "type": "DDR4", "speed_mhz": 2400})]),
        ({"LocalDrives": [{"CapacityGiB": 300, "Type": "HDD", "MinRPM": 7200,
                           "Interface": "SAS"}, {}]},
         [("drive", "devices", 1, 1, {"capacity_bytes": 300 * GIB, "media": "HDD", "rpm": 7200,
                                      "protocol": "SAS"}),
          ("drive", "devices", 1, 1, {})]),
        ({"RemoteDrives": [{"CapacityGiB": 80}, {"CapacityGiB": 80}]},
         [("stock", "amount", 80, 1, {}), ("stock", "amount", 80, 1, {})]),
        ({"EthernetInterfaces": [{"SpeedMbps": 1000}], "NetworkInterfaces": [{}]},
         [("nic", "devices", 1, 1, {"speed_mbps": 1000}), ("nic", "devices", 1, 1, {})]),
        ({"TotalSystemCoreCount": 4, "Processors": None, "Memory": [], "Security": None},
         [("processor", "cores", 4, 1, {})]),
    )  # fmt: skip

    def test_each_word_asks_for_what_it_says(self):
        for body, expected in self.TABLE:
            with self.subTest(body):
                self.assertEqual(expected, needs(**body))

    def test_name_and_description_are_the_flavors(self):
        flavor = read(Name="n", Description="d", TotalSystemCoreCount=1).flavor
        self.assertEqual(("n", "d"), (flavor.name, flavor.description))
        self.assertEqual("rsd-allocate", read(TotalSystemCoreCount=1).flavor.name)


class TestWordsThatNobodyLooksAt(unittest.TestCase):
    """A property for later causes a remark, a restriction an error; neither is ignored."""

    def test_what_matters_later_is_remarked_on_with_its_place(self):
        for body, place in (
            ({"Boot": {"Target": "Pxe"}, "TotalSystemCoreCount": 1}, "$.Boot"),
            ({"EthernetInterfaces": [{}, {"VLANs": []}]}, "$.EthernetInterfaces[1].VLANs"),
            ({"NetworkInterfaces": [{"PrimaryVLAN": 4}]}, "$.NetworkInterfaces[0].PrimaryVLAN"),
            ({"RemoteDrives": [{"CapacityGiB": 1, "Protocol": "iSCSI"}]},
             "$.RemoteDrives[0].Protocol"),
            ({"RemoteDrives": [{"CapacityGiB": 1, "Master": {"Type": "Clone"}}]},
             "$.RemoteDrives[0].Master"),
            ({"Security": {"ClearTPMOnDelete": False}, "Memory": [{}]},
             "$.Security.ClearTPMOnDelete"),
            ({"Security": {"PersistentMemoryOperationOnDelete": "SecureErase"}, "Memory": [{}]},
             "$.Security.PersistentMemoryOperationOnDelete"),
        ):  # fmt: skip
            with self.subTest(place):
                (remark,) = read(**body).remarks
                self.assertTrue(remark.startswith(f"f: {place}: not used"), remark)

    def test_what_restricts_is_refused_with_what_to_do(self):
        for body, place, hint in (
            ({"Processors": [{}, {"Resource": {"@odata.id": "/x"}}]}, "Processors[1].Resource",
             "--podm"),
            ({"Memory": [{"Chassis": {}}]}, "Memory[0].Chassis", "--attribute"),
            ({"Memory": [{"Manufacturer": "X"}]}, "Memory[0].Manufacturer", "trait"),
            ({"Memory": [{"DataWidthBits": 64}]}, "Memory[0].DataWidthBits", "trait"),
            ({"LocalDrives": [{"SerialNumber": "1"}]}, "LocalDrives[0].SerialNumber", "remove it"),
            ({"LocalDrives": [{"FabricSwitch": False}]}, "LocalDrives[0].FabricSwitch", "same"),
            ({"Processors": [{"Oem": {"Brand": "E5"}}]}, "Processors[0].Oem", "trait"),
            ({"Processors": [{"Connectivity": ["Local"]}]}, "Processors[0].Connectivity", "remove"),
            ({"Security": {"TpmPresent": True}}, "Security.TpmPresent", "trait"),
            ({"SupportedPerformanceConfigurations": [1]}, "SupportedPerformanceConfigurations",
             "trait"),
            ({"Oem": {}}, "Oem", "trait"),
            ({"RemoteDrives": [{"CapacityGiB": 1, "Resource": {}}]}, "RemoteDrives[0].Resource",
             "--podm"),
        ):  # fmt: skip
            with self.subTest(place):
                line = refusal(read, **body)
                self.assertTrue(line.startswith(f"f: $.{place}: found a restriction"), line)
                self.assertIn(hint, line)

    def test_wrong_words_are_named_with_their_place(self):
        for body, line in (
            ({"TotalSystemCores": 4},
             "f: $: found unknown field 'TotalSystemCores' (did you mean 'TotalSystemCoreCount'?)"),
            ({"LocalDrives": [{"CapacityGB": 4}]},
             "f: $.LocalDrives[0]: found unknown field 'CapacityGB' (did you mean 'CapacityGiB'?)"),
            ({"LocalDrives": [{"VLANs": []}]},
             "f: $.LocalDrives[0]: found unknown field 'VLANs' "
             "(known: CapacityGiB, Interface, MinRPM, Type)"),
            ({"RemoteDrives": [{}]},
             "f: $.RemoteDrives[0]: found no field 'CapacityGiB', which is required"),
            ({"Name": "", "TotalSystemCoreCount": 1},
             'f: $.Name: found "", expected str of length >= 1'),
            ({"Processors": [{"Model": "", "TotalCores": 4}]},
             'f: $.Processors[0].Model: found "", expected str of length >= 1'),
            ({"Boot": {"Target": "Pxe"}},
             "f: $: found no requirement, expected at least one amount or device"),
            ({"Processors": [5]}, "f: $.Processors[0]: found 5, expected object"),
            ({"Memory": {"CapacityMiB": 4}},
             'f: $.Memory: found {"CapacityMiB":4}, expected array'),
            ({"Memory": [{"MemoryType": "NVDIMM_N"}]},
             "f: $.Memory[0].MemoryType: found 'NVDIMM_N', expected 'DRAM' (persistent memory is "
             "a stock: stocks: [{resource: cxl_pmem_mib, amount: ...}])"),
            ({"Processors": [{"ProcessorType": "GPU", "TotalCores": 5}]},
             "f: $.Processors[0].TotalCores: found a property of CPUs for a GPU, expected only "
             "ProcessorType and Model"),
            ({"Security": {"Tmp": 1}},
             "f: $.Security: found unknown field 'Tmp', expected one of ClearTPMOnDelete, "
             "PersistentMemoryOperationOnDelete, ClearOptaneDCPersistentMemoryOnDelete"),
            ({"Security": []}, "f: $.Security: found [], expected object | null"),
        ):  # fmt: skip
            with self.subTest(line):
                self.assertEqual(line, refusal(read, **body))
