# SPDX-License-Identifier: Apache-2.0
"""The pod manager dialect of the recipe, on a recorded export."""

import io
import unittest
from pathlib import Path

from valence_sched import App, Diagnostics, FullPodm, InputError, Selection, decode

from .rack_csv.rack_csv import records

RECORDED = str(Path(__file__).parent / "rack_csv" / "rack-7.csv")


class TestRackCsv(unittest.TestCase):
    """The driver."""

    def setUp(self):
        self.diagnostics = Diagnostics()
        (self.record,) = records(RECORDED, io.BytesIO(), self.diagnostics, {})
        self.podm = decode(self.record.json, FullPodm, self.record.file, self.record.place)

    def test_a_sled_is_a_block_with_its_devices(self):
        first = self.podm.blocks[0]
        self.assertEqual("/sleds/s1", first.uri)
        self.assertEqual(64, first.devices.processors[0].cores)
        self.assertEqual(524288, first.devices.memory[0].capacity_mib)
        self.assertEqual((2, "A100"), (first.devices.accelerators[0].count,
                                       first.devices.accelerators[0].model))  # fmt: skip

    def test_a_sled_in_use_is_not_free(self):
        self.assertEqual([1, 0, 1], [block.status.slots for block in self.podm.blocks])

    def test_what_the_export_does_not_tell_is_unknown_and_not_zero(self):
        self.assertIsNone(self.podm.blocks[2].devices.memory[0].capacity_mib)

    def test_a_bad_row_is_left_out_and_named(self):
        (line,) = self.diagnostics.lines("skipped")
        self.assertIn("rack-7.csv: line 5", line)
        self.assertIn("'many'", line)

    def test_another_export_is_refused(self):
        with self.assertRaisesRegex(InputError, "sled,cores"):
            list(records("-", io.BytesIO(b"name,size\n"), self.diagnostics, {}))

    def test_its_lines_are_an_inventory(self):
        view = App(stdin=io.BytesIO(self.record.json + b"\n")).loader.view(
            Selection(sources=("-",))
        )
        self.assertEqual(["rack-7"], [podm.id for podm in view.podms])
