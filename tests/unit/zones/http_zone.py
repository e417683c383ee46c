# SPDX-License-Identifier: Apache-2.0
"""A scripted service of a zone on loopback, which records its requests."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.loopback import LoopbackServer
from valence_sched.model.inventory import to_json


class Asked(NamedTuple):
    """One request: its method, path, query, headers, and body, if any."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class HttpZone:
    """``answers`` are nouns or JSON by path; all other paths answer 404.

    While it is not ``awake``, it answers nothing, for at most 20 seconds.
    """

    def __init__(self, url: str) -> None:
        self.url, self.answers, self.asked = url, dict[str, Any](), list[Asked]()
        self.awake = threading.Event()
        self.awake.set()

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        self.awake.wait(20.0)
        self.asked.append(asked)
        found = self.answers.get(asked.path)
        if found is None:
            problem = {"errors": [{"status": 404, "detail": f"no {asked.path} here"}]}
            return 404, json.dumps(problem).encode()
        return 200, json.dumps(found).encode() if isinstance(found, Mapping) else to_json(found)


@contextlib.contextmanager
def http_zone() -> Iterator[HttpZone]:
    """Yield a zone on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = zone.answer(Asked(
                self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers),
                json.loads(content) if content else None,
            ))  # fmt: skip
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    server = LoopbackServer(Handler)
    zone = HttpZone(server.url)
    server.start()
    try:
        yield zone
    finally:
        zone.awake.set()
        server.close()
