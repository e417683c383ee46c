# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection to one pod manager: logged in, bounded, within a deadline."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from http.client import IncompleteRead
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, MAX_TREE_BYTES
from valence_sched.drivers.document_shape import check_content, current_form, type_name
from valence_sched.drivers.fields import Json, links
from valence_sched.drivers.http import exchange
from valence_sched.drivers.http.exchange import Answer, Deadline, PodmRequest, Unreachable
from valence_sched.drivers.http.stdlib_transport import AnswerStream, StdlibTransport
from valence_sched.drivers.links import ROOT, host_and_path, single_slash
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model.http import REDIRECT, client_certificate, foreign_phrase
from valence_sched.model.registration import Registration

if TYPE_CHECKING:
    from valence_sched.drivers.http.sushy_transport import SushyTransport

LOG = logging.getLogger(__name__)
SESSIONS = f"{ROOT}/SessionService/Sessions"
_REGISTER = "set the login in its file, or with `podm set --username --password-prompt`"
MAX_REDIRECTS = 5
#: Seconds for the deletion of a session, also after the deadline.
LOGOUT_S = 3.0
#: Headers of every request; ``identity`` as in sushy: a compressed answer may have another ETag.
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "keep-alive",
    "OData-Version": "4.0",
    "User-Agent": "valence-sched",
}
_JSON = {"Content-Type": "application/json"}
#: Root entries that are needed before the login; other entries may appear after it.
LOGIN_ENTRIES = frozenset(("SessionService", "Sessions", "Registries", "JsonSchemas"))


class LoginRefused(PodmError):
    """A pod manager refuses the login."""


class Login:
    """The login of one connection; ``count`` is the number of logins."""

    def __init__(
        self, connection: Connection, registration: Registration, password: str | None
    ) -> None:
        self._connection = connection
        self._user, self._auth, self._password = registration.username, registration.auth, password
        self._open: list[str] = []
        self._sessions: str | None = None
        self._renewing = threading.Lock()
        self.count, self.is_renewed = 0, False
        self._with_basic = False  # the service creates sessions only with basic authentication
        self.remarks: list[str] = []

    def log_in(self, root: Json | None) -> None:
        """Log in; if the root offers no sessions, send the password with each request."""
        if self._user is None:
            return
        self.count += 1
        if self._auth != "basic":
            inside = (root or {}).get("Links")
            named = links(inside.get("Sessions") if isinstance(inside, dict) else None)
            if link := next(filter(None, named), None):
                self._sessions = self._connection.local_path(link)
            elif not root or "SessionService" in root or self._auth == "session":
                self._sessions = SESSIONS
        if self._sessions is None:
            self._use_basic()
        else:
            self._open_session(self._sessions)

    def renew(self, count: int) -> bool:
        """Log in again unless another thread has since login ``count``; return whether to retry."""
        with self._renewing:
            if self.count != count:
                return True
            if self._sessions is None or self.is_renewed:
                return False
            self.is_renewed = True
            if self._with_basic:  # needed with each request, even with a session
                self._sessions = None
                self._use_basic()
            else:
                self._connection.set_auth()
                self._open_session(self._sessions)
            self.count += 1  # only now that the new session exists
            return True

    def refusal(self) -> LoginRefused:
        if self._user is None:
            hint = "set a user name in its file, or with `podm set --username`"
            return LoginRefused(f"requires a login ({hint})")
        if self.is_renewed:
            return LoginRefused(f"the login of {self._user!r} expired twice in one read")
        return LoginRefused(f"refused the login of {self._user!r} ({_REGISTER})")

    def log_out(self) -> None:
        while self._open:
            uri = self._open.pop(0)  # the session in use comes last
            try:
                status = self._connection.send("DELETE", uri).status
                if status == 401 and self._with_basic:
                    self._use_basic()
                    status = self._connection.send("DELETE", uri).status
            except (PodmError, InputError) as error:
                reason = str(error).partition(" (")[0]  # its hint applies only to readings
            else:
                if status < 400 or status in (401, 404, 410):
                    continue
                reason = f"HTTP {status}"
            LOG.warning("%s%s: could not be deleted: %s", self._connection.url, uri, reason)

    def _open_session(self, uri: str) -> None:
        answer = self._post(uri)
        if answer.status == 401 and self._auth == "auto" and not self._with_basic:
            answer = self._post_with_basic(uri, answer)
        if answer.status == 401:
            raise self.refusal()
        found = f"HTTP {answer.status}"
        if answer.status < 300:
            found = "no X-Auth-Token"
            token, link = answer.headers.get("X-Auth-Token"), answer.headers.get("Location")
            if not link and answer.body:
                with contextlib.suppress(InputError):
                    link = answer.json(uri).get("@odata.id")
            # Only the path is used: behind a proxy, the host may differ.
            path = self._connection.resolve(link)[1] if isinstance(link, str) else ""
            if path.startswith("/"):
                self._open.append(path)
            elif token:
                lost = "created a session without its URI, so it cannot be deleted"
                LOG.warning("%s%s: %s", self._connection.url, uri, lost)
            if token:
                self._connection.set_auth(token=token)
                return
        if self._auth == "session":
            hint = "perhaps too many sessions: --auth basic needs no session"
            raise LoginRefused(f"{uri}: creates no session: {found} ({hint})")
        what = f"found {found}, expected a session (used --auth basic instead)"
        self.remarks.append(one_line(f"{uri}: {what}"))
        self._sessions = None
        self._use_basic()

    def _post(self, uri: str) -> Answer:
        account = {"UserName": self._user, "Password": self._password}
        return self._connection.send("POST", uri, data=account)

    def _post_with_basic(self, uri: str, refused: Answer) -> Answer:
        """POST with basic authentication; without a challenge, a read tests the password first."""
        challenge = refused.headers.get("WWW-Authenticate", "")
        if challenge and "basic" not in challenge.casefold():
            return refused
        self._with_basic = True
        self._use_basic()
        if not challenge:
            tried = self._connection.send("GET", uri)
            if tried.status == 401:
                return tried
        return self._post(uri)

    def _use_basic(self) -> None:
        self._connection.set_auth(basic=(self._user or "", self._password or ""))


def base_url(registration: Registration) -> str:
    """Return scheme, host and port of a pod manager; PodmError if its URL is invalid."""
    try:
        parts = urlsplit(registration.url)
        port = parts.port
    except ValueError as error:
        raise PodmError(f"{error} (expected https://host or https://host:port)") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise PodmError("found an invalid URL, expected https://host or https://host:port")
    if parts.path.rstrip("/") not in ("", "/redfish", ROOT):
        found = f"found the path {parts.path[:80]!r} in its URL"
        raise PodmError(f"{found}, expected https://host or https://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def proxies_to(url: str) -> dict[str, str]:
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform not in ("darwin", "win32"):
        return {}
    from requests.utils import get_environ_proxies, select_proxy  # slow to import

    proxies: dict[str, str] = get_environ_proxies(url)
    return proxies if select_proxy(url, proxies) else {}


class Connection:
    """One connection, thread-safe; ``url`` is its base URL, without credentials."""

    def __init__(
        self,
        registration: Registration,
        password: str | None,
        deadline: Deadline,
        parallel: int = 1,
        tls: exchange.TlsContexts | None = None,
    ) -> None:
        self.name, self.deadline, self.requests = registration.name, deadline, 0
        self._received = 0
        self.url, self.root_uri = base_url(registration), ROOT
        self.host = host_and_path(self.url)[0]
        self._ended = self._closing = self._is_timed = False
        self._ending, self._making = threading.Lock(), threading.Lock()
        cacert, self._proxies = registration.cacert, proxies_to(self.url)
        if cacert and not Path(cacert).exists():
            raise PodmError(f"CA file {cacert!r} does not exist (set --cacert)")
        certificate = client_certificate(registration.cert, registration.key)
        verify = cacert or not registration.insecure
        self._trust = verify, tls or exchange.TlsContexts(), certificate
        self._parallel = parallel
        self._sockets: StdlibTransport | None = None
        self._sushy: SushyTransport | None = None
        self._headers = HEADERS
        self.login = Login(self, registration, password)

    def __enter__(self) -> Connection:
        self._is_timed = True  # a crawl instead has one thread that cuts all overdue readers
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_auth(self, token: str | None = None, basic: tuple[str, str] | None = None) -> None:
        if token is not None:
            self._headers = HEADERS | {"X-Auth-Token": token}
        elif basic is not None:
            text = ":".join(basic)
            try:  # in Latin-1 where possible
                plain = text.encode("latin-1")
            except UnicodeEncodeError:
                plain = text.encode()
            credentials = base64.b64encode(plain).decode()
            self._headers = HEADERS | {"Authorization": f"Basic {credentials}"}
        else:
            self._headers = HEADERS

    def get(self, uri: str, most: int = MAX_DOCUMENT_BYTES, share: float = 1.0) -> Answer:
        """GET a URI; retry until the deadline if the server is busy or does not answer.

        A body is truncated after ``most`` bytes. The server may be silent for at most a ``share``
        of the time until the deadline. InputError: only this document is unreadable. Unreachable:
        no answer came. Slow: no answer came within the share. LoginRefused: the login is refused.
        """
        logins = self.login.count
        answer = self._read(uri, most, share)
        if answer.status == 401 and self.login.renew(logins):
            answer = self._read(uri, most, share)
        if answer.status == 401:
            raise self.login.refusal()
        return answer

    def get_anonymous(self, uri: str) -> Answer:
        return self._read(uri, MAX_DOCUMENT_BYTES, 1.0)

    def open_stream(self, uri: str) -> AnswerStream:
        """Open an event stream, once, without following redirects; errors as for :meth:`get`."""
        if self._proxies:
            raise InputError(uri, "", "a proxy", "a direct connection for the event stream")
        left_s = self.deadline.left_s
        if left_s <= 0 or self._ended:
            raise self.deadline.error()
        self.requests += 1
        headers = {**self._headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        stream = self._plain_transport().open_stream(PodmRequest("GET", uri, headers, left_s, 0))
        if self._ended:
            stream.close()
            raise self.deadline.error()
        if stream.status == 401:
            stream.close()
            raise self.login.refusal()
        return stream

    def renew_deadline(self, seconds: float) -> None:
        self.deadline, self.login.is_renewed = Deadline(seconds), False

    def local_path(self, link: str, at: str = "/") -> str:
        """Return the path of a link in the document ``at`` a path; InputError for another host."""
        host, path = self.resolve(link, at)
        if host != self.host:
            found = f"a link to {host or 'an invalid host'}"
            raise InputError(path, "", found, f"links to {self.host} only")
        return path

    def resolve(self, link: str, at: str = "/") -> tuple[str, str]:
        """Return the host (empty if invalid) and path of a link in the document ``at`` a path."""
        try:
            return host_and_path(urljoin(self.url + at, single_slash(link)))
        except ValueError:
            return "", link

    def cut(self) -> None:
        """End all requests; afterwards only the session can be deleted."""
        with self._ending:
            if self._closing:
                return
            self._ended = True
            self._cut_transports()

    def _cut_transports(self) -> None:
        for transport in (self._sockets, self._sushy):
            if transport is not None:
                transport.cut()

    def _cut_overdue(self) -> None:
        if self.deadline.left_s <= 0:  # not if the answer came meanwhile, and another request began
            self._cut_transports()

    def close(self) -> None:
        with self._ending:
            self._ended = self._closing = self._is_timed = True
        self.deadline = Deadline(LOGOUT_S)
        try:
            self.login.log_out()
        finally:
            for transport in (self._sockets, self._sushy):
                if transport is not None:
                    transport.close()

    def write(
        self, method: str, uri: str, data: Json | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Write, once; an Unreachable with ``sent`` means that the write may have had an effect."""
        logins = self.login.count
        answer = self.send(method, uri, data=data, headers=headers, writes=True)
        if answer.status == 401:
            is_renewed = False
            with contextlib.suppress(PodmError, InputError):  # else the refusal is returned
                is_renewed = self.login.renew(logins)
            if is_renewed:
                answer = self.send(method, uri, data=data, headers=headers, writes=True)
        return answer

    def _read(self, uri: str, most: int, share: float) -> Answer:
        """GET a URI; retry after HTTP 429 or 503, or without an answer.

        If the server requests a pause longer than the whole deadline, its answer is returned. If
        the pause is longer than the remaining time only, the error of the deadline is raised.
        """
        for attempt in range(1, exchange.READ_ATTEMPTS + 1):
            is_last = attempt == exchange.READ_ATTEMPTS
            jitter = random.uniform(0.5, 1)  # noqa: S311
            pause_s = exchange.READ_PAUSE_S * 2 ** (attempt - 1) * jitter
            try:
                answer = self._follow(uri, most, share)
                if answer.status not in exchange.BUSY_STATUSES or is_last:
                    return answer
                pause_s = exchange.retry_after_s(answer.headers, pause_s)
                if pause_s >= self.deadline.seconds:  # longer than any reading may wait
                    return answer
            except Unreachable as error:
                if not error.retryable or is_last or self._ended:
                    raise
            if pause_s >= self.deadline.left_s:
                raise self.deadline.error()
            time.sleep(pause_s)
        raise AssertionError("unreachable")

    def _follow(self, uri: str, most: int, share: float) -> Answer:
        at = self.root_uri if uri == ROOT else uri
        is_root = uri in (ROOT, self.root_uri)
        hint = "if that is the same service, register that address" if is_root else ""
        location: str | None = None
        for _ in range(MAX_REDIRECTS):
            answer = self.send("GET", at, most, share)
            if len(answer.body) <= most and answer.ends_early:
                raise exchange.connection_error(IncompleteRead(answer.body), connected=True)
            location = answer.headers.get("Location")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            host, at = self.resolve(location, at)
            if host != self.host:
                found = "a redirect without a valid target"
                found = foreign_phrase(REDIRECT, host) if host else found
                raise InputError(uri, "", found, f"an answer from {self.host}", hint)
        last = foreign_phrase(REDIRECT, location or "")
        raise InputError(uri, "", f"{MAX_REDIRECTS} redirects, lastly {last}", "an answer", hint)

    def _plain_transport(self) -> StdlibTransport:
        with self._making:
            self._sockets = self._sockets or StdlibTransport(self.url, *self._trust)
        return self._sockets

    def _sushy_transport(self) -> SushyTransport:
        from valence_sched.drivers.http.sushy_transport import SushyTransport  # slow to import

        with self._making:
            options = *self._trust, self._proxies, self._parallel
            self._sushy = self._sushy or SushyTransport(self.url, *options)
        return self._sushy

    def send(
        self,
        method: str,
        uri: str,
        most: int = MAX_DOCUMENT_BYTES,
        share: float = 1.0,
        data: Json | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        writes: bool = False,
    ) -> Answer:
        """Send a request once, without following redirects; writes and proxies use sushy."""
        left_s = self.deadline.left_s
        if left_s <= 0 or (self._ended and method != "DELETE"):
            raise self.deadline.error()
        self.requests += 1
        every = self._headers | (_JSON if data is not None else {}) | dict(headers or {})
        request = PodmRequest(method, uri, every, left_s * share, most, data)
        # the timeout of a socket starts again with each byte
        timer = threading.Timer(left_s, self._cut_overdue) if self._is_timed else None
        if timer is not None:
            timer.start()
        try:
            through_sushy = writes or self._proxies
            transport = self._sushy_transport() if through_sushy else self._plain_transport()
            answer = transport.ask(request)
            if self._ended and method != "DELETE":  # a truncated answer can look complete
                raise self.deadline.error()
            self._received += len(answer.body)
            if self._received > MAX_TREE_BYTES:
                raise PodmError(f"sends more than {MAX_TREE_BYTES} bytes")
            return answer
        except Unreachable:
            if self._ended or self.deadline.left_s <= 0:
                raise self.deadline.error() from None
            raise
        finally:
            if timer is not None:
                timer.cancel()


def enter_service(connection: Connection) -> Json:
    """Return the service root and log in; some services show the root only after the login.

    Errors as for :meth:`Connection.get`, and an InputError without a service root.
    """
    root, login_status, problem = _search_root(connection)
    if root is not None:
        connection.login.log_in(current_form(root, root=True))
        if connection.login.count and _linked(root) <= LOGIN_ENTRIES:
            root, login_status, problem = _search_root(connection)
    elif login_status:
        connection.login.log_in(None)
        root, login_status, problem = _search_root(connection)
    if root is not None:
        return root
    if login_status:
        refusal = connection.login.refusal()
        raise refusal if login_status == 401 else Unreachable(str(refusal))
    hint = "is it a Redfish service?"
    raise problem or InputError(ROOT, "", "no such document", "a service root", hint)


def _search_root(connection: Connection) -> tuple[Json | None, int, InputError | None]:
    """Return the root, the status that requires a login (else 0), and the first error."""
    login_status, problem = 0, None
    for uri in (f"{ROOT}/", ROOT):
        try:
            connection.root_uri = uri
            answer = connection.get_anonymous(uri)
            if answer.status == 401 or (answer.status == 403 and not connection.login.count):
                login_status = answer.status
            elif (root := root_document(answer)) is not None:
                return root, 0, None
        except InputError as error:
            problem = problem or error
    return None, login_status, problem


def root_document(answer: Answer) -> Json | None:
    """Return the service root of an answer, None if the answer is HTTP 404 or 410."""
    if answer.status in exchange.GONE:
        return None
    if answer.status != 200:
        raise InputError(ROOT, "", f"HTTP {answer.status}", "a service root")
    root = check_content(answer.json(ROOT), ROOT, "a service root")
    kind = type_name(root)
    if not ("root" in kind or "RedfishVersion" in root or (not kind and _linked(root))):
        what = root.get("@odata.type") if kind else "a document without type, version and links"
        raise InputError(ROOT, "", str(what)[:80], "a service root", "is it a Redfish service?")
    return root


def _linked(root: Json) -> set[str]:
    entries = current_form(root, root=True).items()
    return {key for key, value in entries if isinstance(value, dict) and "@odata.id" in value}
