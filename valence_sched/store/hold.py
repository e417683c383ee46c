# SPDX-License-Identifier: Apache-2.0
"""The part of a claim on one pod manager: held if all of it still can be, in one transaction."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import sqlalchemy as sa

from valence_sched.errors import ClaimLost
from valence_sched.model.claim import Part
from valence_sched.store import podms, tables
from valence_sched.store.columns import key_of, now, pairs

_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts
SLACK = 1e-6  # of an amount, for sums of floats


class Sweepable(Exception):
    """What is in the way belongs to a claim whose time is over: sweep, then try again."""


class Winner(NamedTuple):
    """The claim that holds what was chosen."""

    id: str
    owner: str | None
    over: bool

    def __str__(self) -> str:
        return f"claim {self.id}" + (f" of {self.owner}" if self.owner else "")


def hold(connection: sa.Connection, claim_id: str, part: Part) -> None:
    """Hold a part for a claim that is there, if it is still what was decided on.

    Locks the podm's row, so claims of one podm come one after another.

    Raises:
        ClaimLost: the podm moved since, or somebody holds some of it; the message says who.
        Sweepable: only a claim whose time is over is in the way.
    """
    key = key_of(part.podm)
    check_generation(connection, key, part)
    connection.execute(sa.insert(tables.claim_parts), {"podm_key": key, "claim_id": claim_id})
    hold_blocks(connection, claim_id, key, part)
    _hold_amounts(connection, claim_id, key, part)
    podms.moved(connection, key)


def check_generation(connection: sa.Connection, key: str, part: Part) -> None:
    """Lock a podm and refuse when it is not at the generation that was decided on."""
    row = podms.locked(connection, key)
    if row is None or row.gone:
        raise ClaimLost(f"pod manager {part.podm!r} is no longer here", part.podm)
    if row.generation != part.generation:
        raise ClaimLost(
            f"pod manager {part.podm!r} moved from generation {part.generation} to "
            f"{row.generation} since it was decided on", part.podm)  # fmt: skip


def drop(connection: sa.Connection, claim_id: str, key: str) -> bool:
    """Give up what a claim holds of a podm whose row is locked; return whether it held any."""
    for table in (_blocks, _amounts):
        connection.execute(
            sa.delete(table).where(table.c.claim_id == claim_id, table.c.podm_key == key)
        )
    parts = tables.claim_parts
    gone = connection.execute(
        sa.delete(parts).where(parts.c.claim_id == claim_id, parts.c.podm_key == key)
    )
    return bool(gone.rowcount)


def hold_blocks(connection: sa.Connection, claim_id: str, key: str, part: Part) -> None:
    """Hold the blocks of a part on a podm whose row is locked; raises as :func:`hold`."""
    wanted = {key_of(uri): (uri, nodes) for uri, nodes in part.blocks.items()}
    if not wanted:
        return
    taken, slots = _taken(connection, key, sorted(wanted))
    rows = []
    for block, (uri, nodes) in sorted(wanted.items()):
        free = [slot for slot in range(slots.get(block, 1)) if slot not in taken.get(block, {})]
        if len(free) < nodes:
            _lose_block(connection, part.podm, uri, list(taken.get(block, {}).values()))
        rows += [
            {"podm_key": key, "block_key": block, "slot": slot, "claim_id": claim_id, "uri": uri}
            for slot in free[:nodes]
        ]
    connection.execute(sa.insert(_blocks), rows)


def _taken(
    connection: sa.Connection, key: str, blocks: list[str]
) -> tuple[dict[str, dict[int, str]], dict[str, int]]:
    """Return the claims that hold slots of some blocks, and how many slots shareable ones have."""
    shares = tables.shares
    nobody = sa.literal(None, sa.String(40))
    query = sa.union_all(
        sa.select(_blocks.c.block_key, _blocks.c.slot, _blocks.c.claim_id).where(
            _blocks.c.podm_key == key, _blocks.c.block_key.in_(blocks)
        ),
        sa.select(shares.c.block_key, shares.c.slots, nobody).where(
            shares.c.podm_key == key, shares.c.block_key.in_(blocks)
        ),
    )
    taken: dict[str, dict[int, str]] = {}
    slots: dict[str, int] = {}
    for block, number, claim in connection.execute(query):
        if claim is None:
            slots[block] = number
        else:
            taken.setdefault(block, {})[number] = claim
    return taken, slots


def _hold_amounts(connection: sa.Connection, claim_id: str, key: str, part: Part) -> None:
    wanted = {key_of(uri): (uri, amount) for uri, amount in part.amounts.items() if amount}
    if not wanted:
        return
    supply = {key_of(grant.uri): grant.amount for grant in part.supplies}
    of = tables.stocks.c
    known = sa.select(of.stock_key, of.left_over).where(
        of.podm_key == key, of.stock_key.in_(sorted(wanted))
    )
    supply |= pairs(connection.execute(known))
    sums = (
        sa.select(_amounts.c.stock_key, sa.func.sum(_amounts.c.amount))
        .where(_amounts.c.podm_key == key, _amounts.c.stock_key.in_(sorted(wanted)))
        .group_by(_amounts.c.stock_key)
    )
    held = pairs(connection.execute(sums))
    for stock, (uri, amount) in sorted(wanted.items()):
        left = supply.get(stock, 0.0) - held.get(stock, 0.0)
        if amount > left + SLACK:
            _lose_amount(connection, part.podm, (key, stock, uri), amount, left)
    rows = [
        {"podm_key": key, "stock_key": stock, "claim_id": claim_id, "uri": uri, "amount": amount}
        for stock, (uri, amount) in sorted(wanted.items())
    ]
    connection.execute(sa.insert(_amounts), rows)


def _lose_block(connection: sa.Connection, podm: str, uri: str, claims: list[str]) -> NoReturn:
    winners = _winners(connection, tables.claims.c.id.in_(claims))
    what = f"block {uri} of pod manager {podm!r}"
    if not winners:
        raise ClaimLost(f"{what} has no place for another node", podm)
    raise ClaimLost(f"{what} is held by {winners[0]}", podm, winners[0].id)


def _lose_amount(
    connection: sa.Connection, podm: str, keys: tuple[str, str, str], asked: float, left: float
) -> NoReturn:
    key, stock, uri = keys
    holding = sa.select(_amounts.c.claim_id).where(
        _amounts.c.podm_key == key, _amounts.c.stock_key == stock
    )
    winners = _winners(connection, tables.claims.c.id.in_(holding))
    text = f"stock {uri} of pod manager {podm!r} has {max(left, 0.0):g} left, {asked:g} were chosen"
    if not winners:
        raise ClaimLost(text, podm)
    raise ClaimLost(f"{text}: the latest that holds of it is {winners[0]}", podm, winners[0].id)


def _winners(connection: sa.Connection, which: sa.ColumnElement[bool]) -> list[Winner]:
    """Return the claims in the way, the latest first.

    Raises:
        Sweepable: the time of one of them is over.
    """
    of = tables.claims.c
    over = sa.func.coalesce(of.sweep_at <= now(), sa.false())
    rows = connection.execute(
        sa.select(of.id, of.owner, over).where(which).order_by(of.created_at.desc())
    )
    winners = [Winner(*row) for row in rows]
    if any(winner.over for winner in winners):
        raise Sweepable
    return winners
