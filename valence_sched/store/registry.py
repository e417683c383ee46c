# SPDX-License-Identifier: Apache-2.0
"""Registrations: the registered pod managers, by name."""

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
    registered = [msgspec.json.decode(row, type=Registration) for row in rows]
    return sorted(registered, key=lambda registration: registration.name)


def register(connection: sa.Connection, registration: Registration) -> None:
    """Register a pod manager under a name that is free."""
    name = registration.name
    if connection.scalar(_document(name)) is not None:
        raise NameTaken(one_line(f"a pod manager named {name!r} is registered already: "
                                 "change that one, or choose another name"))  # fmt: skip
    row = {"podm_key": key_of(name), "name": name, "document": to_json(registration)}
    try:
        connection.execute(sa.insert(_table), row)
    except sa.exc.IntegrityError:  # another process was faster by an instant
        raise NameTaken(one_line(f"a pod manager named {name!r} was registered by somebody "
                                 "else just now: change that one")) from None  # fmt: skip


def change(connection: sa.Connection, registration: Registration) -> None:
    """Replace the registered pod manager of the same name."""
    result = connection.execute(
        sa.update(_table)
        .where(_table.c.podm_key == key_of(registration.name))
        .values(document=to_json(registration))
    )  # fmt: skip
    if not result.rowcount and connection.scalar(_document(registration.name)) is None:
        raise _unknown(connection, registration.name)


def unregister(connection: sa.Connection, name: str) -> None:
    """Remove a registration and what was read of its pod manager, unless that is in use."""
    key = key_of(name)
    if connection.scalar(_document(name).with_for_update()) is None:
        raise _unknown(connection, name)
    row = podms.lock_row(connection, key)  # a claim locks this row, too
    check_unused(connection, name)
    connection.execute(sa.delete(_table).where(_table.c.podm_key == key))
    if row and not row.gone:
        podms.forget(connection, key)


def forget_report(connection: sa.Connection, name: str) -> None:
    """Remove what a pod manager reported; one that was never read is removed as a whole."""
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
    """Raise InUse if the store has claims or nodes of a pod manager, whose row is locked."""
    key = key_of(name)
    claims, nodes = tables.claim_parts.c, tables.nodes.c
    claim_ids = connection.scalars(
        sa.select(claims.claim_id).where(claims.podm_key == key).order_by(claims.claim_id)
    ).all()
    node_ids = connection.scalars(sa.select(nodes.id).where(nodes.podm_key == key)).all()
    if claim_ids or node_ids:
        raise _in_use(name, list(claim_ids), list(node_ids))


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
