# SPDX-License-Identifier: Apache-2.0
"""Joint plans: what the optimiser is asked for, and that no answer is worse than the start."""

import unittest

from tests.unit.core.deciders import cpu, cpus, engine, gpu
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.planning.batches import BatchPlan, decide_all, plan_nodes
from valence_sched.planning.succession import Succession
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
CARD = {**CORES, "accelerators": [{}]}


def decider(site, *goals, weigher="room"):
    policy = Policy(name="mine", scheduler="joint", weighers=(WeigherUse(weigher),), goals=goals)
    return engine(site, policy)


def asked(node=CORES, **words):
    return request(node, policy="mine", **words)


def planned(site, *goals, weigher="room", **words):
    """Return the batch of one request for nodes of 8 cores."""
    return plan_nodes(decider(site, *goals, weigher=weigher).context(asked(**words)))


def podms_of(site, batch):
    return sorted(site.podms[site.podm_of[node.chosen.row]].id for node in batch.nodes)


class TestOneRequest(unittest.TestCase):
    """Nodes of one request."""

    def test_the_first_placement_is_the_answer_where_nothing_is_missing_or_better(self):
        site = view(*({"id": name, "blocks": cpus(3)} for name in "abc"))
        batch = planned(site, count=3)
        self.assertEqual(["a", "b", "c"], podms_of(site, batch))
        self.assertIsNone(batch.bound)

    def test_a_goal_is_reached_and_the_bound_is_no_more_than_was_asked_for(self):
        site = view(*({"id": name, "blocks": cpus(3)} for name in "abc"))
        batch = planned(site, "fewest-podms", count=3)
        self.assertEqual(1, len(set(podms_of(site, batch))))
        self.assertEqual((3, 3), (len(batch.nodes), batch.bound))

    def test_of_what_is_missing_the_bound_is_known(self):
        site = view({"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": cpus(1)})
        batch = planned(site, count=9, min_count=0)
        self.assertEqual((["a", "a", "b"], 3), (podms_of(site, batch), batch.bound))

    def test_costs_are_those_of_the_weighers(self):
        site = view({"id": "roomy", "blocks": cpus(9)}, {"id": "small", "blocks": cpus(7)})
        for weigher, name in (("room", "roomy"), ("pack", "small")):
            with self.subTest(weigher):
                batch = planned(site, "least-cost", weigher=weigher, count=6)
                self.assertEqual({name}, set(podms_of(site, batch)))

    def test_only_the_first_alternative_is_planned(self):
        site = view({"id": "a", "blocks": [*cpus(2), gpu("g")]})
        wanted = asked(CARD, count=2, min_count=0, fallbacks=[{"needs": asked().needs}])
        batch = plan_nodes(decider(site).context(wanted))
        self.assertEqual((1, 1), (len(batch.nodes), batch.bound))


class TestSeveralRequests(unittest.TestCase):
    """Nodes of several requests as one plan."""

    def plan(self, site, *requests):
        succession = Succession(decider(site))
        return BatchPlan(succession, requests, succession.budget(requests))

    def placed(self, trial):
        return [[node.chosen.row for node in one.fitting_nodes] for one in trial.decisions]

    def test_the_first_order_is_the_answer_where_all_nodes_have_a_place(self):
        site = view({"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": cpus(2)})
        plan = self.plan(site, asked(count=2), asked(count=2))
        trial = plan.best((), exact=True)
        self.assertEqual(((0, 0), 4), (trial.score, plan.bound))
        self.assertEqual([2, 2], [len(rows) for rows in self.placed(trial)])

    def test_goals_are_reached_for_all_requests_together(self):
        site = view(*({"id": name, "blocks": cpus(4)} for name in "abcd"))
        plan = self.plan(site, asked(count=2, id="x"), asked(count=2, id="y"))
        self.assertEqual(4, len({row for rows in self.placed(plan.best(exact=True))
                                 for row in rows}))  # fmt: skip
        trial = plan.best(("fewest-podms",), exact=True)
        self.assertEqual((0, 0), trial.score)
        self.assertEqual(1, len({row for rows in self.placed(trial) for row in rows}))

    def test_costs_of_each_request_are_those_of_its_own_nodes(self):
        """The large node has a single place, whatever it costs; the small ones go where cheap."""
        site = view({"id": "large", "blocks": cpus(6, 16)}, {"id": "small", "blocks": cpus(5)})
        sixteen = asked({"processor": {"total_cores": 16}}, count=1, id="x")
        plan = self.plan(site, sixteen, asked(count=2, id="y"))
        trial = plan.best(("least-cost",), exact=True)
        (large, small) = self.placed(trial)
        self.assertEqual([0], large)
        self.assertEqual({0}, set(small))

    def test_what_is_missing_is_no_more_than_must_be(self):
        """Scarcest first, the one card goes to the request that can have no other node."""
        site = view({"id": "a", "blocks": [cpu("c", 8), cpu("d", 8), gpu("g")]})
        plan = self.plan(site, asked(count=2, min_count=0), asked(CARD, count=2, min_count=0))
        trial = plan.best((), exact=True)
        self.assertEqual(((0, 2), 2), (trial.score, plan.bound))

    def test_what_small_nodes_take_is_not_there_for_large_ones(self):
        site = view({"id": "a", "blocks": cpus(5)})
        large = asked({"processor": {"total_cores": 16}}, count=3, min_count=0)
        plan = self.plan(site, asked(count=3, min_count=0), large)
        self.assertEqual(4, plan.bound)  # 24 of 40 cores, and 16 are left

    def test_the_bound_is_that_of_the_decisions_on_all_requests(self):
        site = view({"id": "a", "blocks": cpus(3)})
        found = decide_all(
            decider(site), [asked(count=2, min_count=0), asked(count=2, min_count=0)]
        )
        self.assertEqual((3, 3), (found.bound, found.placed_count))

    def test_nodes_that_are_dealt_out_anew_are_all_dealt_out(self):
        site = view({"id": "a", "blocks": cpus(4)})
        first, second = asked(count=3, min_count=1, id="x"), asked(count=3, min_count=1, id="y")
        plan = self.plan(site, first, second)
        nodes = list(plan.nodes_of(plan.trial(range(2))))
        self.assertEqual(4, len(nodes))
        dealt = plan.realised(nodes)
        self.assertEqual([3, 1], [one.fit_count for one in dealt.decisions])
        self.assertEqual((0, 2), dealt.score)
