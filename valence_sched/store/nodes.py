# SPDX-License-Identifier: Apache-2.0
"""The nodes of a store, and what happened, in order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.model.composed import Composed
from valence_sched.model.noun import Noun
from valence_sched.store import claim_rows, tables
from valence_sched.store.columns import key_of
from valence_sched.store.database import Database

_of = tables.nodes.c


class Event(Noun, frozen=True, kw_only=True):
    """What happened; ``at`` is seconds since 1970 by the clock of the database."""

    number: int
    at: float
    kind: str
    claim: str | None = None
    podm: str | None = None
    words: str | None = None


class Nodes:
    """The nodes that claims became."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, podm: str | None = None, claim: str | None = None) -> Sequence[Composed]:
        """Return nodes by id: all, or those of one pod manager or of one claim."""
        query = sa.select(_of.document).order_by(_of.id)
        if podm is not None:
            query = query.where(_of.podm_key == key_of(podm))
        if claim is not None:
            query = query.where(_of.claim_id == claim)
        rows = self._database.read(lambda c: c.scalars(query).all(), "reading nodes")
        return [msgspec.json.decode(row, type=Composed) for row in rows]

    def show(self, node_id: str) -> Composed:
        """Return a node; UnknownName when there is none."""
        nodes = self.list()
        for node in nodes:
            if node.id == node_id:
                return node
        raise UnknownName("node", node_id, [node.id for node in nodes])

    def forget(self, node_id: str) -> None:
        """Forget a node that is no longer there; UnknownName when there is none."""
        node = self.show(node_id)

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(tables.nodes).where(_of.id == node_id))
            claim_rows.event(connection, "deleted", node.claim, node.podm, node.uri)

        self._database.write(work, "forgetting a node")


def events(connection: sa.Connection, claim: str | None, last: int) -> list[Event]:
    """Return the ``last`` events, of one claim or of all, the oldest first."""
    of = tables.events.c
    query = sa.select(of.number, of.at, of.kind, of.claim_id, of.podm, of.words)
    if claim is not None:
        query = query.where(of.claim_id == claim)
    rows = connection.execute(query.order_by(of.number.desc()).limit(last)).all()
    return [
        Event(number=number, at=at, kind=kind, claim=claim_id, podm=podm, words=words)
        for number, at, kind, claim_id, podm, words in reversed(rows)
    ]
