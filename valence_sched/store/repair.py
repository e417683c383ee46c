# SPDX-License-Identifier: Apache-2.0
"""Repair: takes the rows that cannot be decoded out of a store, once they stand in a file.

A claim that may be on hardware keeps what it holds: an operator releases it when nothing of it is
left there.
"""

from __future__ import annotations

import base64
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from valence_sched.errors import StoreError, one_line
from valence_sched.model.claim import ACTIVE_STATES
from valence_sched.store import change_log, claim_rows, expiry, podms, tables
from valence_sched.store.claim_rows import change_state
from valence_sched.store.database import Database
from valence_sched.store.document import Document
from valence_sched.store.scrub import UndecodableRow

Change = Callable[[sa.Connection, UndecodableRow], object]
NO_PARTS, EMPTY_REPORT = b"[]", b"{}"
NOTE = "its parts could not be decoded: store repair took them out"
#: The schema and the counts that all processes share: no row of these is one of many.
SINGULAR = (tables.version, tables.shards, tables.zone_identity)


class Repair(NamedTuple):
    """A row that cannot be decoded, and what is done about it; ``change`` is None for nothing."""

    row: UndecodableRow
    words: str
    change: Change | None

    def __str__(self) -> str:
        return f"{self.row}: {self.words}"


def repair_of(row: UndecodableRow) -> Repair:
    """Return what a repair does about a row."""
    table, column = row.table, row.table.c[row.column]
    if isinstance(column.type, Document) and (column.nullable or row.column == "report"):
        return Repair(row, f"the {row.column} is cleared", _clear)
    if table is tables.claims and row.column == "document":
        return _repair_of_claim(row)
    if table is tables.nodes:
        words = f"forgotten; claim {row.values['claim_id']} holds its blocks until it is released"
        return Repair(row, words, _delete)
    if table in SINGULAR:
        return Repair(row, "left as it is: restore a backup", None)
    words, change = _CHANGES.get(table.name, ("deleted", _delete))
    return Repair(row, words, change)


def _repair_of_claim(row: UndecodableRow) -> Repair:
    state = row.values["state"]
    if state in ("PREPARED", "HELD"):
        return Repair(row, "ended, and what it holds is freed", _end_claim)
    if state in ACTIVE_STATES:
        words = "its parts are cleared; it holds its blocks until it is released"
        return Repair(row, words, _keep_claim)
    return Repair(row, "its parts are cleared: it has ended", _clear_claim)


def repair(database: Database, repairs: Sequence[Repair], file: Path) -> None:
    """Write the rows in a file that is not there yet, as JSON Lines, and then repair each.

    One that is another by now is left as it is.
    """
    _write_rows(file, [one.row for one in repairs])
    for one in repairs:
        if one.change is not None:
            work = functools.partial(_repair, row=one.row, change=one.change)
            if database.write(work, "repairing") and one.row.table is tables.claims:
                expiry.free_claim(database, one.row.values["id"])


def _repair(connection: sa.Connection, row: UndecodableRow, change: Change) -> bool:
    column = sa.type_coerce(row.table.c[row.column], sa.types.NULLTYPE)
    present = connection.execute(sa.select(column).where(row.key).with_for_update()).first()
    if present is None or present[0] != row.values[row.column]:
        return False
    change(connection, row)
    return True


def _clear(connection: sa.Connection, row: UndecodableRow) -> None:
    empty = None if row.table.c[row.column].nullable else EMPTY_REPORT
    connection.execute(sa.update(row.table).where(row.key).values({row.column: empty}))
    if row.table is tables.zones:
        change_log.log_zone_change(connection)
    if row.table is tables.podms:
        change_log.log_changes(connection, [row.values["podm_key"]])


def _delete(connection: sa.Connection, row: UndecodableRow) -> None:
    connection.execute(sa.delete(row.table).where(row.key))
    if row.table in (tables.claimed_blocks, tables.claimed_amounts, tables.claim_parts):
        change_log.log_changes(connection, [row.values["podm_key"]])


def _forget_podm(connection: sa.Connection, row: UndecodableRow) -> None:
    podms.lock_row(connection, row.values["podm_key"])
    podms.forget(connection, row.values["podm_key"])


def _unregister(connection: sa.Connection, row: UndecodableRow) -> None:
    _delete(connection, row)
    change_log.log_registry_change(connection)


def _delete_zone(connection: sa.Connection, row: UndecodableRow) -> None:
    _delete(connection, row)
    change_log.log_zone_change(connection)


def _end_zone_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    values = {"document": NO_PARTS, "state": "FAILED", "consumer_key": None, "note": NOTE}
    connection.execute(sa.update(row.table).where(row.key).values(values))


def _end_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    claim_rows.end(connection, row.values["id"], ("PREPARED", "HELD"), "FAILED", NOTE)
    _clear_claim(connection, row)


def _keep_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    never = {"expires_at": None, "sweep_at": None}
    change_state(connection, row.values["id"], ["COMPOSING"], "COMPOSED", **never)
    _clear_claim(connection, row)


def _clear_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    values = {"document": NO_PARTS, "note": row.values["note"] or NOTE}
    connection.execute(sa.update(row.table).where(row.key).values(values))


def _delete_claim(connection: sa.Connection, row: UndecodableRow) -> None:
    held = (tables.claimed_blocks, tables.claimed_amounts, tables.claim_parts)
    of_claim = tables.claim_parts.c.claim_id == row.values["id"]
    keys = connection.scalars(sa.select(tables.claim_parts.c.podm_key).where(of_claim)).all()
    for table in (*held, tables.quota_charges):
        connection.execute(sa.delete(table).where(table.c.claim_id == row.values["id"]))
    _delete(connection, row)
    change_log.log_changes(connection, keys)


_CHANGES: Mapping[str, tuple[str, Change]] = {
    "podms": ("forgotten until it is read again", _forget_podm),
    "registry": ("unregistered: podm create registers it again", _unregister),
    "zones": ("no child any more: scheduler zone add adds it again", _delete_zone),
    "zone_claims": ("ended; the zones end their parts by their time", _end_zone_claim),
    "claims": ("deleted with what it holds", _delete_claim),
}


def _write_rows(file: Path, rows: Sequence[UndecodableRow]) -> None:
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            for row in rows:
                values = {name: _plain(value) for name, value in row.values.items()}
                line = {"table": str(row.table.name), "column": row.column,
                        "problem": row.problem, "row": values}  # fmt: skip
                stream.write(msgspec.json.encode(line) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StoreError(one_line(f"{file}: {reason}: name another file")) from None


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes that are no text in base 64."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
