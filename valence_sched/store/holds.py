# SPDX-License-Identifier: Apache-2.0
"""The part of a claim on one pod manager: held if all of it still can be, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import sqlalchemy as sa

from valence_sched.errors import ClaimLost
from valence_sched.model.claim import ClaimPart
from valence_sched.store import change_log, tables
from valence_sched.store.tables import key_of, now

_claimed_amounts = tables.claimed_amounts


class ExpiredConflict(Exception):
    """What is in the way belongs to a claim whose time is over: sweep, then try again."""


class ConflictingClaim(NamedTuple):
    """The claim that holds what was chosen."""

    id: str
    owner: str | None
    expired: bool

    def __str__(self) -> str:
        return f"claim {self.id}" + (f" of {self.owner}" if self.owner else "")


def raise_block_conflict(
    connection: sa.Connection, podm: str, uri: str, claims: list[str]
) -> NoReturn:
    """Raise ClaimLost for a block that some claims hold; Sweepable, where one's time is over."""
    winners = _conflicting_claims(connection, tables.claims.c.id.in_(claims))
    what = f"block {uri} of pod manager {podm!r}"
    if not winners:
        raise ClaimLost(f"{what} has no place for another node", podm)
    raise ClaimLost(f"{what} is held by {winners[0]}", podm, winners[0].id)


def raise_amount_conflict(
    connection: sa.Connection, podm: str, keys: tuple[str, str, str], requested: float, left: float
) -> NoReturn:
    """Raise ClaimLost for an amount beyond what is left; Sweepable as of a block."""
    key, stock, uri = keys
    holding = sa.select(_claimed_amounts.c.claim_id).where(
        _claimed_amounts.c.podm_key == key, _claimed_amounts.c.stock_key == stock
    )
    winners = _conflicting_claims(connection, tables.claims.c.id.in_(holding))
    text = (
        f"stock {uri} of pod manager {podm!r} has {max(left, 0.0):g} left, "
        f"{requested:g} were chosen"
    )
    if not winners:
        raise ClaimLost(text, podm)
    raise ClaimLost(f"{text}: the latest that holds of it is {winners[0]}", podm, winners[0].id)


def _conflicting_claims(
    connection: sa.Connection, which: sa.ColumnElement[bool]
) -> list[ConflictingClaim]:
    """Return the claims in the way, the latest first.

    Raises:
        Sweepable: the time of one of them is over.
    """
    of = tables.claims.c
    over = sa.func.coalesce(of.sweep_at <= now(), sa.false())
    rows = connection.execute(
        sa.select(of.id, of.owner, over).where(which).order_by(of.created_at.desc())
    )
    winners = [ConflictingClaim(*row) for row in rows]
    if any(winner.expired for winner in winners):
        raise ExpiredConflict
    return winners


_blocks, _claimed_amounts = tables.claimed_blocks, tables.claimed_amounts
SLACK = 1e-6  # of an amount, for sums of floats
_KEY = sa.bindparam("key", type_=sa.String)
_WANTED = sa.bindparam("wanted", type_=sa.String, expanding=True)
_INSERT_BLOCKS, _INSERT_AMOUNTS = sa.insert(_blocks), sa.insert(_claimed_amounts)


def _slot_query() -> sa.Subquery:
    """Who holds places of some blocks of a podm, and how many places shareable ones have."""
    shares = tables.shares.c
    nobody = sa.literal(None, sa.String(40)).label("claim_id")
    held = sa.select(_blocks.c.block_key, _blocks.c.slot, _blocks.c.claim_id)
    room = sa.select(shares.block_key, shares.slots, nobody)
    return sa.union_all(
        held.where(_blocks.c.podm_key == _KEY, _blocks.c.block_key.in_(_WANTED)),
        room.where(shares.podm_key == _KEY, shares.block_key.in_(_WANTED)),
    ).subquery("places")


def _lock_query() -> sa.Select[Any]:
    of, places = tables.podms, _slot_query()
    return (
        sa.select(of.c.generation, of.c.gone, now(), *places.c)
        .select_from(of.outerjoin(places, sa.true()))
        .where(of.c.podm_key == _KEY)
        .with_for_update(of=of)
    )


def _stock_query() -> sa.CompoundSelect[Any]:
    """What there is of some stocks of a podm, and what is held of them."""
    of = tables.stocks.c
    known = sa.select(of.stock_key, of.left_over, sa.literal(1))
    sums = sa.select(
        _claimed_amounts.c.stock_key, sa.func.sum(_claimed_amounts.c.amount), sa.literal(0)
    )
    return sa.union_all(
        known.where(of.podm_key == _KEY, of.stock_key.in_(_WANTED)),
        sums.where(
            _claimed_amounts.c.podm_key == _KEY, _claimed_amounts.c.stock_key.in_(_WANTED)
        ).group_by(_claimed_amounts.c.stock_key),
    )


_LOCK, _STOCKS = _lock_query(), _stock_query()


class LockedPodm(NamedTuple):
    """A podm that is locked: the time, and of blocks that are wanted who has which place."""

    at: float
    slot_claims: dict[str, dict[int, str]]
    slots: dict[str, int]


def lock(connection: sa.Connection, part: ClaimPart) -> LockedPodm:
    """Lock a podm if it still is at the generation that was decided on.

    Claims of one podm come one after another from here on. Who had to wait for the lock may not
    see what was taken meanwhile: the key of the blocks does, and the transaction is run again.

    Raises:
        ClaimLost: it moved since.
    """
    rows = _rows(connection, part)
    if not rows or rows[0][1]:
        raise ClaimLost(f"pod manager {part.podm!r} is no longer here", part.podm)
    generation = rows[0][0]
    if generation != part.generation:
        raise ClaimLost(
            f"pod manager {part.podm!r} moved from generation {part.generation} to "
            f"{generation} since it was decided on", part.podm)  # fmt: skip
    return _locked_podm(rows)


def lock_any_generation(connection: sa.Connection, part: ClaimPart) -> LockedPodm:
    """Lock a podm at whatever generation it is by now, or is gone."""
    return _locked_podm(_rows(connection, part))


def _rows(connection: sa.Connection, part: ClaimPart) -> Sequence[Any]:
    wanted = sorted({key_of(uri) for uri in part.blocks})
    return connection.execute(_LOCK, {"key": key_of(part.podm), "wanted": wanted}).all()


def _locked_podm(rows: Sequence[Any]) -> LockedPodm:
    found = LockedPodm(rows[0][2] if rows else 0.0, {}, {})
    for *_, block, number, claim in rows:
        if claim is not None:
            found.slot_claims.setdefault(block, {})[number] = claim
        elif block is not None:
            found.slots[block] = number
    return found


def hold(connection: sa.Connection, claim_id: str, part: ClaimPart, locked: LockedPodm) -> None:
    """Hold a part for a claim that is there, if all of it is free.

    Raises:
        ClaimLost: somebody holds some of it; the message says who.
        Sweepable: only a claim whose time is over is in the way.
    """
    key = key_of(part.podm)
    hold_blocks(connection, claim_id, part, locked)
    _hold_amounts(connection, claim_id, key, part)
    change_log.add_claim_part(connection, key, claim_id)


def drop(connection: sa.Connection, claim_id: str, key: str) -> bool:
    """Give up what a claim holds of a podm whose row is locked; return whether it held any."""
    for table in (_blocks, _claimed_amounts):
        connection.execute(
            sa.delete(table).where(table.c.claim_id == claim_id, table.c.podm_key == key)
        )
    parts = tables.claim_parts
    gone = connection.execute(
        sa.delete(parts).where(parts.c.claim_id == claim_id, parts.c.podm_key == key)
    )
    return bool(gone.rowcount)


def hold_blocks(
    connection: sa.Connection, claim_id: str, part: ClaimPart, locked: LockedPodm
) -> None:
    """Hold the blocks of a part on a podm that is locked; raises as :func:`hold`."""
    key, rows = key_of(part.podm), []
    for block, uri, nodes in sorted(
        (key_of(uri), uri, nodes) for uri, nodes in part.blocks.items()
    ):
        taken = locked.slot_claims.get(block, {})
        free = [slot for slot in range(locked.slots.get(block, 1)) if slot not in taken]
        if len(free) < nodes:
            raise_block_conflict(connection, part.podm, uri, list(taken.values()))
        rows += [
            {"podm_key": key, "block_key": block, "slot": slot, "claim_id": claim_id, "uri": uri}
            for slot in free[:nodes]
        ]
    if rows:
        connection.execute(_INSERT_BLOCKS, rows)


def _hold_amounts(connection: sa.Connection, claim_id: str, key: str, part: ClaimPart) -> None:
    wanted = {key_of(uri): (uri, amount) for uri, amount in part.amounts.items() if amount}
    if not wanted:
        return
    supply = {key_of(grant.uri): grant.amount for grant in part.supplies}
    held: dict[str, float] = {}
    for stock, number, known in connection.execute(_STOCKS, {"key": key, "wanted": sorted(wanted)}):
        (supply if known else held)[stock] = number
    for stock, (uri, amount) in sorted(wanted.items()):
        left = supply.get(stock, 0.0) - held.get(stock, 0.0)
        if amount > left + SLACK:
            raise_amount_conflict(connection, part.podm, (key, stock, uri), amount, left)
    rows = [
        {"podm_key": key, "stock_key": stock, "claim_id": claim_id, "uri": uri, "amount": amount}
        for stock, (uri, amount) in sorted(wanted.items())
    ]
    connection.execute(_INSERT_AMOUNTS, rows)
