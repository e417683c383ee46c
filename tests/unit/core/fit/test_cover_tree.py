# SPDX-License-Identifier: Apache-2.0
"""A cover tree finds what a search of each offer finds, by fewer searches."""

import unittest
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.core.fit.test_set_cover import ASKED, CAPS, DEMANDS, ITEMS
from tests.unit.core.sites import quietly
from valence_sched.core.fit import cover_tree
from valence_sched.core.fit.cover_tree import CoverTree, cover_components
from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.set_cover import cheapest_cover

STATES = 100_000


def found(trees: list[CoverTree], free: dict[int, int], before=None):
    """Return the nodes of all trees, and the cover of all together by kind, None without one."""
    nodes = [tree.find(node, free) for tree, node in
             zip(trees, before or [tree.root for tree in trees], strict=True)]  # fmt: skip
    if any(node.cover is None for node in nodes):
        return nodes, None
    return nodes, {kind: number for node in nodes for kind, number in node.cover}


class TestCoverTree(unittest.TestCase):
    """Offers that become smaller and smaller."""

    @quietly(400)
    @given(ITEMS, ASKED, CAPS, st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5)))
    def test_it_has_the_cover_that_a_search_of_the_offer_has(self, items, asked, caps, offers):
        kinds = [10 + number for number in range(len(items))]
        most = [replace(item, available=3) for item in items]
        trees = [CoverTree(part, STATES) for part in cover_components(kinds, most, asked, caps)]
        for offer in offers:
            left = [replace(item, available=n) for item, n in zip(items, offer, strict=False)]
            expected = cheapest_cover(left, asked, caps, states=STATES).counts
            _, cover = found(trees, dict(zip(kinds, offer, strict=False)))
            if expected is not None:
                pairs = zip(kinds, expected, strict=True)
                expected = {kind: number for kind, number in pairs if number}
            self.assertEqual(expected, cover)
        columns = {kind: np.array([offer[place] for offer in offers], dtype=np.float32)
                   for place, kind in enumerate(kinds)}  # fmt: skip
        settled = [tree.settle(columns, len(offers)) for tree in trees]
        frees = [dict(zip(kinds, offer, strict=False)) for offer in offers]
        expected = [found(trees, free)[1] is not None for free in frees]
        have = [all(one[0][number] for one in settled) for number in range(len(offers))]
        self.assertEqual(expected, have)
        self.assertTrue(all(one[1].all() for one in settled))
        self.assertLessEqual({mask.dtype for one in settled for mask in one}, {np.dtype(bool)})

    @quietly(200)
    @given(ITEMS, ASKED, CAPS, st.lists(st.integers(0, 4), max_size=6))
    def test_what_was_found_when_more_was_free_is_a_place_to_go_on_from(
        self, items, asked, caps, takes
    ):
        kinds = list(range(len(items)))
        trees = [CoverTree(part, STATES) for part in cover_components(kinds, items, asked, caps)]
        free, nodes = {kind: item.available for kind, item in enumerate(items)}, None
        for kind in takes:
            nodes, cover = found(trees, free, nodes)
            self.assertEqual(found(trees, free)[1], cover)
            free[kind] = max(0, free.get(kind, 0) - 1)

    def test_offers_with_enough_for_one_cover_share_its_search(self):
        (part,) = cover_components([7, 8], [Item(5, 1, (1,)), Item(5, 2, (1,))], [2], [])
        tree = CoverTree(part, STATES)
        with mock.patch.object(cover_tree, "cheapest_cover") as search:
            self.assertEqual(((7, 2),), tree.find(tree.root, {7: 5, 8: 0}).cover)
            self.assertEqual(((7, 2),), tree.find(tree.root, {7: 2, 8: 9}).cover)
            search.assert_not_called()
        one = tree.find(tree.root, {7: 1, 8: 4})
        self.assertEqual(((7, 1), (8, 1)), one.cover)
        self.assertIs(one, tree.find(tree.root, {7: 1, 8: 1}))

    def test_an_offer_that_is_reached_in_two_ways_is_searched_once(self):
        items = [Item(1, 1, (1,)), Item(5, 2, (1,)), Item(5, 3, (1,))]
        (part,) = cover_components([7, 8, 9], items, [2], [])
        tree = CoverTree(part, STATES)
        self.assertEqual(((7, 1), (8, 1)), tree.root.cover)
        without_8 = tree.find(tree.root, {7: 1, 8: 0, 9: 5})
        without_7 = tree.find(tree.root, {7: 0, 8: 5, 9: 5})
        self.assertEqual((((7, 1), (9, 1)), ((8, 2),)), (without_8.cover, without_7.cover))
        neither = tree.find(without_8, {7: 0, 8: 0, 9: 5})
        self.assertEqual(((9, 2),), neither.cover)
        with mock.patch.object(cover_tree, "cheapest_cover") as search:
            self.assertIs(neither, tree.find(without_7, {7: 0, 8: 0, 9: 5}))
            search.assert_not_called()

    def test_a_search_that_ends_too_early_is_not_complete(self):
        items = [Item(9, n, (n, 9 - n, 3)) for n in range(1, 9)]
        (part,) = cover_components(range(8), items, [31, 37, 29], [])
        root = CoverTree(part, 1).root
        self.assertFalse(root.complete)
        self.assertIsNone(root.cover)
        free = {kind: np.full(2, 9, dtype=np.float32) for kind in range(8)}
        self.assertEqual([False, False], CoverTree(part, 1).settle(free, 2)[1].tolist())


class TestCoverComponents(unittest.TestCase):
    """What no kind of block has in common is covered by itself."""

    def test_demands_and_caps_that_share_no_item_are_apart(self):
        items = [Item(1, 1, (1, 1, 0, 0), (0,)), Item(2, 1, (0, 0, 4, 0)), Item(3, 9, (1, 0, 0, 0))]
        parts = sorted(
            cover_components([5, 6, 7], items, [1, 2, 3, 0], [4]), key=lambda one: one.kinds
        )
        self.assertEqual([((5, 7), (1, 2), (4,)), ((6,), (3,), ())],
                         [(one.kinds, one.amounts, one.caps) for one in parts])  # fmt: skip
        self.assertEqual((Item(1, 1, (1, 1), (0,)), Item(3, 9, (1, 0))), parts[0].items)

    def test_items_of_one_cap_are_together(self):
        items = [Item(1, 1, (1, 0), (0,)), Item(1, 1, (0, 1), (0,))]
        (part,) = cover_components([0, 1], items, [1, 1], [1])
        self.assertIsNone(CoverTree(part, STATES).root.cover)

    def test_a_demand_that_nothing_meets_has_no_cover(self):
        (part,) = cover_components([], [], [1], [])
        root = CoverTree(part, STATES).root
        self.assertEqual((None, True), (root.cover, root.complete))

    def test_every_demand_is_in_one_part(self):
        items = [Item(1, 1, (1,) * DEMANDS)]
        self.assertEqual(1, len(cover_components([3], items, [1] * DEMANDS, [])))
