# SPDX-License-Identifier: Apache-2.0
"""The deciding engine is created again after changes of files; it compiles each request once."""

import tempfile
import threading
import time
import unittest
from pathlib import Path

import msgspec

from valence_sched.app import App
from valence_sched.errors import InputError, RequestError
from valence_sched.model.flavor import Flavor
from valence_sched.model.request_spec import RequestSpec
from valence_sched.server.engine_pool import MOST_REQUESTS, EnginePool, RequestCompiler
from valence_sched.service.settings import ServiceSettings

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "site.json")
WAITING = 3
PATIENCE_S = 30


class TestLooks(unittest.TestCase):
    """How often the state is checked."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        environ = dict.fromkeys(homes, folder)
        settings = ServiceSettings(inventories=(EXAMPLE,))
        self.looks, self.mark = 0, 0
        self.pool = EnginePool(lambda: App(environ=environ), settings, self.look)
        self.addCleanup(self.pool.close, 1.0)

    def look(self):
        self.looks += 1
        return self.mark

    def read(self):
        with self.pool.reading() as engine:
            self.engines.append(engine)

    def test_those_that_wait_share_one_look_that_is_later_than_all_of_them(self):
        self.engines = []
        with self.pool.reading() as first:
            threads = [threading.Thread(target=self.read) for _ in range(WAITING)]
            for one in threads:
                one.start()
            until = time.monotonic() + PATIENCE_S
            while sum(map(len, self.pool._lock._waiting.values())) < WAITING:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            self.mark = 1  # a change that each of them must see
        for one in threads:
            one.join(PATIENCE_S)
        self.assertEqual(2, self.looks)
        self.assertEqual(WAITING, len(self.engines))
        self.assertNotIn(first, self.engines)

    def test_one_that_comes_later_looks_again(self):
        self.engines = []
        self.read()
        self.mark = 1
        self.read()
        self.assertEqual(2, self.looks)
        self.assertIsNot(*self.engines)


CPUS = {"properties": {"processor": {"total_cores": 8}}}


def spec(**words):
    return msgspec.convert({**CPUS, **words}, RequestSpec)


class TestRequestCompiler(unittest.TestCase):
    """Requests that are compiled again, and cached ones."""

    def setUp(self):
        app = App(environ={"XDG_CONFIG_HOME": "/nonexistent"})
        self.config, self.compiler = app.config, RequestCompiler(app, ())

    def test_the_same_request_is_compiled_once(self):
        first, again = self.compiler.compile(spec(), None), self.compiler.compile(spec(), None)
        self.assertIs(first, again)
        self.assertEqual(self.config.compile_request(spec()), first)
        self.assertEqual(1, self.compiler.count)

    def test_another_one_is_another(self):
        for words in ({"count": 2}, {"seed": 1}, {"owner": "o"}, {"zone": "z"}, {"id": "i"}):
            with self.subTest(words):
                found = self.compiler.compile(spec(**words), None)
                self.assertEqual(self.config.compile_request(spec(**words)), found)
                self.assertNotEqual(self.compiler.compile(spec(), None), found)

    def test_a_flavor_that_was_read_again_counts(self):
        named = RequestSpec(flavor="f")
        for cores in (4, 8):
            flavor = msgspec.convert(
                {"name": "f", "properties": {"processor": {"total_cores": cores}}}, Flavor
            )
            (need,) = self.compiler.compile(named, flavor).needs
            self.assertEqual(cores, need.amount)

    def test_where_something_is_is_looked_up_each_time(self):
        with self.assertRaises(RequestError):
            self.compiler.compile(spec(near={"volume": "v"}), None)
        with self.assertRaises(RequestError):
            self.compiler.compile(spec(prefer_near={"volume": "v"}), None)
        self.assertEqual(2, self.compiler.count)

    def test_one_that_is_wrong_is_wrong_each_time(self):
        for _ in range(2):
            with self.assertRaises(InputError):
                self.compiler.compile(spec(where=["no operator"]), None)

    def test_few_are_remembered_and_no_large_one(self):
        first = self.compiler.compile(spec(), None)
        for seed in range(MOST_REQUESTS):
            self.compiler.compile(spec(seed=seed + 1), None)
        self.assertIsNot(first, self.compiler.compile(spec(), None))
        large = spec(podms=["p" * 100] * 50)
        self.compiler.compile(large, None)
        before = self.compiler.count
        self.compiler.compile(large, None)
        self.assertEqual(before + 1, self.compiler.count)
