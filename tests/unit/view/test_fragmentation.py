# SPDX-License-Identifier: Apache-2.0
"""A compiled mix, its exact sums, the scarcity of a share, and the blocks that nodes leave."""

import math
import random
import unittest
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from tests.unit.core.sites import quietly
from valence_sched.model.inventory import Devices, Memory, Processor, to_json
from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.fragmentation import (
    LEAST_PROTECTION,
    MOST_COUNTED,
    PROTECTION_WEIGHT,
    ShareSupply,
    exact_sums,
    protection,
    scarcity,
    unevenness,
)
from valence_sched.view.leftover import MOST_RANKED, Leftover

NUMBERS = st.floats(-1e15, 1e15)
LINES = st.integers(0, 40).flatmap(
    lambda size: st.lists(st.lists(NUMBERS, min_size=size, max_size=size), min_size=1, max_size=4)
)


class TestExactSums(unittest.TestCase):
    @quietly(200)
    @given(LINES)
    def test_the_parts_add_up_to_the_sum_of_the_line(self, lines):
        found = exact_sums(np.array(lines, dtype=float))
        for line, parts in zip(lines, found, strict=True):
            self.assertEqual(sum(map(Fraction, line)), sum(map(Fraction, parts)))

    def test_whole_numbers_have_one_part(self):
        self.assertEqual([(1225.0,), (0.5,)],
                         exact_sums(np.array([np.arange(50.0), [0.5] + [0.0] * 49])))  # fmt: skip

    def test_what_one_float_cannot_hold_has_several(self):
        ((*parts,),) = exact_sums(np.array([[1e16, 1.0, 2.0**-60]]))
        self.assertEqual(Fraction(10**16 + 1) + Fraction(1, 2**60), sum(map(Fraction, parts)))
        self.assertGreater(len(parts), 1)

    def test_nothing_has_no_part(self):
        self.assertEqual([(), ()], exact_sums(np.zeros((2, 3))))
        self.assertEqual([()], exact_sums(np.zeros((1, 0))))
        self.assertEqual([], exact_sums(np.zeros((0, 3))))

    def test_the_table_stays(self):
        table = np.array([[1e16, 1.0]])
        exact_sums(table)
        self.assertEqual([[1e16, 1.0]], table.tolist())


#: Requests for a card of any kind, and for one of a kind with 24 cards, used as the others.
ANY = ShareSupply(weight=0.8, amount=1.0, usable=49.0, total=99.0, hardware=None)
RARE = ShareSupply(weight=0.2, amount=1.0, usable=11.5, total=24.0, hardware="rare")


def poisson_tail(expected: float, room: int) -> float:
    """Return the probability of ``room`` or more, summed term by term."""
    terms = (math.exp(number * math.log(expected) - expected - math.lgamma(number + 1))
             for number in range(room))  # fmt: skip
    return 1.0 - math.fsum(terms)


class TestScarcity(unittest.TestCase):
    def test_what_names_hardware_counts_by_the_best_supply_to_its_own(self):
        self.assertEqual((1.0, 50 / 12.5), scarcity([ANY, RARE], 1.0))

    def test_one_is_the_largest_amount_of_a_stock(self):
        thousandths = [replace(one, amount=1000.0, usable=1000 * one.usable, total=1000 * one.total)
                       for one in (ANY, RARE)]  # fmt: skip
        self.assertEqual((1.0, 50 / 12.5), scarcity(thousandths, 1000.0))

    def test_the_best_supplied_is_not_scarce_whatever_it_names(self):
        self.assertEqual((1.0, 1.0), scarcity([replace(ANY, usable=11.5), RARE], 1.0))

    def test_a_supply_that_is_used_up_counts_a_thousand_times(self):
        plenty, none = replace(ANY, usable=1e6), replace(RARE, usable=0.0)
        self.assertEqual((1.0, 1000.0), scarcity([plenty, none], 1.0))

    def test_nothing_is_scarce_without_shares(self):
        self.assertEqual((), scarcity([], 1.0, protect=True))

    def test_hardware_that_is_used_up_sooner_counts_by_the_square_of_how_much(self):
        sooner = replace(RARE, total=49.0)  # a quarter of it is left, of the others half
        self.assertEqual(2.0, unevenness(ANY, sooner, 1.0))
        calm = [replace(one, weight=weight) for one, weight in ((ANY, 0.9999), (sooner, 0.0001))]
        self.assertEqual((1.0, 4.0 * (1 + 10 * 3)), scarcity(calm, 1.0, protect=True))
        self.assertEqual((1.0, 4.0), scarcity(calm, 1.0))

    def test_hardware_that_is_used_up_later_counts_no_less(self):
        self.assertEqual(1.0, unevenness(ANY, replace(RARE, total=12.0), 1.0))

    def test_a_kind_is_protected_by_how_likely_more_is_asked_for_than_there_is(self):
        # until 49 cards are used, 9.8 of the nodes are expected to name it, with room for 11.5
        added = PROTECTION_WEIGHT * protection(0.2 * 49, 11.5) / 0.2
        self.assertGreater(added, 1.0)
        self.assertEqual((1.0, 4.0 + added), scarcity([ANY, RARE], 1.0, protect=True))

    def test_shares_of_one_kind_are_protected_together(self):
        halves = [replace(RARE, weight=0.1)] * 2
        one, two = (scarcity([ANY, *some], 1.0, protect=True) for some in ([RARE], halves))
        self.assertEqual((one[0], one[1], one[1]), two)

    def test_parts_of_a_card_are_one_kind_with_the_card(self):
        part = replace(RARE, weight=0.1, amount=0.5)
        found = scarcity([ANY, part, replace(RARE, weight=0.1)], 1.0, protect=True)
        self.assertEqual(found[1], found[2])
        several = replace(RARE, weight=0.1, amount=4.0)
        found = scarcity([ANY, part, several], 1.0, protect=True)
        self.assertGreater(found[2], found[1])  # fewer of them fit

    def test_what_names_all_that_there_is_names_nothing(self):
        every = replace(ANY, hardware="all")
        self.assertEqual(scarcity([ANY, RARE], 1.0, protect=True),
                         scarcity([every, RARE], 1.0, protect=True))  # fmt: skip
        part = replace(every, amount=0.5, usable=20.0)
        self.assertEqual((1.0, 1.0), scarcity([every, part], 1.0, protect=True))
        self.assertEqual((1.0, 50 / 21), scarcity([every, part], 1.0))

    def test_several_cards_of_any_kind_are_protected_and_one_is_not(self):
        four = ShareSupply(0.2, 4.0, 20.0, 99.0, None)  # needs many other blocks
        found = scarcity([ANY, four], 1.0, protect=True)
        expected = 0.2 * 49 / (0.8 + 0.2 * 4)
        self.assertEqual((1.0, 1.0 + 10.0 * protection(expected, 5.0) / 0.2), found)
        self.assertEqual((1.0, 1.0), scarcity([ANY, four], 1.0))

    def test_with_protect_all_shares_of_a_mix_that_names_hardware_may_be_scarce(self):
        four = ShareSupply(1e-6, 4.0, 24.0, 99.0, None)
        rare = replace(RARE, weight=1e-6)
        found = scarcity([ANY, four, rare], 1.0, protect=True)
        uneven = (50 / 100) / (25 / 100)
        self.assertAlmostEqual(50 / 25 * (1 + 10 * (uneven**2 - 1)), found[1])
        self.assertEqual(1.0, scarcity([ANY, four, rare], 1.0)[1])
        self.assertEqual(1.0, scarcity([ANY, four], 1.0, protect=True)[1])

    def test_nothing_counts_more_than_a_request_may_carry(self):
        plenty = replace(ANY, weight=1e-9, usable=1e6, total=1e6)
        none = replace(RARE, weight=1 - 1e-9, usable=0.0, total=9e5)
        self.assertEqual(MOST_COUNTED, scarcity([plenty, none], 1.0, protect=True)[1])


class TestProtection(unittest.TestCase):
    """The probability that requests for a kind exceed its room."""

    def test_close_to_the_poisson_distribution(self):
        for room in (1, 2, 5, 20, 100, 1000):
            for ratio in (0.5, 0.8, 1.0, 1.2, 2.0):
                exact = min(poisson_tail(ratio * room, room), ratio)
                with self.subTest(room=room, ratio=ratio):
                    self.assertAlmostEqual(exact, protection(ratio * room, room), delta=0.012)

    def test_what_is_next_to_impossible_is_impossible(self):
        self.assertEqual(0.0, protection(0.0, 3.0))
        self.assertEqual(0.0, protection(10.0, 100.0))
        self.assertEqual(0.0, protection(LEAST_PROTECTION / 2, 1.0))

    def test_no_more_than_the_bound_of_markov_and_room_for_one_at_least(self):
        self.assertLessEqual(protection(0.1, 0.0), 0.1)
        self.assertEqual(protection(0.1, 1.0), protection(0.1, 0.0))

    @quietly(200)
    @given(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(1.0, 2.0))
    def test_it_grows_with_what_is_expected_and_shrinks_with_the_room(self, expected, room, more):
        found = protection(expected, room)
        self.assertTrue(0.0 <= found <= 1.0)
        self.assertGreaterEqual(protection(expected * more, room) + 1e-9, found)
        self.assertLessEqual(protection(expected, room * more) - 1e-9, found)


ROWS = 128


def random_leftover(seed: int, kinds: int) -> Leftover:
    """Return free blocks on ``ROWS`` rows: processors, memory, or both."""
    draw, known = random.Random(seed), BlockKinds()
    while len(known) < kinds:
        cores, gib = draw.choice(((0, 1), (1, 0), (1, 1)))
        processors = (Processor(count=cores, cores=8 * draw.randint(1, 40)),) if cores else ()
        memory = (Memory(count=gib, capacity_mib=1024 * draw.randint(1, 40)),) if gib else ()
        devices = Devices(processors=processors, memory=memory)
        known.number(("Compute",), Raw(to_json(devices)), "file", "$")
    shape = (len(known), ROWS)
    numbers = np.random.default_rng(seed).integers(-4, 4, shape)
    return Leftover(known, np.maximum(numbers, 0).astype(np.float64), {})


def one_by_one(left: Leftover, needs: list[Need]) -> np.ndarray:
    """Return the result of ``by_kind``, computed row by row and kind by kind."""
    taken = np.zeros_like(left.blocks)
    for need in needs:
        amounts = left.kinds.amounts(need)
        for row in range(len(left)):
            missing = need.amount - amounts @ taken[:, row]
            for kind in left.kinds.cheapest_first(need):
                free = left.blocks[kind, row] - taken[kind, row]
                number = min(max(0.0, np.ceil(missing / amounts[kind])), free)
                taken[kind, row] += number
                missing -= number * amounts[kind]
    return taken


def by_kind(left: Leftover, needs: list[Need], feasible: np.ndarray | None = None) -> np.ndarray:
    """Return the number of blocks of each kind that a node uses; shape ``(kinds, rows)``."""
    table = left.blocks.copy()
    left.blocks_for(needs, feasible).subtract(np.eye(len(left.kinds)), table)
    return left.blocks - table


class TestBlocksFor(unittest.TestCase):
    """The used blocks depend only on the row, not on other rows."""

    @quietly(10)
    @given(st.integers(0, 10**6), st.integers(2, 2 * MOST_RANKED), st.integers(1, 700),
           st.integers(1, 700_000))  # fmt: skip
    def test_all_rows_take_what_each_takes_kind_by_kind(self, seed, kinds, cores, mib):
        left = random_leftover(seed, kinds)
        needs = [Need(kind="processor", measure="cores", amount=cores),
                 Need(kind="memory", measure="capacity_mib", amount=mib),
                 Need(kind="processor", measure="cores", amount=2 * cores)]  # fmt: skip
        expected = one_by_one(left, needs)
        np.testing.assert_array_equal(expected, by_kind(left, needs))
        feasible = left.blocks.sum(axis=0) > kinds / 2
        taken = by_kind(left, needs, feasible)
        np.testing.assert_array_equal(expected[:, feasible], taken[:, feasible])

    @quietly(60)
    @given(st.integers(0, 10**6), st.integers(1, 700), st.integers(1, 700_000))
    def test_an_amount_takes_what_its_whole_amount_takes(self, seed, cores, mib):
        left = random_leftover(seed, 4)
        needs = [Need(kind="processor", measure="cores", amount=cores),
                 Need(kind="memory", measure="capacity_mib", amount=mib)]  # fmt: skip
        whole = [left.kinds.whole_amount(need) for need in needs]
        np.testing.assert_array_equal(by_kind(left, needs), by_kind(left, whole))
        for need, other in zip(needs, whole, strict=True):
            have = left.kinds.amounts(need) @ left.blocks
            np.testing.assert_array_equal(have >= need.amount, have >= other.amount)


class TestWholeAmount(unittest.TestCase):
    """The amount of a need that blocks can supply."""

    def setUp(self) -> None:
        self.kinds = BlockKinds()
        for mib in (262_144, 393_216):
            devices = Devices(memory=(Memory(count=1, capacity_mib=mib),))
            self.kinds.number(("Memory",), Raw(to_json(devices)), "file", "$")

    def amount(self, amount: float, **fields: object) -> float:
        need = Need(kind="memory", measure="capacity_mib", amount=amount, **fields)
        return self.kinds.whole_amount(need).amount

    def test_it_is_the_next_multiple_of_what_all_blocks_are_multiples_of(self):
        self.assertEqual([0, 131_072, 131_072, 262_144],
                         [self.amount(one) for one in (0, 65_536, 131_072, 131_073)])  # fmt: skip

    def test_a_new_kind_of_block_counts(self):
        self.assertEqual(131_072, self.amount(65_536))
        devices = Devices(memory=(Memory(count=1, capacity_mib=65_536),))
        self.kinds.number(("Memory",), Raw(to_json(devices)), "file", "$")
        self.assertEqual(65_536, self.amount(65_536))

    def test_a_need_that_allows_the_unknown_or_finds_no_block_keeps_its_amount(self):
        self.assertEqual(65_536, self.amount(65_536, unknown="allow"))
        nic = Need(kind="nic", measure="devices", amount=3)
        self.assertEqual(nic, self.kinds.whole_amount(nic))
