# SPDX-License-Identifier: Apache-2.0
"""Resources that say the same are understood once."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.redfish.describe import ContentMemo
from valence_sched.drivers.redfish.device_schema import DriveDevice, ProcessorDevice
from valence_sched.model.diagnostic import Diagnostics


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

    def test_a_number_that_cannot_be_written_is_read_and_refused(self) -> None:
        self.assertIsNone(self._of("a", CapacityBytes=2**80))
        self.assertEqual(1, len(self.notes))
