# SPDX-License-Identifier: Apache-2.0
"""The URL of a store: what it names, and how it is printed without its password."""

import unittest
from pathlib import Path

from valence_sched.errors import StoreError
from valence_sched.store.database import StoreUrl


class TestUrl(unittest.TestCase):
    """Each engine, and each part that may be missing."""

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
            ("nothing", "the store's URL cannot be read: write it as sqlite:///FILE, "
             "postgresql://HOST/NAME or mysql://HOST/NAME"),
            ("oracle://db", "a store in 'oracle' is not known: use sqlite, postgresql or mysql"),
        ):  # fmt: skip
            with self.assertRaises(StoreError) as caught:
                StoreUrl(url)
            self.assertEqual(line, str(caught.exception))
