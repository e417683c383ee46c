# SPDX-License-Identifier: Apache-2.0
"""The moment in which a fresh inventory takes over counting what a claim composed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import FREE_STATUS, FullPodm, to_json
from valence_sched.store import change_log, claim_rows, holds, podms, tables
from valence_sched.store.tables import key_of, now

_nodes = tables.nodes


def write_nodes(connection: sa.Connection, nodes: Sequence[ComposedNode]) -> None:
    """Write the nodes that a claim became."""
    at = connection.scalar(sa.select(now())) or 0.0
    rows = [
        {"id": one.id, "podm_key": key_of(one.podm), "claim_id": one.claim,
         "document": to_json(replace(one, created_at=one.created_at or float(at)))}
        for one in nodes
    ]  # fmt: skip
    if rows:
        connection.execute(sa.insert(_nodes), rows)


def are_written(connection: sa.Connection, nodes: Sequence[ComposedNode]) -> bool:
    """Return whether these very nodes were written before."""
    ids = [one.id for one in nodes]
    rows = connection.scalars(sa.select(_nodes.c.document).where(_nodes.c.id.in_(ids)))
    found = {one.id: one for one in (msgspec.json.decode(row, type=ComposedNode) for row in rows)}
    return all(one.id in found and found[one.id].uri == one.uri for one in nodes)


def settle_stored(connection: sa.Connection, podm: str) -> None:
    """Settle what the podm as last read shows already."""
    key = key_of(podm)
    row = podms.lock_row(connection, key)
    stored = podms.load(connection, [podm]).get(podm)
    if row and stored and settle_claims(connection, stored):
        change_log.log_changes(connection, [key])


def settle_claims(connection: sa.Connection, podm: FullPodm) -> list[str]:
    """Settle the claims whose composed nodes this reading shows; return their ids.

    Within the transaction that stores the reading and has locked the podm's row.
    """
    key = key_of(podm.id)
    waiting = _composed_claims(connection, key)
    if not waiting:
        return []
    shown = {node.uri: frozenset(node.blocks) for node in podm.nodes}
    in_use = {block.uri for block in podm.blocks if (block.status or FREE_STATUS) != FREE_STATUS}
    found = []
    for claim, nodes in sorted(waiting.items()):
        if all(_shows(shown, in_use, node) for node in nodes):
            holds.drop(connection, claim, key)
            claim_rows.add_event(connection, "accounted", claim, podm.id)
            _mark_settled(connection, claim)
            found.append(claim)
    return found


def _composed_claims(connection: sa.Connection, key: str) -> dict[str, list[ComposedNode]]:
    """Return the composed claims that hold something of a podm, with their nodes there."""
    parts, claims = tables.claim_parts, tables.claims
    rows = connection.execute(
        sa.select(parts.c.claim_id, _nodes.c.document)
        .join(claims, claims.c.id == parts.c.claim_id)
        .join(
            _nodes,
            sa.and_(_nodes.c.claim_id == parts.c.claim_id, _nodes.c.podm_key == parts.c.podm_key),
        )
        .where(parts.c.podm_key == key, claims.c.state == "COMPOSED")
    )
    found: dict[str, list[ComposedNode]] = {}
    for claim, document in rows:
        found.setdefault(claim, []).append(msgspec.json.decode(document, type=ComposedNode))
    return found


def _shows(shown: dict[str, frozenset[str]], in_use: set[str], node: ComposedNode) -> bool:
    """Return whether a reading shows the node, and each of its blocks with it or in use."""
    if node.uri not in shown:
        return False
    return all(uri in shown[node.uri] or uri in in_use for uri in node.blocks)


def _mark_settled(connection: sa.Connection, claim: str) -> None:
    parts = tables.claim_parts.c
    if connection.scalar(sa.select(parts.claim_id).where(parts.claim_id == claim)) is None:
        claim_rows.change_state(connection, claim, ["COMPOSED"], "SETTLED")
