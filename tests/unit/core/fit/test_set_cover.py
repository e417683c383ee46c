# SPDX-License-Identifier: Apache-2.0
"""The cheapest cover agrees with brute force in every search, and so does HiGHS."""

import os
import sys
import tempfile
import unittest
from random import Random
from types import SimpleNamespace
from unittest import mock

import highspy
from hypothesis import given, strategies as st
from msgspec.structs import astuple

from tests.unit.core.fit.covers import (
    ENOUGH,
    FAMILIES,
    choices,
    covers,
    dived,
    leave_open,
    near_cover,
    price,
    programme,
)
from tests.unit.core.sites import quietly, sized
from valence_sched.core.fit import optimiser, set_cover
from valence_sched.core.fit.optimiser import LARGEST_TRUSTED, ProgrammePart, is_solution, optimum
from valence_sched.core.fit.set_cover import IMPROVE_STATES, Dive, Item, cheapest_cover, upper_bound
from valence_sched.core.fit.stocks import FREE_STATES, SearchOutcome

DEMANDS = 3
ITEMS = st.lists(
    st.builds(
        Item,
        available=st.integers(0, 3),
        price=st.integers(1, 9),
        coverage=st.tuples(*[st.integers(0, 4)] * DEMANDS),
        caps=st.sampled_from([(), (0,), (1,), (0, 1)]),
    ),
    max_size=5,
)
ASKED = st.tuples(*[st.integers(0, 9)] * DEMANDS)
CAPS = st.tuples(st.integers(0, 5), st.integers(0, 5))


class TestCheapest(unittest.TestCase):
    @quietly(sized(1500))
    @given(ITEMS, ASKED, CAPS)
    def test_it_is_the_least_price_of_all_choices_that_cover(self, items, asked, caps):
        prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
        cover = cheapest_cover(items, asked, caps)
        found = cover.found
        self.assertTrue(cover.complete)
        if found is None:
            self.assertEqual([], prices)
            return
        self.assertTrue(covers(items, tuple(found), asked, caps))
        self.assertTrue(all(0 <= n <= i.available for n, i in zip(found, items, strict=True)))
        self.assertEqual(min(prices), price(items, tuple(found)))

    @quietly(sized(500))
    @given(ITEMS, ASKED, CAPS)
    def test_an_upper_bound_is_one(self, items, asked, caps):
        for demand in range(DEMANDS):
            covered = [
                sum(n * item.coverage[demand] for n, item in zip(counts, items, strict=True))
                for counts in choices(items)
                if covers(items, counts, (0,) * DEMANDS, caps)
            ]
            self.assertLessEqual(max(covered), upper_bound(items, demand, caps))

    def test_the_only_cover_of_many_choices_is_found(self):
        items = [Item(1, 10 + n, (2**n, 1), (0,)) for n in range(12)]
        found = cheapest_cover(items, (1365, 6), (6,)).found  # every second bit of twelve
        self.assertTrue(covers(items, tuple(found), (1365, 6), (6,)))
        self.assertEqual((None, True), astuple(cheapest_cover(items, (4096, 0), (12,)))[:2])

    def test_nothing_is_asked_for_nothing_without_a_state(self):
        items = [Item(3, 5, (1, 0)), Item(3, 0, (1, 0))]
        self.assertEqual(([0, 0], True, 0), astuple(cheapest_cover(items, (0, 0))))

    def test_equal_questions_get_equal_answers(self):
        items = [Item(3, 5, (1, 0)), Item(3, 5, (1, 0)), Item(2, 7, (0, 1))]
        self.assertEqual([[3, 1, 1]] * 3, [cheapest_cover(items, (4, 1)).found for _ in "abc"])

    def test_a_number_too_large_to_count_with_is_no_error(self):
        items = [Item(1, 5, (10**30 + n, 1), (0,)) for n in range(30)]
        self.assertIsNotNone(cheapest_cover(items, (10**30, 1), (9,), states=ENOUGH).found)
        cover = cheapest_cover(items, (14 * 10**30 + 10**29, 14), (14,), states=ENOUGH)
        self.assertTrue(cover.found is None)

    def test_items_go_by_price_per_share_of_the_demand_then_by_price(self):
        items = [
            Item(1, 6, (2, 0)),  # a half of one demand for 6: 12
            Item(1, 9, (9, 0)),  # only the demand counts: 9
            Item(1, 5, (0, 0)),  # nothing: last
            Item(1, 8, (2, 2)),  # two halves: 8
            Item(1, 3, (1, 0)),  # 12 as the first, and cheaper
            Item(1, 1, (0, 0)),
        ]
        self.assertEqual([3, 1, 4, 0, 5, 2], Dive(items, (4, 4), 0).order)

    def test_without_improvement_the_first_cover_ends_it(self):
        items = [Item(1, 9, (4,)), Item(1, 6, (2,)), Item(1, 2, (1,)), Item(2, 3, (1,))]
        first, best = (cheapest_cover(items, (4,), improve=improve) for improve in (False, True))
        self.assertEqual((False, True), (first.complete, best.complete))
        self.assertGreaterEqual(price(items, first.found), price(items, best.found))
        self.assertLess(first.states, best.states)


class TestFurther(unittest.TestCase):
    """Searches that the short dive leaves open, as nearly all here."""

    def setUp(self) -> None:
        patch = mock.patch.object(set_cover, "FREE_STATES", 1)
        patch.start()
        self.addCleanup(patch.stop)

    def test_it_is_the_least_price_of_all_choices_that_cover(self):
        outcomes = set()
        for seed in range(sized(300)):
            items, asked, caps = near_cover(Random(seed))
            with self.subTest(seed=seed):
                found = cheapest_cover(items, asked, caps, states=ENOUGH)
                self.assertTrue(found.complete)
                prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
                self.assertEqual(bool(prices), found.found is not None)
                if found.found is not None:
                    self.assertTrue(covers(items, tuple(found.found), asked, caps))
                    self.assertEqual(min(prices), price(items, tuple(found.found)))
                outcomes.add(found.found is None)
        self.assertEqual({True, False}, outcomes)

    def test_it_agrees_with_a_dive_that_is_never_cut_short(self):
        for name, make in FAMILIES.items():
            for size in (8, 12, 14):
                for seed in range(sized(16)):
                    items, asked, caps = make(size, Random(seed))
                    with self.subTest(family=name, size=size, seed=seed):
                        dive = dived(items, asked, caps)
                        cover = cheapest_cover(items, asked, caps, states=ENOUGH)
                        self.assertTrue(cover.complete)
                        self.assertEqual(dive.best is None, cover.found is None)
                        if cover.found is not None:
                            self.assertEqual(dive.ceiling, price(items, tuple(cover.found)))

    def test_a_budget_never_makes_a_wrong_answer(self):
        """With more states, an open answer becomes the right yes or no."""
        seen = set()
        for name, make in FAMILIES.items():
            for seed in range(sized(32)):
                items, asked, caps = make(12, Random(seed))
                right = dived(items, asked, caps).best
                for most in (1, 10, 1000, 2000, 20_000):
                    with self.subTest(family=name, seed=seed, states=most):
                        found = cheapest_cover(items, asked, caps, states=most)
                        if found.found is not None:
                            self.assertTrue(covers(items, tuple(found.found), asked, caps))
                        elif found.complete:
                            self.assertIsNone(right)
                        seen.add((found.found is None, found.complete))
        self.assertEqual({(True, True), (True, False), (False, True), (False, False)}, seen)

    def test_a_cover_has_no_needless_item_also_where_items_cost_nothing(self):
        for seed in range(sized(200)):
            items, asked, caps = near_cover(Random(seed))
            free = [Item(i.available, i.price - 1, i.coverage, i.caps) for i in items]
            cover = cheapest_cover(free, asked, caps, states=ENOUGH)
            for number, count in enumerate(cover.found or ()):
                fewer = [n - (place == number) for place, n in enumerate(cover.found)]
                with self.subTest(seed=seed, item=number):
                    self.assertFalse(count and covers(free, tuple(fewer), asked, caps))

    def test_of_needless_items_the_dearest_are_left_out(self):
        items = [Item(1, 2, (3,)), Item(1, 9, (3,)), Item(1, 5, (3,)), Item(1, 7, (1,))]
        found = SearchOutcome([1, 1, 1, 1], False, 7)
        with mock.patch.object(optimiser, "optimum", return_value=found):
            self.assertEqual([1, 0, 1, 0], cheapest_cover(items, (6,), states=ENOUGH).found)

    def test_the_optimiser_gets_numbers_as_tight_as_they_can_be(self):
        """No coverage exceeds its demand, demands are in units of coverage, items have limits."""
        items = [Item(9, 5, (4, 0), (0,)), Item(9, 5, (6, 3)), Item(9, 7, (50, 0))]
        with mock.patch.object(optimiser, "optimum", side_effect=optimiser.optimum) as optimum:
            cheapest_cover(items, (9, 2), (2,), states=ENOUGH)
        part, prices = optimum.call_args.args[:2]
        self.assertEqual([2, 2, 1], part.upper)
        self.assertEqual([5, 2], part.lower_rows[:2])
        self.assertEqual(2, part.upper_rows[2])
        self.assertEqual([(0, 0, 2), (0, 1, 3), (0, 2, 5), (1, 1, 2), (2, 0, 1)], part.entries)
        self.assertEqual({0: 5, 1: 5, 2: 7}, prices)


class TestWork(unittest.TestCase):
    """The number of states of a search, in which a policy counts its budget.

    An operator notices a change of these numbers: the same budget decides more or less.
    """

    def test_of_small_covers(self):
        covers_ = [near_cover(Random(seed)) for seed in range(200)]
        self.assertEqual(1923, sum(dived(*one).states for one in covers_))

    def test_of_hard_covers_to_the_end(self):
        for name, states in (
            ("complementary", 372),
            ("even", 380),
            ("split", 154),
            ("powers", 132),
            ("two_amounts", 32),
            ("three_amounts", 44),
        ):
            with self.subTest(name):
                self.assertEqual(states, dived(*FAMILIES[name](12, Random(2))).states)

    def test_of_a_dive_that_goes_on_where_the_optimiser_finds_nothing(self):
        leave_open(self)
        for name, most, found in (
            ("split", 400, (401, False, None)),
            ("two_amounts", 400, (401, False, 28954)),
            ("even", 400, (401, False, None)),
            ("even", 20_000, (20_009, False, None)),
            ("even", 200_000, (118_817, True, None)),
            ("two_amounts", 200_000, (401, False, 28954)),  # one is known
        ):
            with self.subTest(name, most=most):
                items, asked, caps = FAMILIES[name](24, Random(1))
                cover = cheapest_cover(items, asked, caps, states=most)
                total = None if cover.found is None else price(items, tuple(cover.found))
                self.assertEqual(found, (cover.states, cover.complete, total))

    def test_of_a_search_for_a_cheaper_cover_than_one_that_is_known(self):
        """A search below a known price has fewer states than a search for any cover."""
        given = []

        def optimum(part, prices, states, start=None):
            given.append((states, start is not None))
            return SearchOutcome(start, False, 7)

        with mock.patch.object(optimiser, "optimum", optimum):
            for family in ("split", "two_amounts"):
                cheapest_cover(*FAMILIES[family](24, Random(1)), states=200_000)
        self.assertEqual([((200_000 - 401) // 3, False), (IMPROVE_STATES, True)], given)

    def test_a_state_of_many_demands_and_caps_counts_as_several(self):
        item = Item(1, 3, (2,) * 11, (0, 1, 2, 3))
        for caps, states in (((1,) * 4, 2), ((1,) * 5, 4), ((1,) * 21, 6)):
            with self.subTest(caps=caps):
                self.assertEqual(states, cheapest_cover([item], (2,) * 11, caps).states)


class TestBudget(unittest.TestCase):
    """Searches that the first one leaves open."""

    def test_hard_questions_of_28_blocks_are_settled_but_those_of_a_market_split(self):
        for name, make in FAMILIES.items():
            for seed in range(5 * (name != "split")):
                items, asked, caps = make(28, Random(seed))
                with self.subTest(family=name, seed=seed):
                    cover = cheapest_cover(items, asked, caps, states=200_000)
                    self.assertFalse(cover.is_open)
                    if cover.found is not None:
                        self.assertTrue(covers(items, tuple(cover.found), asked, caps))

    def test_numbers_that_the_optimiser_is_not_trusted_with_are_settled_by_the_dive(self):
        for seed in range(3):
            items, asked, caps = FAMILIES["split"](16, Random(seed))
            cover = cheapest_cover(items, asked, caps, states=200_000)
            self.assertEqual((None, True), (cover.found, cover.complete))

    def test_an_open_question_becomes_a_right_answer_with_more_states(self):
        items, asked, caps = FAMILIES["split"](16, Random(7))
        answers = [
            cheapest_cover(items, asked, caps, states=most) for most in (FREE_STATES, ENOUGH)
        ]
        self.assertEqual([True, False], [answer.is_open for answer in answers])
        self.assertEqual(dived(items, asked, caps).best, answers[1].found)

    def test_equal_questions_get_equal_answers_for_equal_states(self):
        cover = FAMILIES["two_amounts"](28, Random(2))
        for states in (2_000, 20_000, 200_000):
            answers = [cheapest_cover(*cover, states=states) for _ in "ab"]
            self.assertEqual(*answers)


MANY_STATES = 1_000_000


def best(items, asked, caps=(), states: int = MANY_STATES) -> SearchOutcome:
    return optimum(*programme(items, asked, caps), states)


class TestOptimum(unittest.TestCase):
    def test_it_agrees_with_the_dive(self):
        outcomes = set()
        for seed in range(sized(300)):
            cover = near_cover(Random(seed))
            dive = dived(*cover)
            with self.subTest(seed=seed):
                found = best(*cover)
                self.assertTrue(found.complete)
                self.assertEqual(dive.best is None, found.found is None)
                if found.found is not None:
                    self.assertEqual(dive.ceiling, price(cover[0], found.found))
                    self.assertEqual({int}, set(map(type, found.found)))
                outcomes.add(found.found is None)
        self.assertEqual({True, False}, outcomes)

    def test_what_it_does_not_settle_within_its_states_stays_open_and_a_start_stands(self):
        split = FAMILIES["split"](30, Random(4))
        self.assertEqual(SearchOutcome(None, False, 0), best(*split, states=100))
        self.assertTrue(best(*split, states=5_000).is_open)
        part = ProgrammePart([9.0, 9.0])
        part.row([(0, 2), (1, 3)], lower=5)
        self.assertEqual(SearchOutcome([1, 1], False, 0), optimum(part, {0: 1, 1: 1}, 1, [1, 1]))
        self.assertEqual([0, 2], optimum(part, {0: 5, 1: 1}, MANY_STATES, [3, 0]).found)

    def test_equal_programmes_get_equal_answers_for_equal_states(self):
        cover = FAMILIES["two_amounts"](28, Random(2))
        for states in (2_000, 20_000, MANY_STATES):
            self.assertEqual(*(best(*cover, states=states) for _ in "ab"))

    def test_an_answer_that_is_no_solution_leaves_it_open(self):
        items = [Item(2, 3, (2,)), Item(2, 4, (3,))]
        for answer, found in (
            ([1.0, 1.0], ([1, 1], True)),
            ([1.0, float("nan")], (None, False)),
            ([1.0, float("inf")], (None, False)),
            ([1.0], (None, False)),
            ([1.0, 1.0, 0.0], (None, False)),
            ([1.0, 0.0], (None, False)),
            ([4.0, 0.0], (None, False)),
        ):
            solution = SimpleNamespace(col_value=answer, value_valid=True)
            with (
                self.subTest(answer=answer),
                mock.patch.object(highspy._Highs, "getSolution", lambda _, it=solution: it),
            ):
                outcome = best(items, (5,))
                self.assertEqual(found, (outcome.found, outcome.complete))

    def test_its_no_is_believed_up_to_the_largest_number_that_is_trusted(self):
        for amount, trusted in ((LARGEST_TRUSTED, True), (LARGEST_TRUSTED + 1, False)):
            part = ProgrammePart([1.0, 1.0])
            part.row([(0, amount // 2), (1, amount // 2 - 1)], lower=amount)
            outcome = optimum(part, {0: 1, 1: 1}, MANY_STATES)
            self.assertEqual((None, trusted), (outcome.found, outcome.complete))

    def test_a_solution_is_within_all_bounds(self):
        part = ProgrammePart([2.0, 3.0])
        part.row([(0, 2), (1, 1)], lower=3, upper=5)
        for values, holds in (([1, 1], True), ([0, 3], True), ([3, 0], False), ([-1, 3], False),
                              ([2, 2], False), ([1, 0], False)):  # fmt: skip
            self.assertEqual(holds, is_solution(part, values), values)

    def test_the_solver_knows_each_option_that_it_is_given(self):
        given = []
        real = highspy._Highs.setOptionValue

        def note(solver, name, value):
            given.append((name, real(solver, name, value)))

        with mock.patch.object(highspy._Highs, "setOptionValue", note):
            best([Item(2, 3, (2,))], (3,))
        self.assertEqual({highspy.HighsStatus.kOk}, {status for _, status in given})
        self.assertIn("mip_max_nodes", dict(given))

    def test_the_solver_prints_nothing(self):
        """HiGHS writes to file descriptors directly, also to those whose output is read as JSON."""
        with tempfile.TemporaryFile() as printed:
            sys.stdout.flush()
            kept = os.dup(1), os.dup(2)
            try:
                for number in (1, 2):
                    os.dup2(printed.fileno(), number)
                best([Item(2, 3, (2,)), Item(2, 4, (3,))], (5,))
            finally:
                for number, one in zip((1, 2), kept, strict=True):
                    os.dup2(one, number)
                    os.close(one)
            printed.seek(0)
            self.assertEqual(b"", printed.read())

    def test_larger_programmes_than_the_states_pay_for_are_not_begun(self):
        part = ProgrammePart([1.0] * 40_000)
        part.row([(column, 1) for column in range(40_000)], lower=1)
        with mock.patch.object(optimiser, "Programme", side_effect=AssertionError):
            self.assertEqual(SearchOutcome(None, False, 0), optimum(part, {}, 200_000))
