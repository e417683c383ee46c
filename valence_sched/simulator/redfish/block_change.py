# SPDX-License-Identifier: Apache-2.0
"""Changes of systems by lists of blocks, by zones, and by the Compose action (DSP2050)."""

import datetime
import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish.composition import Composition, set_status
from valence_sched.simulator.redfish.fabric import FabricZones
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import HttpReply, Json, RequestRefused
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.reads import expand_document
from valence_sched.simulator.server.services import Tasks

VERBS = ("AddResourceBlock", "RemoveResourceBlock")
#: The answer to a request whose connection is cut.
CUT = HttpReply(0)


class ChangeTarget(NamedTuple):
    """A document with a list that attaches: the blocks of a system, or the endpoints of a zone."""

    uri: str
    system: str
    present: list[str]
    check: Callable[[Sequence[str]], None]
    apply: Callable[[Sequence[str]], None]
    composing: Callable[[Sequence[str]], Sequence[str]]


class BlockChanges:
    """The changes of one pod manager, with its faults."""

    def __init__(
        self, composition: Composition, tasks: Tasks, faults: Faults, clock: Callable[[], float]
    ) -> None:
        self._composition, self._tasks, self._faults = composition, tasks, faults
        self._documents, self._clock = composition.documents, clock
        self._zones = FabricZones(composition)
        self._late: list[tuple[float, Callable[[], str]]] = []
        self._ports: dict[str, int] = {}  # of each system or zone, by the first change of it

    def patch(self, system: str, body: Json, client: str) -> HttpReply | None:
        """Replace the blocks of a system; return None if the rest of the body remains."""
        wanted = docs.linked_by(body, "ResourceBlocks")
        reply = self._change(self._system(system, client), wanted)
        if reply is None and "patch-replaces" in self._faults:
            links = docs.object_of(self._documents.get(system), "Links")
            self._documents.update(system, Links={"ResourceBlocks": links["ResourceBlocks"]})
        return reply

    def act(self, system: str, verb: str, body: Json, client: str) -> HttpReply:
        """Carry out an action of a system that advertises it."""
        wanted = self._wanted(system, verb, body, "ComputerSystem", "ResourceBlock")
        return self._change(self._system(system, client), wanted) or HttpReply(204)

    def is_zone(self, uri: str) -> bool:
        return bool(self._zones.host(uri))

    def patch_zone(self, zone: str, body: Json) -> HttpReply:
        """Replace the endpoints of a zone."""
        changed = self._change(self._zone(zone), docs.linked_by(body, "Endpoints"))
        return changed or HttpReply(200, self._documents.get(zone))

    def act_on_zone(self, zone: str, verb: str, body: Json) -> HttpReply:
        """Carry out an action of a zone that advertises it."""
        wanted = self._wanted(zone, verb, body, "Zone", "Endpoint")
        return self._change(self._zone(zone), wanted) or HttpReply(204)

    def _wanted(self, uri: str, verb: str, body: Json, kind: str, part: str) -> list[str]:
        """Return the linked parts after an action that adds or removes one, or refuse it."""
        json, action = self._documents.get(uri), f"{uri}/Actions/{kind}.{verb}"
        if docs.value_at(json, "Actions", f"#{kind}.{verb}") is None:
            raise RequestRefused(404, docs.MISSING_AT, f"There is no resource at {action}.", action)
        value = body.get(part)  # a link, or as some clients send it, a text
        named = docs.uris({"@odata.id": value} if isinstance(value, str) else value)
        present = docs.uris_at(json, "Links", f"{part}s")
        is_removal = verb.startswith("Remove")
        if not named or (is_removal and named[0] not in present):
            text = f"{part} is not a part that {verb} applies to."
            raise RequestRefused(400, "ActionParameterValueError", text, part, verb)
        for tagged, tag in ((uri, f"{kind}ETag"), (named[0], f"{part}ETag")):
            # clients without a tag omit the parameter, or leave it empty
            if body.get(tag) not in (None, "", self._documents.etag(tagged)):
                raise RequestRefused(412, "PreconditionFailed", f"{tagged} has changed.")
        kept = [it for it in present if it not in named]
        return kept if is_removal else list(dict.fromkeys([*present, *named]))

    def tick(self) -> None:
        due = [run for due_s, run in self._late if due_s <= self._clock()]
        self._late = [it for it in self._late if it[1] not in due]
        for run in due:
            run()

    def _change(self, target: ChangeTarget, wanted: Sequence[str]) -> HttpReply | None:
        """Change the list; return the answer of a fault or a task, None for the usual answer."""
        faults, had, where = self._faults, target.present, target.uri
        for name in faults.once("change-race"):
            named = (uri for uri in self._documents if uri.endswith(f"/{name.rpartition('/')[2]}"))
            uris = [uri for uri in named if ("/Endpoints/" in uri) == (where != target.system)]
            target.apply([*had, *uris[:1]])
            raise RequestRefused(412, "PreconditionFailed", f"{where} has changed.")
        added = [uri for uri in wanted if uri not in had]
        power = docs.value_at(self._documents.get(target.system), "PowerState")
        if "change-off" in faults and power != "Off":
            text = f"{target.system} must be off to change what is attached to it."
            raise RequestRefused(409, "ResourceInUse", text)
        ports = self._ports.setdefault(where, len(had))
        code = faults.number("full-ports") if added and len(wanted) > ports else None
        if code is not None:
            text = f"No port of {target.system} is free for {added[0]}."
            raise RequestRefused(code, "ResourceExhaustion", text, where)
        target.check(wanted)
        if "empty-change" in faults:
            return HttpReply(204)
        for _ in faults.once("half-change"):
            gone = [uri for uri in had if uri not in wanted]
            some = [*added, *gone][: len(added + gone) // 2]
            target.apply([it for it in (*had, *some) if it not in gone or it not in some])
            return CUT
        run = functools.partial(self._run, target, wanted)
        if (late_ms := faults.number("late-change")) is not None:
            self._later(late_ms, run)
            return HttpReply(204)
        if (slow_ms := faults.number("slow-change")) is not None:
            blocks = target.composing(added)
            return self._tasks.start(run, blocks, duration_s=slow_ms / 1000, creates=False)
        run()
        return None

    def _run(self, target: ChangeTarget, wanted: Sequence[str]) -> str:
        target.apply(wanted)
        for added in (uri for uri in wanted if uri not in target.present):
            slot = f"{added}/PCIeDevice"
            if "other-slot" in self._faults and target.uri != target.system:
                self._zones.move(target.uri, added)
            elif "other-slot" in self._faults and slot in self._documents:
                self._documents.update(slot, Slot={"HotPluggable": False})
            if (gone_ms := self._faults.number("drop-other")) is not None:
                self._drop(target, gone_ms)
        return target.system

    def _drop(self, target: ChangeTarget, gone_ms: int) -> None:
        """Detach the last block of another system, or device of another zone, for some time."""
        if target.uri != target.system:
            others = [self._zone(uri) for uri in self._zones.others_with_devices(target.uri)]
        else:
            systems = self._documents.member_uris(self._composition.systems)
            every = (self._system(uri, "") for uri in systems if uri != target.system)
            others = [it for it in every if len(it.present) > 1]
        for other in others[-1:]:
            other.apply(other.present[:-1])

            def attach_again(other: ChangeTarget = other) -> str:
                other.apply(other.present)
                return other.system

            self._later(gone_ms, attach_again)

    def _later(self, after_ms: int, run: Callable[[], str]) -> None:
        self._late.append((self._clock() + after_ms / 1000, run))

    def _system(self, uri: str, client: str) -> ChangeTarget:
        present = docs.uris_at(self._documents.get(uri), "Links", "ResourceBlocks")
        composition = self._composition
        if "fixed-hosts" in self._faults:
            check = functools.partial(composition.check_host_change, uri)
            change = functools.partial(composition.change_host, uri)
            return ChangeTarget(uri, uri, present, check, change, lambda _added: ())
        check = functools.partial(composition.check_change, uri, client=client)
        change = functools.partial(composition.change, uri)
        return ChangeTarget(uri, uri, present, check, change, lambda added: added)

    def _zone(self, uri: str) -> ChangeTarget:
        present, zones = docs.uris_at(self._documents.get(uri), "Links", "Endpoints"), self._zones
        check, change = functools.partial(zones.check, uri), functools.partial(zones.change, uri)
        return ChangeTarget(uri, zones.host(uri), present, check, change, lambda _added: ())


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
            id_, uri = str(reservation), f"{self.collection}/{reservation}"
            reserved = self._documents.get(uri)
            if reserved is None or uri not in self._ends_s:
                text = f"There is no reservation {id_}, or it has expired."
                raise RequestRefused(400, "ActionParameterValueError", text, "ReservationId", id_)
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
            planned = self._composition.plan(named, client, reservation)
            blocks += planned
            uri = self._composition.compose(planned, named)
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
