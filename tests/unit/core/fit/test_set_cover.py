# SPDX-License-Identifier: Apache-2.0
"""The cheapest cover agrees with trying every choice, whichever search finds it."""

import itertools
import unittest
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.fit.hard_covers import FAMILIES
from tests.unit.core.sites import quietly
from valence_sched.core.fit import set_cover
from valence_sched.core.fit.dive import Dive, Item, upper_bound
from valence_sched.core.fit.layered_search import LayeredSearch
from valence_sched.core.fit.optimiser import is_installed, optimal_cover
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.core.fit.spending import FREE_STATES

DEMANDS = 3
ENOUGH = 10_000_000
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


def covers(items: list[Item], counts: tuple[int, ...], asked: tuple[int, ...], caps) -> bool:
    for demand, least in enumerate(asked):
        if sum(n * item.gives[demand] for n, item in zip(counts, items, strict=True)) < least:
            return False
    return all(
        sum(n for n, item in zip(counts, items, strict=True) if cap in item.caps) <= room
        for cap, room in enumerate(caps)
    )


def choices(items: list[Item]):
    return itertools.product(*(range(item.available + 1) for item in items))


def price(items: list[Item], counts: tuple[int, ...]) -> int:
    return sum(n * item.price for n, item in zip(counts, items, strict=True))


def near_cover(random: Random):
    """Return items of several amounts, about as many as are asked for: few covers, if any."""
    demands, caps = random.randint(1, 3), random.randint(0, 2)
    items = [
        Item(
            random.randint(1, 2),
            random.randint(1, 9),
            tuple(random.choice([0, 2, 3, 4, 7]) for _ in range(demands)),
            tuple(cap for cap in range(caps) if random.random() < 0.7),
        )
        for _ in range(random.randint(2, 6))
    ]
    sums = [sum(item.gives[j] * item.available for item in items) for j in range(demands)]
    asked = tuple(random.randint(max(1, total // 3), max(1, total * 4 // 5)) for total in sums)
    return items, asked, tuple(random.randint(1, 4) for _ in range(caps))


def dived(items: list[Item], asked, caps) -> Dive:
    dive = Dive(items, asked, None, ENOUGH)
    dive.run(asked, caps)
    return dive


def layered(items: list[Item], asked, caps, most: int = ENOUGH) -> tuple[LayeredSearch, bool]:
    order = Dive(items, asked, None, 0).order
    search = LayeredSearch([items[position] for position in order], asked, caps, None, most)
    return search, search.run()


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

    def test_equal_questions_get_equal_answers(self):
        items = [Item(3, 5, (1, 0)), Item(3, 5, (1, 0)), Item(2, 7, (0, 1))]
        self.assertEqual([[3, 1, 1]] * 3, [cheapest_cover(items, (4, 1)).counts for _ in "abc"])

    def test_a_number_too_large_to_count_with_is_no_error(self):
        items = [Item(1, 5, (10**30 + n, 1), (0,)) for n in range(30)]
        self.assertIsNotNone(cheapest_cover(items, (10**30, 1), (9,), states=ENOUGH).counts)
        cover = cheapest_cover(items, (14 * 10**30 + 10**29, 14), (14,), states=ENOUGH)
        self.assertTrue(cover.counts is None)


class TestLayeredSearch(unittest.TestCase):
    """It finds the very cover of a depth-first search that is never cut short."""

    def test_it_agrees_with_every_choice_and_with_the_dive(self):
        outcomes = set()
        for seed in range(2000):
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
        for seed in range(800):
            items, asked, caps = near_cover(Random(seed))
            right = dived(items, asked, caps).best
            for most in states:
                with self.subTest(seed=seed, states=most):
                    search, complete = layered(items, asked, caps, most)
                    if search.best is not None:
                        self.assertTrue(search.is_cover(np.array(search.best)))
                        self.assertIsNotNone(right)
                    elif complete:
                        self.assertIsNone(right)
                    seen.add((search.best is None, complete))
        self.assertEqual({(True, True), (True, False), (False, True), (False, False)}, seen)

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


class TestBudget(unittest.TestCase):
    """Questions that the first search leaves open."""

    def test_hard_questions_of_28_blocks_are_settled_but_for_the_split(self):
        for name, make in FAMILIES.items():
            for seed in range(5):
                items, asked, caps = make(28, Random(seed))
                with self.subTest(family=name, seed=seed):
                    cover = cheapest_cover(items, asked, caps, states=200_000)
                    self.assertEqual(name == "split", cover.is_open)
                    if cover.counts is not None:
                        self.assertTrue(covers(items, tuple(cover.counts), asked, caps))

    def test_an_open_question_becomes_a_right_answer_with_more_states(self):
        items, asked, caps = FAMILIES["split"](20, Random(3))
        answers = [
            cheapest_cover(items, asked, caps, states=most) for most in (FREE_STATES, ENOUGH)
        ]
        self.assertEqual([True, False], [answer.is_open for answer in answers])
        self.assertEqual(dived(items, asked, caps).best, answers[1].counts)

    def test_what_is_cheaper_than_a_ceiling_is_found_or_nothing(self):
        for seed in range(300):
            items, asked, caps = near_cover(Random(seed))
            best = cheapest_cover(items, asked, caps, states=ENOUGH).counts
            if best is not None:
                least = price(items, tuple(best))
                equal = cheapest_cover(items, asked, caps, ceiling=least + 1, states=ENOUGH)
                self.assertEqual(best, equal.counts)
                none = cheapest_cover(items, asked, caps, ceiling=least, states=ENOUGH)
                self.assertEqual((None, True), none[::2])

    def test_a_state_of_many_demands_counts_as_several(self):
        items, asked, caps = FAMILIES["split"](20, Random(3))
        wide = [Item(1, item.price, item.gives * 40, item.caps) for item in items]
        cover = cheapest_cover(wide, asked * 40, caps, states=20_000)
        self.assertTrue(cover.is_open)


class TestOptimiser(unittest.TestCase):
    """The second opinion agrees with the first; it is asked only where that is open."""

    def setUp(self) -> None:
        if not is_installed():
            self.skipTest("needs highspy: the extra optimiser is not installed")

    def test_it_agrees_with_the_own_searches(self):
        outcomes = set()
        for seed in range(800):
            items, asked, caps = near_cover(Random(seed))
            search, _ = layered(items, asked, caps)
            with self.subTest(seed=seed):
                counts, certain = optimal_cover(search)
                self.assertTrue(certain)
                self.assertEqual(search.best is None, counts is None)
                if counts is not None:
                    order = Dive(items, asked, None, 0).order
                    in_order = [items[position] for position in order]
                    self.assertEqual(search.ceiling, price(in_order, tuple(counts)))
                outcomes.add(counts is None)
        self.assertEqual({True, False}, outcomes)

    def test_its_no_is_not_believed_of_large_numbers(self):
        items, asked, caps = FAMILIES["complementary"](12, Random(1))
        large = [Item(1, i.price, tuple(g * 10**6 + 1 for g in i.gives), i.caps) for i in items]
        search, _ = layered(large, tuple(a * 10**6 + 6 for a in asked), caps)
        self.assertEqual((None, False), optimal_cover(search))

    def test_it_is_not_asked_where_the_own_searches_have_an_answer(self):
        def asked_in_vain(search: LayeredSearch) -> None:
            raise AssertionError("a settled question was put to the optimiser")

        before, set_cover.optimal_cover = set_cover.optimal_cover, asked_in_vain
        self.addCleanup(setattr, set_cover, "optimal_cover", before)
        for name in sorted(set(FAMILIES) - {"split"}):
            cheapest_cover(*FAMILIES[name](28, Random(0)), states=200_000)
