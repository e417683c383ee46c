# SPDX-License-Identifier: Apache-2.0
"""What each built-in policy and each plain rule loses, on lists of requests and generated sites.

The lists are those of :mod:`tests.benchmarks.placing`, and one half of whose requests ask for
several whole cards. A loss is the percentage of the cards that is not allocated when as many were
asked for as there are; on generated sites it is the percentage of the nodes of the optimum that is
not placed one by one. ``default``, ``pack`` and ``balanced`` may lose 3 points more than
``fragmentation``. Then the weight and the step that these have get other values.

``doc/source/reference/policy-figures.jsonl`` keeps the lines for the charts of the documentation.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import numpy as np

from tests.benchmarks.instances import FLAVORS, generated_view, node_types
from tests.benchmarks.measure import Measurement, sized
from tests.benchmarks.placing import NODES, PLAIN, named_lists
from tests.benchmarks.trace import MISSING, THERE, Trace, allocated, built_in, lists
from valence_sched.core.ledger import Ledger
from valence_sched.core.optimise.bound import most_nodes
from valence_sched.core.optimise.highs import optional_highs
from valence_sched.core.preparation import Preparation
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import request

BEST, OURS = "fragmentation", ("default", "pack", "balanced")
MORE = 3.0  # points that ours may lose more than the best
SEED = 42
CHOSEN = ("as recorded", "several cards", "a third by nodes")[: sized(3, 1)]
#: Another weight and another step of the weigher fragmentation, one at a time.
SENSITIVITY = (("weight", 4.0), ("weight", 16.0), ("step", 0.125), ("step", 0.5))[: sized(4, 1)]
SITES = sized(12, 1)  # generated ones
PODMS, BLOCKS = sized(20, 3), sized(30, 20)
SHARES = (6, 2, 3, 2, 1)


def comparing() -> Iterator[Measurement]:
    """Lists by policy and plain rule, then generated sites, then weight and step."""
    if optional_highs() is not None:
        yield from _on_generated_sites()
    if not THERE:
        sys.stderr.write(f"comparing: the lists are skipped, {MISSING}\n")
        return
    replay, nodes, requests = lists()
    nodes = replay.subset(nodes, NODES, SEED)
    every = {"several cards": several_cards(requests), **named_lists(replay, nodes, requests)}
    for name, some in ((name, every[name]) for name in CHOSEN if name in every):
        best = _loss(replay, nodes, some, Trace(BEST))
        yield _measured(f"{name}, {BEST}", best, best)
        for policy in OURS:
            yield _measured(f"{name}, {policy}", _loss(replay, nodes, some, Trace(policy)), best)
        for rule in PLAIN:
            yield _measured(f"{name}, {rule}", _loss(replay, nodes, some, replay.build(rule)), best)
        for word, value in SENSITIVITY:
            other = _with(built_in()["default"], word, value)
            found = _loss(replay, nodes, some, Trace(other))
            yield _measured(f"{name}, default with {word} {value:g}", found, best)


def several_cards(requests: list[Any]) -> list[Any]:
    """Return as many requests for several whole cards as there are others, drawn, and these."""
    random = np.random.default_rng(5)
    several = [one for one in requests if one.gpus > 1]
    others = [one for one in requests if one.gpus <= 1]
    return [several[n] for n in random.integers(len(several), size=len(others))] + others


def _loss(replay: Any, nodes: Any, requests: list[Any], choose: Any) -> float:
    return 100.0 - allocated(replay.replay(nodes, requests, choose, SEED, 1.005, (100,)))


def _with(policy: Policy, word: str, value: float) -> Policy:
    """Return a policy whose weigher fragmentation has another weight or step."""

    def changed(use: WeigherUse) -> WeigherUse:
        if use.name != "fragmentation":
            return use
        if word == "weight":
            return msgspec.structs.replace(use, weight=value)
        return msgspec.structs.replace(use, options={**use.options, word: value})

    return msgspec.structs.replace(policy, weighers=tuple(map(changed, policy.weighers)))


def _on_generated_sites() -> Iterator[Measurement]:
    losses: dict[str, list[float]] = {name: [] for name in (BEST, *OURS)}
    for seed in range(SITES):
        site = generated_view(PODMS, BLOCKS, seed)
        counts = Counter(
            node.node_type for node in most_nodes(site, node_types(), shares=SHARES).nodes
        )
        order = list(counts.elements())
        Random(seed).shuffle(order)
        for name, found in losses.items():
            placed = _one_by_one(site, built_in()[name], order)
            found.append(100.0 * (1.0 - placed / len(order)))
    best = statistics.mean(losses[BEST])
    for name, found in losses.items():
        yield _measured(f"generated sites, {name}", statistics.mean(found), best)
        yield _measured(f"generated sites, worst, {name}", max(found), max(losses[BEST]))


def _one_by_one(site: Any, policy: Policy, order: list[int]) -> int:
    """Return how many nodes of these flavors, by number, a policy places one after another."""
    names = list(FLAVORS)
    needs = {name: request(FLAVORS[name]).needs for name in names}
    mix = Mix(tuple(FlavorShare(needs[name], weight=share)
                    for name, share in zip(names, SHARES, strict=True)))  # fmt: skip
    preparation = Preparation([policy], mix=lambda: mix)
    prepared = [
        preparation.prepare(request(FLAVORS[name], policy=policy.name), site) for name in names
    ]
    ledger, scheduler, placed = Ledger(site), FilterScheduler(), 0
    for number in order:
        asked, bound = prepared[number]
        context = ledger.context(asked, preparation.active(asked, bound))
        for node in scheduler.schedule(context).nodes:
            ledger.take(node.chosen)
            placed += 1
    return placed


def _measured(name: str, loss: float, best: float) -> Measurement:
    """Return a loss and the largest one that a policy which keeps accelerators may have."""
    return Measurement(name=f"comparing: {name}", value=loss, unit="% lost", probe=best,
                       ratio=loss / (best + MORE), target=1.0)  # fmt: skip
