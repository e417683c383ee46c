# SPDX-License-Identifier: Apache-2.0
"""A private Keystone on loopback, with SQLite, for the tests of a module."""

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

REQUIRE = "VALENCE_SCHED_REQUIRE_KEYSTONE"  # set by CI: a test without Keystone then fails
READY_S = 120
ADMIN_PASSWORD = "boot-strapped"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CONFIG = """\
[DEFAULT]
log_file = {folder}/{port}-keystone.log
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[token]
provider = fernet
expiration = {expiration_s}
caching = false
[revoke]
caching = false
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = oslo_cache.dict
"""
#: Prepares the database in child processes, which need not import Keystone again, and serves it.
#: Keystone reads the command line as its own.
_PROGRAM = """
import json, os, socketserver, sys
from wsgiref import simple_server
program, config, preparations, port = sys.argv
from keystone.cmd import manage
for words in json.loads(preparations):
    child = os.fork()
    if not child:
        sys.argv = ["keystone-manage", "--config-file", config, *words]
        manage.main()
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"keystone-manage {words[0]} failed")
sys.argv = [program]
from keystone.wsgi.api import application
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *words): pass
simple_server.make_server("127.0.0.1", int(port), application, Server, Quiet).serve_forever()
"""


class KeystoneServer:
    """A running Keystone: its users, and their tokens."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.url, self.process, self.folder = url, process, folder
        self._token = self.token("admin", ADMIN_PASSWORD, {"project": _named("admin")})

    def call(self, method: str, path: str, body: Any = None, token: str | None = None,
             **headers: str) -> tuple[Any, Any]:  # fmt: skip
        """Return headers and document of an answer to a request of the administrator."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "X-Auth-Token": token or self._token}
        sent |= headers
        request = urllib.request.Request(f"{self.url}{path}", data, sent, method=method)
        with _OPENER.open(request, timeout=30) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else None

    def make_project(self, name: str) -> str:
        """Return the id of a new project."""
        return self._make("projects", "project", {"name": name, "domain_id": "default"})

    def make_user(self, name: str, password: str) -> str:
        """Return the id of a new user."""
        user = {"name": name, "password": password, "domain_id": "default"}
        return self._make("users", "user", user)

    def grant(self, user: str, role: str, where: str) -> None:
        """Give a user a role; ``where`` is ``projects/ID``, ``domains/ID`` or ``system``."""
        found = self.call("GET", f"/roles?name={role}")[1]["roles"][0]["id"]
        self.call("PUT", f"/{where}/users/{user}/roles/{found}")

    def token(self, user: str, password: str, scope: Any = None) -> str:
        """Return a token; ``scope`` as in Keystone, None for an unscoped token."""
        login = {"user": {**_named(user), "password": password}}
        auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": login}}
        auth["scope"] = "unscoped" if scope is None else scope
        request = urllib.request.Request(
            f"{self.url}/auth/tokens", json.dumps({"auth": auth}).encode(),
            {"Content-Type": "application/json"}, method="POST")  # fmt: skip
        with _OPENER.open(request, timeout=30) as answer:
            found: str = answer.headers["X-Subject-Token"]
            return found

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self.call("DELETE", "/auth/tokens", **{"X-Subject-Token": token})

    def _make(self, path: str, kind: str, fields: dict[str, Any]) -> str:
        made: str = self.call("POST", f"/{path}", {kind: fields})[1][kind]["id"]
        return made


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "domain": {"id": "default"}}


def require_keystone() -> None:
    """Skip the test if Keystone is not installed; fail if it is required."""
    if util.find_spec("keystone") is not None:
        return
    if os.environ.get(REQUIRE):
        raise AssertionError(f"{REQUIRE} is set, and Keystone is not installed: the extra test")
    raise unittest.SkipTest("Keystone is not installed: pip install 'valence-sched[test]'")


@contextlib.contextmanager
def keystone() -> Iterator[KeystoneServer]:
    """Yield a new Keystone, which ends with the context; its tokens last an hour."""
    require_keystone()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for keys in ("fernet", "credential"):
            (folder / keys).mkdir(mode=0o700)
            for number in "01":  # as from keystone-manage, which takes seconds for each
                key = folder / keys / number
                key.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
                key.chmod(0o600)
        port = _free_port()
        url = _url(port)
        bootstrap = ["bootstrap", "--bootstrap-public-url", url, "--bootstrap-internal-url", url,
                     "--bootstrap-region-id", "RegionOne"]  # fmt: skip
        yield from _serve(folder, port, 3600, ["db_sync"], bootstrap)


@contextlib.contextmanager
def short_lived_tokens(server: KeystoneServer, expiration_s: int) -> Iterator[KeystoneServer]:
    """Yield another process of a Keystone with the same database; its tokens expire after this
    time.
    """
    yield from _serve(server.folder, _free_port(), expiration_s)


def _serve(
    folder: Path, port: int, expiration_s: int, *preparations: list[str]
) -> Iterator[KeystoneServer]:
    config, log = folder / f"{port}.conf", folder / f"{port}.log"
    config.write_text(_CONFIG.format(folder=folder, port=port, expiration_s=expiration_s))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    environ |= {"OS_KEYSTONE_CONFIG_FILES": str(config), "OS_KEYSTONE_CONFIG_DIR": str(folder),
                "OS_BOOTSTRAP_PASSWORD": ADMIN_PASSWORD}  # fmt: skip
    words = [str(config), json.dumps(preparations), str(port)]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, *words],
            cwd=folder, env=environ, stdout=stream, stderr=stream,
        )  # fmt: skip
    try:
        _await(process, _url(port), log)
        yield KeystoneServer(_url(port), process, folder)
    finally:
        process.terminate()
        process.wait(30)


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError), _OPENER.open(url, timeout=5):
            return
        if process.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"Keystone does not answer: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v3"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
