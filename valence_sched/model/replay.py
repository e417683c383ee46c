# SPDX-License-Identifier: Apache-2.0
"""Replays and sweeps: what became of a workload on sites, by policy and seed, and its measures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from valence_sched.errors import UnknownName
from valence_sched.model.codec import DocumentHead, check_schema, decode
from valence_sched.model.decision import FunnelStep, InventorySummary, Reason

SCHEMA = "valence-sched/replay"
VERSION = "1.0"


class NodeCount(Struct, frozen=True, kw_only=True):
    """How many nodes of one flavor were requested and placed; ``requested`` is the sum of the rest.

    ``flavor`` is None for requests with properties of their own.
    """

    flavor: str | None
    requested: int
    placed: int
    refused: int
    undecided: int


class Refusal(Struct, frozen=True, kw_only=True):
    """How many nodes of a flavor were refused at one step of the funnel: there the last pools went.

    ``step`` is the name of a filter, or ``fit`` where the blocks of a pool do not make the node.
    """

    flavor: str | None
    step: str
    nodes: int


class ReasonGroup(Struct, frozen=True, kw_only=True):
    """How many pod managers were rejected for one reason, and the one that came nearest."""

    podms: int
    nearest: str
    reason: Reason | None


class FirstRefusal(Struct, frozen=True, kw_only=True):
    """Why the first request of a flavor was refused: its line, the funnel, the reasons.

    ``time_s`` is how many seconds after the first arrival it was.
    """

    flavor: str | None
    line: int
    time_s: float
    funnel: tuple[FunnelStep, ...]
    reasons: tuple[ReasonGroup, ...]


class Utilisation(Struct, frozen=True, kw_only=True):
    """The share of a resource that no further node can have: mean over time and peak, from 0 to 1.

    Nodes have it, or it cannot be used. ``total`` is all there is, in the unit of its name.
    """

    total: float
    mean: float
    peak: float


class Fragmentation(Struct, frozen=True, kw_only=True):
    """The share of the free amount of a resource that the mix of flavors has no use for."""

    resource: str
    mean: float
    peak: float


class NodeSpread(Struct, frozen=True, kw_only=True):
    """Nodes per pod manager: the mean over time of those that have any, and the most on one.

    ``placed`` is how many nodes of the workload each one took in all.
    """

    mean: float
    most: int
    placed: dict[str, int]


class ReplaySeries(Struct, frozen=True, kw_only=True):
    """What happened over time, in buckets of equal length; the last one may be shorter.

    Bucket ``i`` begins ``i × bucket_s`` seconds after the first arrival. ``used`` and
    ``fragmentation`` are shares, ``nodes`` and ``podms`` are those in use: means over the bucket,
    ``fragmentation`` its end. ``requested``, ``placed``, ``refused`` and ``undecided`` are counts.
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
    """What became of a workload on one site under one policy; the same inputs, the same bytes.

    ``policy`` is the one that all requests were decided by, None where each has its own. Numbers
    of nodes are over all requests: ``placed + refused + undecided = requested``. All means are
    over the time from the first arrival to the last, which is ``duration_s``; nodes that depart
    later are in use until then. ``podms_needed`` is how many pod managers had nodes at once, at
    most. ``cost`` is the sum over pod managers of their fact ``price``, which is that of an hour,
    times the hours in which they had nodes; None where no pod manager has a price.
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
    """Parse a written replay, with warnings; InputError for none, NewerSchema for a newer major."""
    head = decode(data, DocumentHead, file)
    warnings = check_schema(head.schema, head.version, SCHEMA, VERSION, file)
    return decode(data, Replay, file), warnings


Better = Literal["higher", "lower"]

#: Measures of which more, or less, is better on the same workload; of the others neither is.
_BETTER: dict[str, Better] = {
    "placed": "higher", "refused": "lower", "undecided": "lower", "fragmentation": "lower",
    "podms_needed": "lower", "cost": "lower",
}  # fmt: skip
_SHARES = ("utilisation", "peak_utilisation", "fragmentation")


class RunMeasure(Struct, frozen=True, kw_only=True):
    """One number of a run, None where the run has none: its name, and which is the better one.

    ``is_share`` says that the number is from 0 to 1.
    """

    name: str
    value: float | None
    better: Better | None
    is_share: bool


class MeasureChange(Struct, frozen=True, kw_only=True):
    """A measure of a run that differs from the baseline by more than is tolerated.

    ``before`` or ``after`` is None where there is no such number; of a run that only one of them
    has the measure is ``run``.
    """

    run: str
    measure: str
    before: float | None
    after: float | None


def measures(result: ReplayResult) -> list[RunMeasure]:
    """Return the measures of a run, in the order in which they are shown."""
    fragmentation = result.fragmentation.mean if result.fragmentation else None
    utilisation = result.utilisation.items()
    numbers: dict[str, float | None] = {
        "requested": result.requested,
        "placed": result.placed,
        "refused": result.refused,
        "undecided": result.undecided,
        **{f"utilisation.{name}": one.mean for name, one in utilisation},
        **{f"peak_utilisation.{name}": one.peak for name, one in utilisation},
        "fragmentation": fragmentation,
        "podms_needed": result.podms_needed,
        "nodes_per_podm": result.spread.mean,
        "most_on_one_podm": result.spread.most,
        "cost": result.cost,
    }
    return [run_measure(name, value) for name, value in numbers.items()]


def run_measure(name: str, value: float | None) -> RunMeasure:
    """Return a measure by its name, with what is known of all that have it."""
    group = name.partition(".")[0]
    return RunMeasure(name=name, value=value, better=_BETTER.get(group), is_share=group in _SHARES)


def best_runs(
    values: Mapping[str, float | None], better: Better | None, decimals: int = 2
) -> frozenset[str]:
    """Return the runs with the better value, rounded to ``decimals``; none where all are equal."""
    known = {run: round(value, decimals) for run, value in values.items() if value is not None}
    if better is None or len(set(known.values())) < 2:
        return frozenset()
    best = max(known.values()) if better == "higher" else min(known.values())
    return frozenset(run for run, value in known.items() if value == best)


def check_measure_names(names: Iterable[str], replay: Replay) -> None:
    """Refuse a name that is no measure of any run, nor the beginning of one: UnknownName."""
    known = {one.name for run in replay.runs for one in measures(run)}
    known |= {name.partition(".")[0] for name in known}
    for name in names:
        if name not in known:
            raise UnknownName("measure", name, known, "--tolerance")


def changes(
    baseline: Replay, replay: Replay, tolerance: float, tolerances: Mapping[str, float]
) -> list[MeasureChange]:
    """Return what differs from a baseline by more than its share of the earlier value.

    ``tolerances`` are by measure, or by the part of its name before the dot; of all others it is
    ``tolerance``. Worked example: 0.05 tolerates 95 to 105 where it was 100, and where it was 0
    nothing else.
    """
    before = {run.name: run for run in baseline.runs}
    after = {run.name: run for run in replay.runs}
    found = []
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            presence = (1.0 if name in before else None, 1.0 if name in after else None)
            found.append(_change(name, "run", *presence))
            continue
        old, new = ({one.name: one.value for one in measures(run[name])} for run in (before, after))
        for measure in dict.fromkeys((*old, *new)):
            group = measure.partition(".")[0]
            allowed = tolerances.get(measure, tolerances.get(group, tolerance))
            if _differs(old.get(measure), new.get(measure), allowed):
                found.append(_change(name, measure, old.get(measure), new.get(measure)))
    return found


def _differs(before: float | None, after: float | None, tolerance: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > tolerance * abs(before) + 1e-9


def _change(run: str, measure: str, before: float | None, after: float | None) -> MeasureChange:
    return MeasureChange(run=run, measure=measure, before=before, after=after)


MOST_SEEDS = 1_000_000
_SEEDS = re.compile(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?")


class SweepKey(NamedTuple):
    """Which run of a sweep it is; ``policy`` is None where each request has its own."""

    scenario: str
    policy: str | None
    seed: int

    @property
    def order(self) -> tuple[str, str, int]:
        return (self.scenario, self.policy or "", self.seed)


class SweepRun(Struct, frozen=True, kw_only=True):
    """One run of a sweep: its measures by name, None for one that the run has no number of.

    ``question`` is the digest of what all runs of the sweep are about: inventories, policies,
    flavors and workload.
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

    def cells(self) -> dict[str, str | int | float | None]:
        return {
            "scenario": self.scenario,
            "policy": self.policy,
            "seed": self.seed,
            "requests": self.requests,
            "departed": self.departed,
            "duration_s": self.duration_s,
            **self.measures,
        }


def to_line(run: SweepRun) -> bytes:
    """Return a run as a line of JSON Lines; its measures keep their order."""
    return msgspec.json.encode(run) + b"\n"


def sweep_run_of(result: ReplayResult, question: str, seed: int) -> SweepRun:
    """Return the record of a replay that was made with a seed."""
    return SweepRun(
        question=question,
        scenario=result.site,
        policy=result.policy,
        seed=seed,
        requests=result.requests,
        departed=result.departed,
        duration_s=float(result.duration_s),
        measures={one.name: one.value for one in measures(result)},
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse ``7``, ``1..20`` or ``1..3,8``, sorted; ValueError for others and over a million."""
    seeds: set[int] = set()
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part[:40]!r} is no seed such as 7, nor a range such as 1..20")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part[:40]!r} has no seed: name the lower one first")
        if last - first + len(seeds) >= MOST_SEEDS:
            raise ValueError(f"{text[:40]!r} has over {MOST_SEEDS:,} seeds")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))
