# SPDX-License-Identifier: Apache-2.0
"""Requests with card models or several cards, decided by the whole pipeline and by plain rules.

The lists are made from the trace of :mod:`tests.benchmarks.trace`. In some lists, a third of the
requests names a model that fits, drawn by the number of its cards or of its nodes, or with equal
probability. In some, a share of the requests is for several whole cards. Every policy and rule gets
the same arrivals and nodes. The first line has the CPU time of a decision, with its ratio to that
of the rule FGD. Further lines have a loss. In ``allocated`` it is the part of the cards that stays
free after requests for as many cards as exist. In ``served``, where nodes also depart, it is the
part of the requested cards that is refused. A loss is the mean of some orders of arrivals, with its
ratio to the loss of the best rule. The last line of a list has the standard error of the difference
between policy ``default`` and the best rule.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.trace import MISSING, NODES, THERE, Trace, allocated, lists

PLAIN = ("random", "firstfit", "bestfit", "fgd")
POLICIES = ("default", "pack", "balanced", "fragmentation")[: sized(4, 1)]
DRAWS = ("cards", "nodes", "models")[: sized(3, 1)]
SEVERAL = (2, 4, 8)  # whole cards
SEEDS = (42, 7, 43, 44, 1000, 1)[: sized(6, 1)]  # of the orders of arrival
MOST_LISTS = sized(100, 1)
WITH_DEPARTURES = ("as recorded", "a third by nodes")
LOAD = 0.95  # load on the cards, with departures
MOST_CPU, MOST_MEMORY = (64_000, 96_000), 380_000  # of a node: CPU below 8 cards and with 8
LEAST_LOST = 0.1  # percent: smaller losses count as equal
EQUAL = 2.0  # points that a policy may lose more than the best rule
MOST_ERROR = 0.5  # points of a difference
MOST_RATIO = 9.5  # of the time of a decision to that of FGD

Requests = list[Any]


def placing() -> Iterator[Measurement]:
    """No policy loses 2 points more than the best plain rule on any list."""
    if not THERE:
        sys.stderr.write(f"placing: skipped, {MISSING}\n")
        return
    replay, nodes, named = _site()
    yield _decision(replay, nodes, named["as recorded"])
    names, who = list(named)[:MOST_LISTS], (*POLICIES, *PLAIN)
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for measure, some in (
            ("allocated", names),
            ("served", [name for name in names if name in WITH_DEPARTURES]),
        ):
            found = workers.map(_percent, itertools.product([measure], some, who, SEEDS))
            for name in some:
                percent = {one: [next(found) for _ in SEEDS] for one in who}
                yield from _lost(f"{name}, {measure}", percent)


def named_lists(replay: Any, nodes: Any, requests: Requests) -> dict[str, Requests]:
    """Return the recorded list, and the lists made from it, by name."""
    found = {"as recorded": requests}
    for draw in DRAWS:
        found[f"a third by {draw}"] = name_models(replay, nodes, requests, 0.33, draw)
    found["half several cards"] = half = several_cards(replay, requests, 0.5, SEVERAL)
    found["as many several cards"] = as_many_several(requests)
    found["half several cards, a third by nodes"] = name_models(replay, nodes, half, 0.33, "nodes")
    return found


def several_cards(replay: Any, requests: Requests, share: float, sizes: Sequence[int]) -> Requests:
    """Return the requests; a share of them is changed to several whole cards."""
    random = np.random.default_rng(round(100 * share))

    def several(one: Any) -> Any:
        if not one.gpus or random.random() >= share:
            return one
        cards = int(random.choice(sizes))
        cpu = min(one.cpu * cards, MOST_CPU[cards == 8])
        return replay.make_request(cpu, min(one.mem * cards, MOST_MEMORY), cards, 1000)

    return [several(one) for one in requests]


def as_many_several(requests: Requests) -> Requests:
    """Return these requests and as many drawn requests for several whole cards."""
    random = np.random.default_rng(5)
    several = [one for one in requests if one.gpus > 1]
    others = [one for one in requests if one.gpus <= 1]
    return [several[n] for n in random.integers(len(several), size=len(others))] + others


def name_models(replay: Any, nodes: Any, requests: Requests, share: float, draw: str) -> Requests:
    """Return the requests; a share of them names one model whose nodes can host it.

    A model is drawn by the number of its ``cards`` or ``nodes``, or from all ``models`` alike.
    """
    random = np.random.default_rng(round(100 * share))
    models = sorted({node["model"] for node in nodes})
    counts = np.array([
        sum(node["gpu"] if draw == "cards" else 1 for node in nodes if node["model"] == model)
        if draw != "models" else 1
        for model in models
    ])  # fmt: skip
    hosts: dict[Any, Any] = {}

    def named(one: Any) -> Any:
        if not one.gpus or random.random() >= share:
            return one
        if one.key not in hosts:
            hosts[one.key] = counts * [_hosts(nodes, model, one) for model in models]
        weights = hosts[one.key]
        if not weights.any():
            return one
        model = models[random.choice(len(models), p=weights / weights.sum())]
        return replay.make_request(one.cpu, one.mem, one.gpus, one.milli, frozenset([model]))

    return [named(one) for one in requests]


def _hosts(nodes: Any, model: str, asked: Any) -> bool:
    """Return whether an empty node of a model can host a request."""
    return any(
        node["cpu"] >= asked.cpu and node["mem"] >= asked.mem and node["gpu"] >= asked.gpus
        for node in nodes if node["model"] == model
    )  # fmt: skip


@functools.cache
def _site() -> tuple[Any, Any, dict[str, Requests]]:
    """Return the replay module, the nodes, and the lists by name; loaded once per process."""
    replay, nodes, requests = lists()
    nodes = replay.subset(nodes, NODES, SEEDS[0])
    return replay, nodes, named_lists(replay, nodes, requests)


def _percent(task: tuple[str, str, str, int]) -> float:
    """Return the percentage of cards that a policy or rule allocates or serves of a list."""
    measure, name, who, seed = task
    replay, nodes, named = _site()
    choose = replay.build(who) if who in PLAIN else Trace(who)
    if measure == "served":
        return float(replay.churn(nodes, named[name], choose, seed, LOAD)["served_gpu"])
    return allocated(replay.replay(nodes, named[name], choose, seed, 1.005, (100,)))


def _decision(replay: Any, nodes: Any, requests: Requests) -> Measurement:
    """Return the CPU time of a decision with policy ``fragmentation``, and with FGD, in ms."""
    ours, theirs = (
        _cpu_ms(replay, nodes, requests, choose)
        for choose in (Trace("fragmentation"), replay.build("fgd"))
    )
    name = f"placing: a decision, {1000.0 / ours:.0f} a second"
    return against(name, ours, theirs, MOST_RATIO, "CPU ms")


def _cpu_ms(replay: Any, nodes: Any, requests: Requests, choose: Any) -> float:
    taken = list[float]()

    class Timed:
        reset = staticmethod(choose.reset)

        def __call__(self, state: Any, asked: Any) -> Any:
            started = time.process_time()
            chosen = choose(state, asked)
            taken.append(time.process_time() - started)
            return chosen

    replay.replay(nodes, requests, Timed(), SEEDS[0], 1.005, (100,))
    return 1000.0 * statistics.mean(taken)


def _lost(name: str, percent: dict[str, list[float]]) -> Iterator[Measurement]:
    """Yield the loss of each policy, and the standard error of the difference to the best rule."""
    lost = {who: 100.0 - statistics.mean(found) for who, found in percent.items()}
    best = min(PLAIN, key=lost.__getitem__)
    least = max(lost[best], LEAST_LOST)
    for who, value in lost.items():
        measured = max(value, LEAST_LOST)
        yield against(f"placing: {name}, {who}, lost", measured, least, 1.0 + EQUAL / least, "%")
    pairs = zip(percent["default"], percent[best], strict=True)
    error = standard_error([ours - theirs for ours, theirs in pairs])
    yield against(f"placing: {name}, standard error", error, MOST_ERROR, 1.0, "points")


def standard_error(found: Sequence[float]) -> float:
    """Return the standard error of the mean; it is 0 for a single value."""
    return statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
