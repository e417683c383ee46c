# SPDX-License-Identifier: Apache-2.0
"""The join completes a state just when some choice of the items left does."""

import itertools
import unittest
from random import Random

import numpy as np

from tests.unit.core.fit.covers import near_cover
from valence_sched.core.fit.cover_join import MOST_CHOICES, CoverJoin
from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.fit.dive import Item


def table(items: list[Item], demand: tuple[int, ...], caps: tuple[int, ...] = ()) -> CoverTable:
    made = CoverTable.of(items, demand, caps)
    assert made is not None
    return made


def every_choice(available) -> np.ndarray:
    """Return the numbers of each item, a row for each choice."""
    rows = list(itertools.product(*(range(int(number) + 1) for number in available)))
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(available))


class TestSize(unittest.TestCase):
    """When the choices are few enough, and of a kind that can be joined."""

    def test_it_is_the_number_of_choices_of_the_items_from_a_level_on(self):
        made = table([Item(1, 1, (9,)), Item(2, 1, (3,)), Item(4, 1, (2,))], (9,))
        sizes = [CoverJoin(made, level).size for level in range(4)]
        self.assertEqual([2 * 3 * 5, 3 * 5, 5, 1], sizes)

    def test_beyond_the_bound_it_is_no_longer_counted_and_not_possible(self):
        for bits, possible in ((15, True), (16, True), (17, False), (200, False)):
            join = CoverJoin(table([Item(1, 1, (7,))] * bits, (999,)), 0)
            self.assertEqual(possible, join.is_possible, bits)
            self.assertEqual(min(2**bits, MOST_CHOICES + 1), join.size)

    def test_it_is_for_one_or_two_demands_and_at_most_one_cap(self):
        for demands, caps, possible in ((1, 0, True), (1, 1, True), (2, 0, True), (2, 1, True),
                                        (3, 0, False), (3, 1, False), (1, 2, False)):  # fmt: skip
            item = Item(1, 1, (2,) * demands, tuple(range(caps)))
            made = table([item], (2,) * demands, (1,) * caps)
            self.assertEqual(possible, CoverJoin(made, 0).is_possible, (demands, caps))


class TestComplete(unittest.TestCase):
    """Against every choice."""

    def test_a_state_is_completed_just_when_a_choice_does(self):
        outcomes = set()
        for seed in range(400):
            items, asked, caps = near_cover(Random(seed))
            made = table(items, asked, caps)
            level = Random(seed).randint(0, len(items))
            join = CoverJoin(made, level)
            if not join.is_possible:
                continue
            unmet, room = self.states(made, level)
            right = [self.is_completed(made, level, *state)
                     for state in zip(unmet, room, strict=True)]  # fmt: skip
            found = join.complete(unmet, room)
            with self.subTest(seed=seed):
                self.assertEqual(any(right), found is not None)
                if found is not None:
                    self.assertTrue(right[found.state])
                    self.assert_completes(made, level, unmet[found.state], room[found.state], found)
            outcomes.add((found is not None, len(caps), len(asked)))
        self.assertLessEqual({(yes, caps, asked) for yes in (True, False) for caps in (0, 1)
                              for asked in (1, 2)}, outcomes)  # fmt: skip

    def states(self, made: CoverTable, level: int):
        taken = every_choice(made.available[:level])
        unmet = np.maximum(made.demand - taken @ made.gives[:level], 0)
        room = made.room - taken @ made.uses[:level]
        fits = (room >= 0).all(axis=1) & unmet.any(axis=1)
        return unmet[fits][::-1], room[fits][::-1]

    def is_completed(self, made: CoverTable, level: int, unmet, room) -> bool:
        choices = every_choice(made.available[level:])
        met = (choices @ made.gives[level:] >= unmet).all(axis=1)
        return bool((met & (choices @ made.uses[level:] <= room).all(axis=1)).any())

    def assert_completes(self, made: CoverTable, level: int, unmet, room, found) -> None:
        counts = np.array(found.counts, dtype=np.int64)
        self.assertEqual(len(made.gives) - level, len(counts))
        self.assertTrue((counts <= made.available[level:]).all() and (counts >= 0).all())
        self.assertTrue((counts @ made.gives[level:] >= unmet).all())
        self.assertTrue((counts @ made.uses[level:] <= room).all())

    def test_the_state_with_least_room_that_can_be_completed_is(self):
        made = table([Item(3, 1, (2,), (0,)), Item(1, 1, (5,))], (11,), (3,))
        join = CoverJoin(made, 0)
        unmet, room = np.array([[11], [10], [9], [7], [8]]), np.array([[3], [2], [2], [1], [1]])
        found = join.complete(unmet, room)
        self.assertEqual((3, [1, 1]), (found.state, found.counts))
        self.assertEqual((2, [2, 1]), tuple(join.complete(unmet[:3], room[:3])))
        self.assertIsNone(join.complete(unmet[1:2], room[1:2]))

    def test_of_equal_choices_it_is_the_one_with_more_of_the_later_items(self):
        made = table([Item(1, 1, (2,), (0,))] * 7 + [Item(1, 1, (1,))], (9,), (3,))
        found = CoverJoin(made, 0).complete(np.array([[5]]), np.array([[3]]))
        self.assertEqual([0, 0, 0, 0, 1, 1, 1, 1], found.counts)
        two = table([Item(1, 1, (2, 1), (0,))] * 7 + [Item(1, 1, (1, 1))], (9, 9), (3,))
        found = CoverJoin(two, 0).complete(np.array([[5, 3]]), np.array([[3]]))
        self.assertEqual([0, 0, 0, 0, 1, 1, 1, 1], found.counts)
