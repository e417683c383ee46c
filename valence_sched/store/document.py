# SPDX-License-Identifier: Apache-2.0
"""Column types whose values are checked as they will be read before a row is written."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from valence_sched.errors import InputError, describe_error
from valence_sched.model.codec import decode

if TYPE_CHECKING:
    from valence_sched.model.decision import Report, Reports

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
        try:
            self.decode(data)
        except UNDECODABLE as error:
            raise _invalid(error, data, self.kind) from None

    def process_bind_param(self, value: bytes | None, _dialect: sa.Dialect) -> bytes | None:
        """Return a document that is about to be written, once it was decoded."""
        if value:
            self.check(value)
        return value


class NonNegative(sa.TypeDecorator[float]):
    """A column of amounts, none of which is negative."""

    impl = sa.Double
    cache_ok = True
    kind = Annotated[float, Meta(ge=0)]

    def process_bind_param(self, value: float | None, _dialect: sa.Dialect) -> float | None:
        """Return an amount that is about to be written; InvalidDocument for what is none."""
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
    from valence_sched.model.decision import parse_report  # only where decisions are stored

    return parse_report(data, NAME)[0]


def _invalid(error: Exception, data: bytes, kind: Any) -> InvalidDocument:
    if not isinstance(error, InputError):  # msgspec's, which does not tell what it found
        try:
            decode(data, resolved(kind), NAME)
        except InputError as found:
            error = found
    if not isinstance(error, InputError):
        return InvalidDocument(NAME, "$", found=describe_error(error))
    return InvalidDocument(NAME, error.document_path, error.found, error.expected, error.hint)
