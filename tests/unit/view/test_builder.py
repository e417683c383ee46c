# SPDX-License-Identifier: Apache-2.0
"""The builder: what it does once a pod manager, and not once a pool or block."""

import unittest
from collections.abc import Iterator
from typing import Any

import msgspec

from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.need import Need
from valence_sched.view.builder import ViewBuilder


class CountingTuple(tuple[Any, ...]):
    """Counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        CountingTuple.walks += 1
        return super().__iter__()


def podm(pools: int) -> LeanPodm:
    """Return a pod manager of so many pools, each with one block of its own."""
    document = {
        "id": "p",
        "pools": [{"id": f"p{number}"} for number in range(pools)],
        "blocks": [
            {"uri": f"/b/{number}", "type": ["Compute"], "pools": [f"p{number}"],
             "devices": {"processors": [{"cores": number % 5 + 1}]}}
            for number in range(pools)
        ],
    }  # fmt: skip
    found = msgspec.json.decode(to_json(document), type=LeanPodm)
    return msgspec.structs.replace(found, pools=CountingTuple(found.pools))


class TestBuilder(unittest.TestCase):
    """A pod manager with as many pools as blocks."""

    def walks(self, pools: int) -> int:
        CountingTuple.walks = 0
        ViewBuilder().add(podm(pools), "f")
        return CountingTuple.walks

    def test_the_pools_are_walked_no_more_often_where_there_are_more_of_them(self):
        """Once a block, 30,000 pools of one block each took minutes."""
        self.assertEqual(self.walks(3), self.walks(60))
        self.assertGreater(self.walks(3), 0)

    def test_each_block_is_in_its_own_pool(self):
        builder = ViewBuilder()
        builder.add(podm(40), "f")
        cores = builder.view().free(Need(kind="processor", measure="cores", amount=1)).tolist()
        self.assertEqual([number % 5 + 1 for number in range(40)], cores)
