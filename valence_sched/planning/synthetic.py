# SPDX-License-Identifier: Apache-2.0
"""Synthetic workloads: Poisson arrivals of a mix of flavors, exponential lifetimes, from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
from msgspec import structs

from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.flavor import Flavor
from valence_sched.model.request import Request
from valence_sched.model.request_spec import compile_request
from valence_sched.model.workload import SyntheticSpec, WorkloadEntry, WorkloadLine
from valence_sched.planning.workload import NO_CHOICE, PolicyChoice

CHUNK = 4096  # requests that are drawn at once
DECIMALS = 3  # of times in seconds


class SyntheticWorkload:
    """Requests drawn by a seed: the same seed and the same numbers give the same requests."""

    name = "synthetic"

    def __init__(self, spec: SyntheticSpec) -> None:
        self._spec = spec

    def place(self, number: int) -> str:
        """Return which request it is, as an error names it."""
        return f"{self.name} request {number}"

    def entries(
        self, flavors: Mapping[str, Flavor], policies: PolicyChoice = NO_CHOICE
    ) -> Iterator[WorkloadEntry]:
        """Yield the requests in the order of their arrival, compiled with these flavors.

        Raises:
            UnknownName: the mix names an unknown flavor.
            UsageError: none arrives before the horizon.
        """
        requests = [self._request(name, flavors, policies) for name in self._spec.mix]
        return self._drawn(requests)

    def with_seed(self, seed: int) -> SyntheticWorkload:
        """Return the workload that is drawn by another seed."""
        return SyntheticWorkload(structs.replace(self._spec, seed=seed))

    def digest(self) -> bytes:
        """Return what two workloads have in common only if they are the same but for the seed."""
        spec = structs.replace(self._spec, seed=0)
        return hashlib.sha256(msgspec.json.encode(spec)).digest()  # the order of its mix counts

    def _request(self, name: str, flavors: Mapping[str, Flavor], policies: PolicyChoice) -> Request:
        if name not in flavors:
            raise UnknownName("flavor", name, flavors, "--mix")
        spec = WorkloadLine(flavor=name)
        return policies.applied(compile_request(spec, flavors[name]), spec, flavors[name])

    def _drawn(self, requests: list[Request]) -> Iterator[WorkloadEntry]:
        spec, random = self._spec, np.random.default_rng(self._spec.seed)
        weights = np.array([*spec.mix.values()])
        shares = weights / weights.sum()
        now, number = 0.0, 0
        while True:
            arrivals = now + np.cumsum(random.exponential(1.0 / spec.rate_per_s, CHUNK))
            picks = random.choice(len(requests), CHUNK, p=shares)
            lifetimes = random.exponential(spec.lifetime_s or 1.0, CHUNK)
            now = float(arrivals[-1])
            rows = (arrivals.round(DECIMALS), picks, (arrivals + lifetimes).round(DECIMALS))
            for arrival, pick, departure in zip(*(row.tolist() for row in rows), strict=True):
                if arrival > spec.horizon_s:
                    if not number:
                        raise UsageError("no request arrives: raise --rate or --horizon")
                    return
                number += 1
                leaves = departure if spec.lifetime_s is not None else None
                yield WorkloadEntry(arrival, leaves, requests[pick], number)
