# SPDX-License-Identifier: Apache-2.0
"""The Compose action: a manifest of stanzas, all of them or none (DSP2050)."""

from __future__ import annotations

from typing import Any

from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.redfish.reservations import Reservations
from valence_sched.simulator.server.documents import Answer, Documents, Json, part, uri_of
from valence_sched.simulator.server.errors import Refused, error
from valence_sched.simulator.server.expand import Expand, expanded

REQUEST_TYPES = ("Preview", "PreviewReserve", "Apply")


class ComposeAction:
    """What ``#CompositionService.Compose`` does on the documents of a pod manager."""

    def __init__(
        self, documents: Documents, composition: Composition, reservations: Reservations
    ) -> None:
        self._documents, self._composition = documents, composition
        self._reservations = reservations

    def compose(self, body: Json, client: str = "") -> Answer:
        """Try or do a manifest: 200 with a response to each stanza, errors of stanzas too.

        Raises:
            Refused: the request as a whole is not what it must be.
        """
        _check(body)
        kind, reservation = body["RequestType"], body.get("ReservationId")
        manifest = body.get("Manifest")
        if reservation is not None:
            kept = self._reservations.known(str(reservation))
            manifest = manifest or kept.get("Manifest")
        stanzas = _stanzas(manifest)
        assert isinstance(manifest, dict)  # or there were no stanzas
        before, claims = self._documents.copy(), dict(self._composition.owners)
        blocks: list[str] = []
        answers, good = self._responses(stanzas, manifest, client, str(reservation or ""), blocks)
        reply = {**body, "Manifest": {**manifest, "Stanzas": answers}}
        if kind != "Apply" or not good:
            self._documents.go_back(before)
            self._composition.owners = claims
        if kind == "PreviewReserve" and good:
            reply["ReservationId"] = self._reservations.create(blocks, manifest, client)
        if kind == "Apply" and good and reservation is not None:
            self._reservations.spend(str(reservation))
        return Answer(200, reply)

    def _responses(
        self, stanzas: list[Json], manifest: Json, client: str, reservation: str, blocks: list[str]
    ) -> tuple[list[Json], bool]:
        """Return the stanzas with a response each, and whether all of them could be done."""
        done: list[Json] = []
        for number, stanza in enumerate(stanzas):
            try:
                response = self._response(stanza, manifest, client, reservation, blocks)
            except Refused as refused:
                said = [_undone(str(one.get("StanzaId"))) for one in stanzas]
                said[number] = refused.answer.body or {}
                pairs = zip(stanzas, said, strict=True)
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
                raise Refused(400, "UnableToProcessStanzaRequest", text, str(stanza["StanzaId"]))
            return error("Success", "The system was decomposed.", severity="OK")
        text = f"Stanzas of type {kind} are not processed here."
        raise Refused(400, "UnableToProcessStanzaRequest", text, str(stanza.get("StanzaId")))

    def _shown(self, uri: str, manifest: Json) -> Json:
        json = self._documents.get(uri) or {}
        if manifest.get("Expand") in ("All", "Relevant"):
            return expanded(self._documents, json, uri, Expand(".", 2))
        return json


def target(documents: Documents, service: str) -> str:
    """Return where the Compose action is posted to, as the service advertises it."""
    action = part(documents.get(service), "Actions", "#CompositionService.Compose", "target")
    return str(action) if action else ""


def _check(body: Json) -> None:
    if body.get("RequestType") not in REQUEST_TYPES:
        found = str(body.get("RequestType"))
        text = f"RequestType is {found}, expected one of {', '.join(REQUEST_TYPES)}."
        raise Refused(400, "ActionParameterNotSupported", text, "RequestType", found)
    if body.get("RequestFormat", "Manifest") != "Manifest":
        text = "RequestFormat is not Manifest."
        raise Refused(400, "ActionParameterNotSupported", text, "RequestFormat")


def _stanzas(manifest: Any) -> list[Json]:
    stanzas = part(manifest, "Stanzas")
    if not isinstance(stanzas, list) or not stanzas:
        raise Refused(400, "EmptyManifest", "The manifest has no stanzas.")
    if not all(isinstance(stanza, dict) for stanza in stanzas):
        raise Refused(400, "PropertyValueTypeError", "A stanza is no object.", "Stanzas")
    return stanzas


def _undone(stanza: str) -> Json:
    text = "Not done, because another stanza cannot be done."
    return error("UnableToProcessStanzaRequest", text, stanza)
