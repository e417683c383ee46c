# SPDX-License-Identifier: Apache-2.0
"""Stored decisions, as JSON documents: what explains a choice after the command has ended."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.store import tables
from valence_sched.store.tables import now

_table = tables.decisions


def save(connection: sa.Connection, decision_id: str, document: bytes) -> None:
    """Store a decision, unless one of this id is stored already."""
    if connection.scalar(sa.select(_table.c.id).where(_table.c.id == decision_id)) is None:
        connection.execute(
            sa.insert(_table).values(id=decision_id, decided_at=now(), document=document)
        )


def load(connection: sa.Connection, decision_id: str) -> bytes:
    """Return a decision; UnknownName, which suggests one of the latest, if none has this id."""
    document = connection.scalar(sa.select(_table.c.document).where(_table.c.id == decision_id))
    if document is None:
        latest = sa.select(_table.c.id).order_by(_table.c.decided_at.desc()).limit(20)
        raise UnknownName("decision", decision_id, connection.scalars(latest))
    return bytes(document)
