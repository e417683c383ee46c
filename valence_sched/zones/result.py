# SPDX-License-Identifier: Apache-2.0
"""Decisions over zones made into nouns: the nodes that zones offered, and the zones they are of."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.errors import InventoryIncomplete, one_line
from valence_sched.model.decision import Outcome, Placement, Report, Reports
from valence_sched.model.decision_result import DecisionResult, DecisionResults
from valence_sched.model.decision_zones import DecisionZones, PlacementZone
from valence_sched.model.inventory import to_json
from valence_sched.model.request import Request
from valence_sched.model.zone import OtherNode, SealedRequest
from valence_sched.zones import paths
from valence_sched.zones.selection import OtherOffer, Selected, podm_of


def zoned_result(
    sealed: SealedRequest, selected: Selected, reasons: Report | None = None
) -> DecisionResult:
    """Return the result of a selection over zones.

    ``reasons`` is the report of an engine that says what is true of this decision, too.

    Raises:
        InventoryIncomplete: nothing is placed, and no zone but this one, without pod managers,
            answered.
    """
    request, nodes = selected.request or sealed.request, selected.nodes
    fitting = len(nodes)
    placed = nodes if fitting >= request.required_count else []
    if not nodes and selected.silent and selected.answered == 1 and not sealed.inventory.podms:
        raise InventoryIncomplete(one_line(f"no zone answered: {silent_text(selected)}"))
    zones = DecisionZones(
        answered=selected.answered,
        rounds=selected.rounds,
        placements=tuple(
            PlacementZone(
                node=number,
                zone=one.chosen.zone,
                alternates=tuple(other.zone for other in one.alternates),
            )
            for number, one in enumerate(placed, 1)
        ),
        silent=tuple(sorted(selected.silent.values(), key=lambda one: one.zone)),
        excluded=tuple(sorted(selected.excluded.values(), key=lambda one: one.zone)),
    )
    uncounted = tuple(
        one_line(f"zone {one.zone} does not count in the scarcity of the mix: {one.reason}")
        for one in sorted(selected.uncounted.values(), key=lambda one: one.zone)
    )
    report = Report(
        outcome=_outcome(len(placed), request.count, undecided=bool(selected.undecided)),
        requested=request.count,
        placed=len(placed),
        fitting=fitting,
        seed=request.seed,
        request=request,
        policy=sealed.policy,
        policy_digest=hashlib.blake2b(to_json(sealed.policy), digest_size=16).hexdigest(),
        inventory=sealed.inventory,
        placements=tuple(
            Placement(
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
        report = replace(
            report,
            inventory=reasons.inventory,
            podms=reasons.podms,
            funnel=reasons.funnel,
            warnings=(*reasons.warnings, *uncounted),
            explanation=reasons.explanation,
        )
    return DecisionResult(report=report)


def zoned_results(requests: Sequence[Request], reports: Sequence[Report]) -> DecisionResults:
    """Return the results of several selections; after one that fails nothing is placed."""
    *earlier, last = reports
    failed = last.placed < last.request.required_count
    if failed:
        earlier = [_without_placements(one) for one in earlier]
    decided = (*earlier, last)
    requested = sum(request.count for request in requests)
    placed = 0 if failed else sum(one.placed for one in decided)
    undecided = any(one.undecided for one in ((last,) if failed else decided))
    report = Reports(
        outcome=_outcome(placed, requested, undecided=undecided),
        requested=requested,
        placed=placed,
        inventory=last.inventory,
        decisions=decided,
        warnings=tuple(dict.fromkeys(note for one in decided for note in one.warnings)),
    )
    return DecisionResults(report=report, details=(None,) * len(decided))


def zoned_report(zone: str, report: Report, selected: Selected) -> Report:
    """Return the report of a decision that one zone made alone, as the zone above names it."""
    below = {one.node: one for one in report.zones.placements} if report.zones else {}

    def placement(one: Placement) -> PlacementZone:
        own = PlacementZone(node=one.node, zone="", alternates=("",) * len(one.alternates))
        found = below.get(one.node, own)
        alternates = tuple(paths.way(zone, lower) for lower in found.alternates)
        return replace(found, zone=paths.way(zone, found.zone), alternates=alternates)

    zones = DecisionZones(answered=selected.answered, rounds=selected.rounds,
                          placements=tuple(map(placement, report.placements)))  # fmt: skip
    return replace(report, zones=zones)


def taken_by(request: Request, selected: Selected) -> Iterator[OtherOffer]:
    """Yield the nodes of a request for the requests that are decided after it."""
    group = request.group.name if request.group else None
    for one in selected.nodes:
        node = OtherNode(token=one.chosen.token, group=group, owner=request.owner)
        yield OtherOffer(node, one.chosen.zone)


def drop_conflicting_alternates(selections: Sequence[Selected]) -> None:
    """Leave out of each selection the alternates on pod managers that take nodes of the others."""
    taken = [{podm_of(node.chosen) for node in one.nodes} for one in selections]
    for number, one in enumerate(selections):
        others = set().union(*taken[:number], *taken[number + 1 :])
        one.nodes = [
            dataclasses.replace(
                node,
                alternates=tuple(each for each in node.alternates if podm_of(each) not in others),
            )
            for node in one.nodes
        ]


def _without_placements(report: Report) -> Report:
    """Return the report of a decision that another request has brought to nothing."""
    zones = report.zones
    assert zones is not UNSET, "each of them is about zones"
    return replace(report, outcome="nothing_fits", placed=0, placements=(), podms=(),
                   zones=replace(zones, placements=()))  # fmt: skip


def _outcome(placed: int, requested: int, *, undecided: bool) -> Outcome:
    if not placed:
        return "undecided" if undecided else "nothing_fits"
    return "placed" if placed == requested else "placed_in_part"


def silent_text(selected: Selected) -> str:
    """Return the zones that did not answer, with the reason of each."""
    silent = sorted(selected.silent.values(), key=lambda one: one.zone)
    return "; ".join(f"{one.zone}: {one.reason}" for one in silent)
