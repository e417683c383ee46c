# SPDX-License-Identifier: Apache-2.0
"""A View built of pod managers, of bytes, or of a View with one podm replaced; its digest."""

import gc
import random
import unittest
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.sites import quietly
from tests.unit.view.same import assert_same_view
from tests.unit.view.test_view import FULL_SITES
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.need import Need
from valence_sched.testing import view
from valence_sched.testing.generate import podms
from valence_sched.view.blocks import BlockTable
from valence_sched.view.builder import Splice, ViewBuilder, splice
from valence_sched.view.columns import BlockColumns, decode_view, encode_view
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View, inventory_digest

TOPOLOGY = {
    "id": "racks",
    "facts": {"year": 2025.0, "rack": "R1", "tags": ["a", "b"]},
    "pools": [{"id": "left", "traits": ["FAST"]}, {"id": "right"}],
    "blocks": [
        {"uri": "/one", "pools": ["left", "right"], "places": {"switch": "s1"}},
        {"uri": "/two", "pools": ["right"], "type": ["Compute"], "status": {"state": "Composed"}},
        {"uri": "/\N{SNOWMAN}", "pools": [], "places": {"switch": "s1", "chassis": "c"}},
    ],
    "stocks": [{"uri": "/gib", "resource": "gib", "pools": ["left"], "total": 5, "step": 0.5}],
    "nodes": [{"uri": "/node", "blocks": ["/two"], "owner": "team"}],
}
BARE = {"id": "bare", "zone": "z", "status": "Offline", "enabled": False}


def random_view(count: int = 20, blocks: int = 30, stocks: int = 2) -> View:
    """Return a view of random pod managers, and of some with rare properties."""
    builder = ViewBuilder()
    texts = [*podms(count, blocks, 1, pools=3, stocks=stocks), msgspec.json.encode(TOPOLOGY),
             msgspec.json.encode(BARE), *podms(0, 0, 1)]  # fmt: skip
    for number, text in enumerate(texts):
        builder.add(msgspec.json.decode(text, type=LeanPodm), f"file {number}")
    return builder.view()


def encoded(view: View) -> bytes:
    return b"".join(encode_view(view))


def decoded(data: bytes) -> View:
    return decode_view(memoryview(data))


def states(tables: Iterable[BlockTable]) -> list[dict[str, Any]]:
    """Return the fields of block tables, without the values that they derive when read."""
    return [
        {name: one for name, one in msgspec.structs.asdict(table).items() if name[0] != "_"}
        for table in tables
    ]


class TestColumns(unittest.TestCase):
    """Random pod managers, and each form of a pod manager."""

    def setUp(self):
        self.view = random_view()
        self.data = encoded(self.view)

    def test_a_view_is_the_same_after_it_was_bytes(self):
        restored = decoded(self.data)
        assert_same_view(self, self.view, restored)
        self.assertEqual(inventory_digest(self.view), inventory_digest(restored.without_memo()))
        self.assertEqual(states(self.view.block_tables), states(restored.block_tables))

    def test_the_columns_of_blocks_are_freed_without_a_garbage_collection(self):
        gc.disable()
        self.addCleanup(gc.enable)
        columns = BlockColumns(view({"id": "a", "blocks": [{"uri": "b"}]}).block_tables)
        columns.arrays()
        reference = weakref.ref(columns)
        del columns
        self.assertIsNone(reference())

    def test_numbers_of_any_size_and_views_of_nothing_are_kept(self):
        huge = {"id": "a", "blocks": [
            {"uri": f"/{n}", "status": {"shareable": True, "max_compositions": n}}
            for n in (1, 300, 70_000, 5_000_000_000)]}  # fmt: skip
        for site in (view(huge), view({"id": "a"}), ViewBuilder().view()):
            restored = decoded(encoded(site))
            assert_same_view(self, site, restored)
        restored = decoded(encoded(view(huge)))
        self.assertEqual(inventory_digest(view(huge)),
                         inventory_digest(restored.without_memo()))  # fmt: skip

    def test_the_digest_of_the_inventory_is_not_computed_again(self):
        restored = decoded(self.data)
        self.assertEqual(inventory_digest(self.view), inventory_digest(restored))
        self.assertEqual([None] * len(self.view.podms), list(list.__iter__(restored.block_tables)))

    def test_the_bytes_of_a_view_that_was_bytes_are_the_same(self):
        self.assertEqual(self.data, encoded(decoded(self.data)))

    def test_the_kinds_go_on_from_where_they_were(self):
        restored = decoded(self.data)
        text = msgspec.json.encode({
            "id": "new", "blocks": [{"uri": "/b", "devices": {"nics": [{"speed_mbps": 7}]}}]
        })  # fmt: skip
        views = []
        for site in (self.view, restored):
            builder = ViewBuilder(site.kinds)
            builder.add(msgspec.json.decode(text, type=LeanPodm), "new")
            views.append(splice(site, len(site.podms), builder.view())[0])
        assert_same_view(self, *views)

    def test_an_overlay_changes_a_copy_alone(self):
        restored = decoded(self.data)
        overlay = Overlay(restored)
        tables = overlay.view.block_tables
        free = next(i for i, slots in enumerate(tables[0].slots) if slots)
        row = int(restored.first_row[0])
        self.assertIs(tables[0], restored.block_tables[0])
        overlay.allocate(row, [free], [])
        self.assertEqual(0, overlay.view.block_tables[0].slots[free])
        self.assertEqual(1, restored.block_tables[0].slots[free])
        self.assertIs(tables[1], restored.block_tables[1])

    def test_block_tables_are_a_list_in_every_way(self):
        tables, plain = decoded(self.data).block_tables, self.view.block_tables
        self.assertEqual(len(plain), len(tables))
        self.assertEqual(states(plain[2:7]), states(tables[2:7]))
        self.assertEqual(states(plain[-1:]), states([tables[-1]]))
        self.assertEqual(states(plain + plain[:1]), states(tables + tables[:1]))
        self.assertEqual(states(plain), states(list(tables)))
        self.assertEqual(states(plain), states(tables.copy()))
        with self.assertRaises(IndexError):
            tables[len(plain)]

    def test_any_damage_is_noticed(self):
        random_ = random.Random(1)
        for size in (0, 1, 20, 38, 39, 100, len(self.data) // 2, len(self.data) - 1):
            with self.subTest(f"cut off at {size}"), self.assertRaises(ValueError):
                decoded(self.data[:size])
        with self.assertRaises(ValueError):
            decoded(self.data + b"\0")
        places = [*range(60), *random_.sample(range(len(self.data)), 300), len(self.data) - 1]
        for place in places:
            damaged = bytearray(self.data)
            damaged[place] ^= 1 << random_.randrange(8)
            with self.subTest(f"a bit of byte {place}"), self.assertRaises(ValueError):
                decoded(bytes(damaged))


class TestInventoryDigest(unittest.TestCase):
    def test_it_stays_what_it_was(self):
        sizes = ({}, {"state": "Composed"}, *({"shareable": True, "max_compositions": number}
                                              for number in (9, 10, 255, 256, 70_000)))  # fmt: skip
        blocks = [
            {"uri": f"/b/{number}", "type": ["Compute"], "status": status, "pools": ["p", "q"],
             "devices": {"processors": [{"count": 1, "cores": number + 1}]}}
            for number, status in enumerate(sizes)
        ]  # fmt: skip
        pools = [{"id": "p"}, {"id": "q"}]
        site = view(
            {"id": "a", "pools": pools, "blocks": blocks},
            {"id": "b", "pools": pools, "blocks": blocks[:1]}, {"id": "c"},
        )  # fmt: skip
        self.assertEqual(DIGEST, inventory_digest(site))


DIGEST = "b16c5ef5a80423df3106876451d42250"


class CountingTuple(tuple[Any, ...]):
    """Counts its iterations."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        CountingTuple.walks += 1
        return super().__iter__()


def podm(pools: int) -> LeanPodm:
    """Return a pod manager of this number of pools, each with a separate block."""
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
        """With an iteration per block, 30,000 pools of one block each took minutes."""
        self.assertEqual(self.walks(3), self.walks(60))
        self.assertGreater(self.walks(3), 0)

    def test_each_block_is_in_its_own_pool(self):
        builder = ViewBuilder()
        builder.add(podm(40), "f")
        cores = builder.view().free(Need(kind="processor", measure="cores", amount=1)).tolist()
        self.assertEqual([number % 5 + 1 for number in range(40)], cores)


def part_of(site: View, podm: dict) -> View:
    builder = ViewBuilder(site.kinds)
    builder.add(decode(to_json(podm), LeanPodm, "test"), "test")
    return builder.view()


class TestSplice(unittest.TestCase):
    @quietly(25)
    @given(FULL_SITES, FULL_SITES, st.integers(1, 3), st.integers(0, 5))
    def test_a_replaced_or_appended_podm_equals_a_view_built_anew(self, old, new, pools, number):
        podm = new[0]
        names = [f"q{number}" for number in range(pools)]
        podm["pools"] = [{"id": name} for name in names]
        for item in (*podm["blocks"], *podm["stocks"]):
            item["pools"] = [names[0], names[-1]] if item["pools"] else []
        old = [{**old_podm, "id": f"old{index}"} for index, old_podm in enumerate(old)]
        number = min(number, len(old))
        podm["id"] = "new"
        site = view(*old)
        spliced, change = splice(site, number, part_of(site, podm))
        assert_same_view(self, view(*old[:number], podm, *old[number + 1 :]), spliced)
        last = 2 * number + (2 if number < len(old) else 0)
        self.assertEqual(Splice(2 * number, last, pools), change)
        assert_same_view(self, view(*old), site)  # the old View is unchanged

    def test_splicing_again_and_again_stays_right(self):
        sizes = (3, 0, 7, 1)
        podms = [self.sized(f"p{number}", 4) for number in range(3)]
        site = view(*podms)
        for turn, size in enumerate(sizes * 3):
            number = turn % 3
            podms[number] = self.sized(f"p{number}", size)
            site, _ = splice(site, number, part_of(site, podms[number]))
            assert_same_view(self, view(*podms), site)

    @staticmethod
    def sized(name: str, cores: int) -> dict:
        block = {"uri": "b", "devices": {"processors": [{"cores": cores}]}}
        return {"id": name, "zone": f"z{cores}", "blocks": [block] * bool(cores)}

    def test_a_view_of_nothing_can_be_appended_to(self):
        empty = view()
        spliced, change = splice(empty, 0, part_of(empty, {"id": "a"}))
        assert_same_view(self, view({"id": "a"}), spliced)
        self.assertEqual(Splice(0, 0, 1), change)
