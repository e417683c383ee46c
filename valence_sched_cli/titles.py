# SPDX-License-Identifier: Apache-2.0
"""The columns that a person names, held against those that a command has."""

from __future__ import annotations

from collections.abc import Sequence

from valence_sched.errors import UsageError, nearest, one_line

LIKE = 0.6  # from 0 to 1: titles are short, and a list of all of them helps more than a poor guess


def check(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse the name of a column that is not there.

    Raises:
        UsageError: with the nearest column.
    """
    keys = set(map(_key, known))
    for name in asked:
        if _key(name) not in keys:
            hint = nearest(name, dict.fromkeys(known), LIKE)
            raise UsageError(one_line(f"--column: no column named {name!r} ({hint})"))


def shares(asked: Sequence[str], known: Sequence[str]) -> bool:
    """Return whether one of the asked columns is there; all are, where none is asked for."""
    return not asked or not {*map(_key, asked)}.isdisjoint(map(_key, known))


def _key(name: str) -> str:
    """Return a name as cliff compares it."""
    return name.lower().strip().replace(" ", "_")
