# SPDX-License-Identifier: Apache-2.0
"""CutLink: a connection between two zones that a test cuts, immediately or during a call."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal
from urllib.parse import urlsplit

#: ``drop`` accepts connections and bytes and forwards nothing; ``close`` accepts no connection.
Cut = Literal["drop", "close"]


class CutLink:
    """Forwards TCP to the service at ``target`` until it is cut, and again after it is mended."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        assert parts.hostname is not None, target
        self._target = parts.hostname, parts.port or 80
        self._lock = threading.Lock()
        self._cut: Cut | None = None
        self._planned: tuple[bytes, Cut] | None = None
        self._asked = False
        self._open: set[socket.socket] = set()
        self._listener = self._listening(0)
        self._port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        self.happened = threading.Event()

    def cut(self, how: Cut) -> None:
        """Cut the link now."""
        with self._lock:
            self._cut_now(how)

    def cut_answer(self, request: bytes, how: Cut) -> None:
        """Cut the link when the service answers the next request with this beginning.

        The service has then performed the request, and its answer is lost.
        """
        with self._lock:
            self._planned, self._asked = (request, how), False

    def mend(self) -> None:
        """Forward new connections again; the cut connections are closed."""
        with self._lock:
            was, self._cut = self._cut, None
            self._close_open()
            if was == "close":
                self._listener = self._listening(self._port)

    def close(self) -> None:
        """Close the link and all its connections."""
        with self._lock:
            self._cut_now("close")

    def _listening(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # it was closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
            cut = self._cut
        with client, contextlib.suppress(OSError):
            if cut:
                while client.recv(1 << 16):
                    pass
                return
            with socket.create_connection(self._target) as service:
                with self._lock:
                    self._open.add(service)
                answers = threading.Thread(
                    target=self._forward, args=(service, client, True), daemon=True
                )
                answers.start()
                self._forward(client, service, False)
                answers.join()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._passes(data, answers):
                    sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _passes(self, data: bytes, answers: bool) -> bool:
        """Return whether bytes are forwarded; cut the link if this is planned for them."""
        with self._lock:
            if self._planned is not None:
                request, how = self._planned
                if answers and self._asked:
                    self._cut_now(how)
                elif not answers and data.startswith(request):
                    self._asked = True
            return self._cut is None

    def _cut_now(self, how: Cut) -> None:
        self._cut, self._planned = how, None
        if how == "close":
            # until shutdown, a thread in accept keeps a socket listening
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._close_open()
        self.happened.set()

    def _close_open(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()
