# SPDX-License-Identifier: Apache-2.0
"""Who was faster: the claims that hold what a later one wanted, named in its error."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import sqlalchemy as sa

from valence_sched.errors import ClaimLost
from valence_sched.store import tables
from valence_sched.store.columns import now

_amounts = tables.claimed_amounts


class Sweepable(Exception):
    """What is in the way belongs to a claim whose time is over: sweep, then try again."""


class Winner(NamedTuple):
    """The claim that holds what was chosen."""

    id: str
    owner: str | None
    over: bool

    def __str__(self) -> str:
        return f"claim {self.id}" + (f" of {self.owner}" if self.owner else "")


def lose_block(connection: sa.Connection, podm: str, uri: str, claims: list[str]) -> NoReturn:
    """Raise ClaimLost for a block that some claims hold; Sweepable, where one's time is over."""
    winners = _winners(connection, tables.claims.c.id.in_(claims))
    what = f"block {uri} of pod manager {podm!r}"
    if not winners:
        raise ClaimLost(f"{what} has no place for another node", podm)
    raise ClaimLost(f"{what} is held by {winners[0]}", podm, winners[0].id)


def lose_amount(
    connection: sa.Connection, podm: str, keys: tuple[str, str, str], asked: float, left: float
) -> NoReturn:
    """Raise ClaimLost for an amount beyond what is left; Sweepable as of a block."""
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
