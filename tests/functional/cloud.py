# SPDX-License-Identifier: Apache-2.0
"""A fake cloud on loopback: the parts of Keystone, Cinder and Neutron that find a resource."""

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback import LoopbackServer

PASSWORD = "correct-horse-battery"
TOKEN = "gAAAA-a-token-nobody-should-see"

VOLUME = {"id": "11111111-aaaa-4aaa-8aaa-000000000001", "name": "db", "availability_zone": "west-1"}
LOST = {"id": "11111111-aaaa-4aaa-8aaa-000000000002", "name": "lost", "availability_zone": None}
ODD = {"id": "11111111-aaaa-4aaa-8aaa-000000000003", "name": "odd",
       "availability_zone": {"zone": 1}}  # fmt: skip
NET = {"id": "net-1", "name": "lan", "availability_zones": ["east-1"],
       "provider:physical_network": "gold"}  # fmt: skip
WIDE = {"id": "net-2", "name": "wan", "availability_zones": ["east-1", "west-1"],
        "segments": [{"provider:physical_network": "bulk"}]}  # fmt: skip
PORT = {"id": "port-1", "name": "eth", "network_id": "net-1"}
THINGS: dict[str, list[dict[str, Any]]] = {
    "volumes": [VOLUME, LOST, ODD],
    "networks": [NET, WIDE],
    "ports": [PORT],
}


class Cloud:
    """A server with all services; ``asked`` lists its requests in order.

    ``podms``, ``schedulers`` and ``ironics`` are regions and URLs of pod managers, scheduler
    services and bare metal services in its catalogue.
    """

    def __init__(
        self,
        podms: Sequence[tuple[str, str]] = (),
        schedulers: Sequence[tuple[str, str]] = (),
        ironics: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.public = {"podm-scheduler": schedulers, "baremetal": ironics}
        self.asked: list[str] = []
        self.podms = podms
        self._server = LoopbackServer(_handler(self))
        self._server.start()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a login to this cloud."""
        return {
            "OS_AUTH_URL": f"{self.url}/identity/v3",
            "OS_USERNAME": "op",
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": "ops",
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }

    def close(self) -> None:
        self._server.close()

    def answer(self, method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the document of an answer."""
        path = urlsplit(target).path.rstrip("/")
        self.asked.append(f"{method} {path}")
        if path == "/identity/v3" and method == "GET":
            return 200, {"version": self._version("v3.14", "identity/v3")}
        if path == "/identity/v3/auth/tokens":
            given = body["auth"]["identity"]["password"]["user"]["password"]
            return (201, self._token()) if given == PASSWORD else (401, _error(401, "who are you?"))
        if path in ("/volume/v3", "/network", "/network/v2.0"):
            number = "v3.0" if "volume" in path else "v2.0"
            return 200, {"versions": [self._version(number, f"{path.split('/')[1]}/{number[:2]}")]}
        *_, collection, name = path.removesuffix("/detail").split("/")
        if name in THINGS:
            wanted = parse_qs(urlsplit(target).query).get("name", [""])[0]
            return 200, {name: [thing for thing in THINGS[name] if thing["name"] == wanted]}
        if found := [thing for thing in THINGS.get(collection, []) if thing["id"] == name]:
            return 200, {collection[:-1]: found[0]}
        return 404, _error(404, path)

    def _version(self, number: str, path: str) -> dict[str, Any]:
        links = [{"rel": "self", "href": f"{self.url}/{path}/"}]
        return {"id": number, "status": "CURRENT", "links": links}

    def _token(self) -> dict[str, Any]:
        catalog = [
            {
                "type": type_,
                "name": type_,
                "endpoints": [
                    {"interface": "public", "region": "R", "region_id": "R",
                     "url": f"{self.url}/{path}", "id": type_}
                ],
            }
            for type_, path in (("block-storage", "volume/v3"), ("network", "network"))
        ]  # fmt: skip
        podms = [
            {"interface": interface, "region": region, "region_id": region, "url": url,
             "id": f"{urlsplit(url).netloc.rpartition(':')[2]}{interface[0]}"}
            for region, url in self.podms
            for interface in ("public", "internal")
        ]  # fmt: skip
        catalog += [{"type": "podm", "name": "pods", "endpoints": podms}] if podms else []
        for type_, endpoints in self.public.items():
            public = [
                {"interface": "public", "region": at, "region_id": at, "url": url, "id": url}
                for at, url in endpoints
            ]
            catalog += [{"type": type_, "name": type_, "endpoints": public}] if public else []
        domain = {"id": "default", "name": "Default"}
        return {
            "token": {
                "methods": ["password"],
                "expires_at": "2099-01-01T00:00:00.000000Z",
                "issued_at": "2026-01-01T00:00:00.000000Z",
                "user": {"id": "u", "name": "op", "domain": domain},
                "project": {"id": "p", "name": "ops", "domain": domain},
                "roles": [{"id": "r", "name": "admin"}],
                "catalog": catalog,
            }
        }


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "title": "no"}}


def _handler(cloud: Cloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", {})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._answer("POST", json.loads(self.rfile.read(length)))

        def _answer(self, method: str, body: dict[str, Any]) -> None:
            status, document = cloud.answer(method, self.path, body)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status == 201:
                self.send_header("X-Subject-Token", TOKEN)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            """Log nothing."""

    return Handler
