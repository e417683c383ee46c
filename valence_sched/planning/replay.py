# SPDX-License-Identifier: Apache-2.0
"""Replay: runs a workload on a site, event by event: nodes depart, requests are decided.

The occupancy records the used resources, nodes, pod managers and their price over time.
"""

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import funnel
from valence_sched.core.explain.report import decision_warnings, funnel_steps, inventory_source
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fit
from valence_sched.errors import RequestError, UnknownName, UsageError
from valence_sched.model import replay as model
from valence_sched.model.decision import PodmVerdict, ReasonGroup
from valence_sched.model.inventory import free_amount
from valence_sched.model.need import MEASURES, measure_name
from valence_sched.model.request import Mix, Request
from valence_sched.model.request_spec import WorkloadEntry
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.workload import PolicyChoice, Workload
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.blocks import BlockTable
from valence_sched.view.fragmentation import FragmentationMeasure, usable_mix
from valence_sched.view.leftover import MEASURED, imbalance
from valence_sched.view.view import View

LOOKAHEAD = 10_000  # the number of first requests whose times set the width of the buckets
PROGRESS_EVERY = 1000  # requests between two progress reports
MOST_REASONS = 8  # reasons of a first refusal
FIT = "fit"  # the step after the last filter
OUTCOMES = ("placed", "refused", "undecided")
PRICE = "price"  # the fact of a pod manager with its price per hour
EVENTS = ("requested", "placed", "refused", "undecided")
MOST_SUMS = 10_000  # sets of kinds of blocks whose amounts are remembered
DECIMALS = 6
MOST_BUCKETS = 200  # with more, adjacent buckets are merged in pairs


class Sample(NamedTuple):
    """The measures at the end of a bucket: fragmentation, if any, and imbalance."""

    fragmentation: float | None = None
    podms: float = 0.0
    pools: float = 0.0


class Edge(NamedTuple):
    """An end of a bucket: the integral of each level and the counts so far, and a sample."""

    moment: float
    integrals: Sequence[float]
    counts: Sequence[int]
    sample: Sample = Sample()


class Timeline:
    """The levels and counts of events over time, with an edge before and after each bucket.

    ``sample`` is called at the end of a bucket if a level changed since its last call.
    """

    def __init__(
        self,
        start: float,
        width: float,
        levels: Sequence[float],
        counts: int,
        sample: Callable[[], Sample] = Sample,
    ) -> None:
        self.start, self.width = start, width
        self.end = start + width  # of the open bucket
        self.levels, self.counts = list(levels), [0] * counts
        self.edges = [Edge(start, [0.0] * len(levels), list(self.counts))]
        self._sample = sample
        self._latest: Sample | None = None  # of the present levels
        #: By level: how much less its integral is than if the present level had always been.
        self._missing = [0.0] * len(levels)

    def advance(self, moment: float) -> None:
        """Close the buckets that end at or before a moment; moments must not go back."""
        while moment >= self.end:
            self._close(self.end)
            if len(self.edges) > MOST_BUCKETS:
                self.edges = self.edges[::2]
                self.width *= 2
            self.end = self.start + self.width * len(self.edges)

    def change(self, changes: Sequence[tuple[int, float]], sign: float, moment: float) -> None:
        """Add ``sign`` times the amounts at a moment; ``changes`` are ``(level, amount)``."""
        levels, missing, elapsed = self.levels, self._missing, moment - self.start
        self._latest = None
        for number, amount in changes:
            change = sign * amount
            levels[number] += change
            missing[number] += change * elapsed

    def finish(self, moment: float) -> None:
        self.advance(moment)
        if moment == self.edges[-1].moment and len(self.edges) > 1:
            del self.edges[-1]
        self._close(moment)

    def mean(self, number: int) -> float:
        return self._mean(number, self.edges[0], self.edges[-1])

    def means(self, number: int) -> list[float]:
        """Return the mean of a level in each bucket."""
        pairs = itertools.pairwise(self.edges)
        return [self._mean(number, before, after) for before, after in pairs]

    def bucket_counts(self) -> Iterator[tuple[int, ...]]:
        """Yield the counts of each event by bucket."""
        for sums in zip(*(one.counts for one in self.edges), strict=True):
            yield tuple(after - before for before, after in itertools.pairwise(sums))

    def _mean(self, number: int, before: Edge, after: Edge) -> float:
        if after.moment == before.moment:
            return self.levels[number]
        integral = after.integrals[number] - before.integrals[number]
        return integral / (after.moment - before.moment)

    def _close(self, moment: float) -> None:
        elapsed = moment - self.start
        pairs = zip(self.levels, self._missing, strict=True)
        integrals = [level * elapsed - missing for level, missing in pairs]
        if self._latest is None:
            self._latest = self._sample()
        self.edges.append(Edge(moment, integrals, list(self.counts), self._latest))


Changes = tuple[tuple[int, float], ...]  # amounts by the number of their level


class Occupancy:
    """The resources in use, nodes and prices of a View while nodes are added and removed."""

    def __init__(self, view: View) -> None:
        self._view = view
        amounts, counts = view.kinds.amounts, view.podm_block_counts
        measured = {name: amounts(MEASURES[name]) for name in MEASURED}
        totals, free = (
            {name: float(counts.sum(each, free=only).sum()) for name, each in measured.items()}
            for only in (False, True)
        )
        for resource in sorted(view.resources):  # memory may be in blocks and in stocks
            totals.setdefault(resource, 0.0)
            free.setdefault(resource, 0.0)
        for stock in (stock for table in view.block_tables for stock in table.stocks):
            totals[stock.resource] += stock.total or 0.0
            free[stock.resource] += free_amount(stock)
        self.totals = totals
        self._levels = [totals[name] - free[name] for name in totals]
        self._number = {name: number for number, name in enumerate(self.totals)}
        self._nodes, self._podms, self._price = range(len(self._levels), len(self._levels) + 3)
        by_level = list(enumerate(measured.values()))
        self._kind_changes = [
            tuple((number, float(each[kind])) for number, each in by_level if each[kind])
            for kind in range(len(view.kinds))
        ]
        self._sums: BoundedMemo[tuple[int, ...], Changes] = BoundedMemo(MOST_SUMS)
        self._nodes_on = [len(podm.nodes) for podm in view.podms]
        self._placed_on = [0] * len(view.podms)
        prices = [podm.facts.get(PRICE) for podm in view.podms]
        self._prices = [
            float(one) if isinstance(one, float | int) and 0 <= one < math.inf else None
            for one in prices
        ]
        self.most_on_one = max(self._nodes_on, default=0)
        in_use = [podm for podm, nodes in enumerate(self._nodes_on) if nodes]
        price = sum(self._prices[podm] or 0.0 for podm in in_use)
        self._levels += [sum(self._nodes_on), len(in_use), price]
        self._peaks = list(self._levels)

    def start(self, moment: float, width: float, sample: Callable[[], Sample]) -> Timeline:
        self._timeline = Timeline(moment, width, self._levels, len(EVENTS), sample)
        return self._timeline

    def take(self, moment: float, podm: int, fit: Fit, after: BlockTable) -> None:
        """Add a node; ``after`` is the block table of the podm with it."""
        changes, levels, peaks = self._changes(fit, after), self._timeline.levels, self._peaks
        self._timeline.change(changes, 1.0, moment)
        self._placed_on[podm] += 1
        self._count_node(moment, podm, 1)
        self.most_on_one = max(self.most_on_one, self._nodes_on[podm])
        for number in (*[number for number, _ in changes], self._nodes, self._podms):
            if levels[number] > peaks[number]:
                peaks[number] = levels[number]

    def release(self, moment: float, podm: int, fit: Fit, before: BlockTable) -> None:
        """Remove a node; ``before`` is the block table of the podm with it."""
        self._timeline.change(self._changes(fit, before), -1.0, moment)
        self._count_node(moment, podm, -1)

    def spread(self) -> model.NodeSpread:
        nodes, podms = map(self._timeline.mean, (self._nodes, self._podms))
        names = self._view.podms
        return model.NodeSpread(
            mean=rounded(nodes / podms) if podms else 0.0,
            most=self.most_on_one,
            placed={names[podm].id: count for podm, count in enumerate(self._placed_on) if count},
        )

    def utilisation(self) -> dict[str, model.Utilisation]:
        mean, peaks = self._timeline.mean, self._peaks
        return {
            name: model.Utilisation(
                total=total, mean=rounded(mean(number) / total), peak=rounded(peaks[number] / total)
            )
            for number, (name, total) in enumerate(self.totals.items())
            if total
        }

    def series(self) -> dict[str, Any]:
        """Return the fields of a ``ReplaySeries`` with means by bucket."""

        def means(level: int, total: float = 1.0) -> tuple[float, ...]:
            return tuple(rounded(mean / total) for mean in self._timeline.means(level))

        totals = enumerate(self.totals.items())
        used = {name: means(number, total) for number, (name, total) in totals if total}
        return {"used": used, "nodes": means(self._nodes), "podms": means(self._podms)}

    def peaks(self) -> tuple[int, int]:
        return round(self._peaks[self._nodes]), round(self._peaks[self._podms])

    def cost(self) -> float | None:
        """Return the price of all hours in which pod managers had nodes, None without prices."""
        last = self._timeline.edges[-1]
        if last.moment == self._timeline.start or all(price is None for price in self._prices):
            return None
        return rounded(last.integrals[self._price] / 3600.0)

    def _count_node(self, moment: float, podm: int, number: int) -> None:
        self._nodes_on[podm] += number
        changes: Changes = ((self._nodes, 1.0),)
        if self._nodes_on[podm] == (number > 0):  # its first node, or its last one
            changes = (*changes, (self._podms, 1.0), (self._price, self._prices[podm] or 0.0))
        self._timeline.change(changes, number, moment)

    def _changes(self, fit: Fit, table: BlockTable) -> Changes:
        slots = table.slots
        kinds = tuple([table.kinds[block] for block in fit.blocks if not slots[block]])
        changes = self._sums.get(kinds)
        if changes is None:
            sums: dict[int, float] = {}
            for number, amount in (pair for kind in kinds for pair in self._kind_changes[kind]):
                sums[number] = sums.get(number, 0.0) + amount
            changes = self._sums.store(kinds, tuple(sums.items()))
        if not fit.grants:
            return changes
        stocks = ((table.stocks[number], amount) for number, amount in fit.grants)
        known = ((stock, amount) for stock, amount in stocks if stock.total is not None)
        return (*changes, *((self._number[stock.resource], amount) for stock, amount in known))


def rounded(number: float) -> float:
    return round(number, DECIMALS) + 0.0


class Refusals:
    """Counts nodes by flavor and outcome, and explains the first refusal of each flavor."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._steps: Counter[tuple[str | None, str]] = Counter()
        self._first: dict[str | None, model.FirstRefusal] = {}

    def count(self, flavor: str | None, outcome: str, nodes: int) -> None:
        self._counts[flavor, outcome] += nodes

    def refuse(self, decision: Decision, nodes: int, line: int, time_s: float) -> None:
        flavor = decision.request.flavor
        self.count(flavor, "refused", nodes)
        context, verdicts = decision.context, decision.batch.evaluation.verdicts
        steps = funnel(context.bound, verdicts, len(context.view))
        self._steps[flavor, next((name for name, _, left in steps if not left), FIT)] += nodes
        if flavor not in self._first:
            self._first[flavor] = model.FirstRefusal(
                flavor=flavor,
                line=line,
                time_s=rounded(time_s),
                funnel=funnel_steps(decision),
                reasons=reason_groups(decision),
            )
            self.warnings.update(dict.fromkeys(decision_warnings(decision)))

    def by_flavor(self) -> tuple[model.NodeCount, ...]:
        flavors = sorted({flavor for flavor, _ in self._counts}, key=_by_name)
        rows = [(one, {it: self._counts[one, it] for it in OUTCOMES}) for one in flavors]
        return tuple(model.NodeCount(flavor=one, requested=sum(n.values()), **n) for one, n in rows)

    def by_step(self) -> tuple[model.Refusal, ...]:
        steps = self._steps.items()
        refusals = (model.Refusal(flavor=name, step=step, nodes=n) for (name, step), n in steps)
        return tuple(sorted(refusals, key=lambda it: (-it.nodes, it.step, _by_name(it.flavor))))

    def first(self) -> tuple[model.FirstRefusal, ...]:
        return tuple(self._first[flavor] for flavor in sorted(self._first, key=_by_name))


def reason_groups(decision: Decision) -> tuple[ReasonGroup, ...]:
    """Return the most frequent reasons, each with the pod manager that lacks the least."""
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


Progress = Callable[[int], None]


class ReplayRun:
    """Replays one workload on one site; at equal times departures come before arrivals.

    ``place`` returns the place of a line for errors; ``progress`` receives the number of requests.
    The times of the first ``lookahead`` requests set the width of the buckets.
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
        self._measure = None
        if (usable := usable_mix(succession.view, mix)) is not None:
            self._measure = FragmentationMeasure(lambda: succession.current_view, usable)
        self._refusals = Refusals()
        self._podm_of: list[int] = succession.view.podm_of.tolist()
        self._block_tables = succession.current_view.block_tables  # in their present state
        self._departures: list[tuple[float, int, Request, Fit]] = []
        self._requests = self._departed = self._node = 0
        self._now = 0.0

    def run(
        self, entries: Iterable[WorkloadEntry], site: str, policy: str | None = None
    ) -> model.ReplayResult:
        """Replay entries in the order of their arrival; errors of decisions name the line."""
        entries = iter(entries)
        first = list(itertools.islice(entries, self._lookahead))
        self._now = first[0].arrival if first else 0.0
        span = first[-1].arrival - self._now if first else 0.0
        whole = len(first) < self._lookahead
        share = MOST_BUCKETS / 2 if whole else MOST_BUCKETS / 8
        self._timeline = self._occupancy.start(self._now, span / share or 1.0, self._sample)
        for entry in itertools.chain(first, entries):
            self._arrive(entry)
        self._timeline.finish(self._now)
        return self._result(site, policy)

    def _sample(self) -> Sample:
        share = None if self._measure is None else self._measure.share()
        return Sample(share, *imbalance(self._succession.current_view))

    def _arrive(self, entry: WorkloadEntry) -> None:
        moment, timeline, departures = entry.arrival, self._timeline, self._departures
        while departures and departures[0][0] <= moment:
            departure, _, request, fit = heapq.heappop(departures)
            if departure >= timeline.end:
                timeline.advance(departure)
            podm = self._podm_of[fit.row]
            before = self._block_tables[podm]
            self._succession.release(request, fit)
            self._occupancy.release(departure, podm, fit, before)
            self._departed += 1
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
        if missing and decision.undecided_rows:
            counts[3] += missing
            self._refusals.count(request.flavor, "undecided", missing)
        elif missing:
            counts[2] += missing
            self._refusals.refuse(decision, missing, entry.line, moment - self._timeline.start)
        self._refusals.warnings.update(dict.fromkeys(decision.batch.evaluation.notes))
        if nodes:
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

    def _result(self, site: str, policy: str | None) -> model.ReplayResult:
        refusals, occupancy, timeline = self._refusals, self._occupancy, self._timeline
        ends = [edge.sample for edge in timeline.edges[1:]]
        peak_nodes, peak_podms = occupancy.peaks()
        measured = [one.fragmentation for one in ends if one.fragmentation is not None]
        samples, fragmentation = tuple(map(rounded, measured)), None
        if self._measure is not None:
            name, mean = measure_name(self._measure.resource), sum(measured) / len(measured)
            share = {"mean": rounded(mean), "peak": max(samples)}
            fragmentation = model.Fragmentation(resource=name, **share)
        counts: dict[str, Any] = dict(zip(EVENTS, timeline.bucket_counts(), strict=True))
        totals: dict[str, Any] = dict(zip(EVENTS, timeline.counts, strict=True))
        series = model.ReplaySeries(
            bucket_s=rounded(timeline.width),
            fragmentation=samples or None,
            **occupancy.series(),
            **counts,
        )
        return model.ReplayResult(
            site=site,
            policy=policy,
            inventory=inventory_source(self._succession.view, self._succession.skipped),
            requests=self._requests,
            **totals,
            departed=self._departed,
            duration_s=rounded(self._now - timeline.start),
            peak_nodes=peak_nodes,
            podms_needed=peak_podms,
            spread=occupancy.spread(),
            imbalance=model.Imbalance(
                podms=rounded(fmean(one.podms for one in ends)),
                pools=rounded(fmean(one.pools for one in ends)),
            ),
            utilisation=occupancy.utilisation(),
            fragmentation=fragmentation,
            cost=occupancy.cost(),
            by_flavor=refusals.by_flavor(),
            refusals=refusals.by_step(),
            first_refusals=refusals.first(),
            series=series,
            warnings=tuple(refusals.warnings),
        )


#: Receives the name of each run before it starts, and returns the function that gets its progress.
RunProgress = Callable[[str], Progress]


def replay_all(
    sites: Sequence[Site],
    policies: Sequence[str],
    workload: Workload,
    progress: RunProgress,
    *,
    strict: bool = False,
) -> model.Replay:
    """Replay a workload on every site under every policy, by default the policy of each request."""
    check_runs(sites, policies)
    pairs = itertools.product(sites, dict.fromkeys(policies) or (None,))
    runs = (replay_one(site, policy, workload, progress, strict=strict) for site, policy in pairs)
    return model.Replay(workload=workload.name, runs=tuple(runs))


def check_runs(sites: Sequence[Site], policies: Sequence[str]) -> None:
    """Raise UnknownName for a policy that a site lacks, UsageError for two sites of one name."""
    for site, policy in itertools.product(sites, policies):
        if policy not in site.policies:
            raise UnknownName("policy", policy, site.policies)
    names = [site.name for site in sites]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two scenarios are called {twice!r}: use different names")


def replay_one(
    site: Site,
    policy: str | None,
    workload: Workload,
    progress: RunProgress = lambda run: lambda requests: None,
    *,
    strict: bool = False,
) -> model.ReplayResult:
    name = site.name if policy is None else f"{site.name}/{policy}"
    entries = workload.entries(site.flavors, PolicyChoice(policy, site.policy))
    succession = Succession(site.decider(strict=strict))
    run = ReplayRun(succession, site.mix(), workload.place, progress(name))
    return run.run(entries, site.name, policy)
