# SPDX-License-Identifier: Apache-2.0
"""Scrub: decodes every row of a store as it will be read, a page of rows at a time."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from valence_sched.errors import describe_error, one_line
from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.document import UNDECODABLE, Document, NonNegative, resolved
from valence_sched.store.records import record_kind

PAGE_ROWS, PAGE_DOCUMENTS = 500, 20  # of one query: of small rows, of large documents
LARGE = (tables.podms, tables.decisions, tables.dispatches, tables.records)
#: What names a row, where a column of its key is a digest.
LABELS = {
    "podms": ("name",), "registry": ("name",), "zones": ("name",), "stocks": ("uri",),
    "quotas": ("owner", "resource"), "claimed_amounts": ("claim_id", "uri"),
    "claimed_blocks": ("claim_id", "uri"), "dispatches": ("id",),
}  # fmt: skip
STEP_ROWS, STEP_PAUSE_S = 2000, 0.5  # of one look at a part of the store, and between two


class UndecodableRow(NamedTuple):
    """A row that cannot be decoded: the column, what is wrong with it, and all of its values."""

    table: sa.Table
    column: str
    problem: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return the words that name the row among those of its table."""
        return label_of(self.table, self.values)

    @property
    def key(self) -> sa.ColumnElement[bool]:
        """Return the condition that the row alone meets."""
        return sa.and_(*(column == self.values[column.name] for column in self.table.primary_key))

    def __str__(self) -> str:
        return one_line(f"{self.table.name} {self.label}: {self.column}: {self.problem}")


class RowPage(NamedTuple):
    """Some rows of a table, those of them that cannot be decoded, and whether they are the last."""

    table: sa.Table
    rows: int
    undecodable: Sequence[UndecodableRow]
    is_last: bool


def label_of(table: sa.Table, values: Mapping[str, Any]) -> str:
    """Return the words that name a row among those of its table."""
    names = LABELS.get(table.name) or [column.name for column in table.primary_key]
    return " ".join("-" if values[name] is None else str(values[name]) for name in names)


def pages(database: Database) -> Iterator[RowPage]:
    """Yield every row of every table, page by page."""
    for table in tables.METADATA.sorted_tables:
        yield from table_pages(database, table)


def table_pages(database: Database, table: sa.Table) -> Iterator[RowPage]:
    """Yield every row of a table, each page read in a transaction of its own."""
    size = PAGE_DOCUMENTS if table in LARGE else PAGE_ROWS
    after: Sequence[Any] | None = None
    while True:
        work = functools.partial(_page, table=table, size=size, after=after)
        rows = database.read(work, "checking rows")
        found = [one for values in rows if (one := undecodable(table, values)) is not None]
        yield RowPage(table, len(rows), found, is_last=len(rows) < size)
        if len(rows) < size:
            break
        after = [rows[-1][column.name] for column in table.primary_key]


def _page(
    connection: sa.Connection, table: sa.Table, size: int, after: Sequence[Any] | None
) -> Sequence[Mapping[str, Any]]:
    """Return rows in the order of their key, as the driver has them."""
    key = list(table.primary_key)
    query = sa.select(*(sa.type_coerce(one, sa.types.NULLTYPE) for one in table.c))
    if after is not None:
        query = query.where(sa.tuple_(*key) > sa.tuple_(*after))
    names = [str(column.name) for column in table.c]
    rows = connection.execute(query.order_by(*key).limit(size))
    return [dict(zip(names, row, strict=True)) for row in rows]


def undecodable(table: sa.Table, values: Mapping[str, Any]) -> UndecodableRow | None:
    """Return the first column of a row that is not what is read of it, None where all are."""
    for column in table.c:
        try:
            _check(column, values)
        except UNDECODABLE as error:
            text = one_line(str(error) or describe_error(error), 200)
            return UndecodableRow(table, str(column.name), text, values)
    return None


def _check(column: sa.Column[Any], values: Mapping[str, Any]) -> None:
    value, kind = values[column.name], column.type
    if value is None and column.nullable:
        return
    if isinstance(kind, Document):
        if column.table is not tables.podms or not values["gone"]:
            kind.decode(value)
    elif column is tables.records.c.document:
        if record := record_kind(values["id"]):
            record.decode(value)
    else:
        plain = kind.kind if isinstance(kind, NonNegative) else kind.python_type
        wanted = resolved(column.info.get(tables.KIND, plain))
        msgspec.convert(value, wanted, strict=wanted is not bool)


class Scrub:
    """Looks at a store a part at a time, over and over, for its quarantine to be what is there."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._pages: Iterator[RowPage] = iter(())
        self._found: dict[str, set[str]] = {}
        self._due_at = -float("inf")

    def step(self, most: int = STEP_ROWS) -> Mapping[str, int]:
        """Decode the next rows, unless that was done just now; return how many cannot be, by table.

        A store of no more rows than that is looked at as a whole.
        """
        if self._clock() >= self._due_at and self._lock.acquire(blocking=False):
            try:
                self._look(most)
                self._due_at = self._clock() + STEP_PAUSE_S
            finally:
                self._lock.release()
        return self._database.quarantine.counts()

    def _look(self, most: int) -> None:
        ended = rows = 0
        while rows < most and ended < len(tables.METADATA.tables):
            page = next(self._pages, None)
            if page is None:
                self._pages, self._found = pages(self._database), {}
                continue
            self._note(page)
            rows += page.rows * (PAGE_ROWS // PAGE_DOCUMENTS if page.table in LARGE else 1)
            ended += page.is_last

    def _note(self, page: RowPage) -> None:
        quarantine, table = self._database.quarantine, page.table.name
        found = self._found.setdefault(table, set())
        for row in page.undecodable:
            quarantine.add(table, row.label, f"{row.column}: {row.problem}")
            found.add(row.label)
        if page.is_last:
            quarantine.keep(table, found)
