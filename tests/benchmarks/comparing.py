# SPDX-License-Identifier: Apache-2.0
"""The loss of each built-in policy and each plain rule, on lists of requests and generated sites.

The lists are some of :mod:`tests.benchmarks.placing`. There, the loss is the percentage of cards
that is not allocated after requests for as many cards as exist. On the sites of
:mod:`tests.benchmarks.sites`, the loss is the percentage of the nodes of the optimum that is not
placed one by one. ``default``, ``pack`` and ``balanced`` may lose 3 points more than
``fragmentation``, and so may ``fragmentation`` with spreading on the sites.

``doc/source/reference/policy-figures.jsonl`` stores the lines for the charts of the documentation.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.measure import Measurement, sized
from tests.benchmarks.placing import PLAIN, named_lists
from tests.benchmarks.sites import lost, policies, sites
from tests.benchmarks.trace import MISSING, NODES, THERE, Trace, allocated, lists

BEST, OURS = "fragmentation", ("default", "pack", "balanced")
MORE = 3.0  # points that our policies may lose more than the best one
SEED = 42
CHOSEN = ("as recorded", "as many several cards", "a third by nodes")[: sized(3, 1)]
ORDERS = sized(2, 1)  # orders in which the nodes of a site are requested


def comparing() -> Iterator[Measurement]:
    """Generated sites by policy, then lists by policy and plain rule."""
    yield from _on_generated_sites()
    if not THERE:
        sys.stderr.write(f"comparing: the lists are skipped, {MISSING}\n")
        return
    replay, nodes, requests = lists()
    nodes = replay.subset(nodes, NODES, SEED)
    every = named_lists(replay, nodes, requests)
    for name, some in ((name, every[name]) for name in CHOSEN if name in every):
        best = _loss(replay, nodes, some, Trace(BEST))
        yield _measured(f"{name}, {BEST}", best, best)
        for policy in OURS:
            yield _measured(f"{name}, {policy}", _loss(replay, nodes, some, Trace(policy)), best)
        for rule in PLAIN:
            yield _measured(f"{name}, {rule}", _loss(replay, nodes, some, replay.build(rule)), best)


def _loss(replay: Any, nodes: Any, requests: list[Any], choose: Any) -> float:
    return 100.0 - allocated(replay.replay(nodes, requests, choose, SEED, 1.005, (100,)))


def _on_generated_sites() -> Iterator[Measurement]:
    every, ways = policies(), [(site, order) for site in sites() for order in range(ORDERS)]
    losses = {name: [lost(site, every[name], order) for site, order in ways] for name in every}
    best = losses[BEST]
    for name, found in losses.items():
        mean, worst = statistics.mean(found), max(found)
        yield _measured(f"generated sites, {name}", mean, statistics.mean(best))
        yield _measured(f"generated sites, worst, {name}", worst, max(best))


def _measured(name: str, loss: float, best: float) -> Measurement:
    """Return a loss, and the largest loss allowed for a policy that keeps accelerators free."""
    return Measurement(name=f"comparing: {name}", value=loss, unit="% lost", probe=best,
                       ratio=loss / (best + MORE), target=1.0)  # fmt: skip
