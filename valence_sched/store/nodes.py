# SPDX-License-Identifier: Apache-2.0
"""Composed nodes of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from valence_sched.errors import Undecodable, UnknownName
from valence_sched.model.claim import State
from valence_sched.model.composition import ComposedNode
from valence_sched.store import change_log, claim_rows, expiry, podms, tables
from valence_sched.store.database import Database
from valence_sched.store.document import readable
from valence_sched.store.tables import key_of
from valence_sched.store.usage import decode_node

_of = tables.nodes.c


class Nodes:
    """The composed nodes of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, podm: str | None = None, claim: str | None = None) -> Sequence[ComposedNode]:
        query = sa.select(_of.id, _of.document).order_by(_of.id)
        if podm is not None:
            query = query.where(_of.podm_key == key_of(podm))
        if claim is not None:
            query = query.where(_of.claim_id == claim)
        return self._database.read(lambda c: _decoded(c, query), "reading nodes")

    def newest(
        self, most: int, *, skip: int = 0, podm: str | None = None, owner: str | None = None
    ) -> tuple[Sequence[ComposedNode], int]:
        """Return ``most`` nodes after ``skip`` newer ones, and how many there are in all.

        The node of the newest claim is the first. Of one pod manager or owner if given.
        """
        claims = tables.claims
        both = tables.nodes.outerjoin(claims, claims.c.id == _of.claim_id)
        where = [sa.true() if podm is None else _of.podm_key == key_of(podm)]
        if owner is not None:
            where.append(claims.c.owner == owner)
        order = (sa.func.coalesce(claims.c.created_at, 0.0).desc(), _of.id)
        query = sa.select(_of.id, _of.document).select_from(both).where(*where).order_by(*order)
        count = sa.select(sa.func.count()).select_from(both).where(*where)

        def work(connection: sa.Connection) -> tuple[Sequence[ComposedNode], int]:
            found = _decoded(connection, query.limit(most).offset(skip))
            return found, connection.scalar(count) or 0

        return self._database.read(work, "reading nodes")

    def show(self, node_id: str) -> ComposedNode:
        """Return a node by its id or its only URI; UnknownName for none, else Undecodable."""
        nodes = self.list()
        for name in ("id", "uri"):
            matching = [node for node in nodes if getattr(node, name) == node_id]
            if len(matching) == 1:
                return matching[0]
        claims = tables.claims.c
        both = tables.nodes.outerjoin(tables.claims, claims.id == _of.claim_id)
        query = sa.select(_of.id, claims.owner).select_from(both).where(_of.id == node_id)
        if row := self._database.read(lambda c: c.execute(query).first(), "reading nodes"):
            raise Undecodable("node", *row)
        raise UnknownName("node", node_id, [node.id for node in nodes])

    def forget(self, node_id: str) -> None:
        """Delete the record of a node that is gone; the last one of a claim releases that."""
        patient = self._database.patient()  # its pod manager has no such node any more
        claim_id = patient.write(lambda c: _forget(c, node_id), "forgetting a node")
        if claim_id:
            expiry.free_claim(patient, claim_id)


def _forget(connection: sa.Connection, node_id: str) -> str | None:
    """Delete the row of a node; return its claim if no other node of that is left."""
    query = sa.select(_of.claim_id, _of.podm_key).where(_of.id == node_id)
    if (row := connection.execute(query).first()) is None:
        return None
    claim_id, key = tuple(row)
    podms.lock_row(connection, key)
    connection.execute(sa.delete(tables.nodes).where(_of.id == node_id))
    claim_rows.add_event(connection, "gone", claim_id, words=node_id)
    others = sa.select(sa.func.count()).select_from(tables.nodes).where(_of.claim_id == claim_id)
    is_last = not connection.scalar(others)
    if is_last:
        composed: tuple[State, ...] = ("COMPOSED", "SETTLED")
        claim_rows.end(connection, claim_id, composed, "RELEASED", "its node is gone")
    change_log.log_changes(connection, [key])  # the node counts no more for its owner and group
    return claim_id if is_last else None


def _decoded(connection: sa.Connection, query: sa.Select[Any]) -> Sequence[ComposedNode]:
    rows = connection.execute(query)
    return [*readable(connection, tables.nodes, rows, lambda _id, document: decode_node(document))]
