# SPDX-License-Identifier: Apache-2.0
"""The registry: pod managers as operators register them, by name."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from valence_sched.errors import InUse, NameTaken, UnknownName, one_line
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Registration
from valence_sched.store import podms, reported, tables
from valence_sched.store.tables import key_of

_table = tables.registry


def registrations(connection: sa.Connection) -> list[Registration]:
    """Return all registered pod managers by name."""
    rows = connection.scalars(sa.select(_table.c.document))
    found = [msgspec.json.decode(row, type=Registration) for row in rows]
    return sorted(found, key=lambda one: one.name)


def register(connection: sa.Connection, one: Registration) -> None:
    """Register a pod manager under a name that nobody has."""
    stored = connection.scalar(_document(one.name))
    if stored is not None:
        raise NameTaken(one_line(f"a pod manager named {one.name!r} is registered already: "
                                 "change that one, or choose another name"))  # fmt: skip
    row = {"podm_key": key_of(one.name), "name": one.name, "document": to_json(one)}
    try:
        connection.execute(sa.insert(_table), row)
    except sa.exc.IntegrityError:  # somebody was faster by an instant
        raise NameTaken(one_line(f"a pod manager named {one.name!r} was registered by somebody "
                                 "else just now: change that one"))  from None  # fmt: skip


def change(connection: sa.Connection, one: Registration) -> None:
    """Put a pod manager in place of the one that has its name."""
    row = connection.execute(
        sa.update(_table)
        .where(_table.c.podm_key == key_of(one.name))
        .values(document=to_json(one))
    )  # fmt: skip
    if not row.rowcount and connection.scalar(_document(one.name)) is None:
        raise _unknown(connection, one.name)


def unregister(connection: sa.Connection, name: str) -> None:
    """Forget a pod manager and what was read of it, unless something of it is in use here."""
    key = key_of(name)
    if connection.scalar(_document(name).with_for_update()) is None:
        raise _unknown(connection, name)
    read = podms.lock_row(connection, key)  # whoever claims of it locks this row, too
    check_unused(connection, name)
    connection.execute(sa.delete(_table).where(_table.c.podm_key == key))
    if read and not read.gone:
        podms.forget(connection, key)


def forget_report(connection: sa.Connection, name: str) -> None:
    """Forget what a pod manager reported, and one that was never read whole."""
    key = key_of(name)
    row = podms.lock_row(connection, key)
    if row is None or row.gone or row.stats is None:
        raise UnknownName("pod manager that reported", name, reported.reported_stats(connection))
    if not row.reported.alone:
        reported.drop_report(connection, key)
        return
    check_unused(connection, name)
    podms.forget(connection, key)


def check_unused(connection: sa.Connection, name: str) -> None:
    """Refuse with InUse when claims or nodes of a pod manager, whose row is locked, are here."""
    key = key_of(name)
    claims, nodes = tables.claim_parts.c, tables.nodes.c
    held = connection.scalars(
        sa.select(claims.claim_id).where(claims.podm_key == key).order_by(claims.claim_id)
    ).all()
    composed = connection.scalars(sa.select(nodes.id).where(nodes.podm_key == key)).all()
    if held or composed:
        raise _in_use(name, list(held), list(composed))


def _in_use(name: str, claims: list[str], nodes: list[str]) -> InUse:
    parts = []
    if claims:
        parts.append(f"{_count_words(len(claims), 'claim')} ({claims[0]})")
    if nodes:
        parts.append(f"{_count_words(len(nodes), 'node')} ({nodes[0]})")
    return InUse(one_line(f"pod manager {name!r} still has {' and '.join(parts)}: "
                          "release or delete what is there first"))  # fmt: skip


def _count_words(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _document(name: str) -> sa.Select[tuple[bytes]]:
    return sa.select(_table.c.document).where(_table.c.podm_key == key_of(name))


def _unknown(connection: sa.Connection, name: str) -> UnknownName:
    return UnknownName("pod manager", name, connection.scalars(sa.select(_table.c.name)))
