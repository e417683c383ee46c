# SPDX-License-Identifier: Apache-2.0
"""The Compose action: a manifest of stanzas, applied as a whole or not at all (DSP2050)."""

from __future__ import annotations

from typing import Any

from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.redfish.reservations import Reservations
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    uri_of,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, error_body
from valence_sched.simulator.server.expand import ExpandQuery, expand_document

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
            self._reservations.consume(str(reservation))
        return SimulatedReply(200, reply)

    def _responses(
        self, stanzas: list[Json], manifest: Json, client: str, reservation: str, blocks: list[str]
    ) -> tuple[list[Json], bool]:
        """Return the stanzas with a response each, and whether all of them could be done."""
        done: list[Json] = []
        for number, stanza in enumerate(stanzas):
            try:
                response = self._response(stanza, manifest, client, reservation, blocks)
            except RequestRefused as refused:
                responses = [_undone_error(str(one.get("StanzaId"))) for one in stanzas]
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
                raise RequestRefused(
                    400, "UnableToProcessStanzaRequest", text, str(stanza["StanzaId"])
                )
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
        raise RequestRefused(400, "PropertyValueTypeError", "A stanza is no object.", "Stanzas")
    return stanzas


def _undone_error(stanza: str) -> Json:
    text = "Not done, because another stanza cannot be done."
    return error_body("UnableToProcessStanzaRequest", text, stanza)
