# SPDX-License-Identifier: Apache-2.0
"""What tables are made of: keys, parts of statements, options and the time, engine by engine."""

import time
import unittest

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql.mariadb import MariaDBDialect

from valence_sched.store import tables
from valence_sched.store.tables import CHUNK, chunks, digest_of, key_of, now, statement_time


class TestKeys(unittest.TestCase):
    """Stores have them: they are never to change."""

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
