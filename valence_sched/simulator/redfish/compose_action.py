# SPDX-License-Identifier: Apache-2.0
"""The Compose action (DSP2050): a manifest applied as a whole or not at all; reservations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server.documents import (
    WRONG_TYPE,
    DocumentTree,
    Json,
    RequestRefused,
    SimulatedReply,
    collection_document,
    error_body,
    links_to,
    not_found,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.reads import ExpandQuery, expand_document

REQUEST_TYPES = ("Preview", "PreviewReserve", "Apply")


class ComposeAction:
    """The action ``#CompositionService.Compose`` on the documents of a pod manager."""

    def __init__(
        self, documents: DocumentTree, composition: Composition, reservations: Reservations
    ) -> None:
        self._documents, self._composition = documents, composition
        self._reservations = reservations

    def compose(self, body: Json, client: str = "") -> SimulatedReply:
        """Try or do a manifest: 200 with a response to each stanza, errors of stanzas too."""
        _check(body)
        kind, reservation = body["RequestType"], body.get("ReservationId")
        manifest = body.get("Manifest")
        if reservation is not None:
            reserved = self._reservations.get(str(reservation))
            manifest = manifest or reserved.get("Manifest")
        stanzas = _stanzas(manifest)
        assert isinstance(manifest, dict)  # or there were no stanzas
        before, claims = self._documents.copy(), dict(self._composition.owners)
        blocks: list[str] = []
        answers, good = self._responses(stanzas, manifest, client, str(reservation or ""), blocks)
        reply = {**body, "Manifest": {**manifest, "Stanzas": answers}}
        if kind != "Apply" or not good:
            self._documents.restore(before)
            self._composition.owners = claims
        if kind == "PreviewReserve" and good:
            reply["ReservationId"] = self._reservations.create(blocks, manifest, client)
        if kind == "Apply" and good and reservation is not None:
            self._reservations.delete(f"{self._reservations.collection}/{reservation}")
        return SimulatedReply(200, reply)

    def _responses(
        self, stanzas: list[Json], manifest: Json, client: str, reservation: str, blocks: list[str]
    ) -> tuple[list[Json], bool]:
        done: list[Json] = []
        for number, stanza in enumerate(stanzas):
            try:
                response = self._response(stanza, manifest, client, reservation, blocks)
            except RequestRefused as refused:
                text = "Not done, because another stanza cannot be done."
                responses = [
                    error_body("UnableToProcessStanzaRequest", text, str(one.get("StanzaId")))
                    for one in stanzas
                ]
                responses[number] = refused.answer.body or {}
                pairs = zip(stanzas, responses, strict=True)
                return [{**one, "Response": answer} for one, answer in pairs], False
            done.append({**stanza, "Response": response})
        return done, True

    def _response(
        self, stanza: Json, manifest: Json, client: str, reservation: str, blocks: list[str]
    ) -> Json:
        kind, request = stanza.get("StanzaType"), stanza.get("Request")
        request = request if isinstance(request, dict) else {}
        if kind == "ComposeSystem":
            named = {"Name": str(stanza.get("StanzaId") or "Composed"), **request}
            plan = self._composition.plan(named, client, reservation)
            blocks += plan.blocks
            return self._shown(self._composition.compose(plan), manifest)
        if kind == "DecomposeSystem":
            answer = self._composition.decompose(uri_of(request))
            if answer.status >= 400:
                text = f"There is no system {uri_of(request) or request}."
                id_ = str(stanza["StanzaId"])
                raise RequestRefused(400, "UnableToProcessStanzaRequest", text, id_)
            return error_body("Success", "The system was decomposed.", severity="OK")
        text = f"Stanzas of type {kind} are not processed here."
        raise RequestRefused(400, "UnableToProcessStanzaRequest", text, str(stanza.get("StanzaId")))

    def _shown(self, uri: str, manifest: Json) -> Json:
        json = self._documents.get(uri) or {}
        if manifest.get("Expand") in ("All", "Relevant"):
            return expand_document(self._documents, json, uri, ExpandQuery(".", 2))
        return json


def target(documents: DocumentTree, service: str) -> str:
    """Return where the Compose action is posted to, as the service advertises it."""
    action = value_at(documents.get(service), "Actions", "#CompositionService.Compose", "target")
    return str(action) if action else ""


def _check(body: Json) -> None:
    if body.get("RequestType") not in REQUEST_TYPES:
        found = str(body.get("RequestType"))
        text = f"RequestType is {found}, expected one of {', '.join(REQUEST_TYPES)}."
        raise RequestRefused(400, "ActionParameterNotSupported", text, "RequestType", found)
    if body.get("RequestFormat", "Manifest") != "Manifest":
        text = "RequestFormat is not Manifest."
        raise RequestRefused(400, "ActionParameterNotSupported", text, "RequestFormat")


def _stanzas(manifest: Any) -> list[Json]:
    stanzas = value_at(manifest, "Stanzas")
    if not isinstance(stanzas, list) or not stanzas:
        raise RequestRefused(400, "EmptyManifest", "The manifest has no stanzas.")
    if not all(isinstance(stanza, dict) for stanza in stanzas):
        raise RequestRefused(400, WRONG_TYPE, "A stanza is no object.", "Stanzas")
    return stanzas


DEFAULT_S = 3 * 3600.0
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)


class Reservations:
    """The reservations of one pod manager; those it was recorded with begin when it starts."""

    def __init__(
        self, documents: DocumentTree, composition: Composition, clock: Callable[[], float]
    ) -> None:
        self._documents, self._composition, self._clock = documents, composition, clock
        self._ends_s: dict[str, float] = {}
        for uri in documents.member_uris(self.collection):
            self._ends_s[uri] = clock() + self._duration_s()
            for block in self.blocks(uri):
                composition.reservations[block] = uri.rpartition("/")[2]

    @property
    def service(self) -> str:
        """Return the URI of the composition service, empty when there is none."""
        return uri_of(value_at(self._documents.get(ROOT), "CompositionService"))

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
        number = self._documents.free_id(self.collection)
        uri = f"{self.collection}/{number}"
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        self._documents.add_member(self.collection, {
            "@odata.type": "#CompositionReservation.v1_0_2.CompositionReservation",
            "@odata.id": uri,
            "Id": number,
            "Name": f"Composition Reservation {number}",
            "ReservationTime": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "Client": client or "anonymous",
            "ReservedResourceBlocks": links_to(held),
            "Manifest": manifest,
        })  # fmt: skip
        self._ends_s[uri] = self._clock() + self._duration_s()
        for block in held:
            self._composition.reservations[block] = number
            blocks.set_status(self._documents, block, Reserved=True)
        return number

    def delete(self, uri: str) -> SimulatedReply:
        """Give the blocks of a reservation free."""
        if self._ends_s.pop(uri, None) is None:
            return not_found(uri)
        for block in self.blocks(uri):
            if self._composition.reservations.pop(block, None) is not None:
                blocks.set_status(self._documents, block, Reserved=False)
        self._documents.remove_member(self.collection, uri)
        return SimulatedReply(204)

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
            type_, name = "CompositionReservationCollection", "Composition Reservations"
            self._documents.put(uri, collection_document(uri, type_, name))
            link = {"CompositionReservations": {"@odata.id": uri}}
            self._documents.put(self.service, {**service, **link})


def parse_duration_s(duration: str) -> float:
    """Return an ISO 8601 duration without years and months; three hours for any other text."""
    found = _DURATION.fullmatch(duration)
    if not found or not any(found.groups()):
        return DEFAULT_S
    days, hours, minutes, rest = (float(group or 0) for group in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest
