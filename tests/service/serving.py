# SPDX-License-Identifier: Apache-2.0
"""Serves the application of the service on loopback, from threads of the test's process."""

import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping
from wsgiref import simple_server

from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import ServiceSettings


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(settings: ServiceSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the URL of a service that listens."""
    process = ServiceProcess(settings, time.monotonic, environ)
    server = simple_server.make_server("127.0.0.1", 0, process.application, _Server, _Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        process.operations.wait(10)
