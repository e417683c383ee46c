# SPDX-License-Identifier: Apache-2.0
"""Compares the number of nodes that a batch of several requests places with the optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.benchmarks.instances import FLAVORS, generated_view, node_types
from tests.benchmarks.measure import Measurement, against, sized
from tests.unit.core.deciders import engine
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import Request
from valence_sched.planning.batches import decide_all
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.testing import request
from valence_sched.view.view import View

INSTANCES = sized(100, 1)
PODMS, BLOCKS = sized((20, 30), (3, 20))
SHARES = (6, 2, 3, 2, 1)
JOINT = Policy(name="joint", scheduler="joint", weighers=(WeigherUse("room"),))
MEAN_LOSS, WORST_LOSS = 0.01, 0.04


def full_batch(view: View, policy: str) -> list[Request]:
    """Return a request for each flavor: together they fill the site with the mix."""
    counts = Counter(node.node_type for node in most_nodes(view, node_types(), shares=SHARES).nodes)
    return [
        request(FLAVORS[name], flavor=name, count=counts[number], min_count=0, policy=policy)
        for number, name in enumerate(FLAVORS)
        if counts[number]
    ]


def batching() -> Iterator[Measurement]:
    """Batches that fill a generated site to the last node: the share that is not placed."""
    for policy in ("default", "pack", "joint"):
        losses = []
        for seed in range(INSTANCES):
            view = generated_view(PODMS, BLOCKS, seed)
            found = decide_all(engine(view, JOINT), full_batch(view, policy)).report("placements")
            losses.append(1 - found.placed / found.requested)
        mean = sum(losses) / len(losses)
        yield against(f"batching: {policy}: mean loss", mean, 1.0, MEAN_LOSS, "")
        yield against(f"batching: {policy}: worst loss", max(losses), 1.0, WORST_LOSS, "")
