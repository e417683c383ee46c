# SPDX-License-Identifier: Apache-2.0
"""Records of the store: documents of a service that all of its processes share, by id."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import now

_of = tables.records.c


class Records:
    """The records of a store; ids have at most 64 characters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_new(self, id_: str, document: bytes) -> bytes:
        """Store a record unless there is one of this id; return the one that is stored."""

        def work(connection: sa.Connection) -> bytes:
            known = _document(connection, id_)
            if known is not None:
                return known
            row = {"id": id_, "at": now(), "document": document}
            connection.execute(sa.insert(tables.records).values(row))
            return document

        return self._database.write(work, "keeping a record")

    def replace(self, id_: str, document: bytes) -> None:
        """Replace a record; one that is not there is not made."""
        values = {"at": now(), "document": document}
        statement = sa.update(tables.records).where(_of.id == id_).values(values)
        self._database.write(lambda c: c.execute(statement), "keeping a record")

    def get(self, id_: str) -> tuple[bytes, float] | None:
        """Return a record and its age in seconds, None where there is none of this id."""
        query = sa.select(_of.document, now() - _of.at).where(_of.id == id_)

        def work(connection: sa.Connection) -> tuple[bytes, float] | None:
            row = connection.execute(query).first()
            return None if row is None else (bytes(row[0]), float(row[1]))

        return self._database.read(work, "reading a record")


def _document(connection: sa.Connection, id_: str) -> bytes | None:
    found = connection.scalar(sa.select(_of.document).where(_of.id == id_))
    return None if found is None else bytes(found)
