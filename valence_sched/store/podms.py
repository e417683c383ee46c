# SPDX-License-Identifier: Apache-2.0
"""Pod managers of the store: their last readings, generations, reports and failures."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from valence_sched.errors import IdentityConflict, InUse, UnknownName
from valence_sched.model import inventory
from valence_sched.model.base import digest_of
from valence_sched.model.hardware import StatsReport
from valence_sched.model.inventory import FullPodm, LeanPodm, Node, to_json
from valence_sched.model.podm_address import is_address
from valence_sched.model.reading import PreviousReading, ReadFailure
from valence_sched.model.stats import ReportedStats, Stats, apply_stats, merge_stats, podm_id
from valence_sched.store import identities, tables
from valence_sched.store.claim_rows import composed_claims, settle_claims
from valence_sched.store.document import decoded, quarantine_of, readable
from valence_sched.store.tables import chunks, key_of, now

_table = tables.podms
_full_decoder = msgspec.json.Decoder(FullPodm)
_lean_decoder = msgspec.json.Decoder(LeanPodm)
T = TypeVar("T")
P = TypeVar("P", FullPodm, LeanPodm)
NOTHING_REPORTED = ReportedStats({})
FAILURES = "failures"  # the fact of the failure weigher and filter
FailedReadings = Mapping[str, tuple[FullPodm, ReadFailure]]
Row = dict[str, Any]
Keys = Sequence[str]
_UPDATE = sa.update(_table).where(_table.c.podm_key == sa.bindparam("key"))


class _Named(msgspec.Struct, gc=False):
    uri: str = ""
    id: str = ""


class _Outline(msgspec.Struct, gc=False):
    """The part of a pod manager's document that is compared with the next reading."""

    id: str
    blocks: list[_Named] = []
    pools: list[_Named] = []
    nodes: tuple[Node, ...] = ()


_outline_decoder = msgspec.json.Decoder(_Outline)


class PodmRow(NamedTuple):
    """The row of a pod manager without its document; ``reported`` has the decoded ``stats``."""

    generation: int
    digest: str
    read_at: str | None
    gone: bool
    stats: bytes | None
    failure: bytes | None
    identity: str | None
    queried_at: float
    reported: ReportedStats = NOTHING_REPORTED

    def sound(self) -> Self:
        """Return the row without values of wrong types, which the next reading rewrites.

        A damaged generation is replaced by a new generation, which was never used.
        """
        is_number = isinstance(self.generation, int)
        read_at = self.read_at if isinstance(self.read_at, str) else None
        identity = self.identity if isinstance(self.identity, str) else None
        if is_number and (read_at, identity) == (self.read_at, self.identity):
            return self
        generation = self.generation if is_number else int(self.queried_at)
        return self._replace(digest="", generation=generation, read_at=read_at, identity=identity)


class EncodedPodm:
    """A read pod manager, encoded once even if its transaction runs again."""

    def __init__(self, podm: FullPodm) -> None:
        self.podm = podm

    @functools.cached_property
    def content(self) -> bytes:
        return to_json(replace(self.podm, generation=0, read_at=None))

    @functools.cached_property
    def digest(self) -> str:
        return digest_of(self.content)


Readings = Mapping[str, EncodedPodm]


class StoredPodm(NamedTuple):
    """A pod manager in the store: generation and time of reading are outside the document."""

    name: str
    generation: int
    read_at: str | None
    document: bytes
    written: bool = False

    def full(self) -> FullPodm:
        return self._decoded(_full_decoder)

    def lean(self) -> LeanPodm:
        """Return the pod manager with devices and status of its blocks as JSON text."""
        return self._decoded(_lean_decoder)

    def _decoded(self, decoder: msgspec.json.Decoder[P]) -> P:
        if not (isinstance(self.generation, int) and isinstance(self.read_at, str | None)):
            raise TypeError("its generation or read_at has a wrong type")
        podm = decoder.decode(self.document)
        return replace(podm, generation=self.generation, read_at=self.read_at)


class PodmUpdate(NamedTuple):
    """A pod manager to store in its ``row``, which is None for a new pod manager.

    If ``is_read`` is False, the update is not a reading, and an earlier read failure stays.
    """

    key: str
    reading: EncodedPodm
    row: PodmRow | None
    stats: bytes | None
    is_read: bool = True

    @property
    def recovered(self) -> bool:
        return self.is_read and self.row is not None and self.row.failure is not None

    @property
    def content_changed(self) -> bool:
        """Return whether any value changes, except the time of reading and the reported stats."""
        return self.row is None or self.row.gone or self.row.digest != self.reading.digest

    @property
    def known_identity(self) -> str | None:
        return self.row.identity if self.row and not self.row.gone else None

    @property
    def identity(self) -> str | None:
        return self.reading.podm.identity or self.known_identity

    @property
    def identity_move(self) -> identities.IdentityMove | None:
        """Return the identity of the reading to check for conflicts, None if it is unchanged."""
        podm, identity = self.reading.podm, self.identity
        by_address = self.content_changed and is_address(identity)
        if identity is None or not (by_address or identity != self.known_identity):
            return None
        blocks = {block.uri for block in podm.blocks}
        return identities.IdentityMove(self.key, podm.id, self.known_identity, identity, blocks)

    @property
    def row_changed(self) -> bool:
        row, read_at = self.row, self.reading.podm.read_at
        if self.content_changed or self.recovered or self.identity != self.known_identity:
            return True
        return not row or (row.read_at, row.stats) != (read_at, self.stats)

    @property
    def generation(self) -> int:
        if self.row is None:
            return max(1, self.reading.podm.generation)
        return self.row.generation + self.content_changed

    @property
    def stored(self) -> StoredPodm:
        podm, content = self.reading.podm, self.reading.content
        return StoredPodm(podm.id, self.generation, podm.read_at, content, self.content_changed)

    @property
    def columns(self) -> Row:
        reading = self.reading
        row = {"generation": self.generation, "digest": reading.digest, "gone": False}
        row |= {"read_at": reading.podm.read_at, "document": reading.content, "stats": self.stats}
        return {**row, **identities.columns(self.identity)}


def lock_row(connection: sa.Connection, key: str) -> PodmRow | None:
    """Lock and return the row of a pod manager, None if it was never read."""
    return rows_of(connection, [key], lock=True).get(key)


def rows_of(
    connection: sa.Connection, keys: Iterable[str], lock: bool = False
) -> dict[str, PodmRow]:
    """Return the rows of read pod managers by key; lock them in the order of their keys."""
    of, names = _table.c, PodmRow._fields[:-2]
    query = sa.select(of.podm_key, of.name, *(of[name] for name in names), now())
    query = (query.with_for_update() if lock else query).order_by(of.podm_key)
    found, quarantine = {}, quarantine_of(connection)
    for some in chunks(sorted(keys)):
        for key, name, *columns in connection.execute(query.where(of.podm_key.in_(some))).all():
            row = PodmRow(*columns).sound()
            if reported := decoded(connection, of.stats, name, row.stats):
                row = row._replace(reported=reported)
            if quarantine.has(_table.name, name):
                row = row._replace(digest="")  # the next reading replaces it
            found[key] = row
    return found


def remember(
    connection: sa.Connection, readings: Readings
) -> dict[str, StoredPodm | IdentityConflict]:
    """Store read pod managers by key; return their stored form.

    A generation changes only with the content. A reading that began before the stored reading, or
    that is of another service, is ignored. Composed nodes are counted from the reading once they
    appear there.
    """
    every, stored = _compare(connection, rows_of(connection, readings, lock=True), readings)
    moves = (update.identity_move for update in every)
    conflicts = identities.conflicts(connection, [move for move in moves if move])
    updates = [update for update in every if update.key not in conflicts]
    write(connection, updates)
    return {**stored, **{update.key: update.stored for update in updates}, **conflicts}


def unchanged(connection: sa.Connection, readings: Readings) -> dict[str, StoredPodm]:
    """Return the pod managers, by key, that :func:`remember` would leave unchanged."""
    rows = rows_of(connection, readings)
    updates, stored = _compare(connection, rows, {key: readings[key] for key in rows})
    equal = {update.key: update.stored for update in updates if not update.row_changed}
    waiting = {key for key, _ in composed_claims(connection, equal)}
    return stored | {key: podm for key, podm in equal.items() if key not in waiting}


def _compare(
    connection: sa.Connection, rows: Mapping[str, PodmRow], readings: Readings
) -> tuple[list[PodmUpdate], dict[str, StoredPodm]]:
    later = [
        key
        for key, row in rows.items()
        if not (row.gone or row.reported.alone) and _is_older(readings[key].podm.read_at, row)
    ]
    stored = documents(connection, later)
    stored = {key: stored[key] for key in decodable(connection, stored, StoredPodm.lean)}
    updates = []
    for key in sorted(readings.keys() - stored.keys()):
        reading, row, stats = readings[key], rows.get(key), None
        if row is not None and row.stats is not None:
            reported = replace(row.reported, alone=False)
            if reported.stats:
                reading = EncodedPodm(apply_stats(reading.podm, reported.stats))
            stats = to_json(reported) if reported != NOTHING_REPORTED else None
        updates.append(PodmUpdate(key, reading, row, stats))
    return updates, stored


def write(connection: sa.Connection, updates: Sequence[PodmUpdate]) -> None:
    """Write pod managers with locked rows, and settle the claims whose nodes they show."""
    changed = {update.key: update for update in updates if update.content_changed}
    new, rewritten, reread, learnt = [], [], [], {}
    reporting = set()  # pod managers that start or stop reporting
    for update in updates:
        key, podm = update.key, update.reading.podm
        if key in changed and update.row is None:
            row = {"podm_key": key, "name": podm.id, "shard": tables.shard_of(key)}
            new.append({**row, "moved": 0, "read_moved": 0, **update.columns})
        elif key in changed:
            rewritten.append({"key": key, **update.columns})
        elif update.row_changed:
            row = {"key": key, "read_at": podm.read_at, "stats": update.stats}
            reread.append({**row, **identities.columns(update.identity)})
        if key in changed:
            quarantine_of(connection).discard(_table.name, podm.id)
        if update.identity is not None and update.identity != update.known_identity:
            learnt[key] = update.identity
        if (update.row is None or update.row.stats is None) != (update.stats is None):
            reporting.add(key)
    recovered = {update.key for update in updates if update.recovered}
    _execute(connection, sa.insert(_table), new)
    _execute(connection, _UPDATE, rewritten)
    _execute(connection, _UPDATE, reread)
    _execute(connection, _UPDATE, [{"key": key, "failure": None} for key in sorted(recovered)])
    identities.learn(connection, learnt)
    _write_stocks_and_shares(connection, {key: one.reading.podm for key, one in changed.items()})
    settled = settle_claims(connection, {one.key: one.reading.podm for one in updates})
    tables.log_changes(connection, (settled | recovered | reporting) - changed.keys(), changed)


def _execute(connection: sa.Connection, statement: sa.Executable, rows: list[Row]) -> None:
    if rows:
        connection.execute(statement, rows)


def note_composed(connection: sa.Connection, name: str) -> None:
    """Settle the claims whose nodes the last reading shows, and reset the count of failures."""
    row, podm = lock_and_load(connection, name)
    if row is None or row.gone:
        return
    if podm and settle_claims(connection, {key_of(name): podm}):
        tables.log_changes(connection, [key_of(name)])
    stats = row.reported.stats
    if stats.get(FAILURES) or (stats.get("facts") or {}).get(FAILURES):
        _store_failures(connection, name, row, 0)


def note_removal(connection: sa.Connection, name: str, uri: str, freed: Collection[str]) -> None:
    """Remove a node, by its URI, from the stored reading, and free the ``freed`` blocks."""
    row, podm = lock_and_load(connection, name)
    if row is not None and podm is not None:
        rest = tuple(node for node in podm.nodes if node.uri != uri)
        if len(rest) < len(podm.nodes):
            _write_freed(connection, key_of(name), row, podm, rest, freed)


def note_changed(
    connection: sa.Connection,
    name: str,
    uri: str,
    detached: Collection[str],
    used: Mapping[str, float],
) -> None:
    """Remove blocks from a node of the stored reading and free them; add to amounts in use."""
    row, podm = lock_and_load(connection, name)
    if row is None or podm is None:
        return
    nodes = tuple(
        replace(node, blocks=tuple(it for it in node.blocks if it not in detached))
        if node.uri == uri
        else node
        for node in podm.nodes
    )
    stocks = []
    for stock in podm.stocks:
        amount = inventory.to_a_billionth(stock.used + used.get(stock.uri, 0.0))
        stocks.append(replace(stock, used=max(0.0, amount)))
    changed = replace(podm, stocks=tuple(stocks))
    if nodes != podm.nodes or changed != podm:
        _write_freed(connection, key_of(name), row, changed, nodes, detached)


def _write_freed(
    connection: sa.Connection,
    key: str,
    row: PodmRow,
    podm: FullPodm,
    rest: tuple[Node, ...],
    freed: Collection[str],
) -> None:
    """Write a reading with the nodes ``rest``; blocks of other nodes do not become free."""
    shown = {it for node in podm.nodes for it in node.blocks} & set(freed)
    others = {it for node in rest for it in node.blocks}
    blocks = []
    for block in podm.blocks:
        status = block.status
        if status and block.uri in shown and (status.shareable or block.uri not in others):
            block = replace(block, status=replace(status.released(), reserved=False))  # noqa: PLW2901
        blocks.append(block)
    reading = EncodedPodm(replace(podm, nodes=rest, blocks=tuple(blocks)))
    write(connection, [PodmUpdate(key, reading, row, row.stats, is_read=False)])


def load(connection: sa.Connection, names: Collection[str] | None = None) -> dict[str, FullPodm]:
    """Return the last readings of pod managers by name, by default of all."""
    keys = None if names is None else sorted({key_of(name) for name in names})
    found = decodable(connection, documents(connection, keys), StoredPodm.full).values()
    return {podm.id: podm for podm in sorted(found, key=lambda podm: podm.id)}


def decodable(
    connection: sa.Connection, found: Mapping[str, StoredPodm], decode: Callable[[StoredPodm], T]
) -> dict[str, T]:
    """Return the decoded pod managers; undecodable documents are left out."""
    rows = ((stored.name, key, stored) for key, stored in found.items())
    return dict(readable(connection, _table, rows, lambda _, key, stored: (key, decode(stored))))


def documents(connection: sa.Connection, keys: Keys | None = None) -> dict[str, StoredPodm]:
    """Return pod managers that are not gone, by key: of ``keys``, or all."""
    of = _table.c
    columns = of.podm_key, of.name, of.generation, of.read_at, of.document
    query = sa.select(*columns).where(~of.gone)
    queries = [query] if keys is None else [query.where(of.podm_key.in_(c)) for c in chunks(keys)]
    return {key: StoredPodm(*row) for one in queries for key, *row in connection.execute(one)}


def previous_readings(
    connection: sa.Connection, names: Collection[str]
) -> dict[str, PreviousReading]:
    """Return outlines of the last readings of pod managers, by name."""
    found = {}
    for stored in documents(connection, sorted(map(key_of, names))).values():
        one = _outline_decoder.decode(stored.document)
        blocks, pools = {it.uri for it in one.blocks}, {it.id for it in one.pools}
        found[one.id] = PreviousReading(frozenset(blocks), frozenset(pools), one.nodes)
    return found


def read_times(connection: sa.Connection, names: Collection[str]) -> dict[str, str | None]:
    """Return the times of the last readings of pod managers that are not gone, by name."""
    of = _table.c
    query = sa.select(of.name, of.read_at).where(~of.gone)
    queries = (query.where(of.podm_key.in_(some)) for some in chunks(sorted(map(key_of, names))))
    return {name: at for query in queries for name, at in connection.execute(query)}


def forget(connection: sa.Connection, key: str) -> None:
    """Forget the reading of a pod manager; its row stays, so that generations never repeat."""
    for table in (tables.stocks, tables.shares):
        connection.execute(sa.delete(table).where(table.c.podm_key == key))
    nothing = {"gone": True, "document": b"", "digest": "", **identities.columns(None)}
    nothing |= dict.fromkeys(("stats", "read_at", "failure"))
    update = sa.update(_table).where(_table.c.podm_key == key)
    connection.execute(update.values(generation=_table.c.generation + 1, **nothing))
    tables.log_changes(connection, content=[key])


def _write_stocks_and_shares(connection: sa.Connection, podms: Mapping[str, FullPodm]) -> None:
    if not podms:
        return
    for table in (tables.stocks, tables.shares):
        connection.execute(sa.delete(table).where(table.c.podm_key.in_(sorted(podms))))
    stocks: list[Row] = []
    shares: list[Row] = []
    for key, podm in podms.items():
        for stock in podm.stocks:
            row = {"podm_key": key, "stock_key": key_of(stock.uri), "uri": stock.uri}
            stocks.append({**row, "left_over": inventory.free_amount(stock)})
        for block in podm.blocks:
            if (status := block.status) is not None and status.shareable:
                row = {"podm_key": key, "block_key": key_of(block.uri)}
                shares.append({**row, "slots": status.slots})
    _execute(connection, sa.insert(tables.stocks), stocks)
    _execute(connection, sa.insert(tables.shares), shares)


def _is_older(read_at: str | None, row: PodmRow) -> bool:
    if read_at is None or row.read_at is None:
        return False
    try:
        stored = datetime.fromisoformat(row.read_at)
        # a stored time in the future, from a wrong clock, would block all readings
        return datetime.fromisoformat(read_at) < stored and stored.timestamp() <= row.queried_at
    except (ValueError, TypeError, OverflowError):
        return False


def lock_and_load(connection: sa.Connection, name: str) -> tuple[PodmRow | None, FullPodm | None]:
    return lock_row(connection, key_of(name)), load(connection, [name]).get(name)


def store_report(connection: sa.Connection, name: str | tuple[str, str], stats: Stats) -> int:
    """Store the report of a pod manager about itself; return its generation.

    The report overrides later readings. A pod manager that is never read has the age of its report.
    """
    id_ = podm_id(name)
    row = lock_row(connection, key_of(id_))
    at = tables.time_s(connection)
    return _store_report(connection, id_, row, stats, at)


def count_failure(connection: sa.Connection, name: str) -> None:
    """Add 1 to the fact ``failures`` of a pod manager, after it refused to compose.

    The time of the last report of the pod manager stays.
    """
    row, stored = lock_and_load(connection, name)
    if row is not None and stored is not None:
        before = stored.facts.get(FAILURES)
        count = before + 1 if isinstance(before, int | float) else 1
        _store_failures(connection, name, row, count)


def _store_failures(connection: sa.Connection, name: str, row: PodmRow, count: float) -> None:
    """Store the count in ``facts`` if the pod manager reports it there, else as a separate key."""
    in_facts = FAILURES in (row.reported.stats.get("facts") or {})
    stats: Stats = {"facts": {FAILURES: count}} if in_facts else {FAILURES: count}
    _store_report(connection, name, row, stats, row.reported.at)


def _store_report(
    connection: sa.Connection, name: str, row: PodmRow | None, stats: Stats, at: float | None
) -> int:
    before = row.reported if row else ReportedStats({})
    stored = load(connection, [name]).get(name)
    alone = stored is None or before.alone
    reported = ReportedStats(merge_stats(before.stats, stats), alone=alone, at=at)
    podm = apply_stats(stored or FullPodm(id=name), reported.stats)
    if alone and at is not None:
        podm = replace(podm, read_at=datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"))
    update = PodmUpdate(key_of(name), EncodedPodm(podm), row, to_json(reported), is_read=False)
    write(connection, [update])
    return update.generation


def reports(connection: sa.Connection) -> dict[str, StatsReport]:
    """Return the last reports of pod managers by name, with their ages by the database's clock."""
    found = {}
    for name, one, at in _decoded_column(connection, _table.c.stats):
        age_s = None if one.at is None else max(0.0, at - one.at)
        found[name] = StatsReport(stats=one.stats, age_s=age_s, at=one.at)
    return found


def failures(connection: sa.Connection) -> dict[str, ReadFailure]:
    """Return the present read failures of pod managers by name."""
    return {name: one for name, one, _ in _decoded_column(connection, _table.c.failure)}


def _decoded_column(
    connection: sa.Connection, column: sa.Column[Any]
) -> list[tuple[str, Any, float]]:
    of, kind = _table.c, cast(tables.Document, column.type)
    query = sa.select(of.name, column, now()).where(~of.gone, column.is_not(None))
    rows = connection.execute(query.order_by(of.name))
    decode = kind.decode
    return [*readable(connection, _table, rows, lambda name, text, at: (name, decode(text), at))]


def forget_report(connection: sa.Connection, name: str) -> None:
    """Remove a report, and with it the pod manager if it was never read.

    Raises UnknownName if there is no report, InUse if there are claims or nodes.
    """
    key = key_of(name)
    row = lock_row(connection, key)
    if row is None or row.gone or row.stats is None:
        raise UnknownName("pod manager that reported", name, reports(connection))
    if not row.reported.alone:
        connection.execute(_UPDATE, {"key": key, "stats": None})
        tables.log_changes(connection, [key])
        return
    check_unused(connection, name)
    forget(connection, key)


def check_unused(connection: sa.Connection, name: str) -> None:
    """Raise InUse if the store has claims or nodes of a pod manager; its row is locked."""
    if parts := identities.uses(connection, key_of(name)):
        hint = "run podm claim release and podm node delete first"
        raise InUse(f"pod manager {name!r} still has {' and '.join(parts)}: {hint}")


def record_failures(connection: sa.Connection, readings: FailedReadings) -> list[str]:
    """Store read failures of pod managers by name; return the names with a change.

    A repeated failure keeps the time of the first failure. A pod manager that was never read is
    stored without blocks.
    """
    by_key = {key_of(name): (name, *reading) for name, reading in readings.items()}
    known_rows = rows_of(connection, by_key, lock=True)
    at = tables.time_s(connection)
    of, changed, unknown = _table.c, dict[str, bytes](), list[PodmUpdate]()
    for key, (name, podm, failure) in by_key.items():
        row = known_rows.get(key)
        was = row.failure if row and not row.gone else None
        known: ReadFailure | None = decoded(connection, of.failure, name, was)
        present = replace(failure, since=known.since if known else at)
        if present == known:
            continue
        if row is None or row.gone:
            # registered properties may be unset later: they are not stored here
            bare = replace(podm, read_at=None, identity=None, zone=None, aggregates=(), traits=())
            bare = replace(bare, capabilities={}, facts={})
            unknown.append(PodmUpdate(key, EncodedPodm(bare), row, None, is_read=False))
        changed[key] = to_json(present)
    write(connection, unknown)
    rows = [{"key": key, "failure": failure} for key, failure in sorted(changed.items())]
    _execute(connection, _UPDATE, rows)
    tables.log_changes(connection, changed.keys() - {update.key for update in unknown})
    return sorted(by_key[key][0] for key in changed)
