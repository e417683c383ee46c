# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange: its request, its answer or error, its deadline, and its retries."""

import contextlib
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from email.utils import mktime_tz, parsedate_tz
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any, NamedTuple

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import BOM, object_of
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError, PodmError, SchedulerError, UsageError
from valence_sched.model import http
from valence_sched.model.http import ClientCertificate, foreign_phrase, header_problem, plain_text

#: Headers that tell a truncated body from a complete one.
_LENGTHS = frozenset(("content-length", "transfer-encoding"))
GONE = (404, 410)
#: The attempts of a read, and the seconds before the second one; the pause then doubles.
READ_ATTEMPTS = 4
READ_PAUSE_S = 0.1
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: The number of searches for a node after a lost reply.
LATE_READS = 8
BUSY_STATUSES = (429, 503)
#: Statuses of a gateway that gave up; the write may still have an effect.
GATEWAY_STATUSES = (408, 502, 504)
CHECK_HINT = "check that it runs and that the URL is right"
_MALFORMED_HINT = "report it to the vendor of the service or of its proxy"
TLS_RECORDS = ("\x15\x03", "\x16\x03")  # an alert, or a handshake of any version
PROBE_S = 2.0


def is_outage(status: int) -> bool:
    """Return whether a status rejects all requests for now, or all requests of this user."""
    return status >= 500 or status in (403, 408, 429)


class PodmRequest(NamedTuple):
    """A request to send once; at most ``most`` + 1 bytes of the body are read."""

    method: str
    path: str
    headers: Mapping[str, str]
    timeout_s: float
    most: int
    body: Json | None = None

    def check_headers(self) -> None:
        """Raise Unreachable if a header has a value from the pod manager that cannot be sent."""
        if problem := header_problem(self.headers):
            hint = "the pod manager sent this value: report it to the vendor"
            raise Unreachable(f"{problem} ({hint})", sent=False)


class Answer(NamedTuple):
    """An answer: its status, its headers by case-insensitive name, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ends_early(self) -> bool:
        """Whether the body is truncated JSON without an announced length."""
        if self.status != 200 or not _LENGTHS.isdisjoint(map(str.lower, self.headers)):
            return False
        try:
            msgspec.json.decode(self.body.removeprefix(BOM))
        except msgspec.DecodeError as error:
            return "truncated" in str(error)
        except (UnicodeDecodeError, RecursionError):
            pass  # reported when the document is read
        return False

    def json(self, uri: str) -> Json:
        """Return the body as an object; InputError for other JSON, or if it is too large."""
        if len(self.body) > MAX_DOCUMENT_BYTES:
            raise InputError(uri, "", "a larger document", f"at most {MAX_DOCUMENT_BYTES} bytes")
        return object_of(self.body, uri)


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not trusted.

    A ``retryable`` read may be tried again; a ``sent`` write may have had an effect.
    """

    def __init__(self, text: str, *, retryable: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.retryable, self.sent = retryable, sent


class Slow(Unreachable):
    """One answer takes too long; other answers may arrive."""


class Cut(Unreachable):
    """One answer is always truncated; other answers may be complete."""


class MalformedBody(HTTPException):
    """An HTTP answer with a valid head and a malformed body."""


class Deadline:
    """The time by which a pod manager must have answered every request."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return self._ends - time.monotonic()

    def error(self) -> Unreachable:
        hint = "(increase --request-timeout)"
        return Unreachable(f"no complete answer within {self.seconds:g} s {hint}")


def retry_after_s(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds of ``Retry-After``, by the clock of the server, else ``otherwise``."""
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
    """Pauses between reads until a deadline; each pause is 1.5 times the previous pause."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._until, self._pause = clock() + seconds, FIRST_PAUSE_S

    def wait_retry_after(self, headers: Mapping[str, str]) -> bool:
        """Sleep for the time of ``Retry-After``; return False if it is absent or too long."""
        pause_s = retry_after_s(headers, -1.0)
        if pause_s < 0 or pause_s >= self._until - self._clock():
            return False
        return self.pause({"Retry-After": str(max(pause_s, self._pause))})

    def pause(self, headers: Mapping[str, str] | None = None) -> bool:
        """Sleep for the time that ``headers`` request; return False if the deadline passes.

        Less than the first pause counts as no request: it would be a read without end.
        """
        left = self._until - self._clock()
        if left <= 0:
            return False
        pause_s = retry_after_s(headers or {}, 0.0)
        self._sleep(min(left, self._pause if pause_s < FIRST_PAUSE_S else pause_s))
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE_S)
        return True

    def tries(self, most: int) -> Iterator[None]:
        """Yield up to ``most`` times, after a pause each but the first; end at the deadline."""
        for left in reversed(range(most)):
            yield
            if not left or not self.pause():
                return


#: Makes the patience of one wait.
MakePatience = Callable[[], Patience]


class TlsContexts:
    """Makes each TLS context once for its files; ``environ`` may name the default authorities."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._contexts: dict[tuple[str, ClientCertificate | None], ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def for_verify(
        self, verify: bool | str, certificate: ClientCertificate | None = None
    ) -> ssl.SSLContext:
        """Return the context for the default authorities, for a file, or without verification.

        The context presents the client certificate. Unreachable: invalid file. OSError: unreadable.
        """
        authorities = verify or ""
        if authorities is True:
            try:
                known = http.default_authorities(self._environ)
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
        found = f"TLS: found no certificate in {authorities!r}, expected PEM certificates of CAs"
        raise Unreachable(f"{found} (name another file with --cacert)", sent=False) from None


def unreachable_error(error: BaseException, *, connected: bool = True) -> Unreachable:
    causes = causes_of(error)
    if isinstance(causes[-1], ssl.SSLEOFError):  # not a proof of an untrusted certificate
        return connection_error(causes[-1], connected=connected)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return tls_error(causes[-1])
    if any(isinstance(cause, TimeoutError) for cause in causes):
        if connected:
            return Slow("no answer in time (increase --request-timeout)")
        return Slow(f"connection timed out ({CHECK_HINT})", sent=False)
    return connection_error(causes[-1], connected=connected)


def tls_error(error: BaseException) -> Unreachable:
    hint = http.failure_hint(error, cacert="--cacert", cert="--cert and --key")
    if isinstance(error, ssl.SSLCertVerificationError):
        hint += "; --no-verify skips the check"
    return Unreachable(f"TLS: {plain_text(error)} ({hint})", sent=False)


def plain_http_error(text: str) -> Unreachable:
    return Unreachable(f"{text} (the port requires TLS: write https:// in the URL)", sent=False)


def late_alert(
    address: tuple[str, int], context: ssl.SSLContext, timeout_s: float
) -> ssl.SSLError | None:
    """Return the alert that a server sends after a handshake, None without an alert.

    With TLS 1.3, a server checks the client certificate after the handshake, and a request that is
    sent meanwhile can hide the alert. So another connection waits for the alert without a request.
    """
    with contextlib.suppress(ValueError, OSError):
        try:
            with socket.create_connection(address, min(timeout_s, PROBE_S)) as sock:
                context.wrap_socket(sock, server_hostname=address[0]).recv(1)
        except ssl.SSLError as error:
            return error if "alert" in plain_text(error) else None
    return None


def connection_error(error: BaseException, *, connected: bool) -> Unreachable:
    text, hint = plain_text(error), CHECK_HINT
    is_end = isinstance(error, IncompleteRead | RemoteDisconnected)
    if isinstance(error, IncompleteRead):
        text = "a truncated answer"
    elif isinstance(error, BadStatusLine) and not is_end:
        if str(error).startswith(TLS_RECORDS):
            return plain_http_error("not HTTP")
        text = f"not HTTP: {foreign_phrase(http.ANSWER, str(error))}"
        hint = "check the port and scheme of the URL"
    elif isinstance(error, MalformedBody | zlib.error):
        text, hint = f"malformed body: {str(error).lower()}", _MALFORMED_HINT
    elif isinstance(error, HTTPException) and not is_end:
        text, hint = f"malformed head: {str(error).lower()}", _MALFORMED_HINT
    kind = Cut if connected else Unreachable
    return kind(f"{text} ({hint})", retryable=True, sent=connected)


def unsupported_encoding(encoding: str) -> Unreachable:
    text = f"a body in the encoding {encoding[:40]!r}, which is not supported"
    return Cut(f"{text} (configure the service or its proxy to send gzip or plain JSON)")


def causes_of(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, the root cause last; a SchedulerError is not a cause."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        inner = [getattr(cause, "reason", None), *cause.args]
        wrapped = [item for item in inner if isinstance(item, BaseException)]
        context = cause.__context__
        if cause.__suppress_context__ or isinstance(context, SchedulerError):
            context = None
        cause = wrapped[-1] if wrapped else cause.__cause__ or context
    return causes


def shut(sock: Any) -> None:
    """Shut a socket down, even if threads wait for it."""
    with contextlib.suppress(OSError):  # already closed
        getattr(sock, "socket", sock).shutdown(socket.SHUT_RDWR)  # TLS in TLS: the outer socket
