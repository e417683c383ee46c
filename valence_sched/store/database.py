# SPDX-License-Identifier: Apache-2.0
"""A database: transactions that are run again, whole, when another one was in the way."""

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
    """Work done by this process: what tests and benchmarks count instead of seconds."""

    def __init__(self) -> None:
        self.transactions = 0
        self.retries = 0
        self.rows_read = 0
        self.podms_decoded = 0
        self.podms_written = 0
        self.usages_read = 0


class Database:
    """Connections to one address; ``sleep`` and ``lot`` are how pauses are made and drawn."""

    def __init__(
        self,
        address: StoreUrl,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.address = address
        self.counts = WorkCounts()
        self._sleep, self._lot = sleep, jitter
        self.writer = _engine(address, write=True)
        self.reader = self.writer if address.in_memory else _engine(address, write=False)

    def read(self, work: Callable[[sa.Connection], T], doing: str = "") -> T:
        """Return what ``work`` finds in one consistent snapshot."""
        return self._run(work, doing, write=False)

    def write(self, work: Callable[[sa.Connection], T], doing: str = "") -> T:
        """Return what ``work`` returns once all it wrote is committed.

        It is run again, whole, when another transaction was in the way or the connection was
        lost; it must find what an earlier run may have written, should the answer to a commit
        have been lost.

        Raises:
            StoreError: the engine refuses; nothing is half-written.
        """
        return self._run(work, doing, write=True)

    def close(self) -> None:
        """Give back all connections."""
        self.writer.dispose()
        self.reader.dispose()

    def _run(self, work: Callable[[sa.Connection], T], doing: str, *, write: bool) -> T:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                with self._transaction(write) as connection:
                    return work(connection)
            except sa.exc.DBAPIError as error:
                # who hits a unique key sees on the next run whose it is
                again = faults.is_retryable(error) or faults.is_disconnect(error)
                again = again or (write and isinstance(error, sa.exc.IntegrityError))
                if not again or attempt == MOST_ATTEMPTS or _never_connected(error):
                    raise faults.store_error(error, self.address, doing) from None
                self.pause(attempt)
            except sa.exc.SQLAlchemyError as error:
                raise faults.store_error(error, self.address, doing) from None
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _transaction(self, write: bool) -> Iterator[sa.Connection]:
        self.counts.transactions += 1
        engine = self.writer if write else self.reader
        with engine.connect() as connection, connection.begin():
            yield connection

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt: longer each time, and never as long as somebody else."""
        self.counts.retries += 1
        self._sleep(min(LONGEST_PAUSE_S, 0.002 * 2 ** min(attempt, 10)) * self._lot())


def _never_connected(error: sa.exc.DBAPIError) -> bool:
    """Return whether there never was a connection: nothing was lost, nobody is there."""
    return (
        error.statement is None
        and not faults.is_retryable(error)
        and not faults.is_disconnect(error)
    )


def _engine(address: StoreUrl, *, write: bool) -> sa.Engine:
    """Return connections for one purpose.

    A writer locks the rows it goes by and then wants to see them as they are by then; a reader
    wants one snapshot. Set once a connection, not once a transaction.
    """
    url = address.url
    if address.engine == "sqlite":
        if address.file is not None:
            url = url.set(database=str(address.file))
        arguments: dict[str, Any] = {"connect_args": {"timeout": BUSY_TIMEOUT_MS / 1000}}
    else:
        arguments = {"connect_args": {"connect_timeout": 10}}
        arguments["isolation_level"] = "READ COMMITTED" if write else "REPEATABLE READ"
    # every transaction has ended when its connection is given back: no need to roll back again
    arguments["pool_reset_on_return"] = None
    if address.engine == "postgresql":
        logging.getLogger("psycopg").addFilter(_is_news)
    engine = sa.create_engine(url, hide_parameters=True, **arguments)
    if address.engine == "sqlite":
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether the driver warns of more than what it raises anyway."""
    return not str(record.msg).startswith("error ignored terminating")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
