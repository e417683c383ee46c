# SPDX-License-Identifier: Apache-2.0
"""Database: connections to one store and transactions that are retried as a whole."""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from valence_sched.store.database_errors import (
    is_away,
    is_disconnect,
    is_retryable,
    is_unreachable,
    store_error,
)
from valence_sched.store.quarantine import Quarantine
from valence_sched.store.url import StoreUrl

T = TypeVar("T")
Work = Callable[[sa.Connection], T]

MOST_ATTEMPTS = 40
LONGEST_PAUSE_S = 0.5
BUSY_TIMEOUT_MS = 20_000
PATIENCE_S = 60.0  # for a database that is away, once a pod manager has something to be noted


class WorkCounts:
    """The work done through one database: tests and benchmarks count it instead of seconds."""

    def __init__(self) -> None:
        self.transactions = 0
        self.retries = 0
        self.rows_read = 0
        self.podms_decoded = 0
        self.podms_written = 0
        self.usages_read = 0


class Database:
    """Connections to one store; ``sleep`` makes a pause, ``jitter`` (0..1) draws its length.

    ``patience_s`` is how long a transaction waits for a database that cannot be reached.
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
        self._row_connections: list[sa.PoolProxiedConnection] = []  # between two calls, one
        self._alone: sa.Engine | None = None
        if address.engine == "postgresql":  # over the connections of the writer
            self._alone = self.writer.execution_options(isolation_level="AUTOCOMMIT")

    def read(self, work: Work[T], doing: str = "") -> T:
        """Return the result of ``work`` in one consistent snapshot."""
        for watch in self.watches:
            watch(self)
        return self.run_unwatched(work, doing, write=False)

    def read_row(self, statement: Callable[[sa.Dialect], str], doing: str = "") -> Sequence[Any]:
        """Return the only row of one statement: a transaction of its own, without parameters.

        It takes a fraction of the time of :meth:`read`: a server is asked once, without BEGIN and
        COMMIT, over a connection that stays for the next call.
        """

        def run() -> Sequence[Any]:
            self.counts.transactions += 1
            text, connection = statement(self.reader.dialect), None
            try:
                connection = self._row_connection()
                row = _fetch_row(connection, text)
            except self.reader.dialect.loaded_dbapi.Error as error:
                driver = None if connection is None else connection.dbapi_connection
                cut = self.reader.dialect.is_disconnect(error, driver, None)
                if connection is not None:
                    _drop(connection)
                raise _wrapped(error, text, self.reader.dialect, cut) from error
            except BaseException:  # in the midst of an answer, which nobody is to read
                if connection is not None:
                    _drop(connection)
                raise
            self._leave_row_connection(connection)
            return row

        for watch in self.watches:
            watch(self)
        return self.retry(run, doing)

    def write(self, work: Work[T], doing: str = "", single: Work[T | None] | None = None) -> T:
        """Return what ``work`` returns once all it wrote is committed.

        ``work`` runs again as a whole when another transaction was in the way or the connection
        was lost. It must find what an earlier run may have written: the answer to a commit can be
        lost where the commit was not. On PostgreSQL and MariaDB ``single`` is run once before: one
        statement, which returns None where it wrote nothing.

        Raises:
            StoreError: the engine refuses; nothing is half-written.
        """
        for watch in self.watches:
            watch(self)
        remaining = [] if single is None else [single]

        def run() -> T:
            engine = self._engine_of_single() if remaining else None
            if engine is not None:
                # one that hits a unique key holds nothing, and the statements of ``work`` say why
                with contextlib.suppress(sa.exc.IntegrityError):
                    if (written := self._transact(remaining.pop(), engine)) is not None:
                        return written
            return self._transact(work, self.writer)

        return self.retry(run, doing, write=True)

    def _engine_of_single(self) -> sa.Engine | None:
        """Return the connections where one statement can hold a whole claim, None for none.

        Whether a server is MariaDB is known once there was a connection.
        """
        is_mariadb = getattr(self.writer.dialect, "is_mariadb", False)
        return self.writer if is_mariadb else self._alone

    def patient(self, patience_s: float = PATIENCE_S) -> Database:
        """Return this database, over the same connections, for what must be noted: it waits."""
        patient = copy.copy(self)
        patient.patience_s = patience_s
        return patient

    def close(self) -> None:
        """Close all connections."""
        while self._row_connections:
            _drop(self._row_connections.pop())
        self.writer.dispose()
        self.reader.dispose()

    def run_unwatched(self, work: Work[T], doing: str, *, write: bool) -> T:
        """Run a transaction of a watch itself, as :meth:`read` and :meth:`write` do."""
        engine = self.writer if write else self.reader
        return self.retry(lambda: self._transact(work, engine), doing, write=write)

    def _row_connection(self) -> sa.PoolProxiedConnection:
        """Return a connection on which each statement is a transaction of its own."""
        try:
            return self._row_connections.pop()
        except IndexError:
            pass
        connection = self.reader.raw_connection()
        driver: Any = connection.dbapi_connection
        try:
            if self.address.engine == "postgresql":
                driver.autocommit = True  # asks no server
            elif self.address.engine == "mysql":
                driver.autocommit(True)
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _leave_row_connection(self, connection: sa.PoolProxiedConnection) -> None:
        """Leave a connection for the next call; of several that were in use at a time, one."""
        if not self._row_connections and not self.address.in_memory:
            self._row_connections.append(connection)
        elif self.address.engine == "sqlite":
            connection.close()
        else:  # transactions need one of another mode
            _drop(connection)

    def _transact(self, work: Work[T], engine: sa.Engine) -> T:
        self.counts.transactions += 1
        with engine.connect() as connection, connection.begin():
            return work(connection)

    def retry(
        self, work: Callable[[], T], doing: str, *, write: bool = False, most: int = MOST_ATTEMPTS
    ) -> T:
        """Return what ``work`` returns, run again after failures that may not repeat.

        Raises:
            StoreError: the failure is of another kind, or neither attempts nor patience are left.
        """
        until = self._clock() + self.patience_s
        lost = False
        for attempt in itertools.count(1):
            try:
                return work()
            except sa.exc.SQLAlchemyError as error:
                # a transaction that hits a unique key sees on its next run who holds it
                conflict = write and isinstance(error, sa.exc.IntegrityError)
                away, cut = is_unreachable(error), is_disconnect(error)
                again = attempt < most and (conflict or cut or is_retryable(error))
                if not (again or ((away or cut) and self._clock() < until)):
                    problem = store_error(error, self.address, doing)
                    problem.uncertain = lost or (write and cut)
                    if self.address.file is None and is_away(error):
                        problem.away = True
                    raise problem from None
                lost |= write and cut
                self._pause(attempt)
        raise AssertionError("unreachable")

    def _pause(self, attempt: int) -> None:
        """Wait before the next attempt: longer each time, and never as long as another process."""
        self.counts.retries += 1
        self._sleep(min(LONGEST_PAUSE_S, 0.002 * 2 ** min(attempt, 10)) * self._jitter())


def _engine(address: StoreUrl, *, write: bool) -> sa.Engine:
    """Return the connections of writers or of readers.

    A writer locks the rows that it decides on and must see them as they are then; a reader needs
    one snapshot. The isolation level is set once a connection, not once a transaction.
    """
    url = address.url
    if address.engine == "sqlite":
        if address.file is not None:
            url = url.set(database=str(address.file))
        arguments: dict[str, Any] = {"connect_args": {"timeout": BUSY_TIMEOUT_MS / 1000}}
    else:
        arguments = {"connect_args": {"connect_timeout": 10}}
        arguments["isolation_level"] = "READ COMMITTED" if write else "REPEATABLE READ"
    # every transaction has ended when its connection is returned: no need to roll back again
    arguments["pool_reset_on_return"] = None
    if address.engine == "postgresql":
        logging.getLogger("psycopg").addFilter(_is_informative)
    engine = sa.create_engine(url, hide_parameters=True, **arguments)
    if address.engine == "sqlite":
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _fetch_row(connection: sa.PoolProxiedConnection, text: str) -> Sequence[Any]:
    """Return the only row of a statement."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
        (row,) = cursor.fetchall()
        return tuple(row)
    finally:
        cursor.close()


def _drop(connection: sa.PoolProxiedConnection) -> None:
    """Close a connection for good, and let its pool make another."""
    connection.invalidate()
    connection.close()


def _wrapped(error: Exception, text: str, dialect: sa.Dialect, cut: bool) -> sa.exc.DBAPIError:
    """Return an error of a driver as the one that SQLAlchemy raises for it."""
    wrapped = sa.exc.DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, hide_parameters=True,
        connection_invalidated=cut, dialect=dialect,
    )  # fmt: skip
    assert isinstance(wrapped, sa.exc.DBAPIError), "an error of the driver"
    return wrapped


def _is_informative(record: logging.LogRecord) -> bool:
    """Return whether a record of the driver's log says more than the error that it raises."""
    return not str(record.msg).startswith("error ignored terminating")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
