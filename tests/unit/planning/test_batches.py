# SPDX-License-Identifier: Apache-2.0
"""Batches of requests: planned together, all of them or none; no block is used twice."""

import itertools
import unittest
from collections import Counter

import msgspec
from hypothesis import given, strategies as st

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from tests.unit.core.sites import quietly, sized
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.offers import most_nodes_alone
from valence_sched.model.decision import Reports
from valence_sched.model.policy import Budget, Policy, WeigherUse
from valence_sched.planning.batch_orders import most_nodes_together
from valence_sched.planning.batches import BatchPlan, decide_all, plan_nodes
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.succession import Succession
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
CARD = {**CORES, "accelerators": [{}]}
STOCK = {"stocks": [{"resource": "gib", "amount": 3}]}
MANY = st.lists(
    st.tuples(st.sampled_from([CORES, CARD, STOCK]), st.integers(1, 3), st.integers(0, 1)),
    min_size=1,
    max_size=5,
)


def site(sizes):
    return [
        {
            "id": str(number),
            "blocks": [*cpus(size), gpu("g1"), gpu("g2")],
            "stocks": [{"uri": "s", "resource": "gib", "total": 10}],
        }
        for number, size in enumerate(sizes)
    ]


def used(found):
    """Count the use of all placements, by podm and URI: blocks by number, stocks by amount."""
    taken = Counter()
    for decision in found.decisions:
        for placement in decision.placements:
            chosen = placement.chosen
            taken.update((chosen.podm, block.uri) for block in chosen.blocks)
            for grant in chosen.grants:
                taken[chosen.podm, grant.uri] += grant.amount
    return taken


def node_count(found):
    report = found.report("placements")
    return report.outcome, report.placed


class TestTogether(unittest.TestCase):
    """S35: each request uses the blocks that the earlier ones left."""

    @quietly(sized(100))
    @given(st.lists(st.integers(0, 4), min_size=1, max_size=3), MANY)
    def test_nothing_is_given_twice_and_all_get_what_they_must_or_nobody_gets_anything(
        self, sizes, asks
    ):
        asked = [
            request(node, count=count, min_count=count - less if less < count else None)
            for node, count, less in asks
        ]
        seen = view(*site(sizes))
        found = decide_all(engine(seen), asked)
        taken = used(found)
        for (_, uri), amount in taken.items():
            self.assertLessEqual(amount, 10 if uri == "s" else 1, uri)
        if found.report("placements").failure:
            self.assertEqual(("nothing_fits", 0), node_count(found))
        else:
            self.assertEqual(len(asked), len(found.decisions))
            for wanted, decision in zip(asked, found.decisions, strict=True):
                self.assertGreaterEqual(len(decision.placed_nodes), wanted.required_count)

    def test_the_first_alone_is_what_it_would_be_by_itself(self):
        seen = view(*site([3, 2]))
        asked = request(CARD, count=2, alternates=1)
        alone = engine(seen).select_destinations(asked)
        together = decide_all(engine(seen), [asked, request(CORES)])
        self.assertEqual(alone.placements, together.decisions[0].placements)

    def test_no_alternate_is_where_another_request_is_placed(self):
        """The alternate could use the same blocks."""
        one = [cpu("c", 8)]
        podms = [{"id": name, "blocks": one} for name in "abcd"]
        asked = [request(CORES, alternates=2), request(CORES, count=2)]
        found = decide_all(engine_of(*podms), asked)
        first, second = found.decisions
        (placement,) = first.placements
        taken = {other.chosen.podm for other in (placement, *second.placements)}
        self.assertEqual(3, len(taken))
        self.assertEqual([*set("abcd") - taken], [other.podm for other in placement.alternates])
        self.assertEqual([2, 1], [len(other.placements) for other in (second, first)])

    def test_one_alone_keeps_its_reasons(self):
        """As if it had been requested without a file."""
        asked = request(CORES, count=2)
        alone = decision_report(engine_of(*site([3, 2])).select_destinations(asked))
        (decision,) = decide_all(engine_of(*site([3, 2])), [asked]).decisions
        self.assertEqual(alone, decision_report(decision))

    def test_one_that_fails_fails_all_and_says_what_was_left(self):
        found = decide_all(engine_of(*site([2])), [request(CORES, count=2), request(CORES)])
        self.assertEqual(("nothing_fits", 0), node_count(found))
        (verdict,) = Verdicts(found.decisions[-1]).podm_verdicts()
        self.assertEqual("capacity: cores: needs 8, has 0", verdict.reason.text)

    def test_no_report_of_a_failure_holds_a_node_that_somebody_might_compose(self):
        """An earlier request may have some of its nodes by another alternative."""
        before = request(CORES, first_of=[{"accelerators": [{}]}, {}], count=3, min_count=1)
        found = decide_all(engine_of(*site([4])), [before, request(CORES, count=9)])
        report = found.report()
        self.assertEqual([3, 1], [one.fitting for one in report.decisions])
        for one in report.decisions:
            self.assertEqual(("nothing_fits", 0, ()), (one.outcome, one.placed, one.placements))
            self.assertNotIn("chosen", {verdict.outcome for verdict in one.podms})

    def test_one_that_may_have_fewer_keeps_its_reasons_though_others_follow(self):
        asked = [request(CORES, count=3, min_count=1), request(STOCK), request(STOCK)]
        found = decide_all(engine_of(*site([2])), asked)
        self.assertEqual(("placed_in_part", 4), node_count(found))
        (verdict,) = Verdicts(found.decisions[0]).podm_verdicts()
        self.assertEqual("capacity: cores: needs 8, has 0", verdict.reason.text)

    def test_one_that_may_have_none_fails_nobody(self):
        big = request({"processor": {"total_cores": 99}}, min_count=0)
        found = decide_all(engine_of({"id": "a", "blocks": [cpu("c", 8)]}), [big, request(CORES)])
        self.assertEqual(("placed_in_part", 1), node_count(found))

    def test_the_same_question_gets_the_same_bytes(self):
        asked = [request(CARD, count=2), request(CORES, seed=3), request(STOCK, count=2)]
        reports = [
            msgspec.json.encode(decide_all(engine_of(*site([4, 4, 4])), asked).report())
            for _ in range(2)
        ]
        self.assertEqual(*reports)
        report = msgspec.json.decode(reports[0], type=Reports)
        self.assertEqual(("placed", 5, 5), (report.outcome, report.requested, report.placed))


class TestPlanned(unittest.TestCase):
    """The plan of several requests, and the facts of a single request."""

    def setUp(self) -> None:
        joint = {"scheduler": "joint", "weighers": (WeigherUse("room"),)}
        policies = (
            Policy(name="gather", goals=("fewest-podms",), **joint),
            Policy(name="scatter", **joint),
        )
        self.site = [{"id": name, "blocks": cpus(4)} for name in "abcd"]
        self.decider = engine(view(*self.site), *policies)

    def all_of(self, *counts, policies=("gather", "scatter"), **words):
        return decide_all(self.decider, [
            request(CORES, id=f"r{number}", count=count, policy=name, **words)
            for number, (count, name) in enumerate(zip(counts, policies, strict=False))
        ])  # fmt: skip

    def podms(self, found):
        return {one.chosen.podm for each in found.decisions for one in each.placements}

    def test_the_goals_are_those_of_the_policy_of_the_first_request(self):
        self.assertEqual(1, len(self.podms(self.all_of(2, 2))))
        scattered = self.all_of(2, 2, policies=("scatter", "gather"))
        self.assertGreater(len(self.podms(scattered)), 1)
        self.assertEqual(("placed", 4), node_count(scattered))

    def test_the_bound_of_several_is_stated_once_and_that_of_one_alone_with_it(self):
        part = self.all_of(99, min_count=0)
        self.assertEqual(16, node_count(part)[1])
        self.assertIsNone(part.bound)
        self.assertEqual([16], [one.batch.bound for one in part.decisions[0].attempts])
        several = self.all_of(15, 9, min_count=0)
        self.assertEqual((16, 16), (node_count(several)[1], several.bound))
        failed = self.all_of(15, 9)
        self.assertEqual((0, 16), (node_count(failed)[1], failed.bound))
        for decision in failed.decisions:
            self.assertEqual({None}, {one.batch.bound for one in decision.attempts})

    def test_each_knows_how_many_nodes_the_others_ask_for(self):
        self.assertEqual([0], [one.context.other_nodes for one in self.all_of(3).decisions])
        failed = self.all_of(15, 9)
        self.assertEqual([9, 15], [one.context.other_nodes for one in failed.decisions])


class TestExplainable(unittest.TestCase):
    """An explanation reads the state at the time of the decision."""

    def decided(self, *requests):
        return decide_all(engine(view({"id": "a", "blocks": cpus(4)})), list(requests)).decisions

    def free(self, decision) -> list[int]:
        return [int(one.context.view.block_counts.row(0)[1].sum()) for one in decision.attempts]

    def test_those_that_were_decided_at_once_together_are_not_explained(self):
        first, second = self.decided(request(CORES, id="x"), request(CORES, id="y"))
        self.assertEqual([False, False], [first.explainable, second.explainable])
        (alone,) = self.decided(request(CORES))
        self.assertTrue(alone.explainable)

    def test_one_of_several_choices_keeps_the_view_and_the_evaluation_of_its_turn(self):
        choices = request({}, id="x", first_of=[{"processor": {"total_cores": 99}}, CORES])
        alone = engine(view({"id": "a", "blocks": cpus(4)})).select_destinations(choices)
        first, *_ = self.decided(choices, request(CORES, id="y"), request(CORES, id="z"))
        self.assertTrue(first.explainable)
        self.assertEqual([4, 4], self.free(first))
        for one, other in zip(alone.attempts, first.attempts, strict=True):
            expected, found = one.context.evaluation, other.context.evaluation
            self.assertEqual(expected.cost.tolist(), found.cost.tolist())
            self.assertEqual(expected.scores.tolist(), found.scores.tolist())

    def test_so_does_one_that_is_placed_in_part(self):
        part = request({"accelerators": [{"model": "A100"}]}, id="x", count=2, min_count=1)
        site = view({"id": "a", "blocks": [*cpus(3), gpu("g")]})
        first, *_ = decide_all(engine(site), [part, request(CORES, id="y")]).decisions
        self.assertEqual(("placed_in_part", True), (first.outcome, first.explainable))
        self.assertEqual([4], self.free(first))

    def test_a_later_request_for_the_same_changes_nothing_of_it(self):
        part, more = (request(CORES, id=name, count=n, min_count=least)
                      for name, n, least in (("x", 5, 1), ("y", 1, 0)))  # fmt: skip
        alone = engine(view({"id": "a", "blocks": cpus(4)})).select_destinations(part)
        first, second = self.decided(part, more)
        self.assertEqual(("placed_in_part", "nothing_fits"), (first.outcome, second.outcome))
        expected, found = alone.context.evaluation, first.context.evaluation
        self.assertEqual(expected.cost.tolist(), found.cost.tolist())
        self.assertEqual(expected.verdicts.tolist(), found.verdicts.tolist())


MEMORY = {"memory": {"capacity_mib": 64}}
BOTH = {**CARD, **MEMORY}
ASKS = st.lists(
    st.tuples(st.sampled_from([CORES, MEMORY, CARD, BOTH]), st.integers(1, 2)),
    min_size=2,
    max_size=4,
)
BLOCKS = st.lists(
    st.sampled_from([cpu("c", 8), cpu("c", 16), cpu("c", 8, 64), gpu("g"), gpu("g", 2)]), max_size=5
)


def site_of(podms):
    return view(*(
        {"id": str(number), "blocks": [{**block, "uri": f"b{n}"} for n, block in enumerate(blocks)]}
        for number, blocks in enumerate(podms)
    ))  # fmt: skip


def fits_in_order(seen, requests) -> bool:
    """Return whether all requests fit, decided one after another as by the default policy."""
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

    @quietly(sized(180))
    @given(st.lists(BLOCKS, min_size=1, max_size=3), ASKS)
    def test_what_fits_in_any_order_is_placed(self, podms, asks):
        seen = site_of(podms)
        asked = [request(node, count=count) for node, count in asks]
        any_order = any(fits_in_order(seen, order) for order in itertools.permutations(asked))
        found = decide_all(engine(seen), asked)
        if any_order:
            self.assertEqual("placed", node_count(found)[0])
        counts = [len(one.placed_nodes) for one in found.decisions]
        self.assertTrue(
            found.report("placements").failure or counts == [one.count for one in asked]
        )

    @quietly(sized(180))
    @given(st.lists(BLOCKS, min_size=1, max_size=3), ASKS)
    def test_no_placement_has_more_nodes_than_the_bound(self, podms, asks):
        seen = site_of(podms)
        asked = [request(node, count=count, min_count=0) for node, count in asks]
        types = [NodeType.of(one, most=one.count) for one in asked]
        alone = [most_nodes_alone(seen, one, seen.all_rows) for one in asked]
        found = decide_all(engine(seen), asked)
        self.assertLessEqual(node_count(found)[1], most_nodes_together(seen, types, alone))

    def test_the_scarcest_are_placed_first_and_answers_are_in_the_order_asked(self):
        site = {"id": "a", "blocks": [cpu("small", 8), cpu("large", 8, 64)]}
        asked = [request(CORES, id="any"), request(MEMORY, id="memory")]
        found = decide_all(engine_of(site), asked)
        uris = [one.placements[0].chosen.blocks[0].uri for one in found.decisions]
        self.assertEqual(["any", "memory"], [one.request.id for one in found.decisions])
        self.assertEqual(["small", "large"], uris)

    def filled(self, **budget):
        """Fill a generated site of 6 pools with 84 nodes of 5 kinds, as many as fit."""
        policy = Policy(name="default", budget=Budget(**budget))
        counts = zip(FLAVORS, (36, 12, 18, 12, 6), strict=True)
        asked = [
            request(FLAVORS[name], flavor=name, count=count, min_count=0) for name, count in counts
        ]
        return decide_all(engine(generated_view(6, 30), policy), asked)

    def test_the_search_places_what_no_order_does(self):
        found = self.filled(batch_fits=30)  # the first order has more fits: these do not count
        self.assertEqual((84, []), (node_count(found)[1], [*found.report("placements").warnings]))

    def test_a_site_beyond_the_budget_is_left_to_the_orders(self):
        found = self.filled(batch_fits=29)
        note = "more nodes may fit: the site is too large for the optimiser (batch_fits 29)"
        self.assertEqual([note], [*found.report("placements").warnings])
        self.assertLess(node_count(found)[1], 84)

    def test_the_optimiser_ends_at_its_limit_and_the_answer_is_the_same_twice(self):
        found = self.filled(solver_nodes=1)
        self.assertEqual(
            ["more nodes may fit: the optimiser ended at its limit"],
            [*found.report("placements").warnings],
        )
        self.assertGreaterEqual(node_count(found)[1], node_count(self.filled(batch_fits=0))[1])
        again = self.filled(solver_nodes=1)
        self.assertEqual(*(msgspec.json.encode(one.report()) for one in (found, again)))

    def test_a_batch_that_certainly_does_not_fit_has_no_note_of_a_limit(self):
        policy = Policy(name="default", budget=Budget(batch_fits=0))
        asked = [request(CORES, count=3), request(CORES, count=2)]
        found = decide_all(engine(view({"id": "a", "blocks": cpus(4)}), policy), asked)
        self.assertEqual(
            ["no placement has more than 4 of the 5 nodes"], [*found.report("placements").warnings]
        )

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
        self.assertEqual(8, node_count(found)[1])


def joint(site, *goals, weigher="room"):
    policy = Policy(name="mine", scheduler="joint", weighers=(WeigherUse(weigher),), goals=goals)
    return engine(site, policy)


def asked(node=CORES, **words):
    return request(node, policy="mine", **words)


class TestJointRequest(unittest.TestCase):
    def test_only_the_first_alternative_is_planned(self):
        site = view({"id": "a", "blocks": [*cpus(2), gpu("g")]})
        wanted = asked(CARD, count=2, min_count=0, other_alternatives=[{"needs": asked().needs}])
        batch = plan_nodes(joint(site).context(wanted))
        self.assertEqual((1, 1), (len(batch.nodes), batch.bound))


class TestJointRequests(unittest.TestCase):
    """Nodes of several requests as one plan."""

    def plan(self, site, *requests):
        succession = Succession(joint(site))
        return BatchPlan(succession, requests, succession.budget(requests))

    def node_count(self, trial):
        return [[node.chosen.row for node in one.fitting_nodes] for one in trial.decisions]

    def test_the_first_order_is_the_answer_where_all_nodes_have_a_place(self):
        site = view({"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": cpus(2)})
        plan = self.plan(site, asked(count=2), asked(count=2))
        trial = plan.best((), exact=True)
        self.assertEqual(((0, 0), 4), (trial.score, plan.bound))
        self.assertEqual([2, 2], [len(rows) for rows in self.node_count(trial)])

    def test_costs_of_each_request_are_those_of_its_own_nodes(self):
        """The large node fits in one pool only; the small ones go to the cheapest pool."""
        site = view({"id": "large", "blocks": cpus(6, 16)}, {"id": "small", "blocks": cpus(5)})
        sixteen = asked({"processor": {"total_cores": 16}}, count=1, id="x")
        plan = self.plan(site, sixteen, asked(count=2, id="y"))
        trial = plan.best(("least-cost",), exact=True)
        (large, small) = self.node_count(trial)
        self.assertEqual([0], large)
        self.assertEqual({0}, set(small))

    def test_what_is_missing_is_no_more_than_must_be(self):
        """In order of scarcity, the one card goes to the request that fits nowhere else."""
        site = view({"id": "a", "blocks": [cpu("c", 8), cpu("d", 8), gpu("g")]})
        plan = self.plan(site, asked(count=2, min_count=0), asked(CARD, count=2, min_count=0))
        trial = plan.best((), exact=True)
        self.assertEqual(((0, 2), 2), (trial.score, plan.bound))

    def test_what_small_nodes_take_is_not_there_for_large_ones(self):
        site = view({"id": "a", "blocks": cpus(5)})
        large = asked({"processor": {"total_cores": 16}}, count=3, min_count=0)
        plan = self.plan(site, asked(count=3, min_count=0), large)
        self.assertEqual(4, plan.bound)  # 24 of 40 cores, and 16 are left

    def test_nodes_that_are_dealt_out_anew_are_all_dealt_out(self):
        site = view({"id": "a", "blocks": cpus(4)})
        first, second = asked(count=3, min_count=1, id="x"), asked(count=3, min_count=1, id="y")
        plan = self.plan(site, first, second)
        nodes = list(plan.nodes_of(plan.trial(range(2))))
        self.assertEqual(4, len(nodes))
        dealt = plan.realised(nodes)
        self.assertEqual([3, 1], [one.fit_count for one in dealt.decisions])
        self.assertEqual((0, 2), dealt.score)
