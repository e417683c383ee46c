# SPDX-License-Identifier: Apache-2.0
"""Live pod managers say the same as their recorded trees, and are asked no more than needed."""

import re
import unittest
from datetime import UTC, datetime

import msgspec

from tests.unit.drivers.served import PASSWORD, USER, Server, trees
from valence_sched.drivers.connection import Connection
from valence_sched.drivers.crawl import Crawl
from valence_sched.drivers.expand import Documents
from valence_sched.drivers.kept import Kept
from valence_sched.drivers.links import folded, path_of
from valence_sched.drivers.live import Settings, Target, read
from valence_sched.drivers.mockup import podm_of, tree_of_map
from valence_sched.drivers.redfish import redfish
from valence_sched.drivers.rsd import rsd
from valence_sched.drivers.transport import Deadline
from valence_sched.drivers.visit import understood
from valence_sched.model.inventory import to_json
from valence_sched.model.registered import Registered

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
DIALECTS = {"redfish": redfish, "rsd": rsd}
TREES = dict(trees())
#: The host that absolute links in our trees lead to.
OWN = re.compile(rb"https?://podm[.\w]*example(:443)?", re.IGNORECASE)


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
            Target(
                Registered(
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
        pace = Settings(timeout_s=timeout_s, **settings)
        return list(read(targets, DIALECTS, pace, clock=lambda: at))

    def recorded(self, documents):
        problems = []
        tree = tree_of_map(documents)
        return podm_of(tree, "podm-0", "podm-0", problems), problems

    def same(self, expected, reading):
        podm = msgspec.structs.replace(reading.podm, url=None, read_at=None)
        self.assertIsNone(reading.failure)
        self.assertEqual(to_json(expected), to_json(podm))

    def at_home(self, documents, server):
        """Return a tree, and serve it, with its absolute links leading to the server."""
        home = server.url.encode()
        found = {uri: OWN.sub(home, data) for uri, data in documents.items()}
        server.documents.update(found)
        return found


class IdentityTest(LiveTest):
    maxDiff = None

    def test_every_tree_says_the_same_live_and_recorded(self):
        for name, documents in TREES.items():
            for expand in (0, 1, 2, 6):
                with self.subTest(name, expand=expand):
                    server = self.serve({}, expand=expand)
                    home = self.at_home(documents, server)
                    (reading,) = self.read(server)
                    expected, problems = self.recorded(home)
                    self.same(expected, reading)
                    self.assertEqual(problems, reading.problems)

    def test_no_document_is_asked_for_that_is_not_read_and_none_twice(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                (reading,) = self.read(server)
                asked = [path_of(path) for path in server.gets()]
                self.assertEqual(sorted(set(asked)), sorted(asked))
                there = {folded(uri) for uri in asked if is_object(server.document(uri))}
                self.assertEqual({folded(uri) for uri in reading.documents}, there)
                self.assertEqual(len(asked), reading.requests)

    def test_all_that_the_reader_wants_is_declared(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                known = Registered(name="podm", url=server.url)
                with Connection(known, None, Deadline(20)) as connection:
                    root = connection.get("/redfish/v1").json("/redfish/v1")
                    kept = Kept(None, server.url, None, 0)
                    crawl = Crawl(Documents(connection), kept, connection.host, 1, lambda _: False)
                    understood(crawl, redfish(), root, "podm", connection.host)
                self.assertEqual(0, crawl.unplanned)


if __name__ == "__main__":
    unittest.main()
