# SPDX-License-Identifier: Apache-2.0
"""Identities of services in the store: one name per service, and one service per name."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import IdentityConflict, name_some
from valence_sched.model import podm_address
from valence_sched.model.inventory import to_json
from valence_sched.model.podm_address import is_address
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.store.document import readable
from valence_sched.store.tables import chunks, key_of

_podms, _registry = tables.podms, tables.registry
MAX_LISTED_USES = 3  # ids of claims, and of nodes, in a message
Conflicts = dict[str, IdentityConflict]


class IdentityMove(NamedTuple):
    """A reading with another identity, or with other blocks if blocks identify the service."""

    key: str
    name: str
    known: str | None
    identity: str
    blocks: Collection[str]


class _StoredBlock(msgspec.Struct):
    uri: str


class _StoredBlocks(msgspec.Struct):
    blocks: tuple[_StoredBlock, ...] = ()


_decode_blocks = msgspec.json.Decoder(_StoredBlocks).decode


def columns(identity: str | None) -> dict[str, str | None]:
    """Return the columns of an identity; several rows may have an unknown identity."""
    return {"identity": identity, "identity_key": None if identity is None else key_of(identity)}


def registration_columns(registration: Registration) -> dict[str, Any]:
    return {"document": to_json(registration), **columns(registration.identity)}


def known_identities(connection: sa.Connection) -> dict[str, str]:
    """Return the identities of pod managers by name; registered identities take precedence."""
    columns = ((of.name, of.identity) for of in (_podms.c, _registry.c))
    queries = (sa.select(*both).where(both[1].is_not(None)) for both in columns)
    return {name: known for query in queries for name, known in connection.execute(query)}


def conflicts(connection: sa.Connection, moves: Sequence[IdentityMove]) -> Conflicts:
    """Return the readings of another service or name, by key; they must not be stored.

    An old name of a service is dropped if it is neither registered nor in use: the pod manager was
    renamed in its file.
    """
    found = _changed_services(connection, moves)
    names: dict[str, str] = {}
    firsts = {key_of(move.identity): move.key for move in reversed(moves) if move.key not in found}
    others = _other_names(connection, firsts)
    for move in moves:
        if move.key not in found:
            other = others.get(key_of(move.identity), move.name)
            other = names.setdefault(move.identity, other)
            if other != move.name:
                found[move.key] = _conflict(move, other)
    return found


def _conflict(move: IdentityMove | Registration, other: str) -> IdentityConflict:
    return IdentityConflict(podm_address.conflict_text(move.name, move.identity or "", other))


def _changed_services(connection: sa.Connection, moves: Sequence[IdentityMove]) -> Conflicts:
    found: Conflicts = {}
    registered = _registered_identities(connection, [move.key for move in moves])
    for move in moves:
        known = registered.get(move.key) or move.known
        if known is None:
            continue
        changed = podm_address.contradicts(known, move.identity)
        if not changed and is_address(known):
            query = sa.select(_podms.c.name, _podms.c.document)
            row = connection.execute(query.where(_podms.c.podm_key == move.key, ~_podms.c.gone))
            stored = readable(connection, _podms, row, lambda _, text: _decode_blocks(text))
            known_blocks = {block.uri for one in stored for block in one.blocks}
            changed = podm_address.has_other_blocks(known_blocks, move.blocks)
        if changed:
            text = podm_address.change_text(move.name, known, move.identity)
            found[move.key] = IdentityConflict(text)
    return found


def _registered_identities(connection: sa.Connection, keys: Sequence[str]) -> dict[str, str | None]:
    of = _registry.c
    query = sa.select(of.podm_key, of.identity)
    queries = (query.where(of.podm_key.in_(some)) for some in chunks(keys))
    return {key: identity for one in queries for key, identity in connection.execute(one)}


def _other_names(connection: sa.Connection, keys: Mapping[str, str]) -> dict[str, str]:
    """Return another name of each identity, by identity key; drop unused other names.

    ``keys`` are the new pod managers by identity.
    """
    found: dict[str, str] = {}
    for of in (_registry.c, _podms.c):
        query = sa.select(of.identity_key, of.podm_key, of.name)
        for some in chunks(sorted(keys)):
            rows = connection.execute(query.where(of.identity_key.in_(some))).all()
            for digest, key, name in rows:
                if key == keys[digest] or digest in found:
                    continue
                if _registered_identities(connection, [key]) or uses(connection, key):
                    found[digest] = name
                else:
                    forget_read(connection, name)
    return found


def check_free(connection: sa.Connection, registration: Registration) -> None:
    """Raise IdentityConflict if a service has another name that is registered or in use."""
    if registration.identity is not None:
        keys = {key_of(registration.identity): key_of(registration.name)}
        for other in _other_names(connection, keys).values():
            raise _conflict(registration, other)


def forget_read(connection: sa.Connection, name: str) -> None:
    """Forget the identity that was read under a name; the next reading sets it."""
    update = sa.update(_podms).where(_podms.c.podm_key == key_of(name))
    connection.execute(update.values(**columns(None)))


def learn(connection: sa.Connection, identities: Mapping[str, str]) -> None:
    """Store the identities of registered pod managers, by key, as read."""
    of, rows = _registry.c, []
    decode = msgspec.json.Decoder(Registration).decode
    for some in chunks(sorted(identities)):
        query = sa.select(of.name, of.podm_key, of.document).where(of.podm_key.in_(some))
        found = connection.execute(query).all()
        pairs = readable(connection, _registry, found, lambda _, key, text: (key, decode(text)))
        for key, known in pairs:
            if known.identity != identities[key]:
                changed = registration_columns(replace(known, identity=identities[key]))
                rows.append({"key": key, **changed})
    if rows:
        connection.execute(sa.update(_registry).where(of.podm_key == sa.bindparam("key")), rows)


def uses(connection: sa.Connection, key: str) -> list[str]:
    """Return the counts of claims and nodes of a pod manager as text, without zero counts."""
    claims, nodes, found = tables.claim_parts.c, tables.nodes.c, []
    for noun, id_, of in (("claim", claims.claim_id, claims), ("node", nodes.id, nodes)):
        ids = connection.scalars(sa.select(id_).where(of.podm_key == key).order_by(id_)).all()
        if ids:
            found.append(f"{format_count(len(ids), noun)} ({name_some(ids, MAX_LISTED_USES)})")
    return found
