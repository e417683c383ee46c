# SPDX-License-Identifier: Apache-2.0
"""Zones die, hang and are cut off: the others answer, nothing is composed twice, nothing leaks.

With ``VALENCE_SCHED_SOAK`` a link is cut in each way at each moment, otherwise in one way.
"""

import contextlib
import functools
import os
import re
import signal
import tempfile
import threading
import unittest
import urllib.request
import uuid
from pathlib import Path

import sqlalchemy as sa

from tests.proofs.cut_link import Cut, CutLink
from tests.proofs.namespace_link import NamespaceLink
from tests.proofs.zone_tree import ZoneTreeProcess, zone_tree
from tests.unit.lifecycle.site import request
from tests.unit.store.engines import raw_engine
from valence_sched.errors import SchedulerError
from valence_sched.model.zone_registry import ZoneChange
from valence_sched.store import tables
from valence_sched.store.store import Store

DEADLINE_S, TTL_S, AGE_S = 3.0, 60.0, 3600.0
PODMS, BLOCKS = 1, 30  # pod managers of each of the two lowest zones
JOBS = 4
SOAK = os.environ.get("VALENCE_SCHED_SOAK")
PODM = re.compile(r"^(\S+) (http://\S+)$", re.MULTILINE)


class SharedTree:
    """A tree for all tests of this module, which starts at its first use and after an end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    @functools.cached_property
    def tree(self) -> ZoneTreeProcess:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        words = ("--pod-managers", str(PODMS), "--blocks", str(BLOCKS), "--deadline",
                 str(DEADLINE_S))  # fmt: skip
        return self._stack.enter_context(zone_tree(folder, *words))

    def end(self) -> None:
        vars(self).pop("tree", None)
        self._stack.close()


SHARED = SharedTree()


def tearDownModule():
    SHARED.end()


class TreeProof(unittest.TestCase):
    """A test case with a router over two zones, each with its own pod manager.

    Each test leaves the tree as it was. After a failure to do so, the next test starts another.
    """

    def setUp(self):
        self.tree = SHARED.tree
        self.top = self.tree.scheduler()
        self.answers: list[object] = []
        self.key = uuid.uuid4().hex  # of the jobs
        self.addCleanup(self.restore)

    def restore(self):
        """Restore the zones, and check that no claim is left after the end of all nodes."""
        with contextlib.ExitStack() as failed:
            failed.callback(SHARED.end)
            for path in self.tree.urls:
                self.tree.signal(path, signal.SIGCONT)
            self.top.change_zone("z1", ZoneChange(url=self.tree.urls["top/z1"]))
            self.tree.wait_for(self.is_active, "zone z1")
            nodes = [one.node.id for one in self.top.nodes()]
            self.assertEqual([], list(self.top.delete_nodes(nodes)))
            self.check_nothing_leaks()
            self.assertEqual([], self.made())
            failed.pop_all()

    def is_active(self):
        return self.top.zone("z1").report.is_active

    def work(self, verb):
        """Start jobs one after another from a thread, which records their answers or errors."""

        def run():
            for number in range(JOBS):
                try:
                    self.answers.append(verb(number))
                except SchedulerError as error:
                    self.answers.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def join(self, thread):
        """Wait for all jobs: each ends within a few deadlines."""
        thread.join(120)
        self.assertFalse(thread.is_alive(), self.answers)
        self.assertEqual(JOBS, len(self.answers))

    def made(self):
        """Return the names of the existing nodes."""
        log = (self.tree.folder / "pod-managers.log").read_text()
        names = []
        for _, url in PODM.findall(log):
            with urllib.request.urlopen(f"{url}/Systems", timeout=10) as answer:
                names += re.findall(rb"/Systems/(vs-[\w-]+)", answer.read())
        return sorted(name.decode() for name in names)

    def held(self):
        """Return the claims of all zones that are neither composed nor ended."""
        found = []
        for path in self.tree.urls:
            with Store(self.tree.state(path)) as store:
                store.claims.expire()
                store.zone_claims.expire()
                found += store.claims.list(("PREPARED", "HELD", "COMPOSING"))
                found += store.zone_claims.list(("PREPARED", "HELD", "COMPOSING", "RELEASING"))
        return found

    def check_nothing_leaks(self):
        """Check that after expiry and reconciliation only composed blocks are in use."""

        def settled():
            for path in ("top/z1", "top/z2", "top"):
                self.age(path)
                self.tree.scheduler(path).reconcile()
            return not self.held()

        self.tree.wait_for(settled, "the end of all claims", 90)
        nodes = {one.node.id.partition("/")[2] for one in self.top.nodes()}
        self.assertEqual(set(self.made()), nodes)
        for path in ("top/z1", "top/z2"):
            with Store(self.tree.state(path)) as store:
                uris = [uri for node in store.nodes.list() for uri in node.blocks]
                self.assertEqual(len(uris), len(set(uris)))
                held = [uri for claim in store.claims.list() for part in claim.parts
                        for uri in part.blocks]  # fmt: skip
                self.assertEqual(sorted(uris), sorted(held))

    def age(self, path):
        """Let all that a zone prepares or holds expire."""
        engine = raw_engine(self.tree.state(path))
        with engine.begin() as connection:
            for table in (tables.claims, tables.zone_claims):
                times = {name: table.c[name] - AGE_S for name in ("expires_at", "sweep_at")
                         if name in table.c}  # fmt: skip
                waiting = table.c.state.in_(("PREPARED", "HELD"))
                connection.execute(sa.update(table).where(waiting).values(times))
        engine.dispose()

    def end_waiting(self, path):
        """Let compositions in progress expire, which otherwise takes long."""
        engine = raw_engine(self.tree.state(path))
        with engine.begin() as connection:
            for table in (tables.claims, tables.zone_claims):
                composing = table.c.state == "COMPOSING"
                connection.execute(sa.update(table).where(composing).values(expires_at=1.0))
        engine.dispose()

    def apart(self, number, **words):
        """Return the request of a job: a node in each zone, or in one of them."""
        group = {"name": f"g{number}", "anti_affinity": ["podm"]}
        return request(count=2, min_count=1, seed=number, group=group, **words)

    def compose(self, number):
        key = f"{self.key}-{number}"
        return self.top.compose(self.apart(number), key=key, ttl_s=TTL_S, wait_s=5)

    def check_composed_once(self):
        """Check that each repeated job gets the same nodes, and that no node is added."""
        before = self.made()
        self.assertLessEqual(len(before), 2 * JOBS)
        done = [(number, {node.id for node in one.nodes}) for number, one in
                enumerate(self.answers) if getattr(one, "nodes", ())]  # fmt: skip
        self.assertTrue(done, self.answers)
        for number, ids in done:
            self.assertLessEqual(ids, {node.id for node in self.compose(number).nodes})
        self.assertEqual(before, self.made())


class TestDeaths(TreeProof):
    """``kill -9`` of a zone with all its processes."""

    def test_a_zone_dies_while_all_of_them_claim(self):
        """S70: the other zones continue; the abandoned parts expire."""

        def claim(number):
            return self.top.claim(request(count=2, seed=number), ttl_s=TTL_S)

        thread = self.work(claim)
        self.tree.wait_for(lambda: self.answers, "the first claim")
        self.tree.signal("top/z1", signal.SIGKILL)
        self.join(thread)
        found = self.top.select_destinations(request(count=2)).report
        self.assertEqual({"z2"}, {one.zone for one in found.zones.placements})
        self.assertEqual(["z1"], [one.zone for one in found.zones.silent])
        self.tree.start_again("top/z1")
        self.check_nothing_leaks()
        self.assertEqual([], self.made())

    def test_a_zone_dies_while_all_of_them_compose(self):
        def compose(number):
            asked = request(count=2, min_count=1, seed=number)
            key = f"{self.key}-{number}"
            return self.top.compose(asked, key=key, ttl_s=TTL_S, wait_s=5)

        thread = self.work(compose)
        self.tree.wait_for(self.made, "the first node")
        self.tree.signal("top/z1", signal.SIGKILL)
        self.join(thread)
        self.assertTrue([one for one in self.answers if getattr(one, "nodes", ())])
        self.tree.start_again("top/z1")
        self.end_waiting("top/z1")
        self.end_waiting("top")
        self.check_nothing_leaks()
        self.assertLessEqual(len(self.made()), 2 * JOBS)


class TestHangs(TreeProof):
    """``kill -STOP``: connections are accepted, but not answered."""

    def test_a_zone_that_hangs_costs_its_deadline_and_holds_nothing_for_long(self):
        self.tree.signal("top/z1", signal.SIGSTOP)
        found = self.top.select_destinations(request(count=2)).report
        self.assertEqual(["z1"], [one.zone for one in found.zones.silent])
        self.assertEqual(2, len(found.placements))
        thread = self.work(lambda number: self.top.claim(request(seed=number), ttl_s=TTL_S))
        self.join(thread)
        claims = [one.claim for one in self.answers if getattr(one, "claim", None)]
        self.assertEqual(JOBS, len(claims), self.answers)
        self.assertEqual({"z2/z2-podm-1"}, {part.podm for one in claims for part in one.parts})
        self.tree.signal("top/z1", signal.SIGCONT)
        self.check_nothing_leaks()

    def test_a_zone_that_hangs_while_all_of_them_compose_composes_nothing_twice(self):
        thread = self.work(self.compose)
        self.tree.wait_for(self.made, "the first node")
        self.tree.signal("top/z1", signal.SIGSTOP)
        self.join(thread)
        self.assertEqual(["z1"], [one.zone for one in self.top.nodes().silent])
        self.tree.signal("top/z1", signal.SIGCONT)
        self.end_waiting("top")
        self.check_nothing_leaks()
        self.check_composed_once()


def moments(*names):
    """Remove the other tests from a class, except in a soak test."""

    def reduced(case):
        for name in dir(case):
            if name.startswith("test_") and not SOAK and not name.endswith(names):
                setattr(case, name, None)
        return case

    return reduced


class Partitions:
    """The link to a zone is cut at its answer: the work is done, and the answer is lost."""

    cut: Cut = "drop"
    new_link: type[CutLink] = CutLink

    def setUp(self):
        super().setUp()
        self.link = self.new_link(self.tree.urls["top/z1"])
        self.addCleanup(self.link.close)
        self.top.change_zone("z1", ZoneChange(url=self.link.url))
        self.tree.wait_for(self.is_active, "zone z1 behind its link")

    def run_cut(self, request_line, verb):
        """Run all jobs; the link is cut in the first one.

        Check that lists name the zone meanwhile.
        """
        self.link.cut_answer(request_line, self.cut)
        self.join(self.work(verb))
        self.assertTrue(self.link.happened.is_set())
        for found in (self.top.claims(), self.top.nodes()):
            self.assertEqual(["z1"], [one.zone for one in found.silent])

    def mend(self):
        self.link.mend()
        self.tree.wait_for(self.is_active, "zone z1 after its link was mended")

    def test_a_zone_is_cut_off_while_it_selects(self):
        def select(number):
            return self.top.select_destinations(self.apart(number)).report

        self.run_cut(b"POST /v1/zones/offers", select)
        for report in self.answers:
            self.assertEqual({"z2"}, {one.zone for one in report.zones.placements})
            self.assertEqual(["z1"], [one.zone for one in report.zones.silent])
        self.mend()
        zones = {one.zone for one in select(0).zones.placements}
        self.assertEqual({"z1", "z2"}, zones)

    def test_a_zone_is_cut_off_while_it_claims(self):
        self.run_cut(
            b"POST /v1/zones/claims", lambda number: self.top.claim(self.apart(number), ttl_s=TTL_S)
        )
        podms = [one.claim.podms for one in self.answers]
        self.assertEqual([("z2/z2-podm-1",)] * JOBS, [tuple(one) for one in podms])
        self.mend()
        self.check_nothing_leaks()
        self.assertEqual([], self.made())

    def test_a_zone_is_cut_off_when_it_begins_to_compose(self):
        self.check_compose(b"POST /v1/nodes")

    def test_a_zone_is_cut_off_while_it_composes(self):
        self.check_compose(b"GET /v1/operations/")

    def check_compose(self, request_line):
        self.run_cut(request_line, self.compose)
        first, *others = self.answers
        self.assertEqual(["z2/z2-podm-1"], [node.podm for node in first.nodes])
        self.assertRegex(first.unverified[0].message, "^zone z1: .*may exist")
        self.assertEqual({"z2/z2-podm-1"}, {node.podm for one in others for node in one.nodes})
        self.mend()
        self.end_waiting("top")
        self.check_nothing_leaks()
        self.assertEqual(JOBS + 1, len(self.made()))
        self.check_composed_once()


@moments("while_it_claims", "while_it_composes")
class TestDroppedPackets(Partitions, TreeProof):
    """Connections are accepted, and all packets are dropped."""


@moments("while_it_selects")
class TestClosedPorts(Partitions, TreeProof):
    """The port of the zone is closed."""

    cut: Cut = "close"


@moments("when_it_begins_to_compose")
class TestNetworkNamespaces(Partitions, TreeProof):
    """The zone is in another network whose link goes down: packets are lost in both directions."""

    new_link = NamespaceLink


class TestTool(unittest.TestCase):
    """The processes of ``tools/zone-tree`` end with it."""

    def test_an_interrupt_ends_all_of_it(self):
        self.addCleanup(SHARED.end)
        tree = SHARED.tree
        self.assertEqual({"top", "top/z1", "top/z2"}, set(tree.urls))
        self.assertEqual(4, len(tree.scheduler().compose(request(count=4), wait_s=20).nodes))
        self.assertEqual(0, tree.stop())
        for pid in tree.pids.values():
            with self.assertRaises(ProcessLookupError):
                os.killpg(pid, 0)
