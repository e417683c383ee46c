# SPDX-License-Identifier: Apache-2.0
"""View columns: a view of bytes is the view that they were made of, and never another one."""

import random
import unittest

import msgspec

from tests.unit.view.same import assert_same_view
from valence_sched import testing
from valence_sched.model.inventory import LeanPodm
from valence_sched.testing.random_podms import podms
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.columns import decode_view, encode_view
from valence_sched.view.digest import inventory_digest
from valence_sched.view.overlay import Overlay
from valence_sched.view.update import splice
from valence_sched.view.view import View

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
    """Return a view of random pod managers, and of some that have what those have not."""
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


class TestColumns(unittest.TestCase):
    """On random pod managers, and on each form that a pod manager may have."""

    def setUp(self):
        self.view = random_view()
        self.data = encoded(self.view)

    def test_a_view_is_the_same_after_it_was_bytes(self):
        restored = decoded(self.data)
        assert_same_view(self, self.view, restored)
        self.assertEqual(inventory_digest(self.view), inventory_digest(restored.without_memo()))
        for one, other in zip(self.view.block_tables, restored.block_tables, strict=True):
            self.assertEqual(one, other)

    def test_numbers_of_any_size_and_views_of_nothing_are_kept(self):
        huge = {"id": "a", "blocks": [
            {"uri": f"/{n}", "status": {"shareable": True, "max_compositions": n}}
            for n in (1, 300, 70_000, 5_000_000_000)]}  # fmt: skip
        for view in (testing.view(huge), testing.view({"id": "a"}), ViewBuilder().view()):
            restored = decoded(encoded(view))
            assert_same_view(self, view, restored)
        restored = decoded(encoded(testing.view(huge)))
        self.assertEqual(inventory_digest(testing.view(huge)),
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
        for view in (self.view, restored):
            builder = ViewBuilder(view.kinds)
            builder.add(msgspec.json.decode(text, type=LeanPodm), "new")
            views.append(splice(view, len(view.podms), builder.view())[0])
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
        self.assertEqual(plain[2:7], tables[2:7])
        self.assertEqual(plain[-1], tables[-1])
        self.assertEqual(plain + plain[:1], tables + tables[:1])
        self.assertEqual(plain, list(tables))
        self.assertEqual([*plain], [*tables.copy()])
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
