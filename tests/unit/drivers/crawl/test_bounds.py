# SPDX-License-Identifier: Apache-2.0
"""How much is read of one pod manager, and what of the cache is believed."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import msgspec
import zstandard

from tests.unit.drivers.crawl.test_faults import BLOCKS, TREE, LiveTest
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.crawl import cache as document_cache
from valence_sched.drivers.crawl import crawler
from valence_sched.drivers.crawl.cache import MAX_AGE_S, CacheFile, DocumentCache
from valence_sched.drivers.crawl.crawler import ExpandReader
from valence_sched.drivers.crawl.reading import read_in_passes
from valence_sched.drivers.fields import MAX_TEXT, Link, Resource
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.model.registration import Registration


class DocumentsTest(LiveTest):
    """Documents that are there and such that are not count alike."""

    def test_exactly_so_many_documents_are_read_and_not_one_more(self):
        for missing in ((), BLOCKS[:2]):
            documents = {uri: data for uri, data in TREE.items() if uri not in missing}
            (whole,) = self.read(self.serve(documents))
            self.assertIsNone(whole.failure)
            linked = len(whole.documents) + len(missing)
            for most, fails in ((linked, False), (linked - 1, True)):
                with (
                    self.subTest(missing=missing, most=most),
                    mock.patch.object(crawler, "MAX_DOCUMENTS", most),
                ):
                    (reading,) = self.read(self.serve(documents))
                    self.assertEqual(fails, reading.failure is not None)
                    if fails:
                        self.assertIn(f"links more than {most} documents", reading.failure)
                        self.assertEqual(((), "Unknown"),
                                         (reading.podm.blocks, reading.podm.status))  # fmt: skip

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

    def test_one_request_at_a_time_starts_no_other_thread(self):
        server = self.serve(TREE)
        known = Registration(name="podm", url=server.url)
        for parallel, starts in ((1, False), (2, True)):
            started = []
            with Connection(known, None, Deadline(20)) as connection:
                cache = DocumentCache(None, server.url, None, 0)
                crawl = crawler.Crawler(
                    ExpandReader(connection), cache, connection.host, parallel,
                    lambda *_, seen=started: bool(seen.append(1)),
                )  # fmt: skip
                root = connection.get("/redfish/v1").json("/redfish/v1")
                read_in_passes(crawl, DIALECTS["redfish"](), root, "podm", connection.host)
            self.assertEqual(starts, bool(started))


class TestCache(unittest.TestCase):
    """A file that is too old, too large, another one's or not ours alone is not used."""

    URL = "https://h"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.saved({"a": 1})

    def saved(self, document, now_s=0.0):
        cache = DocumentCache(self.folder, self.URL, "user", now_s)
        cache.save([("/x", document)])
        return cache.problem

    def loaded(self, now_s=0.0, user="user"):
        cache = DocumentCache(self.folder, self.URL, user, now_s)
        cache.load()
        return cache.get("/x"), cache.problem

    def refused(self, words, **more):
        found, problem = self.loaded(**more)
        self.assertIsNone(found)
        self.assertRegex(problem or "", rf": could not be used: {words} \(all was read anew\)$")

    def test_what_was_written_is_read_until_it_is_too_old(self):
        for now_s, found in ((0.0, {"a": 1}), (MAX_AGE_S - 1, {"a": 1}), (MAX_AGE_S, None)):
            self.assertEqual((found, None), self.loaded(now_s))

    def test_another_user_has_a_file_of_its_own(self):
        self.assertEqual((None, None), self.loaded(user="other"))
        (path,) = self.folder.iterdir()
        named = DocumentCache(self.folder, self.URL, "other", 0.0)
        os.rename(path, named._path)
        self.refused("it is of another version or pod manager", user="other")

    def test_a_service_that_replaces_another_at_its_url_does_not_get_its_documents(self):
        for before, after in (("uuid:a", "uuid:b"), (None, "uuid:b"), ("uuid:a", None)):
            with self.subTest(before=before, after=after):
                first = DocumentCache(self.folder, self.URL, "user", 0.0, before)
                first.save([("/x", {"a": 1})])
                for identity, found in ((before, {"a": 1}), (after, None)):
                    cache = DocumentCache(self.folder, self.URL, "user", 0.0, identity)
                    cache.load()
                    self.assertEqual(found, cache.get("/x"))
                    self.assertIsNone(cache.problem)

    def test_a_file_that_others_can_read_or_write_is_not_believed(self):
        (path,) = self.folder.iterdir()
        for mode in (0o640, 0o604, 0o620, 0o602, 0o610):
            path.chmod(mode)
            self.refused("others can read or write it")
        path.chmod(0o600)
        self.assertEqual(({"a": 1}, None), self.loaded())

    def test_a_file_of_more_bytes_than_the_bound_is_not_read(self):
        (path,) = self.folder.iterdir()
        size = path.stat().st_size
        for most, fails in ((size, False), (size - 1, True)):
            with mock.patch.object(document_cache, "MAX_FILE_BYTES", most):
                if fails:
                    self.refused("it is too large")
                else:
                    self.assertEqual(({"a": 1}, None), self.loaded())

    def test_a_file_that_unpacks_to_more_is_neither_read_nor_written(self):
        with mock.patch.object(document_cache, "MAX_CACHE_BYTES", 20):
            self.refused("it holds too much")
            self.assertRegex(self.saved({"a": 2}), r": \d+ bytes are too many to keep$")
        self.assertEqual(({"a": 1}, None), self.loaded())

    def test_below_what_is_cached_fewer_levels_are_asked_for(self):
        link = Link("Blocks", Resource, "", levels=5, levels_kept=1)
        cache = DocumentCache(self.folder, self.URL, "user", 0.0)
        self.assertEqual(5, cache.levels(link))
        cache.load()
        self.assertEqual(1, cache.levels(link))

    def test_a_document_keeps_the_time_at_which_it_was_read(self):
        cache = DocumentCache(self.folder, self.URL, "user", 60.0)
        cache.load()
        cache.save([("/x", cache.get("/x")), ("/y", {"b": 2})])
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
        empty.save([])
        self.assertFalse(folder.exists())
        empty.save([("/x", {})])
        self.assertEqual(1, len(list(folder.iterdir())))
        none = DocumentCache(None, self.URL, None, 0.0)
        none.save([("/x", {})])
        none.load()
        self.assertEqual((False, True), (none.enabled, empty.enabled))
        self.assertIsNone(none.problem)

    def test_exactly_as_many_bytes_as_the_bound_are_written_and_read(self):
        size = len(msgspec.json.encode(self.content({"a": 1})))
        for most, problem in ((size, False), (size - 1, True)):
            with mock.patch.object(document_cache, "MAX_CACHE_BYTES", most):
                self.assertEqual(problem, self.saved({"a": 1}) is not None)
                self.assertEqual((None if problem else {"a": 1}), self.loaded()[0])

    def test_a_file_that_does_not_say_its_size_is_read_up_to_the_bound(self):
        (path,) = self.folder.iterdir()
        data = msgspec.json.encode(self.content({"a": 3}))
        packer = zstandard.ZstdCompressor(write_content_size=False)
        path.write_bytes(packer.compress(data))
        self.assertEqual(({"a": 3}, None), self.loaded())
        with mock.patch.object(document_cache, "MAX_CACHE_BYTES", 20):
            self.refused(".+")

    def content(self, document):
        named = DocumentCache(self.folder, self.URL, "user", 0.0)
        return CacheFile(document_cache.VERSION, named._url, {"/x": (0.0, document)})
