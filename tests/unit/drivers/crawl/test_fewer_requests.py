# SPDX-License-Identifier: Apache-2.0
"""Few requests: whole trees in one answer where that works, and only what can change again."""

import os
import stat
import tempfile
import threading
import unittest
from datetime import timedelta
from pathlib import Path

import msgspec

from tests.unit.drivers.crawl.test_faults import hang, on, status
from tests.unit.drivers.crawl.test_live import NOON, TREES, LiveTest
from valence_sched.drivers.crawl.crawler import unfold
from valence_sched.drivers.crawl.pool import BUSY_PODMS

TREE = TREES["rack-mockup"]


def dressed(documents):
    """Return a tree whose documents have all that the specification requires."""
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


def half(drop):
    """Return a rule that expands the blocks, but leaves something out of one of them."""

    def answer(handler):
        path, _, query = handler.path.partition("?")
        if "$expand" not in query or not path.endswith("CompositionService"):
            return False
        whole = handler.podm.expanded(path, 6)
        members = whole["ResourceBlocks"]["Members"]
        for key in drop or list(members[0]):
            members[0].pop(key) if key != "@odata.id" else None
        return handler.reply(200, msgspec.json.encode(whole))

    return answer


class ExpandTest(LiveTest):
    def both(self, documents, *rules, **more):
        """Read a tree expanded and plain: the same comes of it; return the expanded server."""
        server = self.serve({}, expand=6, rules=rules)
        documents = dressed(documents)
        home = self.at_home(documents, server)
        (reading,) = self.read(server, **more)
        expected, diagnostics = self.recorded(home)
        self.same(expected, reading)
        self.assertEqual(diagnostics, reading.diagnostics)
        return server

    def test_whole_trees_come_in_few_answers(self):
        for name, documents in TREES.items():
            with self.subTest(name):
                server = self.both(documents)
                plain = self.serve({})
                self.at_home(documents, plain)
                self.read(plain)
                self.assertLess(len(server.log), len(plain.log))
                if name.startswith("public-com"):
                    self.assertEqual(4, len(server.log))

    def test_a_promise_that_is_refused_is_not_asked_for_again_and_again(self):
        for code in (400, 404, 405, 500, 501):
            with self.subTest(code):
                server = self.both(TREE, on("expand", status(code)))
                expanded = [path for path in server.gets() if "expand" in path]
                self.assertLessEqual(len(expanded), 3)

    def test_a_promise_that_is_ignored_is_not_asked_for_again_and_again(self):
        def ignore(handler):
            handler.path = handler.path.partition("?")[0]

        server = self.both(TREE, on("expand", ignore))
        expanded = [path for path in server.gets() if "expand" in path]
        self.assertIn(len(expanded), (1, 2, 3))

    def test_answers_that_are_no_json_or_never_come_are_read_plain(self):
        for act in (status(200, b"<html>"), status(200, b'{"a":' * 100_000), hang):
            self.both(TREE, on("expand", act), timeout_s=4.0)

    def test_a_member_without_required_fields_is_read_alone(self):
        for drop in (["Id"], ["Name"], ["@odata.type"], []):
            with self.subTest(drop):
                server = self.both(TREES["states"], half(drop))
                alone = [p for p in server.gets() if "/ResourceBlocks/" in p and "expand" not in p]
                self.assertEqual(1, len([p for p in alone if p.count("/") == 5]), alone)

    def test_it_is_not_asked_for_where_it_is_not_offered(self):
        server = self.serve(TREE)
        self.read(server)
        self.assertFalse([path for path in server.gets() if "expand" in path])

    def test_a_thread_more_for_few_requests_is_for_few_pod_managers_only(self):
        def peak(server):
            now, most, lock = [0], [0], threading.Lock()

            def enter(handler):
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                handler.podm.stop.wait(0.1)
                with lock:
                    now[0] -= 1

            server.rules.append(enter)
            return most

        servers = [self.serve(dressed(TREE), expand=6) for _ in range(2 * BUSY_PODMS)]
        peaks = [peak(server) for server in servers]
        self.read(servers[0])
        self.assertGreater(peaks[0][0], 1)
        peaks[0][0] = 0
        self.read(*servers)
        self.assertLess(len([most for (most,) in peaks if most > 1]), BUSY_PODMS)

    def test_documents_are_taken_out_of_another_and_links_stay(self):
        inner = {"@odata.id": "/b", "@odata.type": "#B", "Id": "b", "Name": "B", "Size": {"x": 1}}
        half = {"@odata.id": "/c", "Name": "C"}
        part = {"@odata.id": "/a#/Part", "Name": "P", "More": [inner]}
        whole = {"@odata.id": "/a", "B": inner, "C": half, "P": part, "L": {"@odata.id": "/d"}}
        found, bare = unfold(whole)
        self.assertEqual(({"/b": inner}, 1), (found, bare))
        self.assertEqual({"@odata.id": "/b"}, whole["B"])
        self.assertEqual({"@odata.id": "/c"}, whole["C"])
        self.assertEqual([{"@odata.id": "/b"}], whole["P"]["More"])


class KeptTest(LiveTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "cache"

    def twice(self, documents, expand=0, **more):
        server = self.serve({}, expand=expand)
        self.at_home(documents, server)
        (first,) = self.read(server, cache=self.folder)
        count = len(server.log)
        (second,) = self.read(server, cache=self.folder, **more)
        self.assertEqual(len(server.log) - count, second.requests)
        self.assertEqual(first.diagnostics, second.diagnostics)
        self.assertEqual(first.documents, second.documents)
        self.same(msgspec.structs.replace(first.podm, url=None, read_at=None), second)
        return first.requests, second.requests

    def test_a_repeated_read_says_the_same_with_fewer_requests(self):
        for name, documents in TREES.items():
            for expand in (0, 6):
                with self.subTest(name, expand=expand):
                    first, second = self.twice(documents, expand)
                    self.assertLessEqual(second, first + 2)
        first, second = self.twice(TREES["systems"])
        self.assertLess(second * 2, first)

    def test_the_state_of_blocks_is_always_read(self):
        server = self.serve(TREES["states"])
        self.read(server, cache=self.folder)
        uri = next(uri for uri, data in sorted(server.documents.items()) if b'"Unused"' in data)
        server.documents[uri] = server.documents[uri].replace(b'"Unused"', b'"Failed"')
        (reading,) = self.read(server, cache=self.folder)
        (block,) = [block for block in reading.podm.blocks if block.uri == uri]
        self.assertEqual("Failed", block.status.state)

    def test_a_full_read_and_a_day_later_all_is_read(self):
        day = timedelta(days=1, seconds=1)
        for more in ({"full": True}, {"at": NOON + day}, {"at": NOON - timedelta(seconds=5)}):
            server = self.serve(TREE)
            first = self.read(server, cache=self.folder)[0].requests
            self.assertEqual(first, self.read(server, cache=self.folder, **more)[0].requests)
            self.assertLess(
                self.read(server, cache=self.folder, **more | {"full": False})[0].requests, first
            )

    def test_the_file_is_ours_alone(self):
        self.twice(TREE)
        (file,) = self.folder.iterdir()
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(self.folder.stat().st_mode))

    def test_a_file_that_cannot_be_used_is_said_and_written_anew(self):
        server = self.serve(TREE)
        (first,) = self.read(server, cache=self.folder)
        (file,) = self.folder.iterdir()
        good = file.read_bytes()
        spoils = (
            lambda: file.write_bytes(good[:-9]),
            lambda: file.write_bytes(b""),
            lambda: file.write_bytes(b"nonsense"),
            lambda: os.chmod(file, 0o644),
        )
        for spoil in spoils:
            spoil()
            (second,) = self.read(server, cache=self.folder)
            self.assertEqual(first.requests, second.requests)
            self.assertIn("could not be used", "".join(one.text for one in second.diagnostics))
            (third,) = self.read(server, cache=self.folder)
            self.assertEqual(first.diagnostics, third.diagnostics)
            self.assertLess(third.requests, first.requests)

    def test_a_folder_that_cannot_be_written_is_said(self):
        self.folder.write_bytes(b"")
        (reading,) = self.read(self.serve(TREE), cache=self.folder)
        self.assertIsNone(reading.failure)
        self.assertIn("could not be written", "".join(one.text for one in reading.diagnostics))


if __name__ == "__main__":
    unittest.main()
