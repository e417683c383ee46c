# SPDX-License-Identifier: Apache-2.0
"""``Noun``, the frozen and strict base of all documents, and ``Value``, a JSON value."""

from typing import Annotated, Any

from msgspec import Meta, Struct


class Portable(Struct, frozen=True):
    """A struct that is written in the same bytes after another process has unpickled it.

    msgspec leaves a field out that *is* its default, not one that equals it: an unpickled word
    would be written, and a digest of the same request would be another one.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values of the fields, in their order."""
        return _restored, (type(self), *(getattr(self, name) for name in self.__struct_fields__))


def _restored(kind: type[Struct], *values: Any) -> Struct:
    """Return a struct with these values of its fields; those that equal a default are that."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = len(names) - len(defaults)
    fields = dict(zip(names, values, strict=True))
    for name, default in zip(names[required:], defaults, strict=True):
        if type(fields[name]) is type(default) and fields[name] == default:
            fields[name] = default
    return kind(**fields)


class Noun(Portable, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a document: an unknown field is an error, a field at its default is not written."""


#: From here on not every whole number is a float: one would be rounded without a word.
MAX_WHOLE = 2**53

Whole = Annotated[int, Meta(gt=-MAX_WHOLE, lt=MAX_WHOLE)]

#: What a pod manager tells of itself beside its hardware: a number, a word, or several words.
Fact = Annotated[float, Meta(gt=-MAX_WHOLE, lt=MAX_WHOLE)] | str | tuple[str, ...]

#: A value that an explanation shows: what a filter needs, or what a pool has.
Value = bool | int | float | str | list[str] | dict[str, list[str]] | None


def format_value(value: Value) -> str:
    """Format a value for people: whole numbers without a point, lists and maps in words.

    ``None`` is unknown, and an empty list is none.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={';'.join(items)}" for key, items in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "unknown" if value is None else value
