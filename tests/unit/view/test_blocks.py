# SPDX-License-Identifier: Apache-2.0
"""The block table of one podm: allocation of its blocks, and their topology."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.testing import view
from valence_sched.view.digest import inventory_digest

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


class TestBlockTable(unittest.TestCase):
    """Which of equal blocks goes first."""

    STATUS = {"shareable": True, "max_compositions": 2}  # noqa: RUF012

    def table(self, *blocks: dict):
        pools = [{"id": "p"}, {"id": "q"}]
        pool_blocks = [{"uri": str(n), "pools": ["p"], **block} for n, block in enumerate(blocks)]
        site = view({"id": "a", "pools": pools, "blocks": pool_blocks})
        return site.block_tables[0]

    @quietly(300)
    @given(st.lists(BLOCKS, max_size=9), st.sets(st.integers(0, 8)), st.integers(0, 1),
           st.integers(0, 4))  # fmt: skip
    def test_shared_first_then_those_in_the_fewest_pools_then_as_listed(
        self, blocks, allocated, position, number
    ):
        table = self.table(*blocks)
        free = [block for block, slots in enumerate(table.slots) if slots]
        table = table.allocate([block for block in free if block in allocated], [])
        in_pool = [block for block in free if table.slots[block] and position in table.pools[block]]
        in_pool.sort(key=lambda block: (not table.shared[block], len(table.pools[block]), block))
        kinds, by_topology, names = table.kinds, {}, ["numa"]
        for block in in_pool:
            by_topology.setdefault((kinds[block], table.topology_values(block, names)), []).append(
                block
            )
        for kind in {*kinds}:
            alike = [block for block in in_pool if kinds[block] == kind][:number]
            self.assertEqual(sorted(alike), table.free_blocks(position, {kind: number}))
        for key, alike in by_topology.items():
            blocks_found = table.free_blocks_by_topology(position, {key: number}, names)
            self.assertEqual(sorted(alike[:number]), blocks_found)

    def test_a_shareable_block_that_was_allocated_once_goes_first(self):
        table = self.table({"status": self.STATUS}, {"status": self.STATUS, "pools": ["p", "q"]})
        self.assertEqual([0], table.free_blocks(0, {0: 1}))
        after = table.allocate([1], [])
        self.assertEqual([1], after.free_blocks(0, {0: 1}))
        self.assertEqual([0, 1], after.free_blocks(0, {0: 2}))

    def test_a_block_without_a_free_slot_is_not_free(self):
        table = self.table({"status": self.STATUS}, {}).allocate([0, 1], []).allocate([0], [])
        self.assertEqual([], table.free_blocks(0, {0: 2}))

    def test_an_allocation_leaves_the_table_unchanged(self):
        table = self.table({}, {})
        table.allocate([0], [])
        self.assertEqual([1, 1], table.slots)
        self.assertEqual([False, False], table.shared)

    def test_its_text_and_what_it_equals_depend_on_the_state_and_not_on_what_was_read(self):
        table, other = self.table({}, {}), self.table({}, {})
        before = repr(table)
        self.assertIn("slots=[1, 1]", before)
        self.assertEqual([0], table.free_blocks(0, {0: 1}))
        self.assertEqual([], list(table.stocks_of(0, "gib")))
        self.assertEqual(before, repr(table))
        self.assertEqual(other, table)
        after = table.allocate([0], [])
        self.assertNotEqual(before, repr(after))
        self.assertNotEqual(table, after)

    def test_blocks_of_another_pool_are_not_free_here(self):
        table = self.table({"pools": ["q"]}, {"pools": ["p", "q"]})
        self.assertEqual([1], table.free_blocks(0, {0: 5}))
        self.assertEqual([0], table.free_blocks(1, {0: 1}))

    def test_blocks_of_a_removed_node_are_free_as_often_as_they_may_be_used(self):
        once = {"state": "Composed", "compositions": 1, "active": True}
        often = {**self.STATUS, "state": "Composed", "compositions": 2}
        table = self.table({"status": once}, {"status": often}, {}, {"status": {"reserved": True}})
        self.assertEqual([1, 1, 0, 0], table.gains)
        after = table.remove_node([0, 1, 2, 3])
        self.assertEqual([1, 1, 1, 0], after.slots)
        self.assertEqual([0, 0, 1, 0], table.slots)
        self.assertEqual([2, 1, 1, 0], after.remove_node([0]).slots)

    def test_a_removal_ends_nothing_but_the_use(self):
        for status in ({"state": "Failed"}, {"state": "Unavailable"}, {"state": "Composing"},
                       {"state": "Composed", "reserved": True}, {"state": "Unknown"},
                       {"state": "Composed", "health": "Critical"},
                       {"state": "Composed", "enabled": False}):  # fmt: skip
            with self.subTest(status=status):
                self.assertEqual([0], self.table({"status": status}).gains)


class TestTopology(unittest.TestCase):
    """Blocks without topology cost nothing."""

    def test_a_podm_whose_blocks_have_no_topology_stores_none(self):
        self.assertIsNone(
            view({"id": "a", "blocks": [{"uri": "1"}, {"uri": "2"}]}).block_tables[0].topologies
        )

    def test_equal_topologies_are_one_object_and_unknown_values_stay_unknown(self):
        topology = {"pcie_root": "x", "chassis": "c"}
        blocks = [{"uri": str(n), **({"places": topology} if n else {})} for n in range(3)]
        table = view({"id": "a", "blocks": blocks}).block_tables[0]
        self.assertIsNone(table.topologies[0])
        self.assertIs(table.topologies[1], table.topologies[2])
        self.assertEqual(("c", None), table.topology_values(1, ("chassis", "switch")))
        self.assertEqual((None, None), table.topology_values(0, ("chassis", "switch")))

    def test_the_topology_is_part_of_the_inventory_digest(self):
        one, other, none = (
            view({"id": "a", "blocks": [{"uri": "1", **fields}]})
            for fields in ({"places": {"chassis": "c"}}, {"places": {"chassis": "d"}}, {})
        )
        self.assertEqual(3, len({inventory_digest(site) for site in (one, other, none)}))
