# SPDX-License-Identifier: Apache-2.0
"""Sweep: one workload on scenarios, under policies and with seeds; runs in any order, or at once.

A run is the same wherever it is made: it has its site, its policy and its seed, and nothing of the
runs before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from valence_sched.errors import SchedulerError
from valence_sched.model.inventory import to_json
from valence_sched.model.sweep import SweepKey, SweepRun, sweep_run_of
from valence_sched.planning.compiled_workload import CompiledWorkload, compile_workload
from valence_sched.planning.runs import check_runs, replay_one
from valence_sched.planning.site import Site
from valence_sched.planning.synthetic import SyntheticWorkload
from valence_sched.planning.workload import Workload

#: A workload that another process can replay.
PortableWorkload = CompiledWorkload | SyntheticWorkload


class SweepTask(NamedTuple):
    """One run to be made: all that another process needs for it."""

    site: Site
    policy: str | None
    seed: int
    workload: PortableWorkload
    question: str
    strict: bool


class Workers(Protocol):
    """What makes runs: it yields the results of tasks in the order in which they finish."""

    def __call__(
        self, run: Callable[[SweepTask], SweepRun], tasks: Iterable[SweepTask]
    ) -> Iterator[SweepRun]: ...


class Sweep:
    """The runs of a workload on sites, under policies and with seeds.

    Without ``policies`` every request is decided by its own, or by that of the site. A synthetic
    workload is drawn by the seed; the requests of a file are decided with it.

    Raises:
        UnknownName: a site does not have a policy.
        UsageError: two sites have one name.
        SchedulerError: as of the workload.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        policies: Sequence[str],
        seeds: Sequence[int],
        workload: Workload,
        *,
        strict: bool = False,
    ) -> None:
        check_runs(sites, policies)
        self._sites = {site.name: site for site in sites}
        self._strict = strict
        self._workloads = _portable(workload, sites)
        names: Sequence[str | None] = policies or (None,)
        keys = {SweepKey(site.name, policy, seed)
                for site in sites for policy in names for seed in seeds}  # fmt: skip
        self.keys = sorted(keys, key=lambda key: key.order)
        self.question = self._question()

    def run(
        self, workers: Workers, finished: Iterable[SweepRun], record: Callable[[SweepRun], None]
    ) -> list[SweepRun]:
        """Make the runs that are not ``finished``; return all, in the order of their keys.

        ``record`` is called with each when it finishes, in whatever order that is.

        Raises:
            SchedulerError: as of a replay, or of the workers; those recorded are finished.
        """
        wanted = set(self.keys)
        runs = {one.key: one for one in finished if one.key in wanted}
        for one in workers(sweep_run, self._tasks([key for key in self.keys if key not in runs])):
            runs[one.key] = one
            record(one)
        if missing := len(self.keys) - len(runs):
            raise SchedulerError(f"{missing:,} runs were not made: repeat the sweep")
        return [runs[key] for key in self.keys]

    def _tasks(self, keys: Iterable[SweepKey]) -> Iterator[SweepTask]:
        for key in keys:
            workload = self._workloads[key.scenario].with_seed(key.seed)
            site = self._sites[key.scenario]
            yield SweepTask(site, key.policy, key.seed, workload, self.question, self._strict)

    def _question(self) -> str:
        """Return the digest of the sites and of what they are asked, but for policies and seeds.

        These are in the key of each run, so that a sweep can be continued with more of them.
        """
        digest = hashlib.sha256(b"strict" if self._strict else b"")
        for name in sorted(self._sites):
            site = self._sites[name]
            policies, flavors = list(site.policies.values()), list(site.flavors.values())
            digest.update(to_json([name, site.policy, policies, flavors, site.skipped]))
            for podm in site.podms:
                digest.update(to_json(podm))
            digest.update(self._workloads[name].digest())
        return digest.hexdigest()[:32]


def sweep_run(task: SweepTask) -> SweepRun:
    """Make one run; errors as of a replay."""
    result = replay_one(task.site, task.policy, task.workload, strict=task.strict)
    return sweep_run_of(result, task.question, task.seed)


def _portable(workload: Workload, sites: Sequence[Site]) -> dict[str, PortableWorkload]:
    """Return the workload of each site; sites of the same flavors share one."""
    if isinstance(workload, SyntheticWorkload):
        return {site.name: workload for site in sites}
    found: dict[str, PortableWorkload] = {}
    compiled: list[tuple[Any, CompiledWorkload]] = []
    for site in sites:
        flavors = dict(site.flavors)
        one = next((one for known, one in compiled if known == flavors), None)
        if one is None:
            one = compile_workload(workload, flavors)
            compiled.append((flavors, one))
        found[site.name] = one
    return found
