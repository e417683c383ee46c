# SPDX-License-Identifier: Apache-2.0
"""The services of a simulated pod manager besides composing: sessions, events, tasks."""

import base64
import binascii
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from valence_sched.drivers.links import ROOT
from valence_sched.model.quantity import format_count
from valence_sched.simulator.redfish.composition import set_status
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentChange, DocumentTree, HttpReply, Json
from valence_sched.simulator.server.faults import Faults

Clock = Callable[[], float]
#: The message of each older type of event.
MESSAGES = {
    "ResourceAdded": ("ResourceCreated", "The resource was created successfully."),
    "ResourceUpdated": ("ResourceChanged", "One or more resource properties have changed."),
    "ResourceRemoved": ("ResourceRemoved", "The resource was removed successfully."),
}
OFFERS = ("ServerSentEventUri", "Subscriptions")  # the properties with the URIs of events
MOST_EVENTS = 100  # in one message
MOST_SUBSCRIPTIONS = 20
TASK_SERVICE = f"{ROOT}/TaskService"


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the service; without a name a login is optional."""

    username: str = ""
    password: str = field(default="", repr=False)

    def matches(self, username: str, password: str) -> bool:
        known = hmac.compare_digest(self.username.encode(), username.encode())
        right = hmac.compare_digest(self.password.encode(), password.encode())
        return not self.username or (known and right)


@dataclass(slots=True)
class _Session:
    username: str
    token: str = field(repr=False)
    used: float


class Sessions:
    """The sessions of one pod manager; ``changes`` counts the documents that they changed."""

    def __init__(
        self, documents: DocumentTree, clock: Clock, login: Account, limit: int, timeout_s: float
    ) -> None:
        self._documents, self._clock, self._login = documents, clock, login
        self._limit, self._timeout_s = limit, timeout_s
        self.collection = _add_session_service(documents, timeout_s)
        self._open: dict[str, _Session] = {}
        self._count = self.changes = 0

    def __len__(self) -> int:
        return len(self._open)

    def user(self, headers: Mapping[str, str]) -> str | None:
        """Return the user of a request, None for an unknown user; headers in lower case."""
        if token := headers.get("x-auth-token"):
            for session in self._open.values():
                if hmac.compare_digest(session.token.encode(), token.encode()):
                    session.used = self._clock()
                    return session.username
            return None
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                plain = base64.b64decode(text, validate=True).decode()
            except (binascii.Error, ValueError):
                return None
            username, _, password = plain.partition(":")
            return username if self._login.matches(username, password) else None
        return None if self._login.username else ""

    def create(self, body: Json) -> HttpReply:
        username, password = body.get("UserName"), body.get("Password")
        if not isinstance(username, str) or not isinstance(password, str):
            text = "A session needs UserName and Password."
            return docs.refusal(400, docs.MISSING, text, "UserName")
        if not self._login.matches(username, password):
            text = "The user name or password is wrong."
            return docs.refusal(401, "ResourceAtUriUnauthorized", text)
        if len(self._open) >= self._limit:
            text = f"No more than {format_count(len(self._open), 'session')} at a time."
            return docs.refusal(503, "SessionLimitExceeded", text)
        self._count += 1
        uri, name = f"{self.collection}/{self._count}", f"Session {self._count}"
        session = _Session(username, secrets.token_hex(16), self._clock())
        self._open[uri] = session
        json = docs.resource_document(uri, "Session.v1_7_0", name, UserName=username)
        before = self._documents.changes
        self._documents.add_member(self.collection, json)
        self.changes += self._documents.changes - before
        return HttpReply(201, json, {"Location": uri, "X-Auth-Token": session.token})

    def delete(self, uri: str) -> HttpReply:
        if self._open.pop(uri.rstrip("/"), None) is None:
            return docs.not_found(uri)
        before = self._documents.changes
        self._documents.remove_member(self.collection, uri)
        self.changes += self._documents.changes - before
        return HttpReply(204)

    def tick(self) -> None:
        now = self._clock()
        for uri, session in tuple(self._open.items()):
            if now - session.used > self._timeout_s:
                self.delete(uri)


def _add_session_service(documents: DocumentTree, timeout_s: float) -> str:
    root = documents.get(ROOT) or {}
    service_uri = docs.uri_at(root, "SessionService") or f"{ROOT}/SessionService"
    type_, name = "SessionService.v1_1_9", "Session Service"
    service = documents.get(service_uri)
    service = service or docs.resource_document(service_uri, type_, name, ServiceEnabled=True)
    uri = docs.uri_at(service, "Sessions") or f"{service_uri}/Sessions"
    for old in documents.member_uris(uri):
        documents.remove(old)
    now = {"SessionTimeout": int(timeout_s), "Sessions": {"@odata.id": uri}}
    documents.put(service_uri, {**service, **now})
    empty = docs.collection_document(uri, "SessionCollection", "Sessions")
    none = {name: empty[name] for name in ("Members", "Members@odata.count")}
    documents.put(uri, {**empty, **(documents.get(uri) or {}), **none})
    links = {**docs.object_of(root, "Links"), "Sessions": {"@odata.id": uri}}
    documents.put(ROOT, {**root, "SessionService": {"@odata.id": service_uri}, "Links": links})
    return uri


def events_of(
    changes: Iterable[DocumentChange], number: int, *, older: bool = False
) -> Iterator[bytes]:
    """Yield the messages of changes as server-sent events; same arguments as :func:`bodies_of`."""
    for index, body in enumerate(bodies_of(changes, number, older=older)):
        yield b"id: %d\ndata: %s\n\n" % (number + index, msgspec.json.encode(body))


def bodies_of(
    changes: Iterable[DocumentChange], number: int, *, older: bool = False
) -> Iterator[Json]:
    """Yield the messages of changes, each resource once; their ids count from ``number``."""
    kinds: dict[str, str] = {}
    for change in changes:
        first = kinds.get(change.uri)
        kinds[change.uri] = first if first and change.kind == "ResourceUpdated" else change.kind
    named = list(kinds.items())
    for start in range(0, len(named), MOST_EVENTS):
        some = enumerate(named[start : start + MOST_EVENTS])
        records = [_record(kind, uri, index, older=older) for index, (uri, kind) in some]
        type_ = "#Event.v1_2_0.Event" if older else "#Event.v1_10_0.Event"
        head = {"@odata.type": type_, "Id": str(number), "Name": "Event Array"}
        yield {**head, "Events": records}
        number += 1


def _record(kind: str, uri: str, index: int, *, older: bool) -> Json:
    message, text = MESSAGES[kind]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    record: Json = {"MemberId": str(index), "EventId": str(index), "EventTimestamp": now}
    record["Message"] = text
    if older:
        record |= {"EventType": kind, "MessageId": "Base.1.0.Success", "OriginOfCondition": uri}
        return record
    record |= {"EventType": "Other", "MessageId": f"ResourceEvent.1.3.{message}"}
    return record | {"MessageSeverity": "OK", "OriginOfCondition": {"@odata.id": uri}}


class Destination(NamedTuple):
    """The URL of a receiver of events, and the context of its client."""

    url: str
    context: str


class Subscriptions:
    """The event service of one pod manager, in its documents: at first without subscriptions.

    ``stream`` and ``collection`` are URIs, empty if the service does not offer them.
    """

    def __init__(self, documents: DocumentTree, faults: Faults) -> None:
        self._documents, self.stream, self.collection = documents, "", ""
        root = documents.get(ROOT) or {}
        uri = docs.uri_at(root, "EventService") or f"{ROOT}/EventService"
        if (known := documents.get(uri)) is None and "no-events" in faults:
            return
        type_, works = "EventService.v1_10_3", {"ServiceEnabled": True, "Status": docs.OK}
        service = known or docs.resource_document(uri, type_, "Event Service", **works)
        offered: Json = {}
        if "no-events" not in faults:
            self.collection = docs.uri_at(service, "Subscriptions") or f"{uri}/Subscriptions"
            for old in documents.member_uris(self.collection):
                documents.remove(old)
            type_ = "EventDestinationCollection"
            documents.put_collection(self.collection, type_, "Subscriptions")
            offered["Subscriptions"] = {"@odata.id": self.collection}
            if "no-stream" not in faults:
                self.stream = offered["ServerSentEventUri"] = f"{uri}/SSE"
            documents.put(ROOT, {**root, "EventService": {"@odata.id": uri}})
        others = {name: value for name, value in service.items() if name not in OFFERS}
        documents.put(uri, {**others, **offered})

    def destinations(self) -> Iterator[Destination]:
        for uri in self._documents.member_uris(self.collection) if self.collection else ():
            json = self._documents.get(uri) or {}
            yield Destination(str(json.get("Destination")), str(json.get("Context") or ""))

    def create(self, body: Json) -> HttpReply:
        destination, protocol = body.get("Destination"), body.get("Protocol")
        if not isinstance(destination, str) or not isinstance(protocol, str):
            text = "A subscription needs Destination and Protocol."
            return docs.refusal(400, docs.MISSING, text, "Destination")
        if protocol != "Redfish" or not _on_loopback(destination):
            text = "Events are sent by the protocol Redfish, to http URLs on this machine."
            return docs.refusal(400, "PropertyValueNotInList", text, protocol, "Protocol")
        if len(self._documents.member_uris(self.collection)) >= MOST_SUBSCRIPTIONS:
            text = f"No more than {MOST_SUBSCRIPTIONS} subscriptions at a time."
            return docs.refusal(503, "EventSubscriptionLimitExceeded", text)
        id_, context = self._documents.free_id(self.collection), body.get("Context")
        uri, type_ = f"{self.collection}/{id_}", "EventDestination.v1_13_0"
        own: Json = {"Destination": destination, "Protocol": protocol}
        own["Context"] = context if isinstance(context, str) else None
        own["SubscriptionType"] = "RedfishEvent"
        json = docs.resource_document(uri, type_, f"Subscription {id_}", **own)
        self._documents.add_member(self.collection, json)
        return HttpReply(201, json, {"Location": uri})

    def delete(self, uri: str) -> HttpReply:
        if uri not in self._documents.member_uris(self.collection):
            return docs.not_found(uri)
        self._documents.remove_member(self.collection, uri)
        return HttpReply(204)


def _on_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        return parts.scheme == "http" and loopback and (parts.port or 80) > 0
    except ValueError:
        return False


@dataclass(slots=True)
class _Task:
    run: Callable[[], str]
    due_s: float
    before: dict[str, Json]
    creates: bool
    system: str = ""
    failed: bool = False


class Tasks:
    """The tasks of one pod manager, in a tree of documents."""

    def __init__(self, documents: DocumentTree, clock: Clock, faults: Faults) -> None:
        self._documents, self._clock, self._faults = documents, clock, faults
        self._tasks: dict[str, _Task] = {}

    def start(
        self, run: Callable[[], str], blocks: Iterable[str], *, duration_s: float, creates: bool
    ) -> HttpReply:
        """Answer 202 with the task monitor; the blocks are Composing until the end.

        ``run`` is called in the end, and returns the system that the task creates or changes.
        """
        if not self._tasks:
            uri = f"{TASK_SERVICE}/Tasks"
            works = {"ServiceEnabled": True, "Tasks": {"@odata.id": uri}}
            type_, name = "TaskService.v1_2_1", "Task Service"
            self._documents.put_resource(TASK_SERVICE, type_, name, **works)
            self._documents.put_collection(uri, "TaskCollection", "Tasks")
            self._documents.update(ROOT, Tasks={"@odata.id": TASK_SERVICE})
        id_ = str(len(self._tasks) + 1)
        before = {uri: self._documents.get(uri) or {} for uri in blocks}
        self._tasks[id_] = _Task(run, self._clock() + duration_s, before, creates)
        for uri in before:
            set_status(self._documents, uri, CompositionState="Composing")
        self._documents.list_member(f"{TASK_SERVICE}/Tasks", f"{TASK_SERVICE}/Tasks/{id_}")
        return self._running(id_, self._put(id_))

    def monitor(self, uri: str) -> HttpReply | None:
        """Return the state of the task of a task monitor, None for any other URI."""
        start, _, id_ = uri.rpartition("/")
        if start != f"{TASK_SERVICE}/TaskMonitors" or id_ not in self._tasks:
            return None
        task = self._tasks[id_]
        if task.failed:
            return HttpReply(500, docs.error_body("InternalError", "The composition failed."))
        if task.system and task.creates:
            return HttpReply(201, self._documents.get(task.system), {"Location": task.system})
        if task.system:
            return HttpReply(200, self._documents.get(f"{TASK_SERVICE}/Tasks/{id_}"))
        return self._running(id_, self._documents.get(f"{TASK_SERVICE}/Tasks/{id_}") or {})

    def tick(self) -> None:
        now = self._clock()
        for id_, task in self._tasks.items():
            if task.system or task.failed or task.due_s > now:
                continue
            for uri, json in task.before.items():
                state = docs.value_at(json, "CompositionStatus", "CompositionState")
                set_status(self._documents, uri, CompositionState=state)
            if "task-exception" in self._faults:
                task.failed = True
            else:
                task.system = task.run()
            self._put(id_)

    def _running(self, id_: str, json: Json) -> HttpReply:
        headers = {"Location": f"{TASK_SERVICE}/TaskMonitors/{id_}", "Retry-After": "1"}
        return HttpReply(202, json, headers)

    def _put(self, id_: str) -> Json:
        task = self._tasks[id_]
        state = "Exception" if task.failed else "Completed" if task.system else "Running"
        uri, status = f"{TASK_SERVICE}/Tasks/{id_}", "Critical" if task.failed else "OK"
        own: Json = {"TaskState": state, "TaskStatus": status}
        own["TaskMonitor"] = f"{TASK_SERVICE}/TaskMonitors/{id_}"
        if task.failed:
            failure = docs.error_body("InternalError", "The composition failed.")
            own["Messages"] = failure["error"]["@Message.ExtendedInfo"]
        elif task.system and "task-warning" in self._faults:
            text = "The request was completed, but the link has a lower speed."
            warning = docs.error_body("GeneralError", text, severity="Warning")
            messages = warning["error"]["@Message.ExtendedInfo"]
            own |= {"TaskStatus": "Warning", "Messages": messages}
        type_, name = "Task.v1_7_3", f"Composition {id_}"
        return self._documents.put_resource(uri, type_, name, **own)
