# SPDX-License-Identifier: Apache-2.0
"""Reassigns held blocks: splits a claim by node, or moves it to the blocks its nodes really use.

No block is free in between: rows change their claim within one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, ClaimPart, NodeAllocation
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import format_count
from valence_sched.store import change_log, claim_rows, holds, quotas, tables
from valence_sched.store.claim_rows import change_state
from valence_sched.store.tables import key_of, now

_claims, _parts = tables.claims, tables.claim_parts
_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts


def split_claim(connection: sa.Connection, claim_id: str) -> list[Claim]:
    """Return claims of one node each that replace a held claim, which is released.

    They have its owner, group, content and end, and its key with ``#`` and the node's number.
    """
    claim = claim_rows.get(connection, claim_id)
    singles = [_single_node_claim(claim, part, share)
               for part in claim.parts for share in part.shares]  # fmt: skip
    found = [claim_rows.find(connection, _claims.c.id == one.id) for one in singles]
    if all(found):  # the answer to an earlier commit was lost
        return [existing for (existing,) in found]
    unexpired = _claims.c.sweep_at > now()
    values = {"consumer_key": None, "note": "one claim a node by now"}
    if not change_state(connection, claim_id, ["HELD"], "RELEASED", unexpired, **values):
        raise claim_rows.state_error(connection, claim_id, "only one that is held can be split")
    for one in singles:
        claim_rows.insert(connection, one)
        _reassign_rows(connection, claim_id, one)
    quotas.split(connection, claim_id, singles)
    for table in (_amounts, _parts):
        connection.execute(sa.delete(table).where(table.c.claim_id == claim_id))
    change_log.log_changes(connection, usage={key_of(part.podm) for part in claim.parts})
    return [claim_rows.get(connection, one.id) for one in singles]


def _single_node_claim(claim: Claim, part: ClaimPart, share: NodeAllocation) -> Claim:
    id_, key = f"{claim.id}-{share.node}", claim.key and f"{claim.key}#{share.node}"
    return replace(claim, id=id_, state="HELD", key=key, parts=(replace(part, shares=(share,)),))


def _reassign_rows(connection: sa.Connection, claim_id: str, one: Claim) -> None:
    (part,) = one.parts
    (share,) = part.shares
    key = key_of(part.podm)
    change_log.add_claim_part(connection, key, one.id)
    for uri in share.blocks:
        own = _is_held_block(claim_id, key, uri)
        slot = connection.scalar(sa.select(sa.func.min(_blocks.c.slot)).where(own))
        update = sa.update(_blocks).where(own, _blocks.c.slot == slot)
        connection.execute(update.values(claim_id=one.id))
    amounts: dict[str, float] = {}
    for grant in share.grants:
        amounts[grant.uri] = round(amounts.get(grant.uri, 0.0) + grant.amount, 9)
    for uri, amount in amounts.items():
        row = {"podm_key": key, "stock_key": key_of(uri), "claim_id": one.id, "uri": uri}
        connection.execute(sa.insert(_amounts), {**row, "amount": amount})


def _is_held_block(claim_id: str, key: str, uri: str) -> sa.ColumnElement[bool]:
    of = _blocks.c
    return sa.and_(of.podm_key == key, of.block_key == key_of(uri), of.claim_id == claim_id)


def reassign_blocks(connection: sa.Connection, claim: Claim, nodes: Sequence[ComposedNode]) -> None:
    """Hold the blocks of the nodes where they are not the planned ones; errors as for ``hold``."""
    parts = []
    for part in claim.parts:
        local = [node for node in nodes if node.podm == part.podm]
        shares = tuple(_actual_allocation(share, local) for share in part.shares)
        actual = replace(part, shares=shares)
        if actual.blocks != part.blocks:
            _swap_blocks(connection, claim.id, part, actual)
        parts.append(actual)
    if tuple(parts) != claim.parts:
        update = sa.update(_claims).where(_claims.c.id == claim.id)
        connection.execute(update.values(document=to_json(tuple(parts))))
        blocks = format_count(sum(len(part.blocks) for part in parts), "block")
        words = f"made of {blocks}, not those planned"
        claim_rows.add_event(connection, "swapped", claim.id, words=words)


def _actual_allocation(share: NodeAllocation, nodes: Sequence[ComposedNode]) -> NodeAllocation:
    """Return an allocation with the blocks of its node: the one of its number, or the only one."""
    numbered = [node for node in nodes if node.id.endswith(f"-{share.node}")]
    (node,) = nodes if len(nodes) == 1 else numbered
    return replace(share, blocks=node.blocks)


def _swap_blocks(connection: sa.Connection, id_: str, planned: ClaimPart, used: ClaimPart) -> None:
    key = key_of(planned.podm)
    blocks = tuple((used.blocks - planned.blocks).elements())
    added = replace(used, shares=(replace(used.shares[0], blocks=blocks),))
    locked = holds.lock_any_generation(connection, added)
    for uri in planned.blocks - used.blocks:
        connection.execute(sa.delete(_blocks).where(_is_held_block(id_, key, uri)))
    holds.hold_blocks(connection, id_, added, locked)
    change_log.log_changes(connection, usage=[key])
