# SPDX-License-Identifier: Apache-2.0
"""Audit of the store: who changed what, and with which outcome, of the latest changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from msgspec.structs import asdict

from valence_sched.model.effect import AUDIT_LINES, AuditLine, AuditQuery
from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import now

TRIM = 100  # lines between two deletions of old ones
_of = tables.audit.c
#: The texts of a line, with the length of each column.
_TEXTS = {one.name: one.type.length for one in _of if isinstance(one.type, sa.String)}


class Audit:
    """The audit lines of a store, the oldest of which are deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, lines: Iterable[AuditLine], most: int = AUDIT_LINES) -> None:
        """Store lines with the time of the database, and keep ``most`` of all, or ``TRIM`` more."""
        rows = [_row(line) for line in lines]

        def work(connection: sa.Connection) -> None:
            for row in rows:
                insert = sa.insert(tables.audit).values(**row, at=now())
                key = connection.execute(insert).inserted_primary_key
                number = int(key[0]) if key else 0
                if number % TRIM == 0:
                    old = _of.number <= number - most
                    connection.execute(sa.delete(tables.audit).where(old))

        self._database.write(work, "recording a change")

    def newest(self, query: AuditQuery) -> Sequence[AuditLine]:
        """Return the newest lines that match a query, after ``skip`` newer ones."""
        chosen = sa.select(tables.audit).order_by(_of.number.desc())
        for name in ("user", "owner", "verb", "object", "outcome"):
            if (wanted := getattr(query, name)) is not None:
                chosen = chosen.where(_of[name] == wanted)
        chosen = chosen.limit(query.limit).offset(query.skip)

        def work(connection: sa.Connection) -> Sequence[AuditLine]:
            return [AuditLine(**row) for row in connection.execute(chosen).mappings()]

        return self._database.read(work, "reading the audit")


def _row(line: AuditLine) -> dict[str, str | None]:
    """Return the texts of a line, each as long as its column at most."""
    found = asdict(line)
    return {name: found[name] and found[name][:length] for name, length in _TEXTS.items()}
