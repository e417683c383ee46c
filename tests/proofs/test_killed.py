# SPDX-License-Identifier: Apache-2.0
"""A process may die at any point: its remains are found and reconciled.

``VALENCE_SCHED_SOAK`` kills it at every point.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from functools import partial

import sqlalchemy as sa

from tests.proofs import dying
from tests.unit.lifecycle.site import Site, request
from tests.unit.store.engines import SERVERS, StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, podm
from tests.unit.trees import tree
from valence_sched import testing
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PODM = "gpu-east"
SOAK = os.environ.get("VALENCE_SCHED_SOAK")  # then it dies everywhere
#: The points of death, and whether the node exists after reaping.
POINTS = {
    "held": False,
    "intent": False,
    "checked": False,
    "reserved": False,
    "composing (specific)": False,
    "answered": True,
    "read back": True,
    "confirmed": True,
    "removing": True,
    "removed": False,
    "forgotten": False,
}


class Killed:
    """A process that dies on served pod managers, and its successor."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.tree = tree(PODM)

    def documents(self) -> dict:
        return {uri: dict(json) for uri, json in self.tree.items()}

    def dies(self, point: str, url: str, count: int = 0, fail: str = "", podms: int = 1) -> int:
        """Let a process die at a point, reap, and check everything; return the number of nodes."""
        names = [f"{PODM}-{number}" for number in range(podms)]
        documents = {name: self.documents() for name in names}
        rules = [f"{fail}@{names[0]}"] if fail else []
        with served(documents=documents, fail=rules) as there:
            words = [word for name in names for word in (name, there[name].url)]
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([dying.__name__])
            child = context.Process(target=dying.main, args=(point, count, url, *words))
            child.start()
            child.join(60)
            self.assertEqual(-signal.SIGKILL, child.exitcode)
            with Store(url) as store:
                here = Site(there, store)
                here.clear_faults()
                here.reconcile()
                return self.check(here)

    def check(self, here: Site) -> int:
        nodes = here.store.nodes.list()
        self.assertEqual(sorted(node.name for node in nodes), here.node_names())
        self.assertEqual([], here.blocks_used_twice())
        self.assertEqual(here.free_blocks(), here.free_to_decide())
        again = here.composer.compose(here.claim(request()))
        used = {(node.podm, uri) for node in nodes for uri in node.blocks}
        self.assertEqual(set(), used & {(again.podm, uri) for uri in again.blocks})
        return len(nodes)


class TestKilled(Killed, unittest.TestCase):
    """SIGKILL at each marked point between the decision and the end of the node."""

    points = POINTS if SOAK else ("held", "reserved", "answered", "confirmed", "removed")

    def dies_here(self, point: str, **words) -> int:
        with tempfile.TemporaryDirectory() as folder:
            return self.dies(point, f"sqlite:///{folder}/state.sqlite", **words)

    def test_no_block_leaks_none_is_sold_twice_no_node_is_unaccounted_for(self):
        """S29, S76."""
        for point in self.points:
            with self.subTest(point):
                self.assertEqual(int(POINTS[point]), self.dies_here(point))

    def test_between_several_nodes(self):
        """S29: the claim is held as a whole, then node by node."""
        for point, there in (("taken", (0,)), ("split", (0,)), ("answered", (1, 2))):
            with self.subTest(point):
                self.assertIn(self.dies_here(point, count=2), there)

    def test_while_too_little_is_taken_back(self):
        self.assertEqual(0, self.dies_here("taken back", count=1, fail="failed-node"))

    def test_before_the_second_choice_is_composed(self):
        fail = "status:500:POST:/redfish/v1/Systems"
        self.assertEqual(0, self.dies_here("another", count=1, fail=fail, podms=2))


@partial(on_each_engine, engines=SERVERS)
class TestKilledOn(Killed):
    """The same on each database server, at the points between two changes of the store."""

    def test_the_store_and_the_pod_manager_come_to_terms(self):
        """S29, S76."""
        for point in POINTS if SOAK else ("answered",):
            with self.subTest(point):
                self.url = self.fresh_url()
                self.assertEqual(int(POINTS[point]), self.dies(point, self.url))


PROGRAM = """
import sys
from tests.unit.store.site import CORES, claimer
from valence_sched.store.store import Store
from valence_sched.testing import request
with Store(sys.argv[1]) as store:
    own = claimer(store)
    while True:
        done = own.claim(request(CORES, owner=sys.argv[2]))
        if done.claim is None: break
        print(done.claim.id, *done.claim.parts[0].blocks, flush=True)
"""


class TestKilledClaims(StoreCase):
    """S76: two processes, one file, and SIGKILL."""

    def test_nothing_is_lost_and_nothing_is_broken(self):
        self.one.remember(podm(blocks=600))
        promised = []
        for turn in range(4 if SOAK else 1):
            running = [self.start(f"{turn}-{number}") for number in range(2)]
            for process in running:
                promised += [process.stdout.readline().split() for _ in range(3 + turn)]
            for process in running:
                os.kill(process.pid, signal.SIGKILL)
                rest, _ = process.communicate()
                promised += [line.split() for line in rest.splitlines(keepends=True)
                         if line.endswith("\n")]  # fmt: skip
        self.assertEqual([("ok",)], self.execute(sa.text("PRAGMA integrity_check")))
        claims = {claim.id: claim for claim in self.store().claims.list()}
        self.assertGreaterEqual(len(promised), 20 if SOAK else 6)
        for claim, block in promised:  # every answered claim exists
            self.assertEqual((block,), claims[claim].parts[0].shares[0].blocks)
        blocks = [uri for claim in claims.values() for uri in claim.parts[0].blocks]
        self.assertEqual(len(blocks), len(set(blocks)))
        (change,) = self.store().snapshot().changes
        self.assertEqual(set(blocks), set(change.usage.blocks))  # and no other block is held
        self.assertIsNotNone(claimer(self.store()).claim(testing.request(CORES)).claim)

    def start(self, owner):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.url, owner], stdout=subprocess.PIPE, text=True
        )
