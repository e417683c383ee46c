# SPDX-License-Identifier: Apache-2.0
"""Devices of several blocks, and what a node is shown to have."""

import unittest

from valence_sched.model.claim import Grant
from valence_sched.model.composition import ComposedNode, sum_devices
from valence_sched.model.inventory import Accelerator, Devices, Memory
from valence_sched.model.lifecycle import NodeStatus
from valence_sched_cli.output.hardware import NodeHardwareCell

CARD = Accelerator(kind="GPU", model="A100")
GPU = Devices(accelerators=(CARD,))


class TestDevices(unittest.TestCase):
    def test_equal_devices_are_one_with_the_sum_of_their_counts(self):
        other = Devices(accelerators=(Accelerator(kind="GPU", model="A10", count=3),))
        found = sum_devices([GPU, other, GPU, Devices(memory=(Memory(capacity_mib=1024),))])
        counts = [(card.model, card.count) for card in found.accelerators]
        self.assertEqual([("A100", 2), ("A10", 3)], counts)
        self.assertEqual(1, len(found.memory))

    def test_a_count_that_is_unknown_is_not_added(self):
        unknown = Devices(accelerators=(Accelerator(kind="GPU", model="A100", count=None),))
        found = sum_devices([GPU, unknown, unknown])
        self.assertEqual([1, None], [card.count for card in found.accelerators])


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
