# SPDX-License-Identifier: Apache-2.0
"""Connection to a service: sends requests, and raises the errors of the answers."""

import contextlib
import math
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPResponse
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from requests.utils import get_environ_proxies
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import LocationParseError, NewConnectionError, ProxyError

from valence_sched.errors import ServiceError, UsageError, describe_error, errors_at
from valence_sched.model import http

T = TypeVar("T")

VERSION_HEADER, VERSION = "OpenStack-API-Version", "podm-scheduler 1.0"
TOKEN_HEADER = "X-Auth-Token"  # noqa: S105 - its name
MAX_ANSWER_BYTES = 512 << 20
PIECE_BYTES = 1 << 20
LEAST_TIMEOUT_S = 0.001
#: The variables for the trusted authorities, and for the client certificate and its key.
AUTHORITIES = "VALENCE_SCHED_CACERT"
CERTIFICATE, KEY = "VALENCE_SCHED_CERT", "VALENCE_SCHED_KEY"
CHECK_HINT = "check that the service runs and that the URL is right"
MAY_BE_DONE = "the request may have been carried out"
_PLAIN = re.compile(r"(?!\.{1,2}$|-$)[\w.~-]+", re.ASCII)

FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError)

Query = Mapping[str, Any]


class TimedHead(HTTPResponse):
    """An answer whose head arrives within the timeout of its socket, which starts at each byte."""

    def __init__(self, sock: socket.socket, *words: Any, **options: Any) -> None:
        super().__init__(sock, *words, **options)
        self._sock = sock

    def begin(self) -> None:
        limit_s = self._sock.gettimeout() or threading.TIMEOUT_MAX
        until = time.monotonic() + limit_s
        timer = threading.Timer(limit_s, self._shut)
        timer.start()
        try:
            super().begin()
        finally:
            timer.cancel()
            if time.monotonic() >= until:
                raise TimeoutError

    def _shut(self) -> None:
        with contextlib.suppress(OSError):  # already closed
            self._sock.shutdown(socket.SHUT_RDWR)


class TimedAdapter(HTTPAdapter):
    """Its connections read answers as ``TimedHead``."""

    def get_connection_with_tls_context(self, *words: Any, **options: Any) -> HTTPConnectionPool:
        pool = super().get_connection_with_tls_context(*words, **options)
        if "ConnectionCls" not in vars(pool):
            timed = {"response_class": TimedHead}
            pool.ConnectionCls = type("Timed", (type(pool).ConnectionCls,), timed)
        return pool


def new_session(url: str, verify: bool | str = True) -> requests.Session:
    """Return a session for a URL; it takes the proxy, but no login, from the environment."""
    session = requests.Session()
    session.mount("https://", TimedAdapter())
    session.mount("http://", TimedAdapter())
    session.proxies, session.trust_env = get_environ_proxies(url), False
    session.verify = (verify is True and http.default_authorities(os.environ)) or verify
    return session


class ServiceConnection:
    """Requests to the service at ``url``; ``user`` and ``password`` are for HTTP basic.

    ``token`` returns a Keystone token for each request after the first HTTP 401. With ``renew``,
    every request has a token; after a refused token, ``renew`` is called, and the request is sent
    again once. ``verify`` is False for any certificate, or a file of trusted authorities.
    ``certificate`` is presented to the service. The service may be silent for ``timeout_s``, and a
    whole answer must arrive within ``answer_s``, if given.
    ``route`` returns the ids of the zones above. If the URL comes from an environment ``variable``,
    errors name it. Thread-safe.

    Raises: UsageError: the URL is invalid, or holds a password.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        verify: bool | str = True,
        certificate: http.ClientCertificate | None = None,
        timeout_s: float = 60.0,
        answer_s: float | None = None,
        token: Callable[[], str] | None = None,
        renew: Callable[[], object] | None = None,
        route: Callable[[], Sequence[str]] = tuple,
        variable: str | None = None,
    ) -> None:
        with errors_at(variable):
            _check_url(url)
        self.url = url.rstrip("/").removesuffix("/v1")
        # the service expects UTF-8, but requests would send Latin-1
        login = (user.encode(), (password or "").encode()) if user is not None else None
        self._login = login and HTTPBasicAuth(*login)
        self._verify, self._certificate = verify, certificate
        self._timeout_s, self._answer_s = timeout_s, answer_s
        self._token, self._renew, self._sends_token = token, renew, renew is not None
        self._route, self._variable = route, variable
        self._local = threading.local()

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: msgspec.Struct | None = None,
        key: str | None = None,
        deadline_s: float | None = None,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the body and the headers of an answer; ``path`` is below ``/v1``.

        With ``deadline_s``, the whole answer must arrive within this time; it has at most
        ``most_bytes``. Raises ServiceError if the service does not answer or its answer is invalid,
        else the error that the service returned.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        words = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
        }
        headers = {VERSION_HEADER: VERSION, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        if route := self._route():
            headers[http.ROUTE_HEADER] = ",".join(route)
        if (left_s := http.DEADLINE.get()) is not None:
            headers[http.DEADLINE_HEADER] = f"{max(left_s, LEAST_TIMEOUT_S):.3f}"
        # the order of maps is kept: the reason names the first failing attribute of a request
        data = None if body is None else msgspec.json.encode(body)
        where = f"{self.url}/v1/{path}"
        bounds = _Bounds(most_bytes, deadline_s or self._timeout_s, deadline_s or self._answer_s)
        status, content, found = self._send(method, where, words, data, headers, bounds)
        # a refused request may be allowed with a token or a new token
        if status == 401 and self._token and (self._renew or not self._sends_token):
            if self._renew and self._sends_token:
                self._renew()
            self._sends_token = True
            status, content, found = self._send(method, where, words, data, headers, bounds)
        if not 200 <= status < 300:
            hint = http.SERVICE_HINT if method == "GET" or status < 500 else MAY_BE_DONE
            raise http.problem_error(content, status, where, hint)
        return content, found

    def _send(
        self,
        method: str,
        where: str,
        words: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
        bounds: "_Bounds",
    ) -> tuple[int, bytes, Mapping[str, str]]:
        if self._token is not None and self._sends_token:
            headers = {**headers, TOKEN_HEADER: self._token()}
        if problem := http.header_problem(headers):
            raise ServiceError(f"{self.url}: {problem}")
        try:
            with self._session().request(
                method,
                where,
                params=words,
                data=data,
                headers=headers,
                timeout=bounds.left_s(),
                allow_redirects=False,
                stream=True,
            ) as answer:
                return answer.status_code, bounds.read(answer, where), answer.headers
        except FAILURES as error:
            with errors_at(self._variable):
                raise ServiceError(f"{self.url}: {_reason(error, method)}") from None

    def decode(self, content: bytes, kind: type[T], *, changes: bool = False) -> T:
        """Return a decoded answer, to a change or not; ServiceError if it is invalid."""
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = MAY_BE_DONE if changes else "the service may be newer"
            text = f"{self.url}: the answer cannot be parsed ({error}): {hint}"
            raise ServiceError(text) from None

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = new_session(self.url, self._verify)
            session.auth = self._login
            if (one := self._certificate) is not None:
                session.cert = one.cert if one.key is None else (one.cert, one.key)
            self._local.session = session
        return session


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        has_login = bool(parts.username or parts.password)
    except ValueError:  # an invalid port or IPv6 address
        is_one, has_login = False, "@" in url
    if has_login:
        raise UsageError("the URL of the service contains a password: set it in the environment")
    if not is_one:
        raise UsageError(f"{url!r}: expected the http or https URL of a service")


class _Bounds:
    """The limits of one answer: its bytes, the time without data, and the total time, if any."""

    def __init__(self, most_bytes: int, timeout_s: float, answer_s: float | None) -> None:
        self._most_bytes, self._timeout_s = most_bytes, timeout_s
        self._until = time.monotonic() + answer_s if answer_s is not None else math.inf

    def left_s(self) -> float:
        return max(min(self._timeout_s, self._until - time.monotonic()), LEAST_TIMEOUT_S)

    def read(self, answer: requests.Response, where: str) -> bytes:
        pieces, size = [], 0
        while piece := answer.raw.read1(PIECE_BYTES, decode_content=True):
            size += len(piece)
            if size > self._most_bytes:
                raise ServiceError(f"{where}: the answer has more than {self._most_bytes:,} bytes")
            if time.monotonic() > self._until:
                raise requests.Timeout
            pieces.append(piece)
        return b"".join(pieces)


def path_of(collection: str, name: str, part: str = "") -> tuple[str, dict[str, str]]:
    """Return the path and query of an object or its part; a name with a slash is in the query."""
    plain = bool(_PLAIN.fullmatch(name))
    path = f"{collection}/{quote(name, safe='') if plain else '-'}"
    return f"{path}/{part}" if part else path, {} if plain else {"name": name}


def is_unsent(error: Exception) -> bool:
    """Return whether a request failed before a connection to the service existed."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    unsent = requests.ConnectTimeout, requests.exceptions.InvalidURL, LocationParseError
    return isinstance(error, unsent) or isinstance(reason, NewConnectionError | ProxyError)


def _reason(error: Exception, method: str) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return _tls_reason(error)
    hint = CHECK_HINT if method == "GET" or is_unsent(error) else MAY_BE_DONE
    if isinstance(error, (requests.Timeout, urllib3.exceptions.TimeoutError)):
        return f"the service does not answer in time: {hint}"
    if isinstance(error, requests.ConnectionError):
        return f"does not answer: {hint}"
    if isinstance(error, requests.RequestException | urllib3.exceptions.HTTPError):
        # some messages quote the received data
        what = http.foreign_phrase(http.ANSWER, describe_error(error))
        return what if method == "GET" else f"{what}: {hint}"
    return describe_error(error)


def _tls_reason(error: requests.exceptions.SSLError) -> str:
    wrapped = getattr(error.args[0], "reason", None) if error.args else None
    cause = wrapped.args[0] if wrapped is not None and wrapped.args else None
    is_untrusted = isinstance(cause, ssl.SSLCertVerificationError)
    what = "its certificate is not trusted" if is_untrusted else "no TLS"
    if not isinstance(cause, ssl.SSLError):
        return f"{what}: {type(error).__name__}: check that the service uses https at this port"
    hint = http.failure_hint(cause, cacert=AUTHORITIES, cert=f"{CERTIFICATE} and {KEY}")
    return f"{what}: {http.plain_text(cause)}: {hint}"


URL = "VALENCE_SCHED_URL"
USER, PASSWORD = "VALENCE_SCHED_USER", "VALENCE_SCHED_PASSWORD"


def connection(
    environ: Mapping[str, str],
    url: str | None = None,
    *,
    token: Callable[[], str] | None = None,
    verify: bool | str = True,
    certificate: http.ClientCertificate | None = None,
) -> ServiceConnection | None:
    """Return the connection to a service at ``url``, else at the URL of the environment, if any.

    Files of the environment override ``verify`` and ``certificate``, and a user of the environment
    replaces the token. UsageError for an invalid URL, a missing user or password, and an unreadable
    file.
    """
    address = url or environ.get(URL)
    if not address:
        return None
    user, password = environ.get(USER) or None, environ.get(PASSWORD) or None
    if (user is None) != (password is None):
        raise UsageError(f"a login to the service needs both {USER} and {PASSWORD}")
    authorities, cert, key = (_file(environ, it) for it in (AUTHORITIES, CERTIFICATE, KEY))
    if problem := http.file_problem(cert, key):
        raise UsageError(f"{CERTIFICATE}, {KEY}: {problem}")
    return ServiceConnection(
        address,
        user=user,
        password=password,
        verify=authorities or verify,
        certificate=http.client_certificate(cert, key) or certificate,
        token=None if user else token,
        variable=None if url else URL,
    )


_FILES = {
    AUTHORITIES: "the file of the authorities to trust",
    CERTIFICATE: "the file of the certificate to present",
    KEY: "the file of the key of the certificate",
}


def _file(environ: Mapping[str, str], name: str) -> str | None:
    file = environ.get(name) or None
    if file is not None and "-----BEGIN" not in file and not os.access(file, os.R_OK):
        hint = f"name {_FILES[name]}"
        raise UsageError(f"{name}: {file} is not a readable file: {hint}")
    return file
