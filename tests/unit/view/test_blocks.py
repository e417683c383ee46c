# SPDX-License-Identifier: Apache-2.0
"""The blocks of podms: their table, kinds, counts by row, and slots as arrays."""

import unittest
from collections import Counter

import numpy as np
from hypothesis import given, strategies as st
from msgspec import Raw

from tests.unit.core.sites import quietly
from valence_sched.errors import InputError
from valence_sched.model.inventory import (
    Accelerator,
    Devices,
    Drive,
    Memory,
    Nic,
    Processor,
    to_json,
)
from valence_sched.model.need import Need, Test
from valence_sched.planning.fit_counts import BlockSlots
from valence_sched.testing import view
from valence_sched.view.block_kinds import BlockKinds, device_amount, passes, price
from valence_sched.view.columns import block_arrays, decode_view, encode_view
from valence_sched.view.view import inventory_digest

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
    """The order of equal blocks."""

    STATUS = {"shareable": True, "max_compositions": 2}  # noqa: RUF012

    def table(self, *blocks: dict):
        pools = [{"id": "p"}, {"id": "q"}]
        pool_blocks = [{"uri": str(n), "pools": ["p"], **block} for n, block in enumerate(blocks)]
        site = view({"id": "a", "pools": pools, "blocks": pool_blocks})
        return site.block_tables[0]

    @quietly(100)
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

    def test_an_allocation_leaves_the_table_unchanged(self):
        table = self.table({}, {})
        table.allocate([0], [])
        self.assertEqual([1, 1], table.slots)
        self.assertEqual([False, False], table.shared)

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


class TestPasses(unittest.TestCase):
    CARD = Accelerator(kind="GPU", model="NVIDIA A100 80GB", memory_mib=81920)
    UNKNOWN = Accelerator(kind="GPU")

    def test_operators(self):
        for test, expected in (
            (Test("kind", "equal", "GPU"), True),
            (Test("kind", "equal", "gpu"), True),
            (Test("kind", "equal", "FPGA"), False),
            (Test("model", "words", "a100"), True),
            (Test("model", "equal", "A100"), False),
            (Test("memory_mib", "at_least", 81920), True),
            (Test("memory_mib", "at_least", 81921), False),
        ):
            with self.subTest(test):
                self.assertIs(expected, passes(test, self.CARD))

    def test_an_unknown_attribute_passes_only_where_the_unknown_is_allowed(self):
        for test in (Test("model", "words", "a100"), Test("memory_mib", "at_least", 1)):
            self.assertFalse(passes(test, self.UNKNOWN))
            self.assertFalse(passes(test, self.UNKNOWN, "reject"))
            self.assertTrue(passes(test, self.UNKNOWN, "allow"))

    def test_a_known_wrong_value_fails_where_the_unknown_is_allowed(self):
        self.assertFalse(passes(Test("memory_mib", "at_least", 10**9), self.CARD, "allow"))


class TestAmount(unittest.TestCase):
    """The amount of a need that one line of devices supplies."""

    CORES = Need(kind="processor", measure="cores", amount=24)

    def test_totals_count_each_device_of_a_line(self):
        self.assertEqual(32, device_amount(self.CORES, "processor", Processor(count=2, cores=16)))

    def test_cores_of_an_accelerator_are_not_cores(self):
        self.assertEqual(0, device_amount(self.CORES, "accelerator", Accelerator(kind="GPU")))

    def test_an_unknown_amount_is_0_or_the_whole_need(self):
        allow = Need(kind="processor", measure="cores", amount=24, unknown="allow")
        self.assertEqual(0, device_amount(self.CORES, "processor", Processor(count=2)))
        self.assertEqual(24, device_amount(allow, "processor", Processor(count=2)))

    def test_devices_of_an_unknown_count_are_0_or_the_whole_need(self):
        for kind, measure, device in (
            ("drive", "devices", Drive(count=None)),
            ("processor", "sockets", Processor(count=None)),
            ("processor", "cores", Processor(count=None, cores=16)),
        ):
            for unknown, amount in (("reject", 0), ("allow", 3)):
                need = Need(kind=kind, measure=measure, amount=3, unknown=unknown)
                with self.subTest(need):
                    self.assertEqual(amount, device_amount(need, kind, device))
        self.assertEqual(price(Devices()), price(Devices(drives=(Drive(count=None),))))

    def test_sockets_and_devices_are_counted(self):
        sockets = Need(kind="processor", measure="sockets", amount=1)
        cards = Need(kind="accelerator", measure="devices", amount=1)
        self.assertEqual(2, device_amount(sockets, "processor", Processor(count=2)))
        self.assertEqual(3, device_amount(cards, "accelerator", Accelerator(kind="GPU", count=3)))


class TestPrice(unittest.TestCase):
    def test_prices_by_hand(self):
        for devices, points in (
            (Devices(), 10),
            (Devices(processors=(Processor(count=2, cores=16),)), 10 + 3200),
            (Devices(processors=(Processor(count=2),)), 10),
            (Devices(memory=(Memory(count=4, capacity_mib=16384),)), 10 + 8192),
            (Devices(accelerators=(Accelerator(kind="GPU", count=2),)), 10 + 40_000),
            (Devices(drives=(Drive(count=2, capacity_bytes=10 << 30),)), 10 + 2 * 1010),
            (Devices(nics=(Nic(count=3),)), 10 + 600),
        ):
            with self.subTest(devices):
                self.assertEqual(points, price(devices))


class TestKinds(unittest.TestCase):
    def test_kind_0_is_a_block_of_nothing(self):
        kinds = BlockKinds()
        self.assertEqual((1, Devices()), (len(kinds), kinds.kinds[0].devices))
        self.assertEqual(0, kinds.number((), None, "f", "$"))

    def test_the_same_devices_in_other_words_are_the_same_kind(self):
        kinds = BlockKinds()
        one = kinds.number(("Compute",), Raw(b'{"processors":[{"cores":8,"count":1}]}'), "f", "$")
        two = kinds.number(("Compute",), Raw(b'{ "processors": [ {"cores": 8} ] }'), "f", "$")
        other = kinds.number(("Processor",), Raw(b'{"processors":[{"cores":8}]}'), "f", "$")
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)
        self.assertEqual(3, len(kinds))

    def test_amounts_grow_with_the_kinds(self):
        kinds = BlockKinds()
        need = Need(kind="processor", measure="cores", amount=1)
        self.assertEqual([0], kinds.amounts(need).tolist())
        kinds.number((), Raw(b'{"processors":[{"cores":8},{"cores":4,"count":2}]}'), "f", "$")
        self.assertEqual([0, 16], kinds.amounts(need).tolist())
        self.assertFalse(kinds.amounts(need).flags.writeable)

    def test_the_unit_of_amounts_beyond_64_bits_is_exact(self):
        kinds, need = BlockKinds(), Need(kind="memory", measure="capacity_mib", amount=1)
        for mib, count in ((1 << 52, 1 << 40), (1 << 20, 3)):
            devices = Devices(memory=(Memory(capacity_mib=mib, count=count),))
            kinds.number((), Raw(to_json(devices)), "f", "$")
        self.assertEqual(1 << 20, kinds.whole_amount(need).amount)

    def test_devices_that_are_none_are_refused_by_their_place(self):
        with self.assertRaisesRegex(InputError, r"site\.json: \$\.x\.processors\[0\]\.cores"):
            BlockKinds().number((), Raw(b'{"processors":[{"cores":"many"}]}'), "site.json", "$.x")


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
    """Nodes that are placed one after another."""

    @quietly(100)
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
