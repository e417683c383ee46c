# SPDX-License-Identifier: Apache-2.0
"""Holds: takes the blocks and amounts of claims under locks, and names conflicting claims.

The members of a group may be on any pod manager. A decision under hard rules reads the generation
of the group before the members; the transaction that adds members compares and advances it. Of two
concurrent claims, the second is decided again. A claim over several zones adds its members zone by
zone; until it is held, this zone refuses other claims of the group.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from valence_sched.errors import ClaimLost
from valence_sched.model.claim import ClaimPart, Grant
from valence_sched.model.inventory import OTHERS, to_a_billionth
from valence_sched.store import tables
from valence_sched.store.tables import key_of, now

_generations, _zone_claims = tables.group_generations, tables.zone_claims
_of_group = _generations.c


def group_generation(connection: sa.Connection, name: str) -> int:
    """Return the generation of a group, 0 before its first claimed node."""
    query = sa.select(_of_group.generation).where(_of_group.group_key == key_of(name))
    return connection.scalar(query) or 0


def lock_group(
    connection: sa.Connection, name: str, expected: int | None, claim: str | None
) -> None:
    """Lock the row of a group, before the row of any pod manager is locked.

    ``expected`` is the generation of the decision, None for a claim without hard rules. ``claim``
    is the id of the zone claim that contains this part, if any.

    Raises:
        ClaimLost: members were added since the decision, or another zone claim is adding members.
    """
    query = sa.select(_of_group.generation).where(_of_group.group_key == key_of(name))
    current: int | None = connection.scalar(query.with_for_update())
    if current is None:  # if another transaction inserts it first, this one runs again
        row = {"group_key": key_of(name), "generation": 0, "moved_at": now()}
        connection.execute(sa.insert(_generations).values(row))
    of, problem = _zone_claims.c, ""
    other = (of.group_name == name, of.state == "PREPARED", of.expires_at > now())
    pending = sa.select(of.id).where(*other, of.id != (claim or "")).limit(1)
    if expected is not None and (current or 0) != expected:
        problem = "another node of the group was claimed since the decision"
    elif connection.scalar(pending) is not None:
        problem = "another claim of the group is being prepared over several zones"
    if problem:
        raise ClaimLost(f"group {name!r}: {problem}", group=name)


def advance_group(connection: sa.Connection, name: str) -> None:
    """Advance the generation of a locked group after members were added or removed."""
    update = sa.update(_generations).where(_of_group.group_key == key_of(name))
    connection.execute(update.values(generation=_of_group.generation + 1, moved_at=now()))


_blocks, _amounts = tables.claimed_blocks, tables.claimed_amounts
SLACK = 1e-6  # tolerance for sums of amounts, which are floats
_KEY = sa.bindparam("key", type_=sa.String)
_WANTED = sa.bindparam("wanted", type_=sa.String, expanding=True)
_INSERT_BLOCKS, _INSERT_AMOUNTS = sa.insert(_blocks), sa.insert(_amounts)


class ExpiredConflict(Exception):
    """An expired claim conflicts: end it, then try again."""


class ConflictingClaim(NamedTuple):
    """A claim that conflicts with another claim."""

    id: str
    owner: str | None
    expired: bool

    def __str__(self) -> str:
        if not self.id:
            return f"a claim of {OTHERS}"
        return f"claim {self.id}" + (f" of {self.owner}" if self.owner else "")


def _conflicting_claims(
    connection: sa.Connection, claim_id: str, ids: list[str] | sa.Select[tuple[str]]
) -> list[ConflictingClaim]:
    """Return the claims with these ids, the latest first; ExpiredConflict if one has expired.

    Claims of other owners are anonymous.
    """
    of = tables.claims.c
    expired = sa.func.coalesce(of.sweep_at <= now(), sa.false())
    query = sa.select(of.id, of.owner, expired).where(of.id.in_(ids))
    rows = connection.execute(query.order_by(of.created_at.desc()))
    claims = [ConflictingClaim(*row) for row in rows]
    if any(claim.expired for claim in claims):
        raise ExpiredConflict
    owner = connection.scalar(sa.select(of.owner).where(of.id == claim_id))
    if owner is None:
        return claims
    return [one if one.owner == owner else ConflictingClaim("", None, False) for one in claims]


def _wanted(table: sa.Table, key: sa.Column[str], *columns: Any) -> sa.Select[Any]:
    return sa.select(key, *columns).where(table.c.podm_key == _KEY, key.in_(_WANTED))


_of_podm, _shares, _stocks = tables.podms.c, tables.shares, tables.stocks
_no_claim = sa.literal(None, sa.String(40)).label("claim_id")
_slots = sa.union_all(
    _wanted(_blocks, _blocks.c.block_key, _blocks.c.slot, _blocks.c.claim_id),
    _wanted(_shares, _shares.c.block_key, _shares.c.slots, _no_claim),
).subquery("slots")
_LOCK = (
    sa.select(_of_podm.generation, _of_podm.gone, now(), *_slots.c)
    .select_from(tables.podms.outerjoin(_slots, sa.true()))
    .where(_of_podm.podm_key == _KEY)
    .with_for_update(of=tables.podms)
)
_held = _wanted(_amounts, _amounts.c.stock_key, sa.func.sum(_amounts.c.amount), sa.literal(0))
_STOCKS = sa.union_all(
    _wanted(_stocks, _stocks.c.stock_key, _stocks.c.left_over, sa.literal(1)),
    _held.where(_amounts.c.amount > 0).group_by(_amounts.c.stock_key),
)


class LockedPodm(NamedTuple):
    """A locked pod manager: the time, and the claim of each held slot of the wanted blocks."""

    at: float
    slot_claims: dict[str, dict[int, str]]
    slots: dict[str, int]


def lock(connection: sa.Connection, part: ClaimPart, *, any_generation: bool = False) -> LockedPodm:
    """Lock a pod manager; ClaimLost if it is gone or, without ``any_generation``, changed.

    The lock serialises the claims of one pod manager. A transaction that waited for the lock may
    not see the rows of the previous transaction. The primary key of the blocks then refuses its
    rows, and the transaction runs again.
    """
    wanted = sorted({key_of(uri) for uri in part.blocks})
    rows = connection.execute(_LOCK, {"key": key_of(part.podm), "wanted": wanted}).all()
    generation, gone, at = rows[0][:3] if rows else (0, True, 0.0)
    if gone and not any_generation:
        raise ClaimLost(f"pod manager {part.podm!r} is no longer registered", part.podm)
    if generation != part.generation and not any_generation:
        moved = f"moved from generation {part.generation} to {generation}"
        raise ClaimLost(f"pod manager {part.podm!r} {moved} since the decision", part.podm)
    locked = LockedPodm(at, {}, {})
    for *_, block, number, claim in rows:
        if claim is not None:
            locked.slot_claims.setdefault(block, {})[number] = claim
        elif block is not None:
            locked.slots[block] = number
    return locked


def hold(connection: sa.Connection, claim_id: str, part: ClaimPart, locked: LockedPodm) -> None:
    """Hold a part for an inserted claim; ClaimLost or ExpiredConflict if another claim holds it."""
    hold_blocks(connection, claim_id, part, locked)
    _hold_amounts(connection, claim_id, part)
    tables.add_claim_part(connection, key_of(part.podm), claim_id)


def drop(connection: sa.Connection, claim_id: str, key: str) -> bool:
    """Delete the holds of a claim on a locked pod manager; return whether any existed."""
    for table in (_blocks, _amounts, tables.claim_parts):
        of_claim = table.c.claim_id == claim_id, table.c.podm_key == key
        deleted = connection.execute(sa.delete(table).where(*of_claim))
    return bool(deleted.rowcount)  # the last statement deletes the part


def hold_blocks(connection: sa.Connection, id_: str, part: ClaimPart, locked: LockedPodm) -> None:
    """Hold the blocks of a part on a locked pod manager; errors as for :func:`hold`."""
    key, rows = key_of(part.podm), []
    wanted = sorted((key_of(uri), uri, nodes) for uri, nodes in part.blocks.items())
    for block, uri, nodes in wanted:
        slot_claims = locked.slot_claims.get(block, {})
        free = [slot for slot in range(locked.slots.get(block, 1)) if slot not in slot_claims]
        if len(free) < nodes:
            conflicts = _conflicting_claims(connection, id_, [*slot_claims.values()])
            why = f"is held by {conflicts[0]}" if conflicts else "cannot be part of another node"
            text = f"block {uri} of pod manager {part.podm!r} {why}"
            raise ClaimLost(text, part.podm, conflicts[0].id if conflicts else "")
        row = {"podm_key": key, "block_key": block, "claim_id": id_, "uri": uri}
        rows += [{**row, "slot": slot} for slot in free[:nodes]]
    if rows:
        connection.execute(_INSERT_BLOCKS, rows)


def _hold_amounts(connection: sa.Connection, claim_id: str, part: ClaimPart) -> None:
    key = key_of(part.podm)
    wanted = {key_of(uri): (uri, amount) for uri, amount in part.amounts.items() if amount}
    if not wanted:
        return
    total = {key_of(declared.uri): declared.amount for declared in part.declared_stocks}
    held: dict[str, float] = {}
    values = {"key": key, "wanted": sorted(wanted)}
    for stock, amount, is_total in connection.execute(_STOCKS, values):
        (total if is_total else held)[stock] = amount
    rows: list[dict[str, Any]] = []
    for stock, (uri, amount) in sorted(wanted.items()):
        left = total.get(stock, 0.0) - held.get(stock, 0.0)
        if amount > left + SLACK:
            of_stock = _amounts.c.podm_key == key, _amounts.c.stock_key == stock
            holders = sa.select(_amounts.c.claim_id).where(*of_stock)
            conflicts = _conflicting_claims(connection, claim_id, holders)
            text = f"stock {uri} of pod manager {part.podm!r} has {max(left, 0.0):g} free"
            latest = f" (latest claim: {conflicts[0]})" if conflicts else ""
            text = f"{text}, but the decision needs {amount:g}{latest}"
            raise ClaimLost(text, part.podm, conflicts[0].id if conflicts else "")
        row = {"podm_key": key, "stock_key": stock, "claim_id": claim_id, "uri": uri}
        rows.append({**row, "amount": amount})
    connection.execute(_INSERT_AMOUNTS, rows)


def take_amounts(
    connection: sa.Connection, claim_id: str, podm: str, grants: Sequence[Grant]
) -> dict[str, float]:
    """Drop grants from the amounts that a claim holds; return the dropped amount of each stock."""
    of, taken = _amounts.c, dict[str, float]()
    for one in grants:
        row = of.podm_key == key_of(podm), of.claim_id == claim_id, of.stock_key == key_of(one.uri)
        held = connection.scalar(sa.select(of.amount).where(*row)) or 0.0
        some = min(held, one.amount)
        left = to_a_billionth(held - some)
        taken[one.uri] = to_a_billionth(taken.get(one.uri, 0.0) + some)
        connection.execute(
            sa.update(_amounts).where(*row).values(amount=left)
            if left > 0
            else sa.delete(_amounts).where(*row)
        )
    return taken
