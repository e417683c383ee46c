# SPDX-License-Identifier: Apache-2.0
"""Maintenance: looks at a store as it is, changes its schema, and backs it up."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import sqlalchemy as sa

from valence_sched.errors import StoreError, one_line
from valence_sched.store import schema, tables
from valence_sched.store.database import Database
from valence_sched.store.dispatches import Dispatches
from valence_sched.store.repair import Repair, repair, repair_of
from valence_sched.store.scrub import RowPage, table_pages
from valence_sched.store.url import StoreUrl

TOOLS = {
    "postgresql": "pg_dump --format=custom",
    "mysql": "mysqldump --single-transaction",
    "mariadb": "mariadb-dump --single-transaction",
}


class StoreCheck(NamedTuple):
    """What there is to know of a store: its version, its rows by table, and what is wrong.

    ``unread`` rows were not decoded.
    """

    address: str
    revision: str | None
    latest: str
    rows: dict[str, int]
    problems: tuple[str, ...]
    unread: int


class Maintenance:
    """A store that is looked at without changing it, until one of its verbs does.

    Raises:
        StoreError: there is none, or it cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(StoreUrl(url))
        file = self._database.address.file
        if file is not None and not file.exists():
            raise StoreError(f"{file}: no store is there: name another one (--state)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._database.close()

    @property
    def address(self) -> str:
        """Return the URL of the store, without its password."""
        return str(self._database.address)

    @property
    def is_file(self) -> bool:
        """Return whether the store is a file, of which this program makes copies."""
        return self._database.address.file is not None

    @property
    def dispatches(self) -> Dispatches:
        """Return the decisions for the controller."""
        return Dispatches(self._database)

    @property
    def revision(self) -> str | None:
        """Return the version of the schema, None where there are no tables yet."""
        return self._database.read(schema.stored_revision, "looking")

    def check(self, *, deep: bool = False) -> StoreCheck:
        """Return what is known of the store; SQLite reads all of it for that.

        The first rows of each table are decoded, and with ``deep`` all of them.
        """
        revision = self.revision
        problems = list(self._damages())
        if revision is None:
            problems.append("no tables are there: store upgrade makes them")
        elif revision < tables.REVISION:
            problems.append(f"its schema is version {revision}, this program has "
                            f"{tables.REVISION}: store upgrade brings it up to date")  # fmt: skip
        elif revision > tables.REVISION:
            problems.append(f"its schema is version {revision}, this program knows up to "
                            f"{tables.REVISION}: use a newer valence-sched")  # fmt: skip
        rows = self._database.read(_row_counts, "counting rows")
        unread = sum(rows.values())
        for page in self._pages(deep=deep):
            problems += map(str, page.undecodable)
            unread -= page.rows
        return StoreCheck(self.address, revision, tables.REVISION, rows, tuple(problems),
                          max(0, unread))  # fmt: skip

    def repairs(self) -> list[Repair]:
        """Return what a repair does about each row that cannot be decoded, and do none of it.

        Raises:
            StoreError: the schema is not that of this program.
        """
        if (revision := self.revision) != tables.REVISION:
            raise StoreError(f"{self.address}: version {revision or 'none'} of {tables.REVISION}: "
                             "upgrade it first, or use its own program")  # fmt: skip
        return [repair_of(row) for page in self._pages(deep=True) for row in page.undecodable]

    def repair(self, repairs: Sequence[Repair], rows: Path) -> None:
        """Take rows out of the store, once they stand in a file that is not there yet."""
        repair(self._database, repairs, rows)

    def _pages(self, *, deep: bool) -> Iterator[RowPage]:
        """Yield pages of each table of a store of the present version: the first, or all."""
        if self.revision == tables.REVISION:
            for table in tables.METADATA.sorted_tables:
                every = table_pages(self._database, table)
                yield from every if deep else itertools.islice(every, 1)

    def upgrade(self) -> str | None:
        """Bring the schema up to date; return the version that it had."""
        before = self.revision
        schema.prepare(self._database)
        return before

    def downgrade(self, revision: str) -> str | None:
        """Take the schema back to an older version; return the one that it had."""
        return schema.downgrade(self._database, revision)

    def backup(self, path: Path) -> None:
        """Write a whole copy of a store in a file, which may be in use meanwhile.

        Raises:
            StoreError: it is not in a file, or the copy cannot be written; nothing is left then.
        """
        engine = self._database.address.engine
        if self._database.address.file is None:
            tool = TOOLS.get(engine, "its own tool")
            raise StoreError(f"{self.address}: a database is backed up with its own tool, in one "
                             f"transaction: {tool}")  # fmt: skip
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StoreError(one_line(f"{path}: {reason}: name another file")) from None
        try:
            self._database.retry(lambda: self._copy(path), "backing up")
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _copy(self, path: Path) -> None:
        with self._database.reader.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            try:
                raw.execute("VACUUM INTO ?", (str(path),))
            except Exception as error:  # the driver's own, for this is no transaction
                raise sa.exc.OperationalError(None, None, error) from None

    def _damages(self) -> list[str]:
        if self._database.address.engine != "sqlite":
            return []

        def work(connection: sa.Connection) -> list[str]:
            found = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            lost = [
                f"{row[0]}: a row names one of {row[2]} that is not there" for row in broken[:10]
            ]
            return [f"damaged: {text}" for text in found if text != "ok"] + lost

        return self._database.read(work, "checking")


def _row_counts(connection: sa.Connection) -> dict[str, int]:
    names = {*sa.inspect(connection).get_table_names()}
    count = sa.select(sa.func.count())
    return {one.name: connection.scalar(count.select_from(one)) or 0
            for one in tables.METADATA.sorted_tables if one.name in names}  # fmt: skip
