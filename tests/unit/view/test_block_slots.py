# SPDX-License-Identifier: Apache-2.0
"""Block slots as arrays: nodes take the same blocks of them as of block tables."""

import unittest
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.view.test_blocks import BLOCKS
from valence_sched.testing import view
from valence_sched.view.block_columns import block_arrays
from valence_sched.view.block_slots import BlockSlots
from valence_sched.view.columns import decode_view, encode_view

POOLS = [{"id": "p"}, {"id": "q"}]
SITES = st.lists(st.lists(BLOCKS, max_size=9), min_size=1, max_size=3)


def site(podms: list) -> object:
    """Return the View of pod managers with two pools each, by their blocks."""
    return view(*(
        {"id": f"podm-{number}", "pools": POOLS,
         "blocks": [{"uri": str(n), **block} for n, block in enumerate(blocks)]}
        for number, blocks in enumerate(podms)
    ))  # fmt: skip


class TestBlockSlots(unittest.TestCase):
    """Nodes that are taken one after another."""

    @quietly(300)
    @given(SITES, st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=12))
    def test_nodes_take_the_blocks_that_block_tables_have(self, podms, nodes):
        seen = site(podms)
        slots, tables = BlockSlots(seen), list(seen.block_tables)
        starts = np.cumsum([0, *map(len, podms)])
        for choice, number in nodes:
            row = choice % len(seen)
            podm, position = int(seen.podm_of[row]), int(seen.position_of[row])
            free = tables[podm].free_by_topology(position, [])
            wanted = {kind: min(number, count) for (kind, _), count in free.items()}
            entries = np.array([seen.block_counts.entry(row, kind) for kind in wanted], dtype=int)
            blocks = tables[podm].free_blocks(position, wanted)
            tables[podm] = tables[podm].allocate(blocks, ())
            full = {int(starts[podm]) + block for block in blocks if not tables[podm].slots[block]}
            found = slots.take(entries, np.array(list(wanted.values()), dtype=int))
            self.assertEqual(full, set(found.tolist()))
            self.assertEqual(len(full), len(found))

    @quietly(100)
    @given(SITES)
    def test_every_block_is_counted_where_it_is(self, podms):
        seen = site(podms)
        slots = BlockSlots(seen)
        every = np.arange(sum(map(len, podms)))
        in_pools = np.zeros(len(seen.block_counts.kind))
        np.add.at(in_pools, slots.entries(every), 1)
        self.assertEqual(seen.block_counts.total.tolist(), in_pools.tolist())
        totals = np.zeros(len(seen.podm_block_counts.kind))
        np.add.at(totals, slots.of.podm_entry, 1)
        self.assertEqual(seen.podm_block_counts.total.tolist(), totals.tolist())


class TestBlockArrays(unittest.TestCase):
    """Block tables as arrays."""

    BLOCKS = [{"pools": ["p"], "type": ["Compute"]}, {"pools": ["p", "q"], "type": ["Memory"]}]  # noqa: RUF012

    def arrays(self, tables: object) -> list:
        found = block_arrays(tables)
        pools = [found.positions[code] for code in found.pools.tolist()]
        return [*(part.tolist() for part in found[:4]), pools]

    def test_stored_tables_give_them_without_being_made(self):
        seen = site([self.BLOCKS, self.BLOCKS])
        stored = decode_view(memoryview(b"".join(encode_view(seen)))).block_tables
        self.assertEqual(self.arrays(seen.block_tables), self.arrays(stored))
        self.assertEqual(Counter([type(None)] * 2), Counter(map(type, list.__iter__(stored))))

    def test_another_table_in_the_place_of_a_stored_one_counts(self):
        seen = site([self.BLOCKS, self.BLOCKS])
        stored = decode_view(memoryview(b"".join(encode_view(seen)))).block_tables
        seen.block_tables[1] = stored[1] = stored[1].only()
        self.assertEqual(self.arrays(seen.block_tables), self.arrays(stored))
        self.assertEqual([0, 0], block_arrays(stored).slots[2:].tolist())
