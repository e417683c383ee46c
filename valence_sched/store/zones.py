# SPDX-License-Identifier: Apache-2.0
"""Zones of the store: the child zones, their reports, and claims over them.

A zone claim lists the parts of a claim in these zones; the holds are in their own states.
"""

import contextlib
import uuid
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import InUse, NameTaken, StoreError, UnknownName, name_some
from valence_sched.model import zone as nouns
from valence_sched.model.base import digest_of
from valence_sched.model.decision import Report
from valence_sched.model.inventory import to_json
from valence_sched.model.quantity import format_count
from valence_sched.model.request import GroupState, Request
from valence_sched.model.zone_registry import ZoneOverview, ZoneRegistration, ZoneReport
from valence_sched.store import claim_rows, tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.decisions import queue_dispatch
from valence_sched.store.document import decoded, readable
from valence_sched.store.holds import advance_group, group_generation, lock_group
from valence_sched.store.identities import MAX_LISTED_USES
from valence_sched.store.tables import key_of, now

_table = tables.zone_claims
_of = _table.c
_IS_OVER = sa.and_(
    _of.state.in_(("PREPARED", "HELD")), sa.func.coalesce(_of.expires_at <= now(), sa.false())
)
_decode_parts = msgspec.json.Decoder(tuple[nouns.ZoneClaimPart, ...]).decode
_finder = claim_rows.ClaimFinder(_table, nouns.ZoneClaim, _decode_parts)
_find, _find_one = _finder.find, _finder.find_one


class ZoneClaimRows(Stored):
    """The zone claims of a store."""

    def begin(
        self, parts: Sequence[nouns.ZoneClaimPart], *, owner: str | None, group: str | None,
        key: str | None, content: str, ttl_s: float, generation: int | None = None,
    ) -> tuple[nouns.ZoneClaim, bool]:  # fmt: skip
        """Store the zones to query; return the claim, and whether it is new.

        The same ``key`` of the same owner returns the same claim until it ends. Until the claim is
        held or ends, other claims of its ``group`` can neither begin nor be held here. Under hard
        rules of the group, ``generation`` is its generation at the decision.

        Raises:
            NameTaken: the key belongs to a claim with other content.
            ClaimLost: the claim of the key is being prepared, the group changed since the decision,
                or another claim of the group is being prepared.
        """
        id_, digest = uuid.uuid4().hex[:16], key_of(content)
        claim = nouns.ZoneClaim(id=id_, state="PREPARED", owner=owner, group=group, key=key)
        claim = replace(claim, content=digest, parts=tuple(parts))

        def work(connection: sa.Connection) -> tuple[nouns.ZoneClaim, bool]:
            own = _find_one(connection, _of.id == id_)
            if own is not None:
                return own, True  # only the answer to the commit was lost
            if key is not None:  # end an expired claim of the key first
                # a prepared claim may have parts left
                state = sa.case((_of.state == "PREPARED", "RELEASING"), else_="EXPIRED")
                is_own = _of.consumer_key == claim_rows.consumer_key(owner, key)
                over = sa.update(_table).where(is_own, _IS_OVER)
                connection.execute(over.values(state=state, consumer_key=None))
                if (earlier := _find_by_key(connection, owner, key, digest)) is not None:
                    return earlier, False
            if group is not None:
                lock_group(connection, group, generation, id_)
            at = tables.time_s(connection)
            times = {"created_at": at, "expires_at": at + ttl_s}
            connection.execute(sa.insert(_table).values(**claim_rows.columns(claim), **times))
            return _get(connection, id_), True

        return self._database.write(work, "claiming")

    def find_by_key(self, owner: str | None, key: str, content: str) -> nouns.ZoneClaim | None:
        """Return the live claim of a key, if any; errors as for :meth:`begin`."""
        digest = key_of(content)
        return self._database.read(lambda c: _find_by_key(c, owner, key, digest), "reading")

    @transaction("changing a claim", write=True)
    def change(
        self,
        connection: sa.Connection,
        claim_id: str,
        before: Sequence[nouns.ZoneClaimState],
        after: nouns.ZoneClaimState,
        *,
        parts: Sequence[nouns.ZoneClaimPart] | None = None,
        ttl_s: float | None = None,
        note: str | None = None,
        dispatched: Report | None = None,
    ) -> nouns.ZoneClaim | None:
        """Move a claim from one of the states ``before`` to another state; else return None.

        An expired held or prepared claim can only be released or ended. In its new state, the claim
        expires after ``ttl_s``, or never if that is None. A released or ended claim frees its key.
        When a prepared claim is held or ends, the generation of its group advances. The report of a
        ``dispatched`` decision is queued for the controller.
        """
        ends = after in nouns.ENDED_STATES or after == "RELEASING"
        values: dict[str, Any] = {"state": after, "note": note}
        values["expires_at"] = None if ttl_s is None else now() + ttl_s
        if parts is not None:
            values["document"] = to_json(tuple(parts))
        if ends:
            values["consumer_key"] = None
        where = _of.id == claim_id, _of.state.in_(before), sa.true() if ends else sa.not_(_IS_OVER)
        if "PREPARED" in before and after != "PREPARED":
            group = connection.scalar(sa.select(_of.group_name).where(_of.id == claim_id))
            if group is not None:
                advance_group(connection, group)
        if not connection.execute(sa.update(_table).where(*where).values(values)).rowcount:
            return None
        queue_dispatch(connection, claim_id, dispatched, claim_id)
        return _get(connection, claim_id)

    def get(self, claim_id: str) -> nouns.ZoneClaim | None:
        return self._database.read(lambda c: _find_one(c, _of.id == claim_id), "reading claims")

    def list(
        self, states: Sequence[nouns.ZoneClaimState] = nouns.LIVE_STATES, owner: str | None = None
    ) -> Sequence[nouns.ZoneClaim]:
        where = _of.state.in_(states), tables.is_owned(_of.owner, owner)
        return self._database.read(lambda c: _find(c, *where), "reading claims")

    def generation(self, group: str) -> int:
        """Return the generation of a group; read it before the members of the group."""
        return self._database.read(lambda c: group_generation(c, group), "reading a group")

    def known(self, request: Request, answering: Container[str]) -> GroupState:
        """Return the group members that were claimed in zones that are not ``answering``."""
        group, owner = request.group, request.owner
        name = group.name if group is not None else None
        live = _of.state.in_(nouns.LIVE_STATES), _of.group_name == name
        claims = self._database.read(lambda c: _find(c, *live), "reading claims")
        members: dict[str, Counter[str]] = {}
        for claim in claims:
            if owner is not None and claim.owner not in (None, owner):
                continue
            for part in claim.parts:
                places = part.places if part.zone and part.zone not in answering else ()
                for domain, values in (one for place in places for one in place.items()):
                    members.setdefault(domain, Counter()).update(values)
        return GroupState(members={domain: dict(one) for domain, one in members.items()})

    def due(self) -> Sequence[nouns.ZoneClaim]:
        """Return ended claims that may have parts left in a zone below."""
        due = _of.state.in_(("PREPARED", "COMPOSING", "RELEASING")), _of.expires_at <= now()
        return self._database.read(lambda c: _find(c, *due), "reading claims")

    def expire(self) -> None:
        """End expired held claims; do nothing in a read-only store."""
        over = sa.and_(_of.state == "HELD", _of.expires_at <= now())
        end = sa.update(_table).where(over).values(state="EXPIRED", consumer_key=None)
        with contextlib.suppress(StoreError):
            if self._database.read(lambda c: _find(c, over), "reading claims"):
                self._database.write(lambda c: c.execute(end), "ending claims")


def _get(connection: sa.Connection, claim_id: str) -> nouns.ZoneClaim:
    claim = _find_one(connection, _of.id == claim_id)
    assert claim is not None, "just written"
    return claim


def _find_by_key(
    connection: sa.Connection, owner: str | None, key: str, digest: str
) -> nouns.ZoneClaim | None:
    is_own = _of.consumer_key == claim_rows.consumer_key(owner, key)
    claim = _find_one(connection, is_own, sa.not_(_IS_OVER))
    if claim is not None:
        claim_rows.check_same(claim, key, digest)
    return claim


_children, _identity = tables.zones, tables.zone_identity
_CHANGES = sa.select(tables.shards.c.moved).where(tables.shards.c.shard == tables.ZONES_SHARD)


class PolledZone(NamedTuple):
    """A child zone at the time of its poll, and the new report."""

    zone: ZoneOverview
    report: ZoneReport


class Zones(Stored):
    """The child zones of a store, by the names that this zone gave them."""

    def changes(self) -> int:
        """Return the number of changes of the child zones, which is cheaper than their list.

        A poll that changes only the time is not counted.
        """
        return int(self._database.read_row(_CHANGES, "looking")[0])

    @transaction("reading zones")
    def list(self, connection: sa.Connection) -> Sequence[ZoneOverview]:
        of = _children.c
        query = sa.select(of.name, of.id, of.document, of.report, of.heard_at, of.polled_at, now())
        rows = connection.execute(query).all()

        def overview(
            name: str, id_: int, document: bytes, report: bytes, *times: Any
        ) -> ZoneOverview:
            heard_at, polled_at, queried_at = times
            heard_age_s, polled_age_s = (at and max(0.0, queried_at - at) for at in times[:2])
            return ZoneOverview(
                id=id_,
                registration=msgspec.json.decode(document, type=ZoneRegistration),
                report=decoded(connection, of.report, name, report) or ZoneReport(),
                heard_age_s=heard_age_s,
                polled_age_s=polled_age_s,
                heard_at=heard_at,
                polled_at=polled_at,
            )

        found = readable(connection, _children, rows, overview)
        return sorted(found, key=lambda one: one.registration.name)

    def show(self, name: str) -> ZoneOverview:
        zones = self.list()
        for one in zones:
            if name in (one.registration.name, str(one.id)):
                return one
        raise UnknownName("child zone", name, [one.registration.name for one in zones])

    @transaction("adding a zone", write=True)
    def add(self, connection: sa.Connection, registration: ZoneRegistration) -> ZoneOverview:
        """Store a child zone under a free name, and return it; else NameTaken."""
        name, key = registration.name, key_of(registration.name)
        known = sa.select(_children.c.id).where(_children.c.zone_key == key)
        if connection.scalar(known) is not None:
            hint = "change that zone, or choose another name"
            raise NameTaken(f"a zone named {name!r} is already a child: {hint}")
        # if another process inserts this row first, the transaction runs again
        row = {"zone_key": key, "name": name, "report": to_json(ZoneReport()), **_row(registration)}
        inserted = connection.execute(sa.insert(_children).values(row))
        tables.advance_shard(connection, tables.ZONES_SHARD)
        id_ = int(inserted.inserted_primary_key[0])  # type: ignore[index]
        return ZoneOverview(id=id_, registration=registration)

    @transaction("changing a zone", write=True)
    def change(
        self, connection: sa.Connection, zone: ZoneOverview, registration: ZoneRegistration
    ) -> None:
        """Replace the registration of a child zone; UnknownName if it is gone.

        Its report is forgotten if another service may answer now.
        """
        of, values = _children.c, _row(registration)
        if _access_of(registration) != _access_of(zone.registration):
            values |= {"report": to_json(ZoneReport()), "heard_at": None, "polled_at": None}
        connection.execute(sa.update(_children).where(of.id == zone.id).values(values))
        if connection.scalar(sa.select(of.id).where(of.id == zone.id)) is None:
            names = connection.scalars(sa.select(of.name))
            raise UnknownName("child zone", zone.registration.name, names)
        tables.advance_shard(connection, tables.ZONES_SHARD)

    @transaction("deleting a zone", write=True)
    def delete(self, connection: sa.Connection, zone: ZoneOverview) -> None:
        """Delete a child zone if it exists; InUse if live claims have a part in it."""
        name = zone.registration.name
        claims = _find(connection, _of.state.in_(nouns.LIVE_STATES), sa.not_(_IS_OVER))
        found = [one.id for one in claims if name in {part.zone for part in one.parts}]
        if found:
            count, ids = format_count(len(found), "claim"), name_some(found, MAX_LISTED_USES)
            text = f"zone {name!r} still has {count} ({ids})"
            raise InUse(f"{text}: run podm claim release and podm node delete first")
        connection.execute(sa.delete(_children).where(_children.c.id == zone.id))
        tables.advance_shard(connection, tables.ZONES_SHARD)

    @transaction("storing polled zones", write=True)
    def record(self, connection: sa.Connection, polled: Sequence[PolledZone]) -> None:
        """Store the reports of polled child zones, except zones changed or deleted meanwhile.

        The change log counts a report only if more than the time of the poll differs.
        """
        of, changed = _children.c, False
        for zone, report in polled:
            values = {"report": to_json(report), "polled_at": now()}
            if not report.failures:
                values["heard_at"] = now()
            same = of.id == zone.id, of.digest == _row(zone.registration)["digest"]
            update = sa.update(_children).where(*same).values(values)
            changed |= bool(connection.execute(update).rowcount) and report != zone.report
        if changed:
            tables.advance_shard(connection, tables.ZONES_SHARD)

    def own_id(self) -> str:
        query = sa.select(_identity.c.id)
        if known := self._database.read(lambda c: c.scalar(query), "reading the id of the zone"):
            return str(known)

        def work(connection: sa.Connection) -> str:
            if known := connection.scalar(query):
                return str(known)
            # if another process inserts this row first, the transaction runs again
            new = uuid.uuid4().hex
            connection.execute(sa.insert(_identity).values(number=1, id=new))
            return new

        return self._database.write(work, "making the id of the zone")


def _row(registration: ZoneRegistration) -> dict[str, Any]:
    document = to_json(registration)
    return {"document": document, "digest": digest_of(document)}


def _access_of(one: ZoneRegistration) -> tuple[object, ...]:
    return one.url, one.username, one.password, one.keystone, one.cacert, one.cert, one.key
