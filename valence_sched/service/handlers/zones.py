# SPDX-License-Identifier: Apache-2.0
"""Handlers of zones: what this one tells of itself, and the registry of those directly below."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.model.zone_registry import ZoneInfo, ZoneNode, ZoneOverview, ZoneTreeQuery
from valence_sched.service.call import Call, CallResult


def zone_info(call: Call) -> ZoneInfo:
    """Show the name and the capabilities of the zone of the service."""
    with call.reading() as scheduler:
        return scheduler.zone_info()


def zone_tree(call: Call) -> ZoneNode:
    """Show the zone of the service and those below it, with what each has."""
    query = call.query_noun(ZoneTreeQuery)
    with call.reading() as scheduler:
        own = scheduler.zone_tree(hops=0)
    # others decide while the zones below are waited for
    with call.parts.schedulers.changing() as scheduler:
        branches = scheduler.zone_branches(
            hops=query.hops, deadline_s=query.deadline_s, route=query.zones_above
        )
        return replace(own, children=tuple(branches))


def zones(call: Call) -> Sequence[ZoneOverview]:
    """List the zones directly below."""
    with call.parts.schedulers.changing() as scheduler:
        return tuple(scheduler.zones())


def zone(call: Call) -> ZoneOverview:
    """Show a zone directly below."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.zone(call.name())


def add_zone(call: Call) -> CallResult:
    """Store a zone directly below, without a connection to it."""
    with call.parts.schedulers.changing() as scheduler:
        return CallResult(scheduler.add_zone(call.body), 201)


def change_zone(call: Call) -> ZoneOverview:
    """Change what is stored of a zone directly below."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.change_zone(call.name(), call.body)


def delete_zone(call: Call) -> CallResult:
    """Forget a zone directly below; the zone itself stays as it is."""
    with call.parts.schedulers.changing() as scheduler:
        for error in scheduler.delete_zones([call.name()]):
            raise error
    return CallResult(status=204)
