# SPDX-License-Identifier: Apache-2.0
"""What a node is shown to have."""

import re
import unittest
from unittest import mock

from valence_sched.model.claim import Grant
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.lifecycle import NodeStatus
from valence_sched_cli.output.hardware import BarCell, NodeHardwareCell

GPU = Devices(accelerators=(Accelerator(kind="GPU", model="A100"),))


class TestHardware(unittest.TestCase):
    def test_amounts_and_blocks_that_are_not_known_are_told(self):
        node = ComposedNode(id="n", podm="p", uri="/n", claim="c",
                            grants=(Grant("m", 64.0, "memory", "GiB"),))  # fmt: skip
        cell = NodeHardwareCell(NodeStatus(node=node, state="COMPOSED", devices=GPU,
                                           unknown_blocks=2))  # fmt: skip
        self.assertEqual("1 GPU A100, 64 GiB memory, 2 blocks unknown",
                         " ".join(cell.human_readable().split()))  # fmt: skip
        told = cell.machine_readable()
        self.assertEqual((2, 64.0), (told["unknown_blocks"], told["amounts"][0]["amount"]))
        bare = NodeHardwareCell(NodeStatus(node=ComposedNode(id="n", podm="p", uri="/n", claim="c"),
                                           state="COMPOSED"))  # fmt: skip
        self.assertEqual(("", {}), (bare.human_readable(), bare.machine_readable()))

    def test_a_bar_is_in_the_colour_of_what_is_free_and_its_words_are_plain(self):
        with mock.patch.dict("os.environ", {"COLORTERM": "truecolor"}):
            cell = BarCell(1, 4)
            text = cell.human_readable()
            self.assertEqual("[########--] 1 of 4 free", text)
            coloured = cell.coloured(text)
        self.assertEqual(text, re.sub("\x1b[^m]*m", "", coloured))
        self.assertRegex(coloured, "^\\[\x1b[^m]*m########\x1b\\[0m--] 1 of 4 free$")
        for free, total in ((4, 4), (None, 4), (0, 0), (0, None)):
            whole = BarCell(free, total)
            self.assertEqual(whole.human_readable(), whole.coloured(whole.human_readable()))
