# SPDX-License-Identifier: Apache-2.0
"""One simulated pod manager: a request in, an answer out, no network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server import writes
from valence_sched.simulator.server.documents import Answer, Documents, etag_of
from valence_sched.simulator.server.errors import Refused, error, forbidden_method
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.load import furnish
from valence_sched.simulator.server.reads import Asked, Reads
from valence_sched.simulator.server.sessions import Login, Sessions
from valence_sched.simulator.server.sessions import furnish as furnish_sessions

#: Documents that nobody must log in for.
OPEN = ("/redfish", "/redfish/v1")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a simulated pod manager behaves where its recording says nothing."""

    login: Login = field(default_factory=Login)
    page_size: int = 0
    session_limit: int = 64
    session_timeout_s: float = 300.0
    task_s: float = 0.2
    clock: Callable[[], float] = time.time


class Reply(msgspec.Struct, frozen=True):
    """An answer as it goes over the wire."""

    status: int
    body: bytes
    headers: dict[str, str]


class SimulatedPodm:
    """A pod manager made of documents; its state is theirs."""

    def __init__(
        self,
        id_: str,
        documents: Documents,
        settings: Settings | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.id, self.documents = id_, documents
        self.faults = faults or Faults()
        self.settings = settings = settings or Settings()
        limit = self.faults.number("session-limit")
        furnish(documents, self.faults)
        self.sessions = Sessions(
            documents,
            settings.clock,
            settings.login,
            limit=settings.session_limit if limit is None else limit,
            timeout_s=settings.session_timeout_s,
            collection=furnish_sessions(documents, settings.session_timeout_s),
        )
        self.writes = writes.Writes(documents, self.faults, settings.clock, settings.task_s)
        self._reads = Reads(documents, self.faults, self.writes.tasks, settings.page_size)
        self._cache: dict[str, Reply] = {}
        self._cached_changes = -1

    @property
    def composition(self) -> Composition:
        """Return the composing part, which knows who reserved what."""
        return self.writes.composition

    def reply(self, ask: Asked) -> Reply:
        """Answer a request."""
        self.sessions.tick()
        self.writes.tick()
        try:
            user = self._user(ask)
            if user is None:
                return encoded(_unauthorized())
            if ask.method in ("GET", "HEAD"):
                return self._got(ask)
            return encoded(self._written(ask, user))
        except Refused as no:
            return encoded(no.answer)

    def _user(self, ask: Asked) -> str | None:
        """Return who asks; nobody in particular for what is open to all, None for a stranger."""
        user = self.sessions.user(ask.headers)
        if user is not None:
            return user
        path = ask.path.rstrip("/")
        login = path in (self.sessions.collection, f"{self.sessions.collection}/Members")
        if ask.method == "POST" and login:
            return ""
        closed = "closed-root" in self.faults and path != "/redfish"
        read = ask.method in ("GET", "HEAD") and path in OPEN
        return "" if read and not closed else None

    def _got(self, ask: Asked) -> Reply:
        """Answer a read; what does not name the sessions is kept while only they change."""
        changes = self.documents.changes - self.sessions.changes
        if self._cached_changes != changes:
            self._cache.clear()
            self._cached_changes = changes
        key = f"{ask.path}?{ask.query}" if ask.query else ask.path
        reply = self._cache.get(key)
        if reply is None:
            reply = encoded(self._reads.answer(ask))
            if self.sessions.collection.encode() not in reply.body:
                self._cache[key] = reply
        tag = reply.headers.get("ETag")
        if tag and tag in [one.strip() for one in ask.headers.get("if-none-match", "").split(",")]:
            return Reply(304, b"", {"ETag": tag})
        return reply

    def _written(self, ask: Asked, user: str) -> Answer:
        path = ask.path.rstrip("/")
        if ask.method == "DELETE" and path.startswith(f"{self.sessions.collection}/"):
            return self.sessions.delete(path)
        if ask.method == "POST" and path.removesuffix("/Members") == self.sessions.collection:
            return self.sessions.create(writes.json_of(ask.body))
        if ask.method in ("POST", "PATCH", "DELETE"):
            self._check_tag(ask, path)
            return self.writes.answer(ask.method, path, ask.body, ask.headers, user)
        return forbidden_method(ask.method, path)

    def _check_tag(self, ask: Asked, path: str) -> None:
        """Check ``If-Match``.

        Raises:
            Refused: the document has changed, or the header is wanted and missing.
        """
        wanted = ask.headers.get("if-match")
        if wanted is None and ask.method != "POST" and "if-match" in self.faults:
            raise Refused(428, "PreconditionRequired", "If-Match is required.")
        if wanted is None or wanted.strip() == "*" or path not in self.documents:
            return
        if self.documents.etag(path) not in [one.strip() for one in wanted.split(",")]:
            raise Refused(412, "PreconditionFailed", "The resource has changed.")


def encoded(answer: Answer) -> Reply:
    """Return an answer as it goes over the wire, with the entity tag of a body."""
    headers = {"OData-Version": "4.0", **answer.headers}
    if answer.body is None:
        return Reply(answer.status, b"", headers)
    body = msgspec.json.encode(answer.body)
    headers["Content-Type"] = "application/json"
    if answer.status == 200:
        headers["ETag"] = etag_of(body)
    return Reply(answer.status, body, headers)


def _unauthorized() -> Answer:
    text = "Log in first: with a session, or with basic authentication."
    headers = {"WWW-Authenticate": 'Basic realm="redfish"'}
    return Answer(401, error("ResourceAtUriUnauthorized", text), headers)
