# SPDX-License-Identifier: Apache-2.0
"""Leases: a job that one process at a time does, for as long as that process renews its lease.

Time is the database's. A holder that dies does not renew: its lease ends, and another takes it.
"""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import now

_leases = tables.leases


class Leases:
    """The leases of a store, each by its name; StoreError where the store cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, name: str, holder: str, ttl_s: float) -> bool:
        """Take a lease that is free or the holder's own, for ``ttl_s`` from now.

        Returns whether the holder has it now.
        """

        def work(connection: sa.Connection) -> bool:
            of, end = _leases.c, now() + ttl_s
            free = sa.or_(of.holder == holder, of.expires_at <= now())
            update = sa.update(_leases).where(of.name == name, free)
            values = update.values(holder=holder, expires_at=end)
            if connection.execute(values).rowcount:
                return True
            known = sa.select(of.holder).where(of.name == name)
            if connection.scalar(known) is None:
                # where another process inserts it first, this runs again and finds that
                row = {"name": name, "holder": holder, "expires_at": end}
                connection.execute(sa.insert(_leases).values(row))
            return connection.scalar(known) == holder

        return self._database.write(work, "taking a lease")

    def renew(self, name: str, holder: str, ttl_s: float) -> bool:
        """Let a lease end ``ttl_s`` from now; return False where the holder has lost it."""

        def work(connection: sa.Connection) -> bool:
            of = _leases.c
            mine = sa.and_(of.name == name, of.holder == holder, of.expires_at > now())
            update = sa.update(_leases).where(mine).values(expires_at=now() + ttl_s)
            return bool(connection.execute(update).rowcount)

        return self._database.write(work, "renewing a lease")

    def give_up(self, name: str, holder: str) -> None:
        """Free a lease at once, if the holder has it."""

        def work(connection: sa.Connection) -> None:
            of = _leases.c
            mine = sa.and_(of.name == name, of.holder == holder)
            connection.execute(sa.update(_leases).where(mine).values(expires_at=0.0))

        self._database.write(work, "giving up a lease")

    def holder(self, name: str) -> str | None:
        """Return the holder of a lease, None while nobody holds it."""
        of = _leases.c
        query = sa.select(of.holder).where(of.name == name, of.expires_at > now())
        return self._database.read(lambda c: c.scalar(query), "reading leases")
