# SPDX-License-Identifier: Apache-2.0
"""Many nodes of one request, each as if the earlier ones had been composed; and alternatives."""

import unittest
from collections import Counter
from dataclasses import replace

import msgspec
from hypothesis import assume, given, strategies as st

from tests.unit.core.deciders import bound, built_in, cpu, cpus, engine, engine_of, gpu
from tests.unit.core.sites import quietly, sized
from tests.unit.view.same import assert_same_view
from tests.unit.view.test_overlay import composed, has_bounded_slots
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core.batch import goes_by_cost, place, schedule
from valence_sched.core.evaluation import context_of
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.explain.report import decision_report, funnel_steps
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.policy import bind
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import PluginError, RequestError, SchedulerError
from valence_sched.filters.capacity import capacity
from valence_sched.model.policy import Policy
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import contract, request, view

CORES = {"processor": {"total_cores": 8}}
NODES = st.sampled_from(
    [
        {"processor": {"sockets": 1}},
        {"processor": {"total_cores": 6}, "accelerators": [{"count": 1}]},
        {"accelerators": [{"model": "A100"}, {"count": 1}]},
        {"drives": [{}], "stocks": [{"resource": "gib", "amount": 2}]},
        {"stocks": [{"resource": "gib", "amount": 3}]},
    ]
)


def chosen(decision) -> list[tuple]:
    return [
        (
            p.chosen.podm,
            p.chosen.pool,
            [b.uri for b in p.chosen.blocks],
            [(g.uri, g.amount) for g in p.chosen.grants],
            p.chosen.cost,
        )
        for p in decision.placements
    ]


class TestPlanned(unittest.TestCase):
    def test_the_fits_of_a_plan_are_placed_instead_of_the_best(self):
        seen = view({"id": "worse", "blocks": cpus(2)}, {"id": "best", "blocks": cpus(9)})
        context = context_of(seen, request(CORES, count=2), bind(built_in()[0]))
        (best, *_), planned = place(context, rank_rows).nodes, [context.fit(seen, 0)]
        self.assertEqual(1, best.chosen.row)
        batch = place(replace(context, planned=(tuple(planned),)), rank_rows)
        self.assertEqual(planned, [node.chosen for node in batch.nodes])


class TestDepletion(unittest.TestCase):
    """Depletion on a private copy."""

    @quietly(sized(150))
    @given(FULL_SITES, NODES, st.sampled_from(["default", "pack", "balanced"]), st.integers(0, 3))
    def test_a_batch_equals_one_decision_after_another_on_what_was_left(
        self, podms, node, policy, seed
    ):
        assume(
            all(has_bounded_slots(block["status"]) for podm in podms for block in podm["blocks"])
        )
        seen = view(*podms)
        asked = request(node, count=6, min_count=0, policy=policy, seed=seed)
        before = contract.fingerprint(seen, asked)
        batch = engine(seen).select_destinations(asked)
        self.assertEqual(before, contract.fingerprint(seen, asked))
        single = msgspec.structs.replace(asked, count=1)
        one_by_one = []
        for _ in range(6):
            decision = engine(view(*podms)).select_destinations(single)
            if not decision.placements:
                break
            one_by_one += chosen(decision)
            podms = self.after(podms, one_by_one[-1][0], *one_by_one[-1][2:4])
        self.assertEqual(one_by_one, chosen(batch))
        if len(one_by_one) < 6:
            assert_same_view(self, view(*podms), batch.batch.view)

    @staticmethod
    def after(podms, name, blocks, grants):
        def left(podm: dict) -> dict:
            numbers = [n for n, b in enumerate(podm["blocks"]) if b["uri"] in blocks]
            stocks = {stock["uri"]: n for n, stock in enumerate(podm["stocks"])}
            return composed(podm, numbers, [(stocks[uri], amount) for uri, amount in grants])

        return [left(podm) if podm["id"] == name else podm for podm in podms]

    @quietly(sized(45))
    @given(
        st.lists(st.lists(st.sampled_from([8, 9, 10, 4]), max_size=6), min_size=8, max_size=16),
        st.sampled_from(["default", "pack", "balanced"]),
        st.integers(0, 9),
    )
    def test_a_long_batch_over_many_podms_equals_one_after_another(self, pods, policy, seed):
        pools = [["p"], ["p", "q"], ["q"]]
        podms = [
            {
                "id": str(number),
                "pools": [{"id": "p"}, {"id": "q", "limits": {"Compute": {"max": 2}}}],
                "blocks": [
                    cpu(f"c{n}", cores, 64, status={}, pools=pools[cores % 3])
                    for n, cores in enumerate(sizes)
                ],
                "stocks": [],
            }
            for number, sizes in enumerate(pods)
        ]
        node = {**CORES, "memory": {"capacity_mib": 48}}
        asked = request(node, count=15, min_count=0, policy=policy, seed=seed, alternates=seed % 2)
        batch = engine(view(*podms)).select_destinations(asked)
        one_by_one = []
        single = msgspec.structs.replace(asked, count=1)
        while len(one_by_one) < 15:
            decision = engine(view(*podms)).select_destinations(single)
            if not decision.placements:
                break
            one_by_one += chosen(decision)
            podms = self.after(podms, one_by_one[-1][0], *one_by_one[-1][2:4])
        self.assertEqual(one_by_one, chosen(batch))
        if len(one_by_one) < 15:
            assert_same_view(self, view(*podms), batch.batch.view)
            fresh = engine(view(*podms)).select_destinations(single)
            for name in ("verdicts", "scores", "cost"):
                evaluations = (fresh.context.evaluation, batch.batch.evaluation)
                here, there = (getattr(evaluation, name) for evaluation in evaluations)
                self.assertEqual(here.tolist(), there.tolist(), name)

    def test_a_thousand_asked_never_exceed_what_there_is(self):
        """S35: with every scheduler."""
        sizes = [5, 17, 1, 40]
        site = view(*({"id": str(n), "blocks": cpus(size)} for n, size in enumerate(sizes)))
        for policy in ("default", "pack", "balanced", "chance"):
            asked = request(CORES, count=1000, min_count=0, policy=policy)
            decision = engine(site).select_destinations(asked)
            self.assertEqual("placed_in_part", decision.outcome)
            used = Counter((p.chosen.podm, b.uri) for p in decision.placements
                           for b in p.chosen.blocks)  # fmt: skip
            self.assertEqual({1}, set(used.values()), "a block twice")
            self.assertEqual(sizes, [
                sum(podm == str(n) for podm, _ in used) for n in range(len(sizes))
            ])  # fmt: skip

    def test_a_shared_block_is_used_as_often_as_its_slots(self):
        status = {"shareable": True, "max_compositions": 4, "compositions": 1}
        site = [gpu("g", status=status), *cpus(9)]
        asked = request({**CORES, "accelerators": [{}]}, count=9, min_count=0)
        decision = engine_of({"id": "a", "blocks": site}).select_destinations(asked)
        self.assertEqual(3, len(decision.placements))
        self.assertEqual(
            3, len({b.uri for p in decision.placements for b in p.chosen.blocks} - {"g"})
        )

    def test_a_block_that_is_shared_already_is_filled_before_another_is_opened(self):
        status = {"shareable": True, "max_compositions": 3}
        blocks = [gpu(name, status=status) for name in "ab"]
        asked = request({"accelerators": [{}]}, count=6, min_count=0)
        decision = engine_of({"id": "a", "blocks": blocks}).select_destinations(asked)
        used = [b.uri for p in decision.placements for b in p.chosen.blocks]
        self.assertEqual(["a"] * 3 + ["b"] * 3, used)

    def test_a_stock_is_granted_until_it_is_empty(self):
        stock = {"uri": "s", "resource": "gib", "total": 1000, "used": 100, "step": 64}
        asked = request({"stocks": [{"resource": "gib", "amount": 100}]}, count=50, min_count=0)
        decision = engine_of({"id": "a", "stocks": [stock]}).select_destinations(asked)
        self.assertEqual(
            [128.0] * 7, [g.amount for p in decision.placements for g in p.chosen.grants]
        )

    def test_the_order_follows_what_is_left_not_what_there_was(self):
        """S35: the order differs from a static ranking."""
        site = view({"id": "big", "blocks": cpus(10)}, {"id": "small", "blocks": cpus(6)})
        names = [
            p.chosen.podm
            for p in engine(site)
            .select_destinations(request(CORES, count=6, min_count=0))
            .placements
        ]
        self.assertEqual("big", names[0])
        self.assertIn("small", names)

    def test_pools_that_share_blocks_are_depleted_together(self):
        pools = [{"id": "1"}, {"id": "2"}]
        blocks = [cpu(str(n), 8, pools=["1", "2"]) for n in range(3)]
        site = {"id": "a", "pools": pools, "blocks": blocks}
        decision = engine_of(site).select_destinations(request(CORES, count=5, min_count=0))
        self.assertEqual(3, len(decision.placements))

    def test_no_alternate_is_on_a_podm_that_takes_a_node_of_the_request(self):
        site = view(*({"id": name, "blocks": cpus(1)} for name in "abcd"))
        asked = request(CORES, count=2, alternates=1,
                        group={"name": "g", "anti_affinity": ["podm"]})  # fmt: skip
        placements = engine(site).select_destinations(asked).placements
        taken = {placed.chosen.podm for placed in placements}
        others = [other.podm for placed in placements for other in placed.alternates]
        self.assertEqual(2, len(others))
        self.assertEqual(set(), taken & set(others))
        every = request(CORES, count=4, alternates=3)
        for placed in engine(site).select_destinations(every).placements:
            self.assertEqual((), placed.alternates)

    def test_no_alternate_breaks_a_rule_beside_the_other_nodes(self):
        """A later node may be on the pod manager of an alternate of an earlier one."""
        zones = {"a": "x", "b": "y", "c": "y", "d": "z"}
        site = view(
            *({"id": name, "zone": zone, "blocks": cpus(4)} for name, zone in zones.items())
        )
        for rules, count in (
            ({"anti_affinity": ["zone"]}, 2),
            ({"anti_affinity": ["zone"]}, 3),
            ({"affinity": ["zone"], "at_most": {"podm": 1}}, 2),
        ):
            with self.subTest(rules, count=count):
                asked = request(CORES, count=count, alternates=3, group={"name": "g", **rules})
                placements = engine(site).select_destinations(asked).placements
                self.assertEqual(count, len(placements))
                nodes = [zones[placed.chosen.podm] for placed in placements]
                for number, placed in enumerate(placements):
                    beside = nodes[:number] + nodes[number + 1 :]
                    for other in placed.alternates:
                        if "anti_affinity" in rules:
                            self.assertNotIn(zones[other.podm], beside)
                        else:
                            self.assertIn(zones[other.podm], beside)

    def test_an_alternate_that_may_stand_in_is_found_behind_those_that_may_not(self):
        first = [{"id": "a", "zone": "x", "blocks": cpus(9)}]
        taken = [{"id": f"b{n}", "zone": "y", "blocks": cpus(8)} for n in range(5)]
        site = view(*first, *taken, {"id": "c", "zone": "z", "blocks": cpus(2)})
        group = {"name": "g", "anti_affinity": ["zone"]}
        asked = request(CORES, count=2, alternates=1, group=group)
        first, second = engine(site).select_destinations(asked).placements
        self.assertEqual(["c"], [other.podm for other in first.alternates])
        self.assertIn(second.alternates[0].podm, [podm["id"] for podm in taken])

    def test_alternates_are_other_podms_each_once_and_never_the_chosen(self):
        site = [{"id": str(n), "pools": [{"id": "1"}, {"id": "2"}],
                 "blocks": [cpu("c", 8, pools=["1", "2"])]} for n in range(4)]  # fmt: skip
        for count in (0, 2, 9):
            asked = request(CORES, alternates=count)
            (placed,) = engine_of(*site).select_destinations(asked).placements
            names = [other.podm for other in placed.alternates]
            self.assertEqual(min(count, 3), len(set(names)))
            self.assertEqual(len(set(names)), len(names))
            self.assertNotIn(placed.chosen.podm, names)


class TestCountFits(unittest.TestCase):
    def test_each_podm_by_itself_and_never_more_than_asked(self):
        site = [{"id": "a", "blocks": cpus(7)}, {"id": "b"}, {"id": "c", "blocks": cpus(3)}]
        found = list(count_fits(engine_of(*site), request(CORES), 5).podms)
        self.assertEqual([("a", 5), ("b", 0), ("c", 3)], found)

    def test_every_policy_that_ships_can_count(self):
        site = {"id": "a", "blocks": cpus(3)}
        for policy in built_in():
            with self.subTest(policy.name):
                asked = request(CORES, policy=policy.name)
                try:
                    self.assertEqual((("a", 3),), count_fits(engine_of(site), asked, 9).podms)
                except SchedulerError as error:
                    self.fail(str(error))


class TestSchedulerErrors(unittest.TestCase):
    """A scheduler of another package that fails."""

    def test_it_is_named(self):
        site = view({"id": "a", "blocks": cpus(1)})
        policy = msgspec.structs.replace(bound(), scheduler=lambda: None)
        with self.assertRaisesRegex(PluginError, "^scheduler 'filter': AttributeError: 'NoneType'"):
            schedule(context_of(site, request(CORES), policy))


class TestCosts(unittest.TestCase):
    """Schedulers with and without use of the costs of the pools."""

    def test_the_filter_scheduler_does_and_chance_does_not(self):
        for scheduler, by_cost in (("filter", True), ("chance", False)):
            policy = bind(Policy(name="mine", scheduler=scheduler))
            self.assertIs(by_cost, goes_by_cost(policy.policy))


class TestStrict(unittest.TestCase):
    """A plug-in that breaks its contract later is also an error of a strict decision."""

    def test_it_is_raised_for_the_second_node_of_a_batch_and_on_what_a_ledger_has_left(self):
        fine = True

        def moody(view, request):
            found = capacity(view, request)
            return found if fine else None

        seen = view({"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": cpus(3)})
        asked, policy = request({"processor": {"total_cores": 8}}, count=3), bound(filters=(moody,))
        context = context_of(seen, asked, policy, strict=True)
        ledger = Ledger(seen)
        first = ledger.context(asked, policy, strict=True)
        ledger.take(first.fit(first.view, 0))
        fine = False
        with self.assertRaisesRegex(PluginError, "moody"):
            place(context, rank_rows)
        with self.assertRaisesRegex(PluginError, "moody"):
            ledger.context(asked, policy, strict=True)


A100, ANY, SSD = {"accelerators": [{"model": "A100"}]}, {"accelerators": [{}]}, {"drives": [{}]}
NODE = {"processor": {"total_cores": 8}}


class TestFirstOf(unittest.TestCase):
    """Alternatives are tried in the given order."""

    def decide(self, *podms, first_of, **words):
        asked = request(NODE, first_of=first_of, **words)
        return engine_of(*podms).select_destinations(asked)

    def choices(self, decision):
        return [(placement.chosen.podm, placement.choice) for placement in decision.placements]

    def test_the_first_is_taken_wherever_it_can_be_had(self):
        roomy = {"id": "any", "blocks": [*cpus(9), gpu("g", model="L4")]}
        tight = {"id": "a100", "blocks": [*cpus(1), gpu("g", model="A100")]}
        decision = self.decide(roomy, tight, first_of=[A100, ANY])
        self.assertEqual([("a100", 1)], self.choices(decision))
        self.assertEqual([], decision.failed_attempts)

    def test_the_next_is_taken_where_the_first_fits_nowhere(self):
        decision = self.decide({"id": "a", "blocks": [*cpus(1), gpu("g", model="L4")]},
                               first_of=[A100, SSD, ANY])  # fmt: skip
        self.assertEqual([("a", 3)], self.choices(decision))
        self.assertEqual([1, 2], [number for number, _ in decision.failed_attempts])
        _, first = decision.failed_attempts[0]
        self.assertEqual(0, funnel_steps(decision, first)[-1].went_on)

    def test_a_batch_goes_on_with_the_next_when_the_first_is_used_up(self):
        gpus = [gpu("g1", model="A100"), gpu("g2", model="L4"), gpu("g3", model="L4")]
        decision = self.decide({"id": "a", "blocks": [*cpus(4), *gpus]},
                               first_of=[A100, ANY], count=3)  # fmt: skip
        self.assertEqual([("a", 1), ("a", 2), ("a", 2)], self.choices(decision))
        used = [ref.uri for p in decision.placements for ref in p.chosen.blocks]
        self.assertEqual(len(used), len(set(used)), "a block twice")

    def test_the_rules_of_a_group_count_the_nodes_of_every_choice(self):
        podms = [{"id": name, "blocks": [*cpus(4), gpu("g", model="A100")]} for name in "ab"]
        podms.append({"id": "c", "blocks": cpus(4)})
        for rule, counts in (
            ({"anti_affinity": ["podm"]}, [1, 1]),
            ({"at_most": {"podm": 1}}, [1, 1]),
            ({"affinity": ["podm"]}, [4]),
            ({"spread": [{"over": "podm"}]}, [3, 3]),
        ):
            with self.subTest(rule=rule):
                words = {"count": 6, "min_count": 0, "exclude_podms": ["c"]}
                group = {"name": "g", **rule}
                decision = self.decide(*podms, first_of=[A100, {}], group=group, **words)
                found = Counter(podm for podm, _ in self.choices(decision))
                self.assertEqual(counts, sorted(found.values()))

    def test_nothing_fits_only_when_no_choice_does(self):
        decision = self.decide({"id": "a", "blocks": cpus(1)}, first_of=[A100, ANY])
        self.assertEqual("nothing_fits", decision.outcome)
        (verdict,) = Verdicts(decision).podm_verdicts()
        self.assertEqual("devices: GPU A100: needs 1, has 0", verdict.reason.text)

    def test_every_choice_has_what_is_asked_in_common(self):
        small = {"id": "a", "blocks": [cpu("c", 4), gpu("g", model="A100")]}
        self.assertEqual("nothing_fits", self.decide(small, first_of=[A100, ANY]).outcome)

    def test_a_choice_that_asks_for_too_many_groups_is_refused(self):
        with self.assertRaisesRegex(RequestError, "9 groups of accelerators"):
            request({}, first_of=[NODE, {"accelerators": [{}] * 9}])

    def test_counting_what_fits_counts_all_choices(self):
        gpus = [gpu("g1", model="A100"), gpu("g2", model="L4")]
        engine = engine_of({"id": "a", "blocks": [*cpus(4), *gpus]})
        counts = count_fits(engine, request(NODE, first_of=[A100, ANY]), 9)
        self.assertEqual((("a", 2),), counts.podms)


class TestAllOrNothing(unittest.TestCase):
    """Fewer nodes than requested are never silently accepted."""

    def decide(self, **words):
        asked = request(NODE, **words)
        return engine_of({"id": "a", "blocks": cpus(3)}).select_destinations(asked)

    def test_fewer_than_asked_for_is_none(self):
        decision = self.decide(count=5)
        self.assertEqual(("nothing_fits", ()), (decision.outcome, decision.placements))
        report = decision_report(decision)
        self.assertEqual((5, 0, 3), (report.requested, report.placed, report.fitting))
        (verdict,) = report.podms
        self.assertEqual(("rejected", 3), (verdict.outcome, verdict.fitting))

    def test_at_least_so_many_are_placed(self):
        for least, outcome in ((0, "placed_in_part"), (3, "placed_in_part"), (4, "nothing_fits")):
            self.assertEqual(outcome, self.decide(count=5, min_count=least).outcome)
        self.assertEqual("placed", self.decide(count=3, min_count=1).outcome)

    def test_more_at_least_than_asked_for_is_refused(self):
        with self.assertRaisesRegex(RequestError, "min_count 6 exceeds count 5"):
            self.decide(count=5, min_count=6)


class TestOneDecision(unittest.TestCase):
    """The alternatives of one request share the budget and the minimum number of nodes."""

    def test_a_later_choice_goes_on_with_what_is_left_and_for_the_rest_of_the_nodes(self):
        site = engine_of({"id": "a", "blocks": [*cpus(1), gpu("g")]})
        asked = request({}, count=3, min_count=2, first_of=[
            {"processor": {"total_cores": 8}}, {"accelerators": [{"model": "A100"}]}])  # fmt: skip
        decision = site.select_destinations(asked)
        self.assertEqual("placed_in_part", decision.outcome)
        first, second = (attempt.context for attempt in decision.attempts)
        self.assertIs(first.spending, second.spending)
        self.assertEqual((2, None), (second.request.count, second.request.min_count))
