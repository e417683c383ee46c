# SPDX-License-Identifier: Apache-2.0
"""The joint scheduler: the most nodes of what is known at once, and goals among such placements."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.core.deciders import cpu, cpus, engine, gpu
from tests.unit.core.sites import quietly
from valence_sched.core.explain.report import decision_report
from valence_sched.core.policy import bind
from valence_sched.errors import InputError
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.planning.batches import decide_all
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
LARGE = {"processor": {"total_cores": 16}}


def joint(site, *goals, weigher="room"):
    policy = Policy(name="mine", scheduler="joint", weighers=(WeigherUse(weigher),), goals=goals)
    return engine(site, policy)


def asked(node=CORES, **words):
    return request(node, policy="mine", **words)


def podms_of(decision):
    return [one.chosen.podm for one in decision.placements]


class TestJoint(unittest.TestCase):
    """Of one request, and of several."""

    def test_without_goals_what_the_filter_scheduler_places_whole_is_its_answer(self):
        site = view(*({"id": str(n), "blocks": cpus(4)} for n in range(4)))
        plain = Policy(name="plain", weighers=(WeigherUse("room"),))
        found = joint(site).select_destinations(asked(count=5))
        expected = engine(site, plain).select_destinations(request(CORES, policy="plain", count=5))
        self.assertEqual(expected.placements, found.placements)
        self.assertIsNone(found.batch.bound)

    def test_fewest_podms(self):
        site = view(*({"id": str(n), "blocks": cpus(4)} for n in range(4)))
        decision = joint(site, "fewest-podms").select_destinations(asked(count=8))
        self.assertEqual(2, len(set(podms_of(decision))))
        self.assertEqual(8, decision.batch.bound)

    def test_spread(self):
        site = view(*({"id": str(n), "blocks": cpus(n + 3)} for n in range(4)))
        decision = joint(site, "spread", weigher="pack").select_destinations(asked(count=8))
        names = podms_of(decision)
        self.assertEqual([2, 2, 2, 2], [names.count(str(n)) for n in range(4)])

    def test_least_cost_is_that_of_the_weighers_before_anything_is_placed(self):
        site = view({"id": "roomy", "blocks": cpus(9)}, {"id": "small", "blocks": cpus(7)})
        decision = joint(site, "least-cost").select_destinations(asked(count=6))
        self.assertEqual({"roomy"}, set(podms_of(decision)))

    def test_least_fragmentation_takes_the_blocks_that_fit(self):
        """The pod manager with most room has blocks twice as large as the node."""
        site = view({"id": "large", "blocks": cpus(9, 16)}, {"id": "tight", "blocks": cpus(2)})
        decision = joint(site, "least-fragmentation").select_destinations(asked(count=2))
        self.assertEqual(["tight", "tight"], podms_of(decision))

    def test_a_later_goal_decides_among_placements_that_are_equal_by_the_first(self):
        site = view({"id": "a", "blocks": cpus(4, 16)}, {"id": "b", "blocks": cpus(4)},
                    {"id": "c", "blocks": cpus(3)})  # fmt: skip
        goals = "fewest-podms", "least-fragmentation"
        decision = joint(site, *goals).select_destinations(asked(count=4))
        self.assertEqual({"b"}, set(podms_of(decision)))

    def test_nodes_that_are_missing_are_stated_with_the_bound(self):
        site = view({"id": "a", "blocks": cpus(3)})
        decision = joint(site).select_destinations(asked(count=5, min_count=0))
        self.assertEqual(3, decision.batch.bound)
        warnings = decision_report(decision).warnings
        self.assertIn("no placement has more than 3 of the 5 nodes", warnings)

    @quietly(30)
    @given(
        st.lists(
            st.lists(st.sampled_from([cpu("c", 8), cpu("c", 16), gpu("g")]), max_size=5),
            min_size=1,
            max_size=3,
        ),
        st.integers(0, 4),
        st.integers(0, 3),
    )
    def test_several_requests_get_the_most_nodes_there_are(self, podms, small, large):
        site = view(*(
            {"id": str(number), "blocks": [{**one, "uri": f"b{n}"} for n, one in enumerate(blocks)]}
            for number, blocks in enumerate(podms)
        ))  # fmt: skip
        requests = [asked(CORES, id="s", count=small + 1, min_count=0),
                    asked(LARGE, id="l", count=large + 1, min_count=0)]  # fmt: skip
        found = decide_all(joint(site), requests)
        eights = [sum(8 in _cores(one) for one in blocks) for blocks in podms]
        sixteens = [sum(16 in _cores(one) for one in blocks) for blocks in podms]
        most = max(
            _most_small(eights, sixteens, number, small + 1) + number for number in range(large + 2)
            if number <= sum(sixteens) + sum(one // 2 for one in eights)
        )  # fmt: skip
        self.assertEqual(most, found.placed_count)
        self.assertGreaterEqual(found.bound, most)

    def test_a_generated_site_is_filled_to_the_last_node(self):
        site = generated_view(2, 20, seed=0)
        counts = {"small": 9, "large": 3, "gpu": 5, "gpu-large": 3, "data": 1}
        requests = [asked(FLAVORS[name], flavor=name, count=n) for name, n in counts.items()]
        found = decide_all(joint(site), requests)
        self.assertEqual(("placed", 21), (found.outcome, found.placed_count))
        again = decide_all(joint(site), requests)
        self.assertEqual(to_json(found.report()), to_json(again.report()))

    def test_goals_of_another_scheduler_are_refused(self):
        with self.assertRaises(InputError) as caught:
            bind(Policy(name="mine", goals=("spread",)))
        self.assertIn("found spread, expected none with scheduler 'filter'", str(caught.exception))


def _cores(block):
    return [one.get("cores") for one in block["devices"].get("processors", [])]


def _most_small(eights, sixteens, large, small):
    """Return the most nodes of 8 cores beside so many of 16, which take pairs of blocks last."""
    pairs = max(0, large - sum(sixteens))
    left = sum(eights) - 2 * pairs + max(0, sum(sixteens) - large)
    return min(small, left)


if __name__ == "__main__":
    unittest.main()
