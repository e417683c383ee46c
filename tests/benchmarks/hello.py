# SPDX-License-Identifier: Apache-2.0
"""The probe of HTTP: serves ``hello`` with the server of the service, but not the service.

``python -m tests.benchmarks.hello PORT WORKERS``
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from valence_sched.server.worker import GunicornServer
from valence_sched.service.settings import ServiceSettings


def hello(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer every request alike."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]


class HelloServer(GunicornServer):
    """The server of the service, with another application."""

    def load(self) -> Any:
        """Return the application."""
        return hello


if __name__ == "__main__":
    settings = ServiceSettings(port=int(sys.argv[1]), workers=int(sys.argv[2]))
    HelloServer(settings, lambda: settings).run()
