# SPDX-License-Identifier: Apache-2.0
"""HTTP transport over sockets of the standard library, which stay open between requests.

Sites of hundreds of pod managers are read through it. What fails below HTTP becomes an
``Unreachable`` at once; nothing here sends a request a second time.
"""

from __future__ import annotations

import functools
import logging
import re
import select
import selectors
import socket
import ssl
import zlib
from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import urlsplit

import msgspec

from valence_sched.drivers.http.exchange import Answer, PodmRequest, Unreachable
from valence_sched.drivers.http.response import Headers, Response
from valence_sched.drivers.http.tls import (
    TlsContexts,
    keep_alive,
    late_alert,
    plain_http_error,
    shut,
    speaks_tls,
    tls_error,
    unreachable_error,
    unsupported_encoding,
)
from valence_sched.model.tls import ClientCertificate

LOG = logging.getLogger(__name__)

#: A path that can be sent as it is.
_PLAIN = re.compile(r"[A-Za-z0-9!#$&'()*+,/:;=?@\[\]~._-]*")
_PORTS = {"https": 443, "http": 80}
#: Encodings in which a body may come although only a plain one is asked for; zlib's code for both.
_PACKED, _GZIP_OR_ZLIB = ("gzip", "x-gzip", "deflate"), 47
_PLAIN_ENCODINGS = ("", "identity")
BAD_REQUEST = 400
#: Requests that tell the length of their body also where they have none.
_WITH_BODY = ("POST", "PUT", "PATCH")


class StdlibTransport:
    """The connections to one host. Threads may share them: each request has one to itself.

    Making it raises Unreachable when the authorities of ``verify``, or the client certificate,
    cannot be read.
    """

    def __init__(
        self,
        url: str,
        verify: bool | str,
        trust: TlsContexts,
        certificate: ClientCertificate | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host, usual = parts.hostname or "", _PORTS.get(parts.scheme, 0)
        self._port = parts.port or usual
        shown = f"[{self._host}]" if ":" in self._host else _ascii(self._host)
        self._host_header = shown if self._port == usual else f"{shown}:{self._port}"
        try:
            is_secure = parts.scheme == "https"
            self._context = trust.for_verify(verify, certificate) if is_secure else None
        except OSError as error:
            raise unreachable_error(error) from None
        self._is_untried = True  # no answer yet, and not cut
        self._idle: list[socket.socket] = []
        self._open: set[socket.socket] = set()

    def ask(self, request: PodmRequest) -> Answer:
        request.check_headers()
        idle = self._idle
        sock = self._take_idle(request.timeout_s) or self._connect(request.timeout_s)
        try:
            sock.sendall(self._encode(request))
            response = Response(sock.recv, request.method)
            body = _decompress(response, response.read(request.most), request.most)
        except (HTTPException, OSError, ValueError, zlib.error) as error:
            self._drop(sock)
            raise self._failure(error, request.timeout_s) from None
        if response.status == BAD_REQUEST and self._is_asked_without_tls(request.timeout_s):
            self._drop(sock)
            raise plain_http_error(f"HTTP {BAD_REQUEST}")
        self._is_untried = False
        if response.is_reusable and idle is self._idle:
            idle.append(sock)
        else:
            self._drop(sock)
        method, path, status = request.method, request.path, response.status
        LOG.debug('%s "%s %s HTTP/1.1" %d, %d bytes', self._url, method, path, status, len(body))
        return Answer(status, response.headers, body)

    def open_stream(self, request: PodmRequest) -> AnswerStream:
        """Send one request, once, and return its answer before the body; errors as for ask.

        Its connection is for this request alone.
        """
        request.check_headers()
        sock = self._connect(request.timeout_s)
        keep_alive(sock)
        try:
            sock.sendall(self._encode(request))
            response = Response(sock.recv, request.method)
        except (HTTPException, OSError, ValueError) as error:
            self._drop(sock)
            raise unreachable_error(error) from None
        return AnswerStream(response, sock, functools.partial(self._drop, sock))

    def cut(self) -> None:
        idle, self._idle, self._is_untried = self._idle, [], False
        # All are listed before any ends: a thread that wakes then may open another.
        for sock in list(self._open):
            shut(sock)
        for sock in idle:
            self._drop(sock)

    def close(self) -> None:
        while self._idle:
            self._drop(self._idle.pop())

    def _encode(self, request: PodmRequest) -> bytes:
        """Return the bytes of a request, whose headers can be sent."""
        method, path, headers, _, _, body = request
        data = b"" if body is None else msgspec.json.encode(body)
        lines = [f"{method} {_quote_path(path) or '/'} HTTP/1.1", f"Host: {self._host_header}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if data or method in _WITH_BODY:
            lines.append(f"Content-Length: {len(data)}")
        return "\r\n".join((*lines, "", "")).encode("latin-1") + data

    def _failure(self, error: BaseException, timeout_s: float) -> Unreachable:
        """Return what an error means; of a first answer that does not come TLS may tell why."""
        if not isinstance(error, ConnectionError | ssl.SSLEOFError) or not self._is_untried:
            return unreachable_error(error)
        if self._is_asked_without_tls(timeout_s):
            return plain_http_error("no answer")
        address, context = (self._host, self._port), self._context
        alert = late_alert(address, context, timeout_s) if context else None
        return unreachable_error(error) if alert is None else tls_error(alert)

    def _is_asked_without_tls(self, timeout_s: float) -> bool:
        """Return whether a port that has not answered yet speaks TLS, and its URL does not say so.

        Some close the connection without a word then, some answer 400.
        """
        if self._context is not None or not self._is_untried:
            return False
        return speaks_tls((self._host, self._port), timeout_s)

    def _take_idle(self, timeout_s: float) -> socket.socket | None:
        """Return a connection that is open and free, None if there is none."""
        while self._idle:
            try:
                sock = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _is_readable(sock):
                sock.settimeout(timeout_s)
                return sock
            self._drop(sock)  # its end, for nothing is due
        return None

    def _connect(self, timeout_s: float) -> socket.socket:
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection((self._host, self._port), timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_hostname=self._host)
        except (OSError, ValueError) as error:
            if sock is not None:
                sock.close()
            raise unreachable_error(error, connected=sock is not None) from None
        self._open.add(sock)
        return sock

    def _drop(self, sock: socket.socket) -> None:
        self._open.discard(sock)
        sock.close()


class AnswerStream:
    """An answer whose body is read as it comes; close ends it, also for a thread that waits."""

    def __init__(self, response: Response, sock: socket.socket, drop: Callable[[], None]) -> None:
        self._response, self._socket, self._drop = response, sock, drop

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    def read(self, quiet_s: float) -> bytes:
        """Return the bytes that have come, empty at the end; Unreachable after ``quiet_s``."""
        try:
            self._socket.settimeout(quiet_s)
            return self._response.read_piece()
        except (HTTPException, OSError) as error:
            raise unreachable_error(error) from None

    def close(self) -> None:
        shut(self._socket)
        self._drop()


def _is_readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):  # it needs no file descriptor of its own, and costs little
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _quote_path(path: str) -> str:
    if _PLAIN.fullmatch(path):
        return path
    from requests.utils import requote_uri

    return requote_uri(path)


def _ascii(host: str) -> str:
    """Return a host as a header has it; one that has no such form cannot be connected to."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def _decompress(response: Response, content: bytes, most: int) -> bytes:
    """Return a body as it was before a server packed it, not more than one byte too many."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _PLAIN_ENCODINGS:
        return content
    if encoding not in _PACKED:
        raise unsupported_encoding(encoding)
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(content, most + 1)
    except zlib.error:
        if encoding == "deflate" and _is_raw_deflate(content):
            raise unsupported_encoding("deflate without a zlib header") from None
        raise


def _is_raw_deflate(content: bytes) -> bool:
    try:
        return bool(zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, 1))
    except zlib.error:
        return False
