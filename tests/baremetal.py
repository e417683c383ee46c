# SPDX-License-Identifier: Apache-2.0
"""A fake Ironic on loopback, with the requests that list nodes."""

from __future__ import annotations

import json
import ssl
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback import LoopbackServer

Answer = tuple[int, Any]
LATEST = "1.115"
HIDDEN = "** Redacted - requires baremetal:node:get:driver_info permission. **"


def node(name: str, **fields: Any) -> dict[str, Any]:
    """Return an available node of Ironic, with other fields."""
    return {
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "name": name,
        "driver_info": {},
        "provision_state": "available",
        "maintenance": False,
        "instance_uuid": None,
        "allocation_uuid": None,
        "reservation": None,
        "instance_info": {},
        **fields,
    }


class FakeIronic:
    """A server with these nodes; ``asked`` has the target of each request.

    ``ports`` maps MAC addresses to nodes. ``sees_all`` is whether the user sees the nodes of all
    projects. ``wrong`` replaces the right answer to a target. ``page`` is the largest number of
    nodes in one list. A node with ``parent_node`` is listed only among children.
    """

    def __init__(self, *nodes: dict[str, Any], context: ssl.SSLContext | None = None) -> None:
        self.nodes, self.ports = list(nodes), dict[str, str]()
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.page, self.sees_all, self.latest, self.is_ironic = 1000, True, LATEST, True
        self.wrong: Callable[[str], Answer | None] = lambda _target: None
        self._server = LoopbackServer(_handler(self))
        self.url = self._server.url
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def answer(self, target: str) -> Answer:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(target)
        if found := self.wrong(target):
            return found
        path = parts.path.removeprefix("/baremetal").rstrip("/")
        if path == "/v1":
            return 200, {"id": "v1", "version": {"id": "v1", "version": self.latest}}
        if path == "/v1/ports":
            owner = self.ports.get(query["address"])
            return 200, {"ports": [{"uuid": "p", "node_uuid": owner}] if owner else []}
        if path == "/v1/nodes":
            return self._list(query)
        found_nodes = [one for one in self.nodes if path == f"/v1/nodes/{one['uuid']}"]
        return (200, found_nodes[0]) if found_nodes else (404, {})

    def _list(self, query: dict[str, str]) -> Answer:
        if "project" in query:
            return (200, {"nodes": []}) if self.sees_all else (403, {})
        assert "allocation_uuid" not in query["fields"], "which Ironic answers with 500"
        children = query.get("include_children") == "True"
        shown = [one for one in self.nodes if children or "parent_node" not in one]
        shown = shown if self.sees_all else []
        uuids = [one["uuid"] for one in shown]
        start = uuids.index(query["marker"]) + 1 if "marker" in query else 0
        end = start + min(self.page, int(query["limit"]))
        fields = query["fields"].split(",")
        page = [{field: one[field] for field in fields} for one in shown[start:end]]
        more = {"next": "http://ironic.internal/v1/nodes?marker=x"} if end < len(shown) else {}
        return 200, {"nodes": page, **more}


def _handler(ironic: FakeIronic) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ironic.headers.append(dict(self.headers))
            status, document = ironic.answer(self.path)
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            if ironic.is_ironic:
                self.send_header("X-OpenStack-Ironic-API-Maximum-Version", ironic.latest)
            self.send_header("Content-Length", str(len(data)))
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:9/v1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_words: Any) -> None:
            """Log nothing."""

    return Handler
