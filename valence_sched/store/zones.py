# SPDX-License-Identifier: Apache-2.0
"""Zones of the store: the zones directly below this one, and what is known by polling them."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from valence_sched.errors import NameTaken, UnknownName, one_line
from valence_sched.model.inventory import to_json
from valence_sched.model.zone_registry import ZoneOverview, ZoneRegistration, ZoneReport
from valence_sched.store import change_log, tables, zone_claims
from valence_sched.store.database import Database
from valence_sched.store.quarantine import decoded, readable
from valence_sched.store.tables import digest_of, key_of, now

_table, _identity = tables.zones, tables.zone_identity


class PolledZone(NamedTuple):
    """A child zone as it was when it was polled, and what is known of it since."""

    zone: ZoneOverview
    report: ZoneReport


class Zones:
    """The child zones of a store, by name; each name is one that this zone gave."""

    def __init__(self, database: Database) -> None:
        self._read, self._write, self._read_row = database.read, database.write, database.read_row

    def changes(self) -> int:
        """Return how often the child zones changed, which costs a fraction of their list.

        A poll after which nothing but its time is new does not count.
        """
        return int(self._read_row(_changes_text, "looking")[0])

    def list(self) -> Sequence[ZoneOverview]:
        """Return the child zones by name."""
        found = self._read(_zones, "reading zones")
        return sorted(found, key=lambda one: one.registration.name)

    def show(self, name: str) -> ZoneOverview:
        """Return a child zone by its name or ID; UnknownName where there is none."""
        zones = self.list()
        for one in zones:
            if name in (one.registration.name, str(one.id)):
                return one
        raise UnknownName("child zone", name, [one.registration.name for one in zones])

    def add(self, registration: ZoneRegistration) -> ZoneOverview:
        """Store a child zone under a name that is free, and return it.

        Raises:
            NameTaken: another one has the name.
        """
        name = registration.name

        def work(connection: sa.Connection) -> int:
            known = sa.select(_table.c.id).where(_table.c.zone_key == key_of(name))
            if connection.scalar(known) is not None:
                raise NameTaken(one_line(f"a zone named {name!r} is a child already: change that "
                                         "one, or choose another name"))  # fmt: skip
            # where another process inserts it first, this runs again and finds that
            report = to_json(ZoneReport())
            row = {"zone_key": key_of(name), "name": name, "report": report, **_row(registration)}
            inserted = connection.execute(sa.insert(_table).values(row))
            change_log.log_zone_change(connection)
            return int(inserted.inserted_primary_key[0])  # type: ignore[index]

        return ZoneOverview(id=self._write(work, "adding a zone"), registration=registration)

    def change(self, zone: ZoneOverview, registration: ZoneRegistration) -> None:
        """Replace the registration of a child zone.

        What is known by polling is forgotten where another service may answer from now on.

        Raises:
            UnknownName: the zone is no longer there.
        """
        of = _table.c

        def work(connection: sa.Connection) -> None:
            values = _row(registration)
            if _access_of(registration) != _access_of(zone.registration):
                values |= {"report": to_json(ZoneReport()), "heard_at": None, "polled_at": None}
            update = sa.update(_table).where(of.id == zone.id).values(values)
            connection.execute(update)
            if connection.scalar(sa.select(of.id).where(of.id == zone.id)) is None:
                names = connection.scalars(sa.select(of.name))
                raise UnknownName("child zone", zone.registration.name, names)
            change_log.log_zone_change(connection)

        self._write(work, "changing a zone")

    def delete(self, zone: ZoneOverview) -> None:
        """Forget a child zone; its own state is not touched. One that is gone is no error.

        Raises:
            InUse: live claims have a part in it.
        """

        def work(connection: sa.Connection) -> None:
            zone_claims.check_unused(connection, zone.registration.name)
            connection.execute(sa.delete(_table).where(_table.c.id == zone.id))
            change_log.log_zone_change(connection)

        self._write(work, "deleting a zone")

    def record(self, polled: Sequence[PolledZone]) -> None:
        """Store what was learned by polling child zones.

        One that was changed or deleted meanwhile is left aside. The change log moves where more
        than the time of the poll is new.
        """
        of = _table.c

        def work(connection: sa.Connection) -> None:
            changed = False
            for zone, report in polled:
                values = {"report": to_json(report), "polled_at": now()}
                if not report.failures:
                    values["heard_at"] = now()
                same = sa.and_(of.id == zone.id, of.digest == _digest(zone.registration))
                update = sa.update(_table).where(same).values(values)
                changed |= bool(connection.execute(update).rowcount) and report != zone.report
            if changed:
                change_log.log_zone_change(connection)

        self._write(work, "storing what zones tell")

    def own_id(self) -> str:
        """Return the id of this zone, which is made when it is first asked for."""
        of = _identity.c
        query = sa.select(of.id)
        known = self._read(lambda c: c.scalar(query), "reading the id of the zone")
        if known is not None:
            return str(known)

        def work(connection: sa.Connection) -> str:
            known = connection.scalar(query)
            if known is not None:
                return str(known)
            # where another process inserts it first, this runs again and finds that
            made = uuid.uuid4().hex
            connection.execute(sa.insert(_identity).values(number=1, id=made))
            return made

        return self._write(work, "making the id of the zone")


@functools.lru_cache(maxsize=8)
def _changes_text(dialect: sa.Dialect) -> str:
    """Return the statement as text: each decision runs it."""
    shards = tables.shards.c
    query = sa.select(shards.moved).where(shards.shard == tables.ZONES_SHARD)
    return str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _zones(connection: sa.Connection) -> Sequence[ZoneOverview]:
    of = _table.c
    query = sa.select(of.name, of.id, of.document, of.report, of.heard_at, of.polled_at, now())

    def overview(
        name: str, id_: int, document: bytes, report: bytes,
        heard_at: float | None, polled_at: float | None, queried_at: float,
    ) -> ZoneOverview:  # fmt: skip
        return ZoneOverview(
            id=id_,
            registration=msgspec.json.decode(document, type=ZoneRegistration),
            report=decoded(connection, of.report, name, report) or ZoneReport(),
            heard_age_s=_age_s(heard_at, queried_at),
            polled_age_s=_age_s(polled_at, queried_at),
            heard_at=heard_at,
            polled_at=polled_at,
        )

    return [*readable(connection, _table, connection.execute(query).all(), overview)]


def _age_s(at: float | None, queried_at: float) -> float | None:
    return None if at is None else max(0.0, queried_at - at)


def _row(registration: ZoneRegistration) -> dict[str, object]:
    return {"document": to_json(registration), "digest": _digest(registration)}


def _digest(registration: ZoneRegistration) -> str:
    return digest_of(to_json(registration))


def _access_of(registration: ZoneRegistration) -> tuple[object, ...]:
    """Return what decides which service answers, and whether it does."""
    one = registration
    return one.url, one.username, one.password, one.keystone, one.cacert, one.cert, one.key
