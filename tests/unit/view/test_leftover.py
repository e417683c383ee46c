# SPDX-License-Identifier: Apache-2.0
"""The blocks that a node takes on many rows together, and row by row."""

import random
import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.unit.core.sites import quietly
from valence_sched.model.inventory import Devices, Memory, Processor, to_json
from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.leftover import MANY_ROWS, MOST_RANKED, Leftover


def random_leftover(seed: int, kinds: int) -> Leftover:
    """Return free blocks on ``MANY_ROWS`` rows: processors, memory, or both."""
    draw, known = random.Random(seed), BlockKinds()
    while len(known) < kinds:
        cores, gib = draw.choice(((0, 1), (1, 0), (1, 1)))
        processors = (Processor(count=cores, cores=8 * draw.randint(1, 40)),) if cores else ()
        memory = (Memory(count=gib, capacity_mib=1024 * draw.randint(1, 40)),) if gib else ()
        devices = Devices(processors=processors, memory=memory)
        known.number(("Compute",), Raw(to_json(devices)), "file", "$")
    shape = (len(known), MANY_ROWS)
    numbers = np.random.default_rng(seed).integers(-4, 4, shape)
    return Leftover(known, np.maximum(numbers, 0).astype(np.float64), {})


def by_kind(left: Leftover, needs: list[Need], feasible: np.ndarray | None = None) -> np.ndarray:
    """Return how many blocks of each kind a node takes; shape ``(kinds, rows)``."""
    table = left.all_blocks().copy()
    left.blocks_for(needs, feasible).subtract(np.eye(len(left.kinds)), table)
    return left.all_blocks() - table


class TestBlocksFor(unittest.TestCase):
    """What is taken depends on the row alone, however many rows are asked about."""

    @quietly(30)
    @given(st.integers(0, 10**6), st.integers(2, 2 * MOST_RANKED), st.integers(1, 700),
           st.integers(1, 700_000))  # fmt: skip
    def test_many_rows_take_what_each_takes_by_itself(self, seed, kinds, cores, mib):
        left = random_leftover(seed, kinds)
        needs = [Need(kind="processor", measure="cores", amount=cores),
                 Need(kind="memory", measure="capacity_mib", amount=mib),
                 Need(kind="processor", measure="cores", amount=2 * cores)]  # fmt: skip
        alone = [by_kind(left.take(np.array([row])), needs)[:, 0] for row in range(len(left))]
        expected = np.array(alone).T
        np.testing.assert_array_equal(expected, by_kind(left, needs))
        feasible = left.all_blocks().sum(axis=0) > kinds / 2
        taken = by_kind(left, needs, feasible)
        np.testing.assert_array_equal(expected[:, feasible], taken[:, feasible])
        twice = left.with_node(needs).all_blocks()
        np.testing.assert_array_equal(left.all_blocks() - expected, twice[:, len(left) :])

    @quietly(60)
    @given(st.integers(0, 10**6), st.integers(1, 700), st.integers(1, 700_000))
    def test_an_amount_takes_what_its_whole_amount_takes(self, seed, cores, mib):
        left = random_leftover(seed, 4)
        needs = [Need(kind="processor", measure="cores", amount=cores),
                 Need(kind="memory", measure="capacity_mib", amount=mib)]  # fmt: skip
        whole = [left.kinds.whole_amount(need) for need in needs]
        np.testing.assert_array_equal(by_kind(left, needs), by_kind(left, whole))
        for need, other in zip(needs, whole, strict=True):
            have = left.kinds.amounts(need) @ left.all_blocks()
            np.testing.assert_array_equal(have >= need.amount, have >= other.amount)


class TestWholeAmount(unittest.TestCase):
    """The amount of a need as blocks can supply it."""

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
