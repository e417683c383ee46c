# SPDX-License-Identifier: Apache-2.0
"""HTTP transport of the standard library: connections kept open between requests.

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
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import cast
from urllib.parse import urlsplit

import msgspec

from valence_sched.drivers.http.exchange import Answer, PodmRequest
from valence_sched.drivers.http.tls import (
    TlsContexts,
    connection_error,
    keep_alive,
    shut,
    unreachable_error,
)

LOG = logging.getLogger(__name__)

#: A path that can be sent as it is.
_PLAIN = re.compile(r"[A-Za-z0-9!#$&'()*+,/:;=?@\[\]~._-]*")
_PORTS = {"https": 443, "http": 80}
#: Encodings in which a body may come although only a plain one is asked for; zlib's code for both.
_PACKED, _GZIP_OR_ZLIB = ("gzip", "x-gzip", "deflate"), 47


class StdlibTransport:
    """The connections to one host. Threads may share them: each request has one to itself.

    Making it raises Unreachable when the authorities of ``verify`` cannot be read.
    """

    def __init__(self, url: str, verify: bool | str, trust: TlsContexts) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        # Without a port http.client takes the end of an IPv6 address for one.
        self._port = parts.port or _PORTS.get(parts.scheme)
        try:
            self._context = trust.for_verify(verify) if parts.scheme == "https" else None
        except OSError as error:
            raise unreachable_error(error) from None
        self._idle: list[HTTPConnection] = []
        self._open: dict[HTTPConnection, socket.socket] = {}

    def ask(self, request: PodmRequest) -> Answer:
        method, path, headers, timeout_s, most, body = request
        data = None if body is None else msgspec.json.encode(body)
        idle = self._idle
        connection = self._take_idle(timeout_s) or self._connect(timeout_s)
        try:
            connection.request(method, _quote_path(path), data, headers)
            response = connection.getresponse()
            content = response.read(most + 1)
            if len(content) <= most and response.length:
                raise IncompleteRead(content, response.length)
            content = _decompress(response, content, most)
        except (HTTPException, OSError, ValueError, zlib.error) as error:
            self._drop(connection)
            raise unreachable_error(error) from None
        size, status = len(content), response.status
        LOG.debug('%s "%s %s HTTP/1.1" %d, %d bytes', self._url, method, path, status, size)
        if response.isclosed() and not response.will_close and idle is self._idle:
            idle.append(connection)
        else:
            response.close()
            self._drop(connection)
        return Answer(status, cast("Mapping[str, str]", response.headers), content)

    def open_stream(self, request: PodmRequest) -> AnswerStream:
        """Send one request, once, and return its answer before the body; errors as for ask.

        Its connection is for this request alone.
        """
        connection = self._connect(request.timeout_s)
        sock = connection.sock  # an answer without a length takes it from the connection
        keep_alive(sock)
        try:
            connection.request(
                request.method, _quote_path(request.path), headers=dict(request.headers)
            )
            response = connection.getresponse()
        except (HTTPException, OSError, ValueError) as error:
            self._drop(connection)
            raise unreachable_error(error) from None
        drop = functools.partial(self._drop, connection)
        return AnswerStream(response, sock, drop)

    def cut(self) -> None:
        idle, self._idle = self._idle, []
        # All are listed before any ends: a thread that wakes then may open another.
        for sock in list(self._open.values()):
            shut(sock)
        for connection in idle:
            self._drop(connection)

    def close(self) -> None:
        while self._idle:
            self._drop(self._idle.pop())

    def _take_idle(self, timeout_s: float) -> HTTPConnection | None:
        """Return a connection that is open and free, None if there is none."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _is_readable(connection.sock):
                connection.sock.settimeout(timeout_s)
                return connection
            self._drop(connection)  # its end, for nothing is due
        return None

    def _connect(self, timeout_s: float) -> HTTPConnection:
        host, port, context = self._host, self._port, self._context
        if context is None:
            connection = HTTPConnection(host, port, timeout_s)
        else:
            connection = HTTPSConnection(host, port, timeout=timeout_s, context=context)
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            connected = connection.sock is not None
            connection.close()
            raise unreachable_error(error, connected=connected) from None
        self._open[connection] = connection.sock
        return connection

    def _drop(self, connection: HTTPConnection) -> None:
        self._open.pop(connection, None)
        connection.close()


class AnswerStream:
    """An answer whose body is read as it comes; close ends it, also for a thread that waits."""

    def __init__(
        self, response: HTTPResponse, sock: socket.socket, drop: Callable[[], None]
    ) -> None:
        self._response, self._socket, self._drop = response, sock, drop

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return cast("Mapping[str, str]", self._response.headers)

    def read(self, quiet_s: float, most: int = 1 << 16) -> bytes:
        """Return the bytes that have come, empty at the end; Unreachable after ``quiet_s``."""
        try:
            self._socket.settimeout(quiet_s)
            return self._response.read1(most)
        except (HTTPException, ValueError):  # of a chunk that is not whole
            raise connection_error(IncompleteRead(b""), connected=True) from None
        except OSError as error:
            raise unreachable_error(error) from None

    def close(self) -> None:
        self._response.close()
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


def _decompress(response: HTTPResponse, content: bytes, most: int) -> bytes:
    """Return a body as it was before a server packed it, not more than one byte too many."""
    if (response.getheader("Content-Encoding") or "").lower() not in _PACKED:
        return content
    return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(content, most + 1)
