# SPDX-License-Identifier: Apache-2.0
"""The public DMTF mockups, with numbers that were counted by hand from their documents.

The trees are not part of this project. ``doc/source/reference/recorded-trees.rst`` says how the
numbers were counted.
"""

import io
import unittest
from pathlib import Path

import msgspec

from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.recorded import records
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm

TREES = Path(__file__).parents[4].parent / "shared" / "data" / "dmtf"


def sums(blocks):
    def total(kind, what=None):
        lines = [line for block in blocks for line in getattr(block.devices, kind)]
        return sum(line.count * (getattr(line, what) if what else 1) for line in lines)

    return {
        "blocks": len(blocks),
        "cores": total("processors", "cores"),
        "memory_mib": total("memory", "capacity_mib"),
        "gpus": total("accelerators"),
        "drives": total("drives"),
    }


@unittest.skipUnless(TREES.is_dir(), f"the DMTF mockups are not at {TREES}")
class DmtfTreesTest(unittest.TestCase):
    def read(self, name):
        self.diagnostics = Diagnostics()
        (record,) = records(str(TREES / name), io.BytesIO(), self.diagnostics, DIALECTS)
        return msgspec.json.decode(record.json, type=FullPodm)

    def check(self, name, pools, every, free):
        podm = self.read(name)
        keys = ("blocks", "cores", "memory_mib", "gpus", "drives")
        self.assertEqual(pools, len(podm.pools))
        self.assertEqual(dict(zip(keys, every, strict=True)), sums(podm.blocks))
        unused = [block for block in podm.blocks if block.status.slots]
        self.assertEqual(dict(zip(keys, free, strict=True)), sums(unused))
        return podm

    def test_public_composability_has_the_numbers_counted_by_hand(self):
        podm = self.check("public-composability", 3, (12, 48, 81920, 1, 11), (7, 8, 8192, 1, 9))
        self.assertEqual(8, podm.pools[0].limits["Storage"].max)
        self.assertNotIn("Storage", podm.pools[2].limits)
        self.assertEqual(2, len(podm.nodes))

    def test_public_compose_action_has_the_numbers_counted_by_hand(self):
        podm = self.check("public-compose-action", 8, (14, 32, 65536, 0, 30), (9, 20, 40960, 0, 19))
        names = sorted(block.uri.rpartition("/")[2] for block in podm.blocks)
        self.assertEqual(["SASSled-1", "SASSled-2", "SASSled-3"], names[-3:])
        self.assertEqual(["Sled-1", "Sled-2"], [node.name for node in podm.nodes])

    def test_public_constrained_composition_has_the_numbers_counted_by_hand(self):
        self.check("public-constrained-composition", 2, (9, 32, 65536, 1, 8), (6, 0, 0, 1, 8))

    def test_public_cxl_has_stocks_and_no_blocks(self):
        podm = self.check("public-cxl", 0, (0, 0, 0, 0, 0), (0, 0, 0, 0, 0))
        stocks = [(stock.resource, stock.total, stock.used) for stock in podm.stocks]
        self.assertEqual(
            [
                ("cxl_memory_mib", 262144, 4096),
                ("cxl_pmem_mib", 16384, 16384),
                ("cxl_memory_mib", 262144, 4096),
                ("cxl_pmem_mib", 16384, 16384),
                ("cxl_pmem_mib", 262144, 4096),
                ("cxl_memory_mib", 16384, 16384),
            ],
            stocks,
        )
        self.assertEqual(3, sum("MemorySizeMiB" in problem for problem in self.diagnostics.lines()))

    def test_their_folder_is_four_pod_managers_and_other_files_are_passed_over(self):
        diagnostics = Diagnostics()
        found = [
            msgspec.json.decode(record.json)["id"]
            for record in records(str(TREES), io.BytesIO(), diagnostics, DIALECTS)
        ]
        names = ["composability", "compose-action", "constrained-composition", "cxl"]
        self.assertEqual([f"public-{name}" for name in names], found)
        self.assertFalse([problem for problem in diagnostics.lines() if "Manifest" in problem])


if __name__ == "__main__":
    unittest.main()
