# SPDX-License-Identifier: Apache-2.0
"""Live pod managers say the same as their recorded trees, and are asked no more than needed."""

import unittest
from datetime import UTC, datetime

import msgspec

from tests.unit.drivers.served import PASSWORD, USER, Server, trees
from valence_sched.drivers.live import Settings, Target, read
from valence_sched.drivers.mockup import podm_of, tree_of_map
from valence_sched.drivers.redfish import redfish
from valence_sched.model.inventory import to_json
from valence_sched.model.registered import Registered

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
DIALECTS = {"redfish": redfish}
TREES = dict(trees())


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

    def here(self, documents, server):
        """Make absolute links in a tree lead to the server."""
        host = server.url.encode()
        for uri, data in documents.items():
            for other in (b"https://podm.example", b"http://podm.example"):
                data = data.replace(other, host)
            server.documents[uri] = data


class IdentityTest(LiveTest):
    maxDiff = None

    def test_every_tree_says_the_same_live_and_recorded(self):
        for name, documents in TREES.items():
            for expand in (0, 1, 2, 6):
                with self.subTest(name, expand=expand):
                    server = self.serve(documents, expand=expand)
                    (reading,) = self.read(server)
                    expected, problems = self.recorded(documents)
                    self.same(expected, reading)
                    self.assertEqual(problems, reading.problems)


if __name__ == "__main__":
    unittest.main()
