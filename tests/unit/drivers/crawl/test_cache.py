# SPDX-License-Identifier: Apache-2.0
"""Equal answers are not parsed again, and every change is noticed."""

import json
import os
import tempfile
import unittest
from datetime import timedelta
from pathlib import Path
from unittest import mock

import msgspec
import zstandard

from tests.unit.drivers.live import NOON, TREE, TREES, LiveTest, dressed, sampled, status
from valence_sched.app import App
from valence_sched.drivers.crawl import cache, reading
from valence_sched.drivers.crawl.cache import (
    MAX_AGE_S,
    Answers,
    CacheFile,
    DocumentCache,
    ReadingMemory,
    ReadRequest,
    RememberedReading,
)
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.fields import MAX_TEXT, Link, Resource
from valence_sched.drivers.http.exchange import Answer, Unreachable
from valence_sched.inventory.background_reader import background_reader
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadOptions, ReadPace
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

RACK = dressed(TREES["rack-mockup"])
DAY = timedelta(days=1)


def changed(data):
    """Return a document with other values of common properties, None if it is not an object."""
    try:
        json = msgspec.json.decode(data, type=dict)
    except msgspec.MsgspecError:
        return b"{}"
    status = {"State": "Disabled", "Health": "Critical"}
    return msgspec.json.encode(json | {"Name": "another", "TotalCores": 3, "Status": status})


class ReadingMemoryTest(LiveTest):
    """Repeated readings of served pod managers."""

    maxDiff = None

    def setUp(self):
        super().setUp()
        self.memory = ReadingMemory()

    def again(self, server, **more):
        """Return a reading, and whether it came from the cache."""
        with mock.patch.object(reading, "read_in_passes", wraps=reading.read_in_passes) as parse:
            (found,) = self.read(server, memory=self.memory, raw=False, **more)
        return found, not parse.called

    def test_every_tree_means_the_same_again_with_no_more_requests(self):
        for (name, documents), expand in sampled(TREES.items(), (0, 6)):
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
        for (uri, data), expand in sampled(RACK.items(), (0, 6)):
            with self.subTest(uri, expand=expand):
                server = self.serve(dict(RACK), expand=expand)
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
        server = self.serve(dict(RACK))
        self.again(server)
        found, known = self.again(server, known={"zone": "east", "enabled": False})
        self.assertEqual((True, "east", False), (known, found.podm.zone, found.podm.enabled))
        found, known = self.again(server, known={"max_blocks": {"Compute": 1}})
        self.assertFalse(known)
        found, known = self.again(server, known={"name": "other"})
        self.assertEqual((False, "other"), (known, found.podm.id))

    def test_a_document_that_was_refused_is_read_once_it_is_there(self):
        (block, *_) = (uri for uri in RACK if "/ResourceBlocks/" in uri)
        refuse = status(500)
        server = self.serve(dict(RACK), rules=[lambda h: h.path == block and refuse(h)])
        first, _ = self.again(server)
        server.rules.clear()
        second, _ = self.again(server)
        (expected,) = self.read(server, raw=False)
        self.assertNotEqual(first.diagnostics, second.diagnostics)
        self.assertEqual(to_json(expected.podm), to_json(second.podm))

    def test_one_that_does_not_answer_any_more_is_offline(self):
        server = self.serve(dict(RACK))
        self.again(server)
        server.close()
        found, _ = self.again(server, timeout_s=2.0)
        self.assertEqual("Offline", found.podm.status)

    def test_documents_that_rarely_change_are_asked_for_again_after_their_time(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        server = self.serve(dict(RACK))
        for number, (at, known, fewer) in enumerate((
            (NOON, False, False),
            (NOON + DAY / 4, False, True),  # fewer requests, now that it has a file
            (NOON + DAY / 2, True, True),
            (NOON + DAY, False, False),  # all are due
        )):  # fmt: skip
            before = len(server.gets())
            found, was_known = self.again(server, at=at, cache=Path(folder))
            count = len(server.gets()) - before
            if not number:
                all_requests, first = count, found
            self.assertEqual((known, fewer), (was_known, count < all_requests), number)
            same = msgspec.structs.replace(first.podm, read_at=found.podm.read_at)
            self.assertEqual(to_json(same), to_json(found.podm))
        self.again(server, full=True, at=NOON + DAY, cache=Path(folder))  # writes the file
        self.assertFalse(self.again(server, at=NOON + DAY, cache=Path(folder))[1])

    def test_a_background_reader_remembers(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/s.db"
        server = self.serve(dict(RACK))
        target = ReadTarget(Registration(name="p", url=server.url))
        with Store(url) as store:
            app = App(environ={"HOME": folder, "XDG_CACHE_HOME": folder})
            reader = background_reader(
                app.sources,
                ReadOptions(state=url),
                store,
                ReadPace(events=False),
                lambda _line: None,
                1,
            )
            parsed = []
            for _ in range(4):
                with mock.patch.object(
                    reading, "read_in_passes", wraps=reading.read_in_passes
                ) as parse:
                    self.assertTrue(reader._read(target).podm.blocks)
                parsed.append(parse.called)
        self.assertEqual([True, True, False, False], parsed)  # a device file comes first

    def test_documents_that_are_wanted_whole_are_parsed(self):
        server = self.serve(dict(RACK))
        self.again(server)
        (found,) = self.read(server, memory=self.memory, raw=True)
        self.assertTrue(found.documents)

    def test_the_least_recently_used_is_forgotten_beyond_the_bytes(self):
        past = RememberedReading("basis", {}, to_json(FullPodm(id="p" * 1000)), (), 9.0)
        memory = ReadingMemory(3 * len(past.document))
        for name in "abc":
            memory.put(("url", name), past)
        memory.get(("url", "a"), "basis", 1.0)
        memory.put(("url", "c"), past)  # in place of its own
        self.assertEqual(3, len(memory))
        memory.put(("url", "d"), past)
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


class DocumentsTest(LiveTest):
    """Existing and missing documents count alike."""

    def test_a_link_of_more_characters_than_the_bound_is_not_followed(self):
        uri = next(uri for uri in TREE if uri.endswith("/ResourceBlocks"))
        collection = json.loads(TREE[uri])
        for length, followed in ((MAX_TEXT, True), (MAX_TEXT + 1, False)):
            link = f"{uri}/".ljust(length, "x")
            members = [*collection["Members"], {"@odata.id": link}]
            data = json.dumps(collection | {"Members": members}).encode()
            server = self.serve({**TREE, uri: data})
            (reading,) = self.read(server)
            self.assertIsNone(reading.failure)
            self.assertEqual(followed, link in server.gets())


class TestCache(unittest.TestCase):
    """A file is not used if it is too old, too large, of another user, or writable by others."""

    URL = "https://h"

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.saved({"a": 1})

    def saved(self, document, now_s=0.0):
        cache = DocumentCache(self.folder, self.URL, "user", now_s)
        cache.save({"/x": document})
        return cache.problem

    def loaded(self, now_s=0.0, user="user"):
        cache = DocumentCache(self.folder, self.URL, user, now_s)
        cache.load()
        return cache.get("/x"), cache.problem

    def refused(self, words, **more):
        found, problem = self.loaded(**more)
        self.assertIsNone(found)
        self.assertRegex(problem or "", rf": could not be used: {words} \(reading all documents\)$")

    def test_what_was_written_is_read_until_it_is_too_old(self):
        for now_s, found in ((0.0, {"a": 1}), (MAX_AGE_S - 1, {"a": 1}), (MAX_AGE_S, None)):
            self.assertEqual((found, None), self.loaded(now_s))

    def test_another_user_has_a_file_of_its_own(self):
        self.assertEqual((None, None), self.loaded(user="other"))
        (path,) = self.folder.iterdir()
        named = DocumentCache(self.folder, self.URL, "other", 0.0)
        os.rename(path, named._path)
        self.refused("it belongs to another version or pod manager", user="other")

    def test_a_service_that_replaces_another_at_its_url_does_not_get_its_documents(self):
        for before, after in (("uuid:a", "uuid:b"), (None, "uuid:b"), ("uuid:a", None)):
            with self.subTest(before=before, after=after):
                first = DocumentCache(self.folder, self.URL, "user", 0.0, before)
                first.save({"/x": {"a": 1}})
                for identity, found in ((before, {"a": 1}), (after, None)):
                    cache = DocumentCache(self.folder, self.URL, "user", 0.0, identity)
                    cache.load()
                    self.assertEqual(found, cache.get("/x"))
                    self.assertIsNone(cache.problem)

    def test_a_file_that_others_can_read_or_write_is_not_believed(self):
        (path,) = self.folder.iterdir()
        for mode in (0o640, 0o604, 0o620, 0o602, 0o610):
            path.chmod(mode)
            self.refused("other users can read or write it")
        path.chmod(0o600)
        self.assertEqual(({"a": 1}, None), self.loaded())

    def test_a_file_that_is_no_cache_or_half_of_one_is_not_used(self):
        (path,) = self.folder.iterdir()
        for data in (b"", b"nonsense", path.read_bytes()[:-9]):
            path.write_bytes(data)
            self.refused(".+")

    def test_a_file_of_more_bytes_than_the_bound_is_not_read(self):
        (path,) = self.folder.iterdir()
        size = path.stat().st_size
        for most, fails in ((size, False), (size - 1, True)):
            with mock.patch.object(cache, "MAX_FILE_BYTES", most):
                if fails:
                    self.refused("it is too large")
                else:
                    self.assertEqual(({"a": 1}, None), self.loaded())

    def test_a_file_that_unpacks_to_more_is_neither_read_nor_written(self):
        with mock.patch.object(cache, "MAX_CACHE_BYTES", 20):
            self.refused("its content is too large")
            self.assertRegex(self.saved({"a": 2}), r": \d+ bytes exceed the limit of the cache$")
        self.assertEqual(({"a": 1}, None), self.loaded())

    def test_below_what_is_cached_fewer_levels_are_asked_for(self):
        link = Link("Blocks", Resource, "", levels=5, cached=1)
        cache = DocumentCache(self.folder, self.URL, "user", 0.0)
        self.assertEqual(5, cache.levels(link))
        cache.load()
        self.assertEqual(1, cache.levels(link))

    def test_a_document_keeps_the_time_at_which_it_was_read(self):
        cache = DocumentCache(self.folder, self.URL, "user", 60.0)
        cache.load()
        cache.save({"/x": cache.get("/x"), "/y": {"b": 2}})
        again = DocumentCache(self.folder, self.URL, "user", MAX_AGE_S + 1)
        again.load()
        self.assertEqual((None, {"b": 2}), (again.get("/x"), again.get("/y")))

    def test_what_was_read_later_than_now_is_not_believed(self):
        self.saved({"a": 1}, now_s=10.0)
        self.assertEqual((None, None), self.loaded(9.0))
        self.assertEqual(({"a": 1}, None), self.loaded(10.0))

    def test_nothing_is_written_where_there_is_nothing_to_keep_or_no_folder(self):
        folder = self.folder / "new" / "deep"
        empty = DocumentCache(folder, self.URL, None, 0.0)
        empty.save({})
        self.assertFalse(folder.exists())
        empty.save({"/x": {}})
        self.assertEqual(1, len(list(folder.iterdir())))
        none = DocumentCache(None, self.URL, None, 0.0)
        none.save({"/x": {}})
        none.load()
        self.assertEqual((False, True), (none.enabled, empty.enabled))
        self.assertIsNone(none.problem)

    def test_exactly_as_many_bytes_as_the_bound_are_written_and_read(self):
        size = len(msgspec.json.encode(self.content({"a": 1})))
        for most, problem in ((size, False), (size - 1, True)):
            with mock.patch.object(cache, "MAX_CACHE_BYTES", most):
                self.assertEqual(problem, self.saved({"a": 1}) is not None)
                self.assertEqual((None if problem else {"a": 1}), self.loaded()[0])

    def test_a_file_that_does_not_say_its_size_is_read_up_to_the_bound(self):
        (path,) = self.folder.iterdir()
        data = msgspec.json.encode(self.content({"a": 3}))
        packer = zstandard.ZstdCompressor(write_content_size=False)
        path.write_bytes(packer.compress(data))
        self.assertEqual(({"a": 3}, None), self.loaded())
        with mock.patch.object(cache, "MAX_CACHE_BYTES", 20):
            self.refused(".+")

    def content(self, document):
        named = DocumentCache(self.folder, self.URL, "user", 0.0)
        return CacheFile(cache.VERSION, named._url, {"/x": (0.0, document)})
