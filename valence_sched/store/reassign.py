# SPDX-License-Identifier: Apache-2.0
"""Reassigns held blocks: splits a claim by node, or moves it to the blocks its nodes really use.

No block is free in between: rows change their claim within one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, ClaimPart, NodeAllocation
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import to_json
from valence_sched.store import change_log, claim_rows, holds, tables
from valence_sched.store.tables import key_of, now

_claims, _parts = tables.claims, tables.claim_parts
_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts


def split_claim(connection: sa.Connection, claim_id: str) -> list[Claim]:
    """Return claims of one node each that replace a held claim, which is released.

    They have its owner, group, content and end, and its key with ``#`` and the node's number.
    """
    claim = claim_rows.get(connection, claim_id)
    ids = [_id(claim, share) for part in claim.parts for share in part.shares]
    existing = [one for id_ in ids for one in claim_rows.find(connection, _claims.c.id == id_)]
    if len(existing) == len(ids):  # the answer to an earlier commit was lost
        return existing
    unexpired = _claims.c.sweep_at > now()
    if not claim_rows.change_state(
        connection, claim_id, ["HELD"], "RELEASED", unexpired,
        consumer_key=None, note="one claim a node by now",
    ):  # fmt: skip
        raise claim_rows.state_error(connection, claim_id, "only one that is held can be split")
    for part in claim.parts:
        for share in part.shares:
            one = _single_node_claim(claim, part, share)
            claim_rows.insert(connection, one)
            _reassign_rows(connection, claim_id, one, part.podm, share)
    for table in (_amounts, _parts):
        connection.execute(sa.delete(table).where(table.c.claim_id == claim_id))
    change_log.log_changes(connection, usage={key_of(part.podm) for part in claim.parts})
    return [claim_rows.get(connection, id_) for id_ in ids]


def _id(claim: Claim, share: NodeAllocation) -> str:
    return f"{claim.id}-{share.node}"


def _single_node_claim(claim: Claim, part: ClaimPart, share: NodeAllocation) -> Claim:
    return replace(
        claim,
        id=_id(claim, share),
        state="HELD",
        key=claim.key and f"{claim.key}#{share.node}",
        parts=(replace(part, shares=(share,)),),
    )


def _reassign_rows(
    connection: sa.Connection, claim_id: str, one: Claim, podm: str, share: NodeAllocation
) -> None:
    key = key_of(podm)
    change_log.add_claim_part(connection, key, one.id)
    for uri in share.blocks:
        own = sa.and_(
            _blocks.c.podm_key == key,
            _blocks.c.block_key == key_of(uri),
            _blocks.c.claim_id == claim_id,
        )
        slot = connection.scalar(sa.select(sa.func.min(_blocks.c.slot)).where(own))
        connection.execute(
            sa.update(_blocks).where(own, _blocks.c.slot == slot).values(claim_id=one.id)
        )
    amounts: dict[str, float] = {}
    for grant in share.grants:
        amounts[grant.uri] = round(amounts.get(grant.uri, 0.0) + grant.amount, 9)
    for uri, amount in amounts.items():
        row = {"podm_key": key, "stock_key": key_of(uri), "claim_id": one.id, "uri": uri}
        connection.execute(sa.insert(_amounts), {**row, "amount": amount})


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
        connection.execute(
            sa.update(tables.claims)
            .where(tables.claims.c.id == claim.id)
            .values(document=to_json(tuple(parts)))
        )
        words = f"made of {sum(len(part.blocks) for part in parts)} blocks, not those planned"
        claim_rows.add_event(connection, "swapped", claim.id, words=words)


def _actual_allocation(share: NodeAllocation, nodes: Sequence[ComposedNode]) -> NodeAllocation:
    """Return an allocation with the blocks of its node: the one of its number, or the only one."""
    numbered = [node for node in nodes if node.id.endswith(f"-{share.node}")]
    (node,) = nodes if len(nodes) == 1 else numbered
    return replace(share, blocks=node.blocks)


def _swap_blocks(
    connection: sa.Connection, claim_id: str, planned: ClaimPart, actual: ClaimPart
) -> None:
    key = key_of(planned.podm)
    dropped, added = planned.blocks - actual.blocks, actual.blocks - planned.blocks
    locked = holds.lock_any_generation(connection, _with_blocks(actual, added))
    for uri in dropped:
        connection.execute(
            sa.delete(_blocks).where(
                _blocks.c.podm_key == key,
                _blocks.c.block_key == key_of(uri),
                _blocks.c.claim_id == claim_id,
            )
        )
    holds.hold_blocks(connection, claim_id, _with_blocks(actual, added), locked)
    change_log.log_changes(connection, usage=[key])


def _with_blocks(part: ClaimPart, blocks: Counter[str]) -> ClaimPart:
    share = replace(part.shares[0], blocks=tuple(blocks.elements()))
    return replace(part, shares=(share,))
