# SPDX-License-Identifier: Apache-2.0
"""A proxy to a database server that counts round trips, and can act as if the server were down."""

import contextlib
import socket
import threading

import sqlalchemy as sa

from valence_sched.store.database import StoreUrl


class Proxy:
    """Listens on loopback and forwards bytes to a server; a context manager."""

    def __init__(self, url: str) -> None:
        self._target = StoreUrl(url).url
        self._sockets: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._port = 0
        self.round_trips = 0  # of all connections: how often a client waited for the server
        self.accept()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_error: object) -> None:
        self.refuse()

    @property
    def url(self) -> str:
        changed: sa.URL = self._target.set(host="127.0.0.1", port=self._port)
        return changed.render_as_string(hide_password=False)

    def accept(self) -> None:
        """Accept connections from now on."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(50)
        self._listener, self._port = listener, listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def refuse(self) -> None:
        """Cut all connections, and refuse new ones."""
        cut, self._sockets = self._sockets, []
        for one in (self._listener, *cut):
            if one is not None:
                with contextlib.suppress(OSError):  # its other end is closed
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._listener = None

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                ours, _ = listener.accept()
            except OSError:
                return
            default = {"postgresql": 5432}.get(self._target.get_backend_name(), 3306)
            address = (self._target.host or "127.0.0.1", self._target.port or default)
            theirs = socket.create_connection(address)
            self._sockets += [ours, theirs]
            waiting = threading.Event()
            for source, sink in ((ours, theirs), (theirs, ours)):
                words = source, sink, waiting, source is ours
                threading.Thread(target=self._pass_on, args=words, daemon=True).start()

    def _pass_on(
        self, source: socket.socket, sink: socket.socket, waiting: threading.Event, asks: bool
    ) -> None:
        """Forward the bytes of one side; a request in several pieces counts once."""
        with contextlib.suppress(OSError):  # the test has cut it
            while data := source.recv(65536):
                if asks and not waiting.is_set():
                    self.round_trips += 1
                    waiting.set()
                elif not asks:
                    waiting.clear()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
