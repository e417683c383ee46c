# SPDX-License-Identifier: Apache-2.0
"""The very blocks of one podm."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.testing import view

BLOCKS = st.fixed_dictionaries({
    "pools": st.sampled_from([["p"], ["q"], ["p", "q"]]),
    "type": st.sampled_from([["Compute"], ["Memory"]]),
    "status": st.sampled_from([
        {}, {"state": "Composed"}, {"shareable": True, "max_compositions": 3},
        {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 3,
         "compositions": 1},
    ]),
    "places": st.sampled_from([{}, {"numa": "0"}, {"numa": "1"}]),
})  # fmt: skip


class TestShelf(unittest.TestCase):
    """Which of equal blocks goes first."""

    STATUS = {"shareable": True, "max_compositions": 2}  # noqa: RUF012

    def shelf(self, *blocks: dict):
        pools = [{"id": "p"}, {"id": "q"}]
        named = [{"uri": str(n), "pools": ["p"], **block} for n, block in enumerate(blocks)]
        seen = view({"id": "a", "pools": pools, "blocks": named})
        return seen.block_tables[0]

    @quietly(300)
    @given(st.lists(BLOCKS, max_size=9), st.sets(st.integers(0, 8)), st.integers(0, 1),
           st.integers(0, 4))  # fmt: skip
    def test_shared_first_then_those_in_the_fewest_pools_then_as_listed(
        self, blocks, taken, position, number
    ):
        shelf = self.shelf(*blocks)
        free = [block for block, slots in enumerate(shelf.slots) if slots]
        shelf = shelf.allocate([block for block in free if block in taken], [])
        here = [block for block in free if shelf.slots[block] and position in shelf.pools[block]]
        here.sort(key=lambda block: (not shelf.shared[block], len(shelf.pools[block]), block))
        kinds, spots, names = shelf.kinds, {}, ["numa"]
        for block in here:
            spots.setdefault((kinds[block], shelf.topology_values(block, names)), []).append(block)
        for kind in {*kinds}:
            alike = [block for block in here if kinds[block] == kind][:number]
            self.assertEqual(sorted(alike), shelf.free_blocks(position, {kind: number}))
        for spot, alike in spots.items():
            found = shelf.free_blocks_by_topology(position, {spot: number}, names)
            self.assertEqual(sorted(alike[:number]), found)

    def test_a_block_that_was_taken_once_and_may_be_shared_goes_first(self):
        shelf = self.shelf({"status": self.STATUS}, {"status": self.STATUS, "pools": ["p", "q"]})
        self.assertEqual([0], shelf.free_blocks(0, {0: 1}))
        after = shelf.allocate([1], [])
        self.assertEqual([1], after.free_blocks(0, {0: 1}))
        self.assertEqual([0, 1], after.free_blocks(0, {0: 2}))

    def test_a_block_without_a_slot_left_is_not_there(self):
        shelf = self.shelf({"status": self.STATUS}, {}).allocate([0, 1], []).allocate([0], [])
        self.assertEqual([], shelf.free_blocks(0, {0: 2}))

    def test_taking_leaves_the_shelf_that_was(self):
        shelf = self.shelf({}, {})
        shelf.allocate([0], [])
        self.assertEqual([1, 1], shelf.slots)
        self.assertEqual([False, False], shelf.shared)

    def test_blocks_of_another_pool_are_not_there(self):
        shelf = self.shelf({"pools": ["q"]}, {"pools": ["p", "q"]})
        self.assertEqual([1], shelf.free_blocks(0, {0: 5}))
        self.assertEqual([0], shelf.free_blocks(1, {0: 1}))

    def test_what_a_node_lets_go_comes_back_as_often_as_it_may_be_used(self):
        once = {"state": "Composed", "compositions": 1, "active": True}
        often = {**self.STATUS, "state": "Composed", "compositions": 2}
        shelf = self.shelf({"status": once}, {"status": often}, {}, {"status": {"reserved": True}})
        self.assertEqual([1, 1, 0, 0], shelf.gains)
        after = shelf.remove_node([0, 1, 2, 3])
        self.assertEqual([1, 1, 1, 0], after.slots)
        self.assertEqual([0, 0, 1, 0], shelf.slots)
        self.assertEqual([2, 1, 1, 0], after.remove_node([0]).slots)

    def test_letting_go_mends_nothing_but_the_use(self):
        for status in ({"state": "Failed"}, {"state": "Unavailable"}, {"state": "Composing"},
                       {"state": "Composed", "reserved": True}, {"state": "Unknown"},
                       {"state": "Composed", "health": "Critical"},
                       {"state": "Composed", "enabled": False}):  # fmt: skip
            with self.subTest(status=status):
                self.assertEqual([0], self.shelf({"status": status}).gains)
