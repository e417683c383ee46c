# SPDX-License-Identifier: Apache-2.0
"""HTTP to one pod manager, of the standard library alone: lines that stay open between requests.

Sites of hundreds of pod managers are read through these. What fails below HTTP becomes an
``Unreachable`` at once; nothing here sends a request a second time.
"""

from __future__ import annotations

import logging
import re
import selectors
import socket
import zlib
from collections.abc import Mapping
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import cast
from urllib.parse import urlsplit

from valence_sched.drivers.http.answer import Answer
from valence_sched.drivers.http.errors import TlsContexts, shut, unreachable_error

LOG = logging.getLogger(__name__)

#: A path that can be sent as it is.
_PLAIN = re.compile(r"[A-Za-z0-9!#$&'()*+,/:;=?@\[\]~._-]*")
#: One that takes no file of its own to be made, where there is one.
_Selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)
_PORTS = {"https": 443, "http": 80}
#: How a body may come although none but a plain one is asked for, and what zlib calls both.
_PACKED, _GZIP_OR_ZLIB = ("gzip", "x-gzip", "deflate"), 47


class StdlibTransport:
    """The lines to one host. Threads may share them: each request has one to itself.

    ``verify`` is whether to verify who answers, or a file of authorities to do it by.

    Raises:
        Unreachable: the authorities cannot be read.
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

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        timeout_s: float,
        most: int,
        body: bytes | None = None,
    ) -> Answer:
        """Send one request, once; of a body of more than ``most`` bytes one byte more is read.

        Raises:
            Unreachable: no answer came, or not all of it.
        """
        idle = self._idle
        line = self._take_idle(timeout_s) or self._connect(timeout_s)
        try:
            line.request(method, _quote_path(path), body, headers)
            response = line.getresponse()
            content = response.read(most + 1)
            if len(content) <= most and response.length:
                raise IncompleteRead(content, response.length)
            content = _decompress(response, content, most)
        except (HTTPException, OSError, ValueError, zlib.error) as error:
            self._drop(line)
            raise unreachable_error(error) from None
        size, status = len(content), response.status
        LOG.debug('%s "%s %s HTTP/1.1" %d, %d bytes', self._url, method, path, status, size)
        if response.isclosed() and not response.will_close and idle is self._idle:
            idle.append(line)
        else:
            response.close()
            self._drop(line)
        return Answer(status, cast("Mapping[str, str]", response.headers), content)

    def cut(self) -> None:
        """End every request that is under way, whoever waits for it; later ones get new lines."""
        idle, self._idle = self._idle, []
        socks = list(self._open.values())  # before any ends: who then wakes may open a new line
        for sock in socks:
            shut(sock)
        for line in idle:
            self._drop(line)

    def close(self) -> None:
        """Hang up."""
        while self._idle:
            self._drop(self._idle.pop())

    def _take_idle(self, timeout_s: float) -> HTTPConnection | None:
        """Return a line that is open and free, None if there is none."""
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _is_readable(line.sock):
                line.sock.settimeout(timeout_s)
                return line
            self._drop(line)  # its end, for nothing is due
        return None

    def _connect(self, timeout_s: float) -> HTTPConnection:
        if self._context is None:
            line = HTTPConnection(self._host, self._port, timeout_s)
        else:
            line = HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
        try:
            line.connect()
        except (OSError, ValueError) as error:
            connected = line.sock is not None
            line.close()
            raise unreachable_error(error, connected=connected) from None
        self._open[line] = line.sock
        return line

    def _drop(self, line: HTTPConnection) -> None:
        self._open.pop(line, None)
        line.close()


def _is_readable(sock: socket.socket) -> bool:
    with _Selector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _quote_path(path: str) -> str:
    """Return a path as it can be sent."""
    if _PLAIN.fullmatch(path):
        return path
    from requests.utils import requote_uri

    return requote_uri(path)


def _decompress(response: HTTPResponse, content: bytes, most: int) -> bytes:
    """Return a body as it was before a server packed it, not more than one byte too many."""
    if (response.getheader("Content-Encoding") or "").lower() not in _PACKED:
        return content
    return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(content, most + 1)
