# SPDX-License-Identifier: Apache-2.0
"""Claiming a plan: what is in its way and how that is said, and what the claim says of it."""

import unittest

from tests.unit.lifecycle.test_plan import planned
from tests.unit.store.engines import StoreCase
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ClaimLost, NameTaken
from valence_sched.lifecycle.plan import MOST_NAMED, PlanClaimer, describe_differences
from valence_sched.model.claim import Grant
from valence_sched.model.composition import ComposedNode
from valence_sched.model.diff import ADDED, REMOVED, Difference
from valence_sched.model.inventory import OTHERS, hidden_uri
from valence_sched.model.plan import make_plan
from valence_sched.model.request import NodeRequest
from valence_sched.store.claims import TTL_S
from valence_sched.testing import request

IDENTITY = "uuid:11111111-2222-4333-8444-555555555555"


def difference(change="health", before=None, after="OK", kind="block", name="c0"):
    return Difference(podm="p", kind=kind, name=name, change=change, before=before, after=after)


class TestDifferences(unittest.TestCase):
    """What has changed since a plan, in one line."""

    def line(self, *words, **more):
        return describe_differences([difference(*words, **more)])

    def test_a_value_was_and_is(self):
        block = "pod manager 'p': block c0: "
        self.assertEqual(f"{block}health was not told, is OK", self.line())
        self.assertEqual(f"{block}cores was 8, is not told", self.line("cores", 8, None))
        self.assertEqual(f'{block}type was ["A"], is ""', self.line("type", ["A"], '""'))
        self.assertEqual("pod manager 'p': zone was a, is b",
                         self.line("zone", "a", "b", kind="podm", name="p"))  # fmt: skip

    def test_what_came_or_went_has_no_values(self):
        for change in (ADDED, REMOVED):
            self.assertEqual(f"pod manager 'p': block c0 {change}", self.line(change))
            self.assertEqual(f"pod manager 'p' {change}", self.line(change, kind="podm", name="p"))

    def test_of_a_record_only_what_differs_is_named_and_not_too_much(self):
        before = {"d": 1, "c": 1, "b": 1, "a": 1, "same": 2}
        after = {"c": 2, "b": 2, "a": 2, "same": 2, "e": 3}
        self.assertEqual(3, MOST_NAMED)
        self.assertEqual("pod manager 'p': block c0: status.a was 1, is 2, status.b was 1, is 2, "
                         "status.c was 1, is 2", self.line("status", before, after))  # fmt: skip
        self.assertEqual("pod manager 'p': block c0: status.e was not told, is 3",
                         self.line("status", {}, {"e": 3}))  # fmt: skip
        self.assertEqual("pod manager 'p': block c0: status was {\"a\":1}, is x",
                         self.line("status", {"a": 1}, "x"))  # fmt: skip

    def test_long_values_are_cut(self):
        line = self.line("v", "x" * 80, "y" * 81)
        self.assertTrue(line.endswith(f"v was {'x' * 80}, is {'y' * 79}…"), line)
        many = {name * 70: name * 80 for name in "abc"}
        self.assertEqual(300, len(self.line("v", many, {})))

    def test_some_are_named_and_the_others_counted(self):
        some = [difference(name=f"c{n}", change=ADDED) for n in range(5)]
        named = "; ".join(f"pod manager 'p': block c{n} {ADDED}" for n in range(3))
        self.assertEqual(named, describe_differences(some[:3]))
        self.assertEqual(f"{named}; and 2 more", describe_differences(some))
        self.assertEqual(f"pod manager 'p': block c0 {ADDED}; and 4 more",
                         describe_differences(some, most=1))  # fmt: skip


class TestClaims(StoreCase):
    """A plan of two blocks of a pod manager of four."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm(blocks=4))
        self.asked = request(CORES, count=2)
        self.planned = self.plan(self.asked)

    def plan(self, asked):
        return planned(self.one, claimer(self.one), asked)

    def again(self, **words):
        return PlanClaimer(self.one, claimer(self.one), self.planned.plan, **words)

    def lost(self, claimer_=None, owner=None):
        with self.assertRaises(ClaimLost) as caught:
            (claimer_ or self.again()).claim(self.asked, owner=owner)
        return str(caught.exception)

    def test_it_has_what_the_plan_and_the_caller_say(self):
        asked = request(CORES, owner="o", group={"name": "g"}, flavor="small")
        plan = self.plan(asked)
        claim = plan.claim(asked, key="k").claim
        share = claim.parts[0].shares[0]
        self.assertEqual(("o", "g", "small", "k"),
                         (claim.owner, claim.group, share.flavor, claim.key))  # fmt: skip
        self.assertAlmostEqual(TTL_S, claim.expires_at - claim.created_at)
        self.assertEqual(plan.plan.digest, plan.content(self.asked))
        found = self.one.claims.find_by_key("o", "k", plan.plan.digest)
        self.assertEqual(claim, found)
        self.one.claims.release(claim.id)
        again = PlanClaimer(self.one, claimer(self.one), plan.plan)
        other = again.claim(asked, owner="x", ttl_s=9.0).claim
        self.assertEqual("x", other.owner)
        self.assertAlmostEqual(9.0, other.expires_at - other.created_at)

    def test_what_each_node_was_asked_for_is_kept_with_it(self):
        asked = request(CORES, flavor="small", seed=5)
        (held,) = self.plan(asked).claim(asked).claim.parts
        self.assertEqual(NodeRequest.of(asked), held.request)

    def test_the_same_key_gives_the_same_claim_and_of_single_nodes_none(self):
        claim = self.planned.claim(self.asked, key="k").claim
        self.assertEqual(claim, self.again().earlier_claim("k"))
        self.assertIsNone(self.again().earlier_claim(None))
        self.assertIsNone(self.again().earlier_claim("x"))
        self.one.claims.release(claim.id)
        other = self.plan(request(CORES, count=2, seed=9)).claim(self.asked, key="k").claim
        self.one.claims.split(other.id)
        with self.assertRaisesRegex(NameTaken, "key 'k#1'"):
            self.again().claim(self.asked, key="k")

    def test_what_uses_its_blocks_is_named(self):
        first = self.one.claims.create([part("p", 1, "c0", "c1", "c3")], owner="o")
        self.assertEqual(f"block c0 and 1 more of pod manager 'p' is in use by claim {first.id} "
                         "of o, which is HELD", self.lost())  # fmt: skip
        self.one.claims.release(first.id)
        second = self.one.claims.create([part("p", 1, "c1", "c2")])
        self.assertEqual(f"block c1 of pod manager 'p' is in use by claim {second.id}, "
                         "which is HELD", self.lost())  # fmt: skip
        self.one.claims.start_composing(second.id)
        node = ComposedNode(id="n", podm="p", uri="/n", claim=second.id, blocks=("c1", "c2"))
        self.one.claims.finish_composing(second.id, [node])
        self.assertEqual("block c1 of pod manager 'p' is in use by node n (claim "
                         f"{second.id}), which is COMPOSED", self.lost())  # fmt: skip

    def test_of_a_claim_on_several_pod_managers_the_node_on_this_one_is_named(self):
        self.one.remember(podm("q"))
        claim = self.one.claims.create([part("p", 1, "c1"), part("q", 1, "c1")])
        self.one.claims.start_composing(claim.id)
        self.one.claims.finish_composing(claim.id, [
            ComposedNode(id=f"n-{name}", podm=name, uri="/n", claim=claim.id, blocks=("c1",))
            for name in ("p", "q")
        ])  # fmt: skip
        self.assertIn(f"is in use by node n-p (claim {claim.id})", self.lost())

    def test_an_owner_is_told_only_of_claims_of_its_own(self):
        claim = self.one.claims.create([part("p", 1, "c1", "c2")], owner="o")
        start = "block c1 of pod manager 'p' is in use by"
        self.assertEqual(f"{start} a claim of {OTHERS}", self.lost(owner="x"))
        self.assertEqual(f"{start} claim {claim.id} of o, which is HELD", self.lost(owner="o"))

    def test_an_owner_is_not_told_of_nodes_of_others(self):
        self.one.remember(podm(blocks=4, nodes=[{"uri": "/S/9", "name": "theirs", "owner": "o"}]))
        start = "the plan is out of date: pod manager 'p': node "
        self.assertEqual(f"{start}{hidden_uri('/S/9')} added", self.lost(owner="x"))
        self.assertEqual(f"{start}/S/9 added", self.lost(owner="o"))
        self.assertEqual(f"{start}/S/9 added", self.lost())

    def test_other_blocks_are_not_in_its_way(self):
        self.one.remember(podm("q", 4))
        self.one.claims.create([part("p", 1, "c2", "c3"), part("q", 1, "c0", "c1")])
        self.assertIsNotNone(self.again().claim(self.asked).claim)

    def test_a_place_of_a_shared_block_is_not_in_its_way(self):
        devices = {"processors": [{"cores": 8}]}
        shared = {"uri": "s", "type": ["Compute"], "devices": devices,
                  "status": {"shareable": True, "max_compositions": 3}}  # fmt: skip
        self.one.remember(podm(blocks=[shared]))
        plan = self.plan(request(CORES))
        self.one.claims.create([part("p", 2, "s")])
        self.assertEqual({"s": 1}, dict(plan.claim(request(CORES)).claim.parts[0].blocks))

    def test_what_has_changed_is_named(self):
        self.one.remember(podm(blocks=4, zone="z"))
        self.assertEqual("the plan is out of date: pod manager 'p': zone was not told, is z",
                         self.lost())  # fmt: skip
        self.assertEqual(["zone"], [one.change for one in self.again().differences()])

    def test_a_status_that_was_not_read_counts(self):
        self.assertIn(
            "status was Online, is Offline", self.lost(self.again(statuses={"p": "Offline"}))
        )
        (change,) = self.again(statuses={"p": "Offline"}).differences()
        self.assertEqual("status", change.change)

    def test_a_recording_without_identity_is_no_basis(self):
        decision = claimer(self.one).select_destinations(self.asked)
        podms = self.one.load_podms()
        for identity, recorded in ((None, {"p"}), (None, ()), (IDENTITY, {"p"})):
            with self.subTest(identity=identity, recorded=recorded):
                self.one.remember(podm(blocks=4, identity=identity))
                podms = self.one.load_podms()
                plan = make_plan(decision_report(decision), podms.values(), recorded=recorded)
                local = PlanClaimer(self.one, claimer(self.one), plan)
                if identity or not recorded:
                    self.one.claims.release(local.claim(self.asked).claim.id)
                    continue
                with self.assertRaises(ClaimLost) as caught:
                    local.claim(self.asked)
                self.assertEqual(
                    "the plan was made on a recording that does not tell which service pod "
                    "manager 'p' is (no identity): make it on a new capture (podm capture), or "
                    "live", str(caught.exception))  # fmt: skip
                self.assertEqual("p", caught.exception.podm)

    def test_only_a_conflict_counts_as_lost_to_another(self):
        self.planned.claim(self.asked)
        refused = request(CORES, count=1, exclude_podms=("p",))
        self.assertEqual((None, None, 0), self.planned.claim(refused))
        self.assertFalse(self.planned.claim_lost)
        self.planned.claim(request(CORES))
        self.assertTrue(self.planned.claim_lost)
        self.planned.claim(refused)
        self.assertTrue(self.planned.claim_lost)

    def test_what_was_declared_is_held_up_to_its_amount(self):
        stock = {"uri": "declared:power", "resource": "power", "total": 5}
        self.one.remember(podm(blocks=4, stocks=[stock]))
        asked = request({**CORES, "stocks": [{"resource": "power", "amount": 2}]})
        plan = self.plan(asked)
        plan.supplies = {"p": {"declared:power": 5.0}}
        (part_,) = plan.claim(asked).claim.parts
        self.assertEqual((Grant("declared:power", 5.0),), part_.supplies)
