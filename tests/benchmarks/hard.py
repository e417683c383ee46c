# SPDX-License-Identifier: Apache-2.0
"""The time and the memory of searches for hard exact covers, within the default budget."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from tests.benchmarks.measure import Measurement, against, sized
from tests.unit.core.fit import topologies
from tests.unit.core.fit.covers import FAMILIES
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.model.policy import DEFAULT_BUDGET

SIZES = sized(5, 1)  # of sites with 16, 20, 28, 40 and 60 blocks
SEEDS = sized(5, 1)
CPU_MS, MIB = 100.0, 100.0  # limits of one search


def hard() -> Iterator[Measurement]:
    """Hard covers of 16 to 60 blocks, and topologies: the CPU time of a search, and its answer."""
    for size in (16, 20, 28, 40, 60)[:SIZES]:
        for family in FAMILIES:
            yield _measured(f"{family} of {size}", lambda seed: _cover(family, size, seed))  # noqa: B023
    for name in topologies.TOPOLOGIES:
        yield _measured(f"topology {name}", lambda seed: _node(name, seed))  # noqa: B023
    tracemalloc.start()
    _cover("split", sized(60, 16), 0)
    yield against("hard: memory", tracemalloc.get_traced_memory()[1] / 2**20, MIB, 1.0, "MiB")
    tracemalloc.stop()


def _measured(name: str, answer: Callable[[int], str]) -> Measurement:
    values, answers = [], Counter[str]()
    for seed in range(SEEDS):
        started = time.process_time()
        answers[answer(seed)] += 1
        values.append((time.process_time() - started) * 1000)
    counted = ", ".join(f"{number} {one}" for one, number in sorted(answers.items()))
    return against(f"hard: {name}: {counted}", statistics.median(values), CPU_MS, 1.0, "CPU ms")


def _cover(family: str, size: int, seed: int) -> str:
    items, asked, caps = FAMILIES[family](size, Random(seed))
    answer = cheapest_cover(items, asked, caps, states=DEFAULT_BUDGET.pool_states)
    return "undecided" if answer.is_open else "no" if answer.found is None else "yes"


def _node(name: str, seed: int) -> str:
    seen, asked = topologies.site(name, seed)
    fit = Fitter(asked.needs, seen.kinds, asked.topology).fit(seen, 0)
    return "yes" if isinstance(fit, Fit) else "no" if fit is None else "undecided"
