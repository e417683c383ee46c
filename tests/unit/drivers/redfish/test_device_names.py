# SPDX-License-Identifier: Apache-2.0
"""Names of devices: which identify one, which identify none, and names in several blocks."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from tests.unit.drivers.redfish.test_device_identity import Case, V, links
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.redfish.device_identity import names_of
from valence_sched.drivers.redfish.schema import Device, DriveDevice, EthernetInterface, Port


class TestNamesOf(TestCase):
    """All names of one device."""

    def names(self, type_: type[Device], **json: Any) -> set[tuple[str, str]]:
        found = names_of(type_("/d", json, NO_NOTES))
        kind = "drive" if type_ is DriveDevice else "network interface"
        self.assertTrue(all(it[0] == kind for it in found))
        return {it[1:] for it in found}

    def test_each_name_counts_in_small_letters_and_placeholders_do_not(self) -> None:
        place = {"PartLocation": {"ServiceLabel": "Bay  3"}}
        names = self.names(
            DriveDevice, SerialNumber=" S1 ", UUID="9F-1", PhysicalLocation=place,
            Links={"Chassis": {"@odata.id": "/C/1"}},
            Identifiers=[{"DurableName": "D1"}, {"DurableName": "N/A"}, {"DurableName": "0:0"}],
        )  # fmt: skip
        expected = {("serial number", "s1"), ("UUID", "9f-1"), ("durable name", "d1"),
                    ("slot", "bay 3 of /c/1")}  # fmt: skip
        self.assertEqual(expected, names)
        self.assertEqual(set(), self.names(DriveDevice, CapacityBytes=5))

    def test_a_network_interface_has_its_addresses_beside_its_other_names(self) -> None:
        one, other = "AA:00:00:00:00:01", "AA:00:00:00:00:02"
        serial, address = ("serial number", "s1"), ("address", one.lower())
        for permanent, found in ((None, {serial, ("address", other.lower())}),
                                 (one, {serial, address})):  # fmt: skip
            macs = {"MACAddress": other, "PermanentMACAddress": permanent}
            self.assertEqual(found, self.names(EthernetInterface, SerialNumber="S1", **macs))
        ethernet = {"AssociatedMACAddresses": [one]}
        found = self.names(
            Port, SerialNumber="S1", Ethernet=ethernet, AssociatedNetworkAddresses=[other]
        )
        self.assertEqual({serial, address, ("address", other.lower())}, found)


class TestNames(Case):
    """Names that identify nothing, and names in several blocks."""

    def test_a_name_that_firmware_copied_identifies_nothing_and_is_noted_once(self) -> None:
        drives = [self.drive(f"/d/{i}", SerialNumber="K1") for i in range(3)]
        self.block("b", Storage=self.storage("/St", *drives))
        self.assertEqual([3], self.counts())
        (note,) = self.notes.lines()
        what = "found serial number k1 of a drive on several, expected it on one"
        self.assertTrue(note.endswith(f"{what} (it identifies none of them)"), note)

    def test_of_several_copied_names_one_is_noted_and_how_many_others_there_are(self) -> None:
        names = {"UUID": "9f-1", "SerialNumber": "K1", "Identifiers": [{"DurableName": "Z9"}]}
        for number, others in ((2, "nor does 1 other name"), (3, "nor do 2 other names")):
            self.setUp()
            copied = dict(list(names.items())[:number])
            self.block("b", Drives=links(*(self.drive(f"/d/{i}", **copied) for i in range(3))))
            self.assertEqual([3], self.counts())
            (note,) = self.notes.lines()
            self.assertIn("of a drive on several, expected it on one", note)
            self.assertTrue(note.endswith(f"(it identifies none of them, {others})"), note)

    def test_of_two_members_of_one_list_with_one_name_one_is_uncertain(self) -> None:
        drives = [self.drive(f"/d/{i}", SerialNumber="K1") for i in range(2)]
        self.block("b", Drives=links(*drives))
        self.assertEqual([1, None], self.counts())
        self.assertTrue(self.noted("/d/1: found the serial number of", "is unknown"))

    def test_a_slot_of_several_members_of_one_list_identifies_none_of_them(self) -> None:
        place = {"PhysicalLocation": {"PartLocation": {"ServiceLabel": "Bay 3"}},
                 "Links": {"Chassis": {"@odata.id": f"{V}/C/1"}}}  # fmt: skip
        self.block("b", Drives=links(*(self.drive(f"/d/{i}", **place) for i in range(2))))
        self.assertEqual([2], self.counts())
        self.assertTrue(self.noted(f"found slot bay 3 of {V.casefold()}/c/1 of a drive on several"))

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
        self.assertTrue(self.noted("/a: found in", "/ResourceBlocks/b has it"))

    def test_a_name_in_many_blocks_is_copied(self) -> None:
        for name in "abc":
            self.block(name, Drives=links(self.drive(f"/{name}", SerialNumber="Z9")))
        self.assertEqual([[1], [1], [1]], [self.counts(block=it) for it in range(3)])
        self.assertTrue(self.noted("serial number z9", "identifies none"))
