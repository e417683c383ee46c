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


def ascii_table(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, aligned: bool = True
) -> str | None:
    """Return the table as prettytable has it, without the last line end.

    Columns of which the first cell is a number are ``aligned`` to the right, as those of a list.
    None where that is not certain: it has no row, a column name twice, or other characters, or
    it is wider than the terminal, where cliff folds its cells.
    """
    if not rows or len(set(names)) < len(names):
        return None
    texts = [[_text(cell) for cell in row] for row in rows]
    if any(len(row) != len(names) for row in texts) or not _is_plain([names, *texts]):
        return None
    cells = [[text.split("\n") for text in row] for row in ([*names], *texts)]
    widths = [max(len(line) for row in cells for line in row[column])
              for column in range(len(names))]  # fmt: skip
    if is_wider_than_terminal(sum(widths) + 3 * len(names) + 1):
        return None
    justify = [str.rjust if aligned and type(cell) in (int, float) else str.ljust
               for cell in rows[0]]  # fmt: skip
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [rule]
    for row in cells:
        for number in range(max(map(len, row))):
            parts = (cell[number] if number < len(cell) else "" for cell in row)
            padded = map(_padded, parts, widths, justify)
            lines.append("|".join(["", *padded, ""]))
        if row is cells[0]:
            lines.append(rule)
    return "\n".join([*lines, rule])


def _text(cell: Any) -> str:
    return str(cell.human_readable() if isinstance(cell, FormattableColumn) else cell)


def _is_plain(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether each character but the line ends takes one column."""
    text = "".join(["".join(row) for row in rows]).replace("\n", "")
    return text.isascii() and text.isprintable()


def is_wider_than_terminal(width: int) -> bool:
    """Return whether so many columns are more than the terminal has, if there is one."""
    return sys.stdout.isatty() and width > (utils.terminal_width() or width)


def _padded(text: str, width: int, justify: Any) -> str:
    return f" {justify(text, width)} "


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
    titles = {} if name in MACHINE else SHORT_TITLES
    if name == "table":
        formatter = _FittedTable(formatter)
    if colour and name == "table":
        return _CellFormatter(formatter, _coloured_cell, titles, stream)
    prepare = _flat_cell if name in FLAT else _printable_cell
    return _CellFormatter(formatter, prepare, titles, stream)


class _PrintableCell(FormattableColumn[Any]):
    """A cell that people see without the characters that would control their terminal.

    They are escaped in the value: of the line ends that people see none is part of a name.
    """

    def human_readable(self) -> str:
        cell = copy.copy(self._value)
        cell._value = _escaped(cell._value)
        return escape(cell.human_readable(), keep="\n")

    def machine_readable(self) -> Any:
        return self._value.machine_readable()


class _ColouredCell(_PrintableCell):
    """A cell that people see in the colours that it has."""

    def human_readable(self) -> str:
        coloured = self._value.coloured
        return str(coloured(super().human_readable()) if isinstance(self._value, FormattableColumn)
                   else coloured())  # fmt: skip

    def machine_readable(self) -> Any:
        return _value(self._value)


class _EncodableCell(FormattableColumn[Any]):
    """A cell that people see as a stream can write it."""

    def __init__(self, value: Any, stream: Any) -> None:
        super().__init__(value)
        self._stream = stream

    def human_readable(self) -> str:
        return encodable(self._value.human_readable(), self._stream)

    def machine_readable(self) -> Any:
        return self._value.machine_readable()


class _CellFormatter:
    """Prepares each cell and gives columns their ``titles`` before another formatter prints."""

    def __init__(
        self, formatter: Any, prepare: Callable[[Any], Any], titles: Mapping[str, str], stream: Any
    ) -> None:
        self._formatter, self._prepare, self._titles = formatter, prepare, titles
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = None if encoding.casefold().startswith("utf") else stream

    def _cell(self, value: Any) -> Any:
        cell = self._prepare(value)
        if self._stream is None:
            return cell
        if isinstance(cell, FormattableColumn):
            return _EncodableCell(cell, self._stream)
        return encodable(cell, self._stream) if isinstance(cell, str) else cell

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        rows = (tuple(map(self._cell, row)) for row in data)
        self._formatter.emit_list(self._named(names), rows, stdout, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        cells = tuple(map(self._cell, data))
        self._formatter.emit_one(self._named(names), cells, stdout, parsed_args)

    def _named(self, names: Sequence[str]) -> list[str]:
        return [escape(self._titles.get(name, name)) for name in names]


class _FittedTable:
    """Folds cells before a table is printed, unless an option says how wide it may be.

    Words are broken, on a terminal, only where that makes the table fit.
    """

    def __init__(self, formatter: Any) -> None:
        self._formatter = formatter

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        rows = list(data)
        if not _has_width(parsed_args):
            rows = list(fit_rows(names, rows))
            if (text := ascii_table(names, rows)) is not None:
                stdout.write(f"{text}\n")
                return
        self._emit(self._formatter.emit_list, names, rows, stdout, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        cells = list(data)
        if not _has_width(parsed_args):
            fields = ("Field", "Value")
            rows = fit_rows(fields, list(zip(names, cells, strict=True)))
            if (text := ascii_table(fields, rows, aligned=False)) is not None:
                stdout.write(f"{text}\n")
                return
            cells = [cell for _name, cell in rows]
        self._emit(self._formatter.emit_one, names, cells, stdout, parsed_args)

    def _emit(self, emit: Any, names: Any, cells: Any, stdout: Any, parsed_args: Any) -> None:
        broken = io.StringIO()
        emit(names, cells, broken, parsed_args)
        rule = broken.getvalue().partition("\n")[0]
        if _has_width(parsed_args) or not is_wider_than_terminal(len(rule)):
            stdout.write(broken.getvalue())
            return
        whole = copy.copy(parsed_args)
        whole.max_width = sys.maxsize
        emit(names, cells, stdout, whole)


def _has_width(parsed_args: Any) -> bool:
    return bool(getattr(parsed_args, "max_width", 0) or getattr(parsed_args, "fit_width", False))


def full_titles(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return named columns with the titles of these columns in place of the short ones."""
    known = {_column_key(column) for column in columns}
    long_title = {_column_key(short): title for title, short in SHORT_TITLES.items()}
    return [
        name if _column_key(name) in known else long_title.get(_column_key(name), name)
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
        stdout.write(_yaml([dict(zip(names, map(_value, row), strict=True)) for row in data]))

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, _parsed_args: Any) -> None:
        for name, cell in zip(names, data, strict=True):
            stdout.write(_yaml({name: _value(cell)}))


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


def _printable_cell(cell: Any) -> Any:
    if isinstance(cell, FormattableColumn):
        return _PrintableCell(cell)
    if isinstance(cell, int) and hasattr(cell, "coloured"):
        return int(cell)  # cliff aligns what is a plain number
    return escape(cell) if isinstance(cell, str) else cell


def _coloured_cell(cell: Any) -> Any:
    return _ColouredCell(cell) if hasattr(cell, "coloured") else _printable_cell(cell)


def _value(cell: Any) -> Any:
    return cell.machine_readable() if isinstance(cell, FormattableColumn) else cell


def _flat_cell(cell: Any) -> Any:
    """Return a cell that holds no structure: JSON in its place, nothing for null."""
    value = _value(cell)
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
