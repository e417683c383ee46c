# SPDX-License-Identifier: Apache-2.0
"""The cheapest cover agrees with trying every choice, whichever search finds it."""

import unittest
from random import Random
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.fit.covers import ENOUGH, choices, covers, dived, layered, near_cover, price
from tests.unit.core.fit.hard_covers import FAMILIES, leave_open
from tests.unit.core.sites import quietly
from valence_sched.core.fit import set_cover
from valence_sched.core.fit.dive import Item, upper_bound
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.core.fit.spending import FREE_STATES

DEMANDS = 3
ITEMS = st.lists(
    st.builds(
        Item,
        available=st.integers(0, 3),
        price=st.integers(1, 9),
        gives=st.tuples(*[st.integers(0, 4)] * DEMANDS),
        caps=st.sampled_from([(), (0,), (1,), (0, 1)]),
    ),
    max_size=5,
)
ASKED = st.tuples(*[st.integers(0, 9)] * DEMANDS)
CAPS = st.tuples(st.integers(0, 5), st.integers(0, 5))


class TestCheapest(unittest.TestCase):
    """Small questions."""

    @quietly(1500)
    @given(ITEMS, ASKED, CAPS)
    def test_it_is_the_least_price_of_all_choices_that_cover(self, items, asked, caps):
        prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
        cover = cheapest_cover(items, asked, caps)
        found = cover.counts
        self.assertTrue(cover.complete)
        if found is None:
            self.assertEqual([], prices)
            return
        self.assertTrue(covers(items, tuple(found), asked, caps))
        self.assertTrue(all(0 <= n <= i.available for n, i in zip(found, items, strict=True)))
        self.assertEqual(min(prices), price(items, tuple(found)))

    @quietly(500)
    @given(ITEMS, ASKED, CAPS)
    def test_an_upper_bound_is_one(self, items, asked, caps):
        for demand in range(DEMANDS):
            gifts = [
                sum(n * item.gives[demand] for n, item in zip(counts, items, strict=True))
                for counts in choices(items)
                if covers(items, counts, (0,) * DEMANDS, caps)
            ]
            self.assertLessEqual(max(gifts), upper_bound(items, demand, caps))

    def test_the_only_cover_of_many_choices_is_found(self):
        items = [Item(1, 10 + n, (2**n, 1), (0,)) for n in range(12)]
        found = cheapest_cover(items, (1365, 6), (6,)).counts  # every second bit of twelve
        self.assertTrue(covers(items, tuple(found), (1365, 6), (6,)))
        self.assertEqual((None, True), cheapest_cover(items, (4096, 0), (12,))[::2])

    def test_nothing_is_asked_for_nothing_without_a_state(self):
        items = [Item(3, 5, (1, 0)), Item(3, 0, (1, 0))]
        self.assertEqual(([0, 0], 0, True), cheapest_cover(items, (0, 0)))

    def test_equal_questions_get_equal_answers(self):
        items = [Item(3, 5, (1, 0)), Item(3, 5, (1, 0)), Item(2, 7, (0, 1))]
        self.assertEqual([[3, 1, 1]] * 3, [cheapest_cover(items, (4, 1)).counts for _ in "abc"])

    def test_numbers_too_large_to_count_with_leave_it_open_after_the_first_search(self):
        items, asked, caps = FAMILIES["split"](20, Random(3))
        large = [Item(1, i.price, tuple(g * 10**30 + 1 for g in i.gives), i.caps) for i in items]
        asked = tuple(amount * 10**30 + caps[0] for amount in asked)
        cover = cheapest_cover(large, asked, caps, states=ENOUGH)
        self.assertEqual((FREE_STATES + 1, False), (cover.states, cover.complete))

    def test_a_number_too_large_to_count_with_is_no_error(self):
        items = [Item(1, 5, (10**30 + n, 1), (0,)) for n in range(30)]
        self.assertIsNotNone(cheapest_cover(items, (10**30, 1), (9,), states=ENOUGH).counts)
        cover = cheapest_cover(items, (14 * 10**30 + 10**29, 14), (14,), states=ENOUGH)
        self.assertTrue(cover.counts is None)


class TestLayeredSearch(unittest.TestCase):
    """It finds the very cover of a depth-first search that is never cut short."""

    def test_it_agrees_with_every_choice_and_with_the_dive(self):
        outcomes = set()
        for seed in range(1500):
            items, asked, caps = near_cover(Random(seed))
            with self.subTest(seed=seed):
                dive, (search, complete) = dived(items, asked, caps), layered(items, asked, caps)
                self.assertTrue(dive.complete and complete)
                prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
                self.assertEqual(min(prices, default=None), search.ceiling)
                self.assertEqual(dive.counts(dive.best), dive.counts(search.best))
                outcomes.add(search.best is None)
        self.assertEqual({True, False}, outcomes)

    def test_a_budget_never_makes_a_wrong_answer(self):
        """With ever more states an open answer becomes a yes or a no, the right one."""
        states = (1, 3, 10, 30, 100, 1000)
        seen = set()
        for seed in range(600):
            items, asked, caps = near_cover(Random(seed))
            right = dived(items, asked, caps).best
            for most in states:
                with self.subTest(seed=seed, states=most):
                    search, complete = layered(items, asked, caps, most)
                    if search.best is not None:
                        self.assertTrue(search._table.is_cover(np.array(search.best)))
                        self.assertIsNotNone(right)
                    elif complete:
                        self.assertIsNone(right)
                    seen.add((search.best is None, complete))
        self.assertEqual({(True, True), (True, False), (False, True), (False, False)}, seen)

    def test_the_join_of_states_and_choices_agrees_with_the_dive(self):
        outcomes = set()
        for name, make in FAMILIES.items():
            for seed in range(15):
                items, asked, caps = make(14, Random(seed))
                with self.subTest(family=name, seed=seed):
                    dive = dived(items, asked, caps)
                    for most in (8, 40, 200):  # the sooner states run out, the more is joined
                        search, complete = layered(items, asked, caps, most)
                        if search.best is not None:
                            self.assertTrue(search._table.is_cover(np.array(search.best)))
                            self.assertEqual(search.ceiling, search._table.prices @ search.best)
                        elif len(asked) == 2:
                            self.assertTrue(complete)
                        self.assertFalse(complete and (search.best is None) != (dive.best is None))
                        outcomes.add((len(asked), search.best is None, complete))
        self.assertLessEqual({(2, True, True), (2, False, False)}, outcomes)

    def test_it_agrees_with_the_dive_on_hard_questions(self):
        for name, make in FAMILIES.items():
            for size in (8, 12, 14):
                for seed in range(5):
                    items, asked, caps = make(size, Random(seed))
                    with self.subTest(family=name, size=size, seed=seed):
                        dive = dived(items, asked, caps)
                        search, complete = layered(items, asked, caps)
                        self.assertTrue(complete)
                        self.assertEqual(dive.counts(dive.best), dive.counts(search.best))

    def test_states_bound_the_work(self):
        items, asked, caps = FAMILIES["split"](40, Random(1))
        search, complete = layered(items, asked, caps, 20_000)
        self.assertFalse(complete)
        self.assertIsNone(search.best)
        self.assertLessEqual(search.states, 2 * 20_000)


class TestWork(unittest.TestCase):
    """How many states the searches visit: a policy counts its budget in them.

    A change of these numbers is one that an operator meets: the same budget settles more or less.
    """

    def test_of_small_covers(self):
        covers_ = [near_cover(Random(seed)) for seed in range(200)]
        self.assertEqual(1923, sum(dived(*one).states for one in covers_))
        self.assertEqual(1657, sum(layered(*one)[0].states for one in covers_))

    def test_of_hard_covers_to_the_end(self):
        for name, states in (
            ("complementary", (372, 0)),
            ("even", (380, 0)),
            ("split", (154, 104)),
            ("powers", (132, 90)),
            ("two_amounts", (32, 26)),
            ("three_amounts", (44, 0)),
        ):
            with self.subTest(name):
                cover = FAMILIES[name](12, Random(2))
                self.assertEqual(states, (dived(*cover).states, layered(*cover)[0].states))

    def test_of_a_layered_search_that_runs_out_of_states(self):
        for name, most, found in (
            ("split", 30, (62, False, None)),
            ("powers", 30, (65554, False, 245)),  # the join counts as its choices
            ("two_amounts", 30, (32790, False, 24387)),
            ("split", 200, (16509, False, 566844917)),
            ("powers", 200, (2172, False, 205)),
            ("two_amounts", 200, (648, False, 24387)),
            ("split", 1000, (4542, False, 566844917)),
            ("powers", 1000, (366, True, 155)),
            ("two_amounts", 1000, (238, True, 24279)),
        ):
            with self.subTest(name, most=most):
                search, complete = layered(*FAMILIES[name](20, Random(2)), most)
                self.assertEqual(found, (search.states, complete, search.ceiling))

    def test_of_all_searches_after_one_another(self):
        leave_open(self)
        for name, most, found in (
            ("split", 400, (401, False, None)),
            ("two_amounts", 400, (401, False, 28954)),
            ("even", 1000, (401, True, None)),
            ("split", 1000, (1309, False, None)),
            ("powers", 1000, (514, True, 198)),
            ("two_amounts", 1000, (982, False, 28924)),
            ("three_amounts", 1000, (447, True, None)),
            ("split", 20000, (15904, False, 744628642)),
            ("two_amounts", 20000, (1437, True, 28914)),
        ):
            with self.subTest(name, most=most):
                items, asked, caps = FAMILIES[name](24, Random(1))
                cover = cheapest_cover(items, asked, caps, states=most)
                total = None if cover.counts is None else price(items, tuple(cover.counts))
                self.assertEqual(found, (cover.states, cover.complete, total))

    def test_of_a_search_for_a_cheaper_cover_than_one_that_is_known(self):
        """It has fewer states than a search for any cover."""
        leave_open(self)
        with mock.patch.object(set_cover, "IMPROVE_STATES", 100):
            for name, found in (
                ("split", (15904, False, True)),
                ("two_amounts", (401 + 112, False, True)),
            ):
                with self.subTest(name):
                    cover = FAMILIES[name](24, Random(1))
                    made = cheapest_cover(*cover, states=20_000)
                    self.assertEqual(found, (made.states, made.complete, made.counts is not None))

    def test_of_many_demands_of_which_each_state_counts_as_several(self):
        leave_open(self)
        for times, most, states in ((8, 1000, 1374), (8, 20000, 20660), (32, 20000, 22890)):
            with self.subTest(times=times, most=most):
                items, asked, caps = FAMILIES["split"](24, Random(1))
                wide = [Item(1, item.price, item.gives * times, item.caps) for item in items]
                cover = cheapest_cover(wide, asked * times, caps, states=most)
                self.assertEqual((states, True), (cover.states, cover.is_open))

    def test_a_state_of_many_demands_and_caps_counts_as_several(self):
        item = Item(1, 3, (2,) * 11, (0, 1, 2, 3))
        for caps, states in (((1,) * 4, 2), ((1,) * 5, 4), ((1,) * 21, 6)):
            with self.subTest(caps=caps):
                self.assertEqual(states, cheapest_cover([item], (2,) * 11, caps).states)


class TestBudget(unittest.TestCase):
    """Questions that the first search leaves open."""

    def test_hard_questions_of_28_blocks_are_all_settled(self):
        for name, make in FAMILIES.items():
            for seed in range(5):
                items, asked, caps = make(28, Random(seed))
                with self.subTest(family=name, seed=seed):
                    cover = cheapest_cover(items, asked, caps, states=200_000)
                    self.assertFalse(cover.is_open)
                    if cover.counts is not None:
                        self.assertTrue(covers(items, tuple(cover.counts), asked, caps))

    def test_an_open_question_becomes_a_right_answer_with_more_states(self):
        items, asked, caps = FAMILIES["split"](20, Random(3))
        answers = [
            cheapest_cover(items, asked, caps, states=most) for most in (FREE_STATES, ENOUGH)
        ]
        self.assertEqual([True, False], [answer.is_open for answer in answers])
        self.assertEqual(dived(items, asked, caps).best, answers[1].counts)

    def test_a_state_of_many_demands_counts_as_several(self):
        items, asked, caps = FAMILIES["split"](20, Random(3))
        wide = [Item(1, item.price, item.gives * 40, item.caps) for item in items]
        cover = cheapest_cover(wide, asked * 40, caps, states=20_000)
        self.assertTrue(cover.is_open)
