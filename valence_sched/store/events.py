# SPDX-License-Identifier: Apache-2.0
"""Events: the recorded history of claims, in order; their rows tell when they were created."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.model.lifecycle import Event
from valence_sched.store import claim_rows, tables


def events(connection: sa.Connection, claim: str | None, last: int) -> list[Event]:
    """Return the ``last`` events, of one claim or of all, the oldest first."""
    of = tables.events.c
    query = sa.select(of.at, of.kind, of.claim_id, of.podm, of.words)
    if claim is not None:
        query = query.where(of.claim_id == claim)
    rows = connection.execute(query.order_by(of.number.desc()).limit(last)).all()
    recorded = [
        Event(at=at, kind=kind, claim=claim_id, podm=podm, words=words)
        for at, kind, claim_id, podm, words in reversed(rows)
    ]
    history = [*_creation_events(connection, claim, last), *recorded]
    if claim is None:  # of one claim, its creation always comes first
        history.sort(key=lambda event: event.at)
    return history[-last:]


def _creation_events(connection: sa.Connection, claim: str | None, last: int) -> list[Event]:
    of = tables.claims.c
    query = sa.select(of.created_at, of.id, of.owner, of.document)
    if claim is not None:
        query = query.where(of.id == claim)
    rows = connection.execute(query.order_by(of.created_at.desc(), of.id.desc()).limit(last)).all()
    return [
        Event(
            at=at,
            kind="prepared" if len(claim_rows.decode_parts(document)) > 1 else "held",
            claim=claim_id,
            words=owner,
        )
        for at, claim_id, owner, document in reversed(rows)
    ]
