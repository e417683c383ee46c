# SPDX-License-Identifier: Apache-2.0
"""What a decision spends on hard questions, and what it is told when nothing is left."""

import unittest
from random import Random
from unittest import mock

from tests.unit.core.fit.hard_covers import FAMILIES, podm, properties
from valence_sched.core.fit import fit
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.fit.spending import FREE_STATES, SearchOutcome, Spending, Undecided
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.testing import request, view

YES, NO = SearchOutcome("found", True, 5), SearchOutcome(None, True, 5)
OPEN = SearchOutcome(None, False, 3)
BETTER_MAY_BE = SearchOutcome("found", False, 3)


def never() -> SearchOutcome:
    raise AssertionError("it was searched again")


class TestSpending(unittest.TestCase):
    """One decision."""

    def test_an_outcome_is_open_just_when_it_is_neither_a_yes_nor_a_no(self):
        self.assertTrue(OPEN.is_open)
        for settled in (YES, NO, BETTER_MAY_BE):
            self.assertFalse(settled.is_open)

    def test_it_begins_with_the_states_of_the_budget(self):
        self.assertEqual(DEFAULT_BUDGET.decision_states, Spending().left)
        self.assertEqual(7, Spending(Budget(decision_states=7)).left)

    def test_each_question_is_searched_and_paid_for_once(self):
        spending = Spending(Budget(decision_states=100))
        self.assertIs(YES, spending.answer("a", OPEN, lambda: YES))
        self.assertIs(YES, spending.answer("a", OPEN, never))
        self.assertEqual(95, spending.left)
        self.assertIs(NO, spending.answer("b", OPEN, lambda: NO))
        self.assertEqual(90, spending.left)

    def test_the_last_state_still_pays_for_a_search_and_then_the_short_answers_stand(self):
        spending = Spending(Budget(decision_states=1))
        self.assertIs(YES, spending.answer("a", OPEN, lambda: YES))
        self.assertEqual(-4, spending.left)
        self.assertIs(OPEN, spending.answer("b", OPEN, never))
        self.assertIs(BETTER_MAY_BE, spending.answer("c", BETTER_MAY_BE, never))
        self.assertEqual(-4, spending.left)
        none = Spending(Budget(decision_states=0))
        self.assertIs(OPEN, none.answer("a", OPEN, never))

    def test_the_questions_left_open_are_counted(self):
        spending = Spending(Budget(decision_states=5))
        self.assertEqual(0, spending.undecided)
        for question, outcome in (("a", NO), ("b", OPEN), ("c", OPEN), ("d", BETTER_MAY_BE)):
            spending.answer(question, outcome, lambda: NO)
        self.assertEqual(2, spending.undecided)


#: Stocks in GiB, amounts asked for: the short search leaves it open, a longer one settles it.
POSSIBLE = (47, 51, 52), (14, 16, 10, 12, 14, 16, 26, 16, 22)
IMPROVABLE = (35, 43, 60), (5, 12, 9, 13, 8, 8, 12, 13)
STEPS = (3, 5, 0)  # of the stocks of the last
IMPOSSIBLE = (54, 58, 56), (10, 16, 18, 30, 30, 30, 16, 14)


def stocks(case, count: int = 1):
    totals, amounts = case
    offer = [{"uri": f"{number}", "resource": "gib", "total": total,
              "step": STEPS[number] if case is IMPROVABLE else 0}
             for number, total in enumerate(totals)]  # fmt: skip
    podms = [{"id": f"s{number}", "stocks": offer} for number in range(count)]
    return view(*podms), request(
        {"stocks": [{"resource": "gib", "amount": amount} for amount in amounts]}
    )


def blocks(family: str, size: int, seed: int, count: int = 1):
    cover = FAMILIES[family](size, Random(seed))
    return view(*(podm(f"b{n}", cover) for n in range(count))), request(properties(cover))


def long_answers(plan: Fitter) -> list[SearchOutcome]:
    """Return what was found within all states of a question."""
    most = plan.budget.pool_states
    return [answer for (_, states), answer in plan._answers.items() if states == most]


class TestFitter(unittest.TestCase):
    """Hard questions of many pools."""

    def test_what_the_short_search_leaves_open_a_decision_settles(self):
        for name, (seen, asked), possible in (
            ("blocks", blocks("split", 16, 2), False),
            ("two amounts", blocks("two_amounts", 28, 2), True),
            ("stocks", stocks(POSSIBLE), True),
            ("no stocks", stocks(IMPOSSIBLE), False),
        ):
            with self.subTest(name):
                plan = Fitter(asked.needs, seen.kinds)
                self.assertIsNone(plan.quick_fit(seen, 0))
                found = plan.fit(seen, 0)
                self.assertEqual(Fit if possible else type(None), type(found))

    def test_a_pool_that_is_not_settled_is_undecided_within_the_states_of_the_budget(self):
        for states in (1, 100, FREE_STATES, FREE_STATES + 1):
            for name, (seen, asked) in (("blocks", blocks("split", 16, 2)),
                                        ("stocks", stocks(POSSIBLE))):  # fmt: skip
                with self.subTest(name, states=states):
                    plan = Fitter(asked.needs, seen.kinds, budget=Budget(pool_states=states))
                    spending = Spending()
                    self.assertEqual(Undecided(states), plan.fit(seen, 0, spending))
                    self.assertEqual(1, spending.undecided)

    def test_no_more_states_are_searched_than_the_budget_has_for_a_pool(self):
        seen, asked = blocks("split", 16, 2)
        plan = Fitter(asked.needs, seen.kinds, budget=Budget(pool_states=50))
        plan.quick_fit(seen, 0)
        self.assertTrue(all(short.states <= 51 for short in plan._answers.values()))

    def test_the_quick_fit_is_that_of_the_decision_or_none(self):
        seen, asked = blocks("powers", 8, 0)
        plan = Fitter(asked.needs, seen.kinds)
        quick = plan.quick_fit(seen, 0)
        self.assertIsNotNone(quick)
        self.assertEqual(quick, plan.fit(seen, 0))
        seen, asked = stocks(((10, 10), (3, 4)))
        plan = Fitter(asked.needs, seen.kinds)
        self.assertEqual(((0, 3.0), (0, 4.0)), plan.quick_fit(seen, 0).grants)
        self.assertEqual((), plan.quick_fit(seen, 0).blocks)

    def test_what_may_not_be_the_cheapest_is_no_quick_fit_but_better_than_none(self):
        for name, (seen, asked), least in (
            ("blocks", blocks("two_amounts", 20, 0), lambda found: found.waste),
            ("stocks", stocks(IMPROVABLE), lambda found: sum(a for _, a in found.grants)),
        ):
            with self.subTest(name):
                plan = Fitter(asked.needs, seen.kinds)
                self.assertIsNone(plan.quick_fit(seen, 0))
                quick = plan.fit(seen, 0, Spending(Budget(decision_states=0)))
                self.assertGreater(least(quick), least(plan.fit(seen, 0)))

    def test_what_the_short_search_settles_is_free(self):
        for name, (seen, asked) in (("blocks", blocks("powers", 8, 0)),
                                    ("stocks", stocks(((9, 8), (5, 4, 4, 4))))):  # fmt: skip
            with self.subTest(name):
                plan, spending = Fitter(asked.needs, seen.kinds), Spending()
                self.assertIsInstance(plan.fit(seen, 0, spending), Fit)
                self.assertEqual(DEFAULT_BUDGET.decision_states, spending.left)
                self.assertFalse(long_answers(plan))

    def test_pools_that_pose_one_question_pay_for_it_once_in_a_decision(self):
        for name, (seen, asked) in (("blocks", blocks("split", 16, 2, 3)),
                                    ("stocks", stocks(IMPOSSIBLE, 3))):  # fmt: skip
            with self.subTest(name):
                plan, spending = Fitter(asked.needs, seen.kinds), Spending()
                found = [plan.fit(seen, 0, spending)]
                spent = DEFAULT_BUDGET.decision_states - spending.left
                self.assertGreater(spent, FREE_STATES)
                found += [plan.fit(seen, row, spending) for row in (1, 2)]
                self.assertEqual([None] * 3, found)
                self.assertEqual(spent, DEFAULT_BUDGET.decision_states - spending.left)

    def test_another_decision_pays_as_much_though_the_answer_is_known(self):
        seen, asked = blocks("split", 16, 2)
        plan, first, second = Fitter(asked.needs, seen.kinds), Spending(), Spending()
        plan.fit(seen, 0, first)
        answer, *others = long_answers(plan)
        plan.fit(seen, 0, second)
        self.assertEqual([answer, *others], long_answers(plan))
        self.assertEqual(first.left, second.left)
        self.assertEqual(DEFAULT_BUDGET.decision_states - answer.states, first.left)

    def test_requests_do_not_take_the_answers_of_others_within_a_decision(self):
        seen, asked = stocks(POSSIBLE)
        _, other = stocks((POSSIBLE[0], (*POSSIBLE[1][:-1], 24)))
        spending, left = Spending(), []
        for one in (asked, other, asked):
            Fitter(one.needs, seen.kinds).fit(seen, 0, spending)
            left.append(spending.left)
        self.assertGreater(left[0], left[1])
        self.assertEqual(left[1], left[2])

    def test_answers_are_forgotten_when_there_are_too_many_and_found_again(self):
        seen = view(*(
            {"id": f"p{n}", "blocks": [{"uri": "b", "devices": {"processors": [{"cores": 8 + n}]}}]}
            for n in range(5)
        ))  # fmt: skip
        plan = Fitter(request({"processor": {"total_cores": 8}}).needs, seen.kinds)
        with mock.patch.object(fit, "MOST_ANSWERS", 2):
            for row in (*range(5), 0):
                self.assertEqual(10 + 100 * row, plan.fit(seen, row).waste)
                self.assertLessEqual(len(plan._answers), 2)

    def test_so_are_those_of_hard_questions(self):
        totals, _ = IMPOSSIBLE
        offers = [[{"uri": f"{i}", "resource": "gib", "total": total + n / 8}
                   for i, total in enumerate(totals)] for n in range(3)]  # fmt: skip
        seen = view(*({"id": f"s{n}", "stocks": offer} for n, offer in enumerate(offers)))
        plan = Fitter(stocks(IMPOSSIBLE)[1].needs, seen.kinds)
        with mock.patch.object(fit, "MOST_ANSWERS", 2):
            for row in range(3):
                self.assertIsNone(plan.fit(seen, row))
                self.assertLessEqual(len(plan._answers), 2)
