# SPDX-License-Identifier: Apache-2.0
"""The engine pool: what waiting requests share, and what none of them may miss."""

import tempfile
import threading
import time
import unittest
from pathlib import Path

from valence_sched.app import App
from valence_sched.server.engine_pool import EnginePool
from valence_sched.service.settings import ServiceSettings

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "site.json")
WAITING = 3
PATIENCE_S = 30


class TestLooks(unittest.TestCase):
    """How often the state is looked at."""

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
