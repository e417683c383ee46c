# SPDX-License-Identifier: Apache-2.0
"""Handlers of zones: what this one tells of itself, and the registry of those directly below."""

from __future__ import annotations

from msgspec.structs import replace

from valence_sched.model.zone_registry import ZoneNode, ZoneTreeQuery
from valence_sched.service.call import Call


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
