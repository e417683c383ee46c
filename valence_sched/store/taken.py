# SPDX-License-Identifier: Apache-2.0
"""A claim brought to the blocks that its nodes are really made of.

Where a pod manager chooses the blocks itself, they need not be those that were planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, Part, Share
from valence_sched.model.composed import Composed
from valence_sched.model.inventory import to_json
from valence_sched.store import claim_rows, hold, moves, tables
from valence_sched.store.columns import key_of

_blocks = tables.claimed_blocks


def take(connection: sa.Connection, claim: Claim, nodes: Sequence[Composed]) -> None:
    """Hold what nodes are made of in place of what was planned, where that is not the same.

    Raises:
        ClaimLost: another claim holds a block of theirs; nothing is changed.
        Sweepable: only a claim whose time is over is in the way.
    """
    parts = []
    for part in claim.parts:
        mine = [node for node in nodes if node.podm == part.podm]
        real = replace(part, shares=tuple(_really(share, mine) for share in part.shares))
        if real.blocks != part.blocks:
            _swap(connection, claim.id, part, real)
        parts.append(real)
    if tuple(parts) != claim.parts:
        connection.execute(
            sa.update(tables.claims)
            .where(tables.claims.c.id == claim.id)
            .values(document=to_json(tuple(parts)))
        )
        words = f"made of {sum(len(part.blocks) for part in parts)} blocks, not those planned"
        claim_rows.event(connection, "swapped", claim.id, words=words)


def _really(share: Share, nodes: Sequence[Composed]) -> Share:
    """Return a share with the blocks of its node: the one of its number, or the only one."""
    named = [node for node in nodes if node.id.endswith(f"-{share.node}")]
    (node,) = nodes if len(nodes) == 1 else named
    return replace(share, blocks=node.blocks)


def _swap(connection: sa.Connection, claim_id: str, planned: Part, real: Part) -> None:
    key = key_of(planned.podm)
    gone, come = planned.blocks - real.blocks, real.blocks - planned.blocks
    locked = hold.lock_as_it_is(connection, _only(real, come))
    for uri in gone:
        connection.execute(
            sa.delete(_blocks).where(
                _blocks.c.podm_key == key,
                _blocks.c.block_key == key_of(uri),
                _blocks.c.claim_id == claim_id,
            )
        )
    hold.hold_blocks(connection, claim_id, _only(real, come), locked)
    moves.moved(connection, held=[key])


def _only(part: Part, blocks: Counter[str]) -> Part:
    share = replace(part.shares[0], blocks=tuple(blocks.elements()))
    return replace(part, shares=(share,))
