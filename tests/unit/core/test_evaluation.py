# SPDX-License-Identifier: Apache-2.0
"""Evaluations by every filter and weigher, the context of a decision, and the rows."""

import dataclasses
import unittest
from random import Random

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.core.deciders import bound, built_in, cpu, cpus, engine
from tests.unit.core.fit.covers import FAMILIES, podm, properties
from tests.unit.core.sites import quietly, sized
from tests.unit.core.test_decision import WithoutOptimiser
from valence_sched.core.batch import Attempt, place
from valence_sched.core.decision import MIN_ROWS, Decision
from valence_sched.core.evaluation import (
    EvaluationContext,
    evaluate,
    first_failures,
    funnel,
    reevaluate_group_state,
)
from valence_sched.core.explain.report import decision_warnings
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fit, Fitter, Spending
from valence_sched.core.policy import COST_SCALE, INFINITE_COST, BoundPolicy, BoundWeigher
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import PluginError
from valence_sched.model.policy import Budget, Policy, WeigherUse
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import request, view
from valence_sched.view.terms import Term, terms

POLICY = Policy(name="mine", weighers=(WeigherUse("room"),), budget=Budget(decision_states=70))


class TestContext(unittest.TestCase):
    def setUp(self) -> None:
        seen = view(*({"id": name, "blocks": cpus(size)} for size, name in enumerate("abcd")))
        asked = request({"processor": {"total_cores": 8}}, policy="mine", count=5, alternates=2)
        self.context = engine(seen, POLICY).context(asked)

    def test_a_part_of_a_decision_knows_of_the_nodes_elsewhere_and_shares_what_is_left(self):
        shared = Spending(Budget(decision_states=3))
        part = self.context.with_others(4, shared)
        self.assertEqual(4, part.other_nodes)
        self.assertIs(shared, part.spending)
        alone = self.context.with_others(1, None)
        self.assertIs(self.context.spending, alone.spending)
        self.assertEqual((0, 70), (self.context.other_nodes, self.context.spending.left))

    def test_a_window_has_some_rows_a_count_of_its_own_no_alternates_and_all_to_spend(self):
        self.context.spending.left = 1
        window = self.context.window(1, 3, 9)
        self.assertEqual(["b", "c"], [podm.id for podm in window.view.podms])
        self.assertEqual((9, 0), (window.request.count, window.request.alternates))
        self.assertEqual(70, window.spending.left)
        for whole, part in (
            (self.context.evaluation.cost[1:3], window.evaluation.cost),
            (self.context.evaluation.scores[:, 1:3], window.evaluation.scores),
            (self.context.evaluation.verdicts[:, 1:3], window.evaluation.verdicts),
        ):
            self.assertEqual(whole.tolist(), part.tolist())
        self.assertEqual((5, 2), (self.context.request.count, self.context.request.alternates))


ASKED = request({"processor": {"total_cores": 8}})


def site(size: int):
    return view(*({"id": f"p{number}", "facts": {"n": number}} for number in range(size)))


class TestCost(unittest.TestCase):
    """S31: the lowest cost is the best; whole numbers from 0."""

    @quietly(sized(200))
    @given(st.lists(
        st.tuples(st.integers(0, 5000), st.lists(st.floats(0, 1), min_size=4, max_size=4)),
        max_size=4,
    ))  # fmt: skip
    def test_cost_is_the_weighted_sum_of_a_million_times_what_is_missing(self, weighers):
        """S31: total = sum of weight × cost of each weigher; the order is ascending."""
        seen = site(4)
        policy = BoundPolicy(
            Policy(name="p"),
            FilterScheduler,
            (),
            tuple(
                BoundWeigher(f"w{n}", weight, lambda v, r, s=scores: np.array(s))
                for n, (weight, scores) in enumerate(weighers)
            ),
        )
        found = evaluate(seen, ASKED, policy)
        for row in range(4):
            costs = [(weight, COST_SCALE - round(s[row] * COST_SCALE)) for weight, s in weighers]
            self.assertTrue(all(0 <= cost <= COST_SCALE for _, cost in costs))
            self.assertEqual(sum(weight * cost for weight, cost in costs), found.cost[row])
            self.assertLessEqual(found.cost[row], COST_SCALE * policy.worst_cost)
        self.assertEqual(np.dtype(np.int64), found.cost.dtype)
        order = list(rank_rows(seen, found.cost, ASKED, 0))
        self.assertEqual(sorted(found.cost.tolist()), found.cost[order].tolist())
        self.assertEqual([0, 1, 2, 3], sorted(order))

    def test_a_rejected_pool_has_no_cost_that_could_win(self):
        def even(view, request):
            return view.number("n") % 2 == 0

        def last(view, request):
            return view.number("n") / 10

        found = evaluate(site(4), ASKED, bound(last, filters=(even,)))
        self.assertEqual([INFINITE_COST] * 2, found.cost[[1, 3]].tolist())
        self.assertEqual([2, 0], list(rank_rows(site(4), found.cost, ASKED, 0)))

    def test_the_same_of_all_pools_may_be_said_in_one_number(self):
        def same(view, request):
            return np.broadcast_to(0.25, len(view))

        def most(view, request):
            return np.broadcast_to(2.0, len(view))

        found = evaluate(site(3), ASKED, bound(same, fine))
        self.assertEqual([750 * COST_SCALE + 500 * COST_SCALE] * 3, found.cost.tolist())
        self.assertEqual([[0.25] * 3, [0.5] * 3], found.scores.tolist())
        self.assertEqual((0.25, 0.5), found.scores_of(1))
        found = evaluate(site(3), ASKED, bound(most))
        self.assertEqual(([[1.0] * 3], [0] * 3), (found.scores.tolist(), found.cost.tolist()))
        self.assertIn("outside 0..1", found.notes[0])

    def test_no_filter_and_no_weigher_cost_nothing(self):
        self.assertEqual([0, 0], evaluate(site(2), ASKED, bound()).cost.tolist())


def fine(view, request):
    return np.full(len(view), 0.5)


def raising(view, request):
    raise KeyError("tea\npot")


class Speechless(Exception):
    """An error that fails when it is converted to text."""

    def __str__(self) -> str:
        raise AttributeError("detail")


def speechless(view, request):
    raise Speechless


def masked(view, request):
    """As scores, all of them masked."""
    return np.ma.masked_all(len(view))


def masked_flags(view, request):
    return np.ma.masked_all(len(view), dtype=bool)


def short(view, request):
    return np.ones(1)


def words(view, request):
    return np.array(["x"] * len(view))


def nothing(view, request):
    return None


def listed(view, request):
    return [0.0, 0.5, 1.0]


def ones(view, request):
    return np.ones(len(view), dtype=int)


def leaving(view, request):
    raise SystemExit(9)


def short_while_many(view, request):
    """Is correct only for a view of one row, and reads the free blocks."""
    view.free(request.needs[0])
    return np.ones(1)


ASKED_BEFORE: list = []


@terms
def wordless(view, request):
    if ASKED_BEFORE:  # to explain its answer
        raise ValueError("no words")
    yield Term("n", 5, view.number("n"))


class TestBrokenPlugins(unittest.TestCase):
    """A plug-in that breaks its contract is named, and stops only a strict decision."""

    def evaluate_noted(self, policy, note: str):
        found = evaluate(site(3), ASKED, policy)
        (text,) = found.notes
        self.assertIn(note, text)
        self.assertNotIn("\n", text)
        with self.assertRaises(PluginError) as caught:
            evaluate(site(3), ASKED, policy, strict=True)
        self.assertEqual(text, str(caught.exception))
        if "failed: " in text:
            self.assertIsInstance(caught.exception.__cause__, BaseException)
            self.assertEqual(1, len(found.failed_plugins))
        return found

    def test_a_weigher_that_fails_counts_as_0(self):
        for weigher, note in (
            (raising, "weigher 'raising' failed: KeyError: 'tea"),
            (short, "weigher 'short' returned an array of float64 of shape (1,), not 3 numbers"),
            (words, "weigher 'words' returned an array of <U1"),
            (nothing, "weigher 'nothing' returned a NoneType, not 3 numbers"),
            (listed, "weigher 'listed' returned a list, not 3 numbers"),
            (leaving, "weigher 'leaving' failed: SystemExit: 9"),
            (speechless, "weigher 'speechless' failed: Speechless"),
            (masked, "weigher 'masked' returned a MaskedArray, not 3 numbers"),
        ):
            with self.subTest(weigher.__name__):
                found = self.evaluate_noted(bound(weigher, fine), note)
                self.assertEqual([[0, 0, 0], [0.5] * 3], found.scores.tolist())
                self.assertEqual([1500 * COST_SCALE] * 3, found.cost.tolist())

    def test_who_failed_once_fails_throughout_a_batch(self):
        pods = [{"id": str(n), "blocks": cpus(3, 8)} for n in range(3)]
        for policy in (bound(short_while_many), bound(filters=(short_while_many,))):
            seen = view(*pods)
            asked = msgspec.structs.replace(ASKED, count=6)
            found = evaluate(seen, asked, policy)
            batch = place(
                EvaluationContext(seen, asked, policy, found, Fitter(asked.needs, seen.kinds)),
                rank_rows,
            )
            self.assertEqual(1, len(batch.evaluation.notes))
            self.assertEqual({0.0}, {score for p in batch.nodes for score in p.scores} or {0.0})
            self.assertEqual(0 if policy.filters else 6, len(batch.nodes))

    def test_a_filter_that_cannot_explain_itself_still_judges(self):
        seen = site(3)
        policy = bound(filters=(wordless,))
        found = evaluate(seen, ASKED, policy)
        ASKED_BEFORE.append(wordless)
        self.addCleanup(ASKED_BEFORE.clear)
        context = EvaluationContext(seen, ASKED, policy, found, Fitter(ASKED.needs, seen.kinds))
        decision = Decision([Attempt(context, place(context, rank_rows))])
        (reason,) = Verdicts(decision).reasons(0)
        self.assertEqual("wordless: this filter: needs yes, has no", reason.text)
        self.assertIn("cannot explain itself: ValueError: no words", decision_warnings(decision)[0])

    def test_a_filter_that_fails_rejects_everything(self):
        for filter_, note in (
            (raising, "filter 'raising' failed: KeyError"),
            (short, "filter 'short' returned an array of float64 of shape (1,), not 3 bools"),
            (ones, "filter 'ones' returned an array of int64 of shape (3,), not 3 bools"),
            (speechless, "filter 'speechless' failed: Speechless"),
            (masked_flags, "filter 'masked_flags' returned a MaskedArray, not 3 bools"),
            (nothing, "filter 'nothing' returned a NoneType, not 3 bools"),
        ):
            with self.subTest(filter_.__name__):
                found = self.evaluate_noted(bound(filters=(filter_,)), note)
                self.assertEqual({filter_.__name__}, found.failed_plugins)
                self.assertEqual([False] * 3, found.verdicts[0].tolist())
                self.assertEqual([INFINITE_COST] * 3, found.cost.tolist())

    def test_the_reason_of_a_filter_that_failed_is_that_it_failed(self):
        seen = site(3)
        policy = bound(filters=(raising,))
        context = EvaluationContext(
            seen, ASKED, policy, evaluate(seen, ASKED, policy), Fitter(ASKED.needs, seen.kinds)
        )
        decision = Decision([Attempt(context, place(context, rank_rows))])
        (reason,) = Verdicts(decision).reasons(0)
        text = "raising: this filter: needs an answer, has an error"
        self.assertEqual(text, reason.text)


class TestFunnel(unittest.TestCase):
    """The numbers of pools before and after each filter."""

    VERDICTS = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 1]], dtype=bool)

    def test_each_filter_counts_what_those_before_it_left(self):
        def a(view, request): ...
        def b(view, request): ...
        def c(view, request): ...

        steps = funnel(bound(filters=(a, b, c)), self.VERDICTS, 4)
        self.assertEqual([("a", 4, 3), ("b", 3, 2), ("c", 2, 1)], steps)

    def test_the_first_filter_that_rejects_is_the_reason(self):
        self.assertEqual([2, 1, 0, -1], list(first_failures(self.VERDICTS)))
        self.assertEqual([-1, -1], list(first_failures(np.ones((0, 2), dtype=bool))))


class TestContract(unittest.TestCase):
    """Valid answers of a plug-in, and the handling of invalid ones."""

    def scored(self, answer, size: int = 3, **words):
        def weigher(view, request):
            return answer

        policy = bound(weigher)
        found = evaluate(site(size), ASKED, policy, **words)
        return found.scores[0].tolist(), found.notes

    def test_scores_from_nothing_to_one_are_taken_as_they_are(self):
        for scores in ([0.0, 0.5, 1.0], [-0.0, 0.0, 1.0], [0, 1, 1], [1.0, 1.0, 1.0], [-0.0] * 3):
            with self.subTest(scores):
                self.assertEqual((scores, []), self.scored(np.array(scores)))
        single = np.array([0.25, 0.5, 1.0], dtype=np.float32)
        self.assertEqual(([0.25, 0.5, 1.0], []), self.scored(single))
        self.assertEqual(([], []), self.scored(np.array([]), 0))
        for one in (0.0, 0.5, 1.0):
            self.assertEqual(([one] * 3, []), self.scored(np.broadcast_to(np.float64(one), 3)))

    def test_scores_beyond_are_clamped_and_that_is_noted_once(self):
        above, nan = np.nextafter(1.0, 2.0), float("nan")
        note = ["weigher 'weigher' returned scores outside 0..1: clamped, NaN counted as 0"]
        for scores, clamped in (
            ([0.0, above, 0.5], [0.0, 1.0, 0.5]),
            ([-1e-300, 1.0, 0.5], [0.0, 1.0, 0.5]),
            ([nan, 2.0, -3.0], [0.0, 1.0, 0.0]),
            ([-0.0, 7.0, 0.5], [0.0, 1.0, 0.5]),
        ):
            with self.subTest(scores):
                self.assertEqual((clamped, note), self.scored(np.array(scores)))
                with self.assertRaisesRegex(PluginError, note[0]):
                    self.scored(np.array(scores), strict=True)
        for one, clamped in ((1.5, 1.0), (-0.5, 0.0)):
            self.assertEqual(([clamped] * 3, note),
                             self.scored(np.broadcast_to(np.float64(one), 3)))  # fmt: skip

    def test_a_score_of_the_group_state_is_clamped_when_it_is_read_again(self):
        group = {"name": "g", "spread": [{"over": "zone", "soft": True}]}
        asked = request({"processor": {"total_cores": 8}}, group=group)
        answers = [np.array([0.5, 0.5, 0.5]), np.array([0.5, 2.0, 0.25])]

        def weigher(view, request):
            return answers.pop(0)

        policy, seen = bound(weigher), site(3)
        found = evaluate(seen, asked, policy).copy()
        found.group_state_readers = frozenset({"weigher"})
        changed = reevaluate_group_state(seen, asked, policy, found)
        self.assertEqual([False, True, True], changed.tolist())
        self.assertEqual([0.5, 1.0, 0.25], found.scores[0].tolist())
        self.assertEqual(1, len(found.notes))


DEFAULT = next(policy for policy in built_in() if policy.name == "default")


def decided(flavor: str, count: int = 1):
    asked = request(FLAVORS[flavor], count=count)
    return engine(generated_view(120, 20, 1), DEFAULT).select_destinations(asked)


class TestFitsOfRows(WithoutOptimiser):
    def test_many_rows_are_settled_as_each_is_by_itself(self):
        for flavor, count in (("small", 1), ("gpu", 40), ("large", 3)):
            decision = decided(flavor, count)
            context, batch = decision.context, decision.batch
            passing = (batch.evaluation.cost != INFINITE_COST).nonzero()[0].tolist()
            expected = [
                "fits" if isinstance(context.fit(batch.view, row), Fit) else "none"
                for row in passing
            ]
            with self.subTest(flavor):
                self.assertIn("fits", expected)
                self.assertEqual(set(passing), set(decision.known_fits))
                self.assertEqual(expected, [decision.row_fit(row) for row in passing])

    def test_a_row_that_the_batch_left_open_is_not_settled_with_the_others(self):
        decision = decided("small")
        passing = (decision.batch.evaluation.cost != INFINITE_COST).nonzero()[0].tolist()
        decision.batch.undecided_rows.add(passing[3])
        known = dataclasses.replace(decision).known_fits
        self.assertEqual(set(passing) - {passing[3]}, set(known))

    def test_a_few_rows_are_searched_one_by_one(self):
        asked = request(FLAVORS["small"])
        decision = engine(generated_view(5, 20, 1), DEFAULT).select_destinations(asked)
        self.assertEqual({}, decision.known_fits)
        fits = [row for row in range(len(decision.view))
                if isinstance(decision.context.fit(decision.view, row), Fit)]  # fmt: skip
        self.assertEqual(fits, [row for row in range(len(decision.view))
                                if decision.row_fit(row) == "fits"])  # fmt: skip

    def test_a_row_that_is_not_settled_within_the_budget_is_undecided(self):
        cover = FAMILIES["split"](44, Random(4))
        budget = Budget(pool_states=500, decision_states=10_000_000)
        policy = msgspec.structs.replace(DEFAULT, name="tight", budget=budget)
        site = view(*(podm(f"hard-{number:02}", cover) for number in range(MIN_ROWS)))
        decision = engine(site, policy).select_destinations(
            request(properties(cover), policy="tight")
        )
        self.assertTrue(decision.batch.undecided_rows)
        decision.batch.undecided_rows.clear()  # as if another request had been decided
        fit_of = dataclasses.replace(decision).row_fit
        self.assertEqual({"undecided"}, {fit_of(row) for row in range(len(site))})

    def test_rows_without_a_fit_are_told_from_those_that_have_one(self):
        pools = [{"id": "p", "limits": {"Compute": {"max": 1}}}]

        def podm(number, *cores):
            blocks = [{**cpu(f"c{n}", each), "pools": ["p"]} for n, each in enumerate(cores)]
            return {"id": f"{number:02}", "pools": pools, "blocks": blocks}

        site = view(*(podm(n, 8, 8) for n in range(MIN_ROWS)), podm(MIN_ROWS, 8, 16))
        asked = request({"processor": {"total_cores": 16}})
        decision = engine(site, DEFAULT).select_destinations(asked)
        found = [decision.row_fit(row) for row in range(len(site))]
        self.assertEqual([*["none"] * MIN_ROWS, "fits"], found)

    def test_amounts_of_stocks_are_settled_one_by_one(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 5}]})
        stocks = [{"uri": "s", "resource": "gib", "total": 9}]
        site = view(*({"id": str(number), "stocks": stocks} for number in range(MIN_ROWS)))
        decision = engine(site, DEFAULT).select_destinations(asked)
        self.assertEqual({}, decision.known_fits)
        self.assertEqual("fits", decision.row_fit(0))
