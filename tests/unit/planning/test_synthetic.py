# SPDX-License-Identifier: Apache-2.0
"""Synthetic workloads: the same seed draws the same requests, at about the rate of the mix."""

import unittest
from collections import Counter

from tests.unit.planning.workloads import FLAVORS
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.workload import SyntheticSpec
from valence_sched.planning.workload import SyntheticWorkload


def drawn(**fields):
    spec = {"rate_per_s": 1.0, "mix": {"cores": 3.0, "card": 1.0}, "horizon_s": 10_000.0}
    workload = SyntheticWorkload(SyntheticSpec(**(spec | fields)))
    return list(workload.entries(FLAVORS))


class TestSyntheticWorkload(unittest.TestCase):
    def test_the_same_seed_draws_the_same_and_another_one_something_else(self):
        self.assertEqual(drawn(seed=7, lifetime_s=60.0), drawn(seed=7, lifetime_s=60.0))
        self.assertNotEqual(drawn(seed=7), drawn(seed=8))

    def test_rate_mix_and_lifetime_are_those_that_were_asked_for(self):
        entries = drawn(seed=1, lifetime_s=60.0)
        self.assertAlmostEqual(10_000, len(entries), delta=400)  # four standard deviations
        flavors = Counter(one.request.flavor for one in entries)
        self.assertAlmostEqual(0.75, flavors["cores"] / len(entries), delta=0.02)
        lifetimes = [one.departure - one.arrival for one in entries]
        self.assertAlmostEqual(60.0, sum(lifetimes) / len(lifetimes), delta=3.0)
        arrivals = [one.arrival for one in entries]
        self.assertEqual(sorted(arrivals), arrivals)
        self.assertLessEqual(arrivals[-1], 10_000)

    def test_without_a_lifetime_nodes_stay(self):
        self.assertEqual({None}, {one.departure for one in drawn(horizon_s=50.0)})

    def test_an_unknown_flavor_is_named_with_the_nearest(self):
        with self.assertRaisesRegex(UnknownName, "--mix: no flavor named 'carts' .*'card'"):
            drawn(mix={"carts": 1.0})

    def test_a_horizon_before_the_first_arrival_is_refused(self):
        with self.assertRaisesRegex(UsageError, "no request arrives"):
            drawn(horizon_s=1e-6)
