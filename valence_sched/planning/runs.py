# SPDX-License-Identifier: Apache-2.0
"""Runs: one workload, replayed on several sites and under several policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.replay import Replay, ReplayResult
from valence_sched.planning.replay import Progress, ReplayRun
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.workload import PolicyChoice, Workload

#: Called before each run with its name, and returns what is called with its requests so far.
RunProgress = Callable[[str], Progress]


def replay_all(
    sites: Sequence[Site],
    policies: Sequence[str],
    workload: Workload,
    progress: RunProgress,
    *,
    strict: bool = False,
) -> Replay:
    """Replay a workload on every site under every policy.

    Without ``policies`` every request is decided by its own, or by that of the site.

    Raises:
        UnknownName: a site does not have a policy.
        SchedulerError: as for the workload, and for a decision; its requests are named by place.
    """
    check_runs(sites, policies)
    names: Sequence[str | None] = [*dict.fromkeys(policies)] or [None]
    runs = (replay_one(site, policy, workload, progress, strict=strict)
            for site in sites for policy in names)  # fmt: skip
    return Replay(workload=workload.name, runs=tuple(runs))


def check_runs(sites: Sequence[Site], policies: Sequence[str]) -> None:
    """Refuse a policy that a site does not have, and two sites of one name.

    Raises:
        UnknownName, UsageError: for these.
    """
    for site in sites:
        for policy in policies:
            if policy not in site.policies:
                raise UnknownName("policy", policy, site.policies)
    names = [site.name for site in sites]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two scenarios are called {twice!r}: name them differently")


def replay_one(
    site: Site,
    policy: str | None,
    workload: Workload,
    progress: RunProgress = lambda run: lambda requests: None,
    *,
    strict: bool = False,
) -> ReplayResult:
    """Replay a workload on one site, under one policy or those of the requests.

    Raises:
        SchedulerError: as for the workload, and for a decision; its requests are named by place.
    """
    name = site.name if policy is None else f"{site.name}/{policy}"
    entries = workload.entries(site.flavors, PolicyChoice(policy, site.policy))
    succession = Succession(site.decider(strict=strict))
    run = ReplayRun(succession, site.mix(), workload.place, progress(name))
    return run.run(entries, site.name, policy)
