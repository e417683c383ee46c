# SPDX-License-Identifier: Apache-2.0
"""A decision in names: pools, candidates, placements and what became of each pod manager."""

import unittest

from tests.unit.core.deciders import cpu, cpus, engine, gpu
from valence_sched.core.decision import Decision
from valence_sched.model.decision import PoolRef
from valence_sched.testing import request, view

EIGHT = {"processor": {"total_cores": 8}}


def decide(*podms, **words) -> Decision:
    return engine(view(*podms)).select_destinations(request(EIGHT, **words))


def three(*counts: int):
    """Return podms a, b, … of pools p and q with so many blocks of eight cores, all in q."""
    return [
        {"id": name, "pools": [{"id": "p"}, {"id": "q"}],
         "blocks": [{**block, "pools": ["q"]} for block in cpus(count)]}
        for name, count in zip("abc", counts, strict=True)
    ]  # fmt: skip


class TestRows(unittest.TestCase):
    """Pools by name."""

    def test_the_row_of_a_pool_is_that_of_its_podm(self):
        decision = decide(*three(1, 1, 1))
        rows = [decision.row_of(podm, pool) for podm in "abc" for pool in "pq"]
        self.assertEqual([0, 1, 2, 3, 4, 5], rows)
        for podm in "abc":
            with self.assertRaises(StopIteration):
                decision.row_of(podm, "r")

    def test_a_candidate_is_the_node_that_a_pool_would_make(self):
        asked = {**EIGHT, "resources": {"gib": 3}}
        site = view({"id": "a", "blocks": [cpu("x", 10), gpu("g")], "stocks": [
            {"uri": "s", "resource": "gib", "total": 9, "step": 2, "unit": "GiB"}]},
            {"id": "b", "blocks": [cpu("y", 4)]})  # fmt: skip
        decision = engine(site).select_destinations(request(asked))
        found = decision.candidate(0)
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
        self.assertIsNone(decision.candidate(1))

    def test_scores_are_told_to_a_millionth(self):
        site = view({"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": cpus(7)})
        decision = engine(site).select_destinations(request(EIGHT))
        found, exact = decision.candidate(0), decision.context.evaluation.scores_of(0)
        self.assertEqual([round(one, 6) for one in exact], list(found.scores.values()))
        self.assertNotEqual(list(exact), list(found.scores.values()))

    def test_a_score_is_one_for_no_cost_and_nothing_for_the_most(self):
        decision = decide(*three(1, 1, 1))
        worst = decision.context.bound.worst_cost * 1_000_000
        self.assertEqual([1.0, 0.75, 0.0], [decision.score(c) for c in (0, worst // 4, worst)])
        self.assertEqual(0.333333, decision.score(worst * 2 // 3 + 1))


class TestOutcome(unittest.TestCase):
    """All, some or none."""

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
