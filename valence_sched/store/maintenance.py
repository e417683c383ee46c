# SPDX-License-Identifier: Apache-2.0
"""Maintenance: decodes every row of a store, repairs it, changes its schema, and backs it up."""

import base64
import contextlib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import sqlalchemy as sa

from valence_sched.errors import StoreError, describe_error, one_line, plain_reason
from valence_sched.model.claim import ACTIVE_STATES
from valence_sched.store import claim_rows, expiry, podms, schema, tables
from valence_sched.store.database import Database, StoreUrl, transaction
from valence_sched.store.decisions import Dispatches
from valence_sched.store.service_state import record_kind
from valence_sched.store.tables import UNDECODABLE, Document, NonNegative, resolved

PAGE_ROWS, PAGE_DOCUMENTS = 500, 20  # rows per query if rows are small, if documents are large
LARGE = (tables.podms, tables.decisions, tables.dispatches, tables.records)
#: The columns that name a row whose key is a digest.
LABELS = {"stocks": ("uri",), "dispatches": ("id",), "quotas": ("owner", "resource")}
LABELS |= dict.fromkeys(("podms", "registry", "zones"), ("name",))
LABELS |= dict.fromkeys(("claimed_amounts", "claimed_blocks"), ("claim_id", "uri"))
STEP_ROWS, STEP_PAUSE_S = 2000, 0.5  # rows of one step of a scrub, and seconds between steps


class UndecodableRow(NamedTuple):
    """A row that cannot be decoded: the column, its problem, and all values."""

    table: sa.Table
    column: str
    problem: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        names = LABELS.get(self.table.name) or [column.name for column in self.table.primary_key]
        return " ".join("-" if self.values[one] is None else str(self.values[one]) for one in names)

    @property
    def key(self) -> sa.ColumnElement[bool]:
        return sa.and_(*(column == self.values[column.name] for column in self.table.primary_key))

    def __str__(self) -> str:
        return one_line(f"{self.table.name} {self.label}: {self.column}: {self.problem}")


class RowPage(NamedTuple):
    """The number of rows of a page, its undecodable rows, and whether it is the last page."""

    table: sa.Table
    rows: int
    undecodable: Sequence[UndecodableRow]
    is_last: bool


def table_pages(database: Database, table: sa.Table) -> Iterator[RowPage]:
    """Yield the pages of a table, each read in a separate transaction."""
    size = PAGE_DOCUMENTS if table in LARGE else PAGE_ROWS
    key, names = list(table.primary_key), [str(column.name) for column in table.c]
    every = sa.select(*(sa.type_coerce(one, sa.types.NULLTYPE) for one in table.c))
    query = every = every.order_by(*key).limit(size)
    while True:
        found = database.read(lambda c, query=query: c.execute(query).all(), "checking rows")  # type: ignore[misc]
        rows = [dict(zip(names, row, strict=True)) for row in found]
        wrong = [one for values in rows if (one := undecodable(table, values)) is not None]
        yield RowPage(table, len(rows), wrong, is_last=len(rows) < size)
        if len(rows) < size:
            break
        after = [rows[-1][column.name] for column in table.primary_key]
        query = every.where(sa.tuple_(*key) > sa.tuple_(*after))


def undecodable(table: sa.Table, values: Mapping[str, Any]) -> UndecodableRow | None:
    """Return the row with its first undecodable column, if any."""
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
    """Decodes a store part by part in an endless cycle to keep its quarantine up to date."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._pages: Iterator[RowPage] = iter(())
        self._found: dict[str, set[str]] = {}
        self._due_at = -float("inf")

    def step(self, most: int = STEP_ROWS) -> Mapping[str, int]:
        """Decode the next rows, at most every ``STEP_PAUSE_S``; count undecodable rows by table.

        A small store is decoded in one step.
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
                each = (table_pages(self._database, one) for one in tables.METADATA.sorted_tables)
                self._pages, self._found = itertools.chain.from_iterable(each), {}
                continue
            quarantine, table = self._database.quarantine, page.table.name
            found = self._found.setdefault(table, set())
            for row in page.undecodable:
                quarantine.add(table, row.label, f"{row.column}: {row.problem}")
                found.add(row.label)
            if page.is_last:
                quarantine.keep(table, found)
            rows += page.rows * (PAGE_ROWS // PAGE_DOCUMENTS if page.table in LARGE else 1)
            ended += page.is_last


Change = Callable[[sa.Connection, UndecodableRow], object]
NO_PARTS, EMPTY_REPORT = b"[]", b"{}"
NOTE = "store repair removed its undecodable parts"
#: Tables whose rows cannot be deleted: the schema, the counts and the identity.
SINGULAR = (tables.version, tables.shards, tables.zone_identity)
HELD = (tables.claimed_blocks, tables.claimed_amounts, tables.claim_parts)


class Repair(NamedTuple):
    """An undecodable row, and its repair; without a ``change`` the row stays."""

    row: UndecodableRow
    words: str
    change: Change | None

    def __str__(self) -> str:
        return f"{self.row}: {self.words}"


def repair_of(row: UndecodableRow) -> Repair:
    table, column = row.table, row.table.c[row.column]
    change: Change | None
    words, change = _CHANGES.get(table.name, ("deleted", _delete))
    if isinstance(column.type, Document) and (column.nullable or row.column == "report"):
        words, change = f"the {row.column} is cleared", _clear
    elif table is tables.claims and row.column == "document":
        state, change = row.values["state"], _clear_claim
        words = "ended: its parts are cleared"
        if state in ("PREPARED", "HELD"):
            words = "ended, and its holds are freed"
        elif state in ACTIVE_STATES:
            words = "its parts are cleared; it holds its blocks until released"
    elif table is tables.nodes:
        words = f"deleted; claim {row.values['claim_id']} holds its blocks until released"
    elif table in SINGULAR:
        words, change = "not repaired: restore a backup", None
    return Repair(row, words, change)


def _repair(connection: sa.Connection, row: UndecodableRow, change: Change) -> bool:
    column = sa.type_coerce(row.table.c[row.column], sa.types.NULLTYPE)
    present = connection.execute(sa.select(column).where(row.key).with_for_update()).first()
    if present is None or present[0] != row.values[row.column]:
        return False
    change(connection, row)
    return True


def _log_repair(connection: sa.Connection, row: UndecodableRow) -> None:
    if row.table in (tables.podms, *HELD):
        tables.log_changes(connection, [row.values["podm_key"]])
    if row.table is tables.registry:
        tables.advance_shard(connection, tables.REGISTRY_SHARD)
    if row.table is tables.zones:
        tables.advance_shard(connection, tables.ZONES_SHARD)


def _clear(connection: sa.Connection, row: UndecodableRow) -> None:
    empty = None if row.table.c[row.column].nullable else EMPTY_REPORT
    connection.execute(sa.update(row.table).where(row.key).values({row.column: empty}))
    _log_repair(connection, row)


def _delete(connection: sa.Connection, row: UndecodableRow) -> None:
    connection.execute(sa.delete(row.table).where(row.key))
    _log_repair(connection, row)


def _forget_podm(connection: sa.Connection, row: UndecodableRow) -> None:
    podms.lock_row(connection, row.values["podm_key"])
    podms.forget(connection, row.values["podm_key"])


def _end_zone_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    values = {"document": NO_PARTS, "state": "FAILED", "consumer_key": None, "note": NOTE}
    connection.execute(sa.update(row.table).where(row.key).values(values))


def _clear_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    """Clear the parts of a claim: a held claim ends, a composed claim keeps its blocks."""
    id_, never = row.values["id"], {"expires_at": None, "sweep_at": None}
    claim_rows.end(connection, id_, ("PREPARED", "HELD"), "FAILED", NOTE)
    claim_rows.change_state(connection, id_, ["COMPOSING"], "COMPOSED", **never)
    values = {"document": NO_PARTS, "note": row.values["note"] or NOTE}
    connection.execute(sa.update(row.table).where(row.key).values(values))


def _delete_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    of_claim = tables.claim_parts.c.claim_id == row.values["id"]
    keys = connection.scalars(sa.select(tables.claim_parts.c.podm_key).where(of_claim)).all()
    for table in (*HELD, tables.quota_charges):
        connection.execute(sa.delete(table).where(table.c.claim_id == row.values["id"]))
    _delete(connection, row)
    tables.log_changes(connection, keys)


_CHANGES: Mapping[str, tuple[str, Change]] = {
    "podms": ("deleted until the next reading", _forget_podm),
    "registry": ("unregistered: register it again with podm create", _delete),
    "zones": ("deleted: add the zone again with scheduler zone add", _delete),
    "zone_claims": ("ended; its parts in other zones expire", _end_zone_claim),
    "claims": ("deleted with its holds", _delete_claim),
}


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {plain_reason(error)} (name another file)") from None


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


TOOLS = {
    "postgresql": "pg_dump --format=custom",
    "mysql": "mysqldump --single-transaction",
    "mariadb": "mariadb-dump --single-transaction",
}


class StoreCheck(NamedTuple):
    """The version of a store, its rows by table, its problems, and the number of unchecked rows."""

    address: str
    revision: str | None
    latest: str
    rows: dict[str, int]
    problems: tuple[str, ...]
    unread: int


class Maintenance:
    """A store that is opened without an upgrade; StoreError if it cannot be opened."""

    def __init__(self, url: str) -> None:
        self._database = Database(StoreUrl(url))
        file = self._database.address.file
        if file is not None and not file.exists():
            raise StoreError(f"{file}: no store found (name another store with --state)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._database.close()

    @property
    def address(self) -> str:
        return str(self._database.address)

    @property
    def is_file(self) -> bool:
        return self._database.address.file is not None

    @property
    def dispatches(self) -> Dispatches:
        return Dispatches(self._database)

    @property
    def revision(self) -> str | None:
        return self._database.read(schema.stored_revision, "looking")

    def check(self, *, deep: bool = False) -> StoreCheck:
        """Check the store; decode the first rows of each table, with ``deep`` all rows.

        SQLite reads all pages of the file.
        """
        revision = self.revision
        latest, problems = tables.REVISION, list(self._damages())
        found = f"its schema has version {revision}, this program"
        if revision is None:
            problems.append("no tables: create them with store upgrade")
        elif revision < latest:
            problems.append(f"{found} has {latest}: run store upgrade")
        elif revision > latest:
            problems.append(f"{found} supports up to {latest}: use a newer valence-sched")
        rows = self._row_counts()
        unread = sum(rows.values())
        for page in self._pages(deep=deep):
            problems += map(str, page.undecodable)
            unread -= page.rows
        return StoreCheck(self.address, revision, latest, rows, tuple(problems), max(0, unread))

    def repairs(self) -> list[Repair]:
        """Return the necessary repairs without applying them; StoreError for another schema."""
        if (revision := self.revision) != tables.REVISION:
            version = f"schema version {revision or 'none'}, expected {tables.REVISION}"
            hint = "run store upgrade, or use the valence-sched of that version"
            raise StoreError(f"{self.address}: {version}: {hint}")
        return [repair_of(row) for page in self._pages(deep=True) for row in page.undecodable]

    def repair(self, repairs: Sequence[Repair], rows: Path) -> None:
        """Write the rows to a new file as JSON Lines, then repair the rows that are unchanged."""
        with _file_errors(rows), open(_new_file(rows), "wb") as stream:
            for row in (one.row for one in repairs):
                values = {name: _plain(value) for name, value in row.values.items()}
                line = {"table": str(row.table.name), "column": row.column, "problem": row.problem}
                stream.write(msgspec.json.encode({**line, "row": values}) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        for one in repairs:
            if one.change is not None:
                work = functools.partial(_repair, row=one.row, change=one.change)
                if self._database.write(work, "repairing") and one.row.table is tables.claims:
                    expiry.free_claim(self._database, one.row.values["id"])

    def _pages(self, *, deep: bool) -> Iterator[RowPage]:
        if self.revision == tables.REVISION:
            for table in tables.METADATA.sorted_tables:
                every = table_pages(self._database, table)
                yield from every if deep else itertools.islice(every, 1)

    def upgrade(self) -> str | None:
        before = self.revision
        schema.prepare(self._database)
        return before

    def downgrade(self, revision: str) -> str | None:
        return schema.downgrade(self._database, revision)

    def backup(self, path: Path) -> None:
        """Write a complete copy of a store to a file; the store may be in use.

        Raises:
            StoreError: the store is not a file, or the copy cannot be written. No partial copy
                remains.
        """
        engine = self._database.address.engine
        if self._database.address.file is None:
            hint = f"use {TOOLS.get(engine, 'the tool of the database')}"
            raise StoreError(f"{self.address}: only a file can be backed up here: {hint}")
        with _file_errors(path):
            os.close(_new_file(path))
        copy = functools.partial(self._database.run_raw, "VACUUM INTO ?", str(path))
        try:
            self._database.retry(copy, f"backing up to {path}")
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    @transaction("checking")
    def _damages(self, connection: sa.Connection) -> list[str]:
        if connection.dialect.name != "sqlite":
            return []
        found = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
        rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()[:10]
        lost = [f"{row[0]}: a row refers to a missing row of {row[2]}" for row in rows]
        return [f"damaged: {text}" for text in found if text != "ok"] + lost

    @transaction("counting rows")
    def _row_counts(self, connection: sa.Connection) -> dict[str, int]:
        names, count = {*sa.inspect(connection).get_table_names()}, sa.select(sa.func.count())
        present = [one for one in tables.METADATA.sorted_tables if one.name in names]
        return {one.name: connection.scalar(count.select_from(one)) or 0 for one in present}
