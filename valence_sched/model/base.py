# SPDX-License-Identifier: Apache-2.0
"""``Noun``, the frozen and strict base of all documents, and ``Value``, a JSON value."""

from __future__ import annotations

from msgspec import Struct


class Noun(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a document: an unknown field is an error, a field at its default is not written."""


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
