# SPDX-License-Identifier: Apache-2.0
"""Zone claims: what one claim holds in several zones, as the zone above them keeps it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.model.request import MAX_NODES, Request
from valence_sched.model.scheduler import TTL_S
from valence_sched.model.verbs import TtlSeconds
from valence_sched.model.zone import DomainValues, Token, ZoneName
from valence_sched.model.zone_depth import MOST_HOPS

#: PREPARED: the zones are asked. RELEASING: a zone did not answer to a release. The last three are
#: final, as of a claim.
ZoneClaimState = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING", "RELEASED", "EXPIRED", "FAILED"
]
LIVE_STATES: tuple[ZoneClaimState, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING")
ENDED_STATES: tuple[ZoneClaimState, ...] = ("RELEASED", "EXPIRED", "FAILED")


class ZoneClaimBody(Noun, frozen=True, kw_only=True):
    """Offers that a zone is to hold, all of them or none, for ``ttl_s``.

    ``tokens`` are those of its own offers, in the order of the nodes. ``content`` is what the
    idempotency key stands for, the offers themselves where it is None. ``route``, ``hops`` and
    ``deadline_s`` are as of an offer query.
    """

    request: Request
    tokens: Annotated[tuple[Token, ...], Meta(min_length=1, max_length=MAX_NODES)]
    ttl_s: TtlSeconds = TTL_S
    content: str | None = None
    route: tuple[ZoneName, ...] = ()
    hops: Annotated[int, Meta(ge=0, le=MOST_HOPS)] = MOST_HOPS
    deadline_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


class ZoneClaimPart(Noun, frozen=True, kw_only=True):
    """The part of a claim in one zone: its claim there, and the numbers of its nodes.

    ``zone`` is a child by its name, empty for the pod managers of the zone itself. ``claim`` is
    empty until the zone has answered. ``places`` are those of the nodes of a group: while the zone
    does not answer, they count where they are.
    """

    zone: str
    claim: str = ""
    nodes: tuple[int, ...] = ()
    places: tuple[DomainValues, ...] = ()


ZoneClaimParts = tuple[ZoneClaimPart, ...]


class ZoneClaim(Noun, frozen=True, kw_only=True):
    """A claim over zones directly below; times are seconds since 1970 by the database's clock.

    ``content`` is a digest of what an idempotency ``key`` stands for.
    """

    id: str
    state: ZoneClaimState
    owner: str | None = None
    group: str | None = None
    key: str | None = None
    content: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    note: str | None = None
    parts: ZoneClaimParts = ()
