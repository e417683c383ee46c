# SPDX-License-Identifier: Apache-2.0
"""Several requests known at once: planned scarcest first, in other orders, and by a search."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from tests.unit.core.sites import quietly
from valence_sched.core.offers import most_nodes_alone
from valence_sched.model.policy import Budget, Policy
from valence_sched.planning.batch_orders import most_nodes_together
from valence_sched.planning.batches import decide_all
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.succession import Succession
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
MEMORY = {"memory": {"capacity_mib": 64}}
CARD = {**CORES, "accelerators": [{}]}
BOTH = {**CARD, **MEMORY}
ASKS = st.lists(
    st.tuples(st.sampled_from([CORES, MEMORY, CARD, BOTH]), st.integers(1, 2)),
    min_size=2,
    max_size=4,
)
BLOCKS = st.lists(
    st.sampled_from([cpu("c", 8), cpu("c", 16), cpu("c", 8, 64), gpu("g"), gpu("g", 2)]),
    max_size=5,
)


def site_of(podms):
    return view(*(
        {"id": str(number), "blocks": [{**block, "uri": f"b{n}"} for n, block in enumerate(blocks)]}
        for number, blocks in enumerate(podms)
    ))  # fmt: skip


def fits_in_order(seen, requests) -> bool:
    """Decide on requests one after another, as the default policy does: do all fit?"""
    succession = Succession(engine(seen))
    for asked in requests:
        nodes = succession.decide(asked).placed_nodes
        if len(nodes) < asked.count:
            return False
        for _, node in nodes:
            succession.take(asked, node.chosen)
    return True


class TestBatchPlan(unittest.TestCase):
    """A batch is planned, not replayed."""

    @quietly(60)
    @given(st.lists(BLOCKS, min_size=1, max_size=3), ASKS)
    def test_what_fits_in_any_order_is_placed(self, podms, asks):
        seen = site_of(podms)
        asked = [request(node, count=count) for node, count in asks]
        any_order = any(fits_in_order(seen, order) for order in itertools.permutations(asked))
        found = decide_all(engine(seen), asked)
        if any_order:
            self.assertEqual("placed", found.outcome)
        counts = [len(one.placed_nodes) for one in found.decisions]
        self.assertTrue(found.failure or counts == [one.count for one in asked])

    @quietly(60)
    @given(st.lists(BLOCKS, min_size=1, max_size=3), ASKS)
    def test_no_placement_has_more_nodes_than_the_bound(self, podms, asks):
        seen = site_of(podms)
        asked = [request(node, count=count, min_count=0) for node, count in asks]
        types = [NodeType.of(one, most=one.count) for one in asked]
        alone = [most_nodes_alone(seen, one, seen.all_rows) for one in asked]
        found = decide_all(engine(seen), asked)
        self.assertLessEqual(found.placed_count, most_nodes_together(seen, types, alone))

    def test_the_scarcest_are_placed_first_and_answers_are_in_the_order_asked(self):
        site = {"id": "a", "blocks": [cpu("small", 8), cpu("large", 8, 64)]}
        asked = [request(CORES, id="any"), request(MEMORY, id="memory")]
        found = decide_all(engine_of(site), asked)
        uris = [one.placements[0].chosen.blocks[0].uri for one in found.decisions]
        self.assertEqual(["any", "memory"], [one.request.id for one in found.decisions])
        self.assertEqual(["small", "large"], uris)

    def test_the_search_places_what_no_order_does(self):
        """The nodes of a generated site's optimum: the first order leaves some of them out."""
        seen = generated_view(2, 20, seed=0)
        flavors = [("small", 9), ("large", 3), ("gpu", 5), ("gpu-large", 3), ("data", 1)]
        asked = [
            request(FLAVORS[name], flavor=name, count=count, min_count=0) for name, count in flavors
        ]
        placed = []
        for fits in (0, 20_000):
            policy = Policy(name="default", budget=Budget(batch_fits=fits))
            placed.append(decide_all(engine(seen, policy), asked).placed_count)
        self.assertLess(placed[0], placed[1])
        self.assertEqual(21, placed[1])

    def test_a_batch_without_budget_is_decided_once(self):
        policy = Policy(name="default", budget=Budget(batch_fits=0))
        asked = [request(CORES, count=3, min_count=0), request(CARD, count=2, min_count=0)]
        found = decide_all(engine(view({"id": "a", "blocks": [*cpus(3), gpu("g")]}), policy), asked)
        self.assertEqual([2, 1], [len(one.placed_nodes) for one in found.decisions])

    def test_equal_requests_share_what_there_is_and_get_what_they_must_first(self):
        asked = [request(CORES, id="x", count=4, min_count=1), request(CORES, id="y", count=2)]
        found = decide_all(engine_of({"id": "a", "blocks": cpus(4)}), asked)
        self.assertEqual([2, 2], [len(one.placed_nodes) for one in found.decisions])

    def test_a_planned_node_that_the_rules_of_its_group_reject_is_not_placed(self):
        group = {"name": "g", "anti_affinity": ["podm"]}
        site = [{"id": name, "blocks": cpus(4)} for name in "ab"]
        asked = [request(CORES, count=3, min_count=0, group=group),
                 request(CORES, count=7, min_count=0)]  # fmt: skip
        found = decide_all(engine_of(*site), asked)
        podms = [one.chosen.podm for one in found.decisions[0].placements]
        self.assertEqual(["a", "b"], sorted(podms))
        self.assertEqual(8, found.placed_count)


if __name__ == "__main__":
    unittest.main()
