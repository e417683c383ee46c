# SPDX-License-Identifier: Apache-2.0
"""Records of the store: documents of a service that all of its processes share, by id."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import now

_of = tables.records.c
_END = b"\0"  # of a word


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

    def add_word(self, id_: str, word: bytes) -> None:
        """Add a word without NUL to the set of words that a record is; it is made where missing."""

        def work(connection: sa.Connection) -> None:
            known = connection.scalar(
                sa.select(_of.document).where(_of.id == id_).with_for_update()
            )
            if known is None:
                row = {"id": id_, "at": now(), "document": word}
                connection.execute(sa.insert(tables.records).values(row))
            elif word not in (words := bytes(known).split(_END)):
                values = {"at": now(), "document": _END.join([*words, word])}
                connection.execute(sa.update(tables.records).where(_of.id == id_).values(values))

        found = self.get(id_)
        if found is None or word not in found[0].split(_END):  # a read is cheaper than a lock
            self._database.write(work, "keeping a record")

    def take_words(self, id_: str) -> list[bytes]:
        """Remove the set of words of a record, and return it."""

        def work(connection: sa.Connection) -> list[bytes]:
            known = connection.scalar(
                sa.select(_of.document).where(_of.id == id_).with_for_update()
            )
            connection.execute(sa.delete(tables.records).where(_of.id == id_))
            return [] if known is None else bytes(known).split(_END)

        if self.get(id_) is None:
            return []
        return self._database.write(work, "taking a record")

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
