# SPDX-License-Identifier: Apache-2.0
"""A plain claim is one statement on PostgreSQL and MariaDB, with the same rows as several."""

import time
from concurrent import futures
from unittest import mock

import psycopg
import pymysql
import sqlalchemy as sa

from tests.unit.core.deciders import cpu
from tests.unit.store.engines import StoreCase, raw_engine
from tests.unit.store.proxy import Proxy
from tests.unit.store.site import part, podm
from valence_sched.errors import ClaimLost, QuotaExceeded
from valence_sched.store import claim_rows, tables

WARM = 8  # claims until the driver has prepared the statement
WRITTEN = (tables.claims, tables.claimed_blocks, tables.claim_parts, tables.quota_charges,
           tables.shards)  # fmt: skip


class TestWholeClaims(StoreCase):
    """A server whose statements commit by themselves."""

    engine = "postgresql"
    round_trips = 1
    gone: Exception = psycopg.errors.AdminShutdown("terminating connection")

    def setUp(self):
        super().setUp()
        shareable = cpu("s", 8, status={"shareable": True, "max_compositions": 2})
        plain = [cpu(f"c{number}", 8) for number in range(20)]
        self.generation = self.one.remember(podm(blocks=[shareable, *plain]))

    def create(self, *blocks, store=None, **words):
        return (store or self.one).claims.create([part("p", self.generation, *blocks)], **words)

    def rows(self, claim):
        """Return the rows of a claim, without times."""
        times = {"created_at", "expires_at", "sweep_at"}
        found = {}
        for table in WRITTEN:
            columns = [one for one in table.c if one.name not in times]
            rows = self.execute(sa.select(*columns))
            found[table.name] = sorted(
                [str(value).replace(claim.id, "ID") for value in row] for row in rows
            )
        return found

    def test_a_plain_claim_takes_one_statement(self):
        with Proxy(self.url) as proxy:
            store = self.store(proxy.url)
            for number in range(WARM):
                self.create(f"c{number}", store=store, owner="me", key=f"k{number}")
            for blocks, words in (
                (["c10"], {}),
                (["c11", "c12"], {"owner": "me"}),
                (["c13"], {"owner": "me", "key": "k"}),
            ):
                before = proxy.round_trips
                self.create(*blocks, store=store, **words)
                self.assertEqual(self.round_trips, proxy.round_trips - before, blocks)
            before = proxy.round_trips
            self.create("s", store=store)  # counted under a lock
            self.assertGreater(proxy.round_trips - before, 3)
            before = proxy.round_trips
            self.create("c14", store=store, group="g")  # and so are the members of a group
            self.assertGreater(proxy.round_trips - before, 3)

    def test_it_leaves_the_rows_of_several_statements(self):
        for words in ({}, {"owner": "me", "key": "k", "content": "x", "ttl_s": 9}):
            found = []
            for plain in (True, False):
                self.url = self.emptied()
                self.setUp()
                with mock.patch.object(claim_rows, "is_plain", return_value=plain):
                    claim = self.create("c1", "c2", **words)
                self.assertEqual(claim, self.one.claims.show(claim.id))
                self.assertAlmostEqual(words.get("ttl_s", 600), claim.expires_at - claim.created_at)
                sweep_at = self.execute(sa.select(tables.claims.c.sweep_at))[0][0]
                self.assertEqual(claim.expires_at, sweep_at)
                found.append(self.rows(claim))
            self.assertEqual(*found)

    def test_what_must_be_counted_is_counted(self):
        self.create("s", "c0")
        self.create("s", "c1")
        with self.assertRaisesRegex(ClaimLost, "block s .* is held by"):
            self.create("s", "c2")
        self.one.quotas.change(None, {"claims": 1}, keep=False)
        self.create("c3", owner="me")
        with self.assertRaises(QuotaExceeded):
            self.create("c4", owner="me")
        self.assertEqual(3, len(self.one.claims.list()))

    def test_a_block_that_is_held_and_a_generation_that_moved_write_nothing(self):
        first = self.create("c0")
        before = self.rows(first)
        with self.assertRaisesRegex(ClaimLost, f"block c0 .* is held by claim {first.id}"):
            self.create("c1", "c0")
        self.generation += 1
        with self.assertRaisesRegex(ClaimLost, "moved from generation"):
            self.create("c1")
        self.assertEqual(before, self.rows(first))
        self.assertEqual(0, self.one.counts.retries)

    def test_a_claim_whose_answer_is_lost_is_made_once(self):
        lost = [self.gone]

        def lose(_connection, _cursor, statement, *_words):
            if "insert into claimed_blocks" in statement and lost:
                raise lost.pop()

        sa.event.listen(self.one._database.writer, "after_cursor_execute", lose)
        claim = self.create("c0")
        self.assertEqual([], lost)
        self.assertEqual([claim], self.one.claims.list())

    def test_a_quota_that_is_set_meanwhile_waits_and_holds_for_all_that_come_later(self):
        if self.engine != "postgresql":
            self.skipTest("MariaDB has no lock of a table that a transaction may take")
        other = self.store()
        q = other.remember(podm("q", blocks=[cpu("d0", 8)]))
        locked = sa.select(tables.podms).where(tables.podms.c.podm_key == tables.key_of("p"))
        with futures.ThreadPoolExecutor() as pool:
            with raw_engine(self.url).connect() as holder:
                holder.execute(locked.with_for_update())
                first = pool.submit(self.create, "c0", owner="red")
                self.await_locks(1)
                quota = pool.submit(self.one.quotas.change, "red", {"claims": 1})
                self.await_locks(2)
                parts = [part("q", q, "d0")]
                second = pool.submit(other.claims.create, parts, owner="red")
                self.await_locks(3)
                self.assertFalse(first.done() or quota.done() or second.done())
                holder.rollback()
            self.assertEqual("red", first.result().owner)
            self.assertEqual({"claims": 1, "nodes": 1}, quota.result().used)
            with self.assertRaisesRegex(QuotaExceeded, "claims: 1 in use and 1 more needed"):
                second.result()

    def await_locks(self, count):
        """Wait until this number of transactions of the database wait for a lock."""
        query = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                 "AND datname = current_database()")  # fmt: skip
        until = time.monotonic() + 30
        while self.execute(sa.text(query))[0][0] < count:
            self.assertLess(time.monotonic(), until, f"{count} that wait for a lock")
            time.sleep(0.01)


class TestWholeClaimsOfMariadb(TestWholeClaims):
    """A server whose commit is a separate round trip."""

    engine = "mysql"
    round_trips = 2
    gone = pymysql.err.OperationalError(2013, "Lost connection to server during query")


class TestClaimsOfMysql(StoreCase):
    """MySQL has no compound statements: each claim there uses the statements of all engines."""

    engine = "mysql"
    THREADS, BLOCKS = 4, 12

    def mysql_store(self):
        """Return a store whose server claims that it is not MariaDB."""
        with self.one._database.writer.connect():  # which asks for the kind of server
            pass
        self.one._database.writer.dialect.is_mariadb = False
        return self.one

    def test_each_block_is_claimed_once_and_every_loser_hears_why(self):
        stores = [self.mysql_store() for _ in range(self.THREADS)]
        blocks = [cpu(f"c{number}", 8) for number in range(self.BLOCKS)]
        generation = stores[0].remember(podm(blocks=blocks))
        seen = []
        for store in stores:
            sa.event.listen(store._database.writer, "before_cursor_execute",
                            lambda _c, _cursor, text, *_words: seen.append(text))  # fmt: skip

        def claim(store):
            won, reasons = [], []
            for number in range(self.BLOCKS):
                try:
                    parts = [part("p", generation, f"c{number}")]
                    won.append(store.claims.create(parts, owner="me"))
                except ClaimLost as error:
                    reasons.append(str(error))
            return won, reasons

        with futures.ThreadPoolExecutor() as pool:
            results = list(pool.map(claim, stores))
        won = [claim for found, _ in results for claim in found]
        self.assertEqual(
            sorted(f"c{number}" for number in range(self.BLOCKS)),
            sorted(uri for claim in won for uri in claim.parts[0].blocks),
        )
        reasons = [reason for _, found in results for reason in found]
        self.assertEqual((self.THREADS - 1) * self.BLOCKS, len(reasons))
        self.assertEqual([], [reason for reason in reasons if "is held by claim" not in reason])
        used = stores[0].quotas.show("me").used
        self.assertEqual({"claims": self.BLOCKS, "nodes": self.BLOCKS}, used)
        self.assertEqual([], [text for text in seen if "begin not atomic" in text])
        self.assertTrue([text for text in seen if "FOR UPDATE" in text])
