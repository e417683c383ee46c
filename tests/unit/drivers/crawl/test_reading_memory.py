# SPDX-License-Identifier: Apache-2.0
"""The same answers mean the same: nothing is parsed again, and nothing that changed is missed."""

import tempfile
from datetime import timedelta
from pathlib import Path
from unittest import mock

import msgspec

from tests.unit.drivers.crawl.test_faults import status
from tests.unit.drivers.crawl.test_fewer_requests import dressed
from tests.unit.drivers.crawl.test_live import NOON, TREES, LiveTest
from valence_sched.app import App
from valence_sched.drivers.crawl import reading
from valence_sched.drivers.crawl.cache import Answers, ReadingMemory, ReadRequest
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.http.exchange import Answer, Unreachable
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadOptions, ReadPace
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

TREE = dressed(TREES["rack-mockup"])
DAY = timedelta(days=1)


def changed(data):
    """Return a document with other values of what many have; nothing of one that is no object."""
    try:
        json = msgspec.json.decode(data, type=dict)
    except msgspec.MsgspecError:
        return b"{}"
    status = {"State": "Disabled", "Health": "Critical"}
    return msgspec.json.encode(json | {"Name": "another", "TotalCores": 3, "Status": status})


class ReadingMemoryTest(LiveTest):
    """Readings of served pod managers, again and again."""

    maxDiff = None

    def setUp(self):
        super().setUp()
        self.memory = ReadingMemory()

    def again(self, server, **more):
        """Return a reading, and whether it came from the memory."""
        with mock.patch.object(reading, "read_in_passes", wraps=reading.read_in_passes) as parse:
            (found,) = self.read(server, memory=self.memory, raw=False, **more)
        return found, not parse.called

    def test_every_tree_means_the_same_again_with_no_more_requests(self):
        for name, documents in TREES.items():
            for expand in (0, 6):
                with self.subTest(name, expand=expand):
                    server = self.serve({}, expand=expand)
                    self.at_home(documents, server)
                    first, known = self.again(server)
                    self.assertFalse(known)
                    count = len(server.log)
                    second, known = self.again(server, at=NOON + DAY)
                    self.assertTrue(known)
                    self.assertEqual(count, len(server.log) - count)
                    self.assertEqual(
                        (None, first.diagnostics, first.requests),
                        (second.failure, second.diagnostics, second.requests),
                    )
                    expected = msgspec.structs.replace(first.podm, read_at=second.podm.read_at)
                    self.assertEqual(to_json(expected), to_json(second.podm))
                    self.assertEqual("2026-03-02T12:00:00Z", second.podm.read_at)

    def test_whatever_document_changes_is_read_as_without_a_memory(self):
        for expand in (0, 6):
            for uri, data in TREE.items():
                with self.subTest(uri, expand=expand):
                    server = self.serve(dict(TREE), expand=expand)
                    self.again(server)
                    server.documents[uri] = changed(data)
                    count = len(server.log)
                    found, _ = self.again(server)
                    self.assertEqual(len(server.log) - count, found.requests)
                    (expected,) = self.read(server, raw=False)
                    self.assertEqual(to_json(expected.podm), to_json(found.podm))
                    self.assertEqual(expected.diagnostics, found.diagnostics)
                    self.assertEqual(expected.failure, found.failure)

    def test_the_registration_is_that_of_now(self):
        server = self.serve(dict(TREE))
        self.again(server)
        found, known = self.again(server, known={"zone": "east", "enabled": False})
        self.assertEqual((True, "east", False), (known, found.podm.zone, found.podm.enabled))
        found, known = self.again(server, known={"max_blocks": {"Compute": 1}})
        self.assertFalse(known)
        found, known = self.again(server, known={"name": "other"})
        self.assertEqual((False, "other"), (known, found.podm.id))

    def test_a_document_that_was_refused_is_read_once_it_is_there(self):
        (block, *_) = (uri for uri in TREE if "/ResourceBlocks/" in uri)
        refuse = status(500)
        server = self.serve(dict(TREE), rules=[lambda h: h.path == block and refuse(h)])
        first, _ = self.again(server)
        server.rules.clear()
        second, _ = self.again(server)
        (expected,) = self.read(server, raw=False)
        self.assertNotEqual(first.diagnostics, second.diagnostics)
        self.assertEqual(to_json(expected.podm), to_json(second.podm))

    def test_one_that_does_not_answer_any_more_is_offline(self):
        server = self.serve(dict(TREE))
        self.again(server)
        server.close()
        found, _ = self.again(server, timeout_s=2.0)
        self.assertEqual("Offline", found.podm.status)

    def test_documents_that_rarely_change_are_asked_for_again_after_their_time(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = self.serve(dict(TREE))
        for number, (at, known, fewer) in enumerate((
            (NOON, False, False),
            (NOON + DAY / 4, False, True),  # asks for less, now that it has a file
            (NOON + DAY / 2, True, True),
            (NOON + DAY, False, False),  # all are due
        )):  # fmt: skip
            before = len(server.gets())
            found, was_known = self.again(server, at=at, cache=Path(folder.name))
            count = len(server.gets()) - before
            if not number:
                all_requests, first = count, found
            self.assertEqual((known, fewer), (was_known, count < all_requests), number)
            same = msgspec.structs.replace(first.podm, read_at=found.podm.read_at)
            self.assertEqual(to_json(same), to_json(found.podm))
        self.again(server, full=True, at=NOON + DAY, cache=Path(folder.name))  # writes the file
        self.assertFalse(self.again(server, at=NOON + DAY, cache=Path(folder.name))[1])

    def test_a_background_reader_remembers(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        url = f"sqlite:///{folder.name}/s.db"
        server = self.serve(dict(TREE))
        target = ReadTarget(Registration(name="p", url=server.url))
        with Store(url) as store:
            app = App(environ={"HOME": folder.name, "XDG_CACHE_HOME": folder.name})
            reader = app.sources.background_reader(
                ReadOptions(state=url), store, ReadPace(events=False), lambda _line: None, 1
            )
            parsed = []
            for _ in range(4):
                with mock.patch.object(
                    reading, "read_in_passes", wraps=reading.read_in_passes
                ) as parse:
                    self.assertTrue(reader._read(target).podm.blocks)
                parsed.append(parse.called)
        self.assertEqual([True, True, False, False], parsed)  # a file of devices comes first

    def test_documents_that_are_wanted_whole_are_parsed(self):
        server = self.serve(dict(TREE))
        self.again(server)
        (found,) = self.read(server, memory=self.memory, raw=True)
        self.assertTrue(found.documents)

    def test_the_least_recently_used_is_forgotten_beyond_the_bytes(self):
        podm, answers = FullPodm(id="p" * 1000), Answers(lambda *_: Answer(200, {}, b""))
        memory = ReadingMemory(3 * len(to_json(podm)))
        for name in "abc":
            memory.put(("url", name), "basis", answers, podm, (), 9.0)
        memory.get(("url", "a"), "basis", 1.0)
        memory.put(("url", "c"), "basis", answers, podm, (), 9.0)  # in place of its own
        self.assertEqual(3, len(memory))
        memory.put(("url", "d"), "basis", answers, podm, (), 9.0)
        there = {name for name in "abcd" if memory.get(("url", name), "basis", 1.0)}
        self.assertEqual({"a", "c", "d"}, there)
        self.assertIsNone(memory.get(("url", "a"), "other", 1.0))
        self.assertIsNone(memory.get(("url", "a"), "basis", 9.0))

    def test_an_early_answer_or_error_is_that_of_the_first_request(self):
        said = iter([Answer(200, {}, b"1"), Unreachable("gone"), Answer(200, {}, b"2")])

        def get(*_words):
            found = next(said)
            if isinstance(found, Exception):
                raise found
            return found

        answers = Answers(get)
        one, two = ReadRequest("/1", 9, 1.0), ReadRequest("/2", 9, 1.0)
        self.assertFalse(answers.are({one: b"", two: b""}, lambda *_: False, 4))
        self.assertEqual(b"1", answers.get("/1", 9).body)
        with self.assertRaises(Unreachable):
            answers.get("/2", 9)
        self.assertEqual(b"2", answers.get("/2", 9).body)
        self.assertFalse(answers.certain)
