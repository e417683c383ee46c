# SPDX-License-Identifier: Apache-2.0
"""BufferedWorker: a worker whose threads get requests that have arrived, and none that is to come.

Gunicorn gives a connection to a thread, which then waits for the request: as many slow clients as
there are threads would keep all others away. Here one loop collects the bytes of all connections.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import selectors
import socket
import ssl
import struct
import time
from collections import deque
from typing import Any, NamedTuple

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http import get_parser  # type: ignore[import-untyped]
from gunicorn.sock import ssl_wrap_socket  # type: ignore[import-untyped]
from gunicorn.workers import gthread  # type: ignore[import-untyped]

from valence_sched.server.arrival import Arrival

RECEIVE_BYTES = 64 << 10
COALESCED_BYTES = 64 << 10  # of a body that leaves together with its head
TURN_BYTES = 1 << 20  # of one connection before the others have their turn
MOST_WAITING_BYTES = 64 << 20  # of all connections together
LINGER_S = 2.0  # how long a client has to read its last answer and close
MOST_LINGERING = 256

_NO_CLIENT = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BufferedConnection(gthread.TConn):  # type: ignore[misc]
    """A connection, what came of its next request, and the worker that waits for it."""

    def __init__(self, worker: BufferedWorker, sock: Any, client: Any, server: Any) -> None:
        super().__init__(worker.cfg, sock, client, server)
        self.worker = worker
        self.arrival = Arrival(worker.most_body_bytes)
        self.parser = get_parser(worker.cfg, sock, client)
        self.initialized = self.data_ready = True
        self.linger_bytes = 0

    def close(self, graceful: bool = False) -> None:
        """Close it; a client that is to read an answer may take a while, and keeps nobody."""
        if graceful:
            self.worker.linger(self)
        else:
            super().close()


class ResponseSocket:
    """A socket that sends the head of an answer with the first bytes of its body.

    A client that gets them one after the other is woken twice, and so is its server.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._head: bytes | None = None  # b"" once it was sent

    def sendall(self, data: bytes) -> None:
        """Send some bytes of an answer, the first of them with the next ones."""
        if self._head is None:
            self._head = data
        elif len(data) <= COALESCED_BYTES:
            head, self._head = self._head, b""
            self._sock.sendall(head + data if head else data)
        else:
            self.flush()
            self._sock.sendall(data)

    def flush(self) -> None:
        """Send the head, if it was not: an answer may have no body."""
        if self._head:
            head, self._head = self._head, b""
            self._sock.sendall(head)

    def __getattr__(self, name: str) -> Any:
        self.flush()  # what else is done with the socket comes after its head
        return getattr(self._sock, name)


class ResponseConnection(NamedTuple):
    """What gunicorn takes of a connection to answer a request."""

    sock: ResponseSocket
    client: Any
    server: Any


class BufferedWorker(gthread.ThreadWorker):  # type: ignore[misc]
    """Collects requests in its loop; its threads answer those that are whole.

    A request that has not arrived after ``read_s`` is dropped with its connection, and so is an
    answer of which a client takes nothing for so long.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        limits = self.app.limits
        self.read_s, self.most_body_bytes = limits.read_s, limits.body_bytes
        self._waiting_bytes = 0
        self._lingering: deque[tuple[float, BufferedConnection]] = deque()
        self._stop_at: float | None = None

    def accept(self, listener: Any) -> None:
        """Accept a connection, and wait for its request."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno not in _NO_CLIENT:
                raise
            return
        pause = struct.pack("ll", int(self.read_s) or 1, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pause)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pause)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.cfg.is_ssl:
            sock.setblocking(False)
            sock = ssl_wrap_socket(sock, self.cfg)
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections and self.pending_conns:
            self._drop_oldest()
        self._wait_for_request(BufferedConnection(self, sock, client, listener.getsockname()))

    def on_client_socket_readable(self, conn: BufferedConnection, client: Any) -> None:
        """Begin with the next request of a connection."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._wait_for_request(conn)

    def handle_request(self, req: Any, conn: BufferedConnection) -> bool:
        """Answer a request; return whether its connection may have another one."""
        sock = ResponseSocket(conn.sock)
        try:
            response = ResponseConnection(sock, conn.client, conn.server)
            return bool(super().handle_request(req, response))
        finally:
            sock.flush()

    def enqueue_req(self, conn: BufferedConnection) -> None:
        """Take a connection that has some bytes of its next request already."""
        self._wait_for_request(conn)

    def murder_pending(self) -> None:
        """Drop the connections whose time is over."""
        now = time.monotonic()
        if not self.alive and self._stop_at is None:
            self._stop_at = now + gthread.STOP_KEEPALIVE_LINGER
        stop_at = self._stop_at or float("inf")
        while self.pending_conns and min(self.pending_conns[0].timeout, stop_at) <= now:
            self._drop_oldest()
        while self._lingering and self._lingering[0][0] <= now:
            self._drop_lingering(self._lingering[0][1])

    def linger(self, conn: BufferedConnection) -> None:
        """End what is sent to a client, and wait in the loop until it closes."""
        with contextlib.suppress(OSError):
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            if self.alive and len(self._lingering) < MOST_LINGERING:
                self.poller.register(conn.sock, selectors.EVENT_READ,
                                     functools.partial(self._discard, conn))  # fmt: skip
                self._lingering.append((time.monotonic() + LINGER_S, conn))
                return
        util.close(conn.sock)

    def _wait_for_request(self, conn: BufferedConnection) -> None:
        """Give a connection to a thread if its request is there, and to the poller if not."""
        conn.arrival = Arrival(self.most_body_bytes)
        conn.timeout = time.monotonic() + self.read_s
        conn.sock.setblocking(False)
        self._take(conn, conn.parser.unreader.take_buffered())
        if self._receive(conn):
            return
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self._arrive, conn))

    def _arrive(self, conn: BufferedConnection, client: Any) -> None:
        """Take what came of a request that was waited for."""
        self.poller.unregister(client)
        if self._receive(conn):
            self.pending_conns.remove(conn)
        else:
            self.poller.register(client, selectors.EVENT_READ,
                                 functools.partial(self._arrive, conn))  # fmt: skip

    def _receive(self, conn: BufferedConnection) -> bool:
        """Receive what is there; return whether the connection needs no more waiting."""
        came = 0
        while not conn.arrival.is_whole():
            if conn.arrival.is_head_too_large:
                return self._refuse(conn, 431, "Request Header Fields Too Large")
            if conn.arrival.has_unknown_coding:  # whatever of it came: RFC 9112, section 6.1
                return self._refuse(conn, 501, "Not Implemented")
            if conn.arrival.is_malformed:
                return self._refuse(conn, 400, "Bad Request")
            if conn.arrival.is_mostly_framing:
                return self._refuse(conn, 413, "Content Too Large")
            if self._waiting_bytes > MOST_WAITING_BYTES:
                return self._refuse(conn, 503, "Service Unavailable")
            if came >= TURN_BYTES and not (self.cfg.is_ssl and conn.sock.pending()):
                return False
            try:
                data = conn.sock.recv(RECEIVE_BYTES)
            except _LATER:
                return False
            except OSError:
                data = b""
            if not data:
                return self._drop(conn)
            came += len(data)
            self._take(conn, data)
        self._forget_bytes(conn)
        conn.parser.unreader.unread(bytes(conn.arrival.data))
        super().enqueue_req(conn)
        return True

    def _take(self, conn: BufferedConnection, data: bytes) -> None:
        conn.arrival.add(data)
        self._waiting_bytes += len(data)
        if conn.arrival.waits_for_continue and not conn.arrival.is_whole():
            conn.arrival.waits_for_continue = False
            with contextlib.suppress(OSError):  # its reading tells of a connection that is gone
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _forget_bytes(self, conn: BufferedConnection) -> None:
        self._waiting_bytes -= len(conn.arrival.data)

    def _refuse(self, conn: BufferedConnection, status: int, reason: str) -> bool:
        self._forget_bytes(conn)
        self.nr_conns -= 1
        with contextlib.suppress(OSError):
            conn.sock.send(f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\n"
                           "Content-Length: 0\r\n\r\n".encode())  # fmt: skip
        util.close(conn.sock)
        return True

    def _drop(self, conn: BufferedConnection) -> bool:
        self._forget_bytes(conn)
        self.nr_conns -= 1
        util.close(conn.sock)
        return True

    def _drop_oldest(self) -> None:
        conn = self.pending_conns.popleft()
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self._drop(conn)

    def _discard(self, conn: BufferedConnection, _client: Any) -> None:
        """Read what a client still sends after its last answer, until it closes."""
        try:
            data = conn.sock.recv(RECEIVE_BYTES)
        except _LATER:
            return
        except OSError:
            data = b""
        conn.linger_bytes += len(data)
        if not data or conn.linger_bytes > TURN_BYTES:
            self._drop_lingering(conn)

    def _drop_lingering(self, conn: BufferedConnection) -> None:
        self._lingering = deque(entry for entry in self._lingering if entry[1] is not conn)
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        util.close(conn.sock)

    def _keepalive_after(self, conn: BufferedConnection, keepalive: bool) -> bool:
        """Return whether a connection may have another request: not where one was left unread."""
        return conn.arrival.is_complete and bool(super()._keepalive_after(conn, keepalive))
