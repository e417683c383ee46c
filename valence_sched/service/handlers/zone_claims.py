# SPDX-License-Identifier: Apache-2.0
"""Handler of claims over zones: the zone above has held what it was offered."""

from __future__ import annotations

from msgspec.structs import replace

from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.service.call import Call, CallResult
from valence_sched.service.handlers.offers import served_zone


def hold(call: Call) -> CallResult:
    """Hold what this zone and those below it offered to the zone above, all of it or nothing."""
    zone, body = served_zone(call), _bounded(call)
    body = replace(body, hops=min(body.hops, zone.most_hops),
                   deadline_s=min(body.deadline_s, zone.deadline_s))  # fmt: skip
    claim = zone.hold_offers(call.user.tenant, body, call.key)
    return CallResult(claim, 201, {"Location": f"/v1/claims/{claim.id}"})


def _bounded(call: Call) -> ZoneClaimBody:
    """Return the body with the owner that its user may claim for; errors as of a request."""
    body: ZoneClaimBody = call.body
    return replace(body, request=call.checked(body.request))
