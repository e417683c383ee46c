# SPDX-License-Identifier: Apache-2.0
"""Live pod managers say the same as their recorded trees, with no more requests than needed."""

import re
import threading
import unittest
from datetime import UTC, datetime

import msgspec

from tests.unit.drivers.served import DIALECTS, PASSWORD, USER, Server, trees
from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.cache import DocumentCache
from valence_sched.drivers.crawl.crawler import Crawler, ExpandReader
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget, read_in_passes
from valence_sched.drivers.dialect import recognised_dialect
from valence_sched.drivers.files.tree import podm_of, tree_of_map
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.drivers.links import fold_uri, path_of
from valence_sched.model.diagnostic import Diagnostics, NoProgress
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Registration

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
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
        tree = tree_of_map(documents)
        podm = podm_of(tree, "podm-0", "podm-0", diagnostics, DIALECTS)
        return podm, tuple(diagnostics)

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
                    expected, diagnostics = self.recorded(home)
                    self.same(expected, reading)
                    self.assertEqual(diagnostics, reading.diagnostics)

    def test_no_document_is_asked_for_that_is_not_read_and_none_twice(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                (reading,) = self.read(server)
                requested = [path_of(path) for path in server.gets()]
                self.assertEqual(sorted(set(requested)), sorted(requested))
                readable = {fold_uri(uri) for uri in requested if is_object(server.document(uri))}
                self.assertEqual({fold_uri(uri) for uri in reading.documents}, readable)
                self.assertEqual(len(requested), reading.requests)

    def test_all_that_the_reader_wants_is_declared(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.serve({})
                self.at_home(documents, server)
                known = Registration(name="podm", url=server.url)
                with Connection(known, None, Deadline(20)) as connection:
                    root = connection.get("/redfish/v1").json("/redfish/v1")
                    cache = DocumentCache(None, server.url, None, 0)
                    crawl = Crawler(
                        ExpandReader(connection), cache, connection.host, 1, lambda *_: False
                    )
                    read_in_passes(crawl, DIALECTS["redfish"](), root, "podm", connection.host)
                self.assertEqual(0, crawl.unplanned)


class SiteTest(LiveTest):
    def test_readings_come_in_the_order_of_the_targets_whoever_is_first(self):
        gate = threading.Event()

        def wait(handler):
            gate.wait(10)

        slow = self.serve(TREES["states"], rules=[wait])
        fast = [self.serve(TREES["shared-blocks"], rules=[lambda _: None]) for _ in range(3)]
        calls = []

        class Calls(NoProgress):
            def count_podms(self, done, total=None, awaited=()):
                calls.append((done, total, list(awaited)))
                if done == len(fast):
                    gate.set()

        targets = [
            ReadTarget(Registration(name=name, url=server.url))
            for name, server in zip("zyxw", [slow, *fast], strict=True)
        ]
        found = [r.podm.id for r in read(targets, DIALECTS, ReadSettings(), Calls())]
        self.assertEqual(list("zyxw"), found)
        self.assertEqual([(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)], [call[:2] for call in calls])
        first, *_, one, none = [names for *_, names in calls]
        self.assertEqual((["z", "y", "x"], ["z"], []), (first, one, none))

    def test_no_more_than_the_allowed_requests_are_under_way(self):
        for most in (1, 2, 4):
            now, lock, peak = [0], threading.Lock(), [0]

            def enter(handler, now=now, lock=lock, peak=peak):
                with lock:
                    now[0] += 1
                    peak[0] = max(peak[0], now[0])
                handler.podm.stop.wait(0.01)
                with lock:
                    now[0] -= 1

            server = self.serve(TREES["states"], rules=[enter])
            self.read(server, parallel=most)
            self.assertEqual(most, peak[0])

    def test_what_the_operator_says_stands_beside_what_the_podm_says(self):
        known = {
            "name": "east",
            "zone": "az1",
            "aggregates": ("gold",),
            "capabilities": {"media": ("ssd",)},
            "traits": ("CUSTOM_X",),
            "facts": {"rent": 2.5},
            "enabled": False,
        }
        server = self.serve(TREES["states"])
        (reading,) = self.read(server, known=known | {"url": server.url + "/redfish/v1/"})
        podm = reading.podm
        self.assertEqual(
            ("east", server.url, "az1", ("gold",), {"media": ("ssd",)}, ("CUSTOM_X",)),
            (podm.id, podm.url, podm.zone, podm.aggregates, podm.capabilities, podm.traits),
        )
        self.assertEqual(({"rent": 2.5}, False), (podm.facts, podm.enabled))
        self.assertEqual(("redfish", "2026-03-01T12:00:00Z"), (podm.driver, podm.read_at))

    def test_the_service_root_tells_the_dialect(self):
        for root, name in (
            (None, "redfish"),
            ({"Oem": {"Intel": {}}, "Nodes": 3}, "redfish"),
            ({"Nodes": {"@odata.id": "/redfish/v1/Nodes"}}, "rsd"),
            ({"Oem": {"Intel_RackScale": {}}}, "redfish"),
        ):
            self.assertEqual(name, recognised_dialect(root, DIALECTS).name)

    def test_nothing_to_read_is_nothing_read(self):
        self.assertEqual([], self.read())

    def test_devices_that_are_alike_are_one_in_all_pod_managers_of_a_run(self):
        server = self.serve(TREES["no-zones"])
        first, second = (reading.podm.blocks for reading in self.read(server, server))
        self.assertEqual(first, second)
        self.assertTrue(first)
        for one, other in zip(first, second, strict=True):
            self.assertIs(one.devices, other.devices)

    def test_more_pod_managers_than_threads_are_all_read(self):
        server = self.serve(TREES["no-zones"])
        found = self.read(*[server] * (pool.MAX_PODMS + 5), timeout_s=120)
        self.assertEqual({None}, {reading.failure for reading in found})
        self.assertEqual([f"podm-{i}" for i in range(len(found))], [r.podm.id for r in found])


if __name__ == "__main__":
    unittest.main()
