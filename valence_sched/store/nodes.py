# SPDX-License-Identifier: Apache-2.0
"""The nodes of a store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from valence_sched.errors import UnknownName
from valence_sched.model.composition import ComposedNode
from valence_sched.store import claim_rows, expiry, tables
from valence_sched.store.database import Database
from valence_sched.store.tables import key_of

_of = tables.nodes.c


class Nodes:
    """The nodes that claims became."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, podm: str | None = None, claim: str | None = None) -> Sequence[ComposedNode]:
        """Return nodes by id: all, or those of one pod manager or of one claim."""
        query = sa.select(_of.document).order_by(_of.id)
        if podm is not None:
            query = query.where(_of.podm_key == key_of(podm))
        if claim is not None:
            query = query.where(_of.claim_id == claim)
        rows = self._database.read(lambda c: c.scalars(query).all(), "reading nodes")
        return [msgspec.json.decode(row, type=ComposedNode) for row in rows]

    def show(self, node_id: str) -> ComposedNode:
        """Return a node by its id, or by its URI where only one has it; else UnknownName."""
        nodes = self.list()
        for told in ("id", "uri"):
            same = [node for node in nodes if getattr(node, told) == node_id]
            if len(same) == 1:
                return same[0]
        raise UnknownName("node", node_id, [node.id for node in nodes])

    def forget(self, node_id: str) -> None:
        """Forget a node that is not there any more, and release its claim if it was the last."""
        claim_id = self._database.write(lambda c: _forget(c, node_id), "forgetting a node")
        if claim_id:
            expiry.free_claim(self._database, claim_id)


def _forget(connection: sa.Connection, node_id: str) -> str | None:
    """Delete a node's row; return its claim where that ends with it."""
    claim_id: str | None = connection.scalar(sa.select(_of.claim_id).where(_of.id == node_id))
    connection.execute(sa.delete(tables.nodes).where(_of.id == node_id))
    if claim_id is None:
        return None
    claim_rows.add_event(connection, "gone", claim_id, words=node_id)
    others = sa.select(sa.func.count()).select_from(tables.nodes).where(_of.claim_id == claim_id)
    if connection.scalar(others):
        return None
    claim_rows.change_state(
        connection, claim_id, ("COMPOSED", "SETTLED"), "RELEASED", note="its node is gone",
        consumer_key=None, sweep_at=0.0,
    )  # fmt: skip
    return claim_id
