# SPDX-License-Identifier: Apache-2.0
"""Public traces with real arrivals and lifetimes, decided by the whole pipeline and plain rules.

The traces are not part of this project: their files are read from the folder that
``VALENCE_SCHED_TRACES`` names. Each request arrives and leaves at its recorded times; a request
that does not fit is refused and not repeated. Every policy and rule sees the same requests.
"""

from __future__ import annotations

import csv
import heapq
import itertools
import math
import os
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.placing import standard_error
from tests.benchmarks.trace import CARD, Trace
from valence_sched.core.fit.optimiser import Programme, ProgrammePart

VARIABLE = "VALENCE_SCHED_TRACES"
FOLDER = Path(os.environ.get(VARIABLE) or "traces")
#: The files, from the repositories alibaba/clusterdata (openb, DLRM), huaweicloud/
#: trace_generation_rnn (Azure V1) and Rivendile/Muri (Philly; trace2.csv).
FILES = (
    "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv", "disaggregated_DLRM_trace.csv",
    "flav_map.txt", "v1.interval_map.txt", "v1.test.txt", "v1.test.c2591400.txt", "muri_trace2.csv",
)  # fmt: skip
POLICIES = ("default", "pack", "balanced", "fragmentation")
SEEDS = range(sized(6, 1))
MOST_SITES = sized(9, 1)
MOST_FLAVORS = 60  # of the mix
LOAD = 1.05  # offered, of the scarcest resource of a site
EARLIEST_S = 10_000_000  # of the pods of openb: few arrive before
STEP_S, LEAST_S = 300, 60  # of the times of Azure; the shortest life
MOMENTS = sized(100, 5)  # of the upper bound
CEILING = "upper bound"
LARGE = "larger than the median"
REASONS = ("cores", "memory", "cards", "all together", LARGE)
EQUAL, LEAST_LOST, MOST_ERROR = 2.0, 0.1, 1.0  # points
GIB = 1024  # MiB
MOST_CARDS = 8  # of a host
RACK = 16  # hosts of a pod manager


Site = tuple["list[Host]", "list[Life]"]


class Host(NamedTuple):
    """A host of a site: milli-cores, memory in MiB, cards, and their model."""

    cpu: int
    mem: int
    gpu: int = 0
    model: str = ""


class Asked(NamedTuple):
    """A request: milli-cores, MiB, a number of cards, the thousandths of each, models."""

    cpu: int
    mem: int
    gpus: int = 0
    milli: int = CARD
    models: frozenset[str] = frozenset()

    @property
    def key(self) -> Asked:
        return self


class Life(NamedTuple):
    """A request, and when it arrives and leaves, in seconds."""

    start: float
    end: float
    asked: Asked


class Hosts:
    """The hosts of a site and their free amounts."""

    def __init__(self, hosts: Sequence[Host], rack: int) -> None:
        self.n = len(hosts)
        self.name = [f"{row:05}" for row in range(self.n)]
        self.podm = [row // rack for row in range(self.n)]
        self.model = [host.model for host in hosts]
        self.cpu_cap = np.array([host.cpu for host in hosts])
        self.mem_cap = np.array([host.mem for host in hosts])
        self.gpu_cap = np.array([host.gpu for host in hosts])
        self.cpu_free, self.mem_free = self.cpu_cap.copy(), self.mem_cap.copy()
        self.gpu_free = np.where(np.arange(MOST_CARDS) < self.gpu_cap[:, None], CARD, 0)
        self.log: list[int] = []

    def fits(self, asked: Asked) -> Any:
        """Return whether each host can take a request."""
        fits = (self.cpu_free >= asked.cpu) & (self.mem_free >= asked.mem)
        if asked.gpus:
            fits &= (self.gpu_free >= asked.milli).sum(axis=1) >= asked.gpus
        if asked.models:
            fits &= np.array([model in asked.models for model in self.model])
        return fits

    def lacks(self, asked: Asked) -> str:
        """Return the resource that is short on every host, or that no host has enough of all."""
        enough = {
            "cores": self.cpu_free >= asked.cpu,
            "memory": self.mem_free >= asked.mem,
            "cards": (self.gpu_free >= asked.milli).sum(axis=1) >= asked.gpus,
        }
        for name, has in enough.items():
            if not has.any():
                return name
        return "all together"

    def cards(self, asked: Asked, row: int) -> list[int]:
        """Return the fullest cards of a host with room for a request."""
        free = self.gpu_free[row]
        order = np.argsort(np.where(free >= asked.milli, free, 10**9), kind="stable")
        return [int(slot) for slot in order[: asked.gpus]]

    def take(self, asked: Asked, row: int, cards: Sequence[int], sign: int = 1) -> None:
        """Take the amounts of a request from a host, or release them."""
        self.cpu_free[row] -= sign * asked.cpu
        self.mem_free[row] -= sign * asked.mem
        for slot in cards:
            self.gpu_free[row, slot] -= sign * asked.milli
        if min(self.cpu_free[row], self.mem_free[row], self.gpu_free[row].min()) < 0:
            raise AssertionError(f"host {row} is over its capacity")
        self.log.append(row)


class Rule:
    """A plain rule: the feasible host with the least score, or a random feasible host."""

    def __init__(self, score: Callable[[Hosts, Asked], Any] | None) -> None:
        self._score = score

    def reset(self, hosts: Hosts, seed: int, mix: Any) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, hosts: Hosts, asked: Asked) -> Any:
        rows = np.flatnonzero(hosts.fits(asked))
        if not len(rows):
            return None
        if self._score is None:
            row = int(self._random.choice(rows))
        else:
            row = int(rows[np.argmin(self._score(hosts, asked)[rows])])
        return row, hosts.cards(asked, row)


def first(hosts: Hosts, asked: Asked) -> Any:
    return np.arange(hosts.n)


def best(hosts: Hosts, asked: Asked) -> Any:
    """Return by host the sum of its free amounts, each as a share of the largest amount."""
    cards = hosts.gpu_free.sum(axis=1) / max(1, hosts.gpu_cap.max() * CARD)
    free = hosts.cpu_free / hosts.cpu_cap.max() + hosts.mem_free / hosts.mem_cap.max()
    return free + cards


RULES: dict[str, Callable[[], Rule]] = {
    "random": lambda: Rule(None),
    "first fit": lambda: Rule(first),
    "best fit": lambda: Rule(best),
}


class Served(NamedTuple):
    """The percentage served: of the requests, and of the unit-hours of the scarcest resource."""

    requests: float
    hours: float


class Result(NamedTuple):
    """The served percentages, and the percentage of refused requests by reason."""

    served: Served
    refused: dict[str, float]


def live(hosts: Sequence[Host], lives: Sequence[Life], choose: Any, seed: int) -> Result:
    """Replay arrivals and departures until the last arrival."""
    site, last = Hosts(hosts, RACK), lives[-1].start
    amounts, _, scarcest = _amounts(hosts, lives)
    large = float(np.median(amounts[:, scarcest]))
    refused: Counter[str] = Counter()
    number_of = Counter(one.asked for one in lives)
    mix = [(asked, number / len(lives)) for asked, number in number_of.most_common(MOST_FLAVORS)]
    choose.reset(site, seed, mix)
    ends: list[tuple[float, int, Asked, int, list[int]]] = []
    wanted, given, number = 0.0, 0.0, 0
    for turn, (one, units) in enumerate(zip(lives, amounts[:, scarcest].tolist(), strict=True)):
        asked, hours = one.asked, units * (min(one.end, last) - one.start)
        while ends and ends[0][0] <= one.start:
            _, _, gone, row, cards = heapq.heappop(ends)
            site.take(gone, row, cards, -1)
        wanted += hours
        if (found := choose(site, asked)) is not None:
            row, cards = found
            site.take(asked, row, cards)
            heapq.heappush(ends, (one.end, turn, asked, row, list(cards)))
            number, given = number + 1, given + hours
        else:
            refused[site.lacks(asked)] += 1
            refused[LARGE] += units > large
    every = len(lives)
    shares = {reason: 100 * count / every for reason, count in refused.items()}
    return Result(Served(100 * number / every, 100 * given / wanted), shares)


def ceiling(hosts: Sequence[Host], lives: Sequence[Life]) -> Served:
    """Return an upper bound of the served part: a linear programme over parts of requests.

    The programme treats all hosts as one host with their total amounts. The requests served at each
    of ``MOMENTS`` moments need at most these amounts.
    """
    amounts, totals, scarcest = _amounts(hosts, lives)
    start, end = np.array([(one.start, one.end) for one in lives]).T
    programme = Programme()
    programme.add(ProgrammePart(upper=[1.0] * len(lives)))
    for moment in np.linspace(start[0], start[-1], MOMENTS):
        there = np.flatnonzero((start <= moment) & (end > moment))
        for line in np.flatnonzero(totals):
            shares = amounts[there, line] / totals[line]
            programme.row(list(zip(there.tolist(), shares.tolist(), strict=True)), upper=1.0)
    hours = amounts[:, scarcest] * (np.minimum(end, start[-1]) - start)
    bounds = []
    for value in (np.ones(len(lives)), hours / hours.mean()):
        programme.costs = dict(enumerate(value.tolist()))
        bounds.append(100 * programme.solve(whole=False).bound / float(value.sum()))
    return Served(*bounds)


def _amounts(hosts: Sequence[Host], lives: Sequence[Life]) -> tuple[Any, Any, int]:
    """Return the amounts of each request and of all hosts, and the scarcest resource."""
    amounts = np.array([(one.asked.cpu, one.asked.mem, one.asked.gpus * one.asked.milli)
                        for one in lives], dtype=float)  # fmt: skip
    totals = np.array([(host.cpu, host.mem, host.gpu * CARD) for host in hosts]).sum(axis=0)
    last = lives[-1].start
    hours = np.array([min(one.end, last) - one.start for one in lives])
    return amounts, totals, int(np.argmax(hours @ amounts / np.maximum(totals, 1)))


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def openb(seed: int) -> Site:
    """An eighth of the hosts of openb; its latest pods arrive faster, so that cards run out."""
    rng = np.random.default_rng(seed)
    rows = _rows("openb_node_list_gpu_node.csv")
    hosts = [
        Host(int(rows[n]["cpu_milli"]), int(rows[n]["memory_mib"]), int(rows[n]["gpu"]),
             rows[n]["model"])
        for n in sorted(rng.permutation(len(rows))[: len(rows) // 8])
    ]  # fmt: skip
    models, lives = {host.model for host in hosts}, []
    for row in _rows("openb_pod_list_default.csv"):
        start, end = float(row["creation_time"]), float(row["deletion_time"])
        if start < EARLIEST_S:
            continue
        cards = int(row["num_gpu"])
        asked = Asked(int(row["cpu_milli"]), int(row["memory_mib"]), cards,
                      int(row["gpu_milli"]) if cards else CARD,
                      frozenset(row["gpu_spec"].split("|")) & models)  # fmt: skip
        lives.append(Life(start, end, asked))
    return hosts, _faster(hosts, lives)


def philly(seed: int) -> Site:
    """Jobs of Philly, a tenth of them left out, on 40 hosts of 8 cards; cores in proportion."""
    rng = np.random.default_rng(seed)
    hosts, lives = [Host(96_000, 512 * GIB, MOST_CARDS)] * 40, []
    for row in _rows("muri_trace2.csv"):
        start, cards = float(row["submit_time"]) / 1000, int(row["num_gpu"])
        if cards <= MOST_CARDS and rng.random() > 0.1:
            asked = Asked(cards * 12_000, cards * 60 * GIB, cards)
            lives.append(Life(start, start + float(row["duration"]) / 1000, asked))
    return hosts, _faster(hosts, lives)


def dlrm(seed: int) -> Site:
    """Instances of recommendation services on 130 hosts, every second one with 8 cards."""
    hosts = [Host(192_000, 768 * GIB, MOST_CARDS * (n % 2)) for n in range(130)]
    rows, lives = _rows("disaggregated_DLRM_trace.csv"), []
    last = max(float(row["deletion_time"] or 0) for row in rows)
    for row in rows:
        start, end = float(row["creation_time"] or 0), float(row["deletion_time"] or last)
        memory = round(float(row["memory_request"]) * GIB)
        asked = Asked(int(row["cpu_request"]) * 1000, memory, int(row["gpu_request"]))
        if end > start:
            lives.append(Life(start, end, asked))
    return hosts, _thinned(hosts, lives, seed)


def azure(seed: int, hosts: list[Host]) -> Site:
    """Virtual machines of Azure V1; a lifetime is drawn from its recorded interval."""
    rng = np.random.default_rng(seed)
    interval, flavors, lives = defaultdict[int, list[int]](list), {}, []
    for line in (FOLDER / "v1.interval_map.txt").read_text().splitlines():
        seconds, number = map(int, line.split())
        interval[number].append(seconds)
    for line in (FOLDER / "flav_map.txt").read_text().splitlines():
        size, letter = line.split()
        cores, gib = map(float, size.split(","))
        flavors[letter] = Asked(round(cores * 1000), round(gib * GIB))
    texts = [(FOLDER / name).read_text() for name in ("v1.test.txt", "v1.test.c2591400.txt")]
    for lines in zip(*map(str.splitlines, texts), strict=True):
        (at, letters), (_, ages) = (line.strip().split(" ", 1) for line in lines)
        for letter, age in zip(letters.split(","), ages.split(","), strict=True):
            if letter in flavors:  # others separate the requests of one customer
                some = interval[int(age[1:])]
                start = float(at) + STEP_S * rng.random()
                life = rng.uniform(max(some[0] - STEP_S, 0), some[-1]) + LEAST_S
                lives.append(Life(start, start + life, flavors[letter]))
    return hosts, _thinned(hosts, lives, seed)


def _load(hosts: Sequence[Host], lives: Sequence[Life]) -> float:
    """Return the offered load of the scarcest resource, until the last arrival."""
    amounts, totals, scarcest = _amounts(hosts, lives)
    first, last = lives[0].start, lives[-1].start
    hours = np.array([min(one.end, last) - one.start for one in lives])
    load = hours @ amounts[:, scarcest] / totals[scarcest] / (last - first)
    return float(load)


def _thinned(hosts: Sequence[Host], lives: list[Life], seed: int) -> list[Life]:
    """Return random requests with a load of about ``LOAD``, by arrival.

    Requests that arrive together are in random order.
    """
    rng = np.random.default_rng(seed)
    lives = sorted((lives[n] for n in rng.permutation(len(lives))), key=lambda one: one.start)
    drawn = rng.random(len(lives)) < LOAD / _load(hosts, lives)
    return [one for one, keep in zip(lives, drawn, strict=True) if keep]


def _faster(hosts: Sequence[Host], lives: list[Life]) -> list[Life]:
    """Return the same requests with faster arrivals, for a load of about ``LOAD``."""
    lives.sort()
    first, found, low, high = lives[0].start, lives, 1e-3, 1.0
    for _ in range(12):
        factor = math.sqrt(low * high)
        found = [
            Life(at := first + (one.start - first) * factor, at + one.end - one.start, one.asked)
            for one in lives
        ]
        low, high = (factor, high) if _load(hosts, found) > LOAD else (low, factor)
    return found


SITES: dict[str, Callable[[int], Site]] = {
    "DLRM services": dlrm,
    "Azure, hosts of 16 cores": lambda seed: azure(seed, [Host(16_000, 64 * GIB)] * 48),
    "Azure, hosts of 64 cores": lambda seed: azure(seed, [Host(64_000, 192 * GIB)] * 16),
    "openb": openb,
    "Philly": philly,
}


def living() -> Iterator[Measurement]:
    """No shipped policy loses 2 points more than the best plain rule, in requests or in hours.

    A site has the loss of requests, and of unit-hours of the scarcest resource, by policy and by
    rule, with an upper bound. Further lines have the refused requests by reason, and the standard
    error of the difference between policy ``default`` and the best rule.
    """
    missing = [name for name in FILES if not (FOLDER / name).is_file()]
    if missing:
        sys.stderr.write(
            f"living: skipped, no {missing[0]} in {FOLDER}: name its folder in {VARIABLE}\n"
        )
        return
    who = (*POLICIES, *RULES, CEILING)
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        names = list(SITES)[:MOST_SITES]
        found = workers.map(_result, itertools.product(names, who, SEEDS))
        for name in names:
            results = {one: [next(found) for _ in SEEDS] for one in who}
            behind = dict.fromkeys(POLICIES, 100.0)
            for measure in Served._fields:
                lost = {
                    one: [100.0 - getattr(result.served, measure) for result in some]
                    for one, some in results.items()
                }
                means = {one: statistics.mean(some) for one, some in lost.items()}
                best = min(RULES, key=means.__getitem__)
                for one, value in means.items():
                    yield _line(f"{name}, {measure}, {one}, lost", value, means[best])
                for one in POLICIES:
                    behind[one] = min(behind[one], means[one] - means[best])
                pairs = zip(lost["default"], lost[best], strict=True)
                error = standard_error([ours - theirs for ours, theirs in pairs])
                line = f"living: {name}, {measure}, standard error"
                yield against(line, error, MOST_ERROR, 1.0, "points")
            for one, points in behind.items():
                line = f"living: {name}, {one} behind the best rule"
                yield against(line, points, EQUAL, 1.0, "points")
            for one, reason in itertools.product((*POLICIES, *RULES), REASONS):
                some = [result.refused.get(reason, 0.0) for result in results[one]]
                if any(some):
                    line = f"{name}, {one}, refused, {reason}"
                    yield _line(line, statistics.mean(some), 100.0)


def _result(task: tuple[str, str, int]) -> Result:
    """Return the result of a policy or a rule on a site with one seed, or the upper bound."""
    name, who, seed = task
    hosts, lives = SITES[name](seed)
    if who == CEILING:
        return Result(ceiling(hosts, lives), {})
    return live(hosts, lives, RULES[who]() if who in RULES else Trace(who), seed)


def _line(name: str, percent: float, probe: float) -> Measurement:
    """Return a percentage with its ratio to the percentage of the best rule."""
    value, least = max(percent, LEAST_LOST), max(probe, LEAST_LOST)
    return against(f"living: {name}", value, least, 1.0 + EQUAL / least, "%")
