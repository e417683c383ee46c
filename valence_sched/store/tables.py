# SPDX-License-Identifier: Apache-2.0
"""Tables: columns, documents, keys, clock functions and the change log, for all engines.

The change log counts the changes of each shard in the last statements of a transaction. Concurrent
transactions of a shard wait, so that its counts become visible in order.
"""

import functools
import importlib
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.functions import FunctionElement

from valence_sched.errors import InputError, describe_error
from valence_sched.model.base import digest_of
from valence_sched.model.claim import ClaimPart, ComposedNode, State
from valence_sched.model.codec import decode
from valence_sched.model.decision import DecisionSummary, Report, Reports, parse_report
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.model.stats import ReportedStats

#: The errors of decoding a wrong value; msgspec's errors are ValueErrors.
UNDECODABLE = (ValueError, TypeError, RecursionError, InputError)
BINARY_BYTES = 2**32 - 1  # MySQL chooses the column type by this size
NAME = "stored document"


class InvalidDocument(InputError, sa.exc.DontWrapMixin):
    """A document that could not be read back: its transaction is not written."""


class Document(sa.TypeDecorator[bytes]):
    """A column of JSON documents of one ``kind``: a type, its name, or a decoder.

    A kind by name, such as ``model.claim.Claim``, is imported at the first decoding. An empty value
    stands for a missing document.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(BINARY_BYTES)

    def decode(self, data: bytes) -> Any:
        """Return a decoded document; an error in :data:`UNDECODABLE` for another kind."""
        return _decoder(self.kind)(data)

    def check(self, data: bytes) -> None:
        """Raise InvalidDocument, which names the place, if a value could not be read back."""
        try:
            try:
                self.decode(data)
            except InputError:
                raise
            except UNDECODABLE:
                decode(data, resolved(self.kind), NAME)  # unlike msgspec, its error names the value
                raise
        except InputError as error:
            found = error.document_path, error.found, error.expected, error.hint
            raise InvalidDocument(NAME, *found) from None
        except UNDECODABLE as error:
            raise InvalidDocument(NAME, "$", found=describe_error(error)) from None

    def process_bind_param(self, value: bytes | None, _dialect: sa.Dialect) -> bytes | None:
        if value:
            self.check(value)
        return value


class NonNegative(sa.TypeDecorator[float]):
    """A column of amounts that are never negative."""

    impl = sa.Double
    cache_ok = True
    kind = Annotated[float, Meta(ge=0)]

    def process_bind_param(self, value: float | None, _dialect: sa.Dialect) -> float | None:
        try:
            return None if value is None else msgspec.convert(value, self.kind)
        except msgspec.ValidationError:
            raise InvalidDocument("stored amount", "", repr(value), "0 or more") from None


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    kind = resolved(kind)
    return kind if isinstance(kind, types.FunctionType) else msgspec.json.Decoder(kind).decode


def resolved(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.rpartition(".")
    return getattr(importlib.import_module(f"valence_sched.{module}"), name)


def decode_decision(data: bytes) -> Report | Reports:
    """Return a stored decision without the fields of newer programs."""
    return parse_report(data, NAME)[0]


CHUNK = 500  # values in one statement
METADATA = sa.MetaData()
_INNODB = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
KEY = sa.String(32)
TEXT = sa.String(1024)
DOCUMENT = sa.LargeBinary(BINARY_BYTES)  # a document of any kind, for migrations
KIND = "kind"  # key in the ``info`` of a column: the type of its values
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def table(name: str, *columns: SchemaItem) -> sa.Table:
    return sa.Table(name, METADATA, *columns)


@sa.event.listens_for(METADATA, "before_create")
def _choose_innodb(metadata: sa.MetaData, connection: sa.Connection, **_options: Any) -> None:
    # only on MySQL, since these options always load its dialect
    for each in metadata.tables.values():
        each.dialect_kwargs.update(table_options(connection.dialect.name))


def table_options(dialect: str) -> dict[str, str]:
    mysql = dialect in ("mysql", "mariadb")
    return {f"{dialect}_{word}": it for word, it in _INNODB.items()} if mysql else {}


def key_of(*words: str) -> str:
    """Return the key of some words: 32 hexadecimal digits."""
    return digest_of("\0".join(words).encode())


def chunks(values: Sequence[str], size: int = CHUNK) -> Iterator[Sequence[str]]:
    """Yield values in parts, by default as many as one statement can contain."""
    return (values[first : first + size] for first in range(0, len(values), size))


def is_owned(column: sa.Column[str], owner: str | None) -> sa.ColumnElement[bool]:
    """Return whether a row belongs to an owner; None is any owner.

    MariaDB and MySQL ignore spaces at the end of compared texts, hence the dot.
    """
    return sa.true() if owner is None else column + "." == f"{owner}."


class statement_time(FunctionElement[float]):  # noqa: N801
    """Seconds since 1970 at the start of the statement: a constant, so indexes are used."""

    type = sa.Double()
    inherit_cache = True


class now(FunctionElement[float]):  # noqa: N801
    """Seconds since 1970 by the database's own clock."""

    type = sa.Double()
    inherit_cache = True


def time_s(connection: sa.Connection) -> float:
    """Return the present time of the database, in seconds since 1970."""
    return float(connection.scalar(sa.select(now())) or 0.0)


def _compile(element: type[FunctionElement[float]], text: str, *engines: str) -> None:
    for engine in engines:
        compiles(element, engine)(lambda _element, _compiler, **_options: text)


for _clock in (now, statement_time):
    _compile(_clock, "((julianday('now') - 2440587.5) * 86400.0)", "sqlite")
_compile(now, "extract(epoch from clock_timestamp())::double precision", "postgresql")
_compile(now, "(unix_timestamp(sysdate(6)) + 0e0)", "mysql", "mariadb")
_at_start = "extract(epoch from statement_timestamp())::double precision"
_compile(statement_time, _at_start, "postgresql")
_compile(statement_time, "(unix_timestamp(now(6)) + 0e0)", "mysql", "mariadb")


REVISION = "0013"  # the latest of migrations/versions, without an import of alembic
SHARDS = 64
Shard = Annotated[int, Meta(ge=0, lt=SHARDS)]
REGISTRY_SHARD = SHARDS  # counts the changes of registrations, and has no pod manager
ZONES_SHARD = SHARDS + 1  # counts the changes of child zones, and has no pod manager either

version = table("alembic_version", sa.Column("version_num", sa.String(32), primary_key=True))

#: Registered pod managers. Each ``identity``, with the key ``identity_key``, has only one name.
registry = table(
    "registry",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("document", Document(Registration), nullable=False),
    sa.Column("identity", TEXT),
    sa.Column("identity_key", KEY),
    sa.Index("registry_identity", "identity_key", unique=True),
)

#: The last readings of pod managers. ``generation`` changes with the content. ``moved`` is the
#: count of the shard at the last change other than a new claim, ``read_moved`` at the last change
#: of content. A ``gone`` pod manager keeps its row, so that its generation never repeats. Pod
#: managers that are not gone have distinct identities, so a claim by the key of a pod manager is
#: also a claim by its identity. ``failure`` is set while the pod manager cannot be read.
podms = table(
    "podms",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("digest", KEY, nullable=False),
    sa.Column("read_at", sa.String(64)),
    sa.Column("shard", sa.Integer, nullable=False, info={KIND: Shard}),
    sa.Column("moved", sa.BigInteger, nullable=False),
    sa.Column("read_moved", sa.BigInteger, nullable=False),
    sa.Column("gone", sa.Boolean, nullable=False),
    sa.Column("document", Document(FullPodm), nullable=False),
    sa.Column("stats", Document(ReportedStats)),
    sa.Column("failure", Document(ReadFailure)),
    sa.Column("identity", TEXT),
    sa.Column("identity_key", KEY),
    sa.Index("podms_moved", "shard", "moved"),
    sa.Index("podms_identity", "identity_key", unique=True),
)

#: The number of changes to the pod managers of a shard, which an incremental snapshot reads first.
shards = table(
    "shards",
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("moved", sa.BigInteger, nullable=False),
)

#: The free amounts of stocks at the last reading, which limit claims of amounts.
stocks = table(
    "stocks",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("stock_key", KEY, primary_key=True),
    sa.Column("uri", TEXT, nullable=False),
    sa.Column("left_over", NonNegative, nullable=False),
)

#: Blocks that several nodes may use, and their free places.
shares = table(
    "shares",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("block_key", KEY, primary_key=True),
    sa.Column("slots", sa.Integer, nullable=False),
)


def _claim_columns(states: Any) -> Iterator[SchemaItem]:
    """Yield the columns that claims and claims over zones have; ``states`` is their type.

    ``consumer_key`` identifies owner and idempotency key, None once the claim has ended.
    """
    yield sa.Column("id", sa.String(40), primary_key=True)
    yield sa.Column("state", sa.String(16), nullable=False, info={KIND: states})
    for name in ("owner", "group_name", "idempotency_key"):
        yield sa.Column(name, TEXT)
    yield sa.Column("consumer_key", KEY, unique=True)
    yield sa.Column("content", KEY, nullable=False)
    yield sa.Column("created_at", sa.Double, nullable=False)
    yield sa.Column("expires_at", sa.Double)


#: Claims, including ended claims. After ``sweep_at``, if any, a claim can be expired or freed.
claims = table(
    "claims",
    *_claim_columns(State),
    sa.Column("sweep_at", sa.Double),
    sa.Column("note", TEXT),
    sa.Column("document", Document(tuple[ClaimPart, ...]), nullable=False),
    sa.Index("claims_sweep_at", "sweep_at"),
)

#: The parts of claims with holds, one for each pod manager; ``moved`` is the count of the shard
#: when the part was added, so that a claim changes no wide row of a pod manager.
claim_parts = table(
    "claim_parts",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), primary_key=True),
    sa.Column("shard", sa.Integer, nullable=False, default=0),
    sa.Column("moved", sa.BigInteger, nullable=False, default=0),
    sa.Index("claim_parts_claim", "claim_id"),
    sa.Index("claim_parts_moved", "shard", "moved"),
)

#: Held blocks, a row for each node that uses a block; no two claims can have the same primary key.
claimed_blocks = table(
    "claimed_blocks",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("block_key", KEY, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), nullable=False),
    sa.Column("uri", TEXT, nullable=False),
    sa.Index("claimed_blocks_claim", "claim_id", "podm_key"),
)

#: Held amounts of stocks, the sum over the nodes of a claim.
claimed_amounts = table(
    "claimed_amounts",
    sa.Column("podm_key", KEY, primary_key=True),
    sa.Column("stock_key", KEY, primary_key=True),
    sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), primary_key=True),
    sa.Column("uri", TEXT, nullable=False),
    sa.Column("amount", NonNegative, nullable=False),
    sa.Index("claimed_amounts_claim", "claim_id", "podm_key"),
)

nodes = table(
    "nodes",
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("podm_key", KEY, nullable=False),
    sa.Column("claim_id", sa.String(40), nullable=False),
    sa.Column("document", Document(ComposedNode), nullable=False),
    sa.Index("nodes_podm", "podm_key"),
    sa.Index("nodes_claim", "claim_id"),
)

#: The difference between clock and uptime for each boot of the machine; only for a store in a file.
clocks = table(
    "clocks",
    sa.Column("boot", sa.String(64), primary_key=True),
    sa.Column("ahead_s", sa.Double, nullable=False),
    sa.Column("noted_at", sa.Double, nullable=False),
)

#: Leases: the process that does an exclusive job, and the end by the clock of the database.
leases = table(
    "leases",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("holder", sa.String(128), nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

#: Decisions; ``owner_key`` identifies the owner of the request.
decisions = table(
    "decisions",
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("decided_at", sa.Double, nullable=False),
    sa.Column("document", Document(decode_decision), nullable=False),
    sa.Column("owner_key", KEY),
    sa.Column("summary", Document(DecisionSummary)),
    sa.Index("decisions_decided_at", "decided_at"),
    sa.Index("decisions_owner", "owner_key", "decided_at"),
)

#: Records of a service: running operations, and answers by idempotency key.
records = table(
    "records",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("document", DOCUMENT, nullable=False),
)

#: The limits of the claims of owners, by resource. A row without an owner has the default limit.
quotas = table(
    "quotas",
    sa.Column("owner_key", KEY, primary_key=True),
    sa.Column("resource", sa.String(255), primary_key=True),
    sa.Column("owner", TEXT),
    sa.Column("most", NonNegative, nullable=False),
)

#: A row for each owner with limits. Its claims lock the row, so that concurrent claims are counted.
quota_locks = table("quota_locks", sa.Column("owner_key", KEY, primary_key=True))

#: The charges of a claim against the quota of its owner, by resource, until the claim ends.
quota_charges = table(
    "quota_charges",
    sa.Column("claim_id", sa.String(40), primary_key=True),
    sa.Column("resource", sa.String(255), primary_key=True),
    sa.Column("owner_key", KEY, nullable=False),
    sa.Column("amount", NonNegative, nullable=False),
    sa.Index("quota_charges_owner", "owner_key"),
)

#: Claims over the child zones, including ended claims.
zone_claims = table(
    "zone_claims",
    *_claim_columns("model.zone.ZoneClaimState"),
    sa.Column("note", TEXT),
    sa.Column("document", Document("model.zone.ZoneClaimParts"), nullable=False),
    sa.Index("zone_claims_state", "state", "expires_at"),
)

#: Changes of users of a service and of commands, in order; ``owner`` is the project of the user.
audit = table(
    "audit",
    sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("user", TEXT, nullable=False),
    sa.Column("owner", TEXT),
    sa.Column("request_id", sa.String(80), nullable=False),
    sa.Column("verb", sa.String(64), nullable=False),
    sa.Column("object", TEXT, nullable=False),
    sa.Column("outcome", sa.String(64), nullable=False),
)

#: The number of additions of members to each group of nodes, by claims here and over the zones
#: below. A claim under hard rules is written only at the generation of its decision.
group_generations = table(
    "group_generations",
    sa.Column("group_key", KEY, primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("moved_at", sa.Double, nullable=False),
)

#: Decisions for a controller, in order. A posted decision has no ``due_at``, but ``receipts``.
dispatches = table(
    "dispatches",
    sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(40), nullable=False),
    sa.Column("request_key", KEY, nullable=False),
    sa.Column("claim_id", sa.String(40)),
    sa.Column("document", Document(decode_decision), nullable=False),
    sa.Column("queued_at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", TEXT),
    sa.Column("sent_at", sa.Double),
    sa.Column("receipts", Document("model.dispatch.Receipts")),
    sa.Index("dispatches_due", "due_at"),
    sa.Index("dispatches_request", "request_key", "number"),
)

#: The history of claims after they were created, in order.
events = table(
    "events",
    sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("claim_id", sa.String(40)),
    sa.Column("podm", TEXT),
    sa.Column("words", TEXT),
    sa.Index("events_claim", "claim_id"),
)

#: The child zones; zones below a child are only in the state of that child.
zones = table(
    "zones",
    sa.Column("id", SERIAL, primary_key=True, autoincrement=True),
    sa.Column("zone_key", KEY, nullable=False, unique=True),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("document", Document("model.zone_registry.ZoneRegistration"), nullable=False),
    sa.Column("digest", KEY, nullable=False),
    sa.Column("report", Document("model.zone_registry.ZoneReport"), nullable=False),
    sa.Column("heard_at", sa.Double),
    sa.Column("polled_at", sa.Double),
)

#: The id of this zone, in one row; it is unique, while several zones may have the same name.
zone_identity = table(
    "zone_identity",
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(40), nullable=False),
)


def owner_key(owner: str | None) -> str:
    """Return the key of an owner; None stands for all owners without limits of their own."""
    return key_of(owner or "")


_NUMBER = sa.bindparam("number", type_=sa.Integer)
_KEY = sa.bindparam("key", type_=sa.String)
_CLAIM = sa.bindparam("claim", type_=sa.String)
_COUNT = sa.select(shards.c.moved).where(shards.c.shard == _NUMBER).scalar_subquery()
_ADVANCE = sa.update(shards).where(shards.c.shard == _NUMBER).values(moved=shards.c.moved + 1)
_MARK_USAGE = sa.update(podms).where(podms.c.podm_key == _KEY).values(shard=_NUMBER, moved=_COUNT)
_MARK_CONTENT = _MARK_USAGE.values(read_moved=_COUNT)
_PART = {"podm_key": _KEY, "claim_id": _CLAIM, "shard": _NUMBER, "moved": _COUNT}
_INSERT_PART = sa.insert(claim_parts).values(_PART)
_IS_PART = claim_parts.c.podm_key == _KEY, claim_parts.c.claim_id == _CLAIM
_RECOUNT_PART = sa.update(claim_parts).where(*_IS_PART).values(moved=_COUNT)


def shard_of(key: str) -> int:
    return int(key[:8], 16) % SHARDS


def log_changes(
    connection: sa.Connection, usage: Iterable[str] = (), content: Iterable[str] = ()
) -> None:
    marks: list[tuple[sa.Update, list[dict[str, Any]]]] = [
        (statement, [{"number": shard_of(key), "key": key} for key in sorted(keys)])
        for statement, keys in ((_MARK_USAGE, usage), (_MARK_CONTENT, content))
    ]
    numbers = {row["number"] for _, rows in marks for row in rows}
    if numbers:
        connection.execute(_ADVANCE, [{"number": number} for number in sorted(numbers)])
    for statement, rows in marks:
        if rows:
            connection.execute(statement, rows)


def advance_shard(connection: sa.Connection, number: int) -> None:
    connection.execute(_ADVANCE, {"number": number})


def add_claim_part(connection: sa.Connection, key: str, claim_id: str) -> None:
    advance_shard(connection, shard_of(key))
    connection.execute(_INSERT_PART, {"number": shard_of(key), "key": key, "claim": claim_id})


def recount_claim(connection: sa.Connection, keys: Iterable[str], claim_id: str) -> None:
    """Record that the nodes of a claim now count; the rows of pod managers do not change."""
    rows = [{"number": shard_of(key), "key": key, "claim": claim_id} for key in sorted(keys)]
    numbers = sorted({shard_of(str(row["key"])) for row in rows})
    connection.execute(_ADVANCE, [{"number": number} for number in numbers])
    connection.execute(_RECOUNT_PART, rows)
