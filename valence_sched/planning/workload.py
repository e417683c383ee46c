# SPDX-License-Identifier: Apache-2.0
"""Workloads: requests in the order of their arrival, from a file or drawn by a seed."""

import functools
import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import structs

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.settings import Configuration
from valence_sched.errors import (
    InputError,
    RequestError,
    UnknownName,
    UsageError,
    one_line,
    shown_name,
)
from valence_sched.model import request_spec as model
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec, WorkloadEntry, compile_request
from valence_sched.planning.workload_lines import Line, line_place, read_lines
from valence_sched.view.block_kinds import BoundedMemo

CHUNK = 4096  # requests drawn in one step
DECIMALS = 3  # digits after the point of times in seconds
MOST_REQUESTS = 10_000  # distinct compiled requests that are remembered
MOST_SORTED = 2_000_000  # lines that are sorted in memory


class PolicyChoice(NamedTuple):
    """The policy of a request: ``every`` if set, else the request's policy, else ``default``."""

    every: str | None = None
    default: str = "default"

    def applied(self, request: Request, spec: RequestSpec, flavor: Flavor | None) -> Request:
        own = spec.policy or (flavor.policy if flavor is not None else None)
        return structs.replace(request, policy=self.every or own or self.default)


NO_CHOICE = PolicyChoice()
Flavors = Mapping[str, Flavor]
Entries = Iterator[WorkloadEntry]


@dataclass(slots=True, eq=False)
class FileWorkload:
    """The workload of a file; CSV and JSON Lines are streams.

    ``opened`` reopens and decompresses it. ``columns`` are those of a recorded trace, by field. At
    most ``MOST_SORTED`` lines are sorted. ``resolve`` finds the location of volumes and networks.
    """

    name: str
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    resolve: Callable[..., Any]
    columns: Mapping[str, model.TraceColumn] | None = None
    sort: bool = False
    _word: str = "line"

    def place(self, number: int) -> str:
        """Return the place of a request for errors, from the ``line`` of its entry."""
        return line_place(self.name, number, self._word)

    def entries(self, flavors: Flavors, policies: PolicyChoice = NO_CHOICE) -> Entries:
        """Yield the requests in the order of their arrival, compiled with these flavors."""
        entries = self._entries(flavors, policies)
        if self.sort:
            sorted_entries = list(itertools.islice(entries, MOST_SORTED + 1))
            if len(sorted_entries) > MOST_SORTED:
                found, hint = f"over {MOST_SORTED:,} lines", "sort the file and omit --sort"
                raise InputError(self.name, "", found, "fewer for --sort", hint)
            entries = iter(sorted(sorted_entries, key=operator.attrgetter("arrival")))
        return self._in_order(entries)

    def _in_order(self, entries: Entries) -> Entries:
        before, entry = float("-inf"), None
        for entry in entries:
            if entry.arrival < before:
                found = f"arrival {entry.arrival:.15g} after {before:.15g}"
                hint = "sort the file by arrival, or add --sort"
                raise InputError(
                    self.place(entry.line), "", found, "lines in order of arrival", hint
                )
            before = entry.arrival
            yield entry
        if entry is None:
            expected = "at least one line with a flavor or properties"
            raise InputError(self.name, "", "no request", expected)

    def _entries(self, flavors: Flavors, policies: PolicyChoice) -> Entries:
        """Yield requests in the order of lines; lines that differ only in times share a request."""
        before, requests = 0.0, BoundedMemo[Any, Request](MOST_REQUESTS)
        with self.opened() as stream:
            for line in read_lines(stream, self.name, self.columns):
                self._word = line.word
                arrival, departure = _times(line, before, self.name)
                if (request := requests.get(line.key)) is None:
                    request = requests.store(line.key, self._compiled(line, flavors, policies))
                yield WorkloadEntry(arrival, departure, request, line.number)
                before = arrival

    def _compiled(self, line: Line, flavors: Flavors, policies: PolicyChoice) -> Request:
        path = f"{line.word} {line.number}: $"
        spec = parsers.parse_spec(line.document(), model.WorkloadLine, self.name, path)
        place = _place(self.name, line)
        if spec.flavor is not None and spec.flavor not in flavors:
            raise UnknownName("flavor", spec.flavor, flavors, place)
        flavor = flavors.get(spec.flavor or "")
        try:
            near = self.resolve(spec.external_resources)
            return policies.applied(model.compile_request(spec, flavor, near), spec, flavor)
        except (RequestError, UnknownName) as error:
            raise error.at(place) from None


def open_workload(
    file: str,
    config: Configuration,
    columns: Mapping[str, model.TraceColumn],
    *,
    sort: bool = False,
    near_maps: Sequence[str] = (),
) -> FileWorkload:
    """Return the workload of a file, ``-`` for standard input; InputError if it cannot be read."""
    source = files.spooled(file, config.input)
    opened = functools.partial(files.decompressed, file, source)
    resolve = functools.partial(config.resolve_near, sources=near_maps)
    return FileWorkload(shown_name(file), opened, resolve, columns, sort)


def _times(line: Line, before: float, file: str) -> tuple[float, float | None]:
    """Return arrival and departure of a line; the default arrival is ``before``."""
    try:
        arrival = before if line.arrival is None else model.parse_moment(line.arrival)
        if line.departure is None:
            if line.duration is None:
                return arrival, None
            return arrival, arrival + model.parse_duration(line.duration)
        departure = model.parse_moment(line.departure)
    except (ValueError, TypeError) as error:
        raise InputError(_place(file, line), "", str(error)) from None
    if line.duration is not None:
        raise InputError(_place(file, line), "", "departure and duration", "one of them")
    if departure < arrival:
        since = f"{before:.15g}" if line.arrival is None else one_line(str(line.arrival), 60)
        found = one_line(f"departure {line.departure}", 60)
        expected = f"a time at or after its arrival {since}"
        raise InputError(_place(file, line), "", found, expected)
    return arrival, departure


def _place(file: str, line: Line) -> str:
    return line_place(file, line.number, line.word)


OWN_POLICY = PolicyChoice(None, "")  # an empty policy leaves requests unchanged


@dataclass(frozen=True, slots=True, eq=False)
class CompiledWorkload:
    """The requests of a workload, compiled with flavors; ``places`` precedes a line in errors.

    ``times`` has shape ``(4, entries)``: arrival, departure (NaN: none), request number, line.
    """

    name: str
    places: str
    times: npt.NDArray[np.float64]
    requests: tuple[Request, ...]

    def place(self, number: int) -> str:
        return f"{self.places}{number}"

    def entries(self, flavors: Flavors, policies: PolicyChoice = NO_CHOICE) -> Entries:
        requests = [
            structs.replace(one, policy=policies.every or one.policy or policies.default)
            for one in self.requests
        ]
        for arrival, departure, number, line in zip(*self.times.tolist(), strict=True):
            leaves = None if math.isnan(departure) else departure
            yield WorkloadEntry(arrival, leaves, requests[int(number)], int(line))

    def with_seed(self, seed: int) -> Self:
        requests = tuple(structs.replace(one, seed=seed) for one in self.requests)
        return replace(self, requests=requests)

    def parts(self, count: int) -> Iterator[Self]:
        """Yield consecutive parts with equal numbers of requests; UsageError if these are too few.

        Earlier requests whose nodes are still in use arrive at the start of a part.
        """
        arrivals, departures, *_ = self.times
        if len(arrivals) < count:
            found = format_count(len(arrivals), "request")
            raise UsageError(f"{self.name}: {found}, too few for {count:,} samples")
        edges = np.linspace(0, len(arrivals), count + 1).astype(int).tolist()
        for low, high in itertools.pairwise(edges):
            start = arrivals[low]
            earlier = np.flatnonzero(~(departures[:low] <= start))  # nodes that stay have NaN
            times = self.times[:, [*earlier.tolist(), *range(low, high)]].copy()
            times[0] = np.maximum(times[0], start)
            yield replace(self, times=times)

    def digest(self) -> bytes:
        """Return a digest that is equal for workloads that differ only in the seed."""
        found = hashlib.sha256(to_json([structs.replace(one, seed=0) for one in self.requests]))
        found.update(self.times.tobytes())
        return found.digest()


def compile_workload(workload: "Workload", flavors: Flavors) -> CompiledWorkload:
    """Return a workload compiled with flavors; same errors as for its entries."""
    numbers: dict[int, int] = {}
    requests: list[Request] = []
    rows: list[tuple[float, float, int, int]] = []
    for entry in workload.entries(flavors, OWN_POLICY):
        number = numbers.setdefault(id(entry.request), len(requests))
        if number == len(requests):
            requests.append(entry.request)  # referenced, so that no other object gets its id
        leaves = math.nan if entry.departure is None else entry.departure
        rows.append((entry.arrival, leaves, number, entry.line))
    times = np.array(rows, dtype=np.float64).T.copy()
    places = workload.place(0).removesuffix("0")
    return CompiledWorkload(workload.name, places, times, tuple(requests))


class SyntheticWorkload:
    """Requests drawn by a seed: the same specification and seed give the same requests."""

    name = "synthetic"

    def __init__(self, spec: model.SyntheticSpec) -> None:
        self._spec = spec

    def place(self, number: int) -> str:
        return f"{self.name} request {number}"

    def entries(self, flavors: Flavors, policies: PolicyChoice = NO_CHOICE) -> Entries:
        """Yield the drawn requests; UnknownName for a flavor, UsageError if there is no request."""
        requests = []
        for name in self._spec.mix:
            if name not in flavors:
                raise UnknownName("flavor", name, flavors, "--mix")
            spec, flavor = model.WorkloadLine(flavor=name), flavors[name]
            requests.append(policies.applied(compile_request(spec, flavor), spec, flavor))
        return self._drawn(requests)

    def with_seed(self, seed: int) -> Self:
        return type(self)(structs.replace(self._spec, seed=seed))

    def digest(self) -> bytes:
        spec = structs.replace(self._spec, seed=0)
        return hashlib.sha256(msgspec.json.encode(spec)).digest()  # the order of its mix matters

    def _drawn(self, requests: list[Request]) -> Entries:
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


#: Requests with their times, for any number of runs.
Workload = FileWorkload | CompiledWorkload | SyntheticWorkload
