# SPDX-License-Identifier: Apache-2.0
"""Cells: the cells of a CSV workload as the fields of a request, by the names of its columns.

A column is called after its field, within others with dots: ``properties.processor.total_cores``,
``properties.accelerators.0.count``. A list of words has semicolons between them, and any other
list or object is written as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from valence_sched.errors import InputError, suggest
from valence_sched.model.decode_error import types_at
from valence_sched.model.workload import TIMES, WorkloadLine

Row = Sequence[str]
#: Of each field its column, and the factor of its numbers in a recorded trace.
Positions = dict[str, tuple[int, float | None]]
Step = str | int


class Cells:
    """Reads the cells of rows: ``positions`` has by field its column and the factor of a trace.

    Raises:
        InputError: a field does not exist; one line, with the nearest.
    """

    def __init__(self, positions: Positions, file: str) -> None:
        self._positions = positions
        self._fields: list[tuple[list[Step], int, Callable[[str], Any]]] = []
        self._has_group = any(name.partition(".")[0] == "group" for name in positions)
        for name, (position, factor) in positions.items():
            if name not in TIMES and (name != "id" or self._has_group):
                steps, path = _steps(name, file)
                self._fields.append((steps, position, _reader(path, factor)))

    def time(self, name: str) -> Callable[[Row], str | float | None]:
        """Return what reads a time of a row, None where its cell is empty or has no column."""
        if name not in self._positions:
            return lambda row: None
        position, factor = self._positions[name]
        if factor in (None, 1.0):
            return lambda row: row[position] or None
        scale = _scaled(factor or 1.0, whole=False)
        return lambda row: scale(row[position]) if row[position] else None

    def key(self, names: Sequence[str]) -> Callable[[Row], Hashable]:
        """Return what reads all cells of a row but those of some fields."""
        others = [at for name, (at, _) in self._positions.items()
                  if name not in names or (name == "id" and self._has_group)]  # fmt: skip
        return lambda row: tuple([row[position] for position in others])

    def document(self, row: Row) -> dict[str, Any]:
        """Return the fields of a row in plain words; an empty cell says nothing."""
        document: dict[Step, Any] = {}
        for steps, position, read in self._fields:
            value = read(row[position].strip())
            if value is None:
                continue
            place = document
            for step in steps[:-1]:
                place = place.setdefault(step, {})
            place[steps[-1]] = value
        return _with_lists(document)  # type: ignore[no-any-return]


def _steps(name: str, file: str) -> tuple[list[Step], str]:
    """Return the steps to a field, and its path as a type knows it."""
    steps: list[Step] = []
    path, words = "", name.split(".")
    for number, word in enumerate(words):
        if any(isinstance(kind, inspect.DictType) for kind in types_at(WorkloadLine, path)):
            steps.append(".".join(words[number:]))  # a key of its own, which may have dots
            return steps, f"{path}[...]"
        below = f"{path}[{word}]" if word.isdigit() else f"{path}.{word}"
        if not types_at(WorkloadLine, below):
            known = [one.encode_name for kind in types_at(WorkloadLine, path)
                     for one in getattr(kind, "fields", ())]  # fmt: skip
            hint = suggest(word, known) if known else "name the fields of a request"
            raise InputError(f"{file}: line 1", "", f"unknown column {name!r}", hint=hint)
        steps.append(int(word) if word.isdigit() else word)
        path = below
    return steps, path


def _reader(path: str, factor: float | None) -> Callable[[str], Any]:
    """Return what reads a cell of a field, None for nothing; in a trace a 0 is nothing as well."""
    kinds = types_at(WorkloadLine, path)
    lists = [kind for kind in kinds if isinstance(kind, inspect.VarTupleType)]
    of_words = any(isinstance(kind.item_type, inspect.StrType) for kind in lists)
    whole = not any(isinstance(kind, inspect.FloatType) for kind in kinds)
    numeric = any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in kinds)
    scale = _scaled(factor or 1.0, whole=whole) if factor is not None and numeric else None

    def read(cell: str) -> Any:
        if not cell:
            return None
        if scale is not None:
            return scale(cell) or None
        if cell.startswith(("{", "[")):
            return _json(cell)
        if of_words:
            return [word.strip() for word in cell.split(";") if word.strip()]
        return cell

    return read


def _scaled(factor: float, *, whole: bool) -> Callable[[str], Any]:
    """Return what turns a number of a trace into our unit; where only whole ones may be, more."""

    def scale(cell: str) -> Any:
        try:
            number = float(cell)
        except ValueError:
            return cell  # whoever reads the field says what is wrong with it
        number = round(number * factor, 9)
        return math.ceil(number) if whole and math.isfinite(number) else number

    return scale


def _json(cell: str) -> Any:
    try:
        return msgspec.json.decode(cell)
    except msgspec.DecodeError:
        return cell


def _with_lists(value: Any) -> Any:
    """Return maps whose keys are numbers as lists, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}
