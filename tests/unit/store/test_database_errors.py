# SPDX-License-Identifier: Apache-2.0
"""Errors of engines, and answers that are lost."""

import itertools
import shutil
import sqlite3
import threading
import unittest
from functools import partial
from typing import Any

import sqlalchemy as sa

from tests.unit.store.engines import SERVERS, StoreCase, on_each_engine
from tests.unit.store.site import CORES, DECISION, claimer, decision, part, podm
from tests.unit.store.test_claims import usage
from tests.unit.store.test_holds import nodes_of
from valence_sched.errors import ClaimLost, StoreError
from valence_sched.model.claim import ComposedNode
from valence_sched.store import tables
from valence_sched.store.database import (
    HINTS,
    RowRefused,
    StoreUrl,
    is_disconnect,
    is_retryable,
    is_unreachable,
    store_error,
)
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
        """Return a URL with a name by which the server can find this test's connections."""
        if self.engine == "postgresql":
            return f"{self.url}&application_name={self.id()[-60:]}"
        return self.url

    def cut(self):
        found = self.execute(sa.text(CUT[self.engine].format(name=self.id()[-60:])))
        if self.engine == "mysql":
            for (number,) in found:
                self.execute(sa.text(f"kill {number}"))
        self.assertTrue(found)


@partial(on_each_engine, base=ServerCase, engines=SERVERS)
class TestRestarted:
    """All connections are cut between two statements, and within a transaction."""

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


class TestFull(StoreCase):
    """No space for another page."""

    def test_a_full_disk_is_one_line_and_nothing_is_half_written(self):
        generation = self.one.remember(podm(blocks=400))
        full = []

        def limit(connection, _record, _proxy):
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 2}")
            full.append(pages)

        sa.event.listen(self.one._database.writer, "checkout", limit)
        blocks = [f"c{number}" for number in range(400)]
        with self.assertRaisesRegex(StoreError, r"claiming: database or disk is full \(free space"):
            self.one.claims.create([part("p", generation, *blocks)])
        self.assertTrue(full)
        other = self.store()
        self.assertEqual([], other.claims.list())
        self.assertFalse(any(change.usage for change in other.snapshot().changes))
        self.assertEqual([("ok",)], self.execute(sa.text("PRAGMA integrity_check")))
        sa.event.remove(self.one._database.writer, "checkout", limit)
        self.one.close()
        self.one.claims.create([part("p", generation, *blocks)])

    def test_a_server_that_is_full_is_told_by_its_words(self):
        class Full(Exception):
            sqlstate = "53100"

        engine_error = Full("could not extend file: No space left on device")
        error = sa.exc.OperationalError("insert", {}, engine_error)
        line = str(store_error(error, StoreUrl("postgresql://u:pw@h/n"), "claiming"))
        self.assertEqual(
            "postgresql://h/n: claiming: could not extend file: No space left on device (free "
            "space, then retry: the change was not written)", line)  # fmt: skip


class TestReplaced(StoreCase):
    """Another file in the place of an open store: two programs would each hold the same block."""

    def test_what_is_read_and_written_there_is_refused(self):
        file = self.one._database.address.file
        generation = self.one.remember(podm())
        copy = file.rename(file.with_name("moved"))
        for put_back in (lambda: None, lambda: shutil.copy(copy, file)):
            put_back()
            for act in (
                lambda: self.one.claims.create([part("p", generation, "c0")]),
                self.one.claims.list,
                self.one.registry_count,
            ):
                with self.assertRaisesRegex(StoreError, "replaced or deleted while in use: stop"):
                    act()
        self.assertEqual([], self.store().claims.list())


@on_each_engine
class TestInTheWay:
    """A conflicting transaction."""

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


class TestLoser(StoreCase):
    """A process that loses every race."""

    def test_the_error_names_who_won_at_last(self):
        self.one.remember(podm(blocks=9))
        slow, fast = claimer(self.one, most_attempts=3, salt=b"1"), self.store()
        create = self.one.claims.create

        def late(parts, **words):
            fast.claims.create(parts, owner="fast")
            return create(parts, **words)

        self.one.claims.create = late
        with self.assertRaises(ClaimLost) as caught:
            slow.claim(request(CORES))
        self.assertRegex(str(caught.exception),
                         "lost 3 consecutive races, the last one: block c. of pod manager "
                         "'p' is held by claim .* of fast")  # fmt: skip
        self.assertEqual(3, len(fast.claims.list()))


class TestDriver(StoreCase):
    """The errors of a driver besides exceptions."""

    engine = "postgresql"

    def test_nothing_is_told_of_a_pipeline_that_ends_by_an_error(self):
        database = self.store()._database
        # the first row exists already, and its error arrives while others are sent
        rows = [{"shard": number, "moved": 0} for number in (0, *range(900, 1900))]
        with self.assertNoLogs("psycopg"), self.assertRaises(StoreError):
            database.read(lambda c: c.execute(sa.insert(tables.shards), rows))


OTHER = sa.exc.InvalidRequestError("not of an engine")


def failed(
    *args: Any, kind: type[sa.exc.DBAPIError] = sa.exc.OperationalError, cut: bool = False,
    **attributes: Any,
) -> sa.exc.DBAPIError:  # fmt: skip
    """Return SQLAlchemy's error around one of a driver with these arguments and attributes."""
    original = Exception(*args)
    for name, value in attributes.items():
        setattr(original, name, value)
    return kind("statement", {}, original, connection_invalidated=cut)


def sqlite(code: int) -> sa.exc.DBAPIError:
    return failed("words", sqlite_errorcode=code)


def state(sqlstate: str) -> sa.exc.DBAPIError:
    return failed("words", sqlstate=sqlstate)


class TestAgain(unittest.TestCase):
    """Whether the same transaction may succeed, now or later."""

    def check(self, function, yes, no):
        for error in yes:
            self.assertTrue(function(error), error.orig if error is not OTHER else error)
        for error in (*no, OTHER):
            self.assertFalse(function(error), getattr(error, "orig", error))

    def test_another_transaction_was_in_the_way(self):
        self.check(
            is_retryable,
            [*map(state, ("40001", "40P01", "55P03")),
             *(failed(number, "words") for number in (1205, 1213, 1020, 1637)),
             *map(sqlite, (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
                           sqlite3.SQLITE_BUSY | 2 << 8))],
            [state("53300"), failed(1045, "words"), sqlite(sqlite3.SQLITE_ERROR), failed("1205"),
             failed()],
        )  # fmt: skip

    def test_the_connection_is_gone(self):
        self.check(
            is_disconnect,
            [failed("words", cut=True), state("08006"), state("57P01")],
            [
                failed("words"),
                state("40001"),
                state("5"),
                sqlite(sqlite3.SQLITE_CANTOPEN),
                failed(1040, "Too many connections", sqlstate="08004"),
            ],
        )

    def test_no_connection_is_to_be_had(self):
        self.assertTrue(is_unreachable(sa.exc.TimeoutError("all of them wait")))
        self.check(
            is_unreachable,
            [*map(state, ("53300", "25006", "08001")), sqlite(sqlite3.SQLITE_CANTOPEN), failed("x"),
             *(failed(number, "words") for number in (1040, 1203, 1290, 1836, 1044, 1045, 1049,
                                                      2003, 9999))],
            [state("40001"), state("53100"), sqlite(sqlite3.SQLITE_FULL), sqlite(1),
             failed(1021, "words"), failed("x", kind=sa.exc.ProgrammingError),
             failed(9999, "words", kind=sa.exc.ProgrammingError)],
        )  # fmt: skip


class TestWords(unittest.TestCase):
    """One line: the store, the operation, the error of the engine, and the hint."""

    URL = StoreUrl("postgresql://me:secret@127.0.0.1:5432/name")

    def text(self, error, doing="doing"):
        return str(store_error(error, self.URL, doing))

    def test_the_hint_is_that_of_the_failure(self):
        for kind, errors in {
            "full": [sqlite(13), state("53100"), failed(1021, "words", sqlstate="HY000"),
                     failed(1114, "words"), failed(1030, "words"), failed(3, "words")],
            "readonly": [sqlite(8), state("25006"), state("42501"), failed(1290, "words"),
                         failed(1142, "words")],
            "corrupt": [sqlite(11), sqlite(26), state("XX001")],
            "disk": [sqlite(10), sqlite(sqlite3.SQLITE_IOERR_WRITE)],
            "unopened": [sqlite(14)],
            "unreachable": [state("08006"), failed(2003, "words"), failed("words"),
                            failed(1045, "words", sqlstate="28000")],
        }.items():  # fmt: skip
            for error in errors:
                line = f"postgresql://127.0.0.1:5432/name: doing: words ({HINTS[kind]})"
                self.assertEqual(line, self.text(error))
        for error in (sqlite(1), state("42601"), failed("words", kind=sa.exc.ProgrammingError)):
            self.assertEqual("postgresql://127.0.0.1:5432/name: doing: words", self.text(error))

    def test_without_words_of_what_was_being_done_there_are_none(self):
        self.assertEqual("postgresql://127.0.0.1:5432/name: words", self.text(sqlite(1), ""))

    def test_the_engine_is_quoted_by_its_first_line_and_without_the_password(self):
        for error, words in (
            (failed("first\nsecond", sqlite_errorcode=1), "first"),
            (failed("  at secret:5432 ", sqlite_errorcode=1), "at ***:5432"),
            (failed(7, "last", 9, sqlite_errorcode=1), "last"),
            (failed(7, sqlite_errorcode=1), "7"),
            (failed(sqlite_errorcode=1), "Exception"),
            (OTHER, "not of an engine"),
        ):
            self.assertEqual(f"postgresql://127.0.0.1:5432/name: doing: {words}", self.text(error))

    def test_a_value_that_cannot_be_stored_is_of_one_row(self):
        refused = failed("too long", kind=sa.exc.DataError, sqlite_errorcode=1)
        self.assertIs(RowRefused, type(store_error(refused, self.URL)))
        error = store_error(sqlite(1), self.URL)
        self.assertIs(StoreError, type(error))
        self.assertEqual("postgresql://127.0.0.1:5432/name: words", str(error))


class TestLostAnswers(StoreCase):
    """Each transaction of a step is repeated as a whole after its commit."""

    def lose(self, number: int) -> list[bool]:
        """Lose the answer to the commit of this number; return whether it was reached."""
        count, reached = itertools.count(1), []
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY

        def commit(connection: sa.Connection) -> None:
            if next(count) == number:
                reached.append(True)
                connection.connection.dbapi_connection.execute("COMMIT")
                raise sa.exc.OperationalError("COMMIT", {}, busy)

        sa.event.listen(self.one._database.writer, "commit", commit)
        return reached

    def each(self, prepare, step, check):
        """Check a step with the answer of each of its transactions lost, and with all answers."""
        number, reached = 0, [True]
        while reached:
            self.one = self.store(self.empty_url(), sleep=lambda _s: None)
            self.one.remember_all([podm("p", 4), podm("q")])
            prepared = prepare()
            number += 1
            retries = self.one.counts.retries
            reached = self.lose(number)
            with self.subTest(number):
                check(step(prepared))
                self.assertEqual(len(reached), self.one.counts.retries - retries)
        self.assertGreater(number, 1)

    def held(self):
        return self.one.claims.create([part("p", 1, "c0")])

    def composing(self):
        claim = self.held()
        self.one.claims.start_composing(claim.id)
        return claim.id

    def node(self, claim):
        return ComposedNode(id="n", podm="p", uri="/S/1", claim=claim, blocks=("c0",))

    def test_a_claim_is_created_once(self):
        for parts in ([part("p", 1, "c0")], [part("p", 1, "c0"), part("q", 1, "c0")]):

            def check(claim, parts=parts):
                self.assertEqual("HELD", claim.state)
                self.assertEqual([claim], self.one.claims.list())
                for one in parts:
                    self.assertEqual({"c0": 1}, usage(self.one, one.podm).blocks)

            for key in (None, "k"):
                self.each(lambda: None,
                          lambda _, parts=parts, key=key: self.one.claims.create(parts, key=key),
                          check)  # fmt: skip

    def test_a_claim_is_composed_once(self):
        def started(claim):
            self.assertEqual("COMPOSING", claim.state)
            kinds = [one.kind for one in self.one.events(claim.id)]
            self.assertEqual(["held", "composing"], kinds)

        self.each(self.held, lambda it: self.one.claims.start_composing(it.id), started)

    def test_a_node_is_noted_once(self):
        def finished(claim):
            self.assertEqual("COMPOSED", claim.state)
            self.assertEqual(["n"], [node.id for node in self.one.nodes.list()])
            kinds = [one.kind for one in self.one.events(claim.id)]
            self.assertEqual(["held", "composing", "composed"], kinds)

        self.each(self.composing, lambda it: self.one.claims.finish_composing(it, [self.node(it)]),
                  finished)  # fmt: skip

    def test_a_claim_is_split_once(self):
        def split(claims):
            self.assertEqual(claims, self.one.claims.list())
            self.assertEqual({"c0": 1, "c1": 1}, usage(self.one).blocks)

        self.each(lambda: self.one.claims.create([nodes_of(1, ("c0",), ("c1",))]),
                  lambda it: self.one.claims.split(it.id), split)  # fmt: skip

    def test_a_claim_ends_once(self):
        for prepare, end, state in (
            (lambda: self.held().id, "release", "RELEASED"),
            (self.composing, "fail", "FAILED"),
        ):

            def step(claim_id, end=end):
                getattr(self.one.claims, end)(claim_id, "why")
                return claim_id

            def ended(claim_id, state=state):
                claim = self.one.claims.show(claim_id)
                self.assertEqual(state, claim.state)
                self.assertFalse(usage(self.one))
                kinds = [one.kind for one in self.one.events(claim.id)]
                self.assertEqual(1, kinds.count(state.lower()))

            self.each(prepare, step, ended)

    def test_a_node_is_forgotten_once(self):
        def composed():
            claim = self.composing()
            self.one.claims.finish_composing(claim, [self.node(claim)])
            return claim

        def forgotten(claim):
            self.assertEqual(([], []), (self.one.nodes.list(), self.one.claims.list()))
            self.assertEqual(1, [one.kind for one in self.one.events(claim)].count("gone"))

        def forget(claim):
            self.one.nodes.forget("n")
            return claim

        self.each(composed, forget, forgotten)

    def test_a_reading_moves_a_generation_once(self):
        def moved(generation):
            self.assertEqual(2, generation)

        self.each(lambda: None, lambda _: self.one.remember(podm(zone="z")), moved)

    def test_a_decision_is_stored_once(self):
        def stored(_):
            self.assertEqual(decision(), self.one.decisions.get("d"))

        self.each(lambda: None, lambda _: self.one.decisions.save("d", DECISION), stored)
