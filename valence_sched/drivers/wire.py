# SPDX-License-Identifier: Apache-2.0
"""A connection as the hands of a pod manager use it: replies with their bodies decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from valence_sched.drivers.answers import Answer
from valence_sched.drivers.connection import Connection
from valence_sched.drivers.fields import Json
from valence_sched.drivers.hands import Reply
from valence_sched.drivers.transport import Deadline
from valence_sched.errors import InputError, PodmError

NEEDS_ETAG = 428


@dataclass(frozen=True, slots=True)
class ConnectedWire:
    """Sends over a connection; what cannot be understood is no reply.

    Each request has ``timeout_s`` of its own: after a write that was lost there must be time to
    read back.
    """

    connection: Connection
    timeout_s: float = 30.0

    def get(self, uri: str) -> Reply:
        """Read a document."""
        return self._replied(uri, lambda: self.connection.get(uri))

    def post(self, uri: str, body: Json) -> Reply:
        """Send a body, once."""
        return self._replied(uri, lambda: self.connection.post(uri, body))

    def patch(self, uri: str, body: Json, etag: str | None = None) -> Reply:
        """Change a document, once."""
        headers = {"If-Match": etag} if etag else None
        return self._replied(uri, lambda: self.connection.patch(uri, body, headers))

    def delete(self, uri: str) -> Reply:
        """Remove a document, once; where an ETag is asked for, with the one it has now."""
        reply = self._replied(uri, lambda: self.connection.delete(uri))
        if reply.status != NEEDS_ETAG:
            return reply
        there = self.get(uri)
        etag = (there.body or {}).get("@odata.etag") or there.headers.get("ETag") or "*"
        return self._replied(uri, lambda: self.connection.delete(uri, {"If-Match": str(etag)}))

    def _replied(self, uri: str, send: Callable[[], Answer]) -> Reply:
        self.connection.deadline = Deadline(self.timeout_s)
        try:
            answer = send()
            body = answer.json(uri) if answer.body else None
        except InputError as error:
            raise PodmError(str(error)) from None
        return Reply(answer.status, answer.headers, body)
