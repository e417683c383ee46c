# SPDX-License-Identifier: Apache-2.0
"""Usage: what live claims hold of pod managers, until the inventory shows their composed nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import ComposedNode, Usage
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
    at = float(connection.scalar(sa.select(now())) or 0.0)
    for one in nodes:
        document = to_json(replace(one, created_at=one.created_at or at))
        row = {"id": one.id, "podm_key": key_of(one.podm), "claim_id": one.claim}
        connection.execute(sa.insert(_nodes), {**row, "document": document})


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
        used = {uri: in_use.union(blocks) for uri, blocks in shown.items()}
        if all(used.get(node.uri, frozenset()).issuperset(node.blocks) for node in nodes):
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
    connection: sa.Connection,
    keys: Sequence[str],
    *,
    claims: Sequence[str] | None = None,
    everything: bool = False,
) -> dict[str, Usage]:
    """Return what live claims hold of pod managers, by key: all claims, or only these.

    With ``everything`` the usage of many pod managers is read in one query without their keys.
    """
    if everything and len(keys) > CHUNK:
        return _read_usages(connection, lambda _table: sa.true())
    found: dict[str, Usage] = {}
    wanted, column = frozenset(keys), "podm_key" if claims is None else "claim_id"
    for chunk in chunks(keys if claims is None else claims):
        is_one = partial(_is_in, column=column, values=chunk)
        for key, usage in _read_usages(connection, is_one).items():
            if key in wanted:
                found[key] = found[key].plus(usage) if key in found else usage
    return found


def uses(connection: sa.Connection, key: str) -> list[str]:
    """Return how many claims and nodes there are of a pod manager, in words; nothing for none."""
    claims, nodes, parts = tables.claim_parts.c, _nodes.c, []
    columns = {"claim": (claims.claim_id, claims.podm_key), "node": (nodes.id, nodes.podm_key)}
    for noun, (id_, podm_key) in columns.items():
        if ids := connection.scalars(sa.select(id_).where(podm_key == key).order_by(id_)).all():
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
    found = {}
    for key in {*blocks, *amounts, *nodes}:
        held_nodes = tuple(nodes.get(key, ()))
        found[key] = Usage(
            blocks=blocks.get(key, {}), amounts=amounts.get(key, {}), nodes=held_nodes
        )
    return found


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
        found = []
        for part in claim_rows.decode_parts(document):
            for share in part.shares if key_of(part.podm) == key else ():
                uri, blocks, flavor = f"claim:{claim}#{share.node}", share.blocks, share.flavor
                node = Node(uri=uri, owner=owner, group=group, blocks=blocks, flavor=flavor)
                found.append((key, replace(node, request=part.request)))
        return found

    for nodes in readable(connection, tables.claims, connection.execute(query), nodes_of):
        yield from nodes


def _composed_nodes(connection: sa.Connection, among: _Condition) -> Iterator[tuple[str, Node]]:
    claims = tables.claims.c
    query = sa.select(_nodes.c.id, _nodes.c.podm_key, _nodes.c.document)
    query = query.join(tables.claims, claims.id == _nodes.c.claim_id)
    query = query.where(among(_nodes), _IS_COUNTED).order_by(claims.created_at, _nodes.c.id)
    names = ("uri", "name", "owner", "group", "blocks", "flavor", "request")

    def node_of(_id: str, key: str, document: bytes) -> tuple[str, Node]:
        one = decode_node(document)
        return key, Node(**{name: getattr(one, name) for name in names})

    yield from readable(connection, _nodes, connection.execute(query), node_of)
