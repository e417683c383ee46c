# SPDX-License-Identifier: Apache-2.0
"""Serves the application of the service on loopback, from threads of the test's process."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from wsgiref import simple_server

from tests.loopback import ClientsMayLeave
from tests.unit.store import dialects
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import ServiceSettings

dialects.register()


class _Server(ClientsMayLeave, simple_server.WSGIServer):
    """A server with a thread for each request."""


class _Quiet(simple_server.WSGIRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_words: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def serving(settings: ServiceSettings, environ: Mapping[str, str], port: int = 0) -> Iterator[str]:
    """Yield the URL of a listening service that has tried to read its pod managers."""
    process = ServiceProcess(settings, time.monotonic, environ)
    process.start()
    await_reading(process)
    server = simple_server.make_server("127.0.0.1", port, process.application, _Server, _Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        process.stop(10)


def wait_for(condition: Callable[[], Any], timeout_s: float = 30.0, pause_s: float = 0.02) -> Any:
    """Wait until a condition is true; return its value."""
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > until:
            raise AssertionError("timed out")
        time.sleep(pause_s)
    return found


def await_reading(process: ServiceProcess, timeout_s: float = 60.0) -> None:
    """Wait until each registered pod manager was read, or a reading failed."""
    if process.reader is not None:
        # to ask for the health costs as much as to read a pod manager
        wait_for(lambda: process.parts.health().status != "starting", timeout_s, pause_s=0.1)
