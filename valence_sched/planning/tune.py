# SPDX-License-Identifier: Apache-2.0
"""Tune: finds the weights of a policy that serve a workload best, with a cross-validated gain.

The candidates are the weights of the policy, of the site's other policies, and variants with one
weight multiplied or divided by 4; a second round changes one weight of the best by a factor of 2.
Each candidate replays the samples of the workload. For each sample, the candidate that is best on
all *other* samples is compared with the policy; the gain is the mean of the differences.
"""

import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from msgspec import json, structs

from valence_sched.core.policy import bind, idle_readers
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import Policy
from valence_sched.model.replay import SweepRun
from valence_sched.model.request import Request
from valence_sched.planning.site import Site
from valence_sched.planning.sweep import PortableWorkload, SweepTask, Workers, sweep_run
from valence_sched.planning.workload import SyntheticWorkload, Workload, compile_workload
from valence_sched.words.planning import weights_text

FACTORS = (4.0, 2.0)  # of one weight, in the first round and in the second
MOST_WEIGHT, DIGITS = 1000.0, 3
DESCRIPTION = "Weights tuned for a recorded or expected workload."
CLEAR = 2.0  # a gain of more standard errors is clear

#: The measure to raise: placed nodes, or the mean use of the scarcest resource.
Goal = Literal["nodes", "use"]


@dataclass(frozen=True)
class PolicyTrial:
    """A policy with other weights, and the value of the goal on each sample, from 0 to 1."""

    policy: Policy
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.shares)

    @property
    def weights(self) -> dict[str, float]:
        uses = (self.policy.weighers[number] for number in weighers_that_take_part(self.policy))
        return {use.name: use.weight for use in uses}


BY_MEAN = operator.attrgetter("mean")


@dataclass(frozen=True)
class Tuning:
    """The candidates, the policy itself first, the ``best``, and the gain (0..1) with its error."""

    candidates: tuple[PolicyTrial, ...]
    best: PolicyTrial
    gain: float
    error: float

    @classmethod
    def of(cls, candidates: Sequence[PolicyTrial]) -> Self:
        gains = []  # on each sample, of the candidate that is best on the other samples
        for number, share in enumerate(candidates[0].shares):
            rest = [sum(one.shares[:number] + one.shares[number + 1 :]) for one in candidates]
            gains.append(candidates[rest.index(max(rest))].shares[number] - share)
        best = max(candidates, key=BY_MEAN)
        return cls(tuple(candidates), best, *_mean_and_error(gains))

    @property
    def is_clear(self) -> bool:
        return self.gain > max(CLEAR * self.error, 0.0) and self.best is not self.candidates[0]

    def lines(self, goal: Goal) -> Iterator[str]:
        """Yield the result, and the gain with its standard error."""
        name, samples = self.candidates[0].policy.name, len(self.best.shares)
        what = "nodes" if goal == "nodes" else "the scarcest resource"
        if self.is_clear:
            yield f"better than policy {name}: {weights_text(self.best.weights)}"
        else:
            yield f"no weights are clearly better than those of policy {name}"
        gain = f"{100 * self.gain:+.1f} ± {100 * self.error:.1f} points of {what}"
        yield f"gain: {gain}, cross-validated over {samples:,} samples"

    def gain_of(self, candidate: PolicyTrial) -> tuple[float, float]:
        """Return the mean gain of a candidate over the policy, and its standard error."""
        pairs = zip(candidate.shares, self.candidates[0].shares, strict=True)
        return _mean_and_error([own - base for own, base in pairs])


def tune(
    site: Site,
    policy: str,
    workload: Workload,
    samples: int,
    workers: Workers,
    goal: Goal = "nodes",
    record: Callable[[int], None] = lambda total: None,
    *,
    strict: bool = False,
) -> Tuning:
    """Replay and compare the candidates; ``record`` receives the planned total after each run.

    UnknownName: no such policy. UsageError: fewer than two weighers, or too few requests.
    """
    if policy not in site.policies:
        raise UnknownName("policy", policy, site.policies)
    base = site.policies[policy]
    varied = weighers_that_take_part(base)
    if len(varied) < 2:
        raise UsageError(f"policy {policy!r} has fewer than two weighers to compare")
    parts = workload_samples(workload, site, samples)
    known: dict[bytes, PolicyTrial] = {}  # by the JSON of the weighers
    resource: list[str] = []

    def share(run: SweepRun) -> float:
        if goal == "nodes":
            return (run.measures["placed"] or 0.0) / (run.measures["requested"] or 1.0)
        return run.measures[resource[0]] or 0.0

    def try_all(policies: Sequence[Policy], later: int = 0) -> None:
        keys = {to_json(one.weighers): one for one in policies}
        new = {f"{n}": one for n, (key, one) in enumerate(keys.items()) if key not in known}
        named = {name: structs.replace(one, name=name) for name, one in new.items()}
        own, total = replace(site, policies=named), (len(known) + len(new) + later) * samples
        tasks = [SweepTask(own, name, number, part, "", strict)
                 for name in new for number, part in enumerate(parts)]  # fmt: skip
        runs = dict[tuple[str | None, int], SweepRun]()
        for run in workers(sweep_run, tasks):
            runs[run.policy, run.seed] = run
            record(total)
        if goal == "use" and not resource:
            measures = runs["0", 0].measures.items()
            used = {it: n for it, n in measures if it.startswith("utilisation.") and n is not None}
            if not used:
                text = "the inventory has no resource whose use is measured"
                raise UsageError(f"--goal use: {text}")
            resource.append(max(used, key=used.__getitem__))
        for name, one in new.items():
            shares = tuple(share(runs[name, number]) for number in range(samples))
            known[to_json(one.weighers)] = PolicyTrial(one, shares)

    others = [structs.replace(base, weighers=one.weighers) for one in site.policies.values()
              if one.scheduler == base.scheduler == "filter" and one.weighers]  # fmt: skip
    first, second = FACTORS
    try_all([base, *others, *variants(base, varied, first)], later=2 * len(varied))
    center = max(known.values(), key=BY_MEAN).policy
    try_all([*variants(center, weighers_that_take_part(center), second)])
    return Tuning.of(list(known.values()))


def weighers_that_take_part(policy: Policy) -> list[int]:
    """Return the indices of the weighers that affect a request without optional fields."""
    idle = {one.name for one in idle_readers(Request(), bind(policy)) if one.kind == "weigher"}
    return [number for number, use in enumerate(policy.weighers)
            if use.weight and use.name not in idle]  # fmt: skip


def variants(policy: Policy, varied: Sequence[int], factor: float) -> Iterator[Policy]:
    for number in varied:
        use = policy.weighers[number]
        for weight in (use.weight * factor, use.weight / factor):
            rounded = min(round(weight, DIGITS), MOST_WEIGHT)
            if rounded:
                changed = structs.replace(use, weight=rounded)
                uses = (*policy.weighers[:number], changed, *policy.weighers[number + 1 :])
                yield structs.replace(policy, weighers=uses)


def workload_samples(workload: Workload, site: Site, samples: int) -> list[PortableWorkload]:
    if isinstance(workload, SyntheticWorkload):
        return [workload.with_seed(number) for number in range(samples)]
    return list(compile_workload(workload, site.flavors).parts(samples))


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return statistics.fmean(values), error


def policy_file(tuning: Tuning, name: str) -> bytes:
    best = structs.replace(tuning.best.policy, name=name, description=DESCRIPTION)
    return json.format(json.encode({"policies": [best]}), indent=2) + b"\n"
