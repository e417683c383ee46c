# SPDX-License-Identifier: Apache-2.0
"""Handlers of zones: what this one tells and offers, and what the zone above holds of it."""

from __future__ import annotations

from msgspec.structs import replace

from valence_sched.errors import AccessDenied
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.model.zone_registry import ZoneNode, ZoneTreeQuery
from valence_sched.service.call import Call, CallResult, ServedZone


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


def offers(call: Call) -> ZoneAnswer:
    """Offer nodes for a request, from this zone and those below it, to the zone above."""
    zone = served_zone(call)
    return zone.tree(call.user.tenant).offers(_bounded(call, zone))


def group_state(call: Call) -> GroupAnswer:
    """Count the nodes of a group and the supplies to a mix, in this zone and in those below it."""
    zone = served_zone(call)
    return zone.tree(call.user.tenant).group_state(_bounded(call, zone))


def served_zone(call: Call) -> ServedZone:
    """Return the zone of the service; AccessDenied where routing is not enabled."""
    zone = call.parts.zone
    if zone is None:
        raise AccessDenied("this zone offers nothing to a zone above: set enable_zone_routing: "
                           "true in the section zones of its settings")  # fmt: skip
    return zone


def _bounded(call: Call, zone: ServedZone) -> OfferQuery:
    query: OfferQuery = call.body
    call.check_limits(query.request)
    return replace(
        query,
        limit=min(query.limit, call.parts.limits.nodes + call.parts.limits.alternates),
        hops=min(query.hops, zone.most_hops),
        deadline_s=min(query.deadline_s, zone.deadline_s),
    )


def hold(call: Call) -> CallResult:
    """Hold what this zone and those below it offered to the zone above, all of it or nothing."""
    zone, body = served_zone(call), call.body
    body = replace(body, request=call.checked(body.request), hops=min(body.hops, zone.most_hops),
                   deadline_s=min(body.deadline_s, zone.deadline_s))  # fmt: skip
    claim = zone.hold_offers(call.user.tenant, body, call.key)
    return CallResult(claim, 201, {"Location": f"/v1/claims/{claim.id}"})
