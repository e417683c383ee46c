# SPDX-License-Identifier: Apache-2.0
"""The second opinion on covers agrees with the own searches, and is asked where they are open."""

import functools
import sys
import unittest
from random import Random
from types import SimpleNamespace
from unittest import mock

from tests.unit.core.fit.covers import ENOUGH, layered, near_cover, price
from tests.unit.core.fit.hard_covers import FAMILIES
from valence_sched.core.fit import optimiser
from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.fit.dive import Dive, Item
from valence_sched.core.fit.optimiser import is_installed, optimal_cover
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.core.optimise import highs


class TestNoOptimiser(unittest.TestCase):
    """Where it is not installed."""

    def test_every_question_stays_open(self):
        highs.optional_highs.cache_clear()
        self.addCleanup(highs.optional_highs.cache_clear)
        with mock.patch.dict(sys.modules, highspy=None):
            self.assertFalse(is_installed())
            search, _ = layered(*FAMILIES["two_amounts"](12, Random(2)))
            self.assertEqual((None, False), optimal_cover(search._table))


class TestOptimiser(unittest.TestCase):
    """The second opinion agrees with the first; it is asked only where that is open."""

    def setUp(self) -> None:
        if not is_installed():
            self.skipTest("needs highspy: the extra solver is not installed")

    def test_it_agrees_with_the_own_searches(self):
        outcomes = set()
        for seed in range(600):
            items, asked, caps = near_cover(Random(seed))
            search, _ = layered(items, asked, caps)
            with self.subTest(seed=seed):
                counts, certain = optimal_cover(search._table)
                self.assertTrue(certain)
                self.assertEqual(search.best is None, counts is None)
                if counts is not None:
                    order = Dive(items, asked, None, 0).order
                    in_order = [items[position] for position in order]
                    self.assertEqual(search.ceiling, price(in_order, tuple(counts)))
                outcomes.add(counts is None)
        self.assertEqual({True, False}, outcomes)

    def test_it_decides_what_was_open_and_changes_nothing_else(self):
        """With it and without it, question for question, down to the blocks."""
        decided = set()
        for name, make in FAMILIES.items():
            for size in (18, 28):
                for seed in range(4):
                    items, asked, caps = make(size, Random(seed))
                    question = functools.partial(cheapest_cover, items, asked, caps, states=500)
                    with_it, without = question(), self.without_optimiser(question)
                    with self.subTest(family=name, size=size, seed=seed):
                        self.assertEqual(without.states, with_it.states)
                        if not without.is_open:
                            self.assertEqual(without, with_it)
                        elif not with_it.is_open:
                            right = cheapest_cover(items, asked, caps, states=ENOUGH)
                            self.assertEqual(right.counts is None, with_it.counts is None)
                            decided.add(with_it.counts is None)
        self.assertTrue(decided)

    def without_optimiser(self, question):
        before, optimiser.optimal_cover = optimiser.optimal_cover, lambda table: (None, False)
        try:
            return question()
        finally:
            optimiser.optimal_cover = before

    def test_it_knows_each_option_that_it_is_given(self):
        import highspy

        solver = highspy.Highs()
        for name, value in optimiser.OPTIONS.items():
            self.assertEqual(highspy.HighsStatus.kOk, solver.setOptionValue(name, value), name)

    def test_what_it_does_not_settle_within_its_nodes_stays_open(self):
        search, _ = layered(*FAMILIES["split"](30, Random(4)), 0)
        with mock.patch.dict(optimiser.OPTIONS, mip_max_nodes=1):
            self.assertEqual((None, False), optimal_cover(search._table))

    def test_an_answer_that_is_no_cover_of_the_items_leaves_it_open(self):
        import highspy

        table = CoverTable.of([Item(2, 3, (2,)), Item(2, 4, (3,))], (5,), ())
        for answer, found in (
            ([1.0, 1.0], ([1, 1], True)),
            ([1.0, float("nan")], (None, False)),
            ([1.0, float("inf")], (None, False)),
            ([1.0], (None, False)),
            ([1.0, 1.0, 0.0], (None, False)),
            ([], (None, False)),
            ([1.0, 0.0], (None, False)),
            ([4.0, 0.0], (None, False)),
        ):
            solution = SimpleNamespace(col_value=answer)
            with (
                self.subTest(answer=answer),
                mock.patch.object(highspy.Highs, "getSolution", lambda _, it=solution: it),
            ):
                self.assertEqual(found, optimal_cover(table))

    def test_a_cover_is_of_whole_numbers(self):
        items, asked, caps = FAMILIES["two_amounts"](12, Random(2))
        counts, certain = optimal_cover(layered(items, asked, caps)[0]._table)
        self.assertTrue(certain)
        self.assertEqual({int}, set(map(type, counts)))

    def test_its_no_is_believed_up_to_the_largest_number_that_is_trusted(self):
        most = optimiser.LARGEST_TRUSTED
        for items, asked, caps, trusted in (
            ([Item(1, 1, (most // 2,)), Item(1, 1, (most // 2 - 1,))], most, (), True),
            ([Item(1, 1, (most // 2,)), Item(1, 1, (most // 2 - 1,))], most + 1, (), False),
            ([Item(2 * most, 1, (2,), (0,)), Item(1, 1, (1,))], 2 * 9 + 3, (9,), True),
            ([Item(2 * most, 1, (1,), (0,)), Item(1, 1, (1,))], most, (most - 2,), True),
            ([Item(2 * most, 1, (1,), (0,)), Item(2, 1, (1,), (0,))], most, (most + 1,), None),
        ):
            with self.subTest(asked=asked, caps=caps):
                table = CoverTable.of(items, (asked,), caps)
                if trusted is None:
                    self.assertIsNotNone(optimal_cover(table)[0])
                else:
                    self.assertEqual((None, trusted), optimal_cover(table))

    def test_its_no_is_not_believed_of_large_numbers(self):
        items, asked, caps = FAMILIES["complementary"](12, Random(1))
        large = [Item(1, i.price, tuple(g * 10**6 + 1 for g in i.gives), i.caps) for i in items]
        search, _ = layered(large, tuple(a * 10**6 + 6 for a in asked), caps)
        self.assertEqual((None, False), optimal_cover(search._table))

    def test_it_is_not_asked_where_the_own_searches_have_an_answer(self):
        def asked_in_vain(table: CoverTable) -> None:
            raise AssertionError("a settled question was put to the optimiser")

        before, optimiser.optimal_cover = optimiser.optimal_cover, asked_in_vain
        self.addCleanup(setattr, optimiser, "optimal_cover", before)
        for name in FAMILIES:
            cheapest_cover(*FAMILIES[name](28, Random(0)), states=200_000)
