# SPDX-License-Identifier: Apache-2.0
"""Service state: leases, audit and records that all processes of a service share.

A lease gives a job to one process, as long as that process renews it by the clock of the database.
"""

import os
import secrets
import socket
from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import asdict

from valence_sched.model.diagnostic import AuditLine, AuditQuery
from valence_sched.store import tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.document import one_readable
from valence_sched.store.tables import Document, now

_leases = tables.leases


def process_name() -> str:
    """Return a unique name of this process, as the holder of a lease."""
    return f"{socket.gethostname()[:60]} process {os.getpid()} {secrets.token_hex(4)}"


class Leases(Stored):
    """The leases of a store by name; StoreError if the store cannot be used."""

    @transaction("taking a lease", write=True)
    def acquire(self, connection: sa.Connection, name: str, holder: str, ttl_s: float) -> bool:
        """Take or renew a lease for ``ttl_s``; return False if it has another holder."""
        of, row = _leases.c, {"holder": holder, "expires_at": now() + ttl_s}
        free = sa.or_(of.holder == holder, of.expires_at <= now())
        update = sa.update(_leases).where(of.name == name, free)
        if connection.execute(update.values(row)).rowcount:
            return True
        known = sa.select(of.holder).where(of.name == name)
        if connection.scalar(known) is None:
            # if another process inserts this row first, the transaction runs again
            connection.execute(sa.insert(_leases).values(name=name, **row))
        return connection.scalar(known) == holder

    def renew(self, name: str, holder: str, ttl_s: float) -> bool:
        """Set the end of a lease to ``ttl_s`` from now; return False if the holder has lost it."""
        of = _leases.c
        own = of.name == name, of.holder == holder, of.expires_at > now()
        update = sa.update(_leases).where(*own).values(expires_at=now() + ttl_s)
        return bool(self._database.write(lambda c: c.execute(update).rowcount, "renewing a lease"))

    def release(self, name: str, holder: str) -> None:
        own = _leases.c.name == name, _leases.c.holder == holder
        update = sa.update(_leases).where(*own).values(expires_at=0.0)
        self._database.write(lambda c: c.execute(update), "releasing a lease")

    def holder(self, name: str) -> str | None:
        of = _leases.c
        query = sa.select(of.holder).where(of.name == name, of.expires_at > now())
        return self._database.read(lambda c: c.scalar(query), "reading leases")


#: About the number of new lines between two deletions of old lines. A database may number its rows
#: in steps, such as by two: a prime number also divides such numbers.
TRIM = 101
_audit = tables.audit.c
#: The text columns of a line, with their lengths.
_TEXTS = {one.name: one.type.length for one in _audit if isinstance(one.type, sa.String)}


class Audit(Stored):
    """The audit lines of a store; the oldest lines are deleted."""

    @transaction("recording a change", write=True)
    def add(
        self, connection: sa.Connection, lines: Sequence[AuditLine], most: int | None = None
    ) -> None:
        """Store lines with the time of the database, and keep at least the last ``most``, or all.

        Only a service knows how many lines to keep. Numbers of lines have gaps.
        """
        for line in map(asdict, lines):
            row = {name: line[name] and line[name][:size] for name, size in _TEXTS.items()}
            insert = sa.insert(tables.audit).values(**row, at=now())
            key = connection.execute(insert).inserted_primary_key
            if most is not None and key and int(key[0]) % TRIM == 0:
                query = sa.select(_audit.number).order_by(_audit.number.desc())
                if oldest := connection.scalar(query.offset(most).limit(1)):
                    connection.execute(sa.delete(tables.audit).where(_audit.number <= oldest))

    @transaction("reading the audit")
    def newest(self, connection: sa.Connection, query: AuditQuery) -> Sequence[AuditLine]:
        chosen = sa.select(tables.audit).order_by(_audit.number.desc())
        for name in ("user", "owner", "verb", "object", "outcome"):
            if (wanted := getattr(query, name)) is not None:
                chosen = chosen.where(_audit[name] == wanted)
        chosen = chosen.limit(query.limit).offset(query.skip)
        return [AuditLine(**row) for row in connection.execute(chosen).mappings()]


_records = tables.records.c
_END = b"\0"  # the end of a word
#: The types of the records of a service by prefix of their ids; other records are raw bytes.
_KINDS = {
    "operation": Document("model.verbs.Operation"),
    "answer": Document("model.verbs.RecordedReply"),
}


def record_kind(id_: str) -> Document | None:
    """Return the type of a record by its id, None for raw bytes."""
    return _KINDS.get(id_.partition("-")[0])


def _check(id_: str, document: bytes) -> None:
    if kind := record_kind(id_):
        kind.check(document)


class Records(Stored):
    """The records of a store; ids have at most 64 characters."""

    @transaction("storing a record", write=True)
    def put_new(self, connection: sa.Connection, id_: str, document: bytes) -> bytes:
        """Store a record unless its id exists; return the stored record."""
        _check(id_, document)
        if known := _record(connection, id_):
            return known[0]
        row = {"id": id_, "at": now(), "document": document}
        connection.execute(sa.insert(tables.records).values(row))
        return document

    def add_word(self, id_: str, word: bytes) -> None:
        """Add a word without NUL to a record of words, which is created if missing."""

        def work(connection: sa.Connection) -> None:
            known = _locked(connection, id_)
            if known is None:
                row = {"id": id_, "at": now(), "document": word}
                connection.execute(sa.insert(tables.records).values(row))
            elif word not in (words := bytes(known).split(_END)):
                update = sa.update(tables.records).where(_records.id == id_)
                connection.execute(update.values(at=now(), document=_END.join([*words, word])))

        found = self.get(id_)
        if found is None or word not in found[0].split(_END):  # a read is cheaper than a lock
            self._database.write(work, "storing a record")

    def take_words(self, id_: str) -> list[bytes]:
        def work(connection: sa.Connection) -> list[bytes]:
            known = _locked(connection, id_)
            connection.execute(sa.delete(tables.records).where(_records.id == id_))
            return [] if known is None else bytes(known).split(_END)

        return [] if self.get(id_) is None else self._database.write(work, "taking a record")

    def replace(self, id_: str, document: bytes, patience_s: float = 0.0) -> None:
        """Replace an existing record; wait up to ``patience_s`` for an unreachable database."""
        _check(id_, document)
        values = {"at": now(), "document": document}
        statement = sa.update(tables.records).where(_records.id == id_).values(values)
        self._database.patient(patience_s).write(lambda c: c.execute(statement), "storing a record")

    def get(self, id_: str) -> tuple[bytes, float] | None:
        """Return a record and its age in seconds, None if missing; Undecodable if damaged."""
        return self._database.read(lambda c: _record(c, id_), "reading a record")


def _locked(connection: sa.Connection, id_: str) -> bytes | None:
    query = sa.select(_records.document).where(_records.id == id_)
    return connection.scalar(query.with_for_update())


def _record(connection: sa.Connection, id_: str) -> tuple[bytes, float] | None:
    columns = _records.id, _records.document, now() - _records.at
    row = connection.execute(sa.select(*columns).where(_records.id == id_)).first()
    if row is None:
        return None
    kind = record_kind(id_)

    def record(_id: str, document: bytes, age_s: float) -> tuple[bytes, float]:
        if kind is not None:
            kind.decode(document)
        return bytes(document), float(age_s)

    return one_readable(connection, tables.records, "record", row, record)
