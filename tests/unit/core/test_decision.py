# SPDX-License-Identifier: Apache-2.0
"""A decision by names: pools, candidates, placements and the verdict on each pod manager."""

import unittest
from random import Random
from typing import Any

import msgspec

from tests.unit.core.deciders import built_in, cpu, cpus, engine, gpu
from tests.unit.core.fit import topologies
from tests.unit.core.fit.covers import FAMILIES, leave_open, podm, properties
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report
from valence_sched.core.fit.fit import Fitter, Spending, Undecided
from valence_sched.errors import DecisionUndecided, RequestError
from valence_sched.model.decision import PoolRef
from valence_sched.model.policy import Budget, Policy
from valence_sched.planning.batches import decide_all
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request, view

EIGHT = {"processor": {"total_cores": 8}}


def decide(*podms, **words) -> Decision:
    return engine(view(*podms)).select_destinations(request(EIGHT, **words))


def three(*counts: int):
    """Return podms a, b, … of pools p and q with these numbers of 8-core blocks, all in q."""
    return [
        {"id": name, "pools": [{"id": "p"}, {"id": "q"}],
         "blocks": [{**block, "pools": ["q"]} for block in cpus(count)]}
        for name, count in zip("abc", counts, strict=True)
    ]  # fmt: skip


class TestRows(unittest.TestCase):
    def test_a_candidate_is_the_node_that_a_pool_would_make(self):
        asked = {**EIGHT, "resources": {"gib": 3}}
        site = view({"id": "a", "blocks": [cpu("x", 10), gpu("g")], "stocks": [
            {"uri": "s", "resource": "gib", "total": 9, "step": 2, "unit": "GiB"}]},
            {"id": "b", "blocks": [cpu("y", 4)]})  # fmt: skip
        decision = engine(site).select_destinations(request(asked))
        (found,) = engine(site).rank(request(asked), 9).candidates  # none in the pool of b
        self.assertEqual(("a", ["x"]), (found.podm, [block.uri for block in found.blocks]))
        self.assertEqual(("Compute",), found.blocks[0].type)
        (grant,) = found.grants
        self.assertEqual(("s", "gib", 4.0, "GiB"),
                         (grant.uri, grant.resource, grant.amount, grant.unit))  # fmt: skip
        self.assertEqual(10 + 2 * 100, found.waste)
        self.assertEqual(int(decision.context.evaluation.cost[0]), found.cost)
        self.assertEqual(decision.score(found.cost), found.score)
        names = [weigher.name for weigher in decision.context.bound.weighers]
        self.assertEqual(names, list(found.scores))

    def test_scores_are_told_to_a_millionth(self):
        site = view({"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": cpus(7)})
        decision = engine(site).select_destinations(request(EIGHT))
        ranked = engine(site).rank(request(EIGHT), 9).candidates
        (found,) = (one for one in ranked if one.podm == "a")
        exact = decision.context.evaluation.scores_of(0)
        self.assertEqual([round(one, 6) for one in exact], list(found.scores.values()))
        self.assertNotEqual(list(exact), list(found.scores.values()))

    def test_a_score_is_one_for_no_cost_and_nothing_for_the_most(self):
        decision = decide(*three(1, 1, 1))
        worst = decision.context.bound.worst_cost * 1_000_000
        self.assertEqual([1.0, 0.75, 0.0], [decision.score(c) for c in (0, worst // 4, worst)])
        self.assertEqual(0.333333, decision.score(worst * 2 // 3 + 1))


class TestOutcome(unittest.TestCase):
    def test_it_is_placed_when_all_nodes_are_in_part_when_enough_and_nothing_fits_below(self):
        for words, outcome, count in (
            ({"count": 3}, "placed", 3),
            ({"count": 5, "min_count": 3}, "placed_in_part", 3),
            ({"count": 5, "min_count": 4}, "nothing_fits", 0),
            ({"count": 4}, "nothing_fits", 0),
        ):
            with self.subTest(words):
                decision = decide(*three(2, 0, 1), **words)
                self.assertEqual(outcome, decision.outcome)
                self.assertEqual(count, len(decision.placements))
                self.assertEqual([*range(1, count + 1)], [p.node for p in decision.placements])
                self.assertEqual(3, decision.fit_count)
                self.assertEqual(((), []), (decision.undecided, decision.undecided_rows))

    def test_each_podm_is_counted_and_named_once_in_the_order_of_its_first_node(self):
        decision = decide(*three(2, 0, 1), count=3)
        self.assertEqual({0: 2, 2: 1}, dict(decision.fit_count_by_podm))
        podms = [placement.chosen.podm for placement in decision.placements]
        self.assertEqual(list(dict.fromkeys(podms)), ["abc"[n] for n in decision.chosen_podms()])
        self.assertEqual({"chosen"}, {one for one, _, _ in decision.outcome_by_podm.values()})
        self.assertEqual({0: 1, 2: 5}, {n: row for n, (_, row, _)
                                        in decision.outcome_by_podm.items()})  # fmt: skip

    def test_what_is_chosen_comes_before_what_is_an_alternate(self):
        decision = decide(*three(1, 1, 1), alternates=2)
        (placement,) = decision.placements
        chosen = "abc".index(placement.chosen.podm)
        outcomes = {number: one for number, (one, _, _) in decision.outcome_by_podm.items()}
        self.assertEqual({0, 1, 2}, set(outcomes))
        self.assertEqual([chosen], [n for n, one in outcomes.items() if one == "chosen"])
        self.assertEqual({"chosen", "alternate"}, set(outcomes.values()))
        for number, (_, row, cost) in decision.outcome_by_podm.items():
            self.assertEqual((2 * number + 1, decision.context.evaluation.cost[row]), (row, cost))

    def test_no_alternate_is_on_a_podm_that_takes_a_node_of_this_or_another_request(self):
        decision = decide(*three(2, 2, 2), alternates=2)
        chosen = decision.placements[0].chosen.podm
        others = [one for one in "abc" if one != chosen]
        self.assertEqual(set(others), {one.podm for one in decision.placements[0].alternates})
        decision.exclude_alternates_on(frozenset({"abc".index(others[0])}))
        self.assertEqual([others[1]], [one.podm for one in decision.placements[0].alternates])
        decision.exclude_alternates_on(frozenset())
        self.assertEqual(2, len(decision.placements[0].alternates))

    def test_the_first_choice_that_places_a_node_is_the_main_one(self):
        site = view(*three(1, 1, 1))
        asked = request({}, first_of=[{"processor": {"total_cores": 99}},
                                      {"accelerators": [{"model": "A100"}]}, EIGHT])  # fmt: skip
        decision = engine(site).select_destinations(asked)
        self.assertIs(decision.attempts[2], decision.main_attempt)
        self.assertEqual([(1, decision.attempts[0]), (2, decision.attempts[1])],
                         decision.failed_attempts)  # fmt: skip
        self.assertEqual(3, decision.placements[0].choice)
        none = engine(site).select_destinations(request({"processor": {"total_cores": 99}}))
        self.assertEqual((none.attempts[0], []), (none.main_attempt, none.failed_attempts))

    def test_what_is_undecided_is_named_by_podm_and_pool_in_their_order(self):
        attempts = decide(*three(0, 0, 0)).attempts
        attempts[0].batch.undecided_rows.update({5, 1})
        decision = Decision(attempts)
        self.assertEqual([1, 5], decision.undecided_rows)
        self.assertEqual((PoolRef(podm="a", pool="q"), PoolRef(podm="c", pool="q")),
                         decision.undecided)  # fmt: skip
        self.assertEqual("undecided", decision.outcome)


SPLIT = FAMILIES["split"](44, Random(4))
NODE = properties(SPLIT)
HARD = podm("hard", SPLIT)
#: Places the node in one block.
EASY = {"id": "easy", "blocks": [cpu("b", NODE["processor"]["total_cores"], 10**8)]}
OFF = {**podm("off", SPLIT), "enabled": False}


def policy(pool_states: int = 20_000, decision_states: int = 10_000_000, **words: Any) -> Policy:
    budget = Budget(pool_states=pool_states, decision_states=decision_states)
    default = next(one for one in built_in() if one.name == "default")
    return msgspec.structs.replace(default, name="tight", budget=budget, **words)


def decider(*podms: dict[str, Any], strict: bool = False, **words: Any) -> Decider:
    return engine(view(*podms), policy(**words), strict=strict)


def asked(**words: Any):
    return request(NODE, policy="tight", **words)


class WithoutOptimiser(unittest.TestCase):
    """Uses no optimiser."""

    def setUp(self) -> None:
        leave_open(self)


class TestUndecided(WithoutOptimiser):
    """A decision on a pool with an open search."""

    def test_it_is_neither_a_fit_nor_a_no(self):
        decision = decider(HARD).select_destinations(asked())
        self.assertEqual("undecided", decision.outcome)
        report = decision_report(decision)
        self.assertEqual((PoolRef(podm="hard", pool="p"),), report.undecided)
        self.assertEqual(["undecided"], [verdict.outcome for verdict in report.podms])
        self.assertEqual(
            "fit: search states: needs more than the budget of the policy, has 20,000 for a pool",
            report.podms[0].reason.text,
        )
        step = report.funnel[-1]
        self.assertEqual(
            ("fit", 1, 0, 1), (step.filter, step.came_in, step.went_on, step.undecided)
        )
        (warning,) = report.warnings
        self.assertRegex(
            warning, r"^undecided: 1 pool may fit: hard \(p\): no answer within 20,000"
        )
        self.assertEqual((), report.explanation.nearest_misses)
        self.assertIn("reached the budget of the policy", report.explanation.notes[-1])

    def test_enough_states_settle_it(self):
        cover = FAMILIES["split"](20, Random(2))
        wanted, site = request(properties(cover), policy="tight"), podm("hard", cover)
        outcomes = [
            decider(site, pool_states=states).select_destinations(wanted).outcome
            for states in (1_000, 1_000_000)
        ]
        self.assertEqual(["undecided", "placed"], outcomes)

    def test_another_pool_is_taken_and_the_undecided_one_is_named(self):
        decision = decider(HARD, EASY).select_destinations(asked())
        report = decision_report(decision)
        self.assertEqual("placed", report.outcome)
        outcomes = {verdict.podm: verdict.outcome for verdict in report.podms}
        self.assertEqual({"easy": "chosen", "hard": "undecided"}, outcomes)

    def test_a_pool_that_was_not_tried_is_not_among_the_undecided(self):
        for seed in range(10):
            decision = decider(HARD, EASY, weighers=()).select_destinations(asked(seed=seed))
            tried = [one.podm for one in decision.undecided]
            self.assertEqual("placed", decision.outcome)
            self.assertIn(tried, ([], ["hard"]))

    def test_a_strict_decider_refuses(self):
        strict = decider(HARD, EASY, strict=True)
        for decide in (
            lambda: strict.select_destinations(asked()),
            lambda: decide_all(strict, [asked(), asked(id="second")]),
            lambda: strict.rank(asked(), 9),
            lambda: count_fits(strict, asked(), 9),
        ):
            with self.assertRaisesRegex(DecisionUndecided, "hard .p.") as caught:
                decide()
            self.assertEqual(5, caught.exception.exit_code)
        self.assertEqual("placed", decider(EASY, strict=True).select_destinations(asked()).outcome)

    def test_a_count_is_what_is_certain_and_names_the_rest(self):
        counts = count_fits(decider(HARD, EASY), asked(), 9)
        self.assertEqual((("hard", 0), ("easy", 1)), counts.podms)
        self.assertEqual(("hard",), counts.undecided)
        self.assertIn("hard (p)", counts.warnings[-1])

    def test_a_ranking_names_what_is_missing(self):
        ranking = decider(HARD, EASY).rank(asked(), 9)
        self.assertEqual(["easy"], [candidate.podm for candidate in ranking.candidates])
        self.assertIn("hard (p)", ranking.missing[0])

    def test_of_several_nodes_the_rest_is_undecided(self):
        some = decider(HARD, EASY).select_destinations(asked(count=2, min_count=1))
        self.assertEqual(("placed_in_part", 1), (some.outcome, len(some.undecided)))
        all_ = decider(HARD, EASY).select_destinations(asked(count=2))
        self.assertEqual(("undecided", 1), (all_.outcome, all_.fit_count))

    def test_a_list_of_requests_is_undecided_when_one_is(self):
        decisions = decide_all(decider(HARD, EASY), [asked(), asked(id="second")])
        report = decisions.report()
        self.assertEqual("undecided", report.outcome)
        self.assertEqual(["nothing_fits", "undecided"], [one.outcome for one in report.decisions])
        self.assertIn("hard (p)", report.warnings[-1])

    def test_an_undecided_alternative_is_named_when_a_later_one_is_placed(self):
        small = {"processor": {"total_cores": 1}}
        wanted = request({}, first_of=[NODE, small], policy="tight")
        decision = decider(HARD).select_destinations(wanted)
        self.assertEqual(("placed", 1), (decision.outcome, len(decision.undecided)))

    def test_a_filter_that_rejects_the_pool_leaves_no_question(self):
        decision = decider(OFF).select_destinations(asked())
        self.assertEqual("nothing_fits", decision.outcome)
        (miss,) = decision_report(decider(OFF, EASY).select_destinations(asked())).podms[1:]
        self.assertEqual("rejected", miss.outcome)


class TestBudget(WithoutOptimiser):
    """States are counted for each search, independent of earlier ones."""

    def test_the_answer_does_not_depend_on_what_the_caches_hold(self):
        others = [podm(f"p{n}", FAMILIES["split"](44, Random(n))) for n in range(3)]
        words = {"decision_states": 50_000}
        fresh = [decider(*others, **words).select_destinations(asked(seed=n)) for n in range(2)]
        warm = decider(*others, **words)
        for _ in range(2):
            for seed, first in enumerate(fresh):
                again = warm.select_destinations(asked(seed=seed))
                self.assertEqual(decision_report(first), decision_report(again))

    def test_a_decision_spends_no_more_than_its_states_and_one_question(self):
        seen = view(*[podm(f"p{n}", FAMILIES["split"](44, Random(n))) for n in range(6)])
        budget = Budget(pool_states=20_000, decision_states=30_000)
        fitter, spending = Fitter(asked().needs, seen.kinds, budget=budget), Spending(budget)
        answers = [fitter.fit(seen, row, spending) for row in range(6)]
        self.assertTrue(all(answer is None or isinstance(answer, Undecided) for answer in answers))
        self.assertLessEqual(spending.left, 0)
        self.assertGreater(spending.left, -200_000)
        self.assertEqual(answers, [fitter.fit(seen, row, spending) for row in range(6)])

    def test_stocks_are_bounded_too(self):
        random = Random(2)
        amounts = [float(random.randint(200, 600)) for _ in range(30)]
        stocks = [
            {"uri": f"s{n}", "resource": "gib", "total": sum(amounts) / 10} for n in range(10)
        ]
        wanted = request({"stocks": [{"resource": "gib", "amount": one} for one in amounts]})
        seen = view({"id": "a", "stocks": stocks})
        fitter = Fitter(wanted.needs, seen.kinds)
        self.assertIsInstance(fitter.fit(seen, 0), Undecided)
        self.assertIsNone(fitter.quick_fit(seen, 0))

    def test_topology_is_bounded_too(self):
        seen, wanted = topologies.site("too_few_values", 0)
        wanted = msgspec.structs.replace(wanted, policy="tight")
        decision = engine(seen, policy()).select_destinations(wanted)
        self.assertEqual("undecided", decision.outcome)

    def test_eight_names_apart_in_domains_that_no_block_reports_are_decided(self):
        """Each block may be any of them, in each of six domains."""
        names = [f"n{number}" for number in range(8)]
        places = [f"place{number}" for number in range(6)]
        node = {
            "accelerators": [{"name": name} for name in names],
            "topology": [{"of": names, "apart": place} for place in places],
        }
        hopeful = policy(unknown="allow")
        for number, outcome in ((8, "placed"), (7, "nothing_fits")):
            site = view({"id": "a", "blocks": [gpu(f"b{n}") for n in range(number)]})
            decision = engine(site, hopeful).select_destinations(request(node, policy="tight"))
            self.assertEqual(outcome, decision.outcome)

    def test_sizes_without_end_are_refused_in_one_line(self):
        group = {"name": "g", "anti_affinity": [f"facts.f{n}" for n in range(40)]}
        for problem, node, words in (
            ("1,000,000,000 nodes", NODE, {"count": 10**9}),
            ("1,000,000,000 alternates", NODE, {"alternates": 10**9}),
            ("40 domains of a group", NODE, {"group": group}),
            (
                "10,000 separate amounts",
                {"stocks": [{"resource": f"r{n}", "amount": 1, "count": 1000} for n in range(10)]},
                {},
            ),
            ("70 needs", {"resources": {f"R{n}": 1 for n in range(70)}}, {}),
        ):
            with self.assertRaisesRegex(RequestError, f"^{problem}, at most "):
                request(node, **words)
