# SPDX-License-Identifier: Apache-2.0
"""Dispatches of the store: decisions that wait for a controller, and what it answered.

A decision is queued in the transaction that stores it, or that holds what it chose. Of one request
they are posted in their order: while one waits, those after it wait too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.model.decision import Report
from valence_sched.model.dispatch import Dispatch, Receipt, WaitingDispatches
from valence_sched.model.inventory import to_json
from valence_sched.store import claim_rows, tables
from valence_sched.store.database import Database
from valence_sched.store.document import decode_decision, document_of
from valence_sched.store.quarantine import readable
from valence_sched.store.tables import key_of, now

_table = tables.dispatches
_of = _table.c
_COLUMNS = (_of.id, _of.number, _of.claim_id, _of.document, _of.queued_at, _of.attempts, _of.error,
            _of.sent_at, _of.receipts)  # fmt: skip
_WAITS = _of.due_at.is_not(None)
PAGE = 20  # of due ones that are looked at: some of them may be undecodable, or another's by now


def queue(connection: sa.Connection, id_: str, report: Report, claim_id: str | None = None) -> None:
    """Queue a decision that placed something, with the rest of a transaction."""
    row = {"id": id_, "request_key": key_of(report.request.id), "claim_id": claim_id,
           "document": to_json(report), "attempts": 0}  # fmt: skip
    if report.placements:
        insert = sa.insert(_table).values(**row, queued_at=now(), due_at=now())
        connection.execute(insert)


class Dispatches:
    """The dispatches of a store; StoreError where the store cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, hold_s: float) -> Dispatch | None:
        """Return the oldest one that is due, None for none.

        It is due again after ``hold_s`` for each of its nodes, for this process may die.
        """
        earlier = _table.alias()
        is_first = ~sa.exists().where(
            earlier.c.request_key == _of.request_key,
            earlier.c.due_at.is_not(None),
            earlier.c.number < _of.number,
        )
        due = sa.select(*_COLUMNS).where(_of.due_at <= now(), is_first)
        due = due.order_by(_of.number).limit(PAGE)

        def look(connection: sa.Connection) -> list[Dispatch]:
            return [*readable(connection, _table, connection.execute(due), _dispatch)]

        for one in self._database.read(look, "reading dispatches"):
            assert isinstance(one.report, Report), "no other is queued"
            due_at = now() + hold_s * len(one.report.placements)
            values = {"due_at": due_at, "attempts": one.attempts + 1}
            if self._change(one, values, _of.attempts == one.attempts):
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
        delete = sa.delete(_table).where(_of.id == id_, _WAITS)
        if not self._database.write(lambda c: c.execute(delete).rowcount, "dropping a dispatch"):
            waiting = (one.id for one in self.newest(PAGE) if one.sent_at is None)
            raise UnknownName("waiting dispatch", id_, waiting)

    def newest(self, most: int) -> Sequence[Dispatch]:
        """Return those that wait, and then the newest that were posted."""
        query = sa.select(*_COLUMNS).order_by(_WAITS.desc(), _of.number.desc()).limit(most)

        def work(connection: sa.Connection) -> list[Dispatch]:
            return [*readable(connection, _table, connection.execute(query), _dispatch)]

        return self._database.read(work, "reading dispatches")

    def waiting(self) -> WaitingDispatches:
        """Return how many wait, how many of them failed, and for how long the oldest waits."""
        counts = sa.func.count(), sa.func.count(_of.error), now() - sa.func.min(_of.queued_at)
        query = sa.select(*counts).where(_WAITS)
        row = self._database.read(lambda c: c.execute(query).one(), "reading dispatches")
        return WaitingDispatches(row[0], row[1], float(row[2] or 0.0))

    def _change(
        self, one: Dispatch, values: Mapping[str, object], *where: sa.ColumnElement[bool],
        event: str | None = None,
    ) -> bool:  # fmt: skip
        """Change one that waits still, with an ``event`` of its claim; return whether it does."""
        update = sa.update(_table).where(_of.number == one.number, _WAITS, *where).values(values)

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
        receipts=document_of(_of.receipts).decode(receipts) if receipts else (),
    )
