# SPDX-License-Identifier: Apache-2.0
"""Patience with a pod manager, and abandoned work."""

import itertools
import unittest
from functools import partial

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    BUSY,
    COMPOSED,
    DOWN,
    PART,
    UNKNOWN,
    URI,
    USED,
    ComposeCase,
    Scripted,
    Watched,
)
from tests.unit.lifecycle.site import Site, request, site
from tests.unit.store.engines import SERVERS, StoreCase, on_each_engine
from tests.unit.store.proxy import Proxy
from tests.unit.store.site import part
from tests.unit.trees import tree
from valence_sched.errors import ComposeFailed, PodmError, StillComposing, StoreError, Unverified
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.claim import ComposedNode, CompositionRequest, CompositionResult
from valence_sched.model.diagnostic import RECONCILE_HINT
from valence_sched.store.database import PATIENCE_S, Database, StoreUrl
from valence_sched.store.store import Store

PODM = "gpu-east"
BEGUN, BACK = ["reserve", "compose"], ["reserve", "compose", "read_node"]
PAUSES = 100  # unavailability of the database


class Away(StoreCase):
    """Connections are refused from a point on, until this number of pauses."""

    def setUp(self):
        super().setUp()
        self.proxy = self.enterContext(Proxy(self.url))
        self.pauses = 0

    def pause(self, _seconds: float) -> None:
        self.pauses += 1
        if self.pauses == PAUSES:
            self.proxy.accept()

    def refuse_at(self, here: Site, point: str) -> None:
        points = itertools.chain([point], itertools.repeat(None))
        due = [next(points)]

        def mark(now: str) -> None:
            if now == due[0]:
                due[0] = next(points)
                self.proxy.refuse()

        object.__setattr__(here.composer, "checkpoint", mark)

    def site(self):
        return site(source=None, documents={PODM: {**tree(PODM)}}, url=self.proxy.url,
                    sleep=self.pause)  # fmt: skip


@partial(on_each_engine, base=Away, engines=SERVERS)
class TestWaiting:
    """The work of a pod manager is recorded, however long that takes."""

    def test_what_was_composed_is_noted(self):
        for point in ("checked", "reserved", "answered", "read back"):
            with self.subTest(point), self.site() as here:
                self.pauses = 0
                self.refuse_at(here, point)
                done = here.provisioner.provision(request())
                self.assertEqual(((), ()), (done.failures, done.unverified))
                (node,) = done.nodes
                self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])
                self.assertGreaterEqual(self.pauses, PAUSES)
                here.composer.remove(node)

    def test_what_was_removed_is_forgotten(self):
        with self.site() as here:
            (node,) = here.provisioner.provision(request()).nodes
            self.refuse_at(here, "removed")
            here.composer.remove(node)
            self.assertEqual(([], []), (here.store.nodes.list(), here.store.claims.list()))
            self.assertGreaterEqual(self.pauses, PAUSES)

    def test_before_an_effect_nobody_waits(self):
        with self.site() as here:
            self.refuse_at(here, "taken")
            claim = here.claim(request())
            self.proxy.refuse()
            with self.assertRaises(StoreError):
                here.composer.compose(claim)
            self.assertLess(self.pauses, PAUSES)
            self.assertEqual([], here.node_names())


class TestLocked(StoreCase):
    """A file that another process has locked for a long time."""

    def test_what_was_composed_is_noted_once_the_lock_is_gone(self):
        with site(source=None, documents={PODM: tree(PODM)}, url=self.url) as here:
            other = sa.create_engine(self.url, poolclass=sa.StaticPool)
            with other.connect() as connection:
                refused = []

                def mark(now: str) -> None:
                    if now == "read back":
                        connection.exec_driver_sql("BEGIN IMMEDIATE")

                def refuse(_connection, _cursor, statement, *_rest) -> None:
                    if statement == "BEGIN IMMEDIATE" and connection.in_transaction():
                        refused.append(statement)
                        connection.rollback() if len(refused) > 1 else None

                sa.event.listen(here.store._database.writer, "before_cursor_execute", refuse)
                sa.event.listen(here.store._database.writer, "connect", _impatient)
                here.store._database.writer.dispose()
                object.__setattr__(here.composer, "checkpoint", mark)
                (node,) = here.provisioner.provision(request()).nodes
            other.dispose()
            self.assertGreater(len(refused), 1)
            self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])


def _impatient(connection, _record) -> None:
    connection.execute("PRAGMA busy_timeout = 1")


class TestDeadline(unittest.TestCase):
    """A database that stays unavailable."""

    def test_patience_has_an_end_and_jitter(self):
        now = [0.0]
        pauses: list[float] = []
        draws = itertools.cycle((0.25, 1.0))

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            now[0] += seconds

        url = StoreUrl("postgresql://u@127.0.0.1:9/none")
        database = Database(url, sleep, lambda: next(draws), lambda: now[0])
        with self.assertRaisesRegex(StoreError, "noting: .*check that the database runs"):
            database.write(lambda c: None, "noting")
        self.assertEqual([], pauses)
        with self.assertRaisesRegex(StoreError, "noting: .*check that the database runs"):
            database.patient().write(lambda c: None, "noting")
        self.assertAlmostEqual(PATIENCE_S, now[0], delta=1.0)
        self.assertEqual({0.125, 0.5}, set(pauses[20:]))
        database.close()


class TestLease(StoreCase):
    """The time that a claim may compose before it is reaped."""

    def lease_s(self, **words: float) -> float:
        with Store(self.url) as store:
            return PodmAccess(store, {}, lambda _one: None, **words).composer.ttl_s

    def test_it_follows_the_time_to_live_and_outlasts_all_waiting(self):
        self.assertEqual(7200.0, self.lease_s(ttl_s=7200.0, timeout_s=30.0, patience_s=300.0))
        short = self.lease_s(ttl_s=1.0, timeout_s=2.0, patience_s=10.0)
        longer = self.lease_s(ttl_s=1.0, timeout_s=60.0, patience_s=10.0)
        self.assertLess(short, longer)
        self.assertGreater(short, 2 * 10.0 + PATIENCE_S)
        self.assertGreater(longer, 2 * 10.0 + 4 * 60.0 + PATIENCE_S)


class TestGivenUp(ComposeCase):
    """The text of an error, and the remains."""

    def test_nothing_is_left(self):
        for scripted, why, calls in (
            (Watched(compose=DOWN), "connection refused; nothing is there", BACK),
            (Watched(compose=ABSENT), "nothing is there", BEGUN),
            (Watched(compose=PART), "c0 is idle", [*BEGUN, "remove"]),
            (Watched(compose=DOWN, read_node=PART), "connection refused; c0 is idle",
             [*BACK, "remove"]),
            (Watched(compose=ValueError("a bug")),
             "ValueError: a bug (please report this); nothing is there", BACK),
            (Watched(compose=CompositionResult(state="absent")),
             "the service reported success, but composed no node", BEGUN),
            (Watched(reserve=DOWN), "connection refused; nothing is there",
             ["reserve", "read_node"]),
        ):  # fmt: skip
            with self.subTest(why):
                self.setUp()
                error = self.error(ComposeFailed, scripted)
                self.assertEqual((f"p: {why}", "p"), (str(error), error.podm))
                self.assertEqual(("FAILED", why), self.ended())
                self.assertEqual([*calls, "unreserve"], scripted.calls)
                self.assertEqual([], self.store.nodes.list())

    def test_something_may_be_left(self):
        unread, down, taken = "could not be read back: ", "connection refused", [*BEGUN, "remove"]
        for scripted, what, calls in (
            (Watched(compose=USED), "c0 is in use", BEGUN),
            (Watched(compose=UNKNOWN), UNKNOWN.reason, BEGUN),
            (Watched(compose=DOWN, read_node=USED), f"{down}; c0 is in use", BACK),
            (Watched(compose=DOWN, read_node=UNKNOWN), f"{down}; {UNKNOWN.reason}", BACK),
            (Watched(compose=DOWN, read_node=DOWN), f"{down}; {unread}{down}", BACK),
            (Watched(compose=DOWN, read_node=ValueError("a bug")),
             f"{down}; {unread}ValueError: a bug (please report this)", BACK),
            (Watched(compose=PART, remove=PART), "c0 is idle", taken),
            (Watched(compose=PART, remove=USED), "c0 is idle; c0 is in use", taken),
            (Watched(compose=PART, remove=DOWN), f"c0 is idle; {unread}{down}", taken),
            (Watched(compose=ABSENT, unreserve=DOWN), f"nothing is there; {down}",
             [*BEGUN, "unreserve"]),
            (Watched(compose=PART, unreserve=ValueError("a bug")),
             "c0 is idle; ValueError: a bug (please report this)", [*taken, "unreserve"]),
        ):  # fmt: skip
            with self.subTest(what):
                self.setUp()
                error = self.error(Unverified, scripted)
                self.assertEqual((calls, []), (scripted.calls, self.store.nodes.list()))
                line = f"p: claim {self.claim.id} stays COMPOSING: {what} ({RECONCILE_HINT})"
                self.assertEqual((line, "COMPOSING"), (str(error), self.state()))
                name = f"vs-{self.claim.id}"
                self.assertEqual([f"claim {self.claim.id} is COMPOSING as {name} on p: "
                                  f"{RECONCILE_HINT}"], self.lines())  # fmt: skip

    def test_a_pod_manager_that_goes_on_is_named_with_the_node_to_be(self):
        scripted = Watched(compose=BUSY)
        error = self.error(StillComposing, scripted)
        self.assertEqual((BEGUN, "COMPOSING"), (scripted.calls, self.state()))
        self.assertEqual((f"vs-{self.claim.id}", "p", self.claim.id),
                         (error.node, error.podm, error.claim))  # fmt: skip
        line = f"p: claim {self.claim.id} stays COMPOSING: the task runs ({RECONCILE_HINT})"
        self.assertEqual(line, str(error))

    def test_one_that_went_on_after_an_error_too(self):
        scripted = Watched(compose=DOWN, read_node=BUSY)
        error = self.error(StillComposing, scripted)
        self.assertEqual((BACK, "COMPOSING"), (scripted.calls, self.state()))
        self.assertIn("COMPOSING: connection refused; the task runs (", str(error))

    def test_a_node_of_anothers_block_is_taken_back(self):
        other = self.store.claims.create([part("p", 1, "c1")])
        scripted = Watched(compose=replace(COMPOSED, blocks=("c1",)))
        error = self.error(ComposeFailed, scripted)
        lost = f"block c1 of pod manager 'p' is held by claim {other.id}"
        self.assertEqual(f"p: {lost}", str(error))
        self.assertEqual(["reserve", "compose", "remove", "unreserve"], scripted.calls)
        requests = dict(scripted.requests)
        self.assertEqual([requests["compose"]] * 2, [requests["remove"], requests["unreserve"]])
        self.assertEqual(("FAILED", lost), self.ended())
        self.assertEqual([], self.store.nodes.list())

    def test_a_node_whose_claim_was_given_up_meanwhile_is_taken_back(self):
        def compose(request, watch):
            self.store.claims.fail(self.claim.id, "reaped")
            return Scripted.compose(scripted, request, watch)

        scripted = Watched()
        scripted.compose = compose
        error = self.error(ComposeFailed, scripted)
        self.assertIn(
            f"claim {self.claim.id} is FAILED: the claim was not being composed", str(error)
        )
        self.assertEqual(("FAILED", "reaped"), self.ended())

    def test_a_node_that_cannot_be_noted_is_named(self):
        error = self.error(Unverified, Watched(), checkpoint=self.break_at("read back"))
        start = f"p: {URI} is composed, but the result could not be stored: {self.store.address}: "
        self.assertTrue(str(error).startswith(start), error)
        self.assertTrue(str(error).endswith(f": claim {self.claim.id}: {RECONCILE_HINT}"), error)

    def test_what_cannot_be_begun_is_not_begun(self):
        scripted = Watched()
        with self.assertRaises(StoreError):
            composer = self.composer(scripted, checkpoint=self.break_at("held"))
            composer.compose(self.claim)
        self.assertEqual(([], []), (scripted.calls, scripted.requests))


class TestRemoved(ComposeCase):
    """A node that is decomposed."""

    def setUp(self):
        super().setUp()
        self.node = self.composer(Watched()).compose(self.claim)
        self.points.clear()
        self.states.clear()
        self.store.effects.forget("node", self.node.id)

    def fails(self, kind, scripted, **words):
        with self.assertRaises(kind) as caught:
            self.composer(scripted, **words).remove(self.node)
        self.assertIs(kind, type(caught.exception))
        return str(caught.exception)

    def test_it_is_asked_for_by_name_blocks_and_uri_and_forgotten(self):
        scripted = Watched()
        self.composer(scripted).remove(self.node)
        wanted = CompositionRequest(name=self.node.id, pool="all", blocks=("c0",))
        self.assertEqual([("remove", wanted)], scripted.requests)
        self.assertEqual([(wanted, URI)], scripted.checks)
        self.assertEqual(["removing", "removed", "forgotten"], self.points)
        subject = f"node vs-{self.claim.id} on p"
        self.assertEqual([(subject, "connecting"), (subject, "removing it")], self.states)
        self.assertEqual(([], "RELEASED"), (self.store.nodes.list(), self.state()))
        self.assertEqual([f"node {self.node.id} of p is deleted"], self.lines())

    def test_one_whose_pod_manager_cannot_be_reached_stays(self):
        self.assertEqual(f"p: {URI}: connection refused", self.fails(PodmError, DOWN))
        self.assertEqual((["removing"], []), (self.points, self.lines()))
        self.assertEqual(1, len(self.store.nodes.list()))

    def test_what_stays_of_it_is_said(self):
        unsure = [f"node {self.node.id} of p may be gone: {RECONCILE_HINT}"]
        for remove, why in ((PART, "c0 is idle"),
                            (DOWN, "could not be read back: connection refused")):  # fmt: skip
            self.assertEqual(f"p: {why}: check the pod manager, then try again",
                             self.fails(Unverified, Watched(remove=remove)))  # fmt: skip
            self.assertEqual(unsure, self.lines())
        self.assertEqual(["removing", "removed"] * 2, self.points)
        self.assertEqual("COMPOSED", self.state())

    def test_one_that_cannot_be_forgotten_is_said(self):
        line = self.fails(Unverified, Watched(), checkpoint=self.break_at("removed"))
        start = (
            f"p: {URI} is decomposed, but the result could not be stored: {self.store.address}: "
        )
        self.assertTrue(line.startswith(start), line)
        self.assertTrue(line.endswith(f": {RECONCILE_HINT}"), line)

    def test_another_system_reads_it_by_its_id_where_it_has_no_name(self):
        scripted = Watched()
        node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id)
        self.composer(scripted).remove(node)
        self.assertEqual("n", scripted.requests[0][1].name)


if __name__ == "__main__":
    unittest.main()
