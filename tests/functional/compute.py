# SPDX-License-Identifier: Apache-2.0
"""A small fake cloud on loopback: an identity service with a password, and flavors."""

import http.server
import json
from pathlib import Path
from typing import Any

from tests.loopback import LoopbackServer

PASSWORD = "tr0ub4dor-of-the-night"
TOKEN = "gAAAA-loopback-token"

CLOUDS = """
clouds:
  loopback:
    auth_type: password
    region_name: here
    identity_api_version: 3
    auth:
      auth_url: {url}/v3
      username: planner
      password: {password}
      project_name: composing
      user_domain_id: default
      project_domain_id: default
"""


class Cloud:
    """A server with these flavors; ``asked`` lists the requested paths."""

    def __init__(self, flavors: list[dict[str, Any]]) -> None:
        self.flavors = flavors
        self.asked: list[str] = []
        cloud = self

        class Door(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cloud.asked.append(self.path)
                self.answer(*cloud.read(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                cloud.asked.append(self.path)
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(*cloud.token(body))

            def answer(self, status: int, document: Any) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("X-Subject-Token", TOKEN)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: Any) -> None:
                pass

        self.server = LoopbackServer(Door)
        self.url = self.server.url
        self.server.start()

    def close(self) -> None:
        """Stop serving."""
        self.server.close()

    def configure(self, file: Path, password: str = PASSWORD) -> str:
        """Write a clouds.yaml for this cloud and return its path."""
        file.write_text(CLOUDS.format(url=self.url, password=password))
        return str(file)

    def read(self, path: str) -> tuple[int, Any]:
        """Answer a GET: versions, the flavors, one of them, or 404."""
        if path in ("/v3", "/v3/"):
            return 200, {"version": self._version("v3.14", "v3", "stable")}
        if path in ("/compute/v2.1", "/compute/v2.1/"):
            version = self._version("v2.1", "compute/v2.1", "CURRENT")
            return 200, {"version": version | {"version": "2.96", "min_version": "2.1"}}
        if path.endswith(("/flavors", "/flavors/detail")):
            return 200, {"flavors": self.flavors}
        for flavor in self.flavors:
            if path.endswith(f"/flavors/{flavor['id']}"):
                return 200, {"flavor": flavor}
            if path.endswith(f"/flavors/{flavor['id']}/os-extra_specs"):
                return 200, {"extra_specs": flavor["extra_specs"]}
        return 404, {"itemNotFound": {"code": 404, "message": "there is no such thing"}}

    def token(self, body: Any) -> tuple[int, Any]:
        """Answer a login: a token for the user with the password."""
        if body["auth"]["identity"]["password"]["user"]["password"] != PASSWORD:
            return 401, {"error": {"code": 401, "message": "who is this?", "title": "No"}}
        compute = {
            "type": "compute", "id": "c", "name": "nova",
            "endpoints": [{"id": "e", "interface": "public", "region": "here",
                           "region_id": "here", "url": f"{self.url}/compute/v2.1"}],
        }  # fmt: skip
        domain = {"id": "default", "name": "Default"}
        return 201, {"token": {
            "methods": ["password"],
            "issued_at": "2026-01-05T06:00:00.000000Z",
            "expires_at": "2126-01-05T06:00:00.000000Z",
            "user": {"id": "u", "name": "planner", "domain": domain},
            "project": {"id": "p", "name": "composing", "domain": domain},
            "roles": [{"id": "r", "name": "reader"}],
            "catalog": [compute],
        }}  # fmt: skip

    def _version(self, name: str, path: str, status: str) -> dict[str, Any]:
        return {
            "id": name,
            "status": status,
            "links": [{"rel": "self", "href": f"{self.url}/{path}/"}],
        }
