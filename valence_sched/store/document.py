# SPDX-License-Identifier: Apache-2.0
"""Documents of the store: decoded as they are read; undecodable rows are noted and left out."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa

from valence_sched.errors import Undecodable, one_line
from valence_sched.store.tables import (
    UNDECODABLE,
    NonNegative as NonNegative,  # imported here by a migration
)

LOG = logging.getLogger("valence_sched.store")
T = TypeVar("T")
_KEY = "valence_sched.quarantine"
_LEFT_OUT = "%s %s cannot be decoded and is left out: %s (valence-scheduler store check --deep)"


class Quarantine:
    """The rows of one store that are known to be undecodable, by table; each is logged once."""

    def __init__(self) -> None:
        self._rows: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def add(self, table: str, label: str, error: BaseException | str) -> None:
        with self._lock:
            rows = self._rows.setdefault(table, set())
            is_new = label not in rows
            rows.add(label)
        if is_new:
            LOG.warning(_LEFT_OUT, table, label, one_line(str(error), 200))

    def keep(self, table: str, labels: Iterable[str]) -> None:
        """Keep only these rows of a table, after all its rows were decoded."""
        with self._lock:
            self._rows[table] = self._rows.get(table, set()).intersection(labels)

    def has(self, table: str, label: str) -> bool:
        return label in self._rows.get(table, ())

    def discard(self, table: str, label: str) -> None:
        with self._lock:
            self._rows.get(table, set()).discard(label)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {table: len(rows) for table, rows in sorted(self._rows.items()) if rows}

    def follow(self, engine: sa.Engine) -> None:
        def note(_connection: object, record: Any) -> None:
            record.info[_KEY] = self

        sa.event.listen(engine, "connect", note)


def quarantine_of(connection: sa.Connection) -> Quarantine:
    found: Quarantine | None = connection.info.get(_KEY)
    return connection.info.setdefault(_KEY, Quarantine()) if found is None else found


def readable(
    connection: sa.Connection, table: sa.Table, rows: Iterable[Any], make: Callable[..., T]
) -> Iterator[T]:
    """Yield the result of ``make`` for each row; note and leave out undecodable rows."""
    for row in rows:
        try:
            found = make(*row)
        except UNDECODABLE as error:
            quarantine_of(connection).add(table.name, str(row[0]), error)
        else:
            yield found


def decoded(connection: sa.Connection, column: sa.Column[Any], label: str, data: Any) -> Any:
    """Return a document, None if it is empty or undecodable; note an undecodable document."""
    kind: Any = column.type
    rows = ((label, data),) if data else ()
    return next(readable(connection, column.table, rows, lambda _, text: kind.decode(text)), None)


def one_readable(
    connection: sa.Connection,
    table: sa.Table,
    kind: str,
    row: Any,
    make: Callable[..., T],
    owner: str | None = None,
) -> T:
    """Return the result of ``make`` for a row; on failure Undecodable, with its first column."""
    for found in readable(connection, table, (row,), make):
        return found
    raise Undecodable(kind, str(row[0]), owner)
