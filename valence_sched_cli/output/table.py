# SPDX-License-Identifier: Apache-2.0
"""Tables: titles, widths, formats and colours of what a command prints."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cliff import utils
from cliff.columns import FormattableColumn

from valence_sched.errors import UsageError, escape, one_line, suggest
from valence_sched.streams import encodable

USUAL_WIDTH = 80  # characters, where the screen has none
BORDER = 3  # characters that a column of a table has beside its widest cell
_INDENT = "  "  # of a line that goes on, in a cell of several lines


def screen_width() -> int | None:
    """Return how wide a table may be: what COLUMNS says, else the terminal; None for a pipe."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stream, or no terminal
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or None  # type: ignore[union-attr]
    return None


def fit_rows(
    titles: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None
) -> Sequence[Sequence[Any]]:
    """Return rows whose table is no wider than ``width``: that of the screen, if there is one.

    The widest columns are folded first, at spaces only. Where that is not enough, the rows are
    returned as they are: one long name would else make every other column narrow in vain.
    """
    width = screen_width() if width is None else width
    if width is None:
        return rows
    columns = [[_text(row[number]) for row in rows] for number in range(len(titles))]
    natural = [_longest(title, cells, "\n") for title, cells in zip(titles, columns, strict=True)]
    room = width - 1 - BORDER * len(titles)
    if sum(natural) <= room:
        return rows
    least = [_longest(title, cells, None) for title, cells in zip(titles, columns, strict=True)]
    widths = _share(natural, least, room)
    if widths is None:
        return rows
    folded = [number for number, wide in enumerate(natural) if widths[number] < wide]
    fitted = [list(row) for row in rows]
    for place, row in enumerate(fitted):
        for number in folded:
            row[number] = _fold(columns[number][place], widths[number])
    return fitted


def _share(natural: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Return widths that fit the room, the widest columns equal; None where none do."""
    for most in range(max(natural), 0, -1):
        widths = [min(wide, max(most, small)) for wide, small in zip(natural, least, strict=True)]
        if sum(widths) <= room:
            return widths
    return None


def _longest(title: str, cells: Sequence[str], separator: str | None) -> int:
    """Return the length of the longest part of a column: a line, or a word and its indentation."""
    indent = 0 if separator else len(_INDENT)
    parts = [len(part) + indent for cell in cells for part in cell.split(separator)]
    return max(len(title), *parts, 0)


def _fold(text: str, width: int) -> str:
    lines = text.replace(f"\n{_INDENT}", " ").split("\n")  # the second line of a fold before
    indent = _INDENT if len(lines) > 1 else ""
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False,
                      break_on_hyphens=False)
        for line in lines
    )  # fmt: skip


def _text(cell: Any) -> str:
    return str(cell.human_readable() if isinstance(cell, FormattableColumn) else cell)


def is_wider_than_terminal(width: int) -> bool:
    """Return whether so many columns are more than the terminal has, if there is one."""
    return sys.stdout.isatty() and width > (utils.terminal_width() or width)


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
    "Read At": "Read",
    "Podms Needed": "Podms",
}


def prepare_formatter(
    formatter: Any, name: str, *, colour: bool = False, stream: Any = None
) -> Any:
    """Return the formatter of this name with what its cells need done to them.

    What does not print is escaped in every format; ``json`` escapes it by itself. With ``colour``
    the cells of a table that have a colour get it. What the encoding of ``stream`` lacks is
    escaped before widths are counted.
    """
    if name == "yaml":
        return _YamlFormatter()
    if name in STRUCTURED:
        return formatter
    return _CellFormatter(formatter, name, colour, stream)


class _ShownCell(FormattableColumn[Any]):
    """A cell with the text that people see of it."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value)
        self._text = text

    def human_readable(self) -> str:
        return self._text

    def machine_readable(self) -> Any:
        return machine_value(self._value)


class _CellFormatter:
    """Prepares each cell and gives columns their titles before another formatter prints.

    The cells of a table are folded, unless an option says how wide it may be. Its words are broken,
    on a terminal, only where that makes the table fit.
    """

    def __init__(self, formatter: Any, name: str, colour: bool, stream: Any) -> None:
        self._formatter, self._name, self._colour = formatter, name, colour
        self._titles = {} if name in MACHINE else SHORT_TITLES
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = None if encoding.casefold().startswith("utf") else stream

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        titles = self._named(names)
        rows: Any = (tuple(map(self._cell, row)) for row in data)
        if self._name == "table" and not _has_width(parsed_args):
            rows = fit_rows(titles, list(rows))
        self._emit(self._formatter.emit_list, titles, rows, stdout, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        titles, cells = self._named(names), tuple(map(self._cell, data))
        if self._name == "table" and not _has_width(parsed_args):
            rows = fit_rows(("Field", "Value"), list(zip(titles, cells, strict=True)))
            cells = tuple(cell for _name, cell in rows)
        self._emit(self._formatter.emit_one, titles, cells, stdout, parsed_args)

    def _emit(self, emit: Any, names: Any, cells: Any, stdout: Any, parsed_args: Any) -> None:
        if self._name != "table" or _has_width(parsed_args):
            emit(names, cells, stdout, parsed_args)
            return
        broken = io.StringIO()
        emit(names, cells, broken, parsed_args)
        if not is_wider_than_terminal(len(broken.getvalue().partition("\n")[0])):
            stdout.write(broken.getvalue())
            return
        whole = copy.copy(parsed_args)
        whole.max_width = sys.maxsize
        emit(names, cells, stdout, whole)

    def _named(self, names: Sequence[str]) -> list[str]:
        return [escape(self._titles.get(name, name)) for name in names]

    def _cell(self, value: Any) -> Any:
        colour = self._colour and self._name == "table"
        cell = _flat_cell(value) if self._name in FLAT else _printable_cell(value, colour)
        if self._stream is not None and isinstance(cell, FormattableColumn):
            return _ShownCell(value, encodable(cell.human_readable(), self._stream))
        is_narrow = self._stream is not None and isinstance(cell, str)
        return encodable(cell, self._stream) if is_narrow else cell


def _has_width(parsed_args: Any) -> bool:
    return bool(getattr(parsed_args, "max_width", 0) or getattr(parsed_args, "fit_width", False))


def full_titles(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return named columns with the titles of these columns in place of the short ones."""
    known = {column_key(column) for column in columns}
    long_title = {column_key(short): title for title, short in SHORT_TITLES.items()}
    return [
        name if column_key(name) in known else long_title.get(column_key(name), name)
        for name in names
    ]


class StreamFormatter:
    """A formatter that prints to a stream of ours, whatever it is given."""

    def __init__(self, formatter: Any, stream: Any) -> None:
        self._formatter, self._stream = formatter, stream

    def emit_list(self, names: Sequence[str], data: Any, _stdout: Any, parsed_args: Any) -> None:
        self._formatter.emit_list(names, data, self._stream, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, _stdout: Any, parsed_args: Any) -> None:
        self._formatter.emit_one(names, data, self._stream, parsed_args)


class _YamlFormatter:
    """YAML as cliff prints it, with line ends in text escaped as every other control character."""

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, _parsed_args: Any) -> None:
        stdout.write(
            _yaml([dict(zip(names, map(machine_value, row), strict=True)) for row in data])
        )

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, _parsed_args: Any) -> None:
        for name, cell in zip(names, data, strict=True):
            stdout.write(_yaml({name: machine_value(cell)}))


def _yaml(value: object) -> str:
    import msgspec

    from valence_sched.model.codec import dump_yaml

    return dump_yaml(msgspec.to_builtins(value))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = map(_escaped, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if fields := getattr(type(value), "__struct_fields__", ()):
        return _escaped_struct(value, fields)
    return value


def _escaped_struct(noun: Any, fields: Sequence[str]) -> Any:
    """Return a copy of a noun that is only shown: what it checks when it is made is not checked."""
    from msgspec.structs import force_setattr

    copied = copy.copy(noun)
    for name in fields:
        force_setattr(copied, name, _escaped(getattr(noun, name)))
    return copied


def _printable_cell(cell: Any, colour: bool) -> Any:
    """Return a cell without the characters that would control a terminal, maybe in its colours.

    They are escaped in the value: of the line ends that people see none is part of a name.
    """
    coloured: Callable[..., str] | None = getattr(cell, "coloured", None)
    if isinstance(cell, FormattableColumn):
        bare = copy.copy(cell)
        bare._value = _escaped(bare._value)
        text = escape(bare.human_readable(), keep="\n")
        return _ShownCell(cell, coloured(text) if colour and coloured else text)
    if coloured:
        # without colours cliff aligns what is a plain number
        return _ShownCell(cell, coloured()) if colour else int(cell)
    return escape(cell) if isinstance(cell, str) else cell


def machine_value(cell: Any) -> Any:
    """Return what programs see of a cell."""
    return cell.machine_readable() if isinstance(cell, FormattableColumn) else cell


def _flat_cell(cell: Any) -> Any:
    """Return a cell that holds no structure: JSON in its place, nothing for null."""
    value = machine_value(cell)
    if isinstance(value, (list, dict)):
        return escape(json.dumps(value, ensure_ascii=False))
    if isinstance(value, str):
        return escape(value)
    return "" if value is None else value


def without_redundant(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    parsed_args: Any,
    redundant: Mapping[str, str | None],
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return columns and rows without what tells people nothing; programs get all columns.

    ``redundant`` has, by title, what a column says of every row when it tells nothing, and None
    where another column tells the same, which ``--long`` shows. Columns that are named stay.
    """
    named = {word.casefold() for word in (*parsed_args.columns, *parsed_args.sort_columns)}

    def is_redundant(name: str) -> bool:
        if parsed_args.formatter in MACHINE or name.casefold() in named or name not in redundant:
            return False
        nothing = redundant[name]
        if nothing is None:
            return not getattr(parsed_args, "long", False)
        return all(str(row[columns.index(name)]) == nothing for row in rows)

    visible = [name for name in columns if not is_redundant(name)]
    picks = [columns.index(name) for name in visible]
    return visible, [tuple(row[pick] for pick in picks) for row in rows]


#: From 0 to 1: titles are short, and a list of all of them helps more than a poor guess.
MIN_SIMILARITY = 0.6


def check_columns(names: Sequence[str], columns: Sequence[str], option: str = "--column") -> None:
    """Refuse the name of an unknown column: UsageError, with the nearest one."""
    keys = set(map(column_key, columns))
    for name in names:
        if column_key(name) not in keys:
            hint = suggest(name, dict.fromkeys(columns), MIN_SIMILARITY)
            raise UsageError(one_line(f"{option}: no column named {name!r} ({hint})"))


def has_any_column(names: Sequence[str], columns: Sequence[str]) -> bool:
    """Return whether a command has one of the named columns; so it does where none is named."""
    return not names or not {*map(column_key, names)}.isdisjoint(map(column_key, columns))


def column_key(name: str) -> str:
    """Return a name as cliff compares it."""
    return name.lower().strip().replace(" ", "_")
