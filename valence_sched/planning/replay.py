# SPDX-License-Identifier: Apache-2.0
"""Replay: a workload on a site, event by event: nodes depart, requests arrive and are decided."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable

from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import inventory_source
from valence_sched.core.fit.fit import Fit
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.replay import Fragmentation, ReplayResult, ReplaySeries
from valence_sched.model.request import Mix, Request
from valence_sched.model.workload import WorkloadEntry
from valence_sched.planning.fragmentation import FragmentationMeasure, usable_mix
from valence_sched.planning.occupancy import EVENTS, Occupancy, rounded
from valence_sched.planning.refusals import Refusals
from valence_sched.planning.succession import Succession
from valence_sched.planning.timeline import MOST_BUCKETS
from valence_sched.view.fragmentation import ACCELERATORS

LOOKAHEAD = 10_000  # requests by whose times the first buckets are made
PROGRESS_EVERY = 1000  # requests

Departure = tuple[float, int, Request, Fit]
Progress = Callable[[int], None]


class ReplayRun:
    """Replays one workload on one site; every decision is that of a succession.

    What departs at a moment departs before what arrives then. A node without departure stays.
    ``mix`` is what the fragmentation of the site is measured by; ``place`` returns how errors
    name the request of a line; ``progress`` is called with the number of requests so far. By the
    times of the first ``lookahead`` requests the first buckets are made.
    """

    def __init__(
        self,
        succession: Succession,
        mix: Mix,
        place: Callable[[int], str] = "request {}".format,
        progress: Progress = lambda requests: None,
        lookahead: int = LOOKAHEAD,
    ) -> None:
        self._succession, self._place_text, self._progress = succession, place, progress
        self._lookahead = lookahead
        self._occupancy = Occupancy(succession.view)
        usable = usable_mix(succession.view, mix)
        self._fragmentation = (
            None
            if usable is None
            else FragmentationMeasure(lambda: succession.current_view, usable)
        )
        self._refusals = Refusals()
        self._podm_of: list[int] = succession.view.podm_of.tolist()
        self._block_tables = succession.current_view.block_tables  # as they are at any time
        self._departures: list[Departure] = []
        self._requests = self._departed = self._node = 0
        self._now = 0.0

    def run(
        self, entries: Iterable[WorkloadEntry], site: str, policy: str | None = None
    ) -> ReplayResult:
        """Replay entries, which are in the order of their arrival, and return what became of them.

        Raises:
            RequestError, UnknownName: a request contradicts its policy, or names an unknown one or
                an unknown pod manager; the error names its line. Errors of entries, too.
        """
        entries = iter(entries)
        first = list(itertools.islice(entries, self._lookahead))
        self._now = first[0].arrival if first else 0.0
        span = first[-1].arrival - self._now if first else 0.0
        whole = len(first) < self._lookahead
        share = MOST_BUCKETS / 2 if whole else MOST_BUCKETS / 8
        self._timeline = self._occupancy.start(self._now, span / share or 1.0, self._share)
        for entry in itertools.chain(first, entries):
            self._arrive(entry)
        self._timeline.finish(self._now)
        return self._result(site, policy)

    def _share(self) -> float | None:
        return None if self._fragmentation is None else self._fragmentation.share()

    def _arrive(self, entry: WorkloadEntry) -> None:
        moment, timeline, departures = entry.arrival, self._timeline, self._departures
        while departures and departures[0][0] <= moment:
            self._depart()
        self._now = moment
        if moment >= timeline.end:
            timeline.advance(moment)
        self._requests += 1
        if not self._requests % PROGRESS_EVERY:
            self._progress(self._requests)
        try:
            decision = self._succession.decide(entry.request)
        except (RequestError, UnknownName) as error:
            raise error.at(self._place_text(entry.line)) from None
        self._place(entry, decision)

    def _place(self, entry: WorkloadEntry, decision: Decision) -> None:
        request, moment, counts = entry.request, entry.arrival, self._timeline.counts
        nodes = decision.placed_nodes
        missing = request.count - len(nodes)
        counts[0] += request.count
        if missing:
            self._miss(decision, missing, entry)
        if decision.batch.evaluation.notes:
            self._refusals.warnings.update(dict.fromkeys(decision.batch.evaluation.notes))
        if not nodes:
            return
        counts[1] += len(nodes)
        self._refusals.count(request.flavor, "placed", len(nodes))
        succession, occupancy = self._succession, self._occupancy
        for _, node in nodes:
            fit = node.chosen
            podm = self._podm_of[fit.row]
            succession.take(request, fit)
            occupancy.take(moment, podm, fit, self._block_tables[podm])
            if entry.departure is not None:
                self._node += 1
                heapq.heappush(self._departures, (entry.departure, self._node, request, fit))

    def _miss(self, decision: Decision, nodes: int, entry: WorkloadEntry) -> None:
        """Count nodes that were not placed: undecided where a pool was left open, else refused."""
        undecided = bool(decision.undecided_rows)
        self._timeline.counts[3 if undecided else 2] += nodes
        if undecided:
            self._refusals.count(decision.request.flavor, "undecided", nodes)
        else:
            since = entry.arrival - self._timeline.start
            self._refusals.refuse(decision, nodes, entry.line, since)

    def _depart(self) -> None:
        moment, _, request, fit = heapq.heappop(self._departures)
        if moment >= self._timeline.end:
            self._timeline.advance(moment)
        podm = self._podm_of[fit.row]
        before = self._block_tables[podm]
        self._succession.give_back(request, fit)
        self._occupancy.give_back(moment, podm, fit, before)
        self._departed += 1

    def _result(self, site: str, policy: str | None) -> ReplayResult:
        refusals, occupancy, end = self._refusals, self._occupancy, self._now
        view, skipped = self._succession.view, self._succession.skipped
        by_flavor = refusals.by_flavor()
        return ReplayResult(
            site=site,
            policy=policy,
            inventory=inventory_source(view, skipped),
            requests=self._requests,
            requested=sum(one.requested for one in by_flavor),
            placed=refusals.total("placed"),
            refused=refusals.total("refused"),
            undecided=refusals.total("undecided"),
            departed=self._departed,
            duration_s=rounded(end - self._timeline.start),
            peak_nodes=occupancy.peak_nodes,
            podms_needed=occupancy.peak_podms,
            spread=occupancy.spread(end),
            utilisation=occupancy.utilisation(end),
            fragmentation=self._measured_fragmentation(),
            cost=occupancy.cost(end),
            by_flavor=by_flavor,
            refusals=refusals.by_step(),
            first_refusals=refusals.first(),
            series=self._series(),
            warnings=tuple(refusals.warnings),
        )

    def _measured_fragmentation(self) -> Fragmentation | None:
        samples = [one.sample for one in self._timeline.buckets if one.sample is not None]
        if not samples:
            return None
        mean = rounded(sum(samples) / len(samples))
        return Fragmentation(resource=ACCELERATORS, mean=mean, peak=rounded(max(samples)))

    def _series(self) -> ReplaySeries:
        buckets = self._timeline.buckets
        nodes, podms = self._occupancy.means_by_bucket()
        samples = [rounded(one.sample) for one in buckets if one.sample is not None]
        events = {name: tuple(one.counts[number] for one in buckets)
                  for number, name in enumerate(EVENTS)}  # fmt: skip
        return ReplaySeries(
            bucket_s=rounded(self._timeline.width),
            used=self._occupancy.used_shares(),
            nodes=nodes,
            podms=podms,
            fragmentation=tuple(samples) if samples else None,
            **events,
        )
