# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the runs of one workload over scenarios, policies and seeds, a record for each."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Struct

from valence_sched.model.replay import ReplayResult
from valence_sched.model.replay_measures import measures

MOST_SEEDS = 1_000_000
_SEEDS = re.compile(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?")


class SweepKey(NamedTuple):
    """Which run of a sweep it is; ``policy`` is None where each request has its own."""

    scenario: str
    policy: str | None
    seed: int

    @property
    def order(self) -> tuple[str, str, int]:
        """Return what keys are sorted by."""
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
        """Return which run it is."""
        return SweepKey(self.scenario, self.policy, self.seed)

    def cells(self) -> dict[str, str | int | float | None]:
        """Return the run as one flat row: the columns of a table, with their values."""
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
    """Parse ``7``, ``1..20`` or ``1..3,8``; the seeds are sorted, each once.

    Raises:
        ValueError: it is none of these, a range has no seed, or there are over a million.
    """
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
