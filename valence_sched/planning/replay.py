# SPDX-License-Identifier: Apache-2.0
"""Replay: a workload on a site, event by event: nodes depart, requests arrive and are decided."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_warnings, funnel_steps, inventory_source
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fit
from valence_sched.errors import RequestError, UnknownName, UsageError
from valence_sched.model.decision import PodmVerdict
from valence_sched.model.replay import (
    FirstRefusal,
    Fragmentation,
    NodeCount,
    ReasonGroup,
    Refusal,
    Replay,
    ReplayResult,
    ReplaySeries,
)
from valence_sched.model.request import Mix, Request
from valence_sched.model.workload import WorkloadEntry
from valence_sched.planning.fragmentation import FragmentationMeasure, usable_mix
from valence_sched.planning.occupancy import EVENTS, MOST_BUCKETS, Occupancy, rounded
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.workload import PolicyChoice, Workload
from valence_sched.view.fragmentation import ACCELERATORS
from valence_sched.view.view import Mask

LOOKAHEAD = 10_000  # requests by whose times the first buckets are made
PROGRESS_EVERY = 1000  # requests

MOST_REASONS = 8  # that are named of a first refusal
FIT = "fit"  # the step after the last filter
OUTCOMES = ("placed", "refused", "undecided")


class Refusals:
    """Counts the nodes of decisions by flavor, and reads why the first of each was refused."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._steps: Counter[tuple[str | None, str]] = Counter()
        self._first: dict[str | None, FirstRefusal] = {}

    def count(self, flavor: str | None, outcome: str, nodes: int) -> None:
        """Count nodes of a flavor by what became of them: one of ``OUTCOMES``."""
        self._counts[flavor, outcome] += nodes

    def refuse(self, decision: Decision, nodes: int, line: int, time_s: float) -> None:
        """Count nodes that were refused, before anything else is taken from the site."""
        flavor = decision.request.flavor
        self.count(flavor, "refused", nodes)
        self._steps[flavor, last_step(decision)] += nodes
        if flavor not in self._first:
            self._first[flavor] = FirstRefusal(flavor=flavor, line=line, time_s=rounded(time_s),
                                               funnel=funnel_steps(decision),
                                               reasons=reason_groups(decision))  # fmt: skip
            self.warnings.update(dict.fromkeys(decision_warnings(decision)))

    def total(self, outcome: str) -> int:
        """Return how many nodes of all flavors had an outcome."""
        return sum(number for (_, one), number in self._counts.items() if one == outcome)

    def by_flavor(self) -> tuple[NodeCount, ...]:
        """Return the counts of each flavor, by name."""
        flavors = sorted({flavor for flavor, _ in self._counts}, key=_by_name)
        rows = [(flavor, [self._counts[flavor, one] for one in OUTCOMES]) for flavor in flavors]
        return tuple(
            NodeCount(flavor=flavor, requested=sum(counts), placed=counts[0], refused=counts[1],
                      undecided=counts[2])
            for flavor, counts in rows
        )  # fmt: skip

    def by_step(self) -> tuple[Refusal, ...]:
        """Return the refused nodes of each flavor and step, the most frequent first."""
        ordered = sorted(self._steps.items(), key=lambda item: (-item[1], item[0][1],
                                                                 _by_name(item[0][0])))  # fmt: skip
        return tuple(Refusal(flavor=flavor, step=step, nodes=nodes)
                     for (flavor, step), nodes in ordered)  # fmt: skip

    def first(self) -> tuple[FirstRefusal, ...]:
        """Return the first refusal of each flavor, by name."""
        return tuple(self._first[flavor] for flavor in sorted(self._first, key=_by_name))


def last_step(decision: Decision) -> str:
    """Return the step of the funnel where the last pools went: a filter, or else ``fit``."""
    attempt = decision.main_attempt
    left: Mask | None = None
    for filter_, verdict in zip(
        attempt.context.bound.filters, attempt.batch.evaluation.verdicts, strict=True
    ):
        left = verdict if left is None else left & verdict
        if not left.any():
            return filter_.name
    return FIT


def reason_groups(decision: Decision) -> tuple[ReasonGroup, ...]:
    """Return why pod managers make no node of a request, the most frequent reasons first.

    The nearest of a group is the pod manager that has most of what was needed, else the first.
    """
    groups: dict[tuple[str, str, bool], list[PodmVerdict]] = defaultdict(list)
    for verdict in Verdicts(decision).podm_verdicts():
        if (reason := verdict.reason) is not None:
            groups[reason.filter, reason.label, reason.podm_have is not None].append(verdict)

    def amount(verdict: PodmVerdict) -> float:
        have = verdict.reason.have if verdict.reason else None
        return float(have) if isinstance(have, float | int) else 0.0

    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_REASONS]
    return tuple(
        ReasonGroup(podms=len(verdicts), nearest=nearest.podm, reason=nearest.reason)
        for _, verdicts in largest
        for nearest in [max(verdicts, key=amount)]
    )


def _by_name(flavor: str | None) -> tuple[bool, str]:
    return flavor is None, flavor or ""


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
        self._share: Callable[[], float | None] = lambda: None
        if usable is not None:
            measure = FragmentationMeasure(lambda: succession.current_view, usable)
            self._share = measure.share
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
        undecided = bool(decision.undecided_rows)  # a pool was left open
        if missing:
            counts[3 if undecided else 2] += missing
        if missing and undecided:
            self._refusals.count(request.flavor, "undecided", missing)
        elif missing:
            since = moment - self._timeline.start
            self._refusals.refuse(decision, missing, entry.line, since)
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
        by_flavor, buckets = refusals.by_flavor(), self._timeline.buckets
        nodes, podms = occupancy.means_by_bucket()
        samples = tuple(rounded(one.sample) for one in buckets if one.sample is not None)
        fragmentation = None
        if samples:
            measured = [one.sample for one in buckets if one.sample is not None]
            mean = rounded(sum(measured) / len(measured))
            fragmentation = Fragmentation(resource=ACCELERATORS, mean=mean, peak=max(samples))
        series = ReplaySeries(
            bucket_s=rounded(self._timeline.width),
            used=occupancy.used_shares(),
            nodes=nodes,
            podms=podms,
            fragmentation=samples or None,
            **{name: tuple(one.counts[number] for one in buckets)
               for number, name in enumerate(EVENTS)},
        )  # fmt: skip
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
            fragmentation=fragmentation,
            cost=occupancy.cost(end),
            by_flavor=by_flavor,
            refusals=refusals.by_step(),
            first_refusals=refusals.first(),
            series=series,
            warnings=tuple(refusals.warnings),
        )


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
