# SPDX-License-Identifier: Apache-2.0
"""Defragmentation: plans reach the share step by step, and brute force finds no shorter one."""

import unittest
from collections import Counter
from random import Random

from tests.unit.planning.optimise.test_rebalance import REQUESTS, TYPES, used_site
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.model.request import FlavorShare, Mix, NameRequirements
from valence_sched.planning.fragmentation import FragmentationMeasure, defragment
from valence_sched.planning.optimise.migrations import MovableNode
from valence_sched.view.fragmentation import ACCELERATORS, flavor_mix
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

MIX = Mix(tuple(FlavorShare(one.needs, NameRequirements(), 1.0) for one in REQUESTS))
DEPTH = 3


def share_of(view: View) -> float:
    return FragmentationMeasure(lambda: view, flavor_mix(view, MIX, ACCELERATORS)).share()


def moved(overlay: Overlay, place: tuple, fit: Fit) -> tuple:
    """Make a node at its destination, then release its old place; return the new one."""
    table = overlay.view.block_tables[overlay.view.podm_of[fit.row]]
    assert all(table.slots[block] for block in fit.blocks), "over capacity"
    overlay.allocate(fit.row, fit.blocks, fit.grants)
    overlay.deallocate(*place)
    return fit.row, fit.blocks, fit.grants


def fewest_by_brute_force(free: View, nodes: list[MovableNode], wanted: float) -> int | None:
    """Return the length of the shortest sequence of moves, None where it is above ``DEPTH``."""
    plans = [Fitter(one.needs, free.kinds) for one in REQUESTS]
    start = tuple((node.row, node.blocks, node.grants) for node in nodes)
    states, seen = [start], {start}
    for depth in range(DEPTH + 1):
        following = []
        for places in states:
            overlay = Overlay(free)
            for node in nodes:
                overlay.deallocate(node.row, node.blocks, node.grants)
            for place in places:
                overlay.allocate(*place)
            if share_of(overlay.view) < wanted:
                return depth
            for number, node in enumerate(nodes):
                for row in range(len(free)):
                    fit = plans[node.node_type].fit(overlay.view, row)
                    if isinstance(fit, Fit):
                        place = (row, fit.blocks, fit.grants)
                        after = (*places[:number], place, *places[number + 1 :])
                        if after not in seen:
                            seen.add(after)
                            following.append(after)
        states = following
    return None


class TestDefragment(unittest.TestCase):
    """Fragmentation below a share."""

    def plan(self, free, nodes, wanted, **more):
        mix = flavor_mix(free, MIX, ACCELERATORS)
        return defragment(free, TYPES, nodes, mix, wanted, **more)

    def test_plans_are_the_shortest_and_never_over_capacity(self):
        outcomes: Counter[object] = Counter()
        for seed in range(60):
            free, nodes = used_site(Random(seed))
            share = share_of(free)
            for wanted in (share, share * 0.7, share * 0.4):
                if not wanted:
                    continue
                plan = self.plan(free, nodes, wanted, most=DEPTH)
                with self.subTest(seed=seed, wanted=wanted):
                    fewest = fewest_by_brute_force(free, nodes, wanted)
                    outcomes[fewest] += 1
                    self.assertTrue(plan.complete)
                    self.assertEqual(fewest is not None, plan.reached)
                    if plan.reached:
                        self.assertEqual(fewest, len(plan.migrations))
                        self.assertEqual(fewest, plan.least)
                        self.assertLess(self.carry_out(free, nodes, plan), wanted)
        self.assertTrue(all(outcomes[number] > 2 for number in (None, 1, 2)), outcomes)

    def carry_out(self, free, nodes, plan):
        overlay = Overlay(free)
        places = [(node.row, node.blocks, node.grants) for node in nodes]
        for migration in plan.migrations:
            place = places[migration.node]
            places[migration.node] = moved(overlay, place, migration.fit)
        return share_of(overlay.view)

    def test_what_is_below_already_moves_nothing(self):
        free, nodes = used_site(Random(3))
        plan = self.plan(free, nodes, 1.01)
        self.assertEqual(((), True, 0), (plan.migrations, plan.reached, plan.least))

    def test_without_the_exhaustive_search_the_bound_is_stated(self):
        found = 0
        for seed in range(40):
            free, nodes = used_site(Random(seed))
            wanted = share_of(free) * 0.7
            exact = self.plan(free, nodes, wanted) if wanted else None
            if exact is None or not exact.reached:
                continue
            found += 1
            bounded = self.plan(free, nodes, wanted, fits=0)
            with self.subTest(seed=seed):
                self.assertLessEqual(bounded.least, len(exact.migrations))
                self.assertGreaterEqual(bounded.least, 1)
                if bounded.reached:
                    self.assertGreaterEqual(len(bounded.migrations), len(exact.migrations))
        self.assertGreater(found, 5)
