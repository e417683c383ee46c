# SPDX-License-Identifier: Apache-2.0
"""Reasons below: what each zone says of a decision, as one zone with all pod managers would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from valence_sched.errors import NoPodm, SchedulerError, UnknownName, one_line
from valence_sched.model.decision import (
    Candidate,
    FunnelStep,
    InventorySummary,
    PodmVerdict,
    Report,
)
from valence_sched.model.explanation import Contender, Explanation, RunnerUp, ScoreDifference
from valence_sched.zones import paths

OF_ONE_ZONE = "sensitivity: node 1, among the pod managers of"
MOST_CANDIDATES = 6  # of an explanation: the chosen one and the best on other pod managers


def with_reasons_below(
    own: Report | None,
    below: Mapping[str, Report | SchedulerError],
    chosen: Sequence[Candidate] = (),
) -> Report | None:
    """Return what this zone says of a decision with what the zones directly below say of it.

    Pod managers of a child have its name in front; inventories and the steps of the funnels are
    added up. Each zone says what it would choose: the ``chosen`` candidates, by their paths, are
    those of all zones. A child that says nothing is a warning. Without any report there is none.
    """
    reports = {zone: one for zone, one in below.items() if isinstance(one, Report)}
    first = own or next(iter(reports.values()), None)
    if first is None:
        return None
    podms: list[PodmVerdict] = list(own.podms) if own else []
    counted = {"": own, **reports} if own else reports
    warnings = paths.lines_below({zone: one.warnings for zone, one in counted.items()})
    funnel: dict[str, FunnelStep] = {step.filter: step for step in (own.funnel if own else ())}
    for zone, answer in below.items():
        if isinstance(answer, UnknownName | NoPodm):  # what is asked for is in other zones
            continue
        if isinstance(answer, SchedulerError):
            warnings.append(one_line(f"zone {zone} gives no reasons: {answer}"))
            continue
        podms += [replace(one, podm=paths.path(zone, one.podm)) for one in answer.podms]
        for step in answer.funnel:
            known = funnel.get(step.filter)
            funnel[step.filter] = step if known is None else _sum(known, step)
    explained = {zone: one.explanation for zone, one in counted.items() if one.explanation}
    return replace(first, podms=tuple(_verdicts(podms, chosen)), warnings=tuple(warnings),
                   inventory=_inventory(counted), funnel=tuple(funnel.values()),
                   explanation=_explanation(explained, chosen) if explained else None)  # fmt: skip


def _verdicts(
    verdicts: Sequence[PodmVerdict], chosen: Sequence[Candidate]
) -> Iterator[PodmVerdict]:
    """Yield verdicts of zones as those of one decision, which took the ``chosen`` candidates."""
    best = chosen[0].score if chosen else None
    taken = {one.podm for one in chosen}
    for one in verdicts:
        if one.podm in taken:
            yield replace(one, outcome="chosen")
        elif one.outcome in ("chosen", "alternate", "fits"):
            behind = None if best is None or one.score is None else round(best - one.score, 6)
            yield replace(one, outcome="fits", behind=behind)
        else:
            yield one


def _explanation(below: Mapping[str, Explanation], chosen: Sequence[Candidate]) -> Explanation:
    """Return the explanations of zones as that of one decision on all of them.

    What a change of the request would choose instead each zone knows of its own pod managers: that
    of the zone of the first node is kept with a note, and of all zones where no node is placed.
    """
    first = chosen[0] if chosen else None
    candidates = [
        replace(one, podm=paths.path(zone, one.podm), outcome="fits")
        for zone, explanation in below.items()
        for one in explanation.candidates
    ]
    candidates.sort(key=lambda one: -one.score)
    if first is not None:
        candidates = [replace(one, outcome="chosen") for one in candidates if _is(first, one)] + [
            one for one in candidates if one.podm != first.podm
        ]
    flips, notes, in_part = [], [], len(below) > 1
    for zone, explanation in below.items():
        in_part |= any(note.startswith(OF_ONE_ZONE) for note in explanation.notes)
        notes += [paths.line_below(zone, note) for note in explanation.notes
                  if not note.startswith(OF_ONE_ZONE)]  # fmt: skip
        for flip in explanation.flips:
            named = replace(
                flip,
                podm=flip.podm and paths.path(zone, flip.podm),
                instead_of=flip.instead_of and paths.path(zone, flip.instead_of),
            )
            if named.instead_of == (first and first.podm):
                flips.append(named)
    if first is not None and flips and in_part:
        zone = first.podm.rpartition("/")[0]
        notes.append(f"{OF_ONE_ZONE} {f'zone {zone}' if zone else 'this zone'} only")
        if any(one.podm.rpartition("/")[0] != zone for one in candidates):
            flips = [flip for flip in flips if flip.podm is not None]  # it may fit elsewhere
    return Explanation(
        candidates=tuple(candidates[:MOST_CANDIDATES]),
        runner_up=_runner_up(candidates) if first is not None else None,
        nearest_misses=tuple(
            replace(miss, podm=paths.path(zone, miss.podm))
            for zone, explanation in below.items()
            for miss in explanation.nearest_misses
        ),
        flips=tuple(flips),
        notes=tuple(notes),
    )


def _is(chosen: Candidate, one: Contender) -> bool:
    return (one.podm, one.pool) == (chosen.podm, chosen.pool)


def _runner_up(candidates: Sequence[Contender]) -> RunnerUp | None:
    """Return the second of some candidates with what the first has before it, if both are known."""
    if len(candidates) < 2 or candidates[0].outcome != "chosen":
        return None
    best, second = candidates[:2]
    parts = {part.weigher: part.part for part in second.parts}
    differences = [
        ScoreDifference(
            weigher=part.weigher, difference=round(part.part - parts.get(part.weigher, 0.0), 6)
        )
        for part in best.parts
    ]
    return RunnerUp(
        podm=second.podm,
        pool=second.pool,
        score=second.score,
        margin=round(best.score - second.score, 6),
        differences=tuple(differences),
    )


def _inventory(reports: Mapping[str, Report]) -> InventorySummary:
    """Return what several zones have together; its digest is that of their digests."""
    found = {zone: report.inventory for zone, report in reports.items()}
    if len(found) == 1 and "" in found:
        return found[""]
    digests = ",".join(f"{zone}={one.digest}" for zone, one in sorted(found.items()))
    return InventorySummary(
        digest=hashlib.blake2b(digests.encode(), digest_size=16).hexdigest(),
        podms=sum(one.podms for one in found.values()),
        pools=sum(one.pools for one in found.values()),
        blocks=sum(one.blocks for one in found.values()),
        skipped=tuple(
            paths.line_below(zone, line) for zone, one in found.items() for line in one.skipped
        ),
    )


def _sum(one: FunnelStep, other: FunnelStep) -> FunnelStep:
    return FunnelStep(filter=one.filter, came_in=one.came_in + other.came_in,
                      went_on=one.went_on + other.went_on,
                      undecided=one.undecided + other.undecided)  # fmt: skip
