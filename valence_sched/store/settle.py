# SPDX-License-Identifier: Apache-2.0
"""Settlement: drops the hold of a claim once the inventory shows its composed nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import FREE_STATUS, FullPodm, to_json
from valence_sched.store import claim_rows, holds, tables
from valence_sched.store.quarantine import readable
from valence_sched.store.tables import chunks, key_of, now

_nodes = tables.nodes
decode_node = msgspec.json.Decoder(ComposedNode).decode
NodesByClaim = dict[tuple[str, str], list[ComposedNode]]


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
    rows = connection.execute(sa.select(_nodes.c.id, _nodes.c.document).where(_nodes.c.id.in_(ids)))
    found = dict(readable(connection, _nodes, rows, lambda id_, text: (id_, decode_node(text))))
    return all(one.id in found and found[one.id].uri == one.uri for one in nodes)


def settle_claims(connection: sa.Connection, podms: Mapping[str, FullPodm]) -> set[str]:
    """Settle the claims whose composed nodes the pod managers, by key, show.

    Runs within the transaction that has locked their rows. Returns the keys of the pod managers
    of which less is held from now on.
    """
    settled, parts = set(), tables.claim_parts.c
    for (key, claim), nodes in sorted(_composed_claims(connection, podms).items()):
        podm = podms[key]
        shown = {node.uri: frozenset(node.blocks) for node in podm.nodes}
        in_use = {b.uri for b in podm.blocks if (b.status or FREE_STATUS) != FREE_STATUS}
        if all(_shows(shown, in_use, node) for node in nodes):
            holds.drop(connection, claim, key)
            claim_rows.add_event(connection, "accounted", claim, podm.id)
            if connection.scalar(sa.select(parts.claim_id).where(parts.claim_id == claim)) is None:
                claim_rows.change_state(connection, claim, ["COMPOSED"], "SETTLED")
            settled.add(key)
    return settled


def keys_of_composed_claims(connection: sa.Connection, keys: Iterable[str]) -> set[str]:
    """Return those of the pod managers of which a composed claim still holds something."""
    return {key for key, _ in _composed_claims(connection, keys)}


def _composed_claims(connection: sa.Connection, keys: Iterable[str]) -> NodesByClaim:
    """Return the nodes of composed claims that hold something, by pod manager and claim.

    A claim of which a node cannot be decoded is left out: what a reading must show is not known.
    """
    parts, claims = tables.claim_parts, tables.claims
    of_claim, of_podm = _nodes.c.claim_id == parts.c.claim_id, _nodes.c.podm_key == parts.c.podm_key
    query = (
        sa.select(_nodes.c.id, parts.c.podm_key, parts.c.claim_id, _nodes.c.document)
        .join(claims, claims.c.id == parts.c.claim_id)
        .join(_nodes, sa.and_(of_claim, of_podm))
        .where(claims.c.state == "COMPOSED")
    )
    found: NodesByClaim = {}
    counts: Counter[tuple[str, str]] = Counter()

    for some in chunks(sorted(keys)):
        rows = connection.execute(query.where(parts.c.podm_key.in_(some))).all()
        counts.update((key, claim) for _, key, claim, _ in rows)
        for claim_key, node in readable(connection, _nodes, rows, _node_of_claim):
            found.setdefault(claim_key, []).append(node)
    return {key: nodes for key, nodes in found.items() if len(nodes) == counts[key]}


def _node_of_claim(
    _id: str, key: str, claim: str, document: bytes
) -> tuple[tuple[str, str], ComposedNode]:
    return (key, claim), decode_node(document)


def _shows(shown: dict[str, frozenset[str]], in_use: set[str], node: ComposedNode) -> bool:
    """Return whether a reading shows the node, and each of its blocks with it or in use."""
    return node.uri in shown and in_use.union(shown[node.uri]).issuperset(node.blocks)
