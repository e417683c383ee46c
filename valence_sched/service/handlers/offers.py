# SPDX-License-Identifier: Apache-2.0
"""Handlers of offers: what this zone and those below it offer to the zone above."""

from __future__ import annotations

from msgspec.structs import replace

from valence_sched.errors import AccessDenied
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.service.call import Call
from valence_sched.service.zone import ServedZone


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
    """Return the query within the limits of this service; RequestError where it asks for more."""
    query: OfferQuery = call.body
    call.check_limits(query.request)
    return replace(
        query,
        limit=min(query.limit, call.parts.limits.nodes + call.parts.limits.alternates),
        hops=min(query.hops, zone.most_hops),
        deadline_s=min(query.deadline_s, zone.deadline_s),
    )
