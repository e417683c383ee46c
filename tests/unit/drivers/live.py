# SPDX-License-Identifier: Apache-2.0
"""Tests on live pod managers: the served trees, and ways in which a server fails."""

import itertools
import re
import socket
import threading
import unittest
from datetime import UTC, datetime

import msgspec

from tests.unit.core.sites import SOAK
from tests.unit.drivers.served import DIALECTS, PASSWORD, USER, Server, trees
from valence_sched.drivers.bounds import MIB
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.files.tree import podm_of, tree_of
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Registration

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TREES = dict(trees())
#: The host of absolute links in our trees.
OWN = re.compile(rb"https?://podm[.\w]*example(:443)?", re.IGNORECASE)
TREE = TREES["shared-blocks"]
BLOCKS = sorted(uri for uri in TREE if re.search(r"/ResourceBlocks/[^/]+$", uri))
LOGIN = (USER, PASSWORD)


def sampled(*axes):
    """Return combinations of values; without ``VALENCE_SCHED_SOAK`` at most each second."""
    step = 1 if SOAK else min(4, len(axes[-1]))
    numbered = itertools.product(*map(enumerate, axes))
    chosen = (case for case in numbered if sum(number for number, _ in case) % step == 0)
    return [tuple(value for _, value in case) for case in chosen]


def is_object(data):
    try:
        return isinstance(msgspec.json.decode(data or b""), dict)
    except ValueError:
        return False


class LiveTest(unittest.TestCase):
    def serve(self, documents, **more):
        server = Server(documents, **more)
        self.addCleanup(server.close)
        return server

    def read(self, *servers, at=NOON, timeout_s=20.0, known=None, **settings):
        targets = [
            ReadTarget(
                Registration(
                    **{
                        "name": f"podm-{index}",
                        "url": server if isinstance(server, str) else server.url,
                        "username": USER if getattr(server, "login", None) else None,
                    }
                    | (known or {})
                ),
                PASSWORD,
            )
            for index, server in enumerate(servers)
        ]
        pace = ReadSettings(timeout_s=timeout_s, **settings)
        return list(read(targets, DIALECTS, pace, clock=lambda: at))

    def recorded(self, documents):
        diagnostics = Diagnostics()
        tree = tree_of(documents)
        podm = podm_of(tree, "podm-0", "podm-0", diagnostics, DIALECTS)
        return podm, tuple(diagnostics)

    def same(self, expected, reading):
        podm = msgspec.structs.replace(reading.podm, url=None, read_at=None)
        self.assertIsNone(reading.failure)
        self.assertEqual(to_json(expected), to_json(podm))

    def at_home(self, documents, server):
        """Serve a tree whose absolute links lead to the server, and return it."""
        home = server.url.encode()
        found = {uri: OWN.sub(home, data) for uri, data in documents.items()}
        server.documents.update(found)
        return found


def dressed(documents):
    """Return a tree whose documents have all required properties."""
    found = {}
    for uri, data in documents.items():
        try:
            json = msgspec.json.decode(data, type=dict)
        except msgspec.MsgspecError:
            found[uri] = data
            continue
        more = {"@odata.type": "#T.v1.T", "Id": "1", "Name": "?"}
        found[uri] = msgspec.json.encode(more | json | {"@odata.id": uri})
    return found


def on(pattern, act, method="GET"):
    """Return a rule for the paths that match a pattern."""
    return lambda handler: (
        handler.command == method and bool(re.search(pattern, handler.path)) and act(handler)
    )


def once(rule):
    """Return a rule that applies only the first time."""
    left = [1]
    lock = threading.Lock()

    def first(handler):
        with lock:
            return bool(left and rule(handler) and (left.clear() or True))

    return first


def status(code, body=b"{}", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.reply(code, body, named)


def hang(handler):
    handler.podm.stop.wait(20)
    return True


def hang_in_body(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.wfile.flush()
    return hang(handler)


def drip(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.podm.stop.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()
    return True


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.podm.stop.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()
    return True


def half(handler):
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"a')
    return True


def two_lengths(handler):
    handler.close_connection = True
    return handler.reply(200, b'{"a', {"Content-Length": "1000"})


def half_without_length(handler):
    """Send half of a document whose length only the end of the connection shows."""
    found = handler.podm.document(handler.path)
    return _without_length(handler, found[: len(found) // 2])


def not_utf8_without_length(handler):
    return _without_length(handler, b'{"Name": "\xe9"}')


def _without_length(handler, body):
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(body)
    return True


def no_http(handler):
    handler.close_connection = True
    return bool(handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n"))


def cut(handler):
    return handler.connection.shutdown(socket.SHUT_RDWR) or True


def huge(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 30))
    handler.end_headers()
    for _ in range(1024):
        handler.wfile.write(b" " * MIB)
        handler.podm.sent_mib = getattr(handler.podm, "sent_mib", 0) + 1
    return True
