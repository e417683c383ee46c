# SPDX-License-Identifier: Apache-2.0
"""A process may die at any point: what it left is found and brought to terms."""

import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.unit.site import EXAMPLE, Site, request, site
from valence_sched.model.composition import Wanted
from valence_sched.store.store import Store
from valence_sched.testing.served import served

ROOT = Path(__file__).parents[2]
PODM = "gpu-east"

#: Where the process dies, and whether its node is there once it was reaped.
POINTS = {
    "held": False,
    "intent": False,
    "checked": False,
    "reserved": False,
    "specific": False,
    "answered": True,
    "read back": True,
    "confirmed": True,
    "accounted": True,
    "removing": True,
    "removed": False,
    "forgotten": False,
}


class TestKilled(unittest.TestCase):
    """SIGKILL at each marked point between the decision and the end of the node."""

    def test_no_block_leaks_none_is_sold_twice_no_node_is_unaccounted_for(self):
        """S29, S76."""
        for point, there in POINTS.items():
            with self.subTest(point):
                self.check(point, there)

    def check(self, point: str, there: bool) -> None:
        with tempfile.TemporaryDirectory() as folder, served(EXAMPLE) as podms:
            url = f"sqlite:///{folder}/state.sqlite"
            child = subprocess.run(
                [sys.executable, "-m", "tests.unit.dying", point, PODM, podms[PODM].url, url],
                cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            self.assertEqual(-9, child.returncode, child.stderr)
            with Store(url) as store:
                here = Site({PODM: podms[PODM]}, store)
                here.reaped()
                nodes = store.nodes.list()
                self.assertEqual([node.name for node in nodes], here.nodes_there())
                self.assertEqual(there, bool(nodes))
                self.assertEqual([], here.taken_twice())
                self.assertEqual(here.free_blocks(), here.free_to_decide_on())
                again = here.composer.compose(here.claim(request(podms=[PODM])))
                used = {uri for node in nodes for uri in node.blocks}
                self.assertEqual(set(), used & set(again.blocks))


class TestReaping(unittest.TestCase):
    """What reaping says, and what it leaves alone."""

    def test_a_dry_run_changes_nothing(self):
        with site() as here:
            here.claimant.claim(request(), ttl_s=0.01)
            time.sleep(0.05)
            here.reaper = type(here.reaper)(here.store, here.reach, here.read, dry_run=True)
            (deed,) = here.reaper.reap()
            self.assertEqual("expired: freed what it held", deed.done)
            self.assertEqual(1, len(here.store.claims.list(("HELD",))))

    def test_a_node_that_somebody_else_took_apart_is_forgotten(self):
        with site() as here:
            node = here.composer.compose(here.claim(request()))
            with here.reach(node.podm) as hands:
                hands.remove(Wanted(name="", blocks=node.blocks), node.uri, lambda _state: None)
            deeds = [deed.done for deed in here.reaper.reap()]
            self.assertRegex(deeds[0], "forgotten, and its claim released")
            self.assertEqual([], here.store.claims.list())

    def test_a_silent_pod_manager_leaves_everything_as_it_is(self):
        with site("die-after:1") as here:
            here.composer = type(here.composer)(here.store, here.reach, here.read, ttl_s=0.01)
            here.provisioner = type(here.provisioner)(
                here.store, here.claimant, here.composer, here.read
            )
            here.provisioner.provision(request())
            time.sleep(0.05)
            (deed,) = here.reaper.reap()
            self.assertRegex(deed.done, "left as it is: .* does not tell|left as it is")
            self.assertEqual("COMPOSING", here.store.claims.list()[0].state)
