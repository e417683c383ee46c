# SPDX-License-Identifier: Apache-2.0
"""Reservations of blocks: created by PreviewReserve, consumed by Apply, expired by age."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable

from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    list_member,
    member_uris,
    unlist_member,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, not_found

DEFAULT_S = 3 * 3600.0

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)


class Reservations:
    """The reservations of one pod manager; those it was recorded with begin when it starts."""

    def __init__(
        self, documents: DocumentTree, composition: Composition, clock: Callable[[], float]
    ) -> None:
        self._documents, self._composition, self._clock = documents, composition, clock
        self._ends_s: dict[str, float] = {}
        for uri in member_uris(documents, self.collection):
            self._ends_s[uri] = clock() + self._duration_s()
            for block in self.blocks(uri):
                composition.reservations[block] = _id(uri)

    @property
    def service(self) -> str:
        """Return the URI of the composition service, empty when there is none."""
        return uri_of(value_at(self._documents.get(blocks.ROOT), "CompositionService"))

    @property
    def collection(self) -> str:
        """Return the URI of the collection of reservations."""
        service = self._documents.get(self.service)
        link = uri_of(value_at(service, "CompositionReservations"))
        return link or f"{self.service}/CompositionReservations"

    def blocks(self, uri: str) -> list[str]:
        """Return the blocks of a reservation."""
        return uris(value_at(self._documents.get(uri), "ReservedResourceBlocks"))

    def get(self, id_: str) -> Json:
        """Return a reservation; RequestRefused if none has this id, or it has expired."""
        found = self._documents.get(f"{self.collection}/{id_}")
        if found is None or f"{self.collection}/{id_}" not in self._ends_s:
            text = f"There is no reservation {id_}, or it has expired."
            raise RequestRefused(400, "ActionParameterValueError", text, "ReservationId", id_)
        return found

    def create(self, wanted: Iterable[str], manifest: Json, client: str) -> str:
        """Reserve blocks and return the id of the reservation."""
        self._offer_collection()
        held = list(wanted)
        number = 1
        while f"{self.collection}/{number}" in self._documents:
            number += 1
        uri = f"{self.collection}/{number}"
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        self._documents.put(uri, {
            "@odata.type": "#CompositionReservation.v1_0_2.CompositionReservation",
            "@odata.id": uri,
            "Id": str(number),
            "Name": f"Composition Reservation {number}",
            "ReservationTime": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "Client": client or "anonymous",
            "ReservedResourceBlocks": [{"@odata.id": block} for block in held],
            "Manifest": manifest,
        })  # fmt: skip
        list_member(self._documents, self.collection, uri)
        self._ends_s[uri] = self._clock() + self._duration_s()
        for block in held:
            self._composition.reservations[block] = str(number)
            blocks.set_status(self._documents, block, Reserved=True)
        return str(number)

    def delete(self, uri: str) -> SimulatedReply:
        """Give the blocks of a reservation free."""
        if self._ends_s.pop(uri, None) is None:
            return not_found(uri)
        for block in self.blocks(uri):
            if self._composition.reservations.pop(block, None) is not None:
                blocks.set_status(self._documents, block, Reserved=False)
        unlist_member(self._documents, self.collection, uri)
        self._documents.remove(uri)
        return SimulatedReply(204)

    def consume(self, id_: str) -> None:
        """End a reservation because it was applied."""
        self.delete(f"{self.collection}/{id_}")

    def tick(self) -> None:
        """End the reservations that are too old."""
        now = self._clock()
        for uri in [uri for uri, end in self._ends_s.items() if end <= now]:
            self.delete(uri)

    def _duration_s(self) -> float:
        stated = value_at(self._documents.get(self.service), "ReservationDuration")
        return parse_duration_s(stated) if isinstance(stated, str) else DEFAULT_S

    def _offer_collection(self) -> None:
        service = self._documents.get(self.service)
        if service is not None and self.collection not in self._documents:
            uri = self.collection
            self._documents.put(uri, {
                "@odata.type": "#CompositionReservationCollection.CompositionReservationCollection",
                "@odata.id": uri,
                "Name": "Composition Reservations",
                "Members@odata.count": 0,
                "Members": [],
            })  # fmt: skip
            link = {"CompositionReservations": {"@odata.id": uri}}
            self._documents.put(self.service, {**service, **link})


def parse_duration_s(duration: str) -> float:
    """Return an ISO 8601 duration without years and months; three hours for any other text."""
    found = _DURATION.fullmatch(duration)
    if not found or not any(found.groups()):
        return DEFAULT_S
    days, hours, minutes, rest = (float(group or 0) for group in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _id(uri: str) -> str:
    return uri.rpartition("/")[2]
