# SPDX-License-Identifier: Apache-2.0
"""The engines of a process as one scheduler: a verb uses one engine until it ends."""

import contextlib
import unittest

from valence_sched.server.zone import EngineForEach


class Engine:
    """Answers some verbs, and records whether it was in use meanwhile."""

    def __init__(self, engines, kind):
        self._engines, self._kind = engines, kind

    def podms(self):
        return (self._engines.used, self._kind)

    def zone_tree(self, **_bounds):
        return (self._engines.used, self._kind)

    def documents(self):
        for _ in range(2):
            yield (self._engines.used, self._kind)

    def seal(self, request):
        return (request, self._kind)


class Engines:
    """Two kinds of engines, with counts of those in use."""

    used = 0

    def reading(self, tenant=""):
        return self._taken(f"reading for {tenant}")

    def changing(self):
        return self._taken("changing")

    @contextlib.contextmanager
    def _taken(self, kind):
        self.used += 1
        try:
            yield Engine(self, kind)
        finally:
            self.used -= 1


class TestEngineForEach(unittest.TestCase):
    def setUp(self):
        self.engines = Engines()
        self.scheduler = EngineForEach(self.engines, "acme")

    def test_a_verb_that_decides_takes_the_turn_of_its_tenant(self):
        self.assertEqual((1, "reading for acme"), self.scheduler.podms())
        self.assertEqual((1, "reading for acme"), self.scheduler.zone_tree(hops=0))
        self.assertEqual(("a request", "reading for acme"), self.scheduler.seal("a request"))
        self.assertEqual(0, self.engines.used)

    def test_every_other_verb_has_an_engine_of_its_own_and_yields_at_once(self):
        found = self.scheduler.documents()
        self.assertEqual(0, self.engines.used)
        self.assertEqual([(1, "changing")] * 2, list(found))
