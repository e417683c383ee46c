# SPDX-License-Identifier: Apache-2.0
"""The blocks that nodes take from each row."""

import random
import unittest

import numpy as np
from hypothesis import given, strategies as st
from msgspec import Raw

from tests.unit.core.sites import quietly
from valence_sched.model.inventory import Devices, Memory, Processor, to_json
from valence_sched.model.need import Need
from valence_sched.view.block_kinds import BlockCounts, BlockKinds
from valence_sched.view.leftover import Leftover

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
    numbers = np.random.default_rng(seed).integers(-4, 4, (ROWS, len(known)))
    free = np.maximum(numbers, 0).astype(np.float32).ravel()
    start, kinds_of_rows = np.arange(ROWS + 1) * len(known), np.tile(np.arange(len(known)), ROWS)
    return Leftover(known, BlockCounts(start, kinds_of_rows, free, free), {})


def one_by_one(left: Leftover, needs: list[Need]) -> np.ndarray:
    """Return the result of ``by_kind``, computed row by row and kind by kind."""
    taken = np.zeros_like(left.blocks)
    for need in needs:
        amounts = left.kinds.amounts(need)
        for row in range(ROWS):
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
    @given(st.integers(0, 10**6), st.integers(2, 128), st.integers(1, 700),
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
