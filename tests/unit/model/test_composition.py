# SPDX-License-Identifier: Apache-2.0
"""The devices of several blocks together."""

import unittest

from valence_sched.model.composition import sum_devices
from valence_sched.model.inventory import Accelerator, Devices, Memory

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
