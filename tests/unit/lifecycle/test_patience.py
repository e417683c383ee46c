# SPDX-License-Identifier: Apache-2.0
"""A database that is away when a node was composed or removed is waited for; the claim lasts."""

import itertools
import unittest

import sqlalchemy as sa

from tests.unit.lifecycle.site import Site, request, site
from tests.unit.store.engines import StoreCase
from tests.unit.store.proxy import Proxy
from tests.unit.trees import tree
from valence_sched.errors import StoreError
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.store.database import PATIENCE_S, Database
from valence_sched.store.store import Store
from valence_sched.store.url import StoreUrl

PODM = "gpu-east"
PAUSES = 100  # that the database stays away for


class Away(StoreCase):
    """Connections are refused from a point on, until so many pauses were made."""

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


class Waiting:
    """What a pod manager has done is noted, however long that takes."""

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


class TestWaiting_postgresql(Waiting, Away):  # noqa: N801
    """On PostgreSQL."""

    engine = "postgresql"


class TestWaiting_mysql(Waiting, Away):  # noqa: N801
    """On MariaDB."""

    engine = "mysql"


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
    """A database that never comes back."""

    def test_patience_has_an_end_and_jitter(self):
        now = [0.0]
        pauses: list[float] = []
        draws = itertools.cycle((0.25, 1.0))

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            now[0] += seconds

        url = StoreUrl("postgresql://u@127.0.0.1:9/none")
        database = Database(url, sleep, lambda: next(draws), lambda: now[0])
        with self.assertRaisesRegex(StoreError, "noting: .*is the database running"):
            database.write(lambda c: None, "noting")
        self.assertEqual([], pauses)
        with self.assertRaisesRegex(StoreError, "noting: .*is the database running"):
            database.patient().write(lambda c: None, "noting")
        self.assertAlmostEqual(PATIENCE_S, now[0], delta=1.0)
        self.assertEqual({0.125, 0.5}, set(pauses[20:]))
        database.close()


class TestLease(StoreCase):
    """How long a claim may be composed before it is reaped."""

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


if __name__ == "__main__":
    unittest.main()
