# SPDX-License-Identifier: Apache-2.0
"""Requests that a process compiles: each once while it is the same."""

import unittest

import msgspec

from valence_sched.app import App
from valence_sched.errors import InputError, RequestError
from valence_sched.model.flavor import Flavor
from valence_sched.model.request_spec import RequestSpec
from valence_sched.server.engine_pool import MOST_REQUESTS, RequestCompiler

CPUS = {"properties": {"processor": {"total_cores": 8}}}


def spec(**words):
    return msgspec.convert({**CPUS, **words}, RequestSpec)


class TestRequestCompiler(unittest.TestCase):
    """What is compiled again, and what is not."""

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
