# SPDX-License-Identifier: Apache-2.0
"""Quotas of the store: limits of owners, and the charges of their claims."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from valence_sched.errors import QuotaExceeded
from valence_sched.model.claim import ACTIVE_STATES, Claim
from valence_sched.model.quota import Quota, claim_charges
from valence_sched.store import tables
from valence_sched.store.database import Stored, transaction
from valence_sched.store.document import readable
from valence_sched.store.holds import SLACK, ExpiredConflict
from valence_sched.store.tables import NonNegative, now, owner_key

_quotas, _locks, _charges = tables.quotas, tables.quota_locks, tables.quota_charges
_claims = tables.claims
Limits = Mapping[str, float | None]
_Limit = tuple[str, str | None, str, float]  # key and owner, resource and amount


class Quotas(Stored):
    """The quotas of a store; owner None stands for all owners without limits of their own."""

    @transaction("setting a quota", write=True)
    def change(
        self, connection: sa.Connection, owner: str | None, limits: Limits, *, keep: bool = True
    ) -> Quota:
        """Change limits of an owner by resource, where None removes a limit; return the quota.

        With ``keep``, its other limits stay. On PostgreSQL and SQLite, a claim made before the
        change counts, and a later claim is checked against the new limits. On MariaDB, a concurrent
        claim may escape the check, but counts afterwards.
        """
        key = owner_key(owner)
        if connection.dialect.name == "postgresql":
            # transactions with the old limits end first, later ones read the new limits
            connection.exec_driver_sql(f"LOCK TABLE {_quotas.name} IN ACCESS EXCLUSIVE MODE")
        old = sa.delete(_quotas).where(_quotas.c.owner_key == key)
        connection.execute(old.where(_quotas.c.resource.in_(limits)) if keep else old)
        row = {"owner_key": key, "owner": owner}
        new = [(name, most) for name, most in sorted(limits.items()) if most is not None]
        if new:
            rows = [{**row, "resource": name, "most": most} for name, most in new]
            connection.execute(sa.insert(_quotas), rows)
        return _quota(connection, owner)

    @transaction("reading quotas")
    def list(self, connection: sa.Connection) -> Sequence[Quota]:
        of = _quotas.c
        query = sa.select(of.owner_key, of.owner, of.resource, of.most).order_by(of.resource)
        limits: dict[str | None, dict[str, float]] = {}
        for _, owner, name, most in _limit_rows(connection, query):
            limits.setdefault(owner, {})[name] = most
        by_name = sorted(limits.items(), key=lambda item: (item[0] is not None, item[0] or ""))
        return [Quota(owner=owner, limits=found) for owner, found in by_name]

    def show(self, owner: str) -> Quota:
        return self._database.read(lambda c: _quota(c, owner), "reading quotas")


def check(connection: sa.Connection, claim: Claim, credit: Mapping[str, float]) -> None:
    """Lock the quota of the owner of a claim, if there is one, until the transaction ends.

    ``credit`` are charges of the owner that will end, and do not count.

    Raises:
        QuotaExceeded: the claim exceeds the quota.
        ExpiredConflict: the claim exceeds the quota while expired claims still count.
    """
    if claim.owner is None:
        return
    limits = _limits(connection, claim.owner)
    if not limits:
        return
    key = owner_key(claim.owner)
    lock = sa.select(_locks.c.owner_key).where(_locks.c.owner_key == key).with_for_update()
    if connection.scalar(lock) is None:
        # if another process inserts this row first, the transaction runs again
        connection.execute(sa.insert(_locks).values(owner_key=key))
    used = _used(connection, claim.owner)
    problems = [
        f"{name}: {used.get(name, 0.0):,g} in use and {amount:,g} more needed, "
        f"{limits[name]:,g} allowed"
        for name, every in sorted(claim_charges(claim.parts).items())
        if (amount := every - credit.get(name, 0.0)) > 0
        and name in limits
        and used.get(name, 0.0) + amount > limits[name] + SLACK
    ]
    if not problems:
        return
    of = _claims.c
    expired = of.owner == claim.owner, of.state.in_(ACTIVE_STATES), of.sweep_at <= now()
    if connection.scalar(sa.select(of.id).where(*expired).limit(1)) is not None:
        raise ExpiredConflict
    hint = "release claims, or ask the operator for a larger quota"
    raise QuotaExceeded(f"quota of {claim.owner!r}: {'; '.join(problems)}: {hint}")


def charge(connection: sa.Connection, claim: Claim, parts_of: int = 1) -> None:
    """Charge an inserted claim, one of ``parts_of`` claims of a split, to its owner's quota."""
    if claim.owner is None:
        return
    charges = claim_charges(claim.parts)
    charges["claims"] /= parts_of
    row = {"claim_id": claim.id, "owner_key": owner_key(claim.owner)}
    rows = [{**row, "resource": name, "amount": amount} for name, amount in charges.items()]
    connection.execute(sa.insert(_charges), rows)


def _quota(connection: sa.Connection, owner: str | None) -> Quota:
    """Return a quota with its use; accelerators without a limit are left out."""
    limits, used = _limits(connection, owner), {} if owner is None else _used(connection, owner)
    hidden = {name for name in used if name.startswith("accelerators:")} - limits.keys()
    shown = {name: amount for name, amount in used.items() if name not in hidden}
    return Quota(owner=owner, limits=limits, used=shown)


def _limits(connection: sa.Connection, owner: str | None) -> dict[str, float]:
    """Return the limits of an owner: for each resource its own limit, else the default."""
    of, key = _quotas.c, owner_key(owner)
    query = sa.select(of.owner_key, of.owner, of.resource, of.most)
    found = _limit_rows(connection, query.where(of.owner_key.in_((key, owner_key(None)))))
    return {name: most for _, _, name, most in sorted(found, key=lambda row: row[0] == key)}


def _limit_rows(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[_Limit]:
    def limit(_label: str, key: str, owner: str | None, name: str, most: Any) -> _Limit:
        return key, owner, name, msgspec.convert(most, NonNegative.kind)

    rows = [(f"{row[1] or '-'} {row[2]}", *row) for row in connection.execute(query)]
    return readable(connection, _quotas, rows, limit)


def _used(connection: sa.Connection, owner: str) -> dict[str, float]:
    of = _charges.c
    query = (
        sa.select(of.resource, sa.func.sum(of.amount))
        .join(_claims, _claims.c.id == of.claim_id)
        .where(of.owner_key == owner_key(owner), _claims.c.state.in_(ACTIVE_STATES))
        .where(of.amount > 0)
        .group_by(of.resource)
    )
    rows = sorted(map(tuple, connection.execute(query)))
    return {name: round(amount, 6) for name, amount in rows}
