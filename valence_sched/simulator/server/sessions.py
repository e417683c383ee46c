# SPDX-License-Identifier: Apache-2.0
"""Sessions and basic authentication of a simulated pod manager."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from valence_sched.model.quantity import format_count
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    object_of,
    uri_of,
    value_at,
)
from valence_sched.simulator.server.errors import not_found, refusal

SERVICE = "/redfish/v1/SessionService"

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Account:
    """The account that can log in; without a name a login is possible and not required."""

    username: str = ""
    password: str = field(default="", repr=False)

    def matches(self, username: str, password: str) -> bool:
        """Return whether this is the user."""
        known = hmac.compare_digest(self.username.encode(), username.encode())
        right = hmac.compare_digest(self.password.encode(), password.encode())
        return not self.username or (known and right)


@dataclass(slots=True)
class _Session:
    username: str
    token: str = field(repr=False)
    used: float


class Sessions:
    """The sessions of one pod manager; each ends when it is not used for ``timeout_s``.

    ``changes`` is how many changes of the documents were theirs.
    """

    def __init__(
        self,
        documents: DocumentTree,
        clock: Clock,
        login: Account,
        *,
        limit: int = 64,
        timeout_s: float = 300.0,
        collection: str = f"{SERVICE}/Sessions",
    ) -> None:
        self._documents, self._clock, self._login = documents, clock, login
        self._limit, self._timeout_s = limit, timeout_s
        self.collection = collection
        self._open: dict[str, _Session] = {}
        self._count = self.changes = 0

    def __len__(self) -> int:
        return len(self._open)

    def user(self, headers: Mapping[str, str]) -> str | None:
        """Return the user of a request, None for an unknown one; headers in lower case."""
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

    def create(self, body: Json) -> SimulatedReply:
        """Log in: 201 with the token, or why not."""
        username, password = body.get("UserName"), body.get("Password")
        if not isinstance(username, str) or not isinstance(password, str):
            text = "A session needs UserName and Password."
            return refusal(400, "CreateFailedMissingReqProperties", text, "UserName")
        if not self._login.matches(username, password):
            text = "Nobody with this name and password is known here."
            return refusal(401, "ResourceAtUriUnauthorized", text)
        if len(self._open) >= self._limit:
            text = f"No more than {format_count(len(self._open), 'session')} at a time."
            return refusal(503, "SessionLimitExceeded", text)
        self._count += 1
        uri = f"{self.collection}/{self._count}"
        session = _Session(username, secrets.token_hex(16), self._clock())
        self._open[uri] = session
        json = {
            "@odata.type": "#Session.v1_7_0.Session",
            "@odata.id": uri,
            "Id": str(self._count),
            "Name": f"Session {self._count}",
            "UserName": username,
        }
        before = self._documents.changes
        self._documents.put(uri, json)
        self._documents.list_member(self.collection, uri)
        self.changes += self._documents.changes - before
        return SimulatedReply(201, json, {"Location": uri, "X-Auth-Token": session.token})

    def delete(self, uri: str) -> SimulatedReply:
        """Log out."""
        if self._open.pop(uri.rstrip("/"), None) is None:
            return not_found(uri)
        before = self._documents.changes
        self._documents.remove(uri)
        self._documents.unlist_member(self.collection, uri)
        self.changes += self._documents.changes - before
        return SimulatedReply(204)

    def tick(self) -> None:
        """End the sessions that were not used for long."""
        now = self._clock()
        for uri, session in tuple(self._open.items()):
            if now - session.used > self._timeout_s:
                self.delete(uri)


def add_session_service(documents: DocumentTree, timeout_s: float) -> str:
    """Give a tree a session service without sessions; return the URI of their collection."""
    root = documents.get("/redfish/v1") or {}
    service_uri = uri_of(value_at(root, "SessionService")) or SERVICE
    service = documents.get(service_uri) or {
        "@odata.type": "#SessionService.v1_1_9.SessionService",
        "@odata.id": service_uri,
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": True,
    }
    uri = uri_of(value_at(service, "Sessions")) or f"{service_uri}/Sessions"
    for old in documents.member_uris(uri):
        documents.remove(old)
    documents.put(
        service_uri, {**service, "SessionTimeout": int(timeout_s), "Sessions": {"@odata.id": uri}}
    )
    collection = documents.get(uri) or {
        "@odata.type": "#SessionCollection.SessionCollection",
        "@odata.id": uri,
        "Name": "Sessions",
    }
    documents.put(uri, {**collection, "Members": [], "Members@odata.count": 0})
    links = {**object_of(root, "Links"), "Sessions": {"@odata.id": uri}}
    documents.put(
        "/redfish/v1", {**root, "SessionService": {"@odata.id": service_uri}, "Links": links}
    )
    return uri
