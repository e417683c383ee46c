# SPDX-License-Identifier: Apache-2.0
"""Database errors: which ones are retried, and the message for each of the others."""

from __future__ import annotations

import re

import sqlalchemy as sa

from valence_sched.errors import StoreError, one_line
from valence_sched.store.url import StoreUrl

# Another transaction was in the way: serialisation failure, deadlock, lock timeout.
RETRYABLE_SQLSTATES = {"40001", "40P01", "55P03"}
RETRYABLE_MYSQL_NUMBERS = {1205, 1213, 1020, 1637}
# Too many connections; read-only, as while another server takes over.
PASSING_SQLSTATES = {"53300", "25006"}
PASSING_MYSQL_NUMBERS = {1040, 1203, 1290, 1836}
# Nothing but other settings lets these in. PostgreSQL gives no SQLSTATE before the login.
REFUSED_MYSQL_NUMBERS = {1044, 1045, 1049}
REFUSED_LOGIN = re.compile(r"does not exist|authentication failed|pg_hba\.conf")
RETRYABLE_SQLITE_CODES = {5, 6}  # SQLITE_BUSY, SQLITE_LOCKED

HINTS = {
    "full": "make room, then run it again: nothing of this change was written",
    "readonly": "give this user the right to write there, or name another store",
    "corrupt": "it is no store of ours or it is damaged: restore a copy, or name another store",
    "disk": "make room if the disk is full, or name a store on another one",
    "unreachable": "is the database running, and are host, port and login right?",
}
SQLITE_KINDS = {
    8: "readonly",
    10: "disk",
    13: "full",
    11: "corrupt",
    26: "corrupt",
    14: "unreachable",
}
MYSQL_KINDS = {1021: "full", 1114: "full", 1030: "full", 3: "full", 1290: "readonly",
               1044: "unreachable", 1045: "unreachable", 1049: "unreachable", 2003: "unreachable",
               1142: "readonly"}  # fmt: skip
SQLSTATE_KINDS = {"53100": "full", "25006": "readonly", "42501": "readonly", "XX001": "corrupt"}


def is_retryable(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether the same transaction may succeed when it is run again."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if _sqlstate(error) in RETRYABLE_SQLSTATES:
        return True
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in RETRYABLE_SQLITE_CODES
    return _mysql_number(error) in RETRYABLE_MYSQL_NUMBERS


def is_disconnect(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether the connection is gone, as when the database was restarted."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    return error.connection_invalidated or (_sqlstate(error) or "").startswith(("08", "57P"))


def is_unreachable(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether no connection was to be had, or none that may write: later one may be."""
    if isinstance(error, sa.exc.TimeoutError):  # all connections of this process wait
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    passing = _sqlstate(error) in PASSING_SQLSTATES or _mysql_number(error) in PASSING_MYSQL_NUMBERS
    return passing or _kind(error) == "unreachable"


def is_away(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether a server may answer later what it does not now: it did not refuse a login."""
    if not (is_unreachable(error) or is_disconnect(error)):
        return False
    if isinstance(error, sa.exc.DBAPIError) and _mysql_number(error) in REFUSED_MYSQL_NUMBERS:
        return False
    _, _, fatal = str(getattr(error, "orig", error)).partition("FATAL: ")
    return not REFUSED_LOGIN.search(fatal)


class RowRefused(StoreError):
    """The engine cannot store a value of one row; it may well store other rows."""


def store_error(error: Exception, address: StoreUrl, doing: str = "") -> StoreError:
    """Return the error of one line: the store, the message of the engine, what to do."""
    if not isinstance(error, sa.exc.DBAPIError):
        message, hint = _engine_message(error), ""
    else:
        message, hint = _engine_message(error.orig or error), HINTS.get(_kind(error), "")
    if address.url.password:  # some drivers repeat the URL
        message = message.replace(str(address.url.password), "***")
    prefix = f"{doing}: " if doing else ""
    error_class = RowRefused if isinstance(error, sa.exc.DataError) else StoreError
    return error_class(one_line(f"{address}: {prefix}{message}" + (f" ({hint})" if hint else "")))


def _engine_message(error: BaseException) -> str:
    """Return the first line of the engine's message; PyMySQL gives a number before it."""
    words = next((arg for arg in reversed(error.args) if isinstance(arg, str)), "")
    return (words or str(error) or type(error).__name__).strip().splitlines()[0].strip()


def _kind(error: sa.exc.DBAPIError) -> str:
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return SQLITE_KINDS.get(code & 0xFF, "")
    state = _sqlstate(error)
    if state:
        return SQLSTATE_KINDS.get(state, "unreachable" if state.startswith("08") else "")
    number = _mysql_number(error)
    if number is not None and number in MYSQL_KINDS:
        return MYSQL_KINDS[number]
    return "unreachable" if isinstance(error, sa.exc.OperationalError) else ""


def _sqlstate(error: sa.exc.DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    return str(state) if state else None


def _mysql_number(error: sa.exc.DBAPIError) -> int | None:
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None
