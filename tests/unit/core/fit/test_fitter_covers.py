# SPDX-License-Identifier: Apache-2.0
"""The fit of a pool as a cover of blocks by kind, whole and in parts."""

import unittest
from collections import Counter
from random import Random
from unittest import mock

from tests.unit.core.fit.hard_covers import FAMILIES, leave_open, podm, properties
from tests.unit.core.sites import near_site, need
from valence_sched.core.fit.cover_tree import CoverTree
from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.fit.spending import SearchOutcome, Spending
from valence_sched.model.need import Need
from valence_sched.model.policy import Budget
from valence_sched.testing import request, view

STATES = 100_000
STOCK = {"stocks": [{"resource": "gib", "amount": 4}]}
CORES = {"processor": {"total_cores": 8}}


def cpu(uri: str, cores: int, **words: object) -> dict:
    return {"uri": uri, "type": ["Compute"], "devices": {"processors": [{"cores": cores}]}, **words}


def memory(uri: str, mib: int) -> dict:
    return {"uri": uri, "type": ["Memory"], "devices": {"memory": [{"capacity_mib": mib}]}}


class TestCoversBlocksAlone(unittest.TestCase):
    """Which requests are a cover of blocks and nothing else."""

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
                plan = Fitter(asked.needs, kinds, asked.bonds)
                self.assertIs(alone, plan.covers_blocks_alone)
        self.assertIs(False, Fitter((), kinds).covers_blocks_alone, "nothing to cover")


class TestPoolCover(unittest.TestCase):
    """The cheapest cover of what is free in a pool."""

    def setUp(self) -> None:
        leave_open(self)

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

    def test_it_is_that_of_the_pool_that_is_asked_for(self):
        seen = view({"id": "a", "blocks": [cpu("a", 4)]}, {"id": "b", "blocks": [cpu("b", 8)]})
        plan = Fitter(request(CORES).needs, seen.kinds)
        (eight,) = (number for number, _ in seen.block_counts.kinds(1))
        self.assertEqual(SearchOutcome(None, True, 0), plan.pool_cover(seen, 0, Spending()))
        self.assertEqual({eight: 1}, plan.pool_cover(seen, 1, Spending()).found)

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
    """The parts of the cover of a pool, whatever is free in it."""

    def test_their_covers_together_are_the_cover_of_the_pool(self):
        outcomes = set()
        for seed in range(150):
            podms, needs = near_site(Random(seed))
            seen = view(*podms)
            plan = Fitter(needs, seen.kinds)
            for row in range(len(seen)):
                with self.subTest(seed=seed, row=row):
                    parts = plan.cover_components(seen.pools[row])
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

    def test_of_each_kind_there_are_as_many_as_a_node_can_use_not_as_are_free(self):
        blocks = [cpu("c8", 8), cpu("c3", 3), memory("m", 16), {"uri": "n", "type": ["Network"]}]
        limits = {"Compute": {"max": 7}, "Network": {"min": 2}}
        seen = view({"id": "a", "pools": [{"id": "p", "limits": limits}],
                     "blocks": [{**one, "pools": ["p"]} for one in blocks]})  # fmt: skip
        asked = request({"processor": {"total_cores": 20}, "memory": {"capacity_mib": 40}})
        parts = Fitter(asked.needs, seen.kinds).cover_components(seen.pools[0])
        found = {tuple(sorted(item.available for item in part.items)): part for part in parts}
        self.assertEqual({(3, 7), (3,), (2,)}, found.keys())
        cores, nics = found[3, 7], found[2,]
        self.assertEqual(((20,), (7,)), (cores.amounts, cores.caps))
        self.assertEqual({(3, 8), (7, 3)}, {(item.available, *item.gives) for item in cores.items})
        self.assertEqual(((2,), (Item(2, 10, (1,)),)), (nics.amounts, nics.items))

    def test_the_kinds_are_in_the_order_of_their_text_whatever_was_read_first(self):
        needs = request(CORES).needs
        texts = []
        for blocks in ([cpu("a", 2), cpu("b", 16), cpu("c", 4)], [cpu("c", 4), cpu("a", 2)]):
            seen = view({"id": "a", "blocks": blocks})
            (part,) = Fitter(needs, seen.kinds).cover_components(seen.pools[0])
            texts.append([seen.kinds.kinds[kind].sort_key for kind in part.kinds])
        self.assertEqual([sorted(one) for one in texts], texts)
        self.assertEqual([3, 2], [len(one) for one in texts])

    def test_what_one_block_gives_is_found_once(self):
        seen = view({"id": "a", "blocks": [cpu("a", 2), cpu("b", 16)]})
        plan = Fitter((need("processor", "cores", 8), Need(kind="memory", measure="capacity_mib",
                                                           amount=8)), seen.kinds)  # fmt: skip
        plan.cover_components(seen.pools[0])
        with mock.patch.object(type(seen.kinds), "devices_of") as search:
            plan.cover_components(seen.pools[0])
            search.assert_not_called()
