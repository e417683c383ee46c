# SPDX-License-Identifier: Apache-2.0
"""One simulated pod manager: takes a request, returns a reply, uses no network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError
from valence_sched.model.codec import check_depth, escape_json
from valence_sched.simulator.redfish import amounts, blocks
from valence_sched.simulator.redfish.compose_action import ComposeAction, Reservations, target
from valence_sched.simulator.redfish.composition import Composition, CompositionPlan
from valence_sched.simulator.redfish.system import media_action, reset
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server.documents import (
    WRONG_TYPE,
    DocumentTree,
    Json,
    RequestRefused,
    SimulatedReply,
    error_body,
    etag_of,
    method_not_allowed,
    not_found,
    object_of,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.habits import Habits, is_root_elsewhere
from valence_sched.simulator.server.load import complete
from valence_sched.simulator.server.reads import DocumentReads, HttpRequest
from valence_sched.simulator.server.services import (
    Account,
    Sessions,
    Subscriptions,
    Tasks,
    add_event_service,
    add_session_service,
)


class DocumentWrites:
    """Answers the writes of one pod manager."""

    def __init__(
        self, documents: DocumentTree, faults: Faults, clock: Callable[[], float], task_s: float
    ) -> None:
        self._documents, self._faults = documents, faults
        self._habits = Habits(documents, faults)
        self.composition = Composition(documents, self._habits)
        self.reservations = Reservations(documents, self.composition, clock)
        self.tasks = Tasks(
            documents, self.composition, clock, duration_s=task_s, fail="task-exception" in faults
        )
        root = documents.get(ROOT)
        self._rack: NodesService | None = None
        if value_at(root, "Nodes") or value_at(root, "Oem", "Intel_RackScale"):
            self._rack = NodesService(documents, clock, assemble_s=task_s, habits=self._habits)
        self._action = ComposeAction(documents, self.composition, self.reservations)

    def tick(self) -> None:
        """Do what time brings: tasks end, reservations expire."""
        self.tasks.tick()
        self.reservations.tick()
        if self._rack:
            self._rack.tick()

    def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], user: str
    ) -> SimulatedReply:
        """Do a write; RequestRefused if it cannot be done."""
        json = {} if method == "DELETE" else json_of(body)
        if self._rack and (found := self._rack_reply(self._rack, method, path, json)) is not None:
            return found
        if method == "DELETE":
            return self._delete(path)
        if method == "PATCH":
            replaces = "patch-replaces" in self._faults
            return patch_document(
                self._documents, self.composition, path, json, user, replaces=replaces
            )
        return self._post(path, json, headers, user)

    def _post(self, path: str, json: Json, headers: Mapping[str, str], user: str) -> SimulatedReply:
        if path.removesuffix("/Members") in self.composition.targets():
            return self._compose(json, headers, user)
        if path == target(self._documents, self.reservations.service):
            self._steal()
            return self._action.compose(json, user)
        system, mark, action = path.rpartition("/Actions/ComputerSystem.")
        if mark and action and system in self._documents:
            return self._system_action(system, action, json, user)
        made = amounts.create_amount(self._documents, path, json, self._habits)
        if made is not None:
            return made
        media, mark, action = path.rpartition("/Actions/VirtualMedia.")
        if mark and action and media in self._documents:
            return media_action(self._documents, media, action, json)
        if path in self._documents:
            return method_not_allowed("POST", path)
        return not_found(path)

    def _compose(self, json: Json, headers: Mapping[str, str], user: str) -> SimulatedReply:
        self._steal()
        if "stores" in self._faults:
            return self._store(json)
        plan = self.composition.plan(json, user)
        if "empty-create" in self._faults:
            uri = f"{self.composition.systems}/There-Is-None"
            return SimulatedReply(201, None, {"Location": uri})
        wanted = headers.get("prefer", "").replace(" ", "").lower().split(",")
        if "respond-async" in wanted or "async" in self._faults or "task-exception" in self._faults:
            return self.tasks.start(plan)
        uri = self.composition.compose(plan)
        if "failed-node" in self._faults:
            self._fail_node(uri, plan)
        return self._habits.created(uri)

    def _store(self, json: Json) -> SimulatedReply:
        systems = self.composition.systems
        uri = f"{systems}/{self._documents.free_id(systems)}"
        own = {"@odata.id": uri, "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem"}
        self._documents.add_member(systems, {**own, "Id": uri.rpartition("/")[2], **json})
        return SimulatedReply(201, None, {"Location": uri})

    def _delete(self, path: str) -> SimulatedReply:
        if path.startswith(f"{self.reservations.collection}/"):
            return self.reservations.delete(path)
        json = self._documents.get(path)
        type_ = str(value_at(json, "@odata.type"))
        if json is not None and not type_.startswith(("#ComputerSystem.", *amounts.TYPES)):
            return method_not_allowed("DELETE", path)
        if "ghost" in self._faults and json is not None:
            return SimulatedReply(204)
        if "stores" in self._faults and json is not None:
            self._documents.remove_member(self.composition.systems, path)
            return SimulatedReply(204)
        if type_.startswith(amounts.TYPES):
            return amounts.delete_amount(self._documents, path)
        return self.composition.decompose(path)

    def _rack_reply(
        self, rack: NodesService, method: str, path: str, json: Json
    ) -> SimulatedReply | None:
        if "ghost" in self._faults and method == "DELETE" and path in self._documents:
            return SimulatedReply(204)
        nodes, mark, _ = path.partition("/Actions/")
        if "empty-create" in self._faults and mark and path.endswith("Allocate"):
            return SimulatedReply(201, None, {"Location": f"{nodes}/There-Is-None"})
        answer = rack.reply(method, path, json)
        assembled = answer is not None and answer.status < 300 and path.endswith("Assemble")
        if assembled and "failed-node" in self._faults:
            rack.lose(uri_of(value_at(self._documents.get(nodes), "Links", "ComputerSystem")))
        return answer

    def _system_action(self, system: str, action: str, json: Json, user: str) -> SimulatedReply:
        had = uris(value_at(self._documents.get(system), "Links", "ResourceBlocks"))
        named = uris(json.get("ResourceBlock"))
        if action == "Reset":
            return reset(self._documents, system, json)
        if action not in ("AddResourceBlock", "RemoveResourceBlock"):
            return not_found(f"{system}/Actions/ComputerSystem.{action}")
        if not named or (action == "RemoveResourceBlock" and named[0] not in had):
            text = "ResourceBlock names no resource block that this can be done with."
            raise RequestRefused(400, "ActionParameterValueError", text, "ResourceBlock", action)
        gone = named if action == "RemoveResourceBlock" else []
        come = named if action == "AddResourceBlock" else []
        others = [block for block in had if block not in gone]
        self.composition.change(system, list(dict.fromkeys([*others, *come])), user)
        return SimulatedReply(204)

    def _steal(self) -> None:
        for name in self._faults.once("steal"):
            for uri, json in blocks.blocks(self._documents):
                if name in (uri, json.get("Id"), uri.rpartition("/")[2]):
                    self.composition.compose(CompositionPlan((uri,), {"Name": "Somebody-Elses"}))

    def _fail_node(self, uri: str, plan: CompositionPlan) -> None:
        system = self._documents.get(uri) or {}
        failed = {"State": "Disabled", "Health": "Critical"}
        self._documents.put(uri, {**system, "PowerState": "Off", "Status": failed})
        for block in plan.blocks:
            blocks.set_status(self._documents, block, CompositionState="Failed")


def json_of(body: bytes) -> Json:
    """Return the JSON object of a request; RequestRefused if it is none."""
    try:
        check_depth(body, "the body")
        return msgspec.json.decode(body or b"{}", type=Json)
    except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(400, "MalformedJSON", "The body is no JSON object.") from None


POOLS = ("Free", "Active", "Unassigned")

#: The writable properties, by the kind of document.
WRITABLE = {
    "block": ("Name", "Description", "Pool", "Client", "CompositionStatus"),
    "system": ("Name", "Description", "HostName", "AssetTag", "Boot", "Links"),
    "machine": ("Name", "Description", "HostName", "AssetTag", "Boot"),
    "service": ("Name", "Description", "AllowOverprovisioning", "ReservationDuration"),
    "other": ("Name", "Description"),
}

_STATUS = ("Reserved", "SharingEnabled")


def patch_document(
    documents: DocumentTree,
    composition: Composition,
    uri: str,
    body: Json,
    client: str,
    *,
    replaces: bool = False,
) -> SimulatedReply:
    """Change a document, or refuse and change nothing; ``replaces`` drops what was not sent."""
    json = documents.get(uri)
    if json is None:
        return not_found(uri)
    kind = _kind(json)
    for name, value in body.items():
        if name not in WRITABLE[kind] and value != json.get(name):
            text = f"The property {name} cannot be written."
            raise RequestRefused(400, "PropertyNotWritable", text, name)
    change = dict(body)
    if kind == "block":
        change = _checked_block(json, change, replaces)
        _keep_owner(composition, uri, json, change, client)
    if kind == "system" and "Links" in change:
        wanted = uris(value_at(change.pop("Links"), "ResourceBlocks"))
        composition.change(uri, wanted, client)
        json = documents.get(uri) or json
    if not replaces and isinstance(boot := change.get("Boot"), dict):
        change["Boot"] = {**object_of(json, "Boot"), **boot}
    documents.put(uri, {**json, **change})
    return SimulatedReply(200, documents.get(uri))


def _kind(json: Json) -> str:
    if blocks.is_block(json):
        return "block"
    type_ = str(json.get("@odata.type"))
    if json.get("SystemType") == "Composed":
        return "system"
    if type_.startswith("#ComputerSystem."):
        return "machine"
    return "service" if type_.startswith("#CompositionService.") else "other"


def _checked_block(json: Json, change: Json, replaces: bool) -> Json:
    if "Pool" in change and change["Pool"] not in POOLS:
        text = f"Pool is {change['Pool']}, expected one of {', '.join(POOLS)}."
        raise RequestRefused(400, "PropertyValueNotInList", text, str(change["Pool"]), "Pool")
    if "CompositionStatus" not in change:
        return change
    sent, status = change["CompositionStatus"], json["CompositionStatus"]
    if not isinstance(sent, dict):
        text = "CompositionStatus is no object."
        raise RequestRefused(400, WRONG_TYPE, text, str(sent)[:200], "CompositionStatus")
    for name, value in sent.items():
        _check_status(name, value, status)
    return {**change, "CompositionStatus": sent if replaces else {**status, **sent}}


def _check_status(name: str, value: Any, status: Json) -> None:
    if name in status and value == status[name]:
        return
    if name not in _STATUS:
        text = f"The property {name} cannot be written."
        raise RequestRefused(400, "PropertyNotWritable", text, name)
    if not isinstance(value, bool) and (value is not None or name != "Reserved"):
        text = f"{name} is neither true nor false."
        raise RequestRefused(400, WRONG_TYPE, text, str(value)[:200], name)
    if name == "SharingEnabled" and status.get("CompositionState") != "Unused":
        text = "SharingEnabled cannot be changed while the block is composed."
        raise RequestRefused(400, "PropertyNotWritable", text, name)


def _keep_owner(composition: Composition, uri: str, json: Json, change: Json, client: str) -> None:
    now = value_at(change, "CompositionStatus", "Reserved")
    if "CompositionStatus" not in change or now == json["CompositionStatus"].get("Reserved"):
        return
    if now is True:
        composition.owners[uri] = client
    else:
        composition.owners.pop(uri, None)


#: Documents that can be read without a login.
PUBLIC_PATHS = ("/redfish", "/redfish/v1")


@dataclass(frozen=True, slots=True)
class SimulatorSettings:
    """The behaviour of a simulated pod manager that its recording does not determine."""

    login: Account = field(default_factory=Account)
    page_size: int = 0
    session_limit: int = 64
    session_timeout_s: float = 300.0
    task_s: float = 0.2
    clock: Callable[[], float] = time.time


class EncodedReply(msgspec.Struct, frozen=True):
    """An answer as it goes over the wire."""

    status: int
    body: bytes
    headers: dict[str, str]


class SimulatedPodm:
    """A pod manager made of documents; its state is theirs."""

    def __init__(
        self,
        id_: str,
        documents: DocumentTree,
        settings: SimulatorSettings | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.id, self.documents = id_, documents
        self.faults = faults or Faults()
        self.settings = settings = settings or SimulatorSettings()
        limit = self.faults.number("session-limit")
        complete(documents, self.faults, id_)
        self.sessions = Sessions(
            documents,
            settings.clock,
            settings.login,
            limit=settings.session_limit if limit is None else limit,
            timeout_s=settings.session_timeout_s,
            collection=add_session_service(documents, settings.session_timeout_s),
        )
        self._event_stream = add_event_service(documents, self.faults)
        self.subscriptions = Subscriptions(documents)
        self.writes = DocumentWrites(documents, self.faults, settings.clock, settings.task_s)
        self._reads = DocumentReads(documents, self.faults, self.writes.tasks, settings.page_size)
        self._cache: dict[str, EncodedReply] = {}
        self._cached_changes = -1

    @property
    def composition(self) -> Composition:
        """Return the composing part, which knows the owners of reservations."""
        return self.writes.composition

    def reply(self, request: HttpRequest) -> EncodedReply:
        """Answer a request."""
        self.sessions.tick()
        self.writes.tick()
        if is_root_elsewhere(request.path, self.faults):
            return encode_reply(not_found(request.path))
        try:
            user = self._user(request)
            if user is None:
                text = "Log in first: with a session, or with basic authentication."
                body = error_body("ResourceAtUriUnauthorized", text)
                headers = {"WWW-Authenticate": 'Basic realm="redfish"'}
                return encode_reply(SimulatedReply(401, body, headers))
            if request.method in ("GET", "HEAD"):
                return self._read(request)
            return encode_reply(self._write(request, user))
        except RequestRefused as refused:
            return encode_reply(refused.answer)

    def streams(self, request: HttpRequest) -> bool:
        """Return whether a request opens the stream of events, by a user who may."""
        stream = self._event_stream
        wanted = request.method == "GET" and request.path == stream != ""
        return wanted and self._user(request) is not None

    def _user(self, request: HttpRequest) -> str | None:
        user = self.sessions.user(request.headers)
        if user is not None:
            return user
        path = request.path.rstrip("/")
        login = path in (self.sessions.collection, f"{self.sessions.collection}/Members")
        if request.method == "POST" and login:
            return None if "session-basic" in self.faults else ""
        closed = "closed-root" in self.faults and path != "/redfish"
        read = request.method in ("GET", "HEAD") and path in PUBLIC_PATHS
        return "" if read and not closed else None

    def _read(self, request: HttpRequest) -> EncodedReply:
        """Answer a read; a reply without sessions is cached while only sessions change."""
        changes = self.documents.changes - self.sessions.changes
        if self._cached_changes != changes:
            self._cache.clear()
            self._cached_changes = changes
        key = f"{request.path}?{request.query}" if request.query else request.path
        reply = self._cache.get(key)
        if reply is None:
            reply = encode_reply(self._reads.answer(request))
            if self.sessions.collection.encode() not in reply.body:
                self._cache[key] = reply
        tag = reply.headers.get("ETag")
        if tag and tag in [
            one.strip() for one in request.headers.get("if-none-match", "").split(",")
        ]:
            return EncodedReply(304, b"", {"ETag": tag})
        return reply

    def _write(self, request: HttpRequest, user: str) -> SimulatedReply:
        path = request.path.rstrip("/")
        if request.method == "DELETE" and path.startswith(f"{self.sessions.collection}/"):
            return self.sessions.delete(path)
        if request.method == "POST" and path.removesuffix("/Members") == self.sessions.collection:
            return self.sessions.create(json_of(request.body))
        collection = self.subscriptions.collection
        if request.method == "DELETE" and collection and path.startswith(f"{collection}/"):
            return self.subscriptions.delete(path)
        if request.method == "POST" and collection and path == collection:
            return self.subscriptions.create(json_of(request.body))
        if request.method in ("POST", "PATCH", "DELETE"):
            self._check_tag(request, path)
            return self.writes.answer(request.method, path, request.body, request.headers, user)
        return method_not_allowed(request.method, path)

    def _check_tag(self, request: HttpRequest, path: str) -> None:
        wanted = request.headers.get("if-match")
        if wanted is None and request.method != "POST" and "if-match" in self.faults:
            raise RequestRefused(428, "PreconditionRequired", "If-Match is required.")
        if wanted is None or wanted.strip() == "*" or path not in self.documents:
            return
        if "stale-tags" in self.faults:
            raise RequestRefused(412, "PreconditionFailed", "No tag is known of it.")
        if self.documents.etag(path) not in [one.strip() for one in wanted.split(",")]:
            raise RequestRefused(412, "PreconditionFailed", "The resource has changed.")


def encode_reply(answer: SimulatedReply) -> EncodedReply:
    """Return an answer as it goes over the wire, with the entity tag of a body."""
    headers = {"OData-Version": "4.0", **answer.headers}
    if answer.body is None:
        return EncodedReply(answer.status, b"", headers)
    body = msgspec.json.encode(answer.body)
    headers["Content-Type"] = "application/json"
    if answer.status == 200:
        headers["ETag"] = etag_of(body)
    return EncodedReply(answer.status, escape_json(body), headers)
