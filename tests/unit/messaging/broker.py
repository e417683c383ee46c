# SPDX-License-Identifier: Apache-2.0
"""A real RabbitMQ for tests, and a forwarding port to it that can be cut."""

import contextlib
import os
import socket
import threading
import unittest
import uuid
from urllib.parse import urlsplit

BROKER = os.environ.get("VALENCE_SCHED_TEST_RABBITMQ", "rabbit://guest:guest@127.0.0.1:5672/")
HOW = (
    "start RabbitMQ on 127.0.0.1:5672 with its account guest, or name one in "
    "VALENCE_SCHED_TEST_RABBITMQ"
)


class BrokerCase(unittest.TestCase):
    """A test case with the URL of a broker, and a topic of its own."""

    def setUp(self):
        parts = urlsplit(BROKER)
        self.url, self.topic = BROKER, f"vs-test-{uuid.uuid4().hex[:12]}"
        self.address = (parts.hostname, parts.port or 5672)
        try:
            import oslo_messaging  # noqa: F401

            socket.create_connection(self.address, 5).close()
        except (OSError, ModuleNotFoundError) as error:
            if os.environ.get("VALENCE_SCHED_REQUIRE_ENGINES"):
                self.fail(f"RabbitMQ does not answer ({error}): {HOW}")
            self.skipTest(f"RabbitMQ does not answer ({error}): {HOW}")

    def way(self):
        """Return a forwarding port to the broker that a test can cut, and its URL."""
        way = Way(self.address)
        self.addCleanup(way.close)
        parts = urlsplit(BROKER)
        user = parts.netloc.rpartition("@")[0]
        return way, f"rabbit://{user}@127.0.0.1:{way.port}{parts.path}"


class Way:
    """Forwards bytes from a port of loopback; :meth:`cut` closes connections, and refuses more."""

    def __init__(self, address):
        self._address, self._open, self._is_cut = address, set(), False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._is_cut = True
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self._is_cut = False

    def close(self):
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(self._address)
                self._open |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
            self._open.discard(sock)
