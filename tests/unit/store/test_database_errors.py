# SPDX-License-Identifier: Apache-2.0
"""A database that fails in mid-run: one line, nothing half-written, and on it goes after that."""

import os
import signal
import subprocess
import sys
import threading

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.errors import ClaimLost, StoreError
from valence_sched.store import tables
from valence_sched.store.database import StoreUrl, store_error
from valence_sched.store.tables import key_of
from valence_sched.testing import request

CUT = {
    "postgresql": "select pg_terminate_backend(pid) from pg_stat_activity "
    "where pid <> pg_backend_pid() and application_name = '{name}'",
    "mysql": "select id from information_schema.processlist where db = database() "
    "and id <> connection_id()",
}


class ServerCase(StoreCase):
    """Cuts the connections of a store, as a restart of the database does."""

    def named(self):
        """Return a URL by which the server can tell this test's connections."""
        if self.engine == "postgresql":
            return f"{self.url}&application_name={self.id()[-60:]}"
        return self.url

    def cut(self):
        found = self.execute(sa.text(CUT[self.engine].format(name=self.id()[-60:])))
        if self.engine == "mysql":
            for (number,) in found:
                self.execute(sa.text(f"kill {number}"))
        self.assertTrue(found)


class Restarted:
    """All connections cut between two statements, and within a transaction."""

    def test_what_was_idle_goes_on(self):
        store = self.store(self.named())
        generation = store.remember(podm())
        self.cut()
        store.claims.create([part("p", generation, "c0")])
        self.cut()
        self.assertEqual(1, len(store.claims.list()))

    def test_what_was_written_half_is_written_once_and_whole(self):
        store = self.store(self.named())
        generation = store.remember(podm())
        cuts = iter([self.cut])

        def cut_once(_connection, _cursor, statement, *_rest):
            if "insert into claimed_blocks" in statement.lower():
                next(cuts, lambda: None)()

        sa.event.listen(store._database.writer, "before_cursor_execute", cut_once)
        claim = store.claims.create([part("p", generation, "c0")])
        self.assertEqual([claim], store.claims.list())
        self.assertEqual([(1,)], self.execute(sa.select(sa.func.count()).select_from(
            tables.claimed_blocks)))  # fmt: skip
        self.assertGreater(store.counts.retries, 0)

    def test_a_database_that_stays_away_is_one_line(self):
        store = self.store(self.named(), sleep=lambda _s: None)
        generation = store.remember(podm())
        sa.event.listen(
            store._database.writer, "before_cursor_execute",
            lambda _c, _u, statement, *_rest: "insert into" in statement.lower() and self.cut(),
        )  # fmt: skip
        with self.assertRaises(StoreError) as caught:
            store.claims.create([part("p", generation, "c0")])
        self.assertNotIn("\n", str(caught.exception))
        self.assertIn("claiming", str(caught.exception))
        self.assertEqual([], self.store().claims.list())


class TestRestarted_postgresql(Restarted, ServerCase):  # noqa: N801
    """On PostgreSQL."""

    engine = "postgresql"


class TestRestarted_mysql(Restarted, ServerCase):  # noqa: N801
    """On MariaDB."""

    engine = "mysql"


class TestFull(StoreCase):
    """No room for another page."""

    def test_a_full_disk_is_one_line_and_nothing_is_half_written(self):
        store = self.store()
        generation = store.remember(podm(blocks=400))
        full = []

        def limit(connection, _record, _proxy):
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 2}")
            full.append(pages)

        sa.event.listen(store._database.writer, "checkout", limit)
        blocks = [f"c{number}" for number in range(400)]
        with self.assertRaisesRegex(StoreError, r"claiming: database or disk is full \(make room"):
            store.claims.create([part("p", generation, *blocks)])
        self.assertTrue(full)
        other = self.store()
        self.assertEqual([], other.claims.list())
        self.assertFalse(any(change.usage for change in other.snapshot().changes))
        self.assertEqual([("ok",)], self.execute(sa.text("PRAGMA integrity_check")))
        sa.event.remove(store._database.writer, "checkout", limit)
        store.close()
        store.claims.create([part("p", generation, *blocks)])

    def test_a_server_that_is_full_is_told_by_its_words(self):
        class Full(Exception):
            sqlstate = "53100"

        engine_error = Full("could not extend file: No space left on device")
        error = sa.exc.OperationalError("insert", {}, engine_error)
        line = str(store_error(error, StoreUrl("postgresql://u:pw@h/n"), "claiming"))
        self.assertEqual(
            "postgresql://h/n: claiming: could not extend file: No space left on device (make "
            "room, then run it again: nothing of this change was written)", line)  # fmt: skip


@on_each_engine
class TestInTheWay:
    """Another transaction."""

    def test_a_lock_that_is_not_had_is_tried_again_and_then_told(self):
        if self.engine == "sqlite":
            self.skipTest("one writer at a time: nothing to deadlock")
        store, other = self.store(sleep=lambda _s: None), self.store()
        for name in ("a", "b"):
            other.remember(podm(name))
        rows = sa.select(tables.podms.c.generation)

        def crossing(first, second):
            def work(connection):
                for name in (first, second):
                    connection.execute(
                        rows.where(tables.podms.c.podm_key == key_of(name)).with_for_update()
                    )
                    if name == first and next(waits, None):
                        barrier.wait(5)

            waits = iter([True])
            return work

        barrier = threading.Barrier(2)
        thread = threading.Thread(target=store._database.write, args=(crossing("a", "b"),))
        thread.start()
        other._database.write(crossing("b", "a"))
        thread.join()
        self.assertGreaterEqual(store.counts.retries + other.counts.retries, 1)


PROGRAM = """
import sys
from tests.unit.store.site import CORES, claimer
from valence_sched.store.store import Store
from valence_sched.testing import request
with Store(sys.argv[1]) as store:
    own = claimer(store)
    while True:
        done = own.claim(request(CORES), owner=sys.argv[2])
        if done.claim is None: break
        print(done.claim.id, *done.claim.parts[0].blocks, flush=True)
"""


class TestKilled(StoreCase):
    """S76: two processes, one file, and SIGKILL."""

    def test_nothing_is_lost_and_nothing_is_broken(self):
        store = self.store()
        store.remember(podm(blocks=600))
        promised = []
        for turn in range(4):
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
        self.assertGreater(len(promised), 20)
        for claim, block in promised:  # what somebody was promised is there
            self.assertEqual((block,), claims[claim].parts[0].shares[0].blocks)
        blocks = [uri for claim in claims.values() for uri in claim.parts[0].blocks]
        self.assertEqual(len(blocks), len(set(blocks)))
        (change,) = self.store().snapshot().changes
        self.assertEqual(set(blocks), set(change.usage.blocks))  # and nothing is held by nobody
        self.assertIsNotNone(claimer(self.store()).claim(request(CORES)).claim)

    def start(self, owner):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.url, owner], stdout=subprocess.PIPE, text=True
        )


class TestLoser(StoreCase):
    """Somebody who is always late."""

    def test_the_error_names_who_won_at_last(self):
        store = self.store()
        store.remember(podm(blocks=9))
        slow, fast = claimer(store, most_attempts=3, salt=b"1"), self.store()
        create = store.claims.create

        def late(parts, **words):
            fast.claims.create(parts, owner="fast")
            return create(parts, **words)

        store.claims.create = late
        with self.assertRaises(ClaimLost) as caught:
            slow.claim(request(CORES))
        self.assertRegex(str(caught.exception),
                         "somebody was faster 3 times in a row: at last block c. of pod manager "
                         "'p' is held by claim .* of fast")  # fmt: skip
        self.assertEqual(3, len(fast.claims.list()))


class TestDriver(StoreCase):
    """What a driver has to say besides what it raises."""

    engine = "postgresql"

    def test_nothing_is_told_of_a_pipeline_that_ends_by_an_error(self):
        database = self.store()._database
        # the first is there already, and its error comes while others are sent
        rows = [{"shard": number, "moved": 0} for number in (0, *range(900, 1900))]
        with self.assertNoLogs("psycopg"), self.assertRaises(StoreError):
            database.read(lambda c: c.execute(sa.insert(tables.shards), rows))
