# SPDX-License-Identifier: Apache-2.0
"""The Compose action (DSP2050), which applies a whole manifest or nothing, and its reservations."""

import datetime
import re
from collections.abc import Callable, Sequence

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish.composition import Composition, set_status
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import HttpReply, Json, RequestRefused
from valence_sched.simulator.server.reads import expand_document

UNABLE = "UnableToProcessStanzaRequest"
REQUEST_TYPES = ("Preview", "PreviewReserve", "Apply")
DEFAULT_S = 3 * 3600.0
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)


class ComposeAction:
    """The action ``#CompositionService.Compose`` of one pod manager, and its reservations.

    The time of a recorded reservation begins when this object is created.
    """

    def __init__(self, composition: Composition, clock: Callable[[], float]) -> None:
        self._composition, self._clock = composition, clock
        self._documents = composition.documents
        self._ends_s: dict[str, float] = {}
        for uri in self._documents.member_uris(self.collection):
            self._ends_s[uri] = clock() + self._duration_s()
            for block in self._blocks(uri):
                composition.reservations[block] = uri.rpartition("/")[2]

    @property
    def service(self) -> str:
        return docs.uri_at(self._documents.get(ROOT), "CompositionService")

    @property
    def target(self) -> str:
        actions = docs.value_at(self._documents.get(self.service), "Actions")
        return str(docs.value_at(actions, "#CompositionService.Compose", "target") or "")

    @property
    def collection(self) -> str:
        service = self._documents.get(self.service)
        link = docs.uri_at(service, "CompositionReservations")
        return link or f"{self.service}/CompositionReservations"

    def _blocks(self, uri: str) -> list[str]:
        return docs.uris_at(self._documents.get(uri), "ReservedResourceBlocks")

    def _reserved(self, id_: str) -> Json:
        found = self._documents.get(f"{self.collection}/{id_}")
        if found is None or f"{self.collection}/{id_}" not in self._ends_s:
            text = f"There is no reservation {id_}, or it has expired."
            raise RequestRefused(400, "ActionParameterValueError", text, "ReservationId", id_)
        return found

    def _reserve(self, blocks: Sequence[str], manifest: Json, client: str) -> str:
        collection = self.collection
        if self.service in self._documents and collection not in self._documents:
            type_, name = "CompositionReservationCollection", "Composition Reservations"
            self._documents.put_collection(collection, type_, name)
            link = {"@odata.id": collection}
            self._documents.update(self.service, CompositionReservations=link)
        number = self._documents.free_id(collection)
        uri, name = f"{collection}/{number}", f"Composition Reservation {number}"
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        time = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        own: Json = {"ReservationTime": time, "Client": client or "anonymous"}
        own |= {"ReservedResourceBlocks": docs.links_to(blocks), "Manifest": manifest}
        json = docs.resource_document(uri, "CompositionReservation.v1_0_2", name, **own)
        self._documents.add_member(collection, json)
        self._ends_s[uri] = self._clock() + self._duration_s()
        for block in blocks:
            self._composition.reservations[block] = number
            set_status(self._documents, block, Reserved=True)
        return number

    def delete(self, uri: str) -> HttpReply:
        if self._ends_s.pop(uri, None) is None:
            return docs.not_found(uri)
        for block in self._blocks(uri):
            if self._composition.reservations.pop(block, None) is not None:
                set_status(self._documents, block, Reserved=False)
        self._documents.remove_member(self.collection, uri)
        return HttpReply(204)

    def tick(self) -> None:
        now = self._clock()
        for uri in [uri for uri, end in self._ends_s.items() if end <= now]:
            self.delete(uri)

    def _duration_s(self) -> float:
        """Return the duration that the service states in ISO 8601, without years and months."""
        stated = docs.value_at(self._documents.get(self.service), "ReservationDuration")
        found = _DURATION.fullmatch(stated) if isinstance(stated, str) else None
        if not found or not any(found.groups()):
            return DEFAULT_S
        days, hours, minutes, rest = (float(group or 0) for group in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + rest

    def compose(self, body: Json, client: str = "") -> HttpReply:
        kind, reservation = body.get("RequestType"), body.get("ReservationId")
        if kind not in REQUEST_TYPES:
            text = f"RequestType is {kind}, expected one of {', '.join(REQUEST_TYPES)}."
            id_ = "ActionParameterNotSupported"
            raise RequestRefused(400, id_, text, "RequestType", str(kind))
        if body.get("RequestFormat", "Manifest") != "Manifest":
            text = "RequestFormat is not Manifest."
            raise RequestRefused(400, "ActionParameterNotSupported", text, "RequestFormat")
        manifest = body.get("Manifest")
        if reservation is not None:
            reserved = self._reserved(str(reservation))
            manifest = manifest or reserved.get("Manifest")
        stanzas = docs.value_at(manifest, "Stanzas")
        if not isinstance(stanzas, list) or not stanzas:
            raise RequestRefused(400, "EmptyManifest", "The manifest has no stanzas.")
        if not all(isinstance(stanza, dict) for stanza in stanzas):
            raise RequestRefused(400, docs.WRONG_TYPE, "A stanza is not an object.", "Stanzas")
        assert isinstance(manifest, dict)  # otherwise it had no stanzas
        before, claims = self._documents.copy(), dict(self._composition.owners)
        blocks: list[str] = []
        answers, good = self._responses(stanzas, manifest, client, str(reservation or ""), blocks)
        reply = {**body, "Manifest": {**manifest, "Stanzas": answers}}
        if kind != "Apply" or not good:
            self._documents.restore(before)
            self._composition.owners = claims
        if kind == "PreviewReserve" and good:
            reply["ReservationId"] = self._reserve(blocks, manifest, client)
        if kind == "Apply" and good and reservation is not None:
            self.delete(f"{self.collection}/{reservation}")
        return HttpReply(200, reply)

    def _responses(
        self, stanzas: list[Json], manifest: Json, client: str, reservation: str, blocks: list[str]
    ) -> tuple[list[Json], bool]:
        done: list[Json] = []
        for number, stanza in enumerate(stanzas):
            try:
                response = self._response(stanza, manifest, client, reservation, blocks)
            except RequestRefused as refused:
                text = "Not applied, because another stanza was refused."
                ids = (str(one.get("StanzaId")) for one in stanzas)
                responses = [docs.error_body(UNABLE, text, id_) for id_ in ids]
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
            uri = self._composition.compose(plan)
            json = self._documents.get(uri) or {}
            if manifest.get("Expand") in ("All", "Relevant"):
                return expand_document(self._documents, json, uri, ".", 2)
            return json
        text = f"Stanzas of type {kind} are not processed here."
        if kind == "DecomposeSystem":
            if self._composition.decompose(docs.uri_of(request)).status < 400:
                return docs.error_body("Success", "The system was decomposed.", severity="OK")
            text = f"There is no system {docs.uri_of(request) or request}."
        raise RequestRefused(400, UNABLE, text, str(stanza.get("StanzaId")))
