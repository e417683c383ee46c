# SPDX-License-Identifier: Apache-2.0
"""What the errors of each engine mean: whether to try again, and what to do."""

import sqlite3
import unittest
from typing import Any

import sqlalchemy as sa

from valence_sched.errors import StoreError
from valence_sched.store.database import (
    HINTS,
    RowRefused,
    StoreUrl,
    is_disconnect,
    is_retryable,
    is_unreachable,
    store_error,
)

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
            [failed("words"), state("40001"), state("5"), sqlite(sqlite3.SQLITE_CANTOPEN)],
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
    """One line: the store, what was being done, what the engine says, what to do."""

    URL = StoreUrl("postgresql://me:secret@127.0.0.1:5432/name")

    def text(self, error, doing="doing"):
        return str(store_error(error, self.URL, doing))

    def test_the_hint_is_that_of_the_failure(self):
        for kind, errors in {
            "full": [sqlite(13), state("53100"), failed(1021, "words"), failed(1114, "words"),
                     failed(1030, "words"), failed(3, "words")],
            "readonly": [sqlite(8), state("25006"), state("42501"), failed(1290, "words"),
                         failed(1142, "words")],
            "corrupt": [sqlite(11), sqlite(26), state("XX001")],
            "disk": [sqlite(10), sqlite(sqlite3.SQLITE_IOERR_WRITE)],
            "unreachable": [sqlite(14), state("08006"), failed(2003, "words"), failed("words")],
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
