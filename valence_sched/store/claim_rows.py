# SPDX-License-Identifier: Apache-2.0
"""Claim rows: inserts, finds and updates claims, each step within one transaction.

On PostgreSQL and MariaDB, one statement checks and holds a claim without amounts or limits: locks
last one round trip, or two with the commit. If this statement writes nothing or fails, those of
:mod:`valence_sched.store.claims` hold the claim or find the reason.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import ClaimLost, ClaimState, NameTaken, UnknownName
from valence_sched.model.claim import Claim, ClaimPart, ComposedNode, State
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.lifecycle import Event
from valence_sched.model.quota import claim_charges
from valence_sched.model.zone import ZoneClaim
from valence_sched.store import tables
from valence_sched.store.document import one_readable, readable
from valence_sched.store.holds import ExpiredConflict, advance_group, drop, hold, lock, lock_group
from valence_sched.store.tables import Document, chunks, key_of, now, owner_key
from valence_sched.words.phrases import state_text

_table = tables.claims
C = TypeVar("C", bound=Claim | ZoneClaim)
_PARTS = Document(tuple[ClaimPart, ...])
decode_parts = msgspec.json.Decoder(tuple[ClaimPart, ...]).decode
decode_node = msgspec.json.Decoder(ComposedNode).decode
NodesByClaim = dict[tuple[str, str], list[ComposedNode]]
_UNCHANGED = ("id", "state", "owner", "content", "created_at", "expires_at", "note")
#: The column of each field; the first column, the id, identifies a row in messages.
_FIELDS = {name: name for name in _UNCHANGED} | {"group": "group_name", "key": "idempotency_key"}
_INSERT = sa.insert(_table)
MOST_EVENTS = 1000


class ClaimFinder(Generic[C]):
    """Finds the claims, or zone claims, of a table; ``decode`` decodes their parts."""

    def __init__(self, table: sa.Table, kind: type[C], decode: Callable[[bytes], Any]) -> None:
        self._table, self._kind, self._decode = table, kind, decode
        self.select = sa.select(*(table.c[name] for name in _FIELDS.values()), table.c.document)

    def find(self, connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[C]:
        """Return the decodable claims in the order in which they were created."""
        of = self._table.c
        return self.run(connection, self.select.where(*where).order_by(of.created_at, of.id))

    def run(self, connection: sa.Connection, query: sa.Select[Any]) -> list[C]:
        return [*readable(connection, self._table, connection.execute(query), self._claim)]

    def find_one(self, connection: sa.Connection, *where: sa.ColumnElement[bool]) -> C | None:
        """Return the claim of a unique key, if any; Undecodable if it cannot be decoded."""
        if (row := connection.execute(self.select.where(*where)).first()) is None:
            return None
        return one_readable(connection, self._table, "claim", row, self._claim, row.owner)

    def _claim(self, *values: Any) -> C:
        *scalars, document = values
        fields = dict(zip(_FIELDS, scalars, strict=True))
        return msgspec.convert({**fields, "parts": self._decode(document)}, self._kind)


finder = ClaimFinder(_table, Claim, decode_parts)
find, find_one = finder.find, finder.find_one


def check_same(claim: Claim | ZoneClaim, key: str, content: str) -> None:
    """Raise NameTaken if the claim of a key has other content, ClaimLost if it is not held yet."""
    if claim.content != content:
        other = f"claim {claim.id} of another request"
        raise NameTaken(f"key {key!r} belongs to {other}: choose another key")
    if claim.state == "PREPARED":
        raise ClaimLost(f"claim {claim.id} of the same key is being prepared", "", claim.id)


def consumer_key(owner: str | None, key: str | None) -> str | None:
    """Return the unique key of an owner's idempotency key, None without an idempotency key."""
    return None if key is None else key_of(owner or "", key)


def insert(connection: sa.Connection, claim: Claim) -> None:
    """Insert a claim; its row is also its first event."""
    times = {"created_at": claim.created_at, "expires_at": claim.expires_at}
    connection.execute(_INSERT, {**columns(claim), **times, "sweep_at": claim.expires_at})


def columns(claim: Claim | ZoneClaim) -> dict[str, Any]:
    row = {name: getattr(claim, name) for name in ("id", "state", "owner", "content")}
    row |= {"group_name": claim.group, "idempotency_key": claim.key}
    row["consumer_key"] = consumer_key(claim.owner, claim.key)
    return {**row, "document": to_json(claim.parts)}


def holds_of(connection: sa.Connection, podm: str) -> sa.ColumnElement[bool]:
    """Return the condition that the document of a claim has a part on a pod manager."""
    text = sa.literal(b'{"podm":%s,"generation":' % to_json(podm), sa.LargeBinary)
    if connection.dialect.name == "postgresql":
        return sa.func.position(text.op("IN")(_table.c.document)) > 0
    return sa.func.instr(_table.c.document, text) > 0


def get(connection: sa.Connection, claim_id: str) -> Claim:
    """Return a claim; UnknownName if missing, else errors as for :func:`find_one`."""
    claim = find_one(connection, _table.c.id == claim_id)
    if claim is None:
        others = connection.scalars(sa.select(_table.c.id).order_by(_table.c.id).limit(50))
        raise UnknownName("claim", claim_id, others)
    return claim


def change_state(
    connection: sa.Connection, claim_id: str, before: Sequence[State], after: State,
    *where: sa.ColumnElement[bool], **values: Any,
) -> bool:  # fmt: skip
    """Move a claim from a state in ``before`` to another state; return whether it moved."""
    update = sa.update(_table).where(_table.c.id == claim_id, _table.c.state.in_(before), *where)
    changed = connection.execute(update.values(state=after, **values)).rowcount
    if changed:
        add_event(connection, after.lower(), claim_id, words=values.get("note"))
    return bool(changed)


def state_error(connection: sa.Connection, claim_id: str, reason: str) -> ClaimState:
    """Return the error of a claim whose state forbids a change; it may be EXPIRED by now."""
    claim = get(connection, claim_id)
    over = connection.scalar(sa.select(_table.c.sweep_at <= now()).where(_table.c.id == claim_id))
    state = "EXPIRED" if claim.state == "HELD" and over else claim.state
    return ClaimState(f"claim {claim_id} is {state_text(state)}: {reason}")


def add_event(
    connection: sa.Connection, kind: str, claim_id: str, podm: str = "", words: str | None = None
) -> None:
    row = {"kind": kind, "claim_id": claim_id, "podm": podm or None}
    insert = sa.insert(tables.events).values(at=now(), words=words and words[:1024], **row)
    connection.execute(insert)


def end(
    connection: sa.Connection, id_: str, before: Sequence[State], after: State, note: str | None
) -> bool:
    """End a claim: its key becomes free, and its holds can be freed."""
    values = {"note": note, "consumer_key": None, "sweep_at": 0.0}
    return change_state(connection, id_, before, after, **values)


def add_part(connection: sa.Connection, claim_id: str, part: ClaimPart) -> Claim:
    """Add a part to a prepared claim, unless it already holds a part of this pod manager."""
    parts = tables.claim_parts.c
    own = parts.podm_key == key_of(part.podm), parts.claim_id == claim_id
    if connection.scalar(sa.select(parts.claim_id).where(*own)) is None:
        hold(connection, claim_id, part, lock(connection, part))
    # locked after the row of the pod manager, as in every transaction
    query = sa.select(_table.c.state).where(_table.c.id == claim_id)
    if (state := connection.scalar(query.with_for_update())) != "PREPARED":
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {state}", part.podm)
    return get(connection, claim_id)


def commit(connection: sa.Connection, claim_id: str, ttl_s: float, generation: int | None) -> Claim:
    """Change a prepared claim to HELD: one update of its row holds all parts.

    Its nodes then count as members of its group. ``generation`` is as for ``Claims.create``.
    """
    claim = get(connection, claim_id)
    if claim.state == "HELD":  # the answer to an earlier commit was lost
        return claim
    if claim.group is not None:
        lock_group(connection, claim.group, generation, claim.key)
        advance_group(connection, claim.group)
    unexpired, expires_at = _table.c.sweep_at > now(), now() + ttl_s
    times = {"expires_at": expires_at, "sweep_at": expires_at}
    changed = change_state(connection, claim_id, ["PREPARED"], "HELD", unexpired, **times)
    held = get(connection, claim_id)
    if not changed:
        raise ClaimLost(f"claim {claim_id} took too long to prepare: it is {held.state}")
    tables.recount_claim(connection, map(key_of, claim.podms), claim_id)
    return held


def find_by_key(
    connection: sa.Connection, owner: str | None, key: str, content: str
) -> Claim | None:
    """Return the claim of an owner's key, if any.

    Raises:
        ExpiredConflict: the claim has expired.
        NameTaken: the claim has other content.
        ClaimLost: the claim is being prepared.
    """
    of = _table.c
    claim = find_one(connection, of.consumer_key == consumer_key(owner, key))
    if claim is None:
        return None
    if connection.scalar(sa.select(of.sweep_at <= now()).where(of.id == claim.id)):
        raise ExpiredConflict
    check_same(claim, key, content)
    return claim


def events(connection: sa.Connection, claim: str) -> list[Event]:
    """Return the last ``MOST_EVENTS`` events of a claim, the oldest first.

    The creation of the claim is read from its row.
    """
    of, claims = tables.events.c, _table.c
    later = sa.select(of.at, of.kind, of.claim_id.label("claim"), of.podm, of.words)
    later = later.where(of.claim_id == claim).order_by(of.number.desc()).limit(MOST_EVENTS)
    created = sa.select(claims.id, claims.created_at, claims.owner, claims.document)
    rows = connection.execute(later).mappings().all()
    firsts = connection.execute(created.where(claims.id == claim))

    def creation(claim_id: str, at: float, owner: str | None, document: bytes) -> Event:
        kind = "prepared" if len(decode_parts(document)) > 1 else "held"
        return Event(at=at, kind=kind, claim=claim_id, words=owner)

    history = [*readable(connection, _table, firsts, creation)]
    return [*history, *(Event(**row) for row in reversed(rows))][-MOST_EVENTS:]


#: The lock comes first: the other parts read its result. A statement that waited for the lock
#: sees the present row of the pod manager; the primary key refuses blocks that were held meanwhile.
_POSTGRESQL = """
with podm as materialized (
    select podm_key from podms
    where podm_key = %(podm)s and generation = %(generation)s and not gone
    and not exists (select 1 from shares
                    where podm_key = %(podm)s and block_key = any(cast(%(blocks)s as text[])))
    and not exists (select 1 from quotas where owner_key = any(cast(%(owner_keys)s as text[])))
    for update of podms),
clock as materialized (select {now} as at from podm),
claim as (
    insert into claims (id, state, owner, group_name, idempotency_key, consumer_key, content,
                        created_at, expires_at, sweep_at, document)
    select %(id)s, %(state)s, %(owner)s, %(group_name)s, %(idempotency_key)s, %(consumer_key)s,
           %(content)s, at, at + %(ttl_s)s, at + %(ttl_s)s, %(document)s
    from clock returning created_at, expires_at),
charges as (
    insert into quota_charges (claim_id, resource, owner_key, amount)
    select %(id)s, resource, %(owner_key)s, amount from podm, unnest(
        cast(%(resources)s as text[]), cast(%(amounts)s as double precision[]))
        as charge (resource, amount)),
blocks as (
    insert into claimed_blocks (podm_key, block_key, slot, claim_id, uri)
    select podm_key, block_key, 0, %(id)s, uri from podm, unnest(
        cast(%(blocks)s as text[]), cast(%(uris)s as text[])) as block (block_key, uri)),
counted as (
    update shards set moved = moved + 1 from podm where shard = %(shard)s returning moved),
part as (
    insert into claim_parts (podm_key, claim_id, shard, moved)
    select podm_key, %(id)s, %(shard)s, moved from podm, counted)
select created_at, expires_at from claim
"""


#: The same steps in sequence; after a failed step all of them are rolled back.
_MARIADB = """
begin not atomic
    declare at double;
    declare found integer default 0;
    select 1 into found from podms
    where podm_key = %(podm)s and generation = %(generation)s and not gone
    and not exists (select 1 from shares where podm_key = %(podm)s and block_key in {blocks})
    and not exists (select 1 from quotas where owner_key in {owner_keys})
    for update;
    if found then
        set at = {now};
        insert into claims (id, state, owner, group_name, idempotency_key, consumer_key, content,
                            created_at, expires_at, sweep_at, document)
        values (%(id)s, %(state)s, %(owner)s, %(group_name)s, %(idempotency_key)s,
                %(consumer_key)s, %(content)s, at, at + %(ttl_s)s, at + %(ttl_s)s, %(document)s);
        {charges}
        insert into claimed_blocks (podm_key, block_key, slot, claim_id, uri) values {rows};
        update shards set moved = moved + 1 where shard = %(shard)s;
        insert into claim_parts (podm_key, claim_id, shard, moved)
        select %(podm)s, %(id)s, %(shard)s, moved from shards where shard = %(shard)s;
    end if;
    select created_at, expires_at from claims where id = %(id)s;
end
"""


def is_plain(part: ClaimPart) -> bool:
    """Return whether a part holds only blocks, each for one node."""
    blocks = part.blocks.values()
    return bool(blocks) and set(blocks) <= {1} and not any(part.amounts.values())


def insert_whole(
    connection: sa.Connection, claim: Claim, part: ClaimPart, ttl_s: float
) -> Claim | None:
    """Hold a plain part with a new claim; return the claim, or None if nothing was written.

    After an IntegrityError the caller rolls back. InvalidDocument as for any stored document.
    """
    podm, own_key, row = key_of(part.podm), owner_key(claim.owner), columns(claim)
    _PARTS.check(row["document"])  # a raw statement skips this check
    row |= {"podm": podm, "generation": part.generation, "shard": tables.shard_of(podm)}
    row |= {"owner_key": own_key, "ttl_s": float(ttl_s)}
    owners = [] if claim.owner is None else [own_key, owner_key(None)]
    charges = {} if claim.owner is None else claim_charges(claim.parts)
    blocks = {key_of(uri): uri for uri in sorted(part.blocks, key=key_of)}
    if connection.dialect.name == "postgresql":
        text = _POSTGRESQL.format(now=_now(connection.dialect))
        row |= {"blocks": [*blocks], "uris": [*blocks.values()], "owner_keys": owners}
        row |= {"resources": [*charges], "amounts": [*charges.values()]}
    else:
        text = _mariadb_text(connection.dialect, len(owners), len(charges), len(blocks))
        lists = {"owner": owners, "resource": charges, "amount": charges.values()}
        for name, values in {**lists, "block": blocks, "uri": blocks.values()}.items():
            row |= {f"{name}_{number}": value for number, value in enumerate(values)}
    times = connection.exec_driver_sql(text, row).first()
    return None if times is None else replace(claim, created_at=times[0], expires_at=times[1])


@functools.lru_cache(maxsize=100)
def _mariadb_text(dialect: sa.Dialect, owners: int, charges: int, blocks: int) -> str:
    def rows(count: int, row: str) -> str:
        return ", ".join(row.replace("#", str(number)) for number in range(count))

    charge = "(%(id)s, %(resource_#)s, %(owner_key)s, %(amount_#)s)"
    into = "insert into quota_charges (claim_id, resource, owner_key, amount) values"
    return _MARIADB.format(
        now=_now(dialect),
        blocks=f"({rows(blocks, '%(block_#)s')})",
        owner_keys=f"({rows(owners, '%(owner_#)s') or 'null'})",
        charges=f"{into} {rows(charges, charge)};" if charges else "",
        rows=rows(blocks, "(%(podm)s, %(block_#)s, 0, %(id)s, %(uri_#)s)"),
    )


@functools.lru_cache(maxsize=8)
def _now(dialect: sa.Dialect) -> str:
    return str(tables.now().compile(dialect=dialect))


_nodes = tables.nodes


def delete_charges(connection: sa.Connection, claim_ids: Sequence[str]) -> None:
    charges = tables.quota_charges
    connection.execute(sa.delete(charges).where(charges.c.claim_id.in_(claim_ids)))


def write_nodes(connection: sa.Connection, nodes: Sequence[ComposedNode]) -> None:
    at = tables.time_s(connection)
    for one in nodes:
        document = to_json(replace(one, created_at=one.created_at or at))
        row = {"id": one.id, "podm_key": key_of(one.podm), "claim_id": one.claim}
        connection.execute(sa.insert(_nodes), {**row, "document": document})


def are_written(connection: sa.Connection, nodes: Sequence[ComposedNode]) -> bool:
    query = sa.select(_nodes.c.id, _nodes.c.document)
    rows = connection.execute(query.where(_nodes.c.id.in_([one.id for one in nodes])))
    uris = dict(readable(connection, _nodes, rows, lambda id_, text: (id_, decode_node(text).uri)))
    return all(uris.get(one.id) == one.uri for one in nodes)


def settle_claims(connection: sa.Connection, podms: Mapping[str, FullPodm]) -> set[str]:
    """Settle the claims whose composed nodes appear in ``podms``, which are readings by key.

    The caller has locked the rows of these pod managers. Return the keys of those with fewer holds.
    """
    settled, parts = set(), tables.claim_parts.c
    for (key, claim), nodes in sorted(composed_claims(connection, podms).items()):
        podm = podms[key]
        in_use = {b.uri for b in podm.blocks if b.status is not None and b.status.in_use}
        used = {node.uri: in_use.union(node.blocks) for node in podm.nodes}
        if all(used.get(node.uri, set()).issuperset(node.blocks) for node in nodes):
            drop(connection, claim, key)
            add_event(connection, "accounted", claim, podm.id)
            if connection.scalar(sa.select(parts.claim_id).where(parts.claim_id == claim)) is None:
                change_state(connection, claim, ["COMPOSED"], "SETTLED")
            settled.add(key)
    return settled


def composed_claims(connection: sa.Connection, keys: Iterable[str]) -> NodesByClaim:
    """Return the nodes of composed claims with holds, by pod manager and claim.

    A claim with an undecodable node is left out, since it cannot be compared with a reading. So is
    the claim of a placed node: only the claim shows that its host is in use.
    """
    parts, claims = tables.claim_parts, tables.claims
    of_claim, of_podm = _nodes.c.claim_id == parts.c.claim_id, _nodes.c.podm_key == parts.c.podm_key
    query = (
        sa.select(_nodes.c.id, parts.c.podm_key, parts.c.claim_id, _nodes.c.document)
        .join(claims, claims.c.id == parts.c.claim_id)
        .join(_nodes, sa.and_(of_claim, of_podm))
        .where(claims.c.state == "COMPOSED")
    )
    found: NodesByClaim = {}
    counts: Counter[tuple[str, str]] = Counter()
    for some in chunks(sorted(keys)):
        rows = connection.execute(query.where(parts.c.podm_key.in_(some))).all()
        counts.update((key, claim) for _, key, claim, _ in rows)
        nodes = readable(connection, _nodes, rows, lambda _id, *key: (key[:2], decode_node(key[2])))
        for claim_key, node in nodes:
            found.setdefault(claim_key, []).append(node)
    return {
        key: nodes
        for key, nodes in found.items()
        if len(nodes) == counts[key] and not any(node.is_placed for node in nodes)
    }
