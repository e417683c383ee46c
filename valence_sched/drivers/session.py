# SPDX-License-Identifier: Apache-2.0
"""A session over an HTTP connection: its answers as replies, its writes with ETags."""

from collections.abc import Callable
from dataclasses import dataclass, field

from valence_sched.drivers import composer
from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Answer
from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError, PodmError, one_line

MOST_TEXT = 200  # characters of a body that is not a document


@dataclass(frozen=True, slots=True)
class HttpSession:
    """Sends requests over a connection; returns each HTTP answer, of any status, as a reply.

    Each request has its own ``timeout_s``, so that time remains to read back after a lost write.
    ``root`` is the service root from the login. A PATCH or DELETE has the ETag of the last read.
    ``written`` are the targets of the writes, from before each is sent.
    """

    connection: Connection
    timeout_s: float = 30.0
    root: Json | None = None
    written: set[str] = field(default_factory=set)
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
        self.written.add(uri)
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
