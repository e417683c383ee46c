# SPDX-License-Identifier: Apache-2.0
"""The optima of generated sites match the solver, and policies are compared with them."""

import unittest
from collections import Counter

from tests.benchmarks import sites
from tests.benchmarks.trace import built_in


class TestOptima(unittest.TestCase):
    """The file of optima."""

    def setUp(self):
        lines = sites.OPTIMA.read_bytes()
        self.every = sites.msgspec.json.Decoder(sites.Site).decode_lines(lines)

    def test_it_has_every_site_once(self):
        found = [(one.seed, one.podms, one.blocks) for one in self.every]
        expected = [(seed, sites.PODMS, sites.BLOCKS) for seed in range(sites.SITES)]
        self.assertEqual(expected, found)

    def test_it_has_as_many_nodes_as_the_solver_places(self):
        for one in self.every[:2]:
            with self.subTest(seed=one.seed):
                found = sites.solved(one.seed)
                self.assertEqual((one.placed, one.bound), (found.placed, found.bound))

    def test_nodes_are_in_proportion_to_the_shares(self):
        for one in self.every:
            with self.subTest(seed=one.seed):
                self.assertEqual([*sites.SHARES], [*one.nodes])
                total, parts = one.placed, sum(sites.SHARES.values())
                for name, share in sites.SHARES.items():
                    self.assertAlmostEqual(share / parts, one.nodes[name] / total, delta=0.02)


class TestArrivals(unittest.TestCase):
    """The orders in which nodes are requested."""

    def test_they_are_the_nodes_of_the_optimum_in_another_order_each(self):
        site = sites.sites()[0]
        first, second = site.arrivals(), site.arrivals(1)
        self.assertEqual(site.nodes, dict(Counter(first)))
        self.assertEqual(Counter(first), Counter(second))
        self.assertNotEqual(first, second)
        self.assertEqual(first, site.arrivals())


class TestLost(unittest.TestCase):
    """The share of the optimum that a policy does not place."""

    def test_nothing_where_there_is_room_and_all_that_finds_none(self):
        policy = built_in()["default"]
        self.assertEqual(0.0, sites.lost(sites.Site(0, 2, 30, {"small": 4}, 4), policy))
        full = sites.lost(sites.Site(0, 1, 30, {"gpu-large": 100}, 100), policy)
        self.assertGreater(full, 90.0)
        self.assertLess(full, 100.0)
