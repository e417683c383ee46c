# SPDX-License-Identifier: Apache-2.0
"""TLS contexts, and what an error of a socket, of TLS or of HTTP means for a request.

What fails below HTTP becomes an :class:`Unreachable` at once, so that nothing above sends a
request a second time.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import threading
import zlib
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any

from valence_sched.drivers.http.exchange import Cut, MalformedBody, Slow, Unreachable
from valence_sched.model.foreign_text import answer_of

#: The frame that OpenSSL puts around its messages, and its messages about an answer without TLS.
_OPENSSL = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")
CHECK_HINT = "check that it runs and that the URL is right"
_PORT_HINT = "is it this port, and not https?"
_MALFORMED_HINT = "report it to the vendor of the service, or of a proxy before it"
#: What to do about a certificate, by the code of OpenSSL for what is wrong with it; else it is its
#: authority that is not known.
_EXPIRED, _NOT_YET_VALID, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
_UNCHECKED = "; --insecure reads it unchecked"
_AUTHORITY_HINT = "name its authority with --cacert"
_CERTIFICATE_HINTS = {
    _EXPIRED: "renew the certificate, and check the clock here",
    _NOT_YET_VALID: "check the clocks there and here",
    _OTHER_HOST: "write a host in the URL that the certificate names",
    _OTHER_ADDRESS: "write a host in the URL that the certificate names",
}
_NO_TLS = ("wrong version number", "http request", "packet length too long")


class TlsContexts:
    """The TLS contexts by their authorities, each made once: that costs more than a request."""

    def __init__(self) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def for_verify(self, verify: bool | str) -> ssl.SSLContext:
        """Return the context for authorities: the usual, those of a path, none; may be OSError."""
        if verify is not True:
            return self.for_authorities(verify or "")
        from requests.utils import DEFAULT_CA_BUNDLE_PATH

        return self.for_authorities(DEFAULT_CA_BUNDLE_PATH)

    def for_authorities(self, authorities: str) -> ssl.SSLContext:
        """Return the context of a file or folder of authorities; without one, of none."""
        with self._lock:
            if authorities not in self._contexts:
                self._contexts[authorities] = _context(authorities)
            return self._contexts[authorities]


def _context(authorities: str) -> ssl.SSLContext:
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
    reason = _plain(error)
    hint = "does it speak HTTP without TLS there?"
    if reason not in _NO_TLS:
        code = getattr(error, "verify_code", 0)
        hint = _CERTIFICATE_HINTS.get(code, _AUTHORITY_HINT) + _UNCHECKED
    return Unreachable(f"TLS: {reason} ({hint})", sent=False)


def timeout_error(*, connected: bool) -> Slow:
    """Return that the answer, or even the connection, did not come in time."""
    if connected:
        return Slow("no answer in time (allow it more with --request-timeout)")
    return Slow(f"no connection in time ({CHECK_HINT})", sent=False)


def connection_error(error: BaseException, *, connected: bool) -> Unreachable:
    """Return that a connection ended too early, or could not be made."""
    text, hint = _plain(error), CHECK_HINT
    if _is_other_protocol(error):
        text, hint = f"no HTTP: {answer_of(str(error))}", _PORT_HINT
    elif what := _malformed(error):
        text, hint = f"{what}: {str(error).lower()}", _MALFORMED_HINT
    kind = Cut if connected else Unreachable
    return kind(f"{text} ({hint})", retryable=True, sent=connected)


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


def _is_other_protocol(error: BaseException) -> bool:
    """Return whether the first line of an answer is not one of HTTP."""
    return isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected)


def _malformed(error: BaseException) -> str:
    """Return which part of an answer of HTTP breaks its rules, empty where none does."""
    if isinstance(error, MalformedBody | zlib.error):
        return "malformed body"
    ended = isinstance(error, IncompleteRead | RemoteDisconnected)
    return "malformed head" if isinstance(error, HTTPException) and not ended else ""


def _plain(error: BaseException) -> str:
    """Return the text of an error, without the objects that some libraries print."""
    if isinstance(error, IncompleteRead):
        return "an answer that ends too early"
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    verify = getattr(error, "verify_message", None)
    said = str(verify or text.rpartition("object at 0x")[2] or text)
    return _OPENSSL.sub("", said.lower()).removesuffix(".")


def keep_alive(sock: socket.socket) -> None:
    """Let the system probe a connection that is quiet: a peer that is gone ends it in minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def shut(sock: Any) -> None:
    """End sending and receiving, also for threads that wait for it."""
    with contextlib.suppress(OSError):  # it may be closed already
        sock.shutdown(socket.SHUT_RDWR)
