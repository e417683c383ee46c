# SPDX-License-Identifier: Apache-2.0
"""``Noun``, the frozen and strict base of all documents, and ``Value``, a JSON value."""

import contextlib
import hashlib
import re
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

N = TypeVar("N", bound=Struct)
MAX_WHOLE = 2**53  # floats represent all smaller whole numbers exactly
Whole = Annotated[int, Meta(gt=-MAX_WHOLE, lt=MAX_WHOLE)]
#: A property of a pod manager: a number, a text, or several texts.
Fact = Annotated[float, Meta(gt=-MAX_WHOLE, lt=MAX_WHOLE)] | str | tuple[str, ...]
#: A value in an explanation: the value that a filter requires, or the value of a pool.
Value = bool | int | float | str | list[str] | dict[str, list[str]] | None
ROOM = "valence_sched."
_FACT_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,2})?")
_BUILDING = threading.Lock()


class Portable(Struct, frozen=True):
    """A struct that is encoded to the same bytes after it was pickled.

    msgspec omits a field only if its value is the default object itself, not if the value only
    equals it. Without this class, an unpickled request would have another digest.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), *(getattr(self, name) for name in self.__struct_fields__))


def _restored(kind: type[Struct], *values: Any) -> Struct:
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = len(names) - len(defaults)
    fields = dict(zip(names, values, strict=True))
    for name, default in zip(names[required:], defaults, strict=True):
        if type(fields[name]) is type(default) and fields[name] == default:
            fields[name] = default
    return kind(**fields)


class Noun(Portable, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a document: unknown fields are errors, fields at their default are omitted."""


class FieldChanges(Noun, frozen=True, kw_only=True):
    """New values of some fields of a noun; UNSET fields stay unchanged."""

    def applied_to(self, noun: N) -> N:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        changes = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        return msgspec.structs.replace(noun, **changes)


def format_value(value: Value) -> str:
    """Format a value for people: ``None`` as unknown, an empty list or map as ``none``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value.is_integer():
            return f"{value:,.0f}"
        return f"{value:,.3f}" if abs(value) >= 0.001 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={';'.join(items)}" for key, items in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "unknown" if value is None else value


def is_number(value: object) -> bool:
    """Return whether a value is a number that a float can hold; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < sys.float_info.max


def as_text(value: object) -> str:
    """Return a value as a text; whole numbers have no decimal point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def digest_of(content: bytes, size: int = 16) -> str:
    """Return a digest of ``size`` bytes as hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=size).hexdigest()


def prepare_nouns() -> int:
    """Build the decoders of all nouns (not thread-safe in msgspec); return the number of nouns."""
    with _BUILDING:
        nouns = [kind for kind in _subclasses(msgspec.Struct) if kind.__module__.startswith(ROOM)]
        for kind in nouns:
            with contextlib.suppress(TypeError, NameError):  # a noun that is never decoded
                msgspec.json.Decoder(kind)
    return len(nouns)


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def parse_fact(text: str) -> float | str | tuple[str, ...]:
    """Parse the value of a fact: a number, a text, or a ``;``-separated list."""
    if _FACT_NUMBER.fullmatch(text):
        return float(text)
    parts = tuple(part.strip() for part in text.split(";"))
    return parts if len(parts) > 1 else text
