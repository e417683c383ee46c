# SPDX-License-Identifier: Apache-2.0
"""One simulated pod manager: takes a request, returns a reply, uses no network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from valence_sched.drivers.links import ROOT
from valence_sched.model.codec import escape_json
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server.documents import (
    DocumentTree,
    RequestRefused,
    SimulatedReply,
    error_body,
    etag_of,
    method_not_allowed,
    not_found,
)
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.load import complete
from valence_sched.simulator.server.reads import DocumentReads, HttpRequest
from valence_sched.simulator.server.services import (
    Account,
    Sessions,
    Subscriptions,
    add_event_service,
)
from valence_sched.simulator.server.writes import DocumentWrites, json_of

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
            settings.session_limit if limit is None else limit,
            settings.session_timeout_s,
        )
        self._event_stream = add_event_service(documents, self.faults)
        self.subscriptions = Subscriptions(documents)
        self.writes = DocumentWrites(documents, self.faults, settings.clock, settings.task_s)
        self._reads = DocumentReads(documents, self.faults, self.writes.tasks, settings.page_size)
        self._cache: dict[str, EncodedReply] = {}
        self._cached_changes = -1

    @property
    def composition(self) -> Composition:
        """The composing part, which knows the owners of reservations."""
        return self.writes.composition

    def reply(self, request: HttpRequest) -> EncodedReply:
        self.sessions.tick()
        self.writes.tick()
        elsewhere = {ROOT: "slash-root", f"{ROOT}/": "bare-root"}.get(request.path)
        if elsewhere is not None and elsewhere in self.faults:
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
        wanted = request.method == "GET" and request.path == self._event_stream != ""
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
        tag, known = reply.headers.get("ETag"), request.headers.get("if-none-match", "")
        if tag and tag in map(str.strip, known.split(",")):
            return EncodedReply(304, b"", {"ETag": tag})
        return reply

    def _write(self, request: HttpRequest, user: str) -> SimulatedReply:
        path, method = request.path.rstrip("/"), request.method
        services = ((self.sessions, path.removesuffix("/Members")), (self.subscriptions, path))
        for service, posted in services:
            if not service.collection:
                continue
            if method == "DELETE" and path.startswith(f"{service.collection}/"):
                return service.delete(path)
            if method == "POST" and posted == service.collection:
                return service.create(json_of(request.body))
        if method not in ("POST", "PATCH", "DELETE"):
            return method_not_allowed(method, path)
        wanted = request.headers.get("if-match")
        if wanted is None and method != "POST" and "if-match" in self.faults:
            raise RequestRefused(428, "PreconditionRequired", "If-Match is required.")
        if wanted is not None and wanted.strip() != "*" and path in self.documents:
            if "stale-tags" in self.faults:
                raise RequestRefused(412, "PreconditionFailed", "No tag is known of it.")
            if self.documents.etag(path) not in map(str.strip, wanted.split(",")):
                raise RequestRefused(412, "PreconditionFailed", "The resource has changed.")
        return self.writes.answer(method, path, request.body, request.headers, user)


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
