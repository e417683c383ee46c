# SPDX-License-Identifier: Apache-2.0
"""Columns: checks those that a caller names; makes cells safe for terminals and flat for CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn

from valence_sched.errors import UsageError, one_line, suggest

FLAT = ("csv", "shell", "value")  # formats whose cells cannot hold a list or a map
STRUCTURED = ("json", "yaml")
MACHINE = (*FLAT, *STRUCTURED, "tsv")  # formats that programs read

#: Titles that people see: short ones, where the cells have the unit. Programs see the others.
SHORT_TITLES = {
    "Free Blocks": "Blocks",
    "Free Cores": "Cores",
    "Free Memory MiB": "Memory",
    "Free GPUs": "GPUs",
    "Free Drives": "Drives",
    "Total Memory MiB": "Total Memory",
    "Age": "Read",
}


def prepare_formatter(formatter: Any, name: str) -> Any:
    """Return the formatter of this name with what its cells need done to them."""
    if name in FLAT:
        return _CellFormatter(formatter, _flat_cell)
    if name in STRUCTURED:
        return formatter
    return _CellFormatter(formatter, _printable_cell, {} if name in MACHINE else SHORT_TITLES)


class _PrintableCell(FormattableColumn[Any]):
    """A cell that people see without the characters that would control their terminal."""

    def human_readable(self) -> str:
        return printable(self._value.human_readable())

    def machine_readable(self) -> Any:
        return self._value.machine_readable()


class _CellFormatter:
    """Prepares each cell and gives columns their ``titles`` before another formatter prints."""

    def __init__(
        self, formatter: Any, prepare: Callable[[Any], Any], titles: Mapping[str, str] | None = None
    ) -> None:
        self._formatter, self._prepare, self._titles = formatter, prepare, titles or {}

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        rows = (tuple(map(self._prepare, row)) for row in data)
        self._formatter.emit_list(self._named(names), rows, stdout, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        cells = tuple(map(self._prepare, data))
        self._formatter.emit_one(self._named(names), cells, stdout, parsed_args)

    def _named(self, names: Sequence[str]) -> list[str]:
        return [self._titles.get(name, name) for name in names]


def full_titles(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return named columns with the titles of these columns in place of the short ones."""
    known = {_column_key(column) for column in columns}
    long_title = {_column_key(short): title for title, short in SHORT_TITLES.items()}
    return [
        name if _column_key(name) in known else long_title.get(_column_key(name), name)
        for name in names
    ]


def printable(text: str) -> str:
    """Return text with every character that is not for printing replaced, but for line ends."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


def _printable_cell(cell: Any) -> Any:
    """Return a cell for people: no name of a pod manager can control their terminal."""
    if isinstance(cell, FormattableColumn):
        return _PrintableCell(cell)
    return printable(cell) if isinstance(cell, str) else cell


def _flat_cell(cell: Any) -> Any:
    """Return a cell that holds no structure: JSON in its place, nothing for null."""
    value = cell.machine_readable() if isinstance(cell, FormattableColumn) else cell
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


#: From 0 to 1: titles are short, and a list of all of them helps more than a poor guess.
MIN_SIMILARITY = 0.6


def check_columns(names: Sequence[str], columns: Sequence[str], option: str = "--column") -> None:
    """Refuse the name of an unknown column: UsageError, with the nearest one."""
    keys = set(map(_column_key, columns))
    for name in names:
        if _column_key(name) not in keys:
            hint = suggest(name, dict.fromkeys(columns), MIN_SIMILARITY)
            raise UsageError(one_line(f"{option}: no column named {name!r} ({hint})"))


def has_any_column(names: Sequence[str], columns: Sequence[str]) -> bool:
    """Return whether a command has one of the named columns; so it does where none is named."""
    return not names or not {*map(_column_key, names)}.isdisjoint(map(_column_key, columns))


def _column_key(name: str) -> str:
    """Return a name as cliff compares it."""
    return name.lower().strip().replace(" ", "_")
