# SPDX-License-Identifier: Apache-2.0
"""The filter scheduler takes the best, the chance scheduler any."""

import unittest
from collections import Counter

from tests.unit.chi_square import chi_square
from tests.unit.core.deciders import cpus, engine, engine_of
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}


def picks(found, draws: int, **words) -> Counter:
    return Counter(
        found.select_destinations(request(CORES, id=f"r{n}", **words)).placements[0].chosen.podm
        for n in range(draws)
    )


class TestChance(unittest.TestCase):
    """By lot."""

    def test_a_podm_of_many_pools_is_no_better_a_chance_than_one_of_one(self):
        many = {
            "id": "many",
            "pools": [{"id": str(n)} for n in range(9)],
            "blocks": [{**block, "pools": [str(n)]} for n, block in enumerate(cpus(9))],
        }
        found = engine_of(many, {"id": "one", "blocks": cpus(1)}, {"id": "two", "blocks": cpus(2)})
        counts = picks(found, 1500, policy="chance")
        self.assertLess(chi_square(counts, 3), 9.21, counts)  # p = 0.01

    def test_the_pools_of_a_podm_are_equal_chances_too(self):
        pools = [{"id": str(n)} for n in range(4)]
        blocks = [{**block, "pools": [str(n)]} for n, block in enumerate(cpus(4))]
        found = engine_of({"id": "a", "pools": pools, "blocks": blocks})
        counts = Counter(
            found.select_destinations(request(CORES, id=f"r{n}", policy="chance"))
            .placements[0]
            .chosen.pool
            for n in range(1500)
        )
        self.assertLess(chi_square(counts, 4), 11.34, counts)  # p = 0.01

    def test_nodes_of_one_request_are_draws_of_their_own(self):
        found = engine_of(*({"id": str(n), "blocks": cpus(100)} for n in range(4)))
        asked = request(CORES, policy="chance", count=200, min_count=0)
        counts = Counter(p.chosen.podm for p in found.select_destinations(asked).placements)
        self.assertEqual(4, len(counts))
        self.assertLess(chi_square(counts, 4), 11.34, counts)

    def test_their_pools_are_draws_of_their_own_too(self):
        pools = [{"id": str(n)} for n in range(4)]
        blocks = [{**block, "pools": [str(n // 100)]} for n, block in enumerate(cpus(400))]
        found = engine_of({"id": "a", "pools": pools, "blocks": blocks})
        asked = request(CORES, policy="chance", count=80, min_count=0)
        counts = Counter(p.chosen.pool for p in found.select_destinations(asked).placements)
        self.assertEqual(4, len(counts))
        self.assertLess(chi_square(counts, 4), 11.34, counts)  # p = 0.01

    def test_the_best_score_does_not_matter(self):
        site = view({"id": "full", "blocks": cpus(1)}, {"id": "roomy", "blocks": cpus(50)})
        policy = Policy(name="mine", scheduler="chance", weighers=(WeigherUse("room"),))
        counts = picks(engine(site, policy), 800, policy="mine")
        self.assertLess(chi_square(counts, 2), 6.63, counts)  # p = 0.01


class TestFilter(unittest.TestCase):
    """The best."""

    SITE = view(*({"id": str(n), "blocks": cpus(n + 1)} for n in range(6)))

    def test_the_best_is_always_taken(self):
        self.assertEqual({"5": 50}, picks(engine(self.SITE), 50))
        self.assertEqual({"0": 50}, picks(engine(self.SITE), 50, policy="pack"))

    def test_a_better_pool_without_a_set_of_blocks_is_passed_over(self):
        pools = [{"id": "tight", "limits": {"Compute": {"max": 1}}}]
        blocks = [{**block, "pools": ["tight"]} for block in cpus(9, 4)]
        site = view({"id": "roomy", "pools": pools, "blocks": blocks},
                    {"id": "full", "blocks": cpus(1)})  # fmt: skip
        self.assertEqual({"full": 20}, picks(engine(site), 20))

    def test_best_of_k_draws_among_the_best_k_that_fit(self):
        """semantics.md 4: as Nova's host_subset_size."""
        policy = Policy(
            name="mine", filters=(FilterUse("capacity"),), weighers=(WeigherUse("room"),),
            pick=Pick(3),
        )  # fmt: skip
        counts = picks(engine(self.SITE, policy), 1500, policy="mine")
        self.assertEqual({"3", "4", "5"}, set(counts))
        self.assertLess(chi_square(counts, 3), 9.21, counts)  # p = 0.01

    def test_best_of_more_than_there_are_draws_among_all(self):
        policy = Policy(name="mine", pick=Pick(100))
        self.assertEqual(6, len(picks(engine(self.SITE, policy), 200, policy="mine")))
