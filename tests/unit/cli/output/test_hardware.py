# SPDX-License-Identifier: Apache-2.0
"""What a node is shown to have."""

import unittest

from valence_sched.model.claim import Grant
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.lifecycle import NodeStatus
from valence_sched_cli.output.hardware import NodeHardwareCell

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
