# SPDX-License-Identifier: Apache-2.0
"""Database: connections to the store of a URL, retried transactions, and errors of engines."""

import contextlib
import copy
import functools
import importlib.util
import itertools
import logging
import os
import random
import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from valence_sched.errors import StoreError, one_line
from valence_sched.store.document import Quarantine

# By engine: the driver, its module, and the extra that installs it.
DRIVERS = {
    "sqlite": ("sqlite", "sqlite3", ""),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
    "mysql": ("mysql+pymysql", "pymysql", "mysql"),
    "mariadb": ("mariadb+pymysql", "pymysql", "mysql"),
}


class StoreUrl:
    """The URL of a store; printed without password and query."""

    def __init__(self, text: str) -> None:
        try:
            url = make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            hint = "use sqlite:///FILE, postgresql://HOST/NAME or mysql://HOST/NAME"
            raise StoreError(f"the URL of the store is invalid: {hint}") from None
        self.engine = url.get_backend_name()
        if self.engine not in DRIVERS:
            text = f"unknown database {self.engine!r}: use sqlite, postgresql or mysql"
            raise StoreError(text)
        driver, module, extra = DRIVERS[self.engine]
        if extra == "mysql" and not url.database:
            raise StoreError(f"the URL names no database: use {self.engine}://HOST/NAME")
        if importlib.util.find_spec(module) is None:
            raise StoreError(f"{self.engine} needs {module}: pip install 'valence-sched[{extra}]'")
        if self.engine == "sqlite" and (path := text.partition(":///")[2]):
            if unknown := sorted(url.query.keys() - {"timeout"}):  # another file with uri=true
                raise StoreError(f"sqlite has no option {unknown[0]!r}: use sqlite:///FILE")
            # some versions of SQLAlchemy do not do this
            url = url.set(database=unquote(path.partition("?")[0]))
        self.url: URL = url if "+" in url.drivername else url.set(drivername=driver)

    @property
    def file(self) -> Path | None:
        """Return the file of an embedded store, None for a server or a store in memory."""
        name = self.url.database if self.engine == "sqlite" else None
        return Path(os.path.expanduser(name)) if name and name != ":memory:" else None

    @property
    def in_memory(self) -> bool:
        return self.engine == "sqlite" and self.file is None

    def __str__(self) -> str:
        if self.engine == "sqlite":
            return str(self.file or "store in memory")
        host = self.url.host or "localhost"
        port = f":{self.url.port}" if self.url.port else ""
        return one_line(f"{self.engine}://{host}{port}/{self.url.database or ''}")

    def __repr__(self) -> str:
        return f"StoreUrl({str(self)!r})"


# Conflicts of transactions: serialisation failure, deadlock, lock timeout.
RETRYABLE_SQLSTATES = {"40001", "40P01", "55P03"}
RETRYABLE_MYSQL_NUMBERS = {1205, 1213, 1020, 1637}
# Too many connections; read-only, as during a failover.
PASSING_SQLSTATES = {"53300", "25006"}
PASSING_MYSQL_NUMBERS = {1040, 1203, 1290, 1836}
# Errors that need other settings. PostgreSQL has no SQLSTATE before the login.
REFUSED_MYSQL_NUMBERS = {1044, 1045, 1049}
REFUSED_LOGIN = re.compile(r"does not exist|authentication failed|pg_hba\.conf")
RETRYABLE_SQLITE_CODES = {5, 6}  # SQLITE_BUSY, SQLITE_LOCKED
# The settings of a server may differ: local time repeats an hour each autumn, and a lax mode stores
# a text that is too long without its end.
MYSQL_SESSION = (
    "set time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "sql_safe_updates = 0"
)
# Without these, the kernel waits for a host that is gone for a quarter of an hour, or for hours.
IDLE_S, SILENT_MS = 15, 30_000
# Options that a URL may override; ``read_timeout`` is for the login.
TIMEOUTS = {
    "postgresql": {"connect_timeout": 10, "keepalives_idle": IDLE_S, "tcp_user_timeout": SILENT_MS},
    "mysql": {"connect_timeout": 10, "read_timeout": 10},
}

HINTS = {
    "full": "free space, then retry: the change was not written",
    "readonly": "grant this user write access or name another store",
    "corrupt": "damaged, or not a valence-sched store: restore a backup or name another store",
    "disk": "free space, or name a store on another disk",
    "unreachable": "check that the database runs, and its host, port and login",
    "unopened": "check its folder, and the files beside it that end in -wal and -shm",
}
SQLITE_KINDS = {8: "readonly", 10: "disk", 11: "corrupt", 13: "full", 14: "unopened"}
SQLITE_KINDS[26] = "corrupt"
MYSQL_KINDS = dict.fromkeys((3, 1021, 1030, 1114), "full") | {1142: "readonly", 1290: "readonly"}
MYSQL_KINDS |= dict.fromkeys((1044, 1045, 1049, 2003), "unreachable")
SQLSTATE_KINDS = {"53100": "full", "25006": "readonly", "42501": "readonly", "XX001": "corrupt"}


def is_retryable(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether the same transaction may succeed on a retry."""
    sqlite, sqlstate, mysql = _codes(error)
    known = sqlite in RETRYABLE_SQLITE_CODES or sqlstate in RETRYABLE_SQLSTATES
    return known or mysql in RETRYABLE_MYSQL_NUMBERS


def is_disconnect(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether the connection is lost, as after a restart of the database."""
    cut: bool = getattr(error, "connection_invalidated", False)
    sqlstate = _codes(error)[1]  # 08004: no connection was made
    return cut or (sqlstate != "08004" and sqlstate.startswith(("08", "57P")))


def is_unreachable(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether no writable connection was available."""
    _, sqlstate, mysql = _codes(error)
    passing = sqlstate in PASSING_SQLSTATES or mysql in PASSING_MYSQL_NUMBERS
    all_wait = isinstance(error, sa.exc.TimeoutError)  # all connections of this process are in use
    return all_wait or passing or _kind(error) in ("unreachable", "unopened")


def is_away(error: sa.exc.SQLAlchemyError) -> bool:
    """Return whether a server may answer later: False if it refused a login."""
    _, _, fatal = str(getattr(error, "orig", error)).partition("FATAL: ")
    refused = _codes(error)[2] in REFUSED_MYSQL_NUMBERS or REFUSED_LOGIN.search(fatal)
    return not refused and (is_unreachable(error) or is_disconnect(error))


# Errors of a driver that the URL names or of an option in it, before anything is sent.
REFUSED_OPTIONS = (ImportError, TypeError, ValueError, LookupError, AttributeError, OSError)


def _url_error(error: Exception, address: StoreUrl) -> StoreError:
    hint = f"begin it with {address.engine}://, and correct its options"
    reason = getattr(error, "strerror", None) or error
    return StoreError(f"{address}: the URL is refused: {reason}: {hint}")


class RowRefused(StoreError):
    """The engine cannot store a value of one row; other rows are not affected."""


def store_error(error: Exception, address: StoreUrl, doing: str = "") -> StoreError:
    """Return an error of one line: the store, the message of the engine, and a hint."""
    cause, hint = getattr(error, "orig", None) or error, HINTS.get(_kind(error), "")
    # the first line; PyMySQL puts a number before the message
    words = next((arg for arg in reversed(cause.args) if isinstance(arg, str)), "")
    message = (words or str(cause) or type(cause).__name__).strip().splitlines()[0].strip()
    if address.url.password:  # some drivers repeat the URL
        message = message.replace(str(address.url.password), "***")
    text = ": ".join(filter(None, (str(address), doing, message)))
    error_class = RowRefused if isinstance(error, sa.exc.DataError) else StoreError
    return error_class(f"{text} ({hint})" if hint else text)


def _kind(error: Exception) -> str:
    sqlite, sqlstate, mysql = _codes(error)
    if sqlite:
        return SQLITE_KINDS.get(sqlite, "")
    if mysql in MYSQL_KINDS:
        return MYSQL_KINDS[mysql]
    if sqlstate:
        return SQLSTATE_KINDS.get(sqlstate, "unreachable" if sqlstate.startswith("08") else "")
    return "unreachable" if isinstance(error, sa.exc.OperationalError) else ""


def _codes(error: Exception) -> tuple[int, str, int]:
    """Return SQLite's code, the SQLSTATE and MySQL's number of an error, if present."""
    cause = getattr(error, "orig", None)
    args = getattr(cause, "args", ())
    mysql = args[0] if args and isinstance(args[0], int) else 0
    sqlite = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return sqlite, str(getattr(cause, "sqlstate", None) or ""), mysql


T = TypeVar("T")
P = ParamSpec("P")
Work = Callable[[sa.Connection], T]

MOST_ATTEMPTS = 40
LONGEST_PAUSE_S = 0.5
BUSY_TIMEOUT_MS = 20_000
PATIENCE_S = 60.0  # seconds to wait for the database, always after a change of a pod manager


class WorkCounts:
    """Counts the work of one database: tests and benchmarks compare counts, not time."""

    def __init__(self) -> None:
        self.transactions = self.retries = self.rows_read = 0
        self.podms_decoded = self.podms_written = self.usages_read = 0


class Database:
    """Connections to one store; ``sleep`` makes pauses, ``jitter`` (0..1) varies their length.

    ``patience_s`` is the time that a transaction waits for an unreachable database.
    """

    def __init__(
        self,
        address: StoreUrl,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.address = address
        self.counts = WorkCounts()
        self.patience_s = 0.0
        self._sleep, self._jitter, self._clock = sleep, jitter, clock
        self.watches: list[Callable[[Database], object]] = []  # called before each transaction
        self.writer = _engine(address, write=True)
        self.reader = self.writer if address.in_memory else _engine(address, write=False)
        self.quarantine = quarantine or Quarantine()
        for engine in {self.writer, self.reader}:
            self.quarantine.follow(engine)
        self._row_connections: list[sa.PoolProxiedConnection] = []  # kept between two calls
        self._alone: sa.Engine | None = None
        if address.engine == "postgresql":  # over the connections of the writer
            self._alone = self.writer.execution_options(isolation_level="AUTOCOMMIT")

    def read(self, work: Work[T], doing: str = "") -> T:
        """Return the result of ``work`` in one consistent snapshot."""
        for watch in self.watches:
            watch(self)
        return self.run_unwatched(work, doing, write=False)

    def read_row(self, statement: sa.Select[Any] | sa.TextClause, doing: str = "") -> Sequence[Any]:
        """Return the only row of one statement without parameters, in its own transaction.

        This is much faster than :meth:`read`: one round trip, without BEGIN and COMMIT, over a
        connection that stays open.
        """

        def run() -> Sequence[Any]:
            self.counts.transactions += 1
            dialect, connection = self.reader.dialect, None
            text = _literal_text(statement, dialect)
            try:
                connection = self._row_connection()
                with contextlib.closing(connection.cursor()) as cursor:
                    cursor.execute(text)
                    (row,) = cursor.fetchall()
            except BaseException as found:  # an interrupted answer must not be read further
                error: Any = found
                driver = None if connection is None else connection.dbapi_connection
                base: Any = dialect.loaded_dbapi.Error
                is_known = isinstance(error, base)
                cut = is_known and dialect.is_disconnect(error, driver, None)
                if connection is not None:
                    _drop(connection)
                if not is_known:
                    raise
                instance: Any = sa.exc.DBAPIError.instance
                raise instance(text, None, error, base, True, cut, dialect) from error
            # one of the connections used in parallel is kept for the next call
            if not self._row_connections and not self.address.in_memory:
                self._row_connections.append(connection)
            elif self.address.engine == "sqlite":
                connection.close()
            else:  # transactions need a connection in another mode
                _drop(connection)
            return tuple(row)

        for watch in self.watches:
            watch(self)
        return self.retry(run, doing)

    def write(self, work: Work[T], doing: str = "", single: Work[T | None] | None = None) -> T:
        """Return the result of ``work`` after the commit; StoreError if refused.

        ``work`` runs again as a whole after a conflict of transactions or a lost connection. It
        must recognise the writes of an earlier run, since the answer to a successful commit can be
        lost. On PostgreSQL and MariaDB, ``single`` is tried once before ``work``: one statement
        that returns None if it wrote nothing.
        """
        for watch in self.watches:
            watch(self)
        remaining = [] if single is None else [single]
        alone = self._engine_of_single()

        def run() -> T:
            if remaining and alone is not None:
                # after a duplicate key the statements of ``work`` find the reason
                with contextlib.suppress(sa.exc.IntegrityError):
                    if (written := self._transact(remaining.pop(), alone)) is not None:
                        return written
            return self._transact(work, self.writer)

        return self.retry(run, doing, write=True)

    def _engine_of_single(self) -> sa.Engine | None:
        """Return the engine for single statements, None if it may not support them."""
        is_mariadb = getattr(self.writer.dialect, "is_mariadb", False)
        return self.writer if is_mariadb else self._alone

    def run_raw(self, statement: str, *values: object) -> None:
        """Run a statement of SQLite outside a transaction."""
        with self.writer.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            try:
                raw.execute(statement, values)
            except Exception as error:  # an error of the driver, not of SQLAlchemy
                raise sa.exc.OperationalError(None, None, error) from None

    def patient(self, patience_s: float = PATIENCE_S) -> Self:
        """Return a copy with the same connections that waits while the database is unreachable."""
        patient = copy.copy(self)
        patient.patience_s = patience_s
        return patient

    def close(self) -> None:
        while self._row_connections:
            _drop(self._row_connections.pop())
        self.writer.dispose()
        self.reader.dispose()

    def run_unwatched(self, work: Work[T], doing: str, *, write: bool) -> T:
        engine = self.writer if write else self.reader
        return self.retry(lambda: self._transact(work, engine), doing, write=write)

    def _row_connection(self) -> sa.PoolProxiedConnection:
        with contextlib.suppress(IndexError):
            return self._row_connections.pop()
        connection = self.reader.raw_connection()
        driver: Any = connection.dbapi_connection
        try:
            if self.address.engine == "postgresql":
                driver.autocommit = True  # set without a round trip
            elif self.address.engine != "sqlite":
                driver.autocommit(True)
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _transact(self, work: Work[T], engine: sa.Engine) -> T:
        self.counts.transactions += 1
        try:
            connected = engine.connect()
        except REFUSED_OPTIONS as error:
            raise _url_error(error, self.address) from None
        with connected as connection, connection.begin():
            return work(connection)

    def retry(
        self, work: Callable[[], T], doing: str, *, write: bool = False, most: int = MOST_ATTEMPTS
    ) -> T:
        """Return the result of ``work``, which runs again after transient failures.

        StoreError for other failures, and after the last attempt or ``patience_s``.
        """
        begun, lost = self._clock(), False
        for attempt in itertools.count(1):
            try:
                return work()
            except sa.exc.SQLAlchemyError as error:
                # after a duplicate key the next run finds the holder
                conflict = write and isinstance(error, sa.exc.IntegrityError)
                away, cut = is_unreachable(error), is_disconnect(error)
                passed_s = self._clock() - begun
                # a server that accepts connections may be silent in each attempt
                soon = cut and passed_s < PATIENCE_S
                again = attempt < most and (conflict or soon or is_retryable(error))
                if not (again or ((away or cut) and passed_s < self.patience_s)):
                    problem = store_error(error, self.address, doing)
                    problem.uncertain = lost or (write and cut)
                    problem.away |= self.address.file is None and is_away(error)
                    raise problem from None
                lost |= write and cut
                self.counts.retries += 1
                # pauses increase, and differ between processes
                self._sleep(min(LONGEST_PAUSE_S, 0.002 * 2 ** min(attempt, 10)) * self._jitter())
        raise AssertionError("unreachable")


class Stored(Protocol):
    """A part of a store, whose methods run in transactions over its database."""

    _database: Database

    def __init__(self, database: Database) -> None:
        self._database = database


S = TypeVar("S", bound=Stored)


def transaction(
    doing: str, *, write: bool = False, patient: bool = False
) -> Callable[[Callable[Concatenate[S, sa.Connection, P], T]], Callable[Concatenate[S, P], T]]:
    """Run a method in a transaction over a connection; it may run again, as for ``Database``.

    A ``patient`` method waits while the database is unreachable.
    """

    def decorate(
        method: Callable[Concatenate[S, sa.Connection, P], T],
    ) -> Callable[Concatenate[S, P], T]:
        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
            database = self._database.patient() if patient else self._database
            run = database.write if write else database.read
            return run(lambda c: method(self, c, *args, **options), doing)

        return call

    return decorate


def _engine(address: StoreUrl, *, write: bool) -> sa.Engine:
    """Return an engine for writers or for readers.

    A writer sees each row at the time of its lock, a reader one snapshot. The isolation level is
    set once per connection.
    """
    url = address.url if address.file is None else address.url.set(database=str(address.file))
    # every transaction has ended when its connection returns: no rollback is needed
    arguments: dict[str, Any] = {"pool_reset_on_return": None, "hide_parameters": True}
    if address.engine == "sqlite":
        arguments["connect_args"] = {"timeout": BUSY_TIMEOUT_MS / 1000}
    else:
        postgresql = address.engine == "postgresql"
        session = {"client_encoding": "utf8"} if postgresql else {"init_command": MYSQL_SESSION}
        usual = TIMEOUTS["postgresql" if postgresql else "mysql"].items()
        own = {name: limit for name, limit in usual if name not in url.query}
        arguments["connect_args"] = own | session
        arguments["isolation_level"] = "READ COMMITTED" if write else "REPEATABLE READ"
    if address.engine == "postgresql":
        # the driver logs this besides raising its error
        noise = "error ignored terminating"
        logging.getLogger("psycopg").addFilter(lambda it: not str(it.msg).startswith(noise))
    try:
        engine = sa.create_engine(url, **arguments)
    except (*REFUSED_OPTIONS, sa.exc.ArgumentError) as error:
        raise _url_error(error, address) from None
    if address.engine in ("mysql", "mariadb"):

        def prepare_mysql(connection: Any, _record: Any) -> None:
            if "read_timeout" not in url.query:
                connection._read_timeout = None  # a statement may wait for a lock
            with contextlib.suppress(OSError, AttributeError):  # a local socket, or another system
                tcp = socket.IPPROTO_TCP
                connection._sock.setsockopt(tcp, socket.TCP_KEEPIDLE, IDLE_S)
                connection._sock.setsockopt(tcp, socket.TCP_USER_TIMEOUT, SILENT_MS)

        sa.event.listen(engine, "connect", prepare_mysql)
    if address.engine == "sqlite":
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"

        def prepare(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # the driver must not begin transactions
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA foreign_keys = ON")

        sa.event.listen(engine, "connect", prepare)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


@functools.lru_cache(maxsize=32)
def _literal_text(statement: sa.Select[Any] | sa.TextClause, dialect: sa.Dialect) -> str:
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _drop(connection: sa.PoolProxiedConnection) -> None:
    connection.invalidate()
    connection.close()
