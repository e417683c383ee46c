# SPDX-License-Identifier: Apache-2.0
"""Results of decisions over zones: nodes with their zones, counts, capacities and reasons."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.core.explain.report import MOST_CANDIDATES, runner_up
from valence_sched.core.explain.sensitivity import NOTES, misses_in_order
from valence_sched.core.explain.verdicts import in_order
from valence_sched.errors import InventoryIncomplete, NoPodm, SchedulerError, UnknownName, one_line
from valence_sched.model import decision as nouns
from valence_sched.model.base import digest_of
from valence_sched.model.capacity import Capacity, ProvenMost, exhausted
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.model.zone import OtherNode, SealedRequest
from valence_sched.zones import paths
from valence_sched.zones.selection import OtherOffer, Selected, podm_of

MIX_NOTE = (
    "each zone counts the mix separately, and the counts are added up: one zone with all pod "
    "managers may fit more or fewer"
)


def added_fit_counts(
    counts: Mapping[str, nouns.FitCounts], silent: Sequence[nouns.SilentZone] = ()
) -> nouns.FitCounts:
    each = ((zone, *pair) for zone, one in counts.items() for pair in one.podms)
    podms = tuple((paths.path(zone, podm), number) for zone, podm, number in each)
    return nouns.FitCounts(podms=podms, **_remarks(counts, silent))


def added_capacities(
    name: str,
    counts: Mapping[str, Capacity],
    silent: Sequence[nouns.SilentZone] = (),
    *,
    mix: bool = False,
) -> Capacity:
    every = list(counts.values())
    if len(counts) == 1 and not silent and "" in counts:
        return counts[""]
    by_podm = [one.podm_sums for one in every if one.podm_sums is not None]
    by_zone = [one.site_sums for one in every if one.site_sums is not None]
    bounds = [one.proven for one in every if one.proven is not None]
    proven = None
    if every and len(bounds) == len(every) and not mix:
        found = sum(one.found for one in bounds)
        proven = ProvenMost(bound=sum(one.bound for one in bounds), found=found)
    by_flavor: Counter[str] = Counter()
    for one in every:
        by_flavor.update(one.by_flavor)
    each = ((zone, podm) for zone, one in counts.items() for podm in one.podms)
    podms = tuple(replace(podm, podm=paths.path(zone, podm.podm)) for zone, podm in each)
    remarks = _remarks(counts, silent)
    if mix and len(every) > 1:
        remarks["warnings"] += (MIX_NOTE,)
    return Capacity(
        name=next((one.name for one in every), name),
        podms=podms,
        podm_sums=sum(by_podm) if len(by_podm) == len(every) else None,
        site_sums=sum(by_zone) if every and len(by_zone) == len(every) else None,
        proven=proven,
        exhausted=exhausted(podms),
        by_flavor=dict(by_flavor),
        refused=every[0].refused if len(every) == 1 else None,
        **remarks,
    )


def _remarks(
    counts: Mapping[str, nouns.FitCounts] | Mapping[str, Capacity],
    silent: Sequence[nouns.SilentZone],
) -> dict[str, tuple[Any, ...]]:
    undecided = ((zone, podm) for zone, one in counts.items() for podm in one.undecided)
    below = (paths.below(zone, each) for zone, one in counts.items() for each in one.silent)
    return {
        "warnings": tuple(paths.lines_below({zone: one.warnings for zone, one in counts.items()})),
        "undecided": tuple(itertools.starmap(paths.path, undecided)),
        "silent": (*silent, *below),
    }


def with_reasons_below(
    own: nouns.Report | None,
    below: Mapping[str, nouns.Report | SchedulerError],
    chosen: Sequence[nouns.Candidate] = (),
    alternates: Container[str] = (),
) -> nouns.Report | None:
    """Merge reports of zones; ``chosen`` candidates, by path, replace the choices of each zone.

    ``alternates`` are the paths of the pod managers with alternates.
    """
    reports = {zone: one for zone, one in below.items() if isinstance(one, nouns.Report)}
    first = own or next(iter(reports.values()), None)
    if first is None:
        return None
    podms = list(own.podms) if own else []
    counted = {"": own, **reports} if own else reports
    warnings = paths.lines_below({zone: one.warnings for zone, one in counted.items()})
    steps = {step.filter: step for step in (own.funnel if own else ())}
    for zone, answer in below.items():
        if isinstance(answer, UnknownName | NoPodm):  # the pod managers are in other zones
            continue
        if isinstance(answer, SchedulerError):
            warnings.append(one_line(f"zone {zone} returned no reasons: {answer}"))
            continue
        podms += [replace(one, podm=paths.path(zone, one.podm)) for one in answer.podms]
        for step in answer.funnel:
            known, counts = steps.get(step.filter), ("came_in", "went_on", "undecided")
            sums = {name: getattr(known, name, 0) + getattr(step, name) for name in counts}
            steps[step.filter] = replace(step, **sums)
    explained = {zone: one.explanation for zone, one in counted.items() if one.explanation}
    return replace(
        first,
        podms=tuple(in_order(_verdicts(podms, chosen, alternates))),
        warnings=tuple(warnings),
        inventory=_inventory(counted),
        funnel=tuple(steps.values()),
        explanation=_explanation(first.policy, explained, chosen) if explained else None,
    )


def _verdicts(
    verdicts: Iterable[nouns.PodmVerdict],
    chosen: Sequence[nouns.Candidate],
    alternates: Container[str],
) -> Iterator[nouns.PodmVerdict]:
    best = chosen[0].score if chosen else None
    counts = Counter(one.podm for one in chosen)
    for one in verdicts:
        outcome = one.outcome
        if one.podm in counts:
            outcome = "chosen"
        elif one.podm in alternates:
            outcome = "alternate"
        elif outcome in ("chosen", "alternate"):
            outcome = "fits"
        yield replace(
            one,
            outcome=outcome,
            behind=None if best is None or one.score is None else round(best - one.score, 6),
            fitting=counts[one.podm] if chosen else one.fitting,
        )


def _explanation(
    policy: Policy, below: Mapping[str, nouns.Explanation], chosen: Sequence[nouns.Candidate]
) -> nouns.Explanation:
    first = chosen[0] if chosen else None
    candidates = [
        replace(one, podm=paths.path(zone, one.podm), outcome="fits")
        for zone, explanation in below.items()
        for one in explanation.candidates
    ]
    candidates.sort(key=lambda one: -one.score)
    if first is not None:
        own = [one for one in candidates if (one.podm, one.pool) == (first.podm, first.pool)]
        others = [one for one in candidates if one.podm != first.podm]
        candidates = [*(replace(one, outcome="chosen") for one in own), *others]
    notes = (
        paths.line_below(zone, note)
        for zone, explanation in below.items()
        for note in explanation.notes
        if not note.startswith(NOTES)
    )
    return nouns.Explanation(
        candidates=tuple(candidates[:MOST_CANDIDATES]),
        runner_up=runner_up(policy, candidates),
        nearest_misses=misses_in_order(
            replace(miss, podm=paths.path(zone, miss.podm))
            for zone, explanation in below.items()
            for miss in explanation.nearest_misses
        ),
        notes=tuple(notes),
    )


def _inventory(reports: Mapping[str, nouns.Report]) -> nouns.InventorySummary:
    found = {zone: report.inventory for zone, report in reports.items()}
    if len(found) == 1 and "" in found:
        return found[""]
    digests = ",".join(f"{zone}={one.digest}" for zone, one in sorted(found.items()))
    digest = digest_of(digests.encode())
    return replace(added_inventories(found), digest=digest)


def added_inventories(
    found: Mapping[str, nouns.InventorySummary], silent: Iterable[nouns.SilentZone] = ()
) -> nouns.InventorySummary:
    skipped = [paths.line_below(zone, line) for zone, one in found.items() for line in one.skipped]
    skipped += [paths.line_below(one.zone, one.reason) for one in silent]
    return nouns.InventorySummary(
        digest="",
        podms=sum(one.podms for one in found.values()),
        pools=sum(one.pools for one in found.values()),
        blocks=sum(one.blocks for one in found.values()),
        skipped=tuple(skipped),
    )


def zoned_result(
    sealed: SealedRequest, selected: Selected, reasons: nouns.Report | None = None
) -> nouns.DecisionResult:
    """Return the result of a selection; InventoryIncomplete if no zone has pod managers."""
    request, nodes = selected.request or sealed.request, selected.nodes
    placed = nodes if len(nodes) >= request.required_count else []
    if not nodes and selected.silent and selected.answered == 1 and not sealed.inventory.podms:
        text = "; ".join(f"{one.zone}: {one.reason}" for one in _sorted(selected.silent))
        raise InventoryIncomplete(f"no zone answered: {text}")
    zones = nouns.DecisionZones(
        answered=selected.answered,
        rounds=selected.rounds,
        placements=tuple(
            nouns.PlacementZone(
                node=number,
                zone=one.chosen.zone,
                alternates=tuple(other.zone for other in one.alternates),
            )
            for number, one in enumerate(placed, 1)
        ),
        silent=_sorted(selected.silent),
        excluded=_sorted(selected.excluded),
    )
    uncounted = tuple(
        one_line(f"zone {one.zone} is not counted in the scarcity of the mix: {one.reason}")
        for one in _sorted(selected.uncounted)
    )
    report = nouns.Report(
        outcome=nouns.outcome_of(len(placed), request.count, undecided=bool(selected.undecided)),
        requested=request.count,
        placed=len(placed),
        fitting=len(nodes),
        seed=request.seed,
        request=request,
        policy=sealed.policy,
        policy_digest=digest_of(to_json(sealed.policy)),
        inventory=sealed.inventory,
        placements=tuple(
            nouns.Placement(
                node=number,
                choice=one.choice,
                chosen=one.chosen.candidate,
                alternates=tuple(other.candidate for other in one.alternates),
            )
            for number, one in enumerate(placed, 1)
        ),
        podms=(),
        funnel=(),
        warnings=uncounted,
        undecided=tuple(selected.undecided.values()),
        zones=zones,
    )
    if reasons is not None:
        taken = ("inventory", "podms", "funnel", "explanation")
        texts = {name: getattr(reasons, name) for name in taken}
        report = replace(report, **texts, warnings=(*reasons.warnings, *uncounted))
    return nouns.DecisionResult(report=report)


def zoned_results(
    requests: Sequence[Request], reports: Sequence[nouns.Report]
) -> nouns.DecisionResults:
    """Return the results of several selections; after a failure no nodes are placed."""
    report = nouns.joined(requests, reports, reports[-1].inventory)
    return nouns.DecisionResults(report=report, details=(None,) * len(reports))


def zoned_report(zone: str, report: nouns.Report, selected: Selected) -> nouns.Report:
    below = {one.node: one for one in report.zones.placements} if report.zones else {}

    def placement(one: nouns.Placement) -> nouns.PlacementZone:
        own = nouns.PlacementZone(node=one.node, zone="", alternates=("",) * len(one.alternates))
        found = below.get(one.node, own)
        alternates = tuple(paths.way(zone, lower) for lower in found.alternates)
        return replace(found, zone=paths.way(zone, found.zone), alternates=alternates)

    placements = tuple(map(placement, report.placements))
    zones = nouns.DecisionZones(
        answered=selected.answered, rounds=selected.rounds, placements=placements
    )
    return replace(report, zones=zones)


def taken_by(request: Request, selected: Selected) -> Iterator[OtherOffer]:
    group = request.group.name if request.group else None
    for one in selected.nodes:
        node = OtherNode(token=one.chosen.token, group=group, owner=request.owner)
        yield OtherOffer(node, one.chosen.zone)


def drop_conflicting_alternates(selections: Sequence[Selected]) -> None:
    """Drop alternates on pod managers with nodes of other selections."""
    taken = [{podm_of(node.chosen) for node in one.nodes} for one in selections]
    for number, one in enumerate(selections):
        others = set().union(*taken[:number], *taken[number + 1 :])
        free = (
            tuple(each for each in node.alternates if podm_of(each) not in others)
            for node in one.nodes
        )
        pairs = zip(one.nodes, free, strict=True)
        one.nodes = [dataclasses.replace(node, alternates=rest) for node, rest in pairs]


def _sorted(zones: Mapping[str, nouns.SilentZone]) -> tuple[nouns.SilentZone, ...]:
    return tuple(sorted(zones.values(), key=lambda one: one.zone))
