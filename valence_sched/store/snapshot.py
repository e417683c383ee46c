# SPDX-License-Identifier: Apache-2.0
"""Snapshot: the pod managers that changed since a log position, and their usage by claims.

Usage is the hardware that live claims hold until the inventory shows their composed nodes.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.model.claim import NO_USAGE, Usage
from valence_sched.model.inventory import LeanPodm, Node
from valence_sched.model.reading import ReadFailure
from valence_sched.model.stats import ReportedSwitch
from valence_sched.store import claim_rows, tables
from valence_sched.store.database import WorkCounts
from valence_sched.store.document import decoded, readable
from valence_sched.store.podms import StoredPodm, decodable, documents
from valence_sched.store.tables import CHUNK, chunks, key_of, statement_time

_podms, _parts, _shards = tables.podms.c, tables.claim_parts.c, tables.shards.c
_expired = sa.select(sa.func.count()).where(tables.claims.c.sweep_at <= statement_time())
#: The count of each shard of the change log; shard -1 has the number of claims to free.
_COUNTS = sa.select(_shards.shard, _shards.moved).union_all(
    sa.select(sa.literal(-1), _expired.scalar_subquery())
)
TOTALS = sa.select(
    sa.func.coalesce(sa.func.sum(_shards.moved), 0),
    sa.func.coalesce(sa.func.sum(_shards.moved * (_shards.shard + 2)), 0),
    _expired.scalar_subquery(),
)


class LogTotals(NamedTuple):
    """The change log in one row: the sum of counts, a weighted sum, and claims to be freed.

    Counts only grow, so equal sums mean equal counts. A restored state may reach the old sum again
    through changes of other shards; the weighted sum then differs.
    """

    sum: int
    weighted: int
    expired: int


def registry_count(connection: sa.Connection) -> int:
    query = sa.select(_shards.moved).where(_shards.shard == tables.REGISTRY_SHARD)
    return int(connection.scalar(query) or 0)


@dataclass(frozen=True)
class LogPosition:
    """A position in the change log: the count of each shard at the last read."""

    shards: Mapping[int, int] = field(default_factory=dict)

    @functools.cached_property
    def changes(self) -> int:
        return sum(self.shards.values())

    @functools.cached_property
    def _weighted(self) -> int:
        return sum(count * (shard + 2) for shard, count in self.shards.items())

    def is_at(self, totals: LogTotals) -> bool:
        return bool(self.shards) and (self.changes, self._weighted) == totals[:2]

    def is_before(self, other: Self) -> bool:
        """Return whether no shard of another position has a lower count."""
        return all(other.shards.get(shard, -1) >= count for shard, count in self.shards.items())


@dataclass(frozen=True, slots=True)
class PodmChange:
    """A changed pod manager; ``podm`` is None if its content is unchanged, or if it is gone.

    ``usage`` is the usage by all claims. If ``incremental``, it is only the usage by new claims,
    and nothing else changed. ``failure`` is the present read failure. ``report`` is None without a
    report. An undecodable pod manager counts as gone. ``read_at`` may differ without a change.
    """

    id: str
    gone: bool
    podm: LeanPodm | None
    usage: Usage = NO_USAGE
    incremental: bool = False
    failure: ReadFailure | None = None
    report: ReportedSwitch | None = None
    read_at: str | None = None


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The changes since a position, and the position after them.

    ``expired_claims`` counts the expired claims whose holds are still in ``changes``.
    ``registry_changed`` is true if registrations changed.
    """

    changes: tuple[PodmChange, ...]
    position: LogPosition
    expired_claims: int
    registry_changed: bool = False


@dataclass(frozen=True, slots=True)
class _ChangedRow:
    """The row of a changed pod manager; if only ``claims`` are new, other columns are not read.

    If ``claims`` is None, anything may have changed.
    """

    key: str
    name: str
    gone: bool = False
    content_changed: bool = False
    generation: int = 0
    read_at: str | None = None
    failure: bytes | None = None
    stats: bytes | None = None
    claims: tuple[str, ...] | None = None


def take_snapshot(
    connection: sa.Connection, since: LogPosition, known: Mapping[str, LeanPodm], counts: WorkCounts
) -> StoreSnapshot:
    """Return the changes since a position; all reads are of one database snapshot.

    Reads the counts of the shards of the change log, and then only pod managers of shards that
    changed.
    """
    shards = {shard: count for shard, count in connection.execute(_COUNTS)}  # noqa: C416
    expired = shards.pop(-1)
    before = {shard: since.shards.get(shard, -1) for shard in shards}
    behind = [shard for shard in sorted(shards) if shards[shard] != before[shard]]
    if not behind:
        counts.rows_read += len(shards)
        return StoreSnapshot((), LogPosition(shards), expired)
    registry_changed = tables.REGISTRY_SHARD in behind
    behind = [shard for shard in behind if shard < tables.SHARDS]
    newer = (sa.and_(_podms.shard == shard, _podms.moved > before[shard]) for shard in behind)
    is_first = all(count < 0 for count in before.values())  # then all rows are newer
    rows = _rows(connection, before, sa.true() if is_first else sa.or_(*newer)) if behind else []
    if since.shards and behind:
        rows += _newly_claimed(connection, before, behind, {row.key for row in rows})
    counts.rows_read += len(shards) + sum(len(row.claims or "1") for row in rows)
    changed = [row for row in rows if row.content_changed and not row.gone]
    podms, decoded_count = _changed_podms(connection, changed, known)
    counts.podms_decoded += decoded_count
    lost = {row.key for row in changed} - podms.keys()
    total_keys = [row.key for row in rows if row.claims is None and not row.gone]
    total = usages(connection, total_keys, everything=not since.shards)
    claims = [claim for row in rows for claim in row.claims or ()]
    added = usages(connection, [row.key for row in rows if row.claims], claims=claims)
    counts.usages_read += sum(len(usage.blocks) for usage in (*total.values(), *added.values()))
    changes = []
    for row in sorted(rows, key=lambda row: row.name):
        usage = (total if row.claims is None else added).get(row.key, NO_USAGE)
        podm, is_gone = podms.get(row.key), row.gone or row.key in lost
        failure = decoded(connection, _podms.failure, row.name, row.failure)
        rest = row.claims is not None, failure, _report(connection, row), row.read_at
        changes.append(PodmChange(row.name, is_gone, podm, usage, *rest))
    return StoreSnapshot(tuple(changes), LogPosition(shards), expired, registry_changed)


class _Report(msgspec.Struct, frozen=True):
    stats: ReportedSwitch


def _report(connection: sa.Connection, row: _ChangedRow) -> ReportedSwitch | None:
    rows = [(row.name, row.stats)] if row.stats is not None else []
    decode = msgspec.json.Decoder(_Report).decode
    return next(readable(connection, tables.podms, rows, lambda _, text: decode(text).stats), None)


def _rows(
    connection: sa.Connection, before: Mapping[int, int], where: sa.ColumnElement[bool]
) -> list[_ChangedRow]:
    first = _podms.podm_key, _podms.name, _podms.gone, _podms.shard, _podms.read_moved
    query = sa.select(*first, _podms.generation, _podms.read_at, _podms.failure, _podms.stats)
    found = []
    for key, name, gone, shard, moved, *columns in connection.execute(query.where(where)):
        known = before.get(shard)  # a manually damaged count may be newer
        is_newer = known is None or not isinstance(moved, int) or moved > known
        found.append(_ChangedRow(key, name, bool(gone), is_newer, *columns))
    return found


def _newly_claimed(
    connection: sa.Connection, before: Mapping[int, int], behind: list[int], other_keys: set[str]
) -> list[_ChangedRow]:
    """Return pod managers with new claims and no other change.

    A claim on several pod managers counts as another change: its nodes count once it is held.
    """
    newer = [sa.and_(_parts.shard == shard, _parts.moved > before[shard]) for shard in behind]
    others = tables.claim_parts.alias().c
    is_other = others.claim_id == _parts.claim_id, others.podm_key != _parts.podm_key
    query = sa.select(_parts.podm_key, _podms.name, _parts.claim_id, sa.exists().where(*is_other))
    query = query.join(tables.podms, _podms.podm_key == _parts.podm_key).where(sa.or_(*newer))
    claims: dict[tuple[str, str], list[str]] = defaultdict(list)
    whole = set()
    for key, name, claim, has_others in connection.execute(query):
        if key not in other_keys:
            claims[key, name].append(claim)
            whole.update([key] if has_others else [])
    rows = _rows(connection, before, _podms.podm_key.in_(sorted(whole))) if whole else []
    alone = [one for one in claims if one[0] not in whole]
    return rows + [_ChangedRow(*one, claims=tuple(claims[one])) for one in alone]


def _changed_podms(
    connection: sa.Connection, rows: Sequence[_ChangedRow], known: Mapping[str, LeanPodm]
) -> tuple[dict[str, LeanPodm], int]:
    """Return decodable pod managers, including known ones, and the number of documents read."""
    found = {}
    for row in rows:
        podm = known.get(row.name)
        if podm is not None and podm.generation == row.generation:
            same_time = podm.read_at == row.read_at
            found[row.key] = podm if same_time else replace(podm, read_at=row.read_at)
    unknown = [row.key for row in rows if row.key not in found]
    read = decodable(connection, documents(connection, unknown), StoredPodm.lean)
    return found | read, len(unknown)


_nodes = tables.nodes
_Condition = Callable[[sa.Table], sa.ColumnElement[bool]]


def usages(
    connection: sa.Connection,
    keys: Sequence[str],
    *,
    claims: Sequence[str] | None = None,
    everything: bool = False,
) -> dict[str, Usage]:
    """Return, by key, the usage of pod managers by all live claims, or only by ``claims``.

    With ``everything``, one query without keys reads the usage of many pod managers.
    """
    if everything and len(keys) > CHUNK:
        return _read_usages(connection)
    found: dict[str, Usage] = {}
    wanted, column = frozenset(keys), "podm_key" if claims is None else "claim_id"
    for some in chunks(keys if claims is None else claims):
        for key, usage in _read_usages(connection, column, some).items():
            if key in wanted:
                found[key] = found[key].plus(usage) if key in found else usage
    return found


def _read_usages(
    connection: sa.Connection, column: str = "", values: Sequence[str] = ()
) -> dict[str, Usage]:
    """Return the usage of pod managers by key; ``values`` of a column select rows."""

    def among(table: sa.Table) -> sa.ColumnElement[bool]:
        return table.c[column].in_(values) if column else sa.true()

    blocks: dict[str, dict[str, int]] = defaultdict(dict)
    amounts: dict[str, dict[str, float]] = defaultdict(dict)
    nodes: dict[str, list[Node]] = defaultdict(list)
    slot, stock = tables.claimed_blocks, tables.claimed_amounts
    held: dict[tuple[str, str], set[str]] = defaultdict(set)
    of_blocks = sa.select(slot.c.podm_key, slot.c.claim_id, slot.c.uri).where(among(slot))
    for key, claim, uri in connection.execute(of_blocks):
        blocks[key][uri] = blocks[key].get(uri, 0) + 1
        held[key, claim].add(uri)
    # a negative amount would increase the free amount
    of_amounts = sa.select(stock.c.podm_key, stock.c.uri, stock.c.amount)
    for key, uri, amount in connection.execute(of_amounts.where(among(stock), stock.c.amount > 0)):
        amounts[key][uri] = amounts[key].get(uri, 0.0) + amount
    for key, node in _planned_nodes(connection, among):
        nodes[key].append(node)
    settled: dict[str, list[Node]] = defaultdict(list)
    for id_, key, claim, is_counted, node in _composed_nodes(connection, among):
        if is_counted:
            nodes[key].append(node)
        if unheld := tuple(uri for uri in node.blocks if uri not in held[key, claim]):
            settled[key].append(replace(node, name=id_, blocks=unheld))
    return {
        key: Usage(
            blocks=blocks[key],
            amounts=amounts[key],
            nodes=tuple(nodes[key]),
            settled=tuple(settled[key]),
        )
        for key in {*blocks, *amounts, *nodes, *settled}
    }


#: Whether group rules or owner preferences count the nodes of a claim.
_IS_COUNTED = sa.or_(tables.claims.c.owner.is_not(None), tables.claims.c.group_name.is_not(None))


def _planned_nodes(connection: sa.Connection, among: _Condition) -> Iterator[tuple[str, Node]]:
    parts, claims = tables.claim_parts, tables.claims.c
    query = (
        sa.select(claims.id, parts.c.podm_key, claims.owner, claims.group_name, claims.document)
        .join(tables.claims, claims.id == parts.c.claim_id)
        .where(among(parts), _IS_COUNTED, claims.state.in_(("HELD", "COMPOSING")))
        .order_by(claims.created_at, claims.id)
    )

    def nodes_of(
        claim: str, key: str, owner: str | None, group: str | None, document: bytes
    ) -> list[tuple[str, Node]]:
        found = []
        for part in claim_rows.decode_parts(document):
            for share in part.shares if key_of(part.podm) == key and part.node is None else ():
                uri, blocks, flavor = f"claim:{claim}#{share.node}", share.blocks, share.flavor
                node = Node(uri=uri, owner=owner, group=group, blocks=blocks, flavor=flavor)
                found.append((key, replace(node, request=part.request)))
        return found

    for nodes in readable(connection, tables.claims, connection.execute(query), nodes_of):
        yield from nodes


def _composed_nodes(
    connection: sa.Connection, among: _Condition
) -> Iterator[tuple[str, str, str, bool, Node]]:
    """Yield nodes, each after its id, the key of its pod manager, its claim, and its counting."""
    claims = tables.claims.c
    query = sa.select(*(_nodes.c[name] for name in ("id", "podm_key", "claim_id")), _IS_COUNTED)
    query = query.add_columns(_nodes.c.document)
    query = query.join(tables.claims, claims.id == _nodes.c.claim_id)
    query = query.where(among(_nodes)).order_by(claims.created_at, _nodes.c.id)
    names = ("uri", "name", "owner", "group", "blocks", "flavor", "request")

    def node_of(
        id_: str, key: str, claim: str, is_counted: bool, document: bytes
    ) -> tuple[str, str, str, bool, Node]:
        one = claim_rows.decode_node(document)
        return id_, key, claim, is_counted, Node(**{name: getattr(one, name) for name in names})

    yield from readable(connection, _nodes, connection.execute(query), node_of)
