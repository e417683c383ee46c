# SPDX-License-Identifier: Apache-2.0
"""A held claim of several nodes as claims of one node each, holding the same between them.

Nothing is let go meanwhile: every row only changes hands, in one transaction.
"""

from __future__ import annotations

import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import Claim, Part, Share
from valence_sched.store import claim_rows, moves, tables
from valence_sched.store.columns import key_of, now

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
    moves.moved(connection, held={key_of(part.podm) for part in claim.parts})
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
    moves.taken(connection, key, one.id)
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
