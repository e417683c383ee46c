# SPDX-License-Identifier: Apache-2.0
"""A plain claim is one statement on PostgreSQL and MariaDB, and leaves the rows of several."""

from unittest import mock

import psycopg
import pymysql
import sqlalchemy as sa

from tests.unit.core.deciders import cpu
from tests.unit.store.engines import StoreCase
from tests.unit.store.proxy import Proxy
from tests.unit.store.site import part, podm
from valence_sched.errors import ClaimLost, QuotaExceeded
from valence_sched.store import tables, whole_claim

WARM = 8  # claims until the driver has prepared the statement
WRITTEN = (tables.claims, tables.claimed_blocks, tables.claim_parts, tables.quota_charges,
           tables.shards)  # fmt: skip


class TestWholeClaims(StoreCase):
    """On a server whose statements commit by themselves."""

    engine = "postgresql"
    round_trips = 1
    gone: Exception = psycopg.errors.AdminShutdown("terminating connection")

    def setUp(self):
        super().setUp()
        self.one = self.store()
        shareable = cpu("s", 8, status={"shareable": True, "max_compositions": 2})
        plain = [cpu(f"c{number}", 8) for number in range(20)]
        self.generation = self.one.remember(podm(blocks=[shareable, *plain]))

    def create(self, *blocks, store=None, **words):
        return (store or self.one).claims.create([part("p", self.generation, *blocks)], **words)

    def rows(self, claim):
        """Return what a claim wrote, without its times."""
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
                (["c13"], {"owner": "me", "key": "k", "group": "g"}),
            ):
                before = proxy.round_trips
                self.create(*blocks, store=store, **words)
                self.assertEqual(self.round_trips, proxy.round_trips - before, blocks)
            before = proxy.round_trips
            self.create("s", store=store)  # counted under a lock
            self.assertGreater(proxy.round_trips - before, 3)

    def test_it_leaves_the_rows_of_several_statements(self):
        for words in ({}, {"owner": "me", "key": "k", "group": "g", "content": "x", "ttl_s": 9}):
            found = []
            for plain in (True, False):
                self.url = self.emptied()
                self.setUp()
                with mock.patch.object(whole_claim, "is_plain", return_value=plain):
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
        self.one.quotas.set(None, {"claims": 1})
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


class TestWholeClaimsOfMariadb(TestWholeClaims):
    """On one where the commit is a round trip of its own."""

    engine = "mysql"
    round_trips = 2
    gone = pymysql.err.OperationalError(2013, "Lost connection to server during query")
