# SPDX-License-Identifier: Apache-2.0
"""The schema of a store, and its tables."""

import contextlib
import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql.mariadb import MariaDBDialect

from tests.unit.store.engines import StoreCase, on_each_engine, raw_engine
from tests.unit.store.site import podm
from valence_sched.errors import StoreError
from valence_sched.model.base import digest_of
from valence_sched.model.registration import Registration
from valence_sched.store import schema, tables
from valence_sched.store.database import Database, StoreUrl
from valence_sched.store.store import Store
from valence_sched.store.tables import CHUNK, chunks, key_of, now, statement_time

ONE = Registration(name="a", url="https://a")


NEXT = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{later}", "{latest}"
def upgrade():
    op.create_table("later", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("update registry set name = 'b'")
"""
LATER = f"{int(tables.REVISION) + 1:04}"


def register(url, name):
    with Store(url) as store:
        store.register(Registration(name=name, url="https://x"))


def upgrade(url, folder):
    """Open a store with one migration more than this program has."""
    database = Database(StoreUrl(url))
    try:
        schema.prepare(database, LATER, folder)
    finally:
        database.close()


def run(work, url, argument, barrier, queue):
    barrier.wait()
    try:
        work(url, argument)
        queue.put(None)
    except Exception as error:  # raised by the test
        queue.put(repr(error))


@on_each_engine
class TestSchema:
    """The schema is the same after each way to a revision."""

    def test_tables_that_a_process_left_that_died_are_taken(self):
        url = self.fresh_url()
        engine = raw_engine(url)
        with engine.begin() as connection:
            tables.METADATA.create_all(connection, [tables.claims, tables.claim_parts])
        engine.dispose()
        self.assertEqual([], self.store(url).claims.list())

    def later(self):
        """Return a folder with the migrations and one more."""
        folder = self.folder / "migrations"
        shutil.copytree(schema.MIGRATIONS, folder)
        text = NEXT.format(later=LATER, latest=tables.REVISION)
        (folder / "versions" / f"{LATER}_later.py").write_text(text)
        return folder

    def reflected(self):
        """Return the structure of each table in the engine: columns, keys, indexes, references."""
        engine = raw_engine(self.url)
        inspector = sa.inspect(engine)
        found = {
            name: (
                [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)],
                inspector.get_pk_constraint(name)["constrained_columns"],
                sorted((i["name"], i["column_names"]) for i in inspector.get_indexes(name)),
                sorted(u["column_names"] for u in inspector.get_unique_constraints(name)),
                sorted(f["constrained_columns"] for f in inspector.get_foreign_keys(name)),
            )
            for name in inspector.get_table_names()
        }
        engine.dispose()
        return found

    def test_a_new_store_has_the_tables_that_are_declared(self):
        self.store()
        self.assertEqual({*tables.METADATA.tables}, {*self.reflected()})

    def test_an_older_store_is_upgraded_and_keeps_what_it_has(self):
        self.url = self.fresh_url()
        self.store().register(ONE)
        before = self.reflected()
        upgrade(self.url, self.later())
        self.assertEqual([(LATER,)], self.execute(sa.select(tables.version)))
        self.assertEqual([("b",)], self.execute(sa.select(tables.registry.c.name)))
        after = self.reflected()
        self.assertEqual({*before, "later"}, {*after})
        self.assertEqual(before, {name: after[name] for name in before})
        with self.assertRaisesRegex(StoreError, f"schema has version {LATER}"):
            self.store()

    def test_a_newer_store_is_refused_in_one_line(self):
        self.store()
        self.execute(sa.update(tables.version).values(version_num="0999"))
        with self.assertRaisesRegex(
            StoreError, f"schema has version 0999, .* supports up to {tables.REVISION}: use a newer"
        ):
            self.store()

    def test_several_processes_open_a_new_store_at_once(self):
        self.url = self.fresh_url()
        names = [f"p{number}" for number in range(3)]
        self.at_once(register, names)
        self.assertEqual(names, [one.name for one in self.store().registrations()])

    def test_several_processes_upgrade_an_older_store_at_once(self):
        self.url = self.fresh_url()
        self.store().close()
        self.at_once(upgrade, [self.later()] * 3)
        self.assertEqual([(LATER,)], self.execute(sa.select(tables.version)))

    def at_once(self, work, arguments):
        """Call the function with each argument in a separate process, all at the same time."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        barrier, queue = context.Barrier(len(arguments)), context.Queue()
        processes = [
            context.Process(target=run, args=(work, self.url, argument, barrier, queue))
            for argument in arguments
        ]
        for process in processes:
            process.start()
        self.assertEqual([None] * len(arguments), [queue.get(timeout=120) for _ in processes])
        for process in processes:
            process.join()


class TestFile(StoreCase):
    """The file of an embedded store."""

    def test_it_is_for_its_user_alone_and_so_is_its_folder(self):
        file = self.folder / "new" / "store.db"
        umask = os.umask(0)
        self.addCleanup(os.umask, umask)
        store = self.store(f"sqlite:///{file}")
        store.register(ONE)
        for path in (file, file.with_name("store.db-wal")):
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), path)
        self.assertEqual(0o700, stat.S_IMODE(file.parent.stat().st_mode))

    def test_it_is_written_ahead(self):
        self.store()
        self.assertEqual([("wal",)], self.execute(sa.text("PRAGMA journal_mode")))

    def test_opening_it_again_leaves_the_locks_of_who_has_it_open(self):
        self.store().register(ONE)
        self.store()
        other = (
            "import sys; from valence_sched.store.store import Store\nStore(sys.argv[1]).close()"
        )
        subprocess.run([sys.executable, "-c", other, self.url], check=True)
        self.assertTrue(list(self.folder.glob("*.db-wal")), "thrown away while it was in use")

    def test_a_link_to_what_is_not_there_yet_is_followed(self):
        umask = os.umask(0)
        self.addCleanup(os.umask, umask)
        link, file = self.folder / "link.db", self.folder / "store.db"
        link.symlink_to(file)
        self.store(f"sqlite:///{link}")
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))

    def test_what_is_no_store_is_one_line(self):
        file = self.folder / "store.db"
        file.write_bytes(b"this is not a database at all, whatever its name says" * 100)
        with self.assertRaisesRegex(StoreError, f"^{file}: .*file is not a database .*restore a"):
            self.store(f"sqlite:///{file}")

    def test_the_database_of_another_program_is_refused_and_stays_as_it_is(self):
        for name, version in (("photos", ""), ("alembic_version", "0001")):
            with self.subTest(version):
                path = self.folder / f"other{version}.db"
                with contextlib.closing(sqlite3.connect(path)) as other, other:
                    other.execute(f"create table {name} (version_num)")
                    other.execute("create table albums (id integer)")
                    other.execute(f"insert into {name} values ('{version}')")
                before = path.read_bytes()
                with self.assertRaises(StoreError) as caught:
                    Store(f"sqlite:///{path}")
                shown = "albums" if version else "albums, photos"
                self.assertEqual(f"{path}: it has the tables of another program ({shown}): name "
                                 "another store", str(caught.exception))  # fmt: skip
                self.assertEqual(before, path.read_bytes())

    def test_a_damaged_store_is_one_line(self):
        self.one.remember(podm(blocks=2000))
        self.one.close()
        file = next(self.folder.glob("*.db"))
        data = bytearray(file.read_bytes())
        data[4096:] = os.urandom(len(data) - 4096)
        file.write_bytes(data)
        with self.assertRaisesRegex(StoreError, "valence-sched store: restore a backup"):
            self.store().load_podms()

    def test_a_place_that_is_none_is_one_line(self):
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        for place, words in (
            ("/proc/no/store.db", "no such file"),
            ("/dev/full", "is not a regular file"),
            ("/usr", "is not a regular file"),
            (str(loop), "too many levels of symbolic links"),
        ):
            with self.subTest(place), self.assertRaisesRegex(StoreError, f"^{place}.*{words}"):
                self.store(f"sqlite:///{place}")

    @unittest.skipUnless(os.geteuid() == 0, "only root can stop being root")
    def test_a_file_that_may_only_be_read_is_one_line(self):
        self.store().close()
        file = next(self.folder.glob("*.db"))
        self.folder.chmod(0o755)
        file.chmod(0o444)
        reader, writer = os.pipe()
        if os.fork() == 0:  # this interpreter may be one that only root can start
            try:
                os.setuid(65534)
                Store(self.url)
            except BaseException as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.wait()
        text = os.read(reader, 1000).decode()
        os.close(reader)
        os.close(writer)
        self.assertTrue(text.startswith(f"{file}: permission denied"), text)


class TestUrl(unittest.TestCase):
    """Passwords do not leave the URL."""

    def test_a_password_is_in_no_error_and_no_repr(self):
        for scheme in ("postgresql", "mysql", "mariadb"):
            with self.subTest(scheme), self.assertRaises(StoreError) as caught:
                Store(f"{scheme}://user:s3cr%2Ft@127.0.0.1:1/name?connect_timeout=2")
            text = f"{caught.exception!r} {caught.exception.__cause__!r}"
            self.assertNotIn("s3cr", text)
            self.assertIn("127.0.0.1:1/name", text)
            self.assertIn("check that the database runs", text)
            self.assertNotIn("\n", str(caught.exception))

    def test_what_cannot_be_read_is_not_repeated(self):
        with self.assertRaisesRegex(StoreError, "use sqlite:///FILE") as caught:
            Store("user:s3cret@host")
        self.assertNotIn("s3cret", str(caught.exception))

    def test_an_engine_that_is_not_known(self):
        with self.assertRaisesRegex(StoreError, "unknown database 'oracle': use sqlite"):
            Store("oracle://h/n")


class TestMigrations(unittest.TestCase):
    """The scripts of alembic."""

    def test_the_revision_of_a_new_store_is_the_latest_migration(self):
        latest = max(path.name for path in (schema.MIGRATIONS / "versions").glob("r0*.py"))
        self.assertEqual(f"r{tables.REVISION}", latest.partition("_")[0])


class TestWeight(unittest.TestCase):
    """The cost of opening."""

    def test_an_embedded_store_opens_without_alembic_and_without_the_dialects_of_servers(self):
        program = (
            "import sys; from valence_sched.store.store import Store\n"
            "Store('sqlite://'); print(*sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=False)  # fmt: skip
        loaded = set(run.stdout.split())
        self.assertIn("sqlalchemy.dialects.sqlite", loaded, run.stderr)
        servers = {f"sqlalchemy.dialects.{name}" for name in ("mysql", "postgresql")}
        self.assertEqual(set(), loaded & {"alembic", *servers})

    def test_tables_of_a_mysql_server_are_transactional_and_tell_letters_apart(self):
        for url in ("mysql+pymysql://", "mariadb+pymysql://"):
            made = []
            engine = sa.create_mock_engine(url, lambda ddl, *_, to=made, **_words: to.append(ddl))
            tables.METADATA.create_all(engine, checkfirst=False)
            texts = [str(one.compile(dialect=engine.dialect)) for one in made]
            created = [text for text in texts if "CREATE TABLE" in text]
            self.assertEqual(len(tables.METADATA.tables), len(created))
            for text in created:
                self.assertRegex(text, "ENGINE=InnoDB.*COLLATE utf8mb4_bin")


class TestKeys(unittest.TestCase):
    """Keys of stores, which must never change."""

    def test_the_key_of_some_words_is_always_the_same(self):
        self.assertEqual("852635742d6eb30fdccb0e7c1b53d92f", key_of("a", "b"))
        self.assertEqual("cae66941d9efbd404e4d88758ea67670", key_of())
        self.assertEqual(key_of("ä\0b"), digest_of("ä\0b".encode()))

    def test_other_words_have_another_key_though_they_read_alike(self):
        keys = {key_of(*words) for words in (("a", "b"), ("b", "a"), ("ab",), ("a", "b", ""))}
        self.assertEqual(4, len(keys))


class TestChunks(unittest.TestCase):
    def test_they_have_all_values_in_order_each_as_many_as_a_statement_takes(self):
        values = [str(number) for number in range(7)]
        for size, expected in (
            (3, [["0", "1", "2"], ["3", "4", "5"], ["6"]]),
            (7, [values]),
            (9, [values]),
            (1, [[value] for value in values]),
        ):
            self.assertEqual(expected, list(chunks(values, size)))
        self.assertEqual([], list(chunks([])))
        self.assertEqual([CHUNK, 1], [len(part) for part in chunks(["x"] * (CHUNK + 1))])


class TestTable(unittest.TestCase):
    """A declared table, and its options on each engine."""

    def test_it_has_its_name_and_its_columns_among_all_tables(self):
        found = tables.METADATA.tables["clocks"]
        self.assertIs(tables.clocks, found)
        self.assertEqual(["boot", "ahead_s", "noted_at"], [column.name for column in found.columns])
        self.assertTrue(all(one.columns for one in tables.METADATA.tables.values()))

    def test_only_mysql_and_mariadb_have_options(self):
        for name in ("mysql", "mariadb"):
            expected = {f"{name}_engine": "InnoDB", f"{name}_charset": "utf8mb4",
                        f"{name}_collate": "utf8mb4_bin"}  # fmt: skip
            self.assertEqual(expected, tables.table_options(name))
        for name in ("sqlite", "postgresql"):
            self.assertEqual({}, tables.table_options(name))


class TestTime(unittest.TestCase):
    """The clock of the database, in seconds since 1970."""

    def test_servers_tell_the_time_of_now_and_that_of_a_statement_not_of_its_transaction(self):
        mysqls = (mysql.dialect(), MariaDBDialect())
        for dialects, present, of_statement in (
            ([postgresql.dialect()], "extract(epoch from clock_timestamp())::double precision",
             "extract(epoch from statement_timestamp())::double precision"),
            (mysqls, "(unix_timestamp(sysdate(6)) + 0e0)", "(unix_timestamp(now(6)) + 0e0)"),
            ([sqlite.dialect()], *["((julianday('now') - 2440587.5) * 86400.0)"] * 2),
        ):  # fmt: skip
            for dialect in dialects:
                with self.subTest(dialect.name):
                    texts = [str(one.compile(dialect=dialect)).lower()
                             for one in (now(), statement_time())]  # fmt: skip
                    self.assertEqual([present, of_statement], texts)

    def test_an_embedded_store_has_that_of_the_machine(self):
        engine = sa.create_engine("sqlite://")
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            for clock in (now(), statement_time()):
                before = time.time()
                self.assertAlmostEqual(before, connection.scalar(sa.select(clock)), delta=600)
