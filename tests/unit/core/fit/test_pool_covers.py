# SPDX-License-Identifier: Apache-2.0
"""The fit of a pool as a cover of blocks by kind; few searches find each part of the cover."""

import unittest
from collections import Counter
from random import Random

import numpy as np
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.fit.covers import FAMILIES, podm, properties
from tests.unit.core.fit.test_set_cover import ASKED, CAPS, ITEMS
from tests.unit.core.sites import near_site, quietly, sized
from valence_sched.core.fit.fit import Fit, Fitter, Spending
from valence_sched.core.fit.pool_covers import CoverTree, connected_components, cover_components
from valence_sched.core.fit.set_cover import Item, cheapest_cover
from valence_sched.model.policy import Budget
from valence_sched.testing import request, view

STATES = 100_000


def found(trees: list[CoverTree], free: dict[int, int], before=None):
    """Return the nodes of all trees, and the cover by kind of all together, or None."""
    nodes = [tree.find(node, free) for tree, node in
             zip(trees, before or [tree.root for tree in trees], strict=True)]  # fmt: skip
    if any(node.cover is None for node in nodes):
        return nodes, None
    return nodes, {kind: number for node in nodes for kind, number in node.cover}


class TestCoverTree(unittest.TestCase):
    """Offers that become smaller."""

    @quietly(sized(400))
    @given(ITEMS, ASKED, CAPS, st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5)))
    def test_it_has_the_cover_that_a_search_of_the_offer_has(self, items, asked, caps, offers):
        kinds = [10 + number for number in range(len(items))]
        most = [replace(item, available=3) for item in items]
        trees = [CoverTree(part, STATES) for part in connected_components(kinds, most, asked, caps)]
        for offer in offers:
            left = [replace(item, available=n) for item, n in zip(items, offer, strict=False)]
            expected = cheapest_cover(left, asked, caps, states=STATES).found
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

    def test_a_search_that_ends_too_early_is_not_complete(self):
        items = [Item(9, n, (n, 9 - n, 3)) for n in range(1, 9)]
        (part,) = connected_components(range(8), items, [31, 37, 29], [])
        root = CoverTree(part, 1).root
        self.assertFalse(root.complete)
        self.assertIsNone(root.cover)
        free = {kind: np.full(2, 9, dtype=np.float32) for kind in range(8)}
        self.assertEqual([False, False], CoverTree(part, 1).settle(free, 2)[1].tolist())


STOCK = {"stocks": [{"resource": "gib", "amount": 4}]}
CORES = {"processor": {"total_cores": 8}}


def cpu(uri: str, cores: int, **words: object) -> dict:
    return {"uri": uri, "type": ["Compute"], "devices": {"processors": [{"cores": cores}]}, **words}


def memory(uri: str, mib: int) -> dict:
    return {"uri": uri, "type": ["Memory"], "devices": {"memory": [{"capacity_mib": mib}]}}


class TestCoversBlocksAlone(unittest.TestCase):
    """Requests that are a cover of blocks only."""

    def test_it_takes_blocks_no_stock_and_no_topology(self):
        gpus = {"accelerators": [{"count": 2, "same": "pcie_root"}]}
        one_zone = {"accelerators": [{"count": 2, "same": "zone"}]}
        kinds = view({"id": "a", "blocks": [cpu("c", 8)]}).kinds
        for properties_, alone in (
            (CORES, True),
            (STOCK, False),
            ({**CORES, **STOCK}, False),
            (gpus, False),
            ({**CORES, **gpus}, False),
            ({**gpus, **STOCK}, False),
            (one_zone, True),  # a pool is in one zone: nothing is required
        ):
            with self.subTest(properties_):
                asked = request(properties_)
                plan = Fitter(asked.needs, kinds, asked.topology)
                self.assertIs(alone, plan.covers_blocks_alone)
        self.assertIs(False, Fitter((), kinds).covers_blocks_alone, "nothing to cover")


class TestPoolCover(unittest.TestCase):
    """The cheapest cover by the free blocks of a pool."""

    def test_it_has_the_kinds_of_the_fit_of_its_pool(self):
        outcomes = set()
        for seed in range(150):
            podms, needs = near_site(Random(seed))
            seen = view(*podms)
            plan = Fitter(needs, seen.kinds)
            for row in range(len(seen)):
                with self.subTest(seed=seed, row=row):
                    cover = plan.pool_cover(seen, row, Spending())
                    fit = plan.fit(seen, row)
                    self.assertTrue(cover.complete)
                    self.assertEqual(fit is None, cover.found is None)
                    if isinstance(fit, Fit):
                        table = seen.block_tables[seen.podm_of[row]]
                        kinds = Counter(int(table.kinds[number]) for number in fit.blocks)
                        self.assertEqual(kinds, cover.found)
                    outcomes.add(fit is None)
        self.assertEqual({True, False}, outcomes)

    def test_it_tells_the_states_that_it_took_and_whether_it_may_not_be_the_cheapest(self):
        cover = FAMILIES["two_amounts"](20, Random(0))
        seen, asked = view(podm("hard", cover)), request(properties(cover))
        plan = Fitter(asked.needs, seen.kinds)
        early = plan.pool_cover(seen, 0, Spending(Budget(decision_states=0)))
        self.assertEqual((False, 401), (early.complete, early.states))
        whole = plan.pool_cover(seen, 0, Spending())
        self.assertTrue(whole.complete)
        self.assertGreater(whole.states, early.states)
        prices = [sum(seen.kinds.kinds[kind].price * n for kind, n in one.found.items())
                  for one in (early, whole)]  # fmt: skip
        self.assertGreater(*prices)

    def test_a_question_that_the_budget_leaves_open_is_neither_a_cover_nor_none(self):
        cover = FAMILIES["split"](20, Random(3))
        seen, asked = view(podm("hard", cover)), request(properties(cover))
        plan = Fitter(asked.needs, seen.kinds, budget=Budget(pool_states=100))
        spending = Spending()
        self.assertTrue(plan.pool_cover(seen, 0, spending).is_open)
        self.assertEqual(1, spending.undecided)


class TestCoverComponents(unittest.TestCase):
    """The parts of the cover of a pool, for any free blocks."""

    def test_their_covers_together_are_the_cover_of_the_pool(self):
        outcomes = set()
        for seed in range(150):
            podms, needs = near_site(Random(seed))
            seen = view(*podms)
            plan = Fitter(needs, seen.kinds)
            for row in range(len(seen)):
                with self.subTest(seed=seed, row=row):
                    parts = cover_components(plan, seen.pools[row])
                    kinds = [kind for part in parts for kind in part.kinds]
                    self.assertEqual(len(set(kinds)), len(kinds))
                    free = dict.fromkeys(kinds, 0) | dict(seen.block_counts.kinds(row))
                    trees = [CoverTree(part, STATES) for part in parts]
                    covers = [tree.find(tree.root, free).cover for tree in trees]
                    found = None
                    if None not in covers:
                        found = {kind: n for cover in covers for kind, n in cover or ()}
                    self.assertEqual(plan.pool_cover(seen, row, Spending()).found, found)
                    outcomes.add((found is None, len(parts) > 1))
        self.assertEqual({(a, b) for a in (True, False) for b in (True, False)}, outcomes)

    def test_the_kinds_are_in_the_order_of_their_text_whatever_was_read_first(self):
        needs = request(CORES).needs
        texts = []
        for blocks in ([cpu("a", 2), cpu("b", 16), cpu("c", 4)], [cpu("c", 4), cpu("a", 2)]):
            seen = view({"id": "a", "blocks": blocks})
            (part,) = cover_components(Fitter(needs, seen.kinds), seen.pools[0])
            texts.append([seen.kinds.kinds[kind].sort_key for kind in part.kinds])
        self.assertEqual([sorted(one) for one in texts], texts)
        self.assertEqual([3, 2], [len(one) for one in texts])
