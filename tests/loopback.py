# SPDX-License-Identifier: Apache-2.0
"""An HTTP server of a test, on a free port of loopback."""

from __future__ import annotations

import http.server
import socketserver
import sys
import threading
from typing import Any

#: The longest time in seconds until a server notices that it is stopped.
POLL_S = 0.02


class ClientsMayLeave(socketserver.ThreadingMixIn):
    """Answers each client in a thread; a client that disconnects before its answer is not an error.

    Clients in tests of deadlines do so.
    """

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of any other error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[misc]


class LoopbackServer(ClientsMayLeave, http.server.HTTPServer):
    """Serves after ``start`` until ``close``; its port is known before."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(POLL_S,), daemon=True)

    def start(self) -> None:
        """Serve in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and close the port."""
        self.shutdown()
        self._thread.join()
        self.server_close()
