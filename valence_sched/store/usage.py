# SPDX-License-Identifier: Apache-2.0
"""Usage: what live claims hold of pod managers, until the inventory shows their composed nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Usage
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import FREE_STATUS, FullPodm, Node, to_json
from valence_sched.model.quantity import format_count
from valence_sched.store import claim_rows, holds, tables
from valence_sched.store.document import readable
from valence_sched.store.tables import CHUNK, chunks, key_of, now

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
        if all(node.uri in shown and in_use.union(shown[node.uri]).issuperset(node.blocks)
               for node in nodes):  # fmt: skip
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
        made = readable(connection, _nodes, rows, lambda _id, *key: (key[:2], decode_node(key[2])))
        for claim_key, node in made:
            found.setdefault(claim_key, []).append(node)
    return {key: nodes for key, nodes in found.items() if len(nodes) == counts[key]}


_Condition = Callable[[sa.Table], sa.ColumnElement[bool]]

MAX_LISTED_USES = 3  # names of claims, and of nodes, in a message


def usages(
    connection: sa.Connection, keys: Sequence[str], *,
    claims: Sequence[str] | None = None, everything: bool = False,
) -> dict[str, Usage]:  # fmt: skip
    """Return what live claims hold of pod managers, by key: all claims, or only these.

    With ``everything`` the usage of many pod managers is read in one query without their keys.
    """
    found: dict[str, Usage] = {}
    if claims is not None:
        wanted = frozenset(keys)
        for chunk in chunks(claims):
            of_claims = partial(_is_in, column="claim_id", values=chunk)
            for key, usage in _read_usages(connection, of_claims).items():
                if key in wanted:
                    found[key] = found[key].plus(usage) if key in found else usage
        return found
    if everything and len(keys) > CHUNK:
        return _read_usages(connection, lambda _table: sa.true())
    for chunk in chunks(keys):
        found |= _read_usages(connection, partial(_is_in, column="podm_key", values=chunk))
    return found


def uses(connection: sa.Connection, key: str) -> list[str]:
    """Return how many claims and nodes there are of a pod manager, in words; nothing for none."""
    claims, nodes = tables.claim_parts.c, tables.nodes.c
    of_claims = sa.select(claims.claim_id).where(claims.podm_key == key)
    of_nodes = sa.select(nodes.id).where(nodes.podm_key == key)
    parts = []
    for noun, query in (("claim", of_claims.order_by(claims.claim_id)),
                        ("node", of_nodes.order_by(nodes.id))):  # fmt: skip
        if ids := connection.scalars(query).all():
            parts.append(f"{format_count(len(ids), noun)} ({listed(ids)})")
    return parts


def listed(ids: Sequence[str]) -> str:
    """Return the first of some IDs, and how many more there are."""
    more = f" and {len(ids) - MAX_LISTED_USES:,} more" if ids[MAX_LISTED_USES:] else ""
    return ", ".join(ids[:MAX_LISTED_USES]) + more


def usages_by_name(connection: sa.Connection, names: Iterable[str]) -> dict[str, Usage]:
    """Return what live claims hold of pod managers, by name, where they hold anything."""
    keys = {key_of(name): name for name in names}
    found = usages(connection, list(keys), everything=True)
    return {keys[key]: one for key, one in found.items() if key in keys}


def _is_in(table: sa.Table, column: str, values: Sequence[str]) -> sa.ColumnElement[bool]:
    return table.c[column].in_(values)


def _read_usages(connection: sa.Connection, among: _Condition) -> dict[str, Usage]:
    blocks: dict[str, dict[str, int]] = {}
    amounts: dict[str, dict[str, float]] = {}
    nodes: dict[str, list[Node]] = {}
    slot, stock = tables.claimed_blocks, tables.claimed_amounts
    of_blocks = sa.select(slot.c.podm_key, slot.c.uri).where(among(slot))
    for key, uri in connection.execute(of_blocks):
        slots = blocks.setdefault(key, {})
        slots[uri] = slots.get(uri, 0) + 1
    # less than nothing is held by none: it would add to what is free
    held_any = among(stock), stock.c.amount > 0
    of_amounts = sa.select(stock.c.podm_key, stock.c.uri, stock.c.amount).where(*held_any)
    for key, uri, amount in connection.execute(of_amounts):
        held = amounts.setdefault(key, {})
        held[uri] = held.get(uri, 0.0) + amount
    for key, node in (*_planned_nodes(connection, among), *_composed_nodes(connection, among)):
        nodes.setdefault(key, []).append(node)
    return {
        key: Usage(blocks=blocks.get(key, {}), amounts=amounts.get(key, {}),
                  nodes=tuple(nodes.get(key, ())))
        for key in {*blocks, *amounts, *nodes}
    }  # fmt: skip


#: Whether the rules of groups, or preferences about an owner, count the nodes of a claim.
_IS_COUNTED = sa.or_(tables.claims.c.owner.is_not(None), tables.claims.c.group_name.is_not(None))


def _planned_nodes(connection: sa.Connection, among: _Condition) -> Iterator[tuple[str, Node]]:
    """Yield the nodes that are claimed and not composed yet, where they are counted.

    A claim that is prepared may be given up: its nodes count once it is held.
    """
    parts, claims = tables.claim_parts, tables.claims.c
    query = (
        sa.select(claims.id, parts.c.podm_key, claims.owner, claims.group_name, claims.document)
        .join(tables.claims, claims.id == parts.c.claim_id)
        .where(among(parts), _IS_COUNTED, claims.state.in_(("HELD", "COMPOSING")))
        .order_by(claims.created_at, claims.id)
    )

    def nodes_of(
        claim: str, key: str, owner: str | None, group: str | None, document: bytes
    ) -> list[tuple[str, Node]]:
        return [
            (key, Node(uri=f"claim:{claim}#{share.node}", owner=owner, group=group,
                       blocks=share.blocks, flavor=share.flavor, request=part.request))
            for part in claim_rows.decode_parts(document) if key_of(part.podm) == key
            for share in part.shares
        ]  # fmt: skip

    for nodes in readable(connection, tables.claims, connection.execute(query), nodes_of):
        yield from nodes


def _composed_nodes(connection: sa.Connection, among: _Condition) -> Iterator[tuple[str, Node]]:
    nodes, claims = tables.nodes, tables.claims.c
    query = (
        sa.select(nodes.c.id, nodes.c.podm_key, nodes.c.document)
        .join(tables.claims, claims.id == nodes.c.claim_id)
        .where(among(nodes), _IS_COUNTED)
        .order_by(claims.created_at, nodes.c.id)
    )

    def node_of(_id: str, key: str, document: bytes) -> tuple[str, Node]:
        one = decode_node(document)
        return key, Node(uri=one.uri, name=one.name, owner=one.owner, group=one.group,
                         blocks=one.blocks, flavor=one.flavor, request=one.request)  # fmt: skip

    yield from readable(connection, tables.nodes, connection.execute(query), node_of)
