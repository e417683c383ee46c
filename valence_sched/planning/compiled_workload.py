# SPDX-License-Identifier: Apache-2.0
"""Compiled workload: the requests of a file as arrays, which another process can replay."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import structs

from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import to_json
from valence_sched.model.request import Request
from valence_sched.model.workload import WorkloadEntry
from valence_sched.planning.workload import NO_CHOICE, PolicyChoice, Workload

OWN_POLICY = PolicyChoice(None, "")  # a request without a policy of its own gets none


class CompiledWorkload:
    """The requests of a workload, compiled with the flavors of one site.

    ``times`` has a row each of arrival, departure (NaN for nodes that stay), number of the request
    and line. ``places`` says how errors name a line.
    """

    def __init__(
        self,
        name: str,
        places: str,
        times: npt.NDArray[np.float64],
        requests: tuple[Request, ...],
    ) -> None:
        self.name = name
        self._places, self._times, self._requests = places, times, requests

    def place(self, number: int) -> str:
        """Return where a request is, by the ``line`` of its entry, as an error names it."""
        return f"{self._places}{number}"

    def entries(
        self, flavors: Mapping[str, Flavor], policies: PolicyChoice = NO_CHOICE
    ) -> Iterator[WorkloadEntry]:
        """Yield the requests in the order of their arrival; ``flavors`` are in them already."""
        requests = [
            structs.replace(one, policy=policies.every or one.policy or policies.default)
            for one in self._requests
        ]
        for arrival, departure, number, line in zip(*self._times.tolist(), strict=True):
            leaves = None if math.isnan(departure) else departure
            yield WorkloadEntry(arrival, leaves, requests[int(number)], int(line))

    def with_seed(self, seed: int) -> CompiledWorkload:
        """Return the same requests at the same times; each is decided with this seed."""
        requests = tuple(structs.replace(one, seed=seed) for one in self._requests)
        return CompiledWorkload(self.name, self._places, self._times, requests)

    def digest(self) -> bytes:
        """Return what two workloads have in common only if they are the same but for the seed."""
        found = hashlib.sha256(to_json([structs.replace(one, seed=0) for one in self._requests]))
        found.update(self._times.tobytes())
        return found.digest()


def compile_workload(workload: Workload, flavors: Mapping[str, Flavor]) -> CompiledWorkload:
    """Return a workload compiled with flavors; errors as of its entries."""
    numbers: dict[int, int] = {}
    requests: list[Request] = []
    rows: list[tuple[float, float, int, int]] = []
    for entry in workload.entries(flavors, OWN_POLICY):
        number = numbers.setdefault(id(entry.request), len(requests))
        if number == len(requests):
            requests.append(entry.request)  # which keeps its id from being another one's
        leaves = math.nan if entry.departure is None else entry.departure
        rows.append((entry.arrival, leaves, number, entry.line))
    times = np.array(rows, dtype=np.float64).T.copy()
    places = workload.place(0).removesuffix("0")
    return CompiledWorkload(workload.name, places, times, tuple(requests))
