# SPDX-License-Identifier: Apache-2.0
"""Reasons below: why the pod managers of each zone make no node, as one zone would say it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from valence_sched.errors import NoPodm, SchedulerError, UnknownName, one_line
from valence_sched.model.decision import FunnelStep, PodmVerdict, Report
from valence_sched.zones import paths


def with_reasons_below(
    own: Report | None, below: Mapping[str, Report | SchedulerError]
) -> Report | None:
    """Return what this zone says of a decision with what the zones directly below say of it.

    Pod managers of a child have its name in front; the steps of the funnels are added up. A child
    that says nothing is a warning. Without any report there is none.
    """
    reports = {zone: one for zone, one in below.items() if isinstance(one, Report)}
    first = own or next(iter(reports.values()), None)
    if first is None:
        return None
    podms: list[PodmVerdict] = list(own.podms) if own else []
    warnings: list[str] = list(own.warnings) if own else []
    funnel: dict[str, FunnelStep] = {step.filter: step for step in (own.funnel if own else ())}
    for zone, answer in below.items():
        if isinstance(answer, UnknownName | NoPodm):  # what is asked for is in other zones
            continue
        if isinstance(answer, SchedulerError):
            warnings.append(one_line(f"zone {zone} gives no reasons: {answer}"))
            continue
        podms += [replace(one, podm=paths.path(zone, one.podm)) for one in answer.podms]
        warnings += [paths.line_below(zone, line) for line in answer.warnings]
        for step in answer.funnel:
            known = funnel.get(step.filter)
            funnel[step.filter] = step if known is None else _sum(known, step)
    return replace(first, podms=tuple(podms), warnings=tuple(warnings),
                   funnel=tuple(funnel.values()),
                   explanation=own.explanation if own else None)  # fmt: skip


def _sum(one: FunnelStep, other: FunnelStep) -> FunnelStep:
    return FunnelStep(filter=one.filter, came_in=one.came_in + other.came_in,
                      went_on=one.went_on + other.went_on,
                      undecided=one.undecided + other.undecided)  # fmt: skip
