# SPDX-License-Identifier: Apache-2.0
"""What HiGHS says of a programme is exact, counted, and believed no further than it can be."""

import os
import sys
import tempfile
import unittest
from random import Random
from types import SimpleNamespace
from unittest import mock

import highspy

from tests.unit.core.fit.covers import dived, near_cover, price, programme
from tests.unit.core.fit.hard_covers import FAMILIES
from valence_sched.core.fit import optimiser
from valence_sched.core.fit.optimiser import LARGEST_TRUSTED, ProgrammePart, is_solution, optimum
from valence_sched.core.fit.set_cover import Item
from valence_sched.core.fit.spending import SearchOutcome

ENOUGH = 1_000_000


def best(items, asked, caps=(), states: int = ENOUGH) -> SearchOutcome:
    return optimum(*programme(items, asked, caps), states)


class TestOptimum(unittest.TestCase):
    """Covers as programmes."""

    def test_it_agrees_with_the_dive(self):
        outcomes = set()
        for seed in range(300):
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
        self.assertEqual([0, 2], optimum(part, {0: 5, 1: 1}, ENOUGH, [3, 0]).found)

    def test_equal_programmes_get_equal_answers_for_equal_states(self):
        cover = FAMILIES["two_amounts"](28, Random(2))
        for states in (2_000, 20_000, ENOUGH):
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
            outcome = optimum(part, {0: 1, 1: 1}, ENOUGH)
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
        """HiGHS writes to the descriptors itself, among them what a program reads as JSON."""
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
