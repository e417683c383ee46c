# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange: its request, its answer or error, its deadline, and its retries."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from email.utils import mktime_tz, parsedate_tz
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any, NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import BOM, object_of
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError, PodmError, UsageError
from valence_sched.model import tls
from valence_sched.model.http_headers import header_problem
from valence_sched.model.problem import answer_of
from valence_sched.model.tls import ClientCertificate, default_authorities, plain_text

#: Headers by which a body that is cut off differs from a whole one.
_LENGTHS = frozenset(("content-length", "transfer-encoding"))
#: Statuses of a document that does not exist.
GONE = (404, 410)


def is_outage(status: int) -> bool:
    """Return whether the service does not answer now, or not this user, for any document."""
    return status >= 500 or status in (403, 408, 429)


class PodmRequest(NamedTuple):
    """A request to send once; of a body of more than ``most`` bytes one byte more is read."""

    method: str
    path: str
    headers: Mapping[str, str]
    timeout_s: float
    most: int
    body: Json | None = None

    def check_headers(self) -> None:
        """Raise Unreachable if a header cannot be sent: its value is the pod manager's."""
        if problem := header_problem(self.headers):
            hint = "the pod manager named it: report it to its vendor"
            raise Unreachable(f"{problem} ({hint})", sent=False)


class Answer(NamedTuple):
    """An answer: its status, its headers in upper or lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ends_early(self) -> bool:
        """Whether it is truncated JSON without an announced length."""
        if self.status != 200 or not _LENGTHS.isdisjoint(map(str.lower, self.headers)):
            return False
        try:
            msgspec.json.decode(self.body.removeprefix(BOM))
        except msgspec.DecodeError as error:
            return "truncated" in str(error)
        except RecursionError:
            pass  # reported when the document is read
        return False

    def json(self, uri: str) -> Json:
        """Return the body as an object; InputError for other JSON, or if it is too large."""
        if len(self.body) > MAX_DOCUMENT_BYTES:
            raise InputError(uri, "", "a document of more bytes", f"at most {MAX_DOCUMENT_BYTES}")
        return object_of(self.body, uri)


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not trusted.

    A read may be tried again if it is ``retryable``; a write may have had its effect if ``sent``.
    """

    def __init__(self, text: str, *, retryable: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.retryable, self.sent = retryable, sent


class Slow(Unreachable):
    """One answer takes too long; others may come."""


class Cut(Unreachable):
    """One answer never comes whole; others may come."""


class MalformedBody(HTTPException):
    """An answer with a head of HTTP and a body that breaks it."""


class Deadline:
    """The time until which a pod manager must have answered every request."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return self._ends - time.monotonic()

    def error(self) -> Unreachable:
        hint = "(allow it more with --request-timeout)"
        return Unreachable(f"no complete answer within {self.seconds:g} s {hint}")


#: How often a read is tried, and the pause before the second time; then twice as long.
READ_ATTEMPTS = 4
READ_PAUSE_S = 0.1
#: Pauses of a :class:`Patience`.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: How often a node is looked for after a reply that was lost.
LATE_READS = 8
#: Answers that ask for another try.
BUSY_STATUSES = (429, 503)
#: Answers after which a write may still have its effect: those of a gateway that gave up.
GATEWAY_STATUSES = (408, 502, 504)


def retry_after_s(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds to wait, a date by the server's own clock; ``otherwise`` without any."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return min(float(value), 1e6)
    until, now = parsedate_tz(value), parsedate_tz(headers.get("Date", ""))
    if until is None:
        return otherwise
    try:
        return max(0.0, mktime_tz(until) - (mktime_tz(now) if now else time.time()))
    except (ValueError, OverflowError):
        return otherwise


class Patience:
    """Pauses between reads, each half as long again as the one before, until a deadline."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._until, self._pause = clock() + seconds, FIRST_PAUSE_S

    def wait_retry_after(self, headers: Mapping[str, str]) -> bool:
        """Sleep as ``Retry-After`` says; return False, at once, without one or the time for it."""
        pause_s = retry_after_s(headers, -1.0)
        if pause_s < 0 or pause_s >= self._until - self._clock():
            return False
        return self.pause({"Retry-After": str(max(pause_s, self._pause))})

    def pause(self, headers: Mapping[str, str] | None = None) -> bool:
        """Sleep before the next read, as long as ``headers`` say; return False if time is up."""
        left = self._until - self._clock()
        if left <= 0:
            return False
        self._sleep(min(left, retry_after_s(headers or {}, self._pause)))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True


CHECK_HINT = "check that it runs and that the URL is right"
_MALFORMED_HINT = "report it to the vendor of the service, or of a proxy before it"
#: The first bytes of a TLS record: an alert or a handshake of any version.
TLS_RECORDS = ("\x15\x03", "\x16\x03")
#: Seconds for the probe of a port for TLS.
PROBE_S = 2.0


class TlsContexts:
    """The TLS contexts by their files, each made once; ``environ`` names the usual authorities."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._contexts: dict[tuple[str, ClientCertificate | None], ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def for_verify(
        self, verify: bool | str, certificate: ClientCertificate | None = None
    ) -> ssl.SSLContext:
        """Return the context for the usual authorities, those of a path, or without them.

        It presents the certificate of a client. Raises Unreachable for an unusable file, OSError.
        """
        authorities = verify or ""
        if authorities is True:
            try:
                known = default_authorities(self._environ)
            except UsageError as error:
                raise Unreachable(f"TLS: {error}", sent=False) from None
            if known is None:
                from requests.utils import DEFAULT_CA_BUNDLE_PATH  # requests is slow to import

                known = str(DEFAULT_CA_BUNDLE_PATH)
            authorities = known
        key = (authorities, certificate)
        with self._lock:
            if key not in self._contexts:
                context = _verifying_context(authorities)
                try:
                    if certificate is not None:
                        certificate.load(context)
                except ValueError as error:
                    raise Unreachable(f"TLS: client certificate: {error}", sent=False) from None
                self._contexts[key] = context
            return self._contexts[key]


def _verifying_context(authorities: str) -> ssl.SSLContext:
    if not authorities:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    folder = authorities if os.path.isdir(authorities) else None
    try:
        return ssl.create_default_context(cafile=None if folder else authorities, capath=folder)
    except ssl.SSLError:
        text = (
            f"TLS: found no certificate in {authorities!r}, expected those of authorities in PEM "
            "(name another file with --cacert)"
        )
        raise Unreachable(text, sent=False) from None


def unreachable_error(error: BaseException, *, connected: bool = True) -> Unreachable:
    """Return the error of a socket, ``connected`` or not, as Unreachable."""
    causes = causes_of(error)
    if isinstance(causes[-1], ssl.SSLEOFError):  # an end says nothing about trust
        return connection_error(causes[-1], connected=connected)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return tls_error(causes[-1])
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return timeout_error(connected=connected)
    return connection_error(causes[-1], connected=connected)


def tls_error(error: BaseException) -> Unreachable:
    """Return that no TLS connection can be made."""
    hint = tls.failure_hint(error, cacert="--cacert", cert="--cert and --key")
    hint += "; --insecure reads it unchecked" if tls.is_about_certificate(error) else ""
    return Unreachable(f"TLS: {plain_text(error)} ({hint})", sent=False)


def plain_http_error(text: str) -> Unreachable:
    """Return the error of a request without TLS to a port with TLS."""
    return Unreachable(f"{text} (it speaks TLS there: write https:// in the URL)", sent=False)


def late_alert(
    address: tuple[str, int], context: ssl.SSLContext, timeout_s: float
) -> ssl.SSLError | None:
    """Return the alert that a server sends after a handshake, None without one.

    With TLS 1.3 it judges the certificate of a client late, and a request on its way by then loses
    the alert. So another connection waits for it without a request.
    """
    with contextlib.suppress(ValueError, OSError):
        try:
            with socket.create_connection(address, min(timeout_s, PROBE_S)) as sock:
                context.wrap_socket(sock, server_hostname=address[0]).recv(1)
        except ssl.SSLError as error:
            return error if "alert" in plain_text(error) else None
    return None


def speaks_tls(address: tuple[str, int], timeout_s: float) -> bool:
    """Return whether a port answers the beginning of a handshake, even by an alert."""
    try:
        with socket.create_connection(address, min(timeout_s, PROBE_S)) as sock:
            _verifying_context("").wrap_socket(sock, server_hostname=address[0]).close()
    except ssl.SSLError as error:
        return "alert" in plain_text(error)
    except (OSError, ValueError):
        return False
    return True


def timeout_error(*, connected: bool) -> Slow:
    """Return the error of an answer, or a connection, that did not come in time."""
    if connected:
        return Slow("no answer in time (allow it more with --request-timeout)")
    return Slow(f"no connection in time ({CHECK_HINT})", sent=False)


def connection_error(error: BaseException, *, connected: bool) -> Unreachable:
    """Return the error of a connection that ended too early, or could not be made."""
    text, hint = plain_text(error), CHECK_HINT
    is_end = isinstance(error, IncompleteRead | RemoteDisconnected)
    if isinstance(error, IncompleteRead):
        text = "an answer that ends too early"
    elif isinstance(error, BadStatusLine) and not is_end:
        if str(error).startswith(TLS_RECORDS):
            return plain_http_error("no HTTP")
        text, hint = f"no HTTP: {answer_of(str(error))}", "is it this port, and not https?"
    elif isinstance(error, MalformedBody | zlib.error):
        text, hint = f"malformed body: {str(error).lower()}", _MALFORMED_HINT
    elif isinstance(error, HTTPException) and not is_end:
        text, hint = f"malformed head: {str(error).lower()}", _MALFORMED_HINT
    kind = Cut if connected else Unreachable
    return kind(f"{text} ({hint})", retryable=True, sent=connected)


def unsupported_encoding(encoding: str) -> Unreachable:
    """Return the error of a body in an encoding that was not requested."""
    text = f"a body in the encoding {encoding[:40]!r}, which is not supported"
    return Cut(f"{text} (let the service, or a proxy before it, send gzip or plain JSON)")


def causes_of(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, the first cause last."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        inner = [getattr(cause, "reason", None), *cause.args]
        wrapped = [item for item in inner if isinstance(item, BaseException)]
        before = None if cause.__suppress_context__ else cause.__context__
        cause = wrapped[-1] if wrapped else cause.__cause__ or before
    return causes


def keep_alive(sock: socket.socket) -> None:
    """Let the system probe an idle connection, so that a lost peer ends it within minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def shut(sock: Any) -> None:
    """End sending and receiving, also for threads that wait for it."""
    with contextlib.suppress(OSError):  # it may be closed already
        getattr(sock, "socket", sock).shutdown(socket.SHUT_RDWR)  # of TLS within TLS the outer
