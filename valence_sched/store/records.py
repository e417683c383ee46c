# SPDX-License-Identifier: Apache-2.0
"""Records of the store: documents of a service that all of its processes share, by id."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.document import Document
from valence_sched.store.quarantine import one_readable
from valence_sched.store.tables import now

_of = tables.records.c
_END = b"\0"  # of a word


#: What the records of a service are, by how their ids begin; those of other ids are no documents.
_KINDS = {"operation": Document("model.verbs.Operation"),
          "answer": Document("model.verbs.RecordedReply")}  # fmt: skip


def record_kind(id_: str) -> Document | None:
    """Return what a record of an id is, None for what is no document."""
    return _KINDS.get(id_.partition("-")[0])


def _check(id_: str, document: bytes) -> None:
    if kind := record_kind(id_):
        kind.check(document)


class Records:
    """The records of a store; ids have at most 64 characters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_new(self, id_: str, document: bytes) -> bytes:
        """Store a record unless there is one of this id; return the one that is stored."""
        _check(id_, document)

        def work(connection: sa.Connection) -> bytes:
            if known := _record(connection, id_):
                return known[0]
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

    def replace(self, id_: str, document: bytes, patience_s: float = 0.0) -> None:
        """Replace a record; one that is not there is not made.

        A database that is away is waited for.
        """
        _check(id_, document)
        values = {"at": now(), "document": document}
        statement = sa.update(tables.records).where(_of.id == id_).values(values)
        database = self._database.patient(patience_s)
        database.write(lambda c: c.execute(statement), "keeping a record")

    def get(self, id_: str) -> tuple[bytes, float] | None:
        """Return a record and its age in seconds, None where there is none of this id.

        Raises:
            Undecodable: it is none of the documents that its id stands for.
        """
        return self._database.read(lambda c: _record(c, id_), "reading a record")


def _record(connection: sa.Connection, id_: str) -> tuple[bytes, float] | None:
    columns = _of.id, _of.document, now() - _of.at
    row = connection.execute(sa.select(*columns).where(_of.id == id_)).first()
    if row is None:
        return None
    kind = record_kind(id_)

    def record(_id: str, document: bytes, age_s: float) -> tuple[bytes, float]:
        if kind is not None:
            kind.decode(document)
        return bytes(document), float(age_s)

    return one_readable(connection, tables.records, "record", row, record)
