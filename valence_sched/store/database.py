# SPDX-License-Identifier: Apache-2.0
"""Database: connections to one store and transactions that are retried as a whole."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa

from valence_sched.store import faults
from valence_sched.store.url import StoreUrl

T = TypeVar("T")

MOST_ATTEMPTS = 40
LONGEST_PAUSE_S = 0.5
BUSY_TIMEOUT_MS = 20_000


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
    """Connections to one store; ``sleep`` makes a pause, ``jitter`` (0..1) draws its length."""

    def __init__(
        self,
        address: StoreUrl,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.address = address
        self.counts = WorkCounts()
        self._sleep, self._jitter = sleep, jitter
        self.writer = _engine(address, write=True)
        self.reader = self.writer if address.in_memory else _engine(address, write=False)

    def read(self, work: Callable[[sa.Connection], T], doing: str = "") -> T:
        """Return the result of ``work`` in one consistent snapshot."""
        return self._run(work, doing, write=False)

    def write(self, work: Callable[[sa.Connection], T], doing: str = "") -> T:
        """Return what ``work`` returns once all it wrote is committed.

        ``work`` runs again as a whole when another transaction was in the way or the connection
        was lost. It must find what an earlier run may have written: the answer to a commit can be
        lost where the commit was not.

        Raises:
            StoreError: the engine refuses; nothing is half-written.
        """
        return self._run(work, doing, write=True)

    def close(self) -> None:
        """Close all connections."""
        self.writer.dispose()
        self.reader.dispose()

    def _run(self, work: Callable[[sa.Connection], T], doing: str, *, write: bool) -> T:
        def run() -> T:
            with self._transaction(write) as connection:
                return work(connection)

        return self.retry(run, doing, write=write)

    def retry(
        self,
        work: Callable[[], T],
        doing: str,
        *,
        write: bool = False,
        attempts: int = MOST_ATTEMPTS,
    ) -> T:
        """Return what ``work`` returns, run again after failures that may not repeat.

        Raises:
            StoreError: the failure is of another kind, or the last of so many attempts failed.
        """
        for attempt in range(1, attempts + 1):
            try:
                return work()
            except sa.exc.DBAPIError as error:
                # a transaction that hits a unique key sees on its next run who holds it
                conflict = write and isinstance(error, sa.exc.IntegrityError)
                again = conflict or faults.is_retryable(error) or faults.is_disconnect(error)
                if not again or attempt == attempts:
                    raise faults.store_error(error, self.address, doing) from None
                self._pause(attempt)
            except sa.exc.SQLAlchemyError as error:
                raise faults.store_error(error, self.address, doing) from None
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _transaction(self, write: bool) -> Iterator[sa.Connection]:
        self.counts.transactions += 1
        engine = self.writer if write else self.reader
        with engine.connect() as connection, connection.begin():
            yield connection

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


def _is_informative(record: logging.LogRecord) -> bool:
    """Return whether a record of the driver's log says more than the error that it raises."""
    return not str(record.msg).startswith("error ignored terminating")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
