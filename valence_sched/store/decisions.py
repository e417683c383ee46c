# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: documents by id, their summaries, and those that wait for a controller.

A decision is queued in the transaction that stores it, or that holds what it chose. Of one request
they are posted in their order: while one waits, those after it wait too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import UnknownName
from valence_sched.model.decision import DecisionSummary, Report, Reports
from valence_sched.model.dispatch import Dispatch, Receipt, WaitingDispatches
from valence_sched.model.inventory import to_json
from valence_sched.store import claim_rows, tables
from valence_sched.store.database import Database
from valence_sched.store.document import (
    decode_decision,
    decoded,
    document_of,
    one_readable,
    readable,
)
from valence_sched.store.tables import key_of, now

_dispatches = tables.dispatches
_queue = _dispatches.c
_COLUMNS = (_queue.id, _queue.number, _queue.claim_id, _queue.document, _queue.queued_at,
            _queue.attempts, _queue.error, _queue.sent_at, _queue.receipts)  # fmt: skip
_WAITS = _queue.due_at.is_not(None)
PAGE = 20  # of due ones that are looked at: some of them may be undecodable, or another's by now


def queue_dispatch(
    connection: sa.Connection, id_: str, report: Report, claim_id: str | None = None
) -> None:
    """Queue a decision that placed something, with the rest of a transaction."""
    row = {"id": id_, "request_key": key_of(report.request.id), "claim_id": claim_id,
           "document": to_json(report), "attempts": 0}  # fmt: skip
    if report.placements:
        insert = sa.insert(_dispatches).values(**row, queued_at=now(), due_at=now())
        connection.execute(insert)


class Dispatches:
    """The dispatches of a store; StoreError where the store cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, hold_s: float) -> Dispatch | None:
        """Return the oldest that is due, None for none; it is due again after ``hold_s`` a node."""
        earlier = _dispatches.alias()
        is_first = ~sa.exists().where(
            earlier.c.request_key == _queue.request_key,
            earlier.c.due_at.is_not(None),
            earlier.c.number < _queue.number,
        )
        due = sa.select(*_COLUMNS).where(_queue.due_at <= now(), is_first)
        due = due.order_by(_queue.number).limit(PAGE)

        for one in self._read(due):
            assert isinstance(one.report, Report), "no other is queued"
            due_at = now() + hold_s * len(one.report.placements)
            values = {"due_at": due_at, "attempts": one.attempts + 1}
            if self._change(one, values, _queue.attempts == one.attempts):
                return one
        return None

    def finish(self, one: Dispatch, receipts: Sequence[Receipt]) -> None:
        """Note that the controller took a decision; again, it changes nothing."""
        values = {"sent_at": now(), "due_at": None, "error": None,
                  "receipts": to_json(tuple(receipts))}  # fmt: skip
        answers = (" ".join(filter(None, (f"HTTP {each.status}", each.reference)))
                   for each in receipts)  # fmt: skip
        self._change(one, values, event="; ".join(answers))

    def delay(self, one: Dispatch, error: str, pause_s: float) -> None:
        """Note why a decision could not be posted, and try it again after a pause."""
        self._change(one, {"due_at": now() + pause_s, "error": error[:1000]})

    def drop(self, id_: str) -> None:
        """Post a decision no more; UnknownName where it does not wait."""
        delete = sa.delete(_dispatches).where(_queue.id == id_, _WAITS)
        if not self._database.write(lambda c: c.execute(delete).rowcount, "dropping a dispatch"):
            waiting = (one.id for one in self.newest(PAGE) if one.sent_at is None)
            raise UnknownName("waiting dispatch", id_, waiting)

    def newest(self, most: int) -> Sequence[Dispatch]:
        query = sa.select(*_COLUMNS).order_by(_WAITS.desc(), _queue.number.desc())
        return self._read(query.limit(most))

    def _read(self, query: sa.Select[Any]) -> list[Dispatch]:
        def work(connection: sa.Connection) -> list[Dispatch]:
            return [*readable(connection, _dispatches, connection.execute(query), _dispatch)]

        return self._database.read(work, "reading dispatches")

    def waiting(self) -> WaitingDispatches:
        """Return how many wait, how many of them failed, and for how long the oldest waits."""
        counts = sa.func.count(), sa.func.count(_queue.error), now() - sa.func.min(_queue.queued_at)
        query = sa.select(*counts).where(_WAITS)
        row = self._database.read(lambda c: c.execute(query).one(), "reading dispatches")
        return WaitingDispatches(row[0], row[1], float(row[2] or 0.0))

    def _change(
        self, one: Dispatch, values: Mapping[str, object], *where: sa.ColumnElement[bool],
        event: str | None = None,
    ) -> bool:  # fmt: skip
        """Change one that waits still, with an ``event`` of its claim; return whether it does."""
        update = (
            sa.update(_dispatches).where(_queue.number == one.number, _WAITS, *where).values(values)
        )

        def work(connection: sa.Connection) -> bool:
            changed = bool(connection.execute(update).rowcount)
            if changed and event is not None and one.claim is not None:
                claim_rows.add_event(connection, "dispatched", one.claim, words=event)
            return changed

        return self._database.write(work, "noting a dispatch")


def _dispatch(
    id_: str, number: int, claim: str | None, document: bytes, queued_at: float, attempts: int,
    error: str | None, sent_at: float | None, receipts: bytes | None,
) -> Dispatch:  # fmt: skip
    report = decode_decision(document)
    if not isinstance(report, Report):
        raise ValueError("several decisions, expected one")
    return Dispatch(
        number=number,
        id=id_,
        claim=claim,
        report=report,
        queued_at=queued_at,
        attempts=attempts,
        error=error,
        sent_at=sent_at,
        receipts=document_of(_queue.receipts).decode(receipts) if receipts else (),
    )


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
                    queue_dispatch(connection, id_, dispatched)

        self._database.write(work, "keeping a decision")

    def get(self, id_: str) -> Report | Reports:
        """Return a stored decision; UnknownName for none, Undecodable for a damaged one."""

        def work(connection: sa.Connection) -> Report | Reports:
            columns = _of.id, _of.document, _of.summary
            row = connection.execute(sa.select(*columns).where(_of.id == id_)).first()
            if row is None:
                latest = sa.select(_of.id).order_by(_of.decided_at.desc()).limit(20)
                raise UnknownName("decision", id_, connection.scalars(latest))
            summary = decoded(connection, _of.summary, id_, row.summary)
            owner = summary.owner if summary else None
            return one_readable(connection, _table, "decision", row[:2],
                                lambda _id, text: decode_decision(text), owner)  # fmt: skip

        return self._database.read(work, "reading a decision")

    def newest(
        self, most: int, *, skip: int = 0, owner: str | None = None
    ) -> Sequence[DecisionSummary]:
        """Return the newest decisions of an owner, None: of everybody, without their documents."""
        query = sa.select(_of.id, _of.decided_at, _of.summary)
        if owner is not None:
            query = query.where(_of.owner_key == key_of(owner))
        query = query.order_by(_of.decided_at.desc(), _of.id).limit(most).offset(skip)

        def work(connection: sa.Connection) -> Sequence[DecisionSummary]:
            return [
                replace(decoded(connection, _of.summary, id_, summary)
                        or DecisionSummary(id=id_, decided_at=0.0), decided_at=decided_at)
                for id_, decided_at, summary in connection.execute(query).all()
            ]  # fmt: skip

        return self._database.read(work, "reading decisions")
