# SPDX-License-Identifier: Apache-2.0
"""Generated sites, their optimum, and the nodes that a policy places one after another.

``optima.jsonl`` in this folder has the number of nodes of each flavor that the solver placed on
each site. ``python -m tests.benchmarks.sites`` solves the sites and writes the file. With the file,
benchmarks need no solver, and all use the same optimum.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from tests.benchmarks.instances import FLAVORS, generated_view, node_types
from tests.benchmarks.measure import sized
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.policy import BoundPolicies
from valence_sched.model.policy import Policy
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import request
from valence_sched.view.view import View

OPTIMA = Path(__file__).with_name("optima.jsonl")
PODMS, BLOCKS, SITES = 20, 30, 12
SHARES = dict(zip(FLAVORS, (6, 2, 3, 2, 1), strict=True))


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A generated site, the placed number of nodes of each flavor, and the proven bound."""

    seed: int
    podms: int
    blocks: int
    nodes: dict[str, int]
    bound: int

    @property
    def placed(self) -> int:
        """Return the number of nodes that the solver placed."""
        return sum(self.nodes.values())

    def view(self) -> View:
        """Return a new View of the site, without compiled caches."""
        return generated_view(self.podms, self.blocks, self.seed)

    def arrivals(self, order: int = 0) -> list[str]:
        """Return the flavors of the nodes of the optimum in a random order."""
        names = [name for name in FLAVORS for _ in range(self.nodes.get(name, 0))]
        Random(1000 * order + self.seed).shuffle(names)
        return names


def solved(seed: int, podms: int = PODMS, blocks: int = BLOCKS) -> Site:
    """Return a site with its optimum from the solver.

    Raises:
        SchedulerError: the solver is not installed.
    """
    site = generated_view(podms, blocks, seed)
    optimum = most_nodes(site, node_types(), shares=[*SHARES.values()])
    names = list(FLAVORS)
    counts = Counter(names[node.node_type] for node in optimum.nodes)
    nodes = {name: counts[name] for name in names}
    return Site(seed, podms, blocks, nodes, optimum.bound)


def sites() -> list[Site]:
    """Return the sites of the file."""
    found = msgspec.json.Decoder(Site).decode_lines(OPTIMA.read_bytes())
    return found[: sized(SITES, 1)]


def lost(site: Site, policy: Policy, order: int = 0) -> float:
    """Return the percentage of the nodes of the optimum that a policy does not place."""
    arrivals = site.arrivals(order)
    return 100.0 * (1.0 - _placed_one_by_one(site.view(), policy, arrivals) / len(arrivals))


def _placed_one_by_one(site: View, policy: Policy, arrivals: list[str]) -> int:
    """Return the number of these nodes that a policy places one after another."""
    needs = {name: request(FLAVORS[name]).needs for name in FLAVORS}
    mix = Mix(tuple(FlavorShare(needs[name], weight=share) for name, share in SHARES.items()))
    policies = BoundPolicies([policy], mix=lambda: mix)
    prepared = {
        name: policies.prepare(request(FLAVORS[name], policy=policy.name), site) for name in FLAVORS
    }
    ledger, scheduler, placed = Ledger(site), FilterScheduler(), 0
    for name in arrivals:
        asked, bound = prepared[name]
        context = ledger.context(asked, policies.active(asked, bound))
        for node in scheduler.schedule(context).nodes:
            ledger.take(node.chosen)
            placed += 1
    return placed


def main() -> int:
    """Solve the sites and write their optima."""
    lines = (msgspec.json.encode(solved(seed)) + b"\n" for seed in range(SITES))
    OPTIMA.write_bytes(b"".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
