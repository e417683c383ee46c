# SPDX-License-Identifier: Apache-2.0
"""Generated sites of virtual machines, decided by the whole pipeline and by plain rules.

A pool is a host, and a pod manager has several hosts of different shapes. Cores, memory and, on
some sites, disk or a custom class are stocks. Machines arrive at random and stay for a short or a
long time; a request that does not fit is lost. Every policy and rule gets the same arrivals. The
figures are the percentages of served requests and of served core hours. The first quarter of the
time does not count, because the site fills.

Each policy that chooses by weighers serves more than a random host and than the first host that
fits. A line has the difference, as the mean of some seeds, and twice its standard error.
"""

from __future__ import annotations

import heapq
import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.measure import Measurement, sized
from tests.benchmarks.placing import standard_error
from tests.benchmarks.trace import built_in
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.policy import BoundPolicies
from valence_sched.model.inventory import LeanPodm, Pool, Stock
from valence_sched.model.need import Need, need_for_stock
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import Floats, Ints

POLICIES = ("default", "pack", "balanced", "fragmentation")
PLAIN = ("random", "first fit", "best fit")
BELOW = PLAIN[:2]  # each policy must serve more than these
SEEDS = tuple(range(sized(6, 2)))
ARRIVALS = sized(4_000, 60)
LOAD = 1.05  # load on the resource that runs out first
WARM = 0.25  # part of the time
LONG, LONG_H, SHORT_H = 0.25, 15.0, 1.35  # share of long-lived machines, and the median hours
SPREAD = 1.0  # deviation of the logarithm of the hours

#: Cores, memory in GiB and weight, similar to the flavors of a public cloud.
SIZES = (
    (1, 1.75, 22), (1, 3.5, 8), (2, 3.5, 24), (2, 4, 5), (2, 8, 8), (2, 16, 5), (4, 7, 10),
    (4, 16, 5), (4, 32, 4), (8, 14, 3), (8, 32, 2), (8, 64, 2), (16, 64, 1), (16, 128, 1),
)  # fmt: skip


class Machine(NamedTuple):
    """A request: its hour of arrival, its flavor, and its lifetime in hours."""

    at: float
    flavor: int
    hours: float


class Site(NamedTuple):
    """The capacities of hosts, in turn, and the amounts of flavors, for the same resources."""

    resources: tuple[str, ...]
    shapes: tuple[tuple[float, ...], ...]
    extras: Mapping[tuple[float, ...], float]  # further amounts of flavors, with a weight
    podms: int = 3
    pools: int = 16

    def hosts(self) -> Floats:
        """Return the capacity of each host, shape ``(hosts, resources)``."""
        count = self.podms * self.pools
        every = list(itertools.islice(itertools.cycle(self.shapes), count))
        return np.array(every, dtype=np.float64)

    def flavors(self) -> tuple[Floats, Floats]:
        """Return the amounts of each flavor, shape ``(flavors, resources)``, and their weights."""
        every = [
            (cores, memory, *extra, weight * often)
            for cores, memory, weight in SIZES
            for extra, often in self.extras.items()
        ]
        table = np.array(every)
        return table[:, :-1], table[:, -1] / table[:, -1].sum()

    def arrivals(self, seed: int) -> list[Machine]:
        """Return machines in the order of arrival."""
        random = np.random.default_rng(seed)
        amounts, weights = self.flavors()
        flavors = random.choice(len(weights), size=ARRIVALS, p=weights)
        median = np.where(random.random(ARRIVALS) < LONG, LONG_H, SHORT_H)
        hours = median * random.lognormal(0.0, SPREAD, ARRIVALS)
        used = (amounts[flavors] * hours[:, None]).sum(axis=0) / self.hosts().sum(axis=0)
        times = np.sort(random.random(ARRIVALS)) * used.max() / LOAD
        every = zip(times.tolist(), flavors.tolist(), hours.tolist(), strict=True)
        return list(itertools.starmap(Machine, every))


SITES = {
    "shapes": Site(
        ("vcpu", "memory_gib"),
        ((16, 128), (24, 192), (32, 128), (24, 64)),
        {(): 1.0},
    ),
    "licences": Site(
        ("vcpu", "memory_gib", "CUSTOM_LICENCE"),
        ((24, 128, 0), (24, 128, 0), (24, 128, 12), (32, 96, 0)),
        {(0,): 8.0, (1,): 2.0},
    ),
    "disks": Site(
        ("vcpu", "memory_gib", "disk_gb"),
        ((24, 128, 0), (20, 96, 2_000), (32, 256, 400), (24, 128, 0)),
        {(0,): 6.0, (50,): 3.0, (300,): 1.0},
    ),
}  # fmt: skip

#: Chooses a host for a flavor from free amounts and the hosts that fit; None if there is no host.
Choice = Callable[[Floats, int, Ints], int | None]


def machines() -> Iterator[Measurement]:
    """Every policy serves more than a random host or the first host, by two standard errors."""
    who = (*POLICIES, *PLAIN)
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        tasks = list(itertools.product(SITES, who, SEEDS))
        found = dict(zip(tasks, workers.map(served, *zip(*tasks, strict=True)), strict=True))
    for name, (number, unit) in itertools.product(SITES, enumerate(("requests", "core hours"))):
        percent = {one: [found[name, one, seed][number] for seed in SEEDS] for one in who}
        for policy, rule in itertools.product(POLICIES, BELOW):
            yield _above(f"{name}, {unit}, {policy} above {rule}", percent[policy], percent[rule])
        best = statistics.mean(percent["best fit"])
        for one in who:
            mean = statistics.mean(percent[one])
            yield Measurement(name=f"machines: {name}, {unit}, {one}", value=mean, unit="% served",
                              probe=best, ratio=mean / best, target=1.0)  # fmt: skip


def _above(name: str, ours: list[float], theirs: list[float]) -> Measurement:
    """Return the difference to a rule, which should be at least two standard errors."""
    pairs = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    more, error = statistics.mean(pairs), 2.0 * standard_error(pairs)
    ratio = error / more if more > 0.0 else 1e9
    return Measurement(
        name=f"machines: {name}", value=error, unit="points", probe=more, ratio=ratio, target=1.0
    )


def served(name: str, who: str, seed: int) -> tuple[float, float]:
    """Return the percentages of requests and of core hours that a policy or rule serves."""
    site = SITES[name]
    choose = _plain(who, site, seed) if who in PLAIN else _policy(who, site, seed)
    amounts, arrivals = site.flavors()[0], site.arrivals(seed)
    free, ends = site.hosts(), list[tuple[float, int, int]]()
    asked, given = np.zeros(2), np.zeros(2)
    for machine in arrivals:
        while ends and ends[0][0] <= machine.at:
            _, host, flavor = heapq.heappop(ends)
            free[host] += amounts[flavor]
        takes = amounts[machine.flavor]
        host = choose(free, machine.flavor, (free >= takes).all(axis=1).nonzero()[0])
        counts = np.array((1.0, takes[0] * machine.hours)) * (machine.at > WARM * arrivals[-1].at)
        asked += counts
        if host is not None:
            free[host] -= takes
            heapq.heappush(ends, (machine.at + machine.hours, host, machine.flavor))
            given += counts
    requests, hours = (100.0 * given / asked).tolist()
    return requests, hours


def _plain(rule: str, site: Site, seed: int) -> Choice:
    """Return a rule: a random host, the first host, or the host with the smallest share left."""
    random, most = np.random.default_rng(seed), site.hosts().max(axis=0)

    def choose(free: Floats, _flavor: int, fitting: Ints) -> int | None:
        if not len(fitting):
            return None
        if rule == "random":
            return int(random.choice(fitting))
        return int(
            fitting[0 if rule == "first fit" else (free[fitting] / most).sum(axis=1).argmin()]
        )

    return choose


def _policy(policy: str, site: Site, seed: int) -> Choice:
    """Return the choice of a policy, by the whole pipeline."""
    flavors = list(map(_needs, itertools.repeat(site.resources), site.flavors()[0].tolist()))
    shares = zip(flavors, site.flavors()[1].tolist(), strict=True)
    mix = Mix(tuple(FlavorShare(needs, weight=weight) for needs, weight in shares))
    ledger, scheduler, hosts = Ledger(_view(site).view()), FilterScheduler(), site.hosts()
    policies = BoundPolicies([built_in()[policy]], mix=lambda: mix)
    prepared = [
        policies.prepare(Request(needs=needs, policy=policy, seed=seed), ledger.view)
        for needs in flavors
    ]
    known = hosts.copy()

    def choose(free: Floats, flavor: int, _fitting: Ints) -> int | None:
        for host in (free != known).any(axis=1).nonzero()[0].tolist():
            podm, pool = divmod(host, site.pools)
            first, used = pool * len(site.resources), (hosts[host] - free[host]).tolist()
            ledger.correct(podm, dict(enumerate(used, first)))
        known[:] = free
        request, bound = prepared[flavor]
        nodes = scheduler.schedule(ledger.context(request, policies.active(request, bound))).nodes
        return nodes[0].chosen.row if nodes else None

    return choose


def _needs(resources: tuple[str, ...], amounts: list[float]) -> tuple[Need, ...]:
    every = zip(resources, amounts, strict=True)
    return tuple(need_for_stock(name, amount) for name, amount in every if amount)


def _view(site: Site) -> Any:
    builder, hosts = ViewBuilder(), iter(site.hosts().tolist())
    for podm in range(site.podms):
        names = [f"host-{number:02}" for number in range(site.pools)]
        stocks = tuple(
            Stock(uri=f"{name}/{number}", resource=resource, pools=(name,), total=total)
            for name in names
            for number, (resource, total) in enumerate(
                zip(site.resources, next(hosts), strict=True)
            )
        )
        pools = tuple(Pool(id=name) for name in names)
        builder.add(LeanPodm(id=f"rack-{podm}", pools=pools, stocks=stocks), "generated")
    return builder
