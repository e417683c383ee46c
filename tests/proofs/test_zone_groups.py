# SPDX-License-Identifier: Apache-2.0
"""Groups with members in several zones: hard rules hold under concurrent claims."""

import contextlib
import dataclasses
import threading
import time
import unittest
from collections import Counter

from msgspec.structs import replace

from tests.proofs.test_zone_scheduler import claiming
from tests.unit.lifecycle.site import request
from tests.unit.zones.in_process import InProcessZone, served_tree
from valence_sched.errors import ClaimLost, RequestError, ServiceError
from valence_sched.model.zone import OfferQuery, ZoneClaimBody
from valence_sched.zones.tree import ChildZone, ZoneTree

#: The availability zones of pod managers: both child zones have pod managers in each.
AREAS = {"e1": "a", "e2": "b", "w1": "a", "w2": "b", "t1": "c"}


class GroupCase(unittest.TestCase):
    """A zone with a pod manager, over ``east`` and ``west`` with two pod managers each."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder, self.served = stack.enter_context(served_tree(*AREAS, blocks=4))
        self.east, self.west = self.zone("east", "e1", "e2"), self.zone("west", "w1", "w2")
        self.top = self.zone("top", "t1", below=(self.east, self.west))

    def zone(self, name, *podms, below=()):
        own = [self.served[one] for one in podms]
        zone = InProcessZone(name, self.folder, own, below, areas=AREAS)
        self.addCleanup(zone.store.close)
        return zone

    def asked(self, count=1, seed=0, podms=(), **rules):
        group = {"name": "web", **rules}
        return request(group=group, count=count, seed=seed, podms=list(podms))

    def members(self) -> Counter:
        """Return the number of claimed nodes in each availability zone."""
        found = Counter()
        for zone in (self.top, self.east, self.west):
            for podm, blocks in zone.held_blocks().items():
                found[AREAS[podm]] += len(blocks)
        return found

    def select_then(self, change):
        """Return a selection that makes another change after its first use."""
        left = [change]

        def select(asked, avoid):
            selected = self.top.select(asked, avoid)
            if left:
                left.pop()()
            return selected

        return select


class TestOvertaken(GroupCase):
    """Another claim of the group is made between the decision and the claim."""

    def claimed_after(self, change, **rules):
        count = rules.pop("count", 1)
        select = self.select_then(change)
        return self.top.claims_here.claim(self.asked(count, **rules), select)

    def test_a_claim_of_the_same_zone_makes_it_decide_anew(self):
        for rules, target in (
            ({"anti_affinity": ["zone"]}, None),
            ({"affinity": ["zone"]}, "w2"),
            ({"at_most": {"zone": 1}}, None),
            ({"spread": [{"over": "zone"}], "count": 2}, None),
        ):
            # the decision fits except for the zone: east and west have pod managers of both
            # availability zones
            first = self.top.select(self.asked(**{k: v for k, v in rules.items() if k != "count"}))
            chosen = first.nodes[0].chosen.candidate.podm
            twin = {"e1": "w1", "w1": "e1", "e2": "w2", "w2": "e2", "t1": "t1"}[chosen]
            other = self.asked(podms=[target or twin])
            outcome = self.claimed_after(lambda: self.top.claim(other), **rules)  # noqa: B023
            with self.subTest(rules):
                self.assertEqual(1, outcome.retries)
                members = self.members()
                if "affinity" in rules:
                    self.assertEqual(1, len(members), members)
                else:
                    self.assertEqual({1}, set(members.values()), members)
            for claim in self.top.claims():
                self.assertEqual([], list(self.top.release([claim.id])))

    def test_a_claim_at_the_zone_below_makes_it_decide_anew(self):
        rules = {"anti_affinity": ["zone"]}
        chosen = self.top.select(self.asked(**rules)).nodes[0].chosen
        zone = {"east": self.east, "west": self.west, "": self.top}[chosen.zone]
        other = self.asked(podms=[chosen.candidate.podm])
        outcome = self.claimed_after(lambda: zone.own.claim(other), **rules)
        self.assertEqual(1, outcome.retries)
        self.assertEqual({1}, set(self.members().values()))

    def test_while_a_claim_is_prepared_no_other_one_of_its_group_is(self):
        tokens = [one.chosen.token for one in self.top.select(self.asked(podms=["e1"])).nodes]
        self.assertTrue(tokens)
        rows = self.top.store.zone_claims
        words = {"owner": None, "key": None, "content": "", "ttl_s": 60.0}
        first, _ = rows.begin([], group="web", **words)
        for generation in (None, rows.generation("web")):
            with self.assertRaisesRegex(
                ClaimLost, "group 'web': another claim of the group is being"
            ):
                rows.begin([], group="web", generation=generation, **words)
        with self.assertRaisesRegex(ClaimLost, "group 'web': another claim of the group is being"):
            self.top.own.claim_candidates(
                self.asked(), [self.top.select(request(podms=["t1"])).nodes[0].chosen.candidate]
            )
        rows.begin([], group="other", **words)
        before = rows.generation("web")
        self.assertIsNotNone(rows.change(first.id, ["PREPARED"], "FAILED"))
        self.assertEqual(before + 1, rows.generation("web"))
        rows.begin([], group="web", generation=before + 1, **words)

    def test_a_decision_that_counts_a_claim_which_is_given_up_is_lost(self):
        """West dies after it has held its share; meanwhile another claim is decided."""
        bodies = []

        def decide_and_die(*_args, **_words):
            asked = self.asked(spread=[{"over": "zone", "max_skew": 2}])
            token = self.top.select(asked).nodes[0].chosen.token
            bodies.append(ZoneClaimBody(request=asked, tokens=(token,)))
            raise ServiceError("west: does not answer")

        self.west.__dict__["renew"] = decide_and_die
        asked = self.asked(2, podms=["e1", "w2"], anti_affinity=["podm"])
        tokens = tuple(node.chosen.token for node in self.top.select(asked).nodes)
        with self.assertRaisesRegex(ClaimLost, "zone west"):
            self.top.hold_offers(ZoneClaimBody(request=asked, tokens=tokens))
        with self.assertRaisesRegex(
            ClaimLost, "group 'web': another node of the group was claimed"
        ):
            self.top.hold_offers(bodies[0])


class TestRaces(GroupCase):
    """Concurrent claims of one group in the top zone."""

    def test_whoever_wins_keeps_the_rules(self):
        claims = dataclasses.replace(self.top.claims_here, pause=time.sleep)
        for rules, most in (({"anti_affinity": ["zone"]}, 3), ({"affinity": ["zone"]}, 4)):
            held, barrier = [], threading.Barrier(4)

            def run(seed, rules=rules, held=held, barrier=barrier):
                barrier.wait(60)
                held.append(claims.claim(self.asked(seed=seed, **rules), self.top.select).claim)

            threads = [threading.Thread(target=run, args=(seed,)) for seed in (3, 14, 15, 92)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            members = self.members()
            with self.subTest(rules):
                self.assertEqual(4, len(held))
                self.assertEqual(most, sum(claim is not None for claim in held), members)
                worst = max(members.values()) if "anti_affinity" in rules else len(members)
                self.assertEqual((most, 1), (members.total(), worst), members)
            for claim in self.top.claims():
                self.assertEqual([], list(self.top.release([claim.id])))


class TestMembers(GroupCase):
    """Members in other zones count, also members of a silent zone."""

    def test_those_of_a_zone_that_does_not_answer_count_where_they_are(self):
        self.top.claim(self.asked(podms=["w1"]))
        self.west.dead = True
        for rules, areas in (
            ({"anti_affinity": ["zone"]}, {"b", "c"}),
            ({"affinity": ["zone"]}, {"a"}),
            ({"affinity": ["podm"]}, set()),
        ):
            nodes = self.top.select(replace(self.asked(2, **rules), min_count=0)).nodes
            self.assertLessEqual({AREAS[one.chosen.candidate.podm] for one in nodes}, areas)
            self.assertEqual(bool(areas), bool(nodes))

    def test_a_zone_that_is_not_asked_for_nodes_tells_its_members(self):
        self.top.claim(self.asked(podms=["w1"]))
        sealed = self.top.engine.seal(self.asked(anti_affinity=["zone"])).request
        query = OfferQuery(request=replace(sealed, capabilities={"gpu": ("yes",)}))
        children = [ChildZone("west", self.west, capabilities={"gpu": ("no",)})]
        tree = ZoneTree("top", self.top.tokens, None, children)
        answer = tree.group_state(query)
        self.assertEqual({"zone": {"a": 1}}, answer.group_state.members)
        self.assertEqual((), tree.offers(query).nodes)


class TestNames(unittest.TestCase):
    """Pod managers with the same name in two zones are different."""

    def test_each_counts_for_itself(self):
        with contextlib.ExitStack() as stack:
            zones = []
            for name in ("east", "west"):
                folder, served = stack.enter_context(served_tree("p", blocks=4))
                zones.append(InProcessZone(name, folder, [served["p"]]))
                self.addCleanup(zones[-1].store.close)
            top = InProcessZone("top", folder, [], zones)
            self.addCleanup(top.store.close)
            for rules, counts in (
                ({"affinity": ["podm"]}, [4]),
                ({"spread": [{"over": "podm"}]}, [3, 3]),
                ({"at_most": {"podm": 2}}, [2, 2]),
            ):
                asked = request(group={"name": "web", **rules}, count=6, min_count=0)
                found = Counter(one.chosen.zone for one in top.select(asked).nodes)
                self.assertEqual(counts, sorted(found.values()), rules)


class TestPlans(GroupCase):
    """A plan covers one zone."""

    def test_rules_that_reach_over_zones_are_refused(self):
        scheduler = claiming(self.top)
        with self.assertRaisesRegex(RequestError, "rules of group 'web' cover all zones"):
            scheduler.plan(self.asked(anti_affinity=["zone"]))
        plan = scheduler.plan(self.asked(anti_affinity=["podm"], podms=["e1"])).plan
        self.assertEqual(("east/e1",), scheduler.claim_plan(plan).podms)
