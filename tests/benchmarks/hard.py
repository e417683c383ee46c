# SPDX-License-Identifier: Apache-2.0
"""How long a question takes that is hard to settle, and how much memory: unlike blocks, a cap."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Iterator
from random import Random

from tests.benchmarks.measure import Measurement, against, sized
from tests.unit.core.fit.hard_covers import FAMILIES
from valence_sched.core.fit import optimiser
from valence_sched.core.fit.optimiser import is_installed
from valence_sched.core.fit.set_cover import Cover, cheapest_cover
from valence_sched.model.policy import DEFAULT_BUDGET

SIZES = sized(5, 1)  # of 16, 20, 28, 40, 60 blocks
SEEDS = sized(5, 1)
CPU_MS, MIB = 100.0, 100.0  # what a question may take


def hard() -> Iterator[Measurement]:
    """The families of hard covers at 16 to 60 blocks: CPU time of a question, and its answer."""
    asked_optimiser = optimiser.optimal_cover
    try:
        optimiser.optimal_cover = lambda table: (None, False)
        for size in (16, 20, 28, 40, 60)[:SIZES]:
            for family in FAMILIES:
                yield _measured(family, size, "")
    finally:
        optimiser.optimal_cover = asked_optimiser
    if is_installed():
        yield _measured("split", sized(28, 16), ", with the optimiser")
    tracemalloc.start()
    _answer("split", sized(60, 16), 0)
    yield against("hard: memory", tracemalloc.get_traced_memory()[1] / 2**20, MIB, 1.0, "MiB")
    tracemalloc.stop()


def _measured(family: str, size: int, suffix: str) -> Measurement:
    values, answers = [], []
    for seed in range(SEEDS):
        started = time.process_time()
        answer = _answer(family, size, seed)
        values.append((time.process_time() - started) * 1000)
        answers.append("undecided" if answer.is_open else "no" if answer.counts is None else "yes")
    counted = ", ".join(f"{answers.count(one)} {one}" for one in sorted(set(answers)))
    name = f"hard: {family} of {size}{suffix}: {counted}"
    return against(name, statistics.median(values), CPU_MS, 1.0, "CPU ms")


def _answer(family: str, size: int, seed: int) -> Cover:
    items, asked, caps = FAMILIES[family](size, Random(seed))
    return cheapest_cover(items, asked, caps, states=DEFAULT_BUDGET.pool_states)
