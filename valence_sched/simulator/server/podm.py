# SPDX-License-Identifier: Apache-2.0
"""One simulated pod manager: takes a request, returns a reply, uses no network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from valence_sched.model.codec import escape_json
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server import writes
from valence_sched.simulator.server.documents import DocumentTree, SimulatedReply, etag_of
from valence_sched.simulator.server.errors import (
    RequestRefused,
    error_body,
    method_not_allowed,
    not_found,
)
from valence_sched.simulator.server.event_service import add_event_service
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.habits import is_root_elsewhere
from valence_sched.simulator.server.load import complete
from valence_sched.simulator.server.reads import DocumentReads, HttpRequest
from valence_sched.simulator.server.sessions import Account, Sessions, add_session_service
from valence_sched.simulator.server.subscriptions import Subscriptions

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
        self.writes = writes.DocumentWrites(documents, self.faults, settings.clock, settings.task_s)
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
                return encode_reply(_unauthorized())
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
        """Return the user of a request; empty for public documents, None for an unknown user."""
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
            return self.sessions.create(writes.json_of(request.body))
        collection = self.subscriptions.collection
        if request.method == "DELETE" and collection and path.startswith(f"{collection}/"):
            return self.subscriptions.delete(path)
        if request.method == "POST" and collection and path == collection:
            return self.subscriptions.create(writes.json_of(request.body))
        if request.method in ("POST", "PATCH", "DELETE"):
            self._check_tag(request, path)
            return self.writes.answer(request.method, path, request.body, request.headers, user)
        return method_not_allowed(request.method, path)

    def _check_tag(self, request: HttpRequest, path: str) -> None:
        """Refuse a write whose ``If-Match`` is not the document's tag, or required and missing."""
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


def _unauthorized() -> SimulatedReply:
    text = "Log in first: with a session, or with basic authentication."
    headers = {"WWW-Authenticate": 'Basic realm="redfish"'}
    return SimulatedReply(401, error_body("ResourceAtUriUnauthorized", text), headers)
