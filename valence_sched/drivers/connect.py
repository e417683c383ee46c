# SPDX-License-Identifier: Apache-2.0
"""Connects to a pod manager and yields the composer of its dialect."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from valence_sched.drivers import composer, dialect
from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.composer import Composer, Reply, Session
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.dialect import dialect_of_driver, root_identity, service_identity
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.connection import Connection, enter_service, root_document
from valence_sched.drivers.http.exchange import Answer, Deadline, Patience, is_outage
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.errors import InputError, PodmError, UnknownName, one_line
from valence_sched.model.podm_address import change_text
from valence_sched.model.registration import Registration

MOST_TEXT = 200  # characters of a body that is not a document


@dataclass(frozen=True, slots=True)
class HttpSession:
    """Sends requests over a connection; returns each HTTP answer, of any status, as a reply.

    Each request has its own ``timeout_s``, so that time remains to read back after a lost write.
    ``root`` is the service root from the login. A PATCH or DELETE has the ETag of the last read.
    """

    connection: Connection
    timeout_s: float = 30.0
    root: Json | None = None
    _etags: dict[str, str] = field(default_factory=dict)
    _refused: set[tuple[str, str]] = field(default_factory=set)
    _required: set[str] = field(default_factory=set)

    def get(self, uri: str) -> Reply:
        if uri == ROOT and self.root is not None:
            return Reply(200, {}, current_form(self.root, root=True))
        reply = self._exchange(uri, lambda: self.connection.get(uri))
        etag = reply.headers.get("ETag") or (reply.body or {}).get("@odata.etag")
        if reply.status == 200 and isinstance(etag, str) and etag:
            self._etags[uri] = etag
        else:
            self._etags.pop(uri, None)
        return reply._replace(body=reply.body and current_form(reply.body, root=uri == ROOT))

    def post(self, uri: str, body: Json) -> Reply:
        return self._write("POST", uri, body, None)

    def patch(self, uri: str, body: Json) -> Reply:
        return self._write("PATCH", uri, body, self._etags.get(uri))

    def delete(self, uri: str) -> Reply:
        return self._write("DELETE", uri, None, self._etags.get(uri))

    def _write(self, method: str, uri: str, body: Json | None, etag: str | None) -> Reply:
        """Send a write; some services refuse their own ETags, others require one but send none."""
        known = self._etags.get(uri)
        required = "*" if known is None or (uri, known) in self._refused else known
        wanted = required if uri in self._required else None
        if etag is not None and (uri, etag) not in self._refused:
            wanted = etag
        headers = {"If-Match": wanted} if wanted else {}
        reply = self._exchange(uri, lambda: self.connection.write(method, uri, body, headers))
        if reply.status < 300:
            self._etags.pop(uri, None)
        if reply.status == composer.PRECONDITION_FAILED and wanted:
            self._refused.add((uri, wanted))
        elif reply.status == composer.PRECONDITION_REQUIRED:
            self._required.add(uri)
        return reply

    def _exchange(self, uri: str, send: Callable[[], Answer]) -> Reply:
        self.connection.renew_deadline(self.timeout_s)
        try:
            answer = send()
        except InputError as error:
            raise PodmError(str(error)) from None
        try:
            body, text = answer.json(uri) if answer.body else None, ""
        except InputError as error:
            body, text = None, one_line(answer.body[:MOST_TEXT].decode(errors="replace"), MOST_TEXT)
            # only the kind of an HTML page or of truncated JSON is reported
            if answer.body.lstrip()[:1] in (b"<", b"{") or len(answer.body) > MAX_DOCUMENT_BYTES:
                text = error.found
        return Reply(answer.status, answer.headers, body, text)


class ConnectedPodm(NamedTuple):
    """The composer and the session of one pod manager after the login."""

    composer: Composer
    session: Session


@contextlib.contextmanager
def connect(
    target: ReadTarget, dialects: dialect.Dialects, timeout_s: float, patience_s: float
) -> Iterator[ConnectedPodm]:
    """Yield the composer of a pod manager and its session, which is deleted afterwards.

    ``timeout_s`` limits the login and each request, ``patience_s`` the wait for an accepted task.
    PodmError: the pod manager is unreachable, refuses the login, is not the registered service, or
    has a read-only dialect. PluginError: a dialect failed on the service root.
    """
    registration = target.registered
    with Connection(registration, target.password, Deadline(timeout_s)) as connection:
        try:
            root = enter_service(connection)
            identity = live_identity(connection, root) if registration.identity else None
        except InputError as error:
            raise PodmError(str(error)) from None
        if registration.identity and identity and identity != registration.identity:
            raise PodmError(change_text(registration.name, registration.identity, identity))
        name, make_composer = registration.driver, None
        with contextlib.suppress(UnknownName):
            dialect = dialect_of_driver(name, root, dialects, registration.name)
            name, make_composer = dialect.name, dialect.composer
        if make_composer is None:
            raise PodmError(f"driver {name!r} only reads pod managers and cannot compose")
        session = HttpSession(connection, timeout_s, root)
        yield ConnectedPodm(make_composer(session, lambda: Patience(patience_s)), session)


def live_identity(connection: Connection, root: Json) -> str:
    """Return the identity that a service states, else its address; PodmError on failure."""

    def get(uri: str) -> Json | None:
        if uri == ROOT:
            return root
        answer = connection.get(uri)
        if is_outage(answer.status):
            raise PodmError(f"{uri}: found HTTP {answer.status}, expected a document")
        return answer.json(uri) if answer.status == 200 else None

    service = LinkedDocuments(get, NO_NOTES, host=connection.host)
    return service_identity(service) or dialect.address_identity(connection.url)


def probe_identity(registration: Registration, password: str | None, timeout_s: float) -> str:
    """Return the identity of the service at a registered URL; it logs in if that is needed.

    PodmError or InputError: the service does not answer, refuses the login, or has no root.
    """
    with Connection(registration, password, Deadline(timeout_s)) as connection:
        answer = connection.get_anonymous(ROOT)
        if answer.status == 200 and (identity := root_identity(root_document(answer))):
            return identity
        return live_identity(connection, enter_service(connection))
