# SPDX-License-Identifier: Apache-2.0
"""Groups under concurrent claims: the hard rules hold in any order of the claims."""

import itertools
import random
import threading
from collections import Counter

from tests.unit.core.deciders import cpu
from tests.unit.store.engines import ENGINES, StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ClaimLost
from valence_sched.lifecycle.plan import PlanClaimer
from valence_sched.model.claim import ComposedNode
from valence_sched.model.plan import make_plan
from valence_sched.model.request import Group
from valence_sched.store import claim_rows
from valence_sched.store.store import Store
from valence_sched.testing import request
from valence_sched.view.view import domain_values

PLACES = {"a0": "a", "a1": "a", "b0": "b", "b1": "b", "c0": "c"}
#: Rules over domains that are wider than a pod manager, and over pod managers.
RULES = (
    {"anti_affinity": ["zone"]},
    {"affinity": ["zone"]},
    {"spread": [{"over": "zone"}]},
    {"spread": [{"over": "podm", "max_skew": 2}]},
    {"at_most": {"zone": 2}},
    {"at_most": {"podm": 1}},
    {"anti_affinity": ["aggregate"]},
    {"affinity": ["facts.rack"], "at_most": {"podm": 2}},
)


def site():
    """Return five pod managers in three zones, aggregates and racks."""
    return [
        podm(name, 4, zone=zone, aggregates=[f"agg-{zone}"], facts={"rack": f"r-{zone}"})
        for name, zone in PLACES.items()
    ]


def broken(group: Group, podms, members: Counter) -> list[str]:
    """Return the hard rules that members, by pod manager, break."""
    found = []

    def counts(domain):
        total = Counter({value: 0 for one in podms for value in domain_values(one, domain)})
        for one in podms:
            total.update(dict.fromkeys(domain_values(one, domain), 0))
            for value in domain_values(one, domain):
                total[value] += members[one.id]
        return total

    for domain in group.affinity:
        if sum(1 for number in counts(domain).values() if number) > 1:
            found.append(f"affinity {domain}: {counts(domain)}")
    limits = {**dict.fromkeys(group.anti_affinity, 1), **group.at_most}
    for domain, most in limits.items():
        if max(counts(domain).values()) > most:
            found.append(f"at most {most} per {domain}: {counts(domain)}")
    for rule in group.spread:
        if (skew := max(counts(rule.over).values()) - min(counts(rule.over).values())) > (
            rule.max_skew
        ):
            found.append(f"skew {skew} over {rule.over}: {counts(rule.over)}")
    return found


class GroupSite:
    """A store with the site, and claimers with stores of their own."""

    def setUp(self):
        super().setUp()
        self.one, self.other = self.store(), self.store()
        self.one.remember_all(site())

    def asked(self, rules, **words):
        return request(CORES, group={"name": "g", **rules}, **words)

    def members(self) -> Counter:
        claims = self.one.claims.list()
        return Counter(part.podm for one in claims for part in one.parts for _ in part.shares)

    def check(self, rules):
        """Check the rules of the group ``g`` for the claims of the store."""
        group = self.asked(rules).group
        self.assertEqual([], broken(group, site(), self.members()), rules)

    def release_all(self):
        for claim in self.one.claims.list():
            self.one.claims.release(claim.id)


@on_each_engine
class TestOvertaken(GroupSite):
    """Another member is claimed between the decision and the claim."""

    def overtaken(self, local, claim):
        """Call ``claim`` after the first check of the claimer."""
        look, left = local.decider, [None]

        def look_and_lose():
            decider = look()
            if left:
                left.pop()
                claim()
            return decider

        local.decider = look_and_lose
        return local

    def test_the_rules_hold_and_the_claim_is_decided_anew(self):
        # one with rules, and one that only joins the group
        others = (("a1", 1, {"anti_affinity": ["podm"]}), ("c0", 2, {}))
        second = claimer(self.other)
        number = ENGINES.index(self.engine)  # each engine has a third: the rules are the same
        for rules, (target, count, own) in [*itertools.product(RULES, others)][number::3]:
            other = self.asked(own, podms=(target,))
            local = self.overtaken(claimer(self.one), lambda: second.claim(other))  # noqa: B023
            outcome = local.claim(self.asked(rules, count=count, seed=3))
            with self.subTest(rules, target=target, count=count):
                self.check(rules)
                self.assertEqual(1, outcome.retries)
            self.release_all()

    def test_after_each_lost_race_of_a_group_the_longest_pause_doubles_up_to_half_a_second(self):
        pauses: list[float] = []
        local = claimer(self.one, most_attempts=12, pause=pauses.append)
        second, look = claimer(self.other), local.decider

        def look_and_lose():
            decider = look()
            joined = second.claim(self.asked({}, podms=("c0",))).claim
            self.other.claims.release(joined.id)
            return decider

        local.decider = look_and_lose
        with self.assertRaisesRegex(ClaimLost, "^lost 12 consecutive races"):
            local.claim(self.asked({"anti_affinity": ["podm"]}))
        self.assertEqual(12, len(pauses))
        for number, pause in enumerate(pauses):
            self.assertTrue(0.0 <= pause <= min(0.5, 0.005 * 2**number), pauses)
        self.assertGreater(sum(pauses), 0.01)  # random parts of the longest pauses

    def test_claims_of_others_are_not_in_the_way(self):
        local, second = claimer(self.one), claimer(self.other)
        for words in ({}, {"group": {"name": "h", "anti_affinity": ["zone"]}}):
            other = request(CORES, podms=("c0",), **words)
            self.overtaken(local, lambda: second.claim(other))  # noqa: B023
            outcome = local.claim(self.asked({"anti_affinity": ["zone"]}, podms=("a0", "b0")))
            self.assertEqual(("HELD", 0), (outcome.claim.state, outcome.retries))
            self.release_all()

    def test_a_claim_without_hard_rules_is_not_decided_anew(self):
        rules = {"soft_anti_affinity": ["zone"]}
        local = self.overtaken(
            claimer(self.one), lambda: claimer(self.other).claim(self.asked({}, podms=("c0",)))
        )
        self.assertEqual(0, local.claim(self.asked(rules, podms=("a0",))).retries)

    def test_the_parts_of_a_claim_on_several_pod_managers_count_together(self):
        """One part is held, the other is not, while another claimer decides."""
        rules, claims = {"spread": [{"over": "zone"}]}, self.one.claims
        write, won = claims._write_expiring, []

        def write_and_let_another_in(work, *words):
            done = write(work, *words)
            if not won:
                won.append(None)
                asked = self.asked({"anti_affinity": ["podm"]}, podms=("a0",))
                won[0] = claimer(self.other).claim(asked).claim
            return done

        claims._write_expiring = write_and_let_another_in
        local = claimer(self.one)
        outcome = local.claim(self.asked(rules, count=4, seed=1))
        self.assertEqual(("HELD", 1), (outcome.claim.state, outcome.retries))
        self.assertEqual(5, self.members().total())
        self.check(rules)

    def test_nodes_that_are_prepared_may_be_given_up_and_count_once_they_are_held(self):
        local, spread = claimer(self.other), self.asked({"spread": [{"over": "zone"}]}, seed=2)
        self.one.claims.create(self.parts("a0"), group="g")
        commit, lost = claim_rows.commit, [True]

        def counts():
            return local.decider().context(spread).request.group_state.members["zone"]

        def prepared(connection, **words):
            self.assertEqual({"a": 1}, counts())
            if lost.pop():
                raise ClaimLost("lost")
            return commit(connection, **words)

        claim_rows.commit = prepared
        self.addCleanup(setattr, claim_rows, "commit", commit)
        with self.assertRaisesRegex(ClaimLost, "lost"):
            self.one.claims.create(self.parts("b0", "c0"), group="g")
        self.assertEqual({"a": 1}, counts())
        lost.append(False)
        self.one.claims.create(self.parts("b0", "c0"), group="g")
        self.assertEqual({"a": 1, "b": 1, "c": 1}, counts())

    def parts(self, *names):
        generations = {one.id: one.generation for one in self.one.load_podms().values()}
        return [part(name, generations[name], "c3") for name in names]


@on_each_engine
class TestRaces(GroupSite):
    """Several concurrent claimers, each with its own seed."""

    def race(self, rules, requests):
        """Claim each of the requests in a separate thread; return the number of claims."""
        barrier, held = threading.Barrier(len(requests)), []

        def run(asked):
            with Store(self.url) as store:
                local = claimer(store)
                local.decider()
                barrier.wait(60)
                held.append(local.claim(asked).claim)

        threads = [
            threading.Thread(target=run, args=(self.asked(rules, **words),)) for words in requests
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(len(requests), len(held))
        return sum(claim is not None for claim in held)

    def test_whoever_wins_keeps_the_rules(self):
        draw = random.Random(7)
        for rules, most in (
            ({"anti_affinity": ["zone"]}, 3),
            ({"affinity": ["zone"]}, 6),
            ({"spread": [{"over": "zone"}]}, 6),
            ({"at_most": {"aggregate": 1}}, 3),
        ):
            requests = [{"seed": draw.randrange(10**6)} for _ in range(4)]
            with self.subTest(rules):
                held = self.race(rules, requests)
                self.check(rules)
                self.assertEqual(held, self.members().total())
                self.assertTrue(2 <= held <= most, held)
            self.release_all()

    def test_claims_of_several_nodes_keep_them_too(self):
        rules = {"spread": [{"over": "zone", "max_skew": 2}]}
        self.race(rules, [{"seed": seed, "count": 1 + seed % 3} for seed in range(5)])
        self.check(rules)


@on_each_engine
class TestMembers(GroupSite):
    """Each node of a group counts, from its claim until it is deleted."""

    def reading(self, **words):
        nodes = [{"uri": "/S/1", "name": "vs-x", "blocks": ["c0"]}]
        blocks = [cpu(f"c{number}", 8) for number in range(4)]
        blocks[0]["status"] = {"state": "Composed"}
        return podm("a0", blocks, zone="a", nodes=nodes, **words)

    def states(self):
        """Yield after each state of a node of ``a0``."""
        claim = self.one.claims.create(
            [part("a0", self.one.load_podms()["a0"].generation, "c0")], group="g", owner="o"
        )
        yield "claimed"
        self.one.claims.start_composing(claim.id)
        yield "composing"
        node = ComposedNode(id="n", podm="a0", uri="/S/1", claim=claim.id, blocks=("c0",),
                            owner="o", group="g")  # fmt: skip
        self.one.claims.finish_composing(claim.id, [node])
        yield "composed"
        self.one.remember(self.reading())
        self.assertEqual("SETTLED", self.one.claims.show(claim.id).state)
        yield "settled"
        self.one.remember(self.reading(facts={"again": 1}))
        yield "read again"
        self.one.remember(podm("a0", 4, zone="a", facts={"away": 1}))
        yield "not shown by a reading"

    def counts(self, local, **words):
        asked = self.asked({"anti_affinity": ["zone"]}, **words)
        group_state = local.decider().context(asked).request.group_state
        return group_state.members.get("zone", {}).get("a", 0), group_state.owned.get("a0", 0)

    def test_a_node_counts_in_each_state_for_its_group_and_its_owner(self):
        following = claimer(self.other)
        self.assertEqual((0, 0), self.counts(following, owner="o"))
        for state in self.states():
            for local in (following, claimer(self.other)):
                with self.subTest(state):
                    self.assertEqual((1, 1), self.counts(local, owner="o"))
                    self.assertEqual((1, 0), self.counts(local))
                    self.assertEqual((0, 0), self.counts(local, owner="other"))
        self.one.nodes.forget("n")
        for local in (following, claimer(self.other)):
            self.assertEqual((0, 0), self.counts(local, owner="o"))

    def test_a_node_counts_on_a_pod_manager_that_cannot_be_decided_on(self):
        for state in self.states():
            with self.subTest(state):
                others = frozenset(PLACES) - {"a0"}
                self.assertEqual((1, 0), self.counts(claimer(self.other, among=others)))
        local = claimer(self.other, unclaimable=lambda: ["a0", "b0", "b1", "c0"])
        outcome = local.claim(self.asked({"anti_affinity": ["zone"]}))
        self.assertEqual("nothing_fits", outcome.decision.outcome)
        self.assertEqual(("a1",), local.claim(self.asked({})).claim.podms)


class TestPlans(GroupSite, StoreCase):
    """Plans that were made before other members were claimed."""

    def planned(self, rules, **words):
        asked = self.asked(rules, **words)
        decision = claimer(self.one).decider().select_destinations(asked)
        plan = make_plan(decision_report(decision), self.one.load_podms().values())
        return PlanClaimer(self.one, claimer(self.one), plan)

    def claim(self, planned):
        return planned.claim(planned.plan.decision.request).claim

    def test_one_that_keeps_the_rules_of_the_group_as_it_is_now_is_held(self):
        for rules in ({"anti_affinity": ["zone"]}, {"spread": [{"over": "zone"}]}):
            plans = [self.planned(rules, podms=(name,)) for name in ("a0", "b1", "c0")]
            for one in plans:
                self.assertEqual("HELD", self.claim(one).state)
            self.check(rules)
            self.release_all()

    def test_one_that_breaks_them_by_now_is_out_of_date(self):
        for rules, target, label in (
            ({"anti_affinity": ["zone"]}, "a1", "at most 1 per zone"),
            ({"at_most": {"aggregate": 1}}, "a1", "at most 1 per aggregate"),
            ({"affinity": ["zone"]}, "b0", "all at one zone"),
        ):
            plans = [self.planned(rules, podms=(name,)) for name in ("a0", target)]
            self.claim(plans[0])
            with (
                self.subTest(rules),
                self.assertRaisesRegex(
                    ClaimLost, f"^{target}: .*group g has . nodes? here .{label}"
                ),
            ):
                self.claim(plans[1])
            self.release_all()

    def test_a_member_that_comes_while_it_is_verified_makes_it_lose(self):
        for other, rules in (("a1", {"anti_affinity": ["zone"]}), ("b0", {"affinity": ["zone"]})):
            planned = self.planned(rules, podms=("a0",))
            fresh, late = planned.claimer.decider, [other]

            def verifying(fresh=fresh, late=late):
                found = fresh()
                while late:
                    claimer(self.other).claim(self.asked({}, podms=(late.pop(),)))
                return found

            planned.claimer.decider = verifying
            with self.subTest(rules), self.assertRaisesRegex(ClaimLost, "group g has "):
                self.claim(planned)
            self.release_all()
