# SPDX-License-Identifier: Apache-2.0
"""Requests that name card models, decided by the whole pipeline and by plain policies.

The lists are made from the trace of :mod:`tests.benchmarks.trace`: a share of its requests names a
model that they might have run on, drawn by how many cards or how many nodes of it there are, or
each model alike. In another list half of the requests are for several whole cards.
Every policy sees the same arrivals and the same nodes. What is allocated when as many cards were
asked for as there are, and what is served with departures, is told as what was lost, and its ratio
to what the best of the plain policies lost. Before that, the CPU time that a decision takes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.trace import MISSING, THERE, Trace, allocated, lists

PLAIN = ("random", "firstfit", "bestfit", "fgd")
SHARES = (0.2, 0.25, 0.33, 0.5)[: sized(4, 1)]
DRAWS = ("cards", "nodes", "models")[: sized(3, 1)]
SEVERAL = 0.5  # of the requests are for several whole cards, in the list of these
SEEDS = (42, 7)[: sized(2, 1)]
NODES = sized(0, 60)  # of the trace; 0: all
LOAD = 0.95  # of the cards, with departures
MOST_CPU, MOST_MEMORY = (64_000, 96_000), 380_000  # of a node: CPU of one below 8 cards, of 8
LEAST_LOST = 0.1  # percent: losses below are equal
POLICY = "fragmentation"
DECISIONS = 1_500  # a second, on a processor of which no one else takes a part

Requests = list[Any]


def placing() -> Iterator[Measurement]:
    """No plain policy loses less on any list, allocated or served; 1,500 decisions a second."""
    if not THERE:
        sys.stderr.write(f"placing: skipped, {MISSING}\n")
        return
    replay, nodes, requests = lists()
    nodes = replay.subset(nodes, NODES, SEEDS[0])
    named = named_lists(replay, nodes, requests)
    yield _decision(replay, nodes, requests)
    for measure, run in (("allocated", _allocated), ("served", _served)):
        for name, some in named.items():
            ours = run(replay, nodes, some, Trace)
            plain = {rule: run(replay, nodes, some, lambda one=rule: replay.build(one))
                     for rule in PLAIN}  # fmt: skip
            best = max(plain.values())
            for who, percent in {POLICY: ours, **plain}.items():
                yield _lost(f"{name}, {measure}, {who}", percent, best)


def named_lists(replay: Any, nodes: Any, requests: Requests) -> dict[str, Requests]:
    """Return the list as it was recorded, and those in which requests name models, by name."""
    found = {"as recorded": requests}
    for share in SHARES:
        for draw in DRAWS:
            words = {0.2: "a fifth", 0.25: "a quarter", 0.33: "a third", 0.5: "half"}[share]
            found[f"{words} by {draw}"] = name_models(replay, nodes, requests, share, draw)
    several = several_cards(replay, requests)
    found["half several cards, a third by cards"] = name_models(
        replay, nodes, several, 0.33, "cards"
    )
    return found


def several_cards(replay: Any, requests: Requests) -> Requests:
    """Return requests of which some are for 2, 4 or 8 whole cards, with as many times the rest."""
    random = np.random.default_rng(round(100 * SEVERAL))

    def several(one: Any) -> Any:
        if not one.gpus or random.random() >= SEVERAL:
            return one
        cards = int(random.choice((2, 4, 8)))
        cpu = min(one.cpu * cards, MOST_CPU[cards == 8])
        return replay.make_request(cpu, min(one.mem * cards, MOST_MEMORY), cards, 1000)

    return [several(one) for one in requests]


def name_models(replay: Any, nodes: Any, requests: Requests, share: float, draw: str) -> Requests:
    """Return requests of which a share names one model whose nodes can host it.

    A model is drawn by the number of its ``cards`` or of its ``nodes``, or one of all ``models``.
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


def _allocated(replay: Any, nodes: Any, requests: Requests, make: Callable[[], Any]) -> float:
    runs = (replay.replay(nodes, requests, make(), seed, 1.005, (100,)) for seed in SEEDS)
    return statistics.mean(map(allocated, runs))


def _served(replay: Any, nodes: Any, requests: Requests, make: Callable[[], Any]) -> float:
    return float(replay.churn(nodes, requests, make(), SEEDS[0], LOAD)["served_gpu"])


def _decision(replay: Any, nodes: Any, requests: Requests) -> Measurement:
    """Return the mean CPU time of a decision and the most that it may take, in ms."""
    taken, choose = list[float](), Trace()

    class Timed:
        reset = choose.reset

        def __call__(self, state: Any, asked: Any) -> Any:
            started = time.process_time()
            chosen = choose(state, asked)
            taken.append(time.process_time() - started)
            return chosen

    replay.replay(nodes, requests, Timed(), SEEDS[0], 1.005, (100,))
    milliseconds = 1000.0 * statistics.mean(taken)
    name = f"placing: a decision, {1000.0 / milliseconds:.0f} a second"
    return against(name, milliseconds, 1000.0 / DECISIONS, 1.0, "CPU ms")


def _lost(name: str, percent: float, probe: float) -> Measurement:
    lost, least = (max(100.0 - one, LEAST_LOST) for one in (percent, probe))
    return against(f"placing: {name}, lost", lost, least, 1.05, "%")
