# SPDX-License-Identifier: Apache-2.0
"""Tuning finds weights that serve more, and does not take luck for a gain."""

import math
import unittest

from tests.unit.core.deciders import cpu, gpu
from tests.unit.planning.sites import FLAVORS, file_workload, site_of
from valence_sched.config.parsers import parse_policies
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request_spec import SyntheticSpec
from valence_sched.planning.tune import (
    PolicyTrial,
    Tuning,
    policy_file,
    tune,
    variants,
    weighers_that_take_part,
    workload_samples,
)
from valence_sched.planning.workload import SyntheticWorkload, compile_workload

#: Prefers the pods with cards for all nodes, unless weigher scarce has more weight.
WRONG = Policy(name="wrong", weighers=(WeigherUse("scarce", 0.1), WeigherUse("pack", 1.0)))
DRAWN = SyntheticWorkload(
    SyntheticSpec(rate_per_s=1.0, mix={"cores": 1.0, "card": 1.0}, horizon_s=14.0)
)


def here(run, tasks):
    """Make the runs in this process."""
    return map(run, tasks)


def site():
    """Return cards beside few cores, and more cores on larger pod managers without cards."""
    cards = [{"id": f"a{n}", "blocks": [cpu("c", 8), gpu("g")]} for n in range(8)]
    plain = [{"id": f"b{n}", "blocks": [cpu(f"c{m}", 8) for m in range(4)]} for n in range(3)]
    made = site_of(*cards, *plain)
    made.policies.update({"wrong": WRONG})
    made.flavors.update(FLAVORS)
    return made


class TestTune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = []
        cls.found = tune(site(), "wrong", DRAWN, 4, here, record=cls.made.append)

    def test_weights_that_serve_more_are_found(self):
        found = self.found
        self.assertTrue(found.is_clear)
        self.assertEqual(WRONG, found.candidates[0].policy)
        self.assertGreater(found.best.mean, found.candidates[0].mean + 0.05)
        self.assertEqual(len(self.made), self.made[-1])

    def test_the_policies_of_the_site_are_candidates_without_their_filters(self):
        candidates = self.found.candidates
        self.assertTrue(all(one.policy.filters == WRONG.filters for one in candidates))
        weighers = [one.policy.weighers for one in candidates]
        self.assertIn(site().policies["balanced"].weighers, weighers)

    def test_it_is_the_same_again_and_another_goal_is_another_measure(self):
        again, use = (tune(site(), "wrong", DRAWN, 2, here, goal) for goal in ("nodes", "use"))
        for one, other in zip(again.candidates, self.found.candidates, strict=False):
            if one.policy == other.policy:
                self.assertEqual(one.shares, other.shares[:2])
        self.assertTrue(all(0.0 < one.mean < 1.0 for one in use.candidates))
        self.assertNotEqual(again.candidates[0].shares, use.candidates[0].shares)

    def test_a_policy_that_does_not_exist_or_compares_nothing_is_refused(self):
        with self.assertRaises(UnknownName):
            tune(site(), "other", DRAWN, 2, here)
        for name in ("chance", "one"):
            made = site()
            made.policies["one"] = Policy(name="one", weighers=(WeigherUse("room"),))
            with self.subTest(name), self.assertRaisesRegex(UsageError, "two weighers"):
                tune(made, name, DRAWN, 2, here)


class TestGain(unittest.TestCase):
    """The gain on a sample is measured with weights that were chosen without this sample."""

    def tuning(self, *shares):
        policies = [Policy(name=f"{number}") for number in range(len(shares))]
        pairs = zip(policies, shares, strict=True)
        return Tuning.of([PolicyTrial(policy, tuple(each)) for policy, each in pairs])

    def test_luck_on_one_sample_is_no_gain(self):
        lucky = [[0.5 + (row == column) * 0.4 for column in range(5)] for row in range(5)]
        found = self.tuning([0.55] * 5, *lucky)
        self.assertGreater(found.best.mean, 0.55)
        self.assertLess(found.gain, 0.0)
        self.assertFalse(found.is_clear)

    def test_a_gain_on_all_samples_is_clear(self):
        found = self.tuning([0.5, 0.6, 0.7], [0.6, 0.71, 0.8])
        self.assertAlmostEqual(0.31 / 3, found.gain)
        self.assertAlmostEqual(0.01 / 3, found.error)
        self.assertTrue(found.is_clear)
        self.assertEqual((0.0, 0.0), found.gain_of(found.candidates[0]))

    def test_equal_weights_are_no_gain(self):
        self.assertFalse(self.tuning([0.5, 0.6], [0.5, 0.6]).is_clear)


class TestVariants(unittest.TestCase):
    def test_one_weight_of_those_that_take_part_is_changed(self):
        policy = site().policies["default"]
        numbers = weighers_that_take_part(policy)
        names = [policy.weighers[number].name for number in numbers]
        self.assertEqual(["fragmentation", "room", "level", "tight"], names)
        for one in variants(policy, numbers, 2.0):
            pairs = zip(policy.weighers, one.weighers, strict=True)
            ((old, new),) = ((old, new) for old, new in pairs if old != new)
            self.assertIn(new.weight, (old.weight * 2.0, old.weight / 2.0))

    def test_a_weight_stays_within_the_limits(self):
        policy = Policy(name="far", weighers=(WeigherUse("room", 900.0), WeigherUse("pack", 0.001)))
        weights = [[use.weight for use in one.weighers] for one in variants(policy, (0, 1), 4.0)]
        self.assertEqual([[1000.0, 0.001], [225.0, 0.001], [900.0, 0.004]], weights)


class TestSamples(unittest.TestCase):
    def test_a_synthetic_workload_is_drawn_again(self):
        one, two = workload_samples(DRAWN, site(), 2)
        self.assertNotEqual(list(one.entries(FLAVORS)), list(two.entries(FLAVORS)))

    def test_a_recorded_workload_is_cut_and_keeps_nodes_in_use(self):
        text = "flavor,arrival,duration\ncores,0,5\ncard,1,\ncores,4,1\ncard,6,9\n"
        one, two = compile_workload(file_workload(text), FLAVORS).parts(2)
        times = [(entry.arrival, entry.departure, entry.line) for entry in one.entries(FLAVORS)]
        self.assertEqual([(0.0, 5.0, 2), (1.0, None, 3)], times)
        times = [(entry.arrival, entry.departure, entry.line) for entry in two.entries(FLAVORS)]
        self.assertEqual([(4.0, 5.0, 2), (4.0, None, 3), (4.0, 5.0, 4), (6.0, 15.0, 5)], times)

    def test_too_few_requests_are_refused(self):
        with self.assertRaisesRegex(UsageError, "1 request, too few for 2 samples"):
            list(compile_workload(file_workload("flavor\ncores\n"), FLAVORS).parts(2))


class TestFile(unittest.TestCase):
    def test_the_file_has_the_policy_under_its_new_name(self):
        base = site().policies["default"]
        found = Tuning.of(
            [PolicyTrial(base, (0.5,)), PolicyTrial(next(variants(base, [1], 2.0)), (0.6,))]
        )
        (policy,) = parse_policies(policy_file(found, "mine"), "mine.yaml")
        self.assertEqual("mine", policy.name)
        self.assertEqual(found.best.policy.weighers, policy.weighers)
        self.assertEqual(base.filters, policy.filters)
        self.assertFalse(math.isnan(found.gain))
