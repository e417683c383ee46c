# SPDX-License-Identifier: Apache-2.0
"""Resources that say the same are understood once."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.redfish.content_memo import (
    MAX_CONTENT_BYTES,
    MAX_CONTENTS,
    ContentMemo,
)
from valence_sched.drivers.redfish.describe import MAX_SET_DEVICES, MAX_SETS, Describer
from valence_sched.drivers.redfish.device_schema import DriveDevice, ProcessorDevice
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Devices, Drive


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

    def test_what_is_noted_is_noted_for_each(self) -> None:
        for uri in "ab":
            self.assertIsNone(self._of(uri, CapacityBytes="much"))
        note = "CapacityBytes: found 'much', expected a number"
        self.assertEqual([f"{uri}: {note}" for uri in "ab"], self.notes.lines())

    def test_of_very_many_contents_or_long_ones_not_all_are_remembered(self) -> None:
        for size in (*range(MAX_CONTENTS + 1), MAX_CONTENTS, 0):
            self.assertEqual(size, self._of("a", CapacityBytes=size))
        self.assertEqual([MAX_CONTENTS, 0], [it["CapacityBytes"] for it in self.seen[-2:]])
        self.seen.clear()
        for _ in range(2):
            self._of("a", CapacityBytes=5, Model="x" * MAX_CONTENT_BYTES)
        self.assertEqual(2, len(self.seen))

    def test_a_number_that_cannot_be_written_is_read_and_refused(self) -> None:
        self.assertIsNone(self._of("a", CapacityBytes=2**80))
        self.assertEqual(1, len(self.notes))


class TestDescriber(TestCase):
    def setUp(self) -> None:
        self.notes, self.describer = Diagnostics(), Describer()

    def _describe(self, block: str, *contents: dict[str, Any], certain: bool = True) -> Devices:
        devices = [DriveDevice(f"/{block}/{at}", it, self.notes) for at, it in enumerate(contents)]
        for device in devices:
            device.certain = certain
        return self.describer.describe(devices)

    def test_equal_sets_of_devices_are_one_and_others_are_not(self) -> None:
        small, large = {"CapacityBytes": 5}, {"CapacityBytes": 7}
        first = self._describe("a", small, small)
        self.assertEqual((Drive(count=2, capacity_bytes=5),), first.drives)
        self.assertIs(first, self._describe("b", small, small))
        self.assertEqual((Drive(capacity_bytes=5),), self._describe("c", small).drives)
        both = (Drive(capacity_bytes=7), Drive(capacity_bytes=5))
        self.assertEqual(both, self._describe("d", large, small).drives)

    def test_devices_that_may_be_counted_elsewhere_are_of_unknown_number_there_alone(self) -> None:
        drive = {"CapacityBytes": 5}
        for _ in range(2):
            self.assertEqual((1,), tuple(it.count for it in self._describe("a", drive).drives))
            doubtful = self._describe("b", drive, certain=False).drives
            self.assertEqual((Drive(count=None, capacity_bytes=5),), doubtful)

    def test_what_is_noted_is_noted_for_each_block(self) -> None:
        for block in "ab":
            self._describe(block, {"CapacityBytes": 5}, {"CapacityBytes": "much"})
        note = "CapacityBytes: found 'much', expected a number"
        self.assertEqual([f"/{block}/1: {note}" for block in "ab"], self.notes.lines())

    def test_devices_that_cannot_be_written_are_described_and_noted_each_time(self) -> None:
        for block in "ab":
            found = self._describe(block, {"CapacityBytes": 2**80}).drives
            self.assertEqual((Drive(),), found)
        self.assertEqual(2, len(self.notes))

    def test_of_very_many_sets_or_large_ones_not_all_are_remembered(self) -> None:
        sets = [({"CapacityBytes": size},) for size in range(MAX_SETS + 1)]
        first, *_, last = [self._describe("a", *it) for it in sets]
        self.assertIs(last, self._describe("b", *sets[-1]))
        again = self._describe("b", *sets[0])
        self.assertEqual((first, False), (again, first is again))
        large = [{"CapacityBytes": 5}] * (MAX_SET_DEVICES + 1)
        one, two = (self._describe("c", *large) for _ in range(2))
        self.assertEqual((one, False), (two, one is two))
