# SPDX-License-Identifier: Apache-2.0
"""Where a block sits, read from the links of the block and its devices."""

import unittest

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.describe import Describer, block_topology
from valence_sched.drivers.redfish.schema import Device, DriveDevice, ProcessorDevice, ResourceBlock
from valence_sched.model.diagnostic import Diagnostics

FABRICS = "/redfish/v1/Fabrics"


def link(*uris: str) -> list[dict]:
    return [{"@odata.id": uri} for uri in uris]


def device(number: int, **links) -> Device:
    return ProcessorDevice(f"/p/{number}", {"Links": links}, notes.append)


notes: list[str] = []


class TestPlaces(unittest.TestCase):
    """Chassis, fabric, switch."""

    def topology(self, *devices: Device, **links) -> dict[str, str] | None:
        service = LinkedDocuments(lambda uri: None, notes.append)
        block = ResourceBlock("/b", {"Links": links}, notes.append)
        return block_topology(service, block, list(devices))

    def test_nothing_linked_is_nothing_told(self):
        self.assertIsNone(self.topology(device(1)))

    def test_the_chassis_of_the_block_goes_before_those_of_its_devices(self):
        card = device(1, Chassis=link("/c/2"))
        self.assertEqual({"chassis": "/c/1"}, self.topology(card, Chassis=link("/c/1")))
        self.assertEqual({"chassis": "/c/2"}, self.topology(card))

    def test_a_chassis_that_is_not_named_is_noted_with_its_block(self):
        notes.clear()
        service = LinkedDocuments(lambda uri: None, Diagnostics())
        block = ResourceBlock("/b", {"Links": {"Chassis": [{}]}}, service.notes)
        self.assertEqual({}, block_topology(service, block, []) or {})
        what = "/b: found a link without @odata.id, expected one"
        self.assertEqual([what], service.notes.lines())

    def test_what_several_values_are_told_of_is_not_told(self):
        self.assertIsNone(self.topology(Chassis=link("/c/1", "/c/2")))
        pair = [device(n, Chassis=link(f"/c/{n}")) for n in (1, 2)]
        self.assertIsNone(self.topology(*pair))

    def test_fabric_and_switch_are_read_from_the_uris_of_links(self):
        at_switch = device(1, ConnectedSwitchPorts=link(f"{FABRICS}/F/Switches/S/Ports/3"))
        in_fabric = device(2, Endpoints=link(f"{FABRICS}/F/Endpoints/E"))
        expected = {"fabric": f"{FABRICS}/F", "switch": f"{FABRICS}/F/Switches/S"}
        self.assertEqual(expected, self.topology(at_switch, in_fabric))
        other = device(3, Endpoints=link(f"{FABRICS}/G/Endpoints/E"))
        self.assertEqual({"switch": f"{FABRICS}/F/Switches/S"}, self.topology(at_switch, other))

    def test_a_device_that_is_absent_says_nothing(self):
        gone = device(1, Chassis=link("/c/2"))
        gone.json["Status"] = {"State": "Absent"}
        self.assertIsNone(self.topology(gone))


class TestRemote(unittest.TestCase):
    """Drives behind a network."""

    def test_the_protocol_tells_whether_a_drive_is_remote(self):
        for protocol, remote in (
            ("NVMeOverFabrics", True), ("iSCSI", True), ("FC", True), ("FCoE", True),
            ("NVMe", False), ("SAS", False), ("SATA", False), ("PCIe", False), (None, None),
        ):  # fmt: skip
            with self.subTest(protocol):
                drive = DriveDevice("/d", {"Protocol": protocol}, notes.append)
                self.assertEqual(remote, Describer().describe([drive]).drives[0].remote)
