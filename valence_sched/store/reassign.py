# SPDX-License-Identifier: Apache-2.0
"""A held claim of several nodes as claims of one node each, holding the same between them.

Nothing is let go meanwhile: every row only changes hands, in one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, Part, Share
from valence_sched.model.composition import Composed
from valence_sched.model.inventory import to_json
from valence_sched.store import change_log, claim_rows, holds, tables
from valence_sched.store.tables import key_of, now

_claims, _parts = tables.claims, tables.claim_parts
_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts


def split(connection: sa.Connection, claim_id: str) -> list[Claim]:
    """Return claims of one node each in place of a held one, which is released.

    Theirs are its owner, group, content and end, and its key with ``#`` and the node's number.
    """
    claim = claim_rows.one(connection, claim_id)
    ids = [_id(claim, share) for part in claim.parts for share in part.shares]
    made = [one for id_ in ids for one in claim_rows.found(connection, _claims.c.id == id_)]
    if len(made) == len(ids):  # the answer to an earlier commit was lost
        return made
    valid = _claims.c.sweep_at > now()
    if not claim_rows.move(connection, claim_id, ["HELD"], "RELEASED", valid, consumer_key=None,
                           note="one claim a node by now"):  # fmt: skip
        raise claim_rows.refuse(connection, claim_id, "only one that is held can be split")
    for part in claim.parts:
        for share in part.shares:
            one = _one(claim, part, share)
            claim_rows.insert(connection, one)
            _hand_over(connection, claim_id, one, part.podm, share)
    for table in (_amounts, _parts):
        connection.execute(sa.delete(table).where(table.c.claim_id == claim_id))
    change_log.moved(connection, held={key_of(part.podm) for part in claim.parts})
    return [claim_rows.one(connection, id_) for id_ in ids]


def _id(claim: Claim, share: Share) -> str:
    return f"{claim.id}-{share.node}"


def _one(claim: Claim, part: Part, share: Share) -> Claim:
    return replace(
        claim,
        id=_id(claim, share),
        state="HELD",
        key=claim.key and f"{claim.key}#{share.node}",
        parts=(replace(part, shares=(share,)),),
    )


def _hand_over(
    connection: sa.Connection, claim_id: str, one: Claim, podm: str, share: Share
) -> None:
    key = key_of(podm)
    change_log.taken(connection, key, one.id)
    for uri in share.blocks:
        mine = sa.and_(
            _blocks.c.podm_key == key,
            _blocks.c.block_key == key_of(uri),
            _blocks.c.claim_id == claim_id,
        )
        slot = connection.scalar(sa.select(sa.func.min(_blocks.c.slot)).where(mine))
        connection.execute(
            sa.update(_blocks).where(mine, _blocks.c.slot == slot).values(claim_id=one.id)
        )
    amounts: dict[str, float] = {}
    for grant in share.grants:
        amounts[grant.uri] = round(amounts.get(grant.uri, 0.0) + grant.amount, 9)
    for uri, amount in amounts.items():
        row = {"podm_key": key, "stock_key": key_of(uri), "claim_id": one.id, "uri": uri}
        connection.execute(sa.insert(_amounts), {**row, "amount": amount})


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
    locked = holds.lock_as_it_is(connection, _only(real, come))
    for uri in gone:
        connection.execute(
            sa.delete(_blocks).where(
                _blocks.c.podm_key == key,
                _blocks.c.block_key == key_of(uri),
                _blocks.c.claim_id == claim_id,
            )
        )
    holds.hold_blocks(connection, claim_id, _only(real, come), locked)
    change_log.moved(connection, held=[key])


def _only(part: Part, blocks: Counter[str]) -> Part:
    share = replace(part.shares[0], blocks=tuple(blocks.elements()))
    return replace(part, shares=(share,))
