# SPDX-License-Identifier: Apache-2.0
"""The hardware of a View as lists show it."""

import unittest
from typing import Any
from unittest import TestCase

import msgspec

from tests.unit.core.deciders import cpu, gpu
from valence_sched import testing
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.hardware import BlockFilter, DeviceCount
from valence_sched.model.inventory import (
    Block,
    Devices,
    Drive,
    FullPodm,
    Memory,
    Pool,
    Status,
    Stock,
)
from valence_sched.testing import view
from valence_sched.view import hardware
from valence_sched.view.hardware import summarise_podms, summarise_pools

A100 = gpu("/b/g1", 4) | {"pools": ["left"], "places": {"switch": "s1"}, "type": ["Expansion"]}
SITE = view(
    {"id": "one", "name": "First", "pools": [{"id": "left"}, {"id": "right", "traits": ["CXL"]}],
     "blocks": [cpu("/b/c1", 16, 1024) | {"pools": ["left", "right"]}, A100],
     "nodes": [{"uri": "/n/7", "name": "web-1", "blocks": ["/b/c1"]},
               {"uri": "/n/8", "blocks": ["/b/c1"]}]},
    {"id": "two", "blocks": [gpu("/b/g1", 2), cpu("/b/c2", 8) | {"status": {"reserved": True}}]},
)  # fmt: skip
MODEL = A100["devices"]["accelerators"][0]["model"]


def uris(**fields: Any) -> list[tuple[str, str]]:
    return [(one.podm, one.uri) for one in hardware.blocks(SITE, BlockFilter(**fields))]


class BlocksTest(unittest.TestCase):
    def test_every_condition_of_a_filter_must_hold(self):
        for fields, expected in (
            ({}, [("one", "/b/c1"), ("one", "/b/g1"), ("two", "/b/c2"), ("two", "/b/g1")]),
            ({"podm": "First"}, [("one", "/b/c1"), ("one", "/b/g1")]),
            ({"pool": "right"}, [("one", "/b/c1")]),
            ({"type": "Expansion", "podm": "one"}, [("one", "/b/g1")]),
            ({"model": MODEL.lower()}, [("one", "/b/g1"), ("two", "/b/g1")]),
            ({"free": True, "podm": "two"}, [("two", "/b/g1")]),
            ({"model": "no such model"}, []),
        ):
            with self.subTest(fields):
                self.assertEqual(expected, uris(**fields))

    def test_a_block_names_its_nodes_pools_and_topology(self):
        first, second = hardware.blocks(SITE, BlockFilter(podm="one"))
        self.assertEqual((("web-1", "8"), ("left", "right")), (first.nodes, first.pools))
        self.assertEqual({"switch": "s1"}, second.topology)

    def test_a_block_is_free_shared_used_or_unusable(self):
        statuses = {
            "free": {}, "shared": {"state": "ComposedAndAvailable", "shareable": True},
            "used": {"state": "Composed", "compositions": 1}, "unusable": {"enabled": False},
        }  # fmt: skip
        blocks = [cpu(f"/b/{use}", 16) | {"status": status} for use, status in statuses.items()]
        node_blocks = [cpu("/b/held", 16) | {"status": {"reserved": True}}]
        site = view({"id": "a", "blocks": [*blocks, *node_blocks],
                     "nodes": [{"uri": "/n/1", "blocks": ["/b/held"]}]})  # fmt: skip
        uses = {one.uri[3:]: one.use for one in hardware.blocks(site, BlockFilter())}
        self.assertEqual({**{use: use for use in statuses}, "held": "used"}, uses)

    def test_what_is_not_there_is_named_with_the_nearest(self):
        for fields in ({"podm": "thre"}, {"pool": "rigth"}, {"podm": "two", "pool": "left"}):
            with self.subTest(fields), self.assertRaises(UnknownName):
                uris(**fields)


class BlockTest(unittest.TestCase):
    def test_one_is_found_by_its_uri_or_the_last_part_of_it(self):
        self.assertEqual("two", hardware.block(SITE, "c2").podm)
        self.assertEqual("/b/c1", hardware.block(SITE, "/b/c1").uri)
        self.assertEqual("two", hardware.block(SITE, "g1", "two").podm)

    def test_a_name_of_several_says_where_they_are(self):
        with self.assertRaisesRegex(UsageError, "2 blocks .* of one, /b/g1 of two"):
            hardware.block(SITE, "g1")
        with self.assertRaises(UnknownName):
            hardware.block(SITE, "g")


class PoolsTest(unittest.TestCase):
    def test_each_pool_has_its_amounts(self):
        found = {(one.podm, one.pool): one for one in hardware.pools(SITE)}
        self.assertEqual([("one", "left"), ("one", "right"), ("two", "all")], list(found))
        self.assertEqual(("CXL",), found["one", "right"].traits)
        self.assertEqual((4, 4), found["one", "left"].amounts.gpus)
        self.assertEqual((0, 8), found["two", "all"].amounts.cores)
        self.assertEqual(["all"], [one.pool for one in hardware.pools(SITE, "two")])


class DeviceCountsTest(unittest.TestCase):
    def test_devices_are_counted_by_kind_and_model(self):
        counts = {one.kind: one for one in hardware.device_counts(SITE, BlockFilter())}
        self.assertEqual(DeviceCount(kind="GPU", model=MODEL, devices=6, free=6, podms=2),
                         counts["GPU"])  # fmt: skip
        self.assertEqual((2, 1), (counts["CPU"].devices, counts["CPU"].free))

    def test_of_a_block_only_devices_of_the_model_are_counted(self):
        (only,) = hardware.device_counts(SITE, BlockFilter(model=MODEL))
        self.assertEqual("GPU", only.kind)


UNKNOWN = Block(
    uri="/u", pools=("p",), devices=Devices(memory=(Memory(),), drives=(Drive(count=None),))
)
KNOWN = Block(uri="/k", pools=("p",), devices=Devices(memory=(Memory(capacity_mib=8),)))
USED = Status(state="Composed", compositions=1)


class TestUnknown(TestCase):
    """A pod manager, and its only pool."""

    def summaries(self, *blocks, stocks=()):
        podm = FullPodm(id="a", pools=(Pool(id="p"),), blocks=blocks, stocks=stocks)
        view = testing.view(msgspec.to_builtins(podm))
        return [*summarise_podms(view), *summarise_pools(view, 0).values()]

    def test_an_amount_of_which_nothing_is_known_is_unknown(self):
        for found in self.summaries(UNKNOWN):
            self.assertEqual(((None, None), (None, None), (0, 0)),
                             (found.memory_mib, found.drives, found.cores))  # fmt: skip

    def test_what_is_known_adds_up_beside_what_is_not(self):
        for found in self.summaries(UNKNOWN, KNOWN):
            self.assertEqual((8, 8), found.memory_mib)

    def test_what_is_in_use_is_not_unknown_but_not_free(self):
        used = Block(uri="/u", pools=("p",), devices=UNKNOWN.devices, status=USED)
        for found in self.summaries(used):
            self.assertEqual((0, None), found.memory_mib)

    def test_a_stock_without_a_total_is_unknown_unless_another_tells_one(self):
        unknown = Stock(uri="/s", resource="gib", pools=("p",))
        for found in self.summaries(stocks=(unknown,)):
            self.assertEqual({"gib": (None, None)}, found.stocks)
        known = Stock(uri="/t", resource="gib", pools=("p",), total=5, used=2)
        for found in self.summaries(stocks=(unknown, known)):
            self.assertEqual({"gib": (3.0, 5.0)}, found.stocks)
