# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: documents by id, summaries, and the queue for a controller.

A decision is queued in the transaction that stores it or holds its choice. Decisions of one request
are posted in order: while a decision waits, later decisions wait too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import UnknownName, one_line
from valence_sched.model.claim import ACTIVE_STATES
from valence_sched.model.decision import DecisionSummary, Report, Reports
from valence_sched.model.dispatch import Dispatch, Receipt, Receipts, WaitingDispatches
from valence_sched.model.inventory import to_json
from valence_sched.store import claim_rows, tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.document import decoded, one_readable, readable
from valence_sched.store.tables import decode_decision, key_of, now

_dispatches = tables.dispatches
_queue = _dispatches.c
_UNREAD = ("id", "request_key", "due_at")  # the first column, the id, is for messages
_COLUMNS = (_queue.id, *(one for one in _queue if one.name not in _UNREAD))
_WAITS = _queue.due_at.is_not(None)
PAGE = 20  # due dispatches to examine: some may be undecodable or taken


def queue_dispatch(
    connection: sa.Connection, id_: str, report: Report | None, claim_id: str | None = None
) -> None:
    """Queue the decision of a report if it placed a node; None queues nothing."""
    if report is not None and report.placements:
        request_key, document = key_of(report.request.id), to_json(report)
        row = {"id": id_, "request_key": request_key, "claim_id": claim_id, "document": document}
        insert = sa.insert(_dispatches).values(**row, attempts=0, queued_at=now(), due_at=now())
        connection.execute(insert)


class Dispatches(Stored):
    """The dispatches of a store; StoreError if the store cannot be used."""

    def take(self, hold_s: float) -> Dispatch | None:
        """Return the oldest due dispatch, if any; delay it by ``hold_s`` seconds per node.

        Due dispatches of ended claims are deleted.
        """
        earlier = _dispatches.alias()
        is_first = ~sa.exists().where(
            earlier.c.request_key == _queue.request_key,
            earlier.c.due_at.is_not(None),
            earlier.c.number < _queue.number,
        )
        due = sa.select(*_COLUMNS).where(_queue.due_at <= now(), is_first)
        due = due.order_by(_queue.number).limit(PAGE)
        for one in self._read(due):
            assert isinstance(one.report, Report), "other decisions are not queued"
            if one.claim is not None and self._drop_unheld(one):
                continue
            due_at = now() + hold_s * len(one.report.placements)
            values = {"due_at": due_at, "attempts": one.attempts + 1}
            if self._change(one, values, _queue.attempts == one.attempts):
                return one
        return None

    def finish(self, one: Dispatch, receipts: Sequence[Receipt]) -> None:
        """Record that the controller accepted a decision; idempotent."""
        values: dict[str, Any] = {"sent_at": now(), "due_at": None, "error": None}
        answers = (filter(None, (f"HTTP {each.status}", each.reference)) for each in receipts)
        text = one_line("; ".join(map(" ".join, answers)))  # PostgreSQL refuses NUL
        self._change(one, {**values, "receipts": to_json(tuple(receipts))}, event=text)

    def delay(self, one: Dispatch, error: str, pause_s: float) -> None:
        """Record the error of a decision that was not accepted, and the time to post it again."""
        self._change(one, {"due_at": now() + pause_s, "error": error[:1000]})

    def drop(self, id_: str) -> None:
        """Delete a waiting decision; UnknownName if it is not waiting."""
        delete = sa.delete(_dispatches).where(_queue.id == id_, _WAITS)
        if not self._database.write(lambda c: c.execute(delete).rowcount, "dropping a dispatch"):
            waiting = (one.id for one in self.newest(PAGE) if one.sent_at is None)
            raise UnknownName("waiting dispatch", id_, waiting)

    def newest(self, most: int) -> Sequence[Dispatch]:
        query = sa.select(*_COLUMNS).order_by(_WAITS.desc(), _queue.number.desc())
        return self._read(query.limit(most))

    @transaction("dropping a dispatch", write=True)
    def _drop_unheld(self, connection: sa.Connection, one: Dispatch) -> bool:
        """Delete a dispatch whose claim ended, since another claim may hold its hardware."""
        of = tables.claims.c
        held = of.state.in_(ACTIVE_STATES), sa.or_(of.sweep_at.is_(None), of.sweep_at > now())
        if connection.scalar(sa.select(of.id).where(of.id == one.claim, *held)) is not None:
            return False
        delete = sa.delete(_dispatches).where(_queue.number == one.number, _WAITS)
        if connection.execute(delete).rowcount and one.claim is not None:
            claim_rows.add_event(connection, "not dispatched", one.claim)
        return True

    def _read(self, query: sa.Select[Any]) -> list[Dispatch]:
        return self._database.read(
            lambda c: [*readable(c, _dispatches, c.execute(query), _dispatch)], "reading dispatches"
        )

    def waiting(self) -> WaitingDispatches:
        """Return the numbers of waiting and of failed decisions, and the age of the oldest."""
        counts = sa.func.count(), sa.func.count(_queue.error), now() - sa.func.min(_queue.queued_at)
        query = sa.select(*counts).where(_WAITS)
        row = self._database.read(lambda c: c.execute(query).one(), "reading dispatches")
        return WaitingDispatches(row[0], row[1], float(row[2] or 0.0))

    @transaction("recording a dispatch", write=True)
    def _change(
        self, connection: sa.Connection, one: Dispatch, values: Mapping[str, Any], *where: Any,
        event: str | None = None,
    ) -> bool:  # fmt: skip
        update = sa.update(_dispatches).where(_queue.number == one.number, _WAITS, *where)
        changed = bool(connection.execute(update.values(values)).rowcount)
        if changed and event is not None and one.claim is not None:
            claim_rows.add_event(connection, "dispatched", one.claim, words=event)
        return changed


def _dispatch(*columns: Any) -> Dispatch:
    row = {one.name: value for one, value in zip(_COLUMNS, columns, strict=True)}
    report, receipts = decode_decision(row.pop("document")), row.pop("receipts")
    if not isinstance(report, Report):
        raise ValueError("several decisions, expected one")
    found = msgspec.json.decode(receipts, type=Receipts) if receipts else ()
    return Dispatch(claim=row.pop("claim_id"), report=report, receipts=found, **row)


_of = tables.decisions.c


class StoredDecisions(Stored):
    """The decisions of a store."""

    @transaction("storing a decision", write=True)
    def save(
        self,
        connection: sa.Connection,
        id_: str,
        document: bytes,
        summary: DecisionSummary | None = None,
        dispatched: Report | None = None,
    ) -> None:
        """Store a decision as a document, unless the id exists.

        The report of a ``dispatched`` decision is queued for the controller.
        """
        owner = summary.owner if summary else None
        row: dict[str, Any] = {"id": id_, "document": document}
        row["owner_key"] = None if owner is None else key_of(owner)
        row["summary"] = None if summary is None else msgspec.json.encode(summary)
        if connection.scalar(sa.select(_of.id).where(_of.id == id_)) is None:
            connection.execute(sa.insert(tables.decisions).values(**row, decided_at=now()))
            queue_dispatch(connection, id_, dispatched)

    @transaction("reading a decision")
    def get(self, connection: sa.Connection, id_: str) -> Report | Reports:
        """Return a stored decision; UnknownName if it is missing, Undecodable if it is damaged."""
        columns = _of.id, _of.document, _of.summary
        row = connection.execute(sa.select(*columns).where(_of.id == id_)).first()
        if row is None:
            latest = sa.select(_of.id).order_by(_of.decided_at.desc()).limit(20)
            raise UnknownName("decision", id_, connection.scalars(latest))
        summary = decoded(connection, _of.summary, id_, row.summary)
        owner, decode = summary.owner if summary else None, lambda _id, text: decode_decision(text)
        return one_readable(connection, tables.decisions, "decision", row[:2], decode, owner)

    @transaction("reading decisions")
    def newest(
        self, connection: sa.Connection, most: int, *, skip: int = 0, owner: str | None = None
    ) -> Sequence[DecisionSummary]:
        """Return summaries of the newest decisions of one owner, or of all owners for None."""
        query = sa.select(_of.id, _of.decided_at, _of.summary)
        if owner is not None:
            query = query.where(_of.owner_key == key_of(owner))
        query = query.order_by(_of.decided_at.desc(), _of.id).limit(most).offset(skip)
        found = []
        for id_, decided_at, text in connection.execute(query).all():
            known = decoded(connection, _of.summary, id_, text)
            summary = known or DecisionSummary(id=id_, decided_at=decided_at)
            found.append(replace(summary, decided_at=decided_at))
        return found
