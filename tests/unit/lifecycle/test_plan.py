# SPDX-License-Identifier: Apache-2.0
"""A plan held as it stands, on a store and on served pod managers."""

import unittest

from tests.unit.lifecycle.site import request, site
from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import CORES, claimer, expire, podm
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ClaimLost, NameTaken
from valence_sched.lifecycle.plan import MOST_NAMED, PlanClaimer, describe_differences
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.model.plan import make_plan
from valence_sched.testing import request as asked


def planned(store, decider, what) -> PlanClaimer:
    decision = decider.decider().select_destinations(what)
    plan = make_plan(decision_report(decision), store.load_podms().values())
    return PlanClaimer(store, decider, plan)


@on_each_engine
class TestHolding:
    """Its very blocks, or nothing."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm("p", 3))
        self.asked = asked(CORES, count=2)
        self.planned = planned(self.one, claimer(self.one), self.asked)

    def again(self) -> PlanClaimer:
        return PlanClaimer(self.one, claimer(self.one), self.planned.plan)

    def test_it_is_held_once_and_the_holder_is_named_afterwards(self):
        claim = self.planned.claim(self.asked).claim
        self.assertEqual({"c0": 1, "c1": 1}, dict(claim.parts[0].blocks))
        with self.assertRaisesRegex(ClaimLost, f"block c. and 1 more .* by claim {claim.id}"):
            self.again().claim(self.asked)
        self.one.claims.release(claim.id)
        self.assertNotEqual(claim.id, self.again().claim(self.asked).claim.id)

    def test_a_claim_whose_time_is_over_is_not_in_its_way(self):
        expire(self, self.again().claim(self.asked).claim)
        self.assertIsNotNone(self.planned.claim(self.asked).claim)

    def test_a_key_is_of_one_plan(self):
        claim = self.planned.claim(self.asked, key="k").claim
        self.assertEqual(claim, self.again().claim(self.asked, key="k").claim)
        other = planned(self.one, claimer(self.one), asked(CORES))
        with self.assertRaisesRegex(NameTaken, "key 'k'"):
            other.claim(asked(CORES), key="k")

    def test_nothing_is_held_once_something_moved(self):
        """semantics.md, trap 5: time passes between the choice and the making."""
        self.one.remember(podm("p", 4, zone="z"))
        with self.assertRaisesRegex(ClaimLost, "zone was not told, is z; .*: block c3 added"):
            self.planned.claim(self.asked)
        self.assertEqual([], self.one.claims.list())
        self.assertEqual(2, len(self.planned.differences()))

    def test_one_that_is_dead_by_now_moved(self):
        dead = PlanClaimer(self.one, claimer(self.one), self.planned.plan, {"p": "Offline"})
        with self.assertRaisesRegex(ClaimLost, "status was Online, is Offline"):
            dead.claim(self.asked)

    def test_there_is_no_other_node_in_place_of_one_of_the_plan(self):
        self.planned.claim(self.asked)
        self.assertIsNone(self.planned.claim(self.asked).claim)
        self.assertTrue(self.planned.claim_lost)

    def test_much_that_moved_is_counted(self):
        self.one.remember(podm("p", 9))
        words = describe_differences(self.planned.differences())
        self.assertIn(f"and {6 - MOST_NAMED} more", words)


class TestComposing(unittest.TestCase):
    """What happens between the look at a plan and the write."""

    def test_a_block_that_is_stolen_at_the_last_moment_is_lost_and_nothing_takes_its_place(self):
        with site() as here:
            what = request()
            plan = planned(here.store, here.claimer, what)
            (placement,) = plan.plan.decision.placements
            documents = here.podms[placement.chosen.podm].documents
            uri = placement.chosen.blocks[0].uri

            def steal(point: str) -> None:
                if point == "intent":
                    status = {"CompositionState": "Composed"}
                    documents.put(uri, {**documents.get(uri), "CompositionStatus": status})

            object.__setattr__(here.composer, "checkpoint", steal)
            done = Provisioner(here.store, plan, here.composer, here.read).provision(what)
            self.assertEqual(((), True), (done.nodes, plan.claim_lost))
            self.assertIn(uri, done.failures[0])
            self.assertEqual([], here.node_names())
            self.assertEqual([], here.store.claims.list())

    def test_it_is_composed_as_it_says(self):
        with site() as here:
            what = request(count=2)
            plan = planned(here.store, here.claimer, what)
            done = Provisioner(here.store, plan, here.composer, here.read).provision(what)
            wanted = {(one.chosen.podm, *(block.uri for block in one.chosen.blocks))
                      for one in plan.plan.decision.placements}  # fmt: skip
            self.assertEqual(wanted, {(node.podm, *node.blocks) for node in done.nodes})
            with self.assertRaisesRegex(ClaimLost, "in use by node vs-"):
                PlanClaimer(here.store, here.claimer, plan.plan).claim(what)
