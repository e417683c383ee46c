# SPDX-License-Identifier: Apache-2.0
"""A server that sends given bytes, and the transport of the standard library to it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from unittest import TestCase

from valence_sched.drivers.http.exchange import PodmRequest, TlsContexts
from valence_sched.drivers.http.stdlib_transport import StdlibTransport


def answer(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """Return the bytes of an answer; ``length`` is its claimed length."""
    head = ("HTTP/1.1 200 OK", f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


class ServedBytes(TestCase):
    """``received`` has the bytes before each answer; ``closed`` is set as each connection ends."""

    def serve(
        self,
        *connections: list[bytes],
        tls: ssl.SSLContext | None = None,
        verify: bool | str = True,
    ) -> StdlibTransport:
        """Serve each connection its answers, then close it."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.received: list[bytes] = []
        self.closed = [threading.Event() for _ in connections]

        def run() -> None:
            for answers, closed in zip(connections, self.closed, strict=True):
                with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                    sock = stack.enter_context(listener.accept()[0])
                    if tls:
                        sock = stack.enter_context(tls.wrap_socket(sock, server_side=True))
                    for one in answers:
                        self.received.append(sock.recv(1 << 16))
                        sock.sendall(one)
                closed.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.port = listener.getsockname()[1]
        url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        transport = StdlibTransport(url, verify, TlsContexts())
        self.addCleanup(thread.join, 5)
        self.addCleanup(transport.close)
        return transport

    def ask(
        self, transport: StdlibTransport, path: str = "/a", most: int = 1000, timeout_s: float = 5
    ) -> bytes:
        request = PodmRequest("GET", path, {"Accept": "*/*"}, timeout_s, most)
        return transport.ask(request).body
