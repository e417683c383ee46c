# SPDX-License-Identifier: Apache-2.0
"""The database of a store: its URL, its transactions, and its unavailability."""

import logging
import os
import socket
import sqlite3
import unittest
from functools import partial
from pathlib import Path
from unittest import mock

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import part, podm
from tests.unit.store.test_claims import usage
from tests.unit.store.test_database_errors import failed
from valence_sched.errors import StoreError
from valence_sched.model.claim import ComposedNode
from valence_sched.store.database import BUSY_TIMEOUT_MS, MOST_ATTEMPTS, Database, StoreUrl

BUSY = failed("it is locked", sqlite_errorcode=sqlite3.SQLITE_BUSY)
AWAY = failed("it cannot be opened", sqlite_errorcode=sqlite3.SQLITE_CANTOPEN)
CUT = failed("it was cut", cut=True)
TWICE = failed("it is there", kind=sa.exc.IntegrityError)


class TestConnections(StoreCase):
    """Connections to an embedded database."""

    def setUp(self):
        super().setUp()
        self.database = Database(StoreUrl(self.url))
        self.addCleanup(self.database.close)

    def pragma(self, name):
        def work(connection):
            return connection.exec_driver_sql(f"PRAGMA {name}").scalar()

        return [self.database.read(work), self.database.write(work)]

    def test_each_waits_for_a_lock_and_keeps_references_whole(self):
        self.assertEqual([BUSY_TIMEOUT_MS] * 2, self.pragma("busy_timeout"))
        self.assertEqual([1, 1], self.pragma("foreign_keys"))

    def test_a_writer_locks_out_others_from_its_beginning_and_a_reader_does_not(self):
        other = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=0)
        self.addCleanup(other.close)
        other.isolation_level = None

        def lock(_connection):
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")

        self.database.read(lock)
        with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
            self.database.write(lock)

    def test_what_a_reader_sees_is_of_one_moment(self):
        def numbers(connection):
            return connection.exec_driver_sql("SELECT count(*) FROM one").scalar()

        def insert(connection):
            connection.exec_driver_sql("INSERT INTO one VALUES (1)")

        def twice(connection):
            first = numbers(connection)
            self.database.write(insert)
            return first, numbers(connection)

        with self.database.writer.connect() as connection:
            raw = connection.connection.dbapi_connection
            raw.execute("PRAGMA journal_mode = WAL")
        self.database.write(lambda it: it.exec_driver_sql("CREATE TABLE one (number INTEGER)"))
        self.assertEqual((0, 0), self.database.read(twice))
        self.assertEqual(1, self.database.read(numbers))

    def test_in_memory_there_is_one_database_for_all(self):
        database = Database(StoreUrl("sqlite://"))
        self.addCleanup(database.close)
        self.assertIs(database.writer, database.reader)
        self.assertIsNot(self.database.writer, self.database.reader)

    def test_in_memory_reading_one_row_leaves_the_database_there(self):
        database = Database(StoreUrl("sqlite://"))
        self.addCleanup(database.close)
        database.write(lambda it: it.exec_driver_sql("CREATE TABLE one AS SELECT 7 AS number"))
        for _ in range(3):
            self.assertEqual((7,), database.read_row(sa.text("SELECT number FROM one")))
        number = database.read(lambda it: it.exec_driver_sql("SELECT number FROM one").scalar())
        self.assertEqual(7, number)

    def test_none_is_left_once_it_is_closed(self):
        self.pragma("foreign_keys")
        engines = (self.database.reader, self.database.writer)
        self.assertEqual([1, 1], [one.pool.checkedin() for one in engines])
        self.database.close()
        self.assertEqual([0, 0], [one.pool.checkedin() for one in engines])

    def test_a_new_one_has_done_nothing(self):
        counts = vars(self.database.counts)
        self.assertEqual(dict.fromkeys(counts, 0), counts)
        self.pragma("foreign_keys")
        self.assertEqual({**dict.fromkeys(counts, 0), "transactions": 2}, counts)

    def test_where_nothing_is_said_of_what_was_done_the_error_says_none_of_it(self):
        def work(connection):
            connection.exec_driver_sql("SELECT 1 FROM absent")

        texts = set()
        for call, what in ((self.database.read, work), (self.database.write, work),
                           (self.database.read_row, sa.text("SELECT 1 FROM absent"))):  # fmt: skip
            for words in ({}, {"doing": ""}):
                with self.assertRaises(StoreError) as caught:
                    call(what, **words)
                texts.add(str(caught.exception))
        self.assertEqual(1, len(texts), texts)

    def test_a_connection_on_which_one_row_was_not_read_is_closed(self):
        closed = []
        sa.event.listen(self.database.reader, "close", lambda *_: closed.append(1))
        for number, (statement, error) in enumerate((
            ("SELECT 1 FROM absent", StoreError),
            ("SELECT 1 UNION SELECT 2", ValueError),
            ("SELECT 1 WHERE 1 = 2", ValueError),
        ), 1):  # fmt: skip
            with self.subTest(statement), self.assertRaises(error):
                self.database.read_row(sa.text(statement))
            self.assertEqual(number, len(closed))
            self.assertEqual(0, self.database.reader.pool.checkedout())
        self.database.read_row(sa.text("SELECT 1"))
        self.assertEqual(1, self.database.reader.pool.checkedout(), "it stays for the next row")
        self.assertEqual(3, len(closed))

    def test_values_are_not_in_what_an_error_says(self):
        for engine in (self.database.reader, self.database.writer):
            self.assertTrue(engine.hide_parameters)


@on_each_engine
class TestIsolation:
    """The changes of other transactions that a transaction sees."""

    def test_a_reader_has_one_snapshot_and_a_writer_the_rows_as_they_are(self):
        database = Database(StoreUrl(self.url))
        self.addCleanup(database.close)
        levels = []
        for engine in (database.writer, database.reader):
            with engine.connect() as connection:
                levels.append(connection.get_isolation_level())
        expected = ["READ COMMITTED", "REPEATABLE READ"]
        self.assertEqual(["SERIALIZABLE"] * 2 if self.engine == "sqlite" else expected, levels)


@partial(on_each_engine, engines=["mysql"])
class TestServerSettings:
    """Settings of a server: the option ``sql_mode`` of the driver stands for those of a server."""

    def test_a_claim_is_taken_and_a_text_is_stored_whole_or_refused(self):
        for mode in ("ORACLE", "", "ANSI"):
            with self.subTest(mode), self.store(f"{self.url}&sql_mode={mode}") as store:
                store.claims.create([part(f"p{mode}", store.remember(podm(f"p{mode}")), "c0")])
                with self.assertRaisesRegex(StoreError, "too long"):
                    store.remember(podm("q", read_at="x" * 65))

    def test_time_is_not_the_local_time_that_repeats_an_hour_each_autumn(self):
        for engine in (self.one._database.writer, self.one._database.reader):
            with engine.connect() as connection:
                self.assertEqual("+00:00", connection.scalar(sa.text("select @@time_zone")))


@partial(on_each_engine, engines=["postgresql", "mysql"])
class TestSilentServer:
    """A server whose host is gone, or that accepts connections without a greeting."""

    def test_it_is_given_up_within_a_minute_after_the_login(self):
        for engine in (self.one._database.writer, self.one._database.reader):
            with engine.connect() as connection:
                driver = connection.connection.dbapi_connection
                number = driver._sock.fileno() if self.engine == "mysql" else driver.fileno()
                self.assertIsNone(getattr(driver, "_read_timeout", None), "a statement may wait")
                with socket.socket(fileno=os.dup(number)) as copy:
                    ends_ms = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    self.assertEqual(30_000, ends_ms)
                    self.assertEqual(15, copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    def test_a_port_without_a_greeting_is_a_store_error(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            limits = "connect_timeout=1" + "&read_timeout=1" * (self.engine == "mysql")
            where = f"{self.engine}://u@127.0.0.1:{silent.getsockname()[1]}/n?{limits}"
            database = Database(StoreUrl(where))
            with self.assertRaisesRegex(StoreError, "check that the database runs"):
                database.retry(database.writer.connect, "opening", most=1)


@partial(on_each_engine, engines=["postgresql"])
class TestServerEncoding:
    """An encoding that a server prefers."""

    def test_texts_are_stored_in_all_scripts(self):
        url = StoreUrl(self.url).url
        for encoding in ("SQL_ASCII", "LATIN1"):
            options = {"options": f"{url.query['options']} -cclient_encoding={encoding}"}
            with self.subTest(encoding):
                store = self.store(url.update_query_dict(options).render_as_string())
                store.remember(podm(f"лес {encoding}"))
                self.assertIn(f"лес {encoding}", store.load_podms())


class TestAddress(unittest.TestCase):
    """The arguments of a driver; no server is contacted."""

    def called(self, url, name):
        database, calls = Database(StoreUrl(url)), []

        class Called(Exception):
            """It was called."""

        def call(_dialect, _record, arguments, words):
            calls.append((arguments, words))
            raise Called

        engine = getattr(database, name)
        sa.event.listen(engine, "do_connect", call)
        with self.assertRaises(Called):
            engine.connect()
        return calls[0]

    def test_a_server_that_does_not_answer_is_waited_for_ten_seconds(self):
        for url in ("postgresql://u@127.0.0.1:1/x", "mysql://u@127.0.0.1:1/x"):
            for name in ("reader", "writer"):
                with self.subTest(url, name=name):
                    self.assertEqual(10, self.called(url, name)[1]["connect_timeout"])

    def test_a_statement_that_holds_a_whole_claim_needs_no_begin_and_no_commit(self):
        """On PostgreSQL, over the connections of the writer; on other engines it is not known to
        work.
        """
        database = Database(StoreUrl("postgresql://u@127.0.0.1:1/x"))
        alone = database._engine_of_single()
        self.assertEqual("AUTOCOMMIT", alone.get_execution_options()["isolation_level"])
        self.assertIs(database.writer.pool, alone.pool)
        options = list(database.writer.get_execution_options())
        self.assertEqual(["compiled_cache"], options, "the cache of the tests")
        self.assertIsNone(Database(StoreUrl("sqlite://"))._engine_of_single())
        either = Database(StoreUrl("mysql://u@127.0.0.1:1/x"))
        self.assertIsNone(either._engine_of_single(), "MySQL has no statement that does")
        either.writer.dialect.is_mariadb = True  # as the first connection finds out
        self.assertIs(either.writer, either._engine_of_single())

    def test_a_file_is_named_with_its_home_and_its_lock_is_waited_for(self):
        for name in ("reader", "writer"):
            arguments, words = self.called("sqlite:///~/vs.db", name)
            file = str(StoreUrl("sqlite:///~/vs.db").file)
            self.assertEqual([file], list(arguments))
            self.assertNotIn("~", file)
            self.assertEqual(BUSY_TIMEOUT_MS / 1000, words["timeout"])

    def test_only_what_the_driver_raises_as_well_is_kept_out_of_its_log(self):
        log = logging.getLogger("psycopg")
        before = [*log.filters]
        self.addCleanup(setattr, log, "filters", before)
        log.filters = []
        Database(StoreUrl("mysql://u@127.0.0.1:1/x"))
        self.assertEqual([], log.filters)
        Database(StoreUrl("postgresql://u@127.0.0.1:1/x"))
        for words, told in (("error ignored terminating x", False), ("lost", True), ("", True)):
            record = log.makeRecord("psycopg", logging.WARNING, "", 0, words, (), None)
            with self.subTest(words):
                self.assertEqual(told, bool(log.filter(record)))


class TestAgain(unittest.TestCase):
    """Repeated transactions: which, how often, and the final error."""

    def setUp(self):
        self.now_s, self.pauses = 100.0, []
        self.database = Database(
            StoreUrl("sqlite://"), self.pauses.append, lambda: 1.0, lambda: self.now_s
        )
        self.addCleanup(self.database.close)

    def attempts(self, *errors, step_s=0.0, patience_s=0.0, **words):
        """Return the problem, if any, and the number of errors."""
        left = iter(errors)
        met = []

        def work():
            self.now_s += step_s
            error = next(left, None)
            if error is not None:
                met.append(error)
                raise error

        try:
            self.database.patient(patience_s).retry(work, "working", **words)
        except StoreError as problem:
            return problem, len(met)
        return None, len(met)

    def test_what_is_in_the_way_is_tried_so_often(self):
        self.assertEqual((None, MOST_ATTEMPTS - 1), self.attempts(*[BUSY] * (MOST_ATTEMPTS - 1)))
        problem, met = self.attempts(*[BUSY] * (MOST_ATTEMPTS + 5))
        self.assertEqual(MOST_ATTEMPTS, met)
        self.assertEqual("store in memory: working: it is locked", str(problem))
        self.assertFalse(problem.uncertain)
        self.assertEqual(3, self.attempts(*[BUSY] * 9, most=3)[1])

    def test_pauses_get_longer_up_to_half_a_second_and_are_counted(self):
        self.attempts(*[BUSY] * 12)
        expected = [0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 0.5, 0.5, 0.5, 0.5]
        self.assertEqual(expected, self.pauses)
        self.assertEqual(12, self.database.counts.retries)

    def test_a_row_that_another_writer_put_there_is_found_on_the_next_run(self):
        self.assertEqual((None, 1), self.attempts(TWICE, write=True))
        problem, met = self.attempts(TWICE, TWICE)
        self.assertEqual((1, False), (met, problem.uncertain))

    def test_a_database_that_is_away_is_waited_for_as_long_as_patience_lasts(self):
        self.assertEqual(1, self.attempts(AWAY)[1])
        self.assertEqual((None, 3), self.attempts(*[AWAY] * 3, step_s=1.0, patience_s=4.0))
        problem, met = self.attempts(*[AWAY] * 9, step_s=1.0, patience_s=4.0, write=True)
        self.assertEqual((4, False), (met, problem.uncertain))
        problem, met = self.attempts(*[CUT] * 99, step_s=1.0, patience_s=60.0)
        self.assertEqual(60, met)
        problem, met = self.attempts(*[CUT] * 99, step_s=10.0)
        self.assertEqual(6, met, "each attempt was silent")
        full = failed("it is full", sqlite_errorcode=sqlite3.SQLITE_FULL)
        self.assertEqual(1, self.attempts(full, patience_s=60.0)[1])

    def test_after_a_write_that_was_cut_off_nothing_is_certain(self):
        for errors, write, uncertain in (
            ((CUT, AWAY), True, True),
            ((CUT, BUSY, AWAY), True, True),
            ((CUT, AWAY), False, False),
            ((BUSY, AWAY), True, False),
            ([CUT] * MOST_ATTEMPTS, True, True),
            ([CUT] * MOST_ATTEMPTS, False, False),
        ):
            with self.subTest(errors, write=write):
                problem, _ = self.attempts(*errors, write=write)
                self.assertEqual(uncertain, problem.uncertain)

    def test_a_write_of_one_attempt_that_is_cut_off_is_uncertain(self):
        self.assertTrue(self.attempts(CUT, most=1, write=True)[0].uncertain)
        self.assertFalse(self.attempts(CUT, most=1)[0].uncertain)

    def test_a_patient_one_has_the_same_connections_and_counts(self):
        patient = self.database.patient()
        self.assertEqual((60.0, 0.0), (patient.patience_s, self.database.patience_s))
        self.assertIs(self.database.writer, patient.writer)
        self.assertIs(self.database.counts, patient.counts)


class TestTransactions(unittest.TestCase):
    """Work that is done as a whole."""

    def setUp(self):
        self.pauses = []
        self.database = Database(StoreUrl("sqlite://"), self.pauses.append, lambda: 1.0)
        self.addCleanup(self.database.close)

    def test_watches_are_called_before_each_but_not_before_their_own(self):
        seen = []

        def watch(database):
            seen.append(database)
            return database.run_unwatched(lambda _: None, "watching", write=True)

        self.database.watches.append(watch)
        self.assertEqual(
            (1, 2), (self.database.read(lambda _: 1), self.database.write(lambda _: 2))
        )
        self.assertEqual([self.database] * 2, seen)
        self.assertEqual(4, self.database.counts.transactions)

    def test_a_write_alone_runs_again_after_a_row_of_another(self):
        for run, runs in ((self.database.write, 2), (self.database.read, 1)):
            left = [TWICE]
            calls = []

            def work(_connection, left=left, calls=calls):
                calls.append(1)
                if left:
                    raise left.pop()

            with self.subTest(runs):
                if runs == 1:
                    with self.assertRaisesRegex(StoreError, ": doing it: it is there$"):
                        run(work, "doing it")
                else:
                    run(work, "doing it")
                self.assertEqual(runs, len(calls))

    def test_one_statement_is_tried_once_before_the_work_where_the_engine_can(self):
        """The test uses an embedded engine in place of such a server."""
        twice, busy = TWICE, BUSY
        for first, runs, written in (
            ("single", ["single"], "single"),
            (None, ["single", "work"], "work"),  # it wrote nothing
            (twice, ["single", "work"], "work"),  # another row is in its way
            (busy, ["single", "work"], "work"),  # it is not tried again
        ):
            for can in (True, False):
                ran = []

                def single(_connection, ran=ran, first=first):
                    ran.append("single")
                    if isinstance(first, Exception):
                        raise first
                    return first

                def work(_connection, ran=ran):
                    ran.append("work")
                    return "work"

                engine = self.database.writer if can else None
                with (
                    self.subTest(first, can=can),
                    mock.patch.object(self.database, "_engine_of_single", lambda it=engine: it),
                ):
                    found = self.database.write(work, single=single)
                    self.assertEqual(written if can else "work", found)
                    self.assertEqual(runs if can else ["work"], ran)

    def test_without_words_none_are_told(self):
        def fail(_connection):
            raise failed("it is full")

        for run in (self.database.read, self.database.write):
            with self.assertRaisesRegex(StoreError, "^store in memory: it is full"):
                run(fail)

    def test_what_fails_is_not_written(self):
        def create(connection):
            connection.exec_driver_sql("CREATE TABLE one (number INTEGER)")

        def fail(connection):
            connection.exec_driver_sql("INSERT INTO one VALUES (1)")
            raise ZeroDivisionError

        self.database.write(create)
        with self.assertRaises(ZeroDivisionError):
            self.database.write(fail)
        rows = self.database.read(lambda it: it.exec_driver_sql("SELECT * FROM one").all())
        self.assertEqual([], rows)


@on_each_engine
class TestOneRow:
    """One statement as a separate transaction."""

    def test_it_reads_what_was_committed_last_under_each_name_of_the_engine(self):
        with self.store():  # creates the tables
            pass
        for url in {self.url, self.url.replace("mysql", "mariadb", 1)}:
            with self.subTest(url.partition(":")[0]):
                self.check_last_commit(url)

    def check_last_commit(self, url):
        one, other = Database(StoreUrl(url)), Database(StoreUrl(self.url))
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        for number in range(1, 4):
            other.write(lambda c, to=number: c.exec_driver_sql(f"UPDATE shards SET moved = {to}"))
            row = one.read_row(sa.text("SELECT min(moved), max(moved) FROM shards"))
            self.assertEqual((number, number), tuple(map(int, row)))
        self.assertEqual(3, one.counts.transactions)
        count = one.read(lambda c: c.exec_driver_sql("SELECT min(moved) FROM shards").scalar())
        self.assertEqual(3, count, "the connection is as good as before")

    def test_one_that_fails_is_told_and_the_next_one_works(self):
        database = Database(StoreUrl(self.url))
        self.addCleanup(database.close)
        with self.assertRaisesRegex(StoreError, ": looking: "):
            database.read_row(sa.text("SELECT 1 FROM absent"), "looking")
        self.assertEqual((1,), tuple(database.read_row(sa.text("SELECT 1"))))

    def test_one_whose_connection_was_closed_is_asked_again(self):
        database = Database(StoreUrl(self.url), lambda _seconds: None)
        self.addCleanup(database.close)
        if database.address.engine == "sqlite":
            self.skipTest("another process cannot close a connection to a file")
        (number,) = database.read_row(self.number_of_connection(database))
        is_postgresql = database.address.engine == "postgresql"
        end = f"SELECT pg_terminate_backend({number})" if is_postgresql else f"KILL {number}"
        database.write(lambda c: c.exec_driver_sql(end) and None)
        self.assertEqual((2,), tuple(database.read_row(sa.text("SELECT 2"))))
        self.assertEqual(1, database.counts.retries)

    def test_its_connection_stays_for_the_next_one(self):
        database = Database(StoreUrl(self.url))
        self.addCleanup(database.close)
        if database.address.engine == "sqlite":
            self.skipTest("a connection to a file has no number")
        numbers = {tuple(database.read_row(self.number_of_connection(database))) for _ in range(3)}
        self.assertEqual(1, len(numbers))
        database.close()
        self.assertNotIn(tuple(database.read_row(self.number_of_connection(database))), numbers)

    @staticmethod
    def number_of_connection(database):
        is_postgresql = database.address.engine == "postgresql"
        return sa.text("SELECT pg_backend_pid()" if is_postgresql else "SELECT connection_id()")

    def test_a_server_that_cannot_be_reached_is_told(self):
        if StoreUrl(self.url).engine == "sqlite":
            self.skipTest("a file has no server")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = sa.make_url(self.url).set(host="127.0.0.1", port=closed.getsockname()[1])
            database = Database(StoreUrl(url.render_as_string(hide_password=False)))
            self.addCleanup(database.close)
            with self.assertRaisesRegex(StoreError, ": looking: "):
                database.read_row(sa.text("SELECT 1"), "looking")

    def test_watches_are_called_before_it(self):
        database, seen = Database(StoreUrl(self.url)), []
        self.addCleanup(database.close)
        database.watches.append(seen.append)
        database.read_row(sa.text("SELECT 1"))
        self.assertEqual([database], seen)


class TestUrl(unittest.TestCase):
    """Each engine, and each optional part."""

    def test_it_is_printed_without_what_is_secret(self):
        for url, text in (
            ("sqlite:////var/lib/state.db", "/var/lib/state.db"),
            ("sqlite:///:memory:", "store in memory"),
            ("sqlite://", "store in memory"),
            ("postgresql://me:secret@db:5433/name?sslmode=require", "postgresql://db:5433/name"),
            ("mysql://me@db/name", "mysql://db/name"),
            ("mariadb:///name", "mariadb://localhost/name"),
            ("postgresql://db", "postgresql://db/"),
        ):
            with self.subTest(url):
                self.assertEqual(text, str(StoreUrl(url)))
                self.assertEqual(f"StoreUrl({text!r})", repr(StoreUrl(url)))

    def test_the_driver_is_ours_unless_one_is_named(self):
        for url, driver in (
            ("sqlite://", "sqlite"),
            ("postgresql://db/name", "postgresql+psycopg"),
            ("mysql://db/name", "mysql+pymysql"),
            ("mariadb://db/name", "mariadb+pymysql"),
            ("mysql+mysqldb://db/name", "mysql+mysqldb"),
        ):
            self.assertEqual(driver, StoreUrl(url).url.drivername)

    def test_only_an_embedded_one_has_a_file_or_is_in_memory(self):
        for url, file, in_memory in (
            ("sqlite:///a.db", Path("a.db"), False),
            ("sqlite:///~/a.db", Path.home() / "a.db", False),
            ("sqlite:////a%3Fb%20c%25.db?timeout=3", Path("/a?b c%.db"), False),
            ("sqlite://", None, True),
            ("sqlite:///:memory:", None, True),
            ("postgresql://db/name", None, False),
        ):
            self.assertEqual((file, in_memory), (StoreUrl(url).file, StoreUrl(url).in_memory))

    def test_what_cannot_be_one_is_told(self):
        for url, line in (
            ("nothing", "the URL of the store is invalid: use sqlite:///FILE, "
             "postgresql://HOST/NAME or mysql://HOST/NAME"),
            ("oracle://db", "unknown database 'oracle': use sqlite, postgresql or mysql"),
            ("mysql://db", "the URL names no database: use mysql://HOST/NAME"),
            ("mariadb:///", "the URL names no database: use mariadb://HOST/NAME"),
            ("sqlite:///file:a.db?uri=true", "sqlite has no option 'uri': use sqlite:///FILE"),
        ):  # fmt: skip
            with self.assertRaises(StoreError) as caught:
                StoreUrl(url)
            self.assertEqual(line, str(caught.exception))

    def test_an_option_or_a_driver_that_cannot_be_used_is_told(self):
        for url, address, problem in (
            ("mysql://db/n?dialect=x", "mysql://db/n", "unexpected keyword argument 'dialect'"),
            ("mysql+absent://db/n", "mysql://db/n", "Can't load plugin"),
            ("mysql://db/n?read_timeout=x", "mysql://db/n", "invalid literal for int()"),
            ("mysql://db/n?ssl_ca=/nowhere", "mysql://db/n", "No such file or directory"),
            ("sqlite:///a.db?timeout=x", "a.db", "could not convert string to float"),
        ):
            with self.subTest(url), self.assertRaises(StoreError) as caught:
                Database(StoreUrl(url)).read(lambda _connection: None, "opening")
            error, engine = str(caught.exception), url.partition(":")[0].partition("+")[0]
            self.assertTrue(error.startswith(f"{address}: the URL is refused: "), error)
            self.assertIn(problem, error)
            hint = f": begin it with {engine}://, and correct its options"
            self.assertTrue(error.endswith(hint), error)


class TestAway(StoreCase):
    """The database cannot be opened at first."""

    def setUp(self):
        super().setUp()
        self.pauses = []
        self.one = self.store(sleep=self.pauses.append, jitter=lambda: 1.0)
        self.one.remember(podm())
        self.claims = self.one.claims
        self.claim = self.claims.create([part("p", 1, "c0")]).id

    def away(self, engine="writer", times=1):
        """Let this number of transactions find no database."""
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        left = [error] * times

        def refuse(connection):
            if left:
                connection.connection.dbapi_connection.execute("ROLLBACK")
                raise sa.exc.OperationalError("BEGIN", {}, left.pop())

        sa.event.listen(getattr(self.one._database, engine), "begin", refuse)

    def composed(self):
        self.claims.start_composing(self.claim)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=self.claim, blocks=("c0",))
        self.claims.finish_composing(self.claim, [node])

    def test_a_node_is_noted(self):
        self.claims.start_composing(self.claim)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=self.claim, blocks=("c0",))
        for engine in ("writer", "reader"):
            self.away(engine)
        self.assertEqual("COMPOSED", self.claims.finish_composing(self.claim, [node]).state)
        self.assertEqual([0.004, 0.004], self.pauses)

    def test_a_node_is_forgotten(self):
        self.composed()
        for engine in ("writer", "reader"):
            self.away(engine)
        self.one.nodes.forget("n")
        self.assertFalse(usage(self.one))

    def test_a_claim_is_given_up(self):
        for engine in ("writer", "reader"):
            self.away(engine)
        self.claims.fail(self.claim, "why")
        self.assertEqual("FAILED", self.claims.show(self.claim).state)
        self.assertFalse(usage(self.one))

    def test_what_may_be_reserved_is_noted(self):
        self.away()
        self.claims.note_reserving(self.claim)
        self.assertEqual(["held", "reserving"], [it.kind for it in self.one.events(self.claim)])

    def test_the_pauses_get_longer_up_to_half_a_second(self):
        self.away(times=10)
        self.claims.note_reserving(self.claim)
        expected = [0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 0.5, 0.5]
        self.assertEqual(expected, self.pauses)
        self.assertEqual(10, self.one.counts.retries)

    def test_before_an_effect_nothing_waits_and_nothing_is_left_to_tell(self):
        lines = self.one.effects.unnamed_lines()
        for step in (
            lambda: self.claims.create([part("p", 1, "c1")]),
            lambda: self.claims.start_composing(self.claim),
            lambda: self.claims.release(self.claim),
            lambda: self.one.remember(podm(zone="z")),
        ):
            self.away()
            with self.assertRaisesRegex(
                StoreError, "unable to open database file .check its folder"
            ):
                step()
        self.assertEqual([], self.pauses)
        self.assertEqual(lines, self.one.effects.unnamed_lines())
        self.assertEqual("HELD", self.claims.show(self.claim).state)
