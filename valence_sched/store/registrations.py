# SPDX-License-Identifier: Apache-2.0
"""Registrations of pod managers in the store."""

from typing import Any

import msgspec
import sqlalchemy as sa

from valence_sched.errors import NameTaken, UnknownName
from valence_sched.model.registration import Registration, alters_reading, reregistered
from valence_sched.model.stats import apply_stats
from valence_sched.store import identities, podms, tables
from valence_sched.store.document import decoded, readable
from valence_sched.store.tables import key_of

_table = tables.registry
_decode = msgspec.json.Decoder(Registration).decode


def registrations(connection: sa.Connection) -> list[Registration]:
    rows = connection.execute(sa.select(_table.c.name, _table.c.document))
    registered = readable(connection, _table, rows, lambda _name, text: _decode(text))
    return sorted(registered, key=lambda registration: registration.name)


def register(connection: sa.Connection, registration: Registration) -> None:
    """Register a pod manager; NameTaken or IdentityConflict if the name or the service exists."""
    name = registration.name
    if connection.scalar(_document(name)) is not None:
        hint = "change its registration, or choose another name"
        raise NameTaken(f"a pod manager named {name!r} is already registered: {hint}")
    identities.check_free(connection, registration)
    tables.advance_shard(connection, tables.REGISTRY_SHARD)
    row = {"podm_key": key_of(name), "name": name, **identities.registration_columns(registration)}
    try:
        connection.execute(sa.insert(_table), row)
    except sa.exc.IntegrityError:  # another process registered it first
        known = f"pod manager {name!r} or its service is already registered"
        raise NameTaken(f"{known}: change that registration") from None


def change(connection: sa.Connection, registration: Registration) -> None:
    """Replace the registration of the same name; UnknownName, or errors as for :func:`register`.

    A missing identity is set by the next reading. Unset properties and changed maxima of blocks
    also apply to the stored reading.
    """
    name, key = registration.name, key_of(registration.name)
    tables.advance_shard(connection, tables.REGISTRY_SHARD)
    known: Any = connection.scalar(_document(name).with_for_update())
    if known is None:
        raise _unknown(connection, name)
    identities.check_free(connection, registration)
    update = sa.update(_table).where(_table.c.podm_key == key)
    connection.execute(update.values(**identities.registration_columns(registration)))
    old = decoded(connection, _table.c.document, name, known)
    if old and alters_reading(old, registration):
        row, stored = podms.lock_and_load(connection, name)
        if row is not None and not row.gone and stored is not None:
            podm = apply_stats(reregistered(stored, old, registration), row.reported.stats)
            new = podms.PodmUpdate(key, podms.EncodedPodm(podm), row, row.stats, is_read=False)
            if new.content_changed:
                podms.write(connection, [new])
    if registration.identity is None:
        identities.forget_read(connection, name)


def unregister(connection: sa.Connection, name: str) -> None:
    """Remove a registration and the reading; UnknownName, or InUse if it has claims or nodes.

    A pod manager from a file or a catalogue has a reading without a registration.
    """
    key = key_of(name)
    is_registered = connection.scalar(_document(name).with_for_update()) is not None
    row = podms.lock_row(connection, key)  # claims lock this row as well
    if not is_registered and (row is None or row.gone or row.reported.alone):
        raise _unknown(connection, name)
    podms.check_unused(connection, name)
    connection.execute(sa.delete(_table).where(_table.c.podm_key == key))
    if row and not row.gone:
        podms.forget(connection, key)
    tables.advance_shard(connection, tables.REGISTRY_SHARD)


def _document(name: str) -> sa.Select[tuple[bytes]]:
    return sa.select(_table.c.document).where(_table.c.podm_key == key_of(name))


def _unknown(connection: sa.Connection, name: str) -> UnknownName:
    return UnknownName("pod manager", name, connection.scalars(sa.select(_table.c.name)))
