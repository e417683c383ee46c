# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: documents by id, and the summaries of the latest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.model.decision_summary import DecisionSummary, dated
from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import key_of, now

_of = tables.decisions.c


class StoredDecisions:
    """The decisions of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, id_: str, document: bytes, summary: DecisionSummary | None = None) -> None:
        """Store a decision as a document; one of the same id that is stored already stays."""
        owner = summary.owner if summary else None
        row = {
            "id": id_,
            "document": document,
            "owner_key": None if owner is None else key_of(owner),
            "summary": None if summary is None else msgspec.json.encode(summary),
        }

        def work(connection: sa.Connection) -> None:
            if connection.scalar(sa.select(_of.id).where(_of.id == id_)) is None:
                insert = sa.insert(tables.decisions)
                connection.execute(insert.values(**row, decided_at=now()))

        self._database.write(work, "keeping a decision")

    def get(self, id_: str) -> bytes:
        """Return a stored decision; UnknownName, with one of the latest, when there is none."""

        def work(connection: sa.Connection) -> bytes:
            document = connection.scalar(sa.select(_of.document).where(_of.id == id_))
            if document is None:
                latest = sa.select(_of.id).order_by(_of.decided_at.desc()).limit(20)
                raise UnknownName("decision", id_, connection.scalars(latest))
            return bytes(document)

        return self._database.read(work, "reading a decision")

    def newest(
        self, most: int, *, skip: int = 0, owner: str | None = None
    ) -> Sequence[DecisionSummary]:
        """Return the newest decisions of an owner, None: of everybody, after ``skip`` newer ones.

        No document of a decision is read for it.
        """
        query = sa.select(_of.id, _of.decided_at, _of.summary)
        if owner is not None:
            query = query.where(_of.owner_key == key_of(owner))
        query = query.order_by(_of.decided_at.desc(), _of.id).limit(most).offset(skip)

        def work(connection: sa.Connection) -> Sequence[DecisionSummary]:
            return [_summary(*row) for row in connection.execute(query)]

        return self._database.read(work, "reading decisions")


def _summary(id_: str, decided_at: float, summary: bytes | None) -> DecisionSummary:
    if summary is None:
        return DecisionSummary(id=id_, decided_at=decided_at)
    return dated(msgspec.json.decode(summary, type=DecisionSummary), decided_at)
