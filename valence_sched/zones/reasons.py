# SPDX-License-Identifier: Apache-2.0
"""Reasons below: why the pod managers of each zone make no node, as one zone would say it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from valence_sched.errors import NoPodm, SchedulerError, UnknownName, one_line
from valence_sched.model.decision import FunnelStep, InventorySummary, PodmVerdict, Report
from valence_sched.zones import paths


def with_reasons_below(
    own: Report | None, below: Mapping[str, Report | SchedulerError]
) -> Report | None:
    """Return what this zone says of a decision with what the zones directly below say of it.

    Pod managers of a child have its name in front; inventories and the steps of the funnels are
    added up. A child that says nothing is a warning. Without any report there is none.
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
    counted = {"": own, **reports} if own else reports
    return replace(first, podms=tuple(podms), warnings=tuple(warnings),
                   inventory=_inventory(counted),
                   funnel=tuple(funnel.values()),
                   explanation=own.explanation if own else None)  # fmt: skip


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
