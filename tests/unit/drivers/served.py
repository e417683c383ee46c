# SPDX-License-Identifier: Apache-2.0
"""Recorded trees as real HTTP servers on loopback, with the faults of servers."""

import base64
import contextlib
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from valence_sched.drivers.files.tree import tree_of
from valence_sched.drivers.links import fold_uri, path_of
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.rsd.dialect import rsd

#: The installed dialects of this project.
DIALECTS = {"redfish": redfish, "rsd": rsd}
RECORDED = Path(__file__).parents[2] / "recorded"
DMTF = Path(__file__).parents[3].parent / "shared" / "data" / "dmtf"
USER, PASSWORD = "operator", "canary-9f2c-secret"
TOKEN = "canary-token-77"
SESSIONS = "/redfish/v1/SessionService/Sessions"


def trees():
    """Yield name and documents (bytes by URI) of every tree."""
    folders = [RECORDED / "rack-mockup", *(sorted(DMTF.iterdir()) if DMTF.is_dir() else [])]
    for folder in folders:
        if folder.is_dir():
            files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("index.json")}
            tree = tree_of(files)
            yield folder.name, {uri: path.read_bytes() for uri, path in tree.documents.items()}
    for path in sorted(RECORDED.glob("*.json")):
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        yield path.stem, dict(tree_of({k: bytes(v) for k, v in found.items()}).documents)


class Server:
    """One pod manager. ``rules`` are ``(handler) -> bool``; the first that returns True answers."""

    def __init__(self, documents, *, login=None, expand=0, tls=None, rules=()):
        self.documents, self.login, self.expand = dict(documents), login, expand
        self.rules, self.log, self.sessions, self.made = list(rules), [], set(), 0
        self.headers = []
        self.stop = threading.Event()
        server = self

        class Handler(_Handler):
            podm = server

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.block_on_close = False
        self.http.handle_error = lambda *_: None
        self.scheme = "https" if tls else "http"
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.http.server_port}"

    def close(self):
        self.stop.set()
        self.http.shutdown()
        self.http.server_close()

    def gets(self):
        return [path for method, path in self.log if method == "GET"]

    def document(self, path):
        """Return the bytes at a path; absolute links lead to this server."""
        found = self.documents.get(path_of(path))
        if found is None:  # in upper or lower case
            spelled = {fold_uri(uri): uri for uri in self.documents}
            found = self.documents.get(spelled.get(fold_uri(path_of(path))))
        if found is not None and path_of(path) == "/redfish/v1" and (self.login or self.expand):
            root = msgspec.json.decode(found)
            if self.login:
                root["Links"] = {"Sessions": {"@odata.id": SESSIONS}}
            if self.expand:
                query = {"NoLinks": True, "Levels": True, "MaxLevels": self.expand}
                root["ProtocolFeaturesSupported"] = {"ExpandQuery": query}
            return msgspec.json.encode(root)
        return found

    def expanded(self, path, levels):
        """Return a document as an object that contains the documents below it."""
        found = self.document(path)
        if found is None:
            return None
        return self._inside(msgspec.json.decode(found), levels)

    def _inside(self, value, levels):
        if isinstance(value, list):
            return [self._inside(item, levels) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"@odata.id"}:
            whole = None
            with contextlib.suppress(msgspec.MsgspecError):
                link = value["@odata.id"]
                whole = self.expanded(link, levels - 1) if levels and "#" not in link else None
            return whole or value
        return {k: v if k == "Links" else self._inside(v, levels) for k, v in value.items()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        """Log nothing."""

    def handle(self):
        with contextlib.suppress(OSError, ssl.SSLError):
            super().handle()

    def serve(self):
        podm = self.podm
        self.size = int(self.headers.get("Content-Length") or 0)
        self.sent = self.rfile.read(self.size)
        podm.log.append((self.command, self.path))
        podm.headers.append(dict(self.headers))
        for rule in podm.rules:
            if rule(self):
                return
        self.answer()

    do_GET = do_POST = do_DELETE = do_PATCH = serve

    def answer(self):
        """Answer as a correct pod manager does."""
        podm = self.podm
        if self.path == SESSIONS and self.command == "POST" and podm.login:
            return self.make_session()
        if podm.login and path_of(self.path) != "/redfish/v1" and not self.is_in():
            return self.reply(401, b'"no"')
        if self.command == "DELETE" and self.path in podm.sessions:
            podm.sessions.discard(self.path)
            return self.reply(204)
        parts = urlsplit(self.path)
        query = parse_qs(parts.query).get("$expand")
        if query and podm.expand:
            levels = min(int(re.search(r"levels=(\d+)", query[0])[1]), podm.expand)
            bare = "&".join(p for p in parts.query.split("&") if not p.startswith("$expand"))
            whole = podm.expanded(parts.path + (f"?{bare}" if bare else ""), levels)
            if whole is not None:
                return self.reply(200, msgspec.json.encode(whole))
        found = podm.document(self.path)
        return self.reply(404 if found is None else 200, found or b"{}")

    def make_session(self):
        podm = self.podm
        sent = msgspec.json.decode(self.sent)
        if (sent.get("UserName"), sent.get("Password")) != podm.login:
            return self.reply(401)
        podm.made += 1
        uri = f"{SESSIONS}/{podm.made}"
        podm.sessions.add(uri)
        return self.reply(201, b"{}", {"Location": uri, "X-Auth-Token": f"{TOKEN}-{podm.made}"})

    def is_in(self):
        token = self.headers.get("X-Auth-Token", "")
        if token and f"{SESSIONS}/{token.rpartition('-')[2]}" in self.podm.sessions:
            return True
        basic = base64.b64encode(":".join(self.podm.login).encode()).decode()
        return self.headers.get("Authorization") == f"Basic {basic}"

    def reply(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True
