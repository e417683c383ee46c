# SPDX-License-Identifier: Apache-2.0
"""RemoteZone: a zone asked over the HTTP of its service."""

from __future__ import annotations

from typing import TypeVar

from valence_sched.model.claim import Claim
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler

T = TypeVar("T")

MOST_ANSWER_BYTES = 64 << 20  # of what one child sends for one query


class RemoteZone:
    """The zone of a service; its errors are the same, and ServiceError where it gives no answer.

    Each query is answered within its deadline. What a newer service adds to an answer is ignored.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    def offers(self, query: OfferQuery) -> ZoneAnswer:
        """Return what the zone and those below it offer."""
        return self._ask("zones/offers", query, ZoneAnswer)

    def group_state(self, query: OfferQuery) -> GroupAnswer:
        """Return the group state of the request on its pod managers and those below."""
        return self._ask("zones/group_state", query, GroupAnswer)

    def hold_offers(self, body: ZoneClaimBody, *, key: str | None = None) -> Claim:
        """Hold offers of the zone, all or none; errors as of the zone."""
        content = self._connection.ask("POST", "zones/claims", body=body, key=key,
                                       deadline_s=body.deadline_s)  # fmt: skip
        return self._connection.decode(content, Claim)

    def verbs(self) -> RemoteScheduler:
        """Return the verbs of the zone's scheduler."""
        return RemoteScheduler(self._connection)

    def _ask(self, path: str, query: OfferQuery, kind: type[T]) -> T:
        content = self._connection.ask("POST", path, body=query, deadline_s=query.deadline_s,
                                       most_bytes=MOST_ANSWER_BYTES)  # fmt: skip
        return self._connection.decode(content, kind)
