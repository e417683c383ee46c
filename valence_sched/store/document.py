# SPDX-License-Identifier: Apache-2.0
"""Documents of the store: checked before they are written, left out where they do not decode."""

from __future__ import annotations

import functools
import importlib
import logging
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from valence_sched.errors import InputError, Undecodable, describe_error, one_line
from valence_sched.model.codec import decode
from valence_sched.model.decision import Report, Reports, parse_report

#: What decoding a value of another kind, or of none, raises; msgspec's errors are ValueErrors.
UNDECODABLE = (ValueError, TypeError, RecursionError, InputError)

BINARY_BYTES = 2**32 - 1  # MySQL chooses its column type by the size
NAME = "stored document"


class InvalidDocument(InputError, sa.exc.DontWrapMixin):
    """A document that could not be read back: nothing of its transaction is written."""


class Document(sa.TypeDecorator[bytes]):
    """A column of JSON documents of one ``kind``: a type, its name, or what decodes one.

    A kind by its name, as in ``model.claim.Claim``, is imported when a document is decoded first.
    An empty document stands for none.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(BINARY_BYTES)

    def decode(self, data: bytes) -> Any:
        """Return what a document is; one of :data:`UNDECODABLE` where it is none of this kind."""
        return _decoder(self.kind)(data)

    def check(self, data: bytes) -> None:
        """Raise InvalidDocument, which names the place, for what could not be read back."""
        found: Exception | None = None
        try:
            self.decode(data)
            return
        except UNDECODABLE as error:
            found = error
        if not isinstance(found, InputError):  # msgspec's, which does not tell what it found
            try:
                decode(data, resolved(self.kind), NAME)
            except InputError as error:
                found = error
        if not isinstance(found, InputError):
            raise InvalidDocument(NAME, "$", found=describe_error(found))
        raise InvalidDocument(NAME, found.document_path, found.found, found.expected, found.hint)

    def process_bind_param(self, value: bytes | None, _dialect: sa.Dialect) -> bytes | None:
        if value:
            self.check(value)
        return value


class NonNegative(sa.TypeDecorator[float]):
    """A column of amounts, none of which is negative."""

    impl = sa.Double
    cache_ok = True
    kind = Annotated[float, Meta(ge=0)]

    def process_bind_param(self, value: float | None, _dialect: sa.Dialect) -> float | None:
        try:
            return None if value is None else msgspec.convert(value, self.kind)
        except msgspec.ValidationError:
            raise InvalidDocument("stored amount", "", repr(value), "0 or more") from None


def document_of(column: sa.Column[Any]) -> Document:
    """Return what the documents of a column are."""
    assert isinstance(column.type, Document), column
    return column.type


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    kind = resolved(kind)
    if isinstance(kind, types.FunctionType):
        return kind
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    return decode


def resolved(kind: Any) -> Any:
    """Return a kind that may be given by its name."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.rpartition(".")
    return getattr(importlib.import_module(f"valence_sched.{module}"), name)


def decode_decision(data: bytes) -> Report | Reports:
    """Return a stored decision, without fields that only a newer program knows."""
    return parse_report(data, NAME)[0]


LOG = logging.getLogger("valence_sched.store")
T = TypeVar("T")
_KEY = "valence_sched.quarantine"


class Quarantine:
    """The rows of one store that are known to be undecodable, by table; each is logged once."""

    def __init__(self) -> None:
        self._rows: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def add(self, table: str, label: str, error: BaseException | str) -> None:
        with self._lock:
            rows = self._rows.setdefault(table, set())
            is_new = label not in rows
            rows.add(label)
        if is_new:
            text = (
                "%s %s cannot be decoded and is left out: %s (valence-scheduler store check --deep)"
            )
            LOG.warning(text, table, label, one_line(str(error), 200))

    def keep(self, table: str, labels: Iterable[str]) -> None:
        """Forget the rows of a table but these: every row of it was decoded just now."""
        with self._lock:
            self._rows[table] = self._rows.get(table, set()).intersection(labels)

    def has(self, table: str, label: str) -> bool:
        return label in self._rows.get(table, ())

    def discard(self, table: str, label: str) -> None:
        with self._lock:
            self._rows.get(table, set()).discard(label)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {table: len(rows) for table, rows in sorted(self._rows.items()) if rows}

    def follow(self, engine: sa.Engine) -> None:
        """Let what reads rows over the connections of an engine find this."""

        def note(_connection: object, record: Any) -> None:
            record.info[_KEY] = self

        sa.event.listen(engine, "connect", note)


def quarantine_of(connection: sa.Connection) -> Quarantine:
    """Return where the undecodable rows of a connection's store are noted."""
    found: Quarantine | None = connection.info.get(_KEY)
    return connection.info.setdefault(_KEY, Quarantine()) if found is None else found


def readable(
    connection: sa.Connection, table: sa.Table, rows: Iterable[Any], make: Callable[..., T]
) -> Iterator[T]:
    """Yield what ``make`` makes of each row; those that it cannot decode are noted and left out."""
    for row in rows:
        try:
            found = make(*row)
        except UNDECODABLE as error:
            quarantine_of(connection).add(table.name, str(row[0]), error)
        else:
            yield found


def decoded(connection: sa.Connection, column: sa.Column[Any], label: str, data: Any) -> Any:
    """Return the document of a column, None for none and for one that is noted as undecodable."""
    decode, rows = document_of(column).decode, ((label, data),) if data else ()
    return next(readable(connection, column.table, rows, lambda _, text: decode(text)), None)


def one_readable(
    connection: sa.Connection,
    table: sa.Table,
    kind: str,
    row: Any,
    make: Callable[..., T],
    owner: str | None = None,
) -> T:
    """Return what ``make`` makes of a row; Undecodable, with its first column, for nothing."""
    for found in readable(connection, table, (row,), make):
        return found
    raise Undecodable(kind, str(row[0]), owner)
