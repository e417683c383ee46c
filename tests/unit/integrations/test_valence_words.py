# SPDX-License-Identifier: Apache-2.0
"""A request in Valence's words: the inverse of reading a Valence flavor, or why not."""

import unittest

import msgspec

from valence_sched.errors import RequestError
from valence_sched.integrations.dispatchers.valence import properties
from valence_sched.model.flavor import Flavor


def translated(**words):
    flavor = msgspec.convert({"name": "f", "properties": words}, Flavor)
    return properties(flavor.alternatives[0])


class TestWords(unittest.TestCase):
    """What comes out is what a Valence flavor says."""

    def test_what_valence_says_comes_back_as_it_was(self):
        for words in (
            {"processor": {"total_cores": 8}},
            {"processor": {"total_cores": 8, "model": "Xeon"},
             "memory": {"capacity_mib": 4096, "type": "DDR4"}},
            {"memory": {"capacity_mib": 1}, "pci_device": {"type": ["SSD", "NIC", "GPU", "GPU"]}},
            {"processor": {"total_cores": 1}, "remote_storage": {"capacity_gib": 20}},
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(words, translated(**words))

    def test_what_it_has_no_word_for_is_named(self):
        for words, line in (
            ({"processor": {"total_cores": 8, "speed_mhz": 2000}}, "speed_mhz of a processor"),
            ({"processor": {"sockets": 2}}, "processor as sockets"),
            ({"memory": {"capacity_mib": 1, "speed_mhz": 3200}}, "speed_mhz of a memory"),
            ({"accelerators": [{"kind": "GPU", "memory_mib": 1}]}, "by its kind, memory_mib"),
            ({"drives": [{"media": "HDD"}]}, "drive by its media"),
            ({"nics": [{"speed_mbps": 10}]}, "nic by its speed_mbps"),
            ({"resources": {"power": 3}}, "no word for power"),
            ({"accelerators": [{"count": 2, "same": "switch"}]}, "to be together or apart"),
        ):
            with self.subTest(words), self.assertRaisesRegex(RequestError, line):
                translated(**words)
