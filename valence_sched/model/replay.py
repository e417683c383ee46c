# SPDX-License-Identifier: Apache-2.0
"""Replays and sweeps: the results of a workload on sites, by policy and seed, and measures."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from valence_sched.errors import UnknownName, is_not, must_be
from valence_sched.model.codec import DocumentHead, check_schema, decode, refuse_duplicate_keys
from valence_sched.model.decision import FunnelStep, InventorySummary, ReasonGroup
from valence_sched.model.need import ACCELERATORS
from valence_sched.model.quantity import as_number

SCHEMA = "valence-sched/replay"
VERSION = "1.0"
Better = Literal["higher", "lower"]
#: The better direction of a measure on the same workload; other measures have no better direction.
_BETTER: dict[str, Better] = {"placed": "higher", "refused": "lower", "undecided": "lower"}
_BETTER |= {"fragmentation": "lower", "podms_per_node": "lower", "cost_per_node": "lower"}
#: A run that placed fewer nodes is never better by these measures.
_PER_NODE = ("podms_per_node", "cost_per_node")
_SHARES = ("utilisation", "peak_utilisation", "fragmentation", "imbalance")
MOST_SEEDS = 1_000_000
_SEEDS = re.compile(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?")
Samples = Mapping[str, Mapping[int, float]]  # by variation and seed
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31)


class NodeCount(Struct, frozen=True, kw_only=True):
    """The numbers of nodes of one flavor, None for properties without a flavor."""

    flavor: str | None
    requested: int
    placed: int
    refused: int
    undecided: int


class Refusal(Struct, frozen=True, kw_only=True):
    """The number of nodes of a flavor refused at a filter of the funnel, or at ``fit``."""

    flavor: str | None
    step: str
    nodes: int


class FirstRefusal(Struct, frozen=True, kw_only=True):
    """The first refused request of a flavor, ``time_s`` after the first arrival, with reasons."""

    flavor: str | None
    line: int
    time_s: float
    funnel: tuple[FunnelStep, ...]
    reasons: tuple[ReasonGroup, ...]


class Utilisation(Struct, frozen=True, kw_only=True):
    """The share of a resource that is in use or unusable: mean over time and peak, 0 to 1.

    ``total`` is its amount, in the unit of its name.
    """

    total: float
    mean: float
    peak: float


class Fragmentation(Struct, frozen=True, kw_only=True):
    """The share of the free amount of a resource that the mix of flavors cannot use."""

    resource: str
    mean: float
    peak: float

    @property
    def measure(self) -> str:
        """The name of the measure; the names of other resources than accelerators are added."""
        return "fragmentation" + f".{self.resource}" * (self.resource != ACCELERATORS)


class Imbalance(Struct, frozen=True, kw_only=True):
    """The standard deviation of use over pod managers and over pools: means over time, 0 to 0.5.

    The use of a pod manager or pool is the use of its most used resource.
    """

    podms: float
    pools: float


class NodeSpread(Struct, frozen=True, kw_only=True):
    """Nodes per pod manager in use: the mean over time, the maximum, and the total ``placed``."""

    mean: float
    most: int
    placed: dict[str, int]


class ReplaySeries(Struct, frozen=True, kw_only=True):
    """A replay over time, in buckets of ``bucket_s`` seconds from the first arrival.

    ``used`` and ``fragmentation`` are shares, ``nodes`` and ``podms`` the numbers in use. They are
    means over the bucket, but ``fragmentation`` is the value at its end. The other fields are
    counts.
    """

    bucket_s: float
    used: dict[str, tuple[float, ...]]
    nodes: tuple[float, ...]
    podms: tuple[float, ...]
    fragmentation: tuple[float, ...] | None
    requested: tuple[int, ...]
    placed: tuple[int, ...]
    refused: tuple[int, ...]
    undecided: tuple[int, ...]


class ReplayResult(Struct, frozen=True, kw_only=True):
    """The result of a workload on one site under one policy; equal inputs give equal bytes.

    ``policy`` is the policy of all requests, None if each request has its own. Numbers of nodes are
    over all requests: ``placed + refused + undecided = requested``. All means are over the time
    from the first arrival to the last, which is ``duration_s``; nodes that depart later are in use
    until the last arrival. ``podms_needed`` is the largest number of pod managers that had nodes at
    the same time. ``cost`` is the sum of ``price × hours with nodes`` over the pod managers, where
    the fact ``price`` is per hour; None if no pod manager has a price.
    """

    site: str
    policy: str | None
    inventory: InventorySummary
    requests: int
    requested: int
    placed: int
    refused: int
    undecided: int
    departed: int
    duration_s: float
    peak_nodes: int
    podms_needed: int
    spread: NodeSpread
    imbalance: Imbalance | None = None
    utilisation: dict[str, Utilisation]
    fragmentation: Fragmentation | None
    cost: float | None
    by_flavor: tuple[NodeCount, ...]
    refusals: tuple[Refusal, ...]
    first_refusals: tuple[FirstRefusal, ...]
    series: ReplaySeries
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.site if self.policy is None else f"{self.site}/{self.policy}"


class Replay(Struct, frozen=True, kw_only=True):
    """One workload, replayed on sites and under policies: a run for each pair."""

    schema: str = SCHEMA
    version: str = VERSION
    workload: str
    runs: tuple[ReplayResult, ...]


def parse_replay(data: bytes, file: str) -> tuple[Replay, list[str]]:
    """Parse a replay document, with warnings; errors as of :func:`decode_document`."""
    head = decode(data, DocumentHead, file)
    warnings = check_schema(head.schema, head.version, SCHEMA, VERSION, file)
    refuse_duplicate_keys(data, file)
    return decode(data, Replay, file), warnings


class MeasureChange(Struct, frozen=True, kw_only=True):
    """A measure of a run that differs from the baseline by more than its tolerance.

    ``before`` or ``after`` is None if the run lacks the measure. If the whole run is missing,
    ``measure`` is ``run``.
    """

    run: str
    measure: str
    before: float | None
    after: float | None


def measures(result: ReplayResult) -> dict[str, float | None]:
    """Return the measures of a run by name, in the order in which they are shown."""
    utilisation, placed, cost = result.utilisation.items(), result.placed, result.cost
    useless = result.fragmentation
    counts = ("requested", "placed", "refused", "undecided")
    return {
        **{name: getattr(result, name) for name in counts},
        **{f"utilisation.{name}": one.mean for name, one in utilisation},
        **{f"peak_utilisation.{name}": one.peak for name, one in utilisation},
        useless.measure if useless else "fragmentation": useless.mean if useless else None,
        "imbalance.podms": None if result.imbalance is None else result.imbalance.podms,
        "imbalance.pools": None if result.imbalance is None else result.imbalance.pools,
        "podms_needed": result.podms_needed,
        "nodes_per_podm": result.spread.mean,
        "most_on_one_podm": result.spread.most,
        "cost": cost,
        "podms_per_node": result.podms_needed / placed if placed else None,
        "cost_per_node": cost / placed if placed and cost is not None else None,
    }


def is_share(measure: str) -> bool:
    """Return whether a measure is a number from 0 to 1."""
    return measure.partition(".")[0] in _SHARES


def better_direction(measure: str) -> Better | None:
    return _BETTER.get(measure.partition(".")[0])


def check_measure_names(names: Iterable[str], replay: Replay) -> None:
    """Raise UnknownName for a name that is neither a measure nor a group of measures."""
    known = {name for run in replay.runs for name in _independent(run)}
    known |= {name.partition(".")[0] for name in known}
    for name in names:
        if name not in known:
            raise UnknownName("measure", name, known, "--tolerance")


def changes(
    baseline: Replay, replay: Replay, tolerance: float, tolerances: Mapping[str, float]
) -> list[MeasureChange]:
    """Return the measures that differ by more than a share; 0.05 tolerates 95 to 105 for 100."""
    before = {run.name: run for run in baseline.runs}
    after = {run.name: run for run in replay.runs}
    found = []
    for name in dict.fromkeys((*before, *after)):
        old: dict[str, float | None] = {"run": 1.0} if name in before else {}
        new: dict[str, float | None] = {"run": 1.0} if name in after else {}
        if old and new:
            old, new = _independent(before[name]), _independent(after[name])
        for measure in dict.fromkeys((*old, *new)):
            group = measure.partition(".")[0]
            allowed = tolerances.get(measure, tolerances.get(group, tolerance))
            was, now = old.get(measure), new.get(measure)
            differs = was is not now
            if was is not None and now is not None:
                differs = abs(now - was) > allowed * abs(was) + 1e-9
            if differs:
                found.append(MeasureChange(run=name, measure=measure, before=was, after=now))
    return found


def _independent(run: ReplayResult) -> dict[str, float | None]:
    """Return the measures except derived measures and imbalance, which older results lack."""
    derived = ("imbalance", *_PER_NODE)
    return {name: it for name, it in measures(run).items() if not name.startswith(derived)}


class SweepKey(NamedTuple):
    """The key of a run of a sweep; ``policy`` is None if each request has its own."""

    scenario: str
    policy: str | None
    seed: int

    @property
    def variation(self) -> str:
        return self.scenario if self.policy is None else f"{self.scenario}/{self.policy}"


class SweepRun(Struct, frozen=True, kw_only=True):
    """One run of a sweep and its measures by name, None if unknown.

    ``question`` is the digest of inventories, policies, flavors and workload.
    """

    question: str
    scenario: str
    policy: str | None
    seed: int
    requests: int
    departed: int
    duration_s: float
    measures: dict[str, int | float | None]

    @property
    def key(self) -> SweepKey:
        return SweepKey(self.scenario, self.policy, self.seed)

    @property
    def variation(self) -> str:
        return self.key.variation

    def cells(self) -> dict[str, str | int | float | None]:
        names = self.__struct_fields__[1:-1]
        return {**{name: getattr(self, name) for name in names}, **self.measures}


class MeasureComparison(Struct, frozen=True, kw_only=True):
    """A measure over the seeds of each variation: mean and standard error, None if unknown.

    ``best`` is the variation that is significantly better than every other variation, if any.
    """

    measure: str
    means: dict[str, float | None]
    errors: dict[str, float | None]
    best: str | None

    @property
    def is_unclear(self) -> bool:
        """Whether no difference between variations is significant."""
        values = {round(one, 4) for one in self.means.values() if one is not None}
        better = better_direction(self.measure)
        return better is not None and self.best is None and len(values) > 1


def compare_seeds(runs: Iterable[SweepRun]) -> list[MeasureComparison]:
    """Compare the variations of a sweep, measure by measure, by a paired test over seeds."""
    every = list(runs)
    variations = dict.fromkeys(run.variation for run in every)

    def by_variation(name: str) -> dict[str, dict[int, float]]:
        found: dict[str, dict[int, float]] = {one: {} for one in variations}
        for run in every:
            if (value := run.measures.get(name)) is not None:
                found[run.variation][run.seed] = value
        return found

    placed, compared = by_variation("placed"), []
    for name in dict.fromkeys(name for run in every for name in run.measures):
        values, better = by_variation(name), better_direction(name)
        compared.append(
            MeasureComparison(
                measure=name,
                means={one: fmean(it.values()) if it else None for one, it in values.items()},
                errors={one: standard_error(list(it.values())) for one, it in values.items()},
                best=_best(values, better, placed if name in _PER_NODE else {}),
            )
        )
    return compared


def _best(values: Samples, better: Better | None, placed: Samples) -> str | None:
    known = {name: found for name, found in values.items() if found}
    if better is None or len(known) < 2:
        return None
    sign = 1 if better == "higher" else -1
    leader = max(known, key=lambda name: sign * fmean(known[name].values()))
    others = known.keys() - {leader}
    clear = all(_is_clear(known[leader], known[other], sign) for other in others)
    fewer = any(_is_clear(placed[other], placed[leader], 1) for other in others if placed)
    return leader if clear and not fewer else None


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean, None for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _is_clear(one: Mapping[int, float], other: Mapping[int, float], sign: int) -> bool:
    """Return whether ``one`` is above ``other`` (``sign`` -1: below) in a paired 95 % test."""
    differences = [sign * (one[seed] - other[seed]) for seed in one if seed in other]
    error, freedom = standard_error(differences), len(differences) - 1
    if error is None:
        return False
    # the 0.975 quantile of Student's t; above 8 degrees of freedom an expansion, exact to 0.01
    expansion = 1.96 + 2.37 / freedom + 2.82 / freedom**2
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else expansion
    return fmean(differences) > student * error


def sweep_run_of(result: ReplayResult, question: str, seed: int) -> SweepRun:
    """Return the run of a replay with a seed."""
    names = ("policy", "requests", "departed", "duration_s")
    same: dict[str, Any] = {name: getattr(result, name) for name in names}
    same |= {"scenario": result.site, "seed": seed, "measures": measures(result)}
    return SweepRun(question=question, **same)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse ``7``, ``1..20`` or ``1..3,8``, sorted; ValueError for other texts and too many."""
    seeds: set[int] = set()
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise must_be("a seed such as 7 or a range such as 1..20", part)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part[:40]!r} has no seed: write the lower seed first")
        if last - first + len(seeds) >= MOST_SEEDS:
            raise ValueError(f"{text[:40]!r} has over {MOST_SEEDS:,} seeds")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))


def parse_tolerance(text: str) -> tuple[str | None, float]:
    """Parse ``5``, ``5%`` or ``MEASURE=5`` into a share."""
    name, equals, number = text.rpartition("=")
    percent = as_number(number.strip().removesuffix("%"))
    if percent < 0:
        raise must_be("a percentage of at least 0", text)
    if not 0 <= percent < math.inf or (equals and not name.strip()):
        raise is_not("a percentage, such as 5, 5% or placed=5", text[:40])
    return (name.strip() or None), percent / 100
