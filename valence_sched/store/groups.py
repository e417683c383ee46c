# SPDX-License-Identifier: Apache-2.0
"""Group generations: what lets two claims of one group, decided at the same time, not both be held.

The members of a group may be on any pod manager, so the generation of a pod manager says nothing
of them. A decision under hard rules reads the generation of the group before the members. The
transaction that adds members locks the row of the group, compares, and advances it: of two at the
same time the second one is decided anew. A claim over several zones adds its members zone by zone;
while it is prepared, no other claim of the group is written here.
"""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.errors import ClaimLost, one_line
from valence_sched.store import tables
from valence_sched.store.tables import key_of, now, statement_time

_table, _zone_claims = tables.group_generations, tables.zone_claims
_of = _table.c


def generation(connection: sa.Connection, name: str) -> int:
    """Return the generation of a group, 0 for one of which no node was ever claimed."""
    query = sa.select(_of.generation).where(_of.group_key == key_of(name))
    return connection.scalar(query) or 0


def lock(connection: sa.Connection, name: str, expected: int | None, claim: str | None) -> None:
    """Lock the row of a group, before that of any pod manager.

    ``expected`` is the generation that was decided on, None for a claim without hard rules.
    ``claim`` is the id of the zone claim that this is a part of, if any.

    Raises:
        ClaimLost: members were added since the decision, or another zone claim is adding some.
    """
    query = sa.select(_of.generation).where(_of.group_key == key_of(name))
    current: int | None = connection.scalar(query.with_for_update())
    if current is None:  # another transaction may insert it first: then this one is run again
        row = {"group_key": key_of(name), "generation": 0, "moved_at": now()}
        connection.execute(sa.insert(_table).values(row))
    if expected is not None and (current or 0) != expected:
        text = f"group {name!r}: another node of it was claimed since the decision"
        raise ClaimLost(one_line(text), group=name)
    of = _zone_claims.c
    other = (of.group_name == name, of.state == "PREPARED", of.expires_at > now())
    pending = sa.select(of.id).where(*other, of.id != (claim or ""))
    if connection.scalar(pending.limit(1)) is not None:
        text = f"group {name!r}: another claim of it is being prepared over several zones"
        raise ClaimLost(one_line(text), group=name)


def advance(connection: sa.Connection, name: str) -> None:
    """Move the generation of a locked group, of which members were added or given up."""
    update = sa.update(_table).where(_of.group_key == key_of(name))
    connection.execute(update.values(generation=_of.generation + 1, moved_at=now()))


def purge(connection: sa.Connection, older_than_s: float) -> None:
    """Delete the rows of groups that did not move for longer than any decision takes."""
    old = _of.moved_at < statement_time() - older_than_s
    connection.execute(sa.delete(_table).where(old))
