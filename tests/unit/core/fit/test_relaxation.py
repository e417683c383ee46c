# SPDX-License-Identifier: Apache-2.0
"""The relaxation of a cover: its multipliers prove what choices of parts of items can reach."""

import unittest
from random import Random
from unittest import mock

import numpy as np

from tests.unit.core.fit.covers import choices, covers, near_cover, price
from tests.unit.core.fit.hard_covers import FAMILIES
from valence_sched.core.fit import relaxation
from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.relaxation import Multipliers, multipliers


def table(items: list[Item], demand: tuple[int, ...], caps: tuple[int, ...] = ()) -> CoverTable:
    made = CoverTable.of(items, demand, caps)
    assert made is not None
    return made


def plain(items: list[Item], demand: tuple[int, ...], caps: tuple[int, ...]) -> CoverTable:
    """Return the table as the numbers are given, no tighter."""
    uses = [[int(cap in item.caps) for cap in range(len(caps))] for item in items]
    return CoverTable(
        np.array([item.gives for item in items]),
        np.array(uses, dtype=np.int64).reshape(len(items), len(caps)),
        np.array([item.price for item in items]),
        np.array([item.available for item in items]),
        np.array(demand),
        np.array(caps, dtype=np.int64),
    )


def relaxed(made: CoverTable) -> tuple[Multipliers, Multipliers | None]:
    return multipliers(made.gives, made.demand, made.uses, made.room, made.available, made.prices)


def times_met(made: CoverTable, worth: Multipliers) -> float:
    """Return how often all demands can be met at most, by these multipliers."""
    each = np.maximum(made.gives @ worth.demands - made.uses @ worth.caps, 0)
    most = each @ made.available + worth.caps @ made.room
    return float(most / (worth.demands @ made.demand))


def least_price(made: CoverTable, worth: Multipliers) -> float:
    """Return what a cover costs at least, by these multipliers."""
    each = made.gives @ worth.demands - made.uses @ worth.caps - made.prices
    saved = np.maximum(each, 0) @ made.available + worth.caps @ made.room
    return float(worth.demands @ made.demand - saved)


class TestMultipliers(unittest.TestCase):
    """By hand, and against whole choices."""

    def test_how_often_all_demands_are_met_by_parts_of_items(self):
        for items, demand, caps, times in (
            ([Item(1, 1, (3,))], (4,), (), 0.75),
            ([Item(3, 1, (3,))], (4,), (), 2.25),
            ([Item(2, 1, (2, 0)), Item(2, 1, (0, 3))], (4, 6), (), 1.0),
            ([Item(4, 1, (2, 1), (0,)), Item(4, 1, (1, 2), (0,))], (5, 5), (4,), 1.2),
            ([Item(4, 1, (2, 1), (0,)), Item(4, 1, (1, 2), (0,))], (5, 5), (3,), 0.9),
            ([Item(1, 1, (2, 1)), Item(1, 1, (1, 2), (0,))], (3, 3), (0,), 1 / 3),
        ):
            with self.subTest(items=items, demand=demand, caps=caps):
                made = plain(items, demand, caps)
                met, priced = relaxed(made)
                self.assertAlmostEqual(times, times_met(made, met), 6)
                self.assertEqual(times < 1, priced is None)
                self.assertTrue((met.demands >= 0).all() and (met.caps >= 0).all())
                self.assertEqual((len(demand), len(caps)), (len(met.demands), len(met.caps)))

    def test_the_least_price_of_parts_of_items(self):
        for items, demand, caps, least in (
            ([Item(9, 3, (2,))], (9,), (), 13.5),
            ([Item(2, 3, (2,)), Item(9, 5, (2,))], (9,), (), 18.5),
            ([Item(9, 3, (2, 0)), Item(9, 5, (0, 7))], (15, 20), (), 22.5 + 100 / 7),
            ([Item(9, 3, (2,), (0,)), Item(9, 9, (5,), (0,))], (15,), (3,), 27.0),
            ([Item(9, 3, (2,), (0,)), Item(9, 9, (5,), (0,))], (12,), (3,), 3 * 3 + 6 * 2),
            ([Item(9, 0, (2,))], (9,), (), 0.0),
            ([Item(9, 10**9, (2,))], (9,), (), 4.5 * 10**9),
        ):
            with self.subTest(items=items, demand=demand, caps=caps):
                made = plain(items, demand, caps)
                _, priced = relaxed(made)
                self.assertAlmostEqual(1.0, least_price(made, priced) / least if least else 1.0, 6)
                self.assertTrue((priced.demands >= 0).all() and (priced.caps >= 0).all())

    def test_whole_choices_never_do_better(self):
        outcomes = set()
        for seed in range(200):
            items, asked, caps = near_cover(Random(seed))
            made = table(items, asked, caps)
            if (made.gives.max(axis=0) == 0).any():
                continue
            met, priced = relaxed(made)
            prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
            with self.subTest(seed=seed):
                if prices:
                    self.assertGreaterEqual(times_met(made, met), 1.0 - 1e-6)
                    self.assertLessEqual(least_price(made, priced), min(prices) + 1e-6)
                else:
                    outcomes.add(priced is None)
            outcomes.add(bool(prices))
        self.assertEqual({True, False}, outcomes)

    def test_what_one_cap_and_one_demand_of_one_each_leave_is_found_to_the_point(self):
        """Such covers lose nothing where items may be taken in part."""
        for seed in range(100):
            random = Random(seed)
            items = [Item(random.randint(1, 3), random.randint(1, 9), (1,),
                          (0,) if random.random() < 0.7 else ()) for _ in range(5)]  # fmt: skip
            asked, caps = (random.randint(2, 8),), (random.randint(1, 5),)
            made = table(items, asked, caps)
            prices = [price(items, c) for c in choices(items) if covers(items, c, asked, caps)]
            _, priced = relaxed(made)
            with self.subTest(seed=seed):
                self.assertEqual(bool(prices), priced is not None)
                if priced is not None:
                    self.assertAlmostEqual(min(prices), least_price(made, priced), 6)

    def test_large_covers_are_proven_impossible_where_parts_do_not_do(self):
        for size in (20, 40, 80):
            items, asked, caps = FAMILIES["complementary"](size, Random(1))
            made = table(items, asked, caps)
            met, priced = relaxed(made)
            self.assertIsNone(priced)
            self.assertLess(times_met(made, met), 1.0)

    def test_it_ends_after_so_many_pivots_with_multipliers_that_hold(self):
        items, asked, caps = FAMILIES["three_amounts"](40, Random(1))
        made = table(items, asked, caps)
        exact, _ = relaxed(made)
        for most in (0, 1, 2, 4, 8):
            with mock.patch.object(relaxation, "MOST_PIVOTS", most):
                met, _ = relaxed(made)
            if met.demands.any():
                self.assertGreaterEqual(times_met(made, met), times_met(made, exact) - 1e-6)


class TestSimplex(unittest.TestCase):
    """Bounded variables: what is found is allowed, and proven to be the most."""

    def programme(self, random: Random):
        rows, size = random.randint(1, 4), random.randint(1, 6)
        lines = np.array([[random.choice([-2, -1, 0, 0, 1, 2, 3]) for _ in range(size)]
                          for _ in range(rows)], dtype=float)  # fmt: skip
        most = np.array([random.choice([0, 1, 2, 5, 9]) for _ in range(rows)], dtype=float)
        upper = np.array([random.choice([1, 2, 3, 7]) for _ in range(size)], dtype=float)
        wanted = np.array([random.choice([-3, -1, 0, 1, 2, 5]) for _ in range(size)], dtype=float)
        return lines, most, upper, wanted

    def test_the_multipliers_prove_that_no_more_is_possible(self):
        bounded = set()
        for seed in range(600):
            lines, most, upper, wanted = self.programme(Random(seed))
            rows, size = lines.shape
            simplex = relaxation._Simplex(
                np.hstack((lines, np.eye(rows))), most.copy(),
                np.concatenate((upper, np.full(rows, np.inf))),
            )  # fmt: skip
            worth = simplex.maximise(np.concatenate((wanted, np.zeros(rows))))
            found = np.array([simplex.value(number) for number in range(size)])
            with self.subTest(seed=seed):
                self.assertTrue((found >= -1e-9).all() and (found <= upper + 1e-9).all())
                self.assertTrue((lines @ found <= most + 1e-6).all())
                self.assertTrue((worth >= 0).all())
                proof = worth @ most + np.maximum(wanted - worth @ lines, 0) @ upper
                self.assertAlmostEqual(float(proof), float(wanted @ found), 6)
            bounded.add((bool(simplex.at_upper.any()), bool(worth.any())))
        self.assertEqual({(a, b) for a in (True, False) for b in (True, False)}, bounded)

    def test_a_fixed_variable_keeps_its_value_while_another_aim_is_followed(self):
        for seed in range(300):
            lines, most, upper, wanted = self.programme(Random(seed))
            rows, size = lines.shape
            simplex = relaxation._Simplex(
                np.hstack((lines, np.eye(rows))), most.copy(),
                np.concatenate((upper, np.full(rows, np.inf))),
            )  # fmt: skip
            first = np.zeros(size + rows)
            first[0] = 1.0
            simplex.maximise(first)
            value = simplex.value(0)
            if not np.isclose(value, upper[0]):
                continue  # only what is at its bound is fixed
            simplex.fixed[0] = True
            simplex.maximise(np.concatenate(([0.0], wanted[1:], np.zeros(rows))))
            found = np.array([simplex.value(number) for number in range(size)])
            with self.subTest(seed=seed):
                self.assertAlmostEqual(value, float(found[0]), 6)
                self.assertTrue((lines @ found <= most + 1e-6).all())
                self.assertTrue((found >= -1e-9).all() and (found <= upper + 1e-9).all())
