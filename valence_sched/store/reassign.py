# SPDX-License-Identifier: Apache-2.0
"""A held claim of several nodes as claims of one node each, holding the same between them.

Nothing is let go meanwhile: every row only changes hands, in one transaction.
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
_claimed_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts


def split_claim(connection: sa.Connection, claim_id: str) -> list[Claim]:
    """Return claims of one node each in place of a held one, which is released.

    Theirs are its owner, group, content and end, and its key with ``#`` and the node's number.
    """
    claim = claim_rows.get(connection, claim_id)
    ids = [_id(claim, share) for part in claim.parts for share in part.shares]
    made = [one for id_ in ids for one in claim_rows.find(connection, _claims.c.id == id_)]
    if len(made) == len(ids):  # the answer to an earlier commit was lost
        return made
    valid = _claims.c.sweep_at > now()
    if not claim_rows.change_state(
        connection,
        claim_id,
        ["HELD"],
        "RELEASED",
        valid,
        consumer_key=None,
        note="one claim a node by now",
    ):
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
        mine = sa.and_(
            _claimed_blocks.c.podm_key == key,
            _claimed_blocks.c.block_key == key_of(uri),
            _claimed_blocks.c.claim_id == claim_id,
        )
        slot = connection.scalar(sa.select(sa.func.min(_claimed_blocks.c.slot)).where(mine))
        connection.execute(
            sa.update(_claimed_blocks)
            .where(mine, _claimed_blocks.c.slot == slot)
            .values(claim_id=one.id)
        )
    amounts: dict[str, float] = {}
    for grant in share.grants:
        amounts[grant.uri] = round(amounts.get(grant.uri, 0.0) + grant.amount, 9)
    for uri, amount in amounts.items():
        row = {"podm_key": key, "stock_key": key_of(uri), "claim_id": one.id, "uri": uri}
        connection.execute(sa.insert(_amounts), {**row, "amount": amount})


_claimed_blocks = tables.claimed_blocks


def reassign_blocks(connection: sa.Connection, claim: Claim, nodes: Sequence[ComposedNode]) -> None:
    """Hold what nodes are made of in place of what was planned, where that is not the same.

    Raises:
        ClaimLost: another claim holds a block of theirs; nothing is changed.
        Sweepable: only a claim whose time is over is in the way.
    """
    parts = []
    for part in claim.parts:
        mine = [node for node in nodes if node.podm == part.podm]
        real = replace(part, shares=tuple(_actual_allocation(share, mine) for share in part.shares))
        if real.blocks != part.blocks:
            _swap_blocks(connection, claim.id, part, real)
        parts.append(real)
    if tuple(parts) != claim.parts:
        connection.execute(
            sa.update(tables.claims)
            .where(tables.claims.c.id == claim.id)
            .values(document=to_json(tuple(parts)))
        )
        words = f"made of {sum(len(part.blocks) for part in parts)} blocks, not those planned"
        claim_rows.add_event(connection, "swapped", claim.id, words=words)


def _actual_allocation(share: NodeAllocation, nodes: Sequence[ComposedNode]) -> NodeAllocation:
    """Return a share with the blocks of its node: the one of its number, or the only one."""
    named = [node for node in nodes if node.id.endswith(f"-{share.node}")]
    (node,) = nodes if len(nodes) == 1 else named
    return replace(share, blocks=node.blocks)


def _swap_blocks(
    connection: sa.Connection, claim_id: str, planned: ClaimPart, real: ClaimPart
) -> None:
    key = key_of(planned.podm)
    gone, come = planned.blocks - real.blocks, real.blocks - planned.blocks
    locked = holds.lock_any_generation(connection, _with_blocks(real, come))
    for uri in gone:
        connection.execute(
            sa.delete(_claimed_blocks).where(
                _claimed_blocks.c.podm_key == key,
                _claimed_blocks.c.block_key == key_of(uri),
                _claimed_blocks.c.claim_id == claim_id,
            )
        )
    holds.hold_blocks(connection, claim_id, _with_blocks(real, come), locked)
    change_log.log_changes(connection, usage=[key])


def _with_blocks(part: ClaimPart, blocks: Counter[str]) -> ClaimPart:
    share = replace(part.shares[0], blocks=tuple(blocks.elements()))
    return replace(part, shares=(share,))
