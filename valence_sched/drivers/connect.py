# SPDX-License-Identifier: Apache-2.0
"""A pod manager within reach: logged in to, and ready to compose in what it speaks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from valence_sched.drivers.composer import Composer, Reply
from valence_sched.drivers.crawl.pool import ReadTarget
from valence_sched.drivers.dialect import dialect_name
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.answer import Answer
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.entrance import enter_service
from valence_sched.drivers.http.errors import Deadline
from valence_sched.drivers.http.retry import Patience
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.rsd.composer import RsdComposer
from valence_sched.errors import InputError, PodmError

NEEDS_ETAG = 428


@dataclass(frozen=True, slots=True)
class HttpSession:
    """Sends over a connection; what cannot be understood is no reply.

    Each request has ``timeout_s`` of its own: after a write that was lost there must be time to
    read back.
    """

    connection: Connection
    timeout_s: float = 30.0

    def get(self, uri: str) -> Reply:
        """Read a document."""
        return self._exchange(uri, lambda: self.connection.get(uri))

    def post(self, uri: str, body: Json) -> Reply:
        """Send a body, once."""
        return self._exchange(uri, lambda: self.connection.post(uri, body))

    def patch(self, uri: str, body: Json, etag: str | None = None) -> Reply:
        """Change a document, once."""
        headers = {"If-Match": etag} if etag else None
        return self._exchange(uri, lambda: self.connection.patch(uri, body, headers))

    def delete(self, uri: str) -> Reply:
        """Remove a document, once; where an ETag is asked for, with the one it has now."""
        reply = self._exchange(uri, lambda: self.connection.delete(uri))
        if reply.status != NEEDS_ETAG:
            return reply
        there = self.get(uri)
        etag = (there.body or {}).get("@odata.etag") or there.headers.get("ETag") or "*"
        return self._exchange(uri, lambda: self.connection.delete(uri, {"If-Match": str(etag)}))

    def _exchange(self, uri: str, send: Callable[[], Answer]) -> Reply:
        self.connection.deadline = Deadline(self.timeout_s)
        try:
            answer = send()
            body = answer.json(uri) if answer.body else None
        except InputError as error:
            raise PodmError(str(error)) from None
        return Reply(answer.status, answer.headers, body)


AUTO = "auto"


@contextlib.contextmanager
def connect(target: ReadTarget, timeout_s: float, patience_s: float) -> Iterator[Composer]:
    """Yield the hands on a pod manager; its session is deleted afterwards.

    ``timeout_s`` is for the login and for each request, ``patience_s`` for what it does after it
    has answered.

    Raises:
        PodmError: it cannot be reached, refuses the login, or speaks what cannot be composed in.
    """
    one = target.registered
    with Connection(one, target.password, Deadline(timeout_s)) as connection:
        try:
            root = enter_service(connection)
        except InputError as error:
            raise PodmError(str(error)) from None
        speaks = dialect_name(root) if one.driver == AUTO else one.driver
        wire = HttpSession(connection, timeout_s)
        if speaks == "redfish":
            yield RedfishComposer(wire, lambda: Patience(patience_s))
        elif speaks == "rsd":
            yield RsdComposer(wire, lambda: Patience(patience_s))
        else:
            raise PodmError(f"driver {speaks!r} reads pod managers, and cannot compose on them")
