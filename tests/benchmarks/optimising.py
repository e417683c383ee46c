# SPDX-License-Identifier: Apache-2.0
"""The time to find and to prove the most nodes of a mix, and the gap between the two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from tests.benchmarks.instances import generated_view, node_types
from tests.benchmarks.measure import PROBES, Measurement, against, median_ms, numpy_pass, sized
from valence_sched.planning.optimise.bound import Optimum, most_nodes
from valence_sched.planning.purchase import PurchaseOption, cheapest_purchase
from valence_sched.view.view import View

#: Podms × blocks of each site, and the limit in numpy passes for the most nodes of a mix. On a
#: processor with 0.06 ms per pass, the limits are 0.1 s, 1 s and 20 s.
SITES = ((20, 30, 1_600), (100, 100, 16_000), (1000, 100, 320_000))
PURCHASE = 8_000  # limit in passes of a purchase for the smallest site: 0.5 s
LARGEST_GAP = 0.01
SEEDS = sized(3, 1)
SHARES = (6, 2, 3, 2, 1)

Answer = TypeVar("Answer")


def optimising() -> Iterator[Measurement]:
    """Sites of three sizes: the CPU time in numpy passes and the gap; then a purchase."""
    sites = ((2, 10, 1_600),) if sized(0, 1) else SITES
    for podms, blocks, target in sites:
        for seed in range(SEEDS if podms < SITES[-1][0] else 1):
            view = generated_view(podms, blocks, seed)
            yield from _mix(f"{podms} x {blocks}, seed {seed}", view, target)
    podms, blocks, _ = sites[0]
    yield _purchase(generated_view(podms, blocks), PURCHASE)


def _mix(name: str, view: View, target: float) -> Iterator[Measurement]:
    def run() -> Optimum:
        return most_nodes(view, node_types(), shares=SHARES)

    optimum, milliseconds, probe = _timed(run)
    found = f"{optimum.placed} of at most {optimum.bound} nodes"
    yield against(f"optimising: {name}: {found}", milliseconds, probe, target, "CPU ms")
    yield against(f"optimising: {name}: gap", _gap(optimum), 1.0, LARGEST_GAP, "")
    single = most_nodes(view, node_types()[1:2])
    yield against(f"optimising: {name}: gap of one flavor", _gap(single), 1.0, LARGEST_GAP, "")


def _purchase(view: View, target: float) -> Measurement:
    """Buy blocks of the kinds of the site, so that twice as many large nodes fit."""
    asked = node_types(large=2 * most_nodes(view, node_types()[1:2]).placed)[1:2]
    rows = tuple(range(len(view)))
    kinds = view.kinds.kinds
    options = [PurchaseOption(kind, rows, kinds[kind].price) for kind in range(1, len(kinds))]
    bought, milliseconds, probe = _timed(lambda: cheapest_purchase(view, asked, options))
    assert bought
    name = (
        f"optimising: a purchase for {asked[0].most} nodes, {bought.price} at least {bought.bound}"
    )
    return against(name, milliseconds, probe, target, "CPU ms")


def _timed(run: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """Return an answer, and the CPU times of the answer and of a probe around it, in ms."""
    probe = numpy_pass()
    median_ms(probe, 100)
    before = median_ms(probe, PROBES)
    started = time.process_time()
    answer = run()
    taken = (time.process_time() - started) * 1000
    return answer, taken, (before + median_ms(probe, PROBES)) / 2


def _gap(optimum: Optimum) -> float:
    return (optimum.bound - optimum.placed) / optimum.bound if optimum.bound else 0.0
