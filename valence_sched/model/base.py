# SPDX-License-Identifier: Apache-2.0
"""``Noun``, the frozen and strict base of all documents, and ``Value``, a JSON value."""

from __future__ import annotations

from msgspec import Struct


class Noun(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a document; fields at their defaults are left out when it is written."""


Value = bool | int | float | str | list[str] | dict[str, list[str]] | None


def format_value(value: Value) -> str:
    """Print a value for a person: whole numbers without a point, lists and maps in words."""
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
