# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange: its request, its answer or error, its deadline, and when it is tried again."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any, NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import BOM, object_of
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError, PodmError, UsageError
from valence_sched.model.http_headers import header_problem
from valence_sched.model.problem import answer_of
from valence_sched.model.tls import (
    ClientCertificate,
    default_authorities,
    failure_hint,
    is_about_certificate,
    plain_text,
)

#: Headers by which a body that is cut off differs from a whole one.
_LENGTHS = frozenset(("content-length", "transfer-encoding"))
#: Statuses of a document that is not there.
GONE = (404, 410)
#: Statuses below 500 of a service that does not answer now, or not this user, whatever is asked.
_OUTAGES = (403, 408, 429)


def is_outage(status: int) -> bool:
    """Return whether a status says nothing of the document: the service does not answer now."""
    return status >= 500 or status in _OUTAGES


class PodmRequest(NamedTuple):
    """A request to send once; of a body of more than ``most`` bytes one byte more is read."""

    method: str
    path: str
    headers: Mapping[str, str]
    timeout_s: float
    most: int
    body: Json | None = None

    def check_headers(self) -> None:
        """Raise Unreachable where a header cannot be sent: the service named its value."""
        if problem := header_problem(self.headers):
            hint = "the pod manager named it: report it to its vendor"
            raise Unreachable(f"{problem} ({hint})", sent=False)


class Answer(NamedTuple):
    """An answer: its status, its headers in whatever case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ends_early(self) -> bool:
        """Whether JSON without an announced length is cut off: nothing else tells where it ends."""
        if self.status != 200 or not _LENGTHS.isdisjoint(map(str.lower, self.headers)):
            return False
        try:
            msgspec.json.decode(self.body.removeprefix(BOM))
        except msgspec.DecodeError as error:
            return "truncated" in str(error)
        except RecursionError:
            pass  # said where the document is read
        return False

    def json(self, uri: str) -> Json:
        """Return the body as an object; errors as for :func:`object_of`, and of a large body."""
        if len(self.body) > MAX_DOCUMENT_BYTES:
            most = f"at most {MAX_DOCUMENT_BYTES}"
            raise InputError(uri, "", "a document of more bytes", most)
        return object_of(self.body, uri)


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not to be trusted.

    ``retryable`` is whether a read may be tried again; ``sent`` is whether the request may have
    reached the pod manager, so that a write may have had its effect.
    """

    def __init__(self, text: str, *, retryable: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.retryable, self.sent = retryable, sent


class Slow(Unreachable):
    """One answer takes too long; others may still come."""


class Cut(Unreachable):
    """One answer does not come whole, however often it is requested; others may still come."""


class MalformedBody(HTTPException):
    """An answer whose head is one of HTTP, and whose body is none."""


class Deadline:
    """The moment until which a pod manager must have answered everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """The seconds that are left; 0 or less when it has passed."""
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
    until = _date(value)
    if until is None:
        return otherwise
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # it brings in much, and few answers have a date

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


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

    def wait_as_told(self, headers: Mapping[str, str]) -> bool:
        """Sleep as ``Retry-After`` says; return False, at once, for none and for one too long."""
        told_s = retry_after_s(headers, -1.0)
        if told_s < 0 or told_s >= self._until - self._clock():
            return False
        return self.pause({"Retry-After": str(max(told_s, self._pause))})

    def pause(self, headers: Mapping[str, str] | None = None) -> bool:
        """Sleep before the next read; return False, at once, when there is no time for one.

        ``headers`` may ask for a longer pause; it never ends after the deadline.
        """
        left = self._until - self._clock()
        if left <= 0:
            return False
        self._sleep(min(left, retry_after_s(headers or {}, self._pause)))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True


CHECK_HINT = "check that it runs and that the URL is right"
_MALFORMED_HINT = "report it to the vendor of the service, or of a proxy before it"
_UNCHECKED = "; --insecure reads it unchecked"
#: What the first bytes of a record of TLS begin with: an alert or a handshake of any version.
TLS_RECORDS = ("\x15\x03", "\x16\x03")
#: How long a port is asked whether it speaks TLS, at most.
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
        """Return the context for authorities, the usual, those of a path, or none.

        It presents the certificate of a client. Raises Unreachable where a file cannot be used,
        and OSError.
        """
        authorities = verify or ""
        if authorities is True:
            try:
                known = default_authorities(self._environ)
                authorities = _bundled_authorities() if known is None else known
            except UsageError as error:
                raise Unreachable(f"TLS: {error}", sent=False) from None
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


def _bundled_authorities() -> str:
    from requests.utils import DEFAULT_CA_BUNDLE_PATH  # requests is slow to import

    return str(DEFAULT_CA_BUNDLE_PATH)


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
    """Return what an error of a socket means; ``connected`` after the connection was taken."""
    causes = causes_of(error)
    if isinstance(causes[-1], ssl.SSLEOFError):  # cut off, which says nothing about trust
        return connection_error(causes[-1], connected=connected)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return tls_error(causes[-1])
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return timeout_error(connected=connected)
    return connection_error(causes[-1], connected=connected)


def tls_error(error: BaseException) -> Unreachable:
    """Return that no TLS connection can be made."""
    hint = failure_hint(error, cacert="--cacert", cert="--cert and --key")
    hint += _UNCHECKED if is_about_certificate(error) else ""
    return Unreachable(f"TLS: {plain_text(error)} ({hint})", sent=False)


def plain_http_error(text: str) -> Unreachable:
    """Return that a port which speaks TLS was asked without."""
    return Unreachable(f"{text} (it speaks TLS there: write https:// in the URL)", sent=False)


def late_alert(
    address: tuple[str, int], context: ssl.SSLContext, timeout_s: float
) -> ssl.SSLError | None:
    """Return the alert that a server sends after a handshake, None where it sends none.

    With TLS 1.3 it judges the certificate of a client late: a request that is on its way by then
    loses the alert. So another connection waits for it without any.
    """
    timeout_s = min(timeout_s, PROBE_S)
    try:
        with socket.create_connection(address, timeout_s) as sock:
            context.wrap_socket(sock, server_hostname=address[0]).recv(1)
    except ssl.SSLError as error:
        return error if "alert" in plain_text(error) else None
    except (OSError, ValueError):
        pass
    return None


def speaks_tls(address: tuple[str, int], timeout_s: float) -> bool:
    """Return whether a port answers the beginning of a handshake, whatever comes of it."""
    try:
        with socket.create_connection(address, min(timeout_s, PROBE_S)) as sock:
            _verifying_context("").wrap_socket(sock, server_hostname=address[0]).close()
    except ssl.SSLError as error:
        return "alert" in plain_text(error)
    except (OSError, ValueError):
        return False
    return True


def timeout_error(*, connected: bool) -> Slow:
    """Return that the answer, or even the connection, did not come in time."""
    if connected:
        return Slow("no answer in time (allow it more with --request-timeout)")
    return Slow(f"no connection in time ({CHECK_HINT})", sent=False)


def connection_error(error: BaseException, *, connected: bool) -> Unreachable:
    """Return that a connection ended too early, or could not be made."""
    text, hint = plain_text(error), CHECK_HINT  # without the objects that some libraries print
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
    """Return that a body is packed in a way that was not asked for and is not read."""
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
    """Let the system probe a connection that is quiet: a peer that is gone ends it in minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def shut(sock: Any) -> None:
    """End sending and receiving, also for threads that wait for it."""
    with contextlib.suppress(OSError):  # it may be closed already
        getattr(sock, "socket", sock).shutdown(socket.SHUT_RDWR)  # of TLS within TLS the outer
