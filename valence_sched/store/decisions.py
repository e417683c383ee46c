# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: documents by id, and the summaries of the latest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.model.decision import DecisionSummary, Report, Reports
from valence_sched.model.phrases import dated
from valence_sched.store import dispatches, tables
from valence_sched.store.database import Database
from valence_sched.store.document import decode_decision
from valence_sched.store.quarantine import decoded, one_readable
from valence_sched.store.tables import key_of, now

_table = tables.decisions
_of = _table.c


class StoredDecisions:
    """The decisions of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self,
        id_: str,
        document: bytes,
        summary: DecisionSummary | None = None,
        dispatched: Report | None = None,
    ) -> None:
        """Store a decision as a document; one of the same id that is stored already stays.

        The report of one that is ``dispatched`` is queued for the controller.
        """
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
                if dispatched is not None:
                    dispatches.queue(connection, id_, dispatched)

        self._database.write(work, "keeping a decision")

    def get(self, id_: str) -> Report | Reports:
        """Return a stored decision.

        Raises:
            UnknownName: there is none; the error has one of the latest.
            Undecodable: it cannot be decoded.
        """

        def work(connection: sa.Connection) -> Report | Reports:
            columns = _of.id, _of.document, _of.summary
            row = connection.execute(sa.select(*columns).where(_of.id == id_)).first()
            if row is None:
                latest = sa.select(_of.id).order_by(_of.decided_at.desc()).limit(20)
                raise UnknownName("decision", id_, connection.scalars(latest))
            summary = decoded(connection, _of.summary, id_, row.summary)
            owner = summary.owner if summary else None
            pair = row[:2]
            return one_readable(connection, _table, "decision", pair, _decision, owner)

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
            return [
                dated(decoded(connection, _of.summary, id_, summary)
                      or DecisionSummary(id=id_, decided_at=decided_at), decided_at)
                for id_, decided_at, summary in connection.execute(query).all()
            ]  # fmt: skip

        return self._database.read(work, "reading decisions")


def _decision(_id: str, document: bytes) -> Report | Reports:
    return decode_decision(document)
