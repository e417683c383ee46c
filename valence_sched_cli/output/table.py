# SPDX-License-Identifier: Apache-2.0
"""Tables: titles, widths, formats and colours of printed rows."""

import argparse
import contextlib
import copy
import json
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cliff.columns import FormattableColumn
from cliff.formatters import base

from valence_sched.errors import UsageError, escape, suggest
from valence_sched.streams import encodable
from valence_sched_cli.late import model, msgspec, tabulate
from valence_sched_cli.output.cells import Absent, Shown

USUAL_WIDTH = 80  # characters of a line if the width of the screen is unknown
BORDER = 3  # characters that a column needs besides its widest cell
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_AGE, _GLUE = re.compile(r" ago\b"), "\0"  # keep an age such as "2h ago" on one line
_FILL = "\1"  # after a character that takes two columns of a terminal, while a text is folded
_INDENT = "  "  # before a continued line in a cell of several lines
Rows = Sequence[Sequence[Any]]
#: The column titles, and the rows or the row of a single object. A row has its cells by title or in
#: the order of the titles; extra cells are ignored. None is an unknown value.
Table = tuple[Sequence[str], Iterable[Any]]
_WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}


def screen_width() -> int | None:
    """Return the maximum width of a table: COLUMNS, else the terminal's; None for a pipe."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stream, or no terminal
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or None  # type: ignore[union-attr]
    return None


def _width(parsed_args: Any) -> int | None:
    return getattr(parsed_args, "max_width", 0) or screen_width()


def fit_rows(titles: Sequence[str], rows: Rows, width: int | None = None) -> Rows:
    """Fold the widest columns until the rows fit ``width`` or the screen, if that is possible."""
    width = screen_width() if width is None else width
    if width is None:
        return rows
    columns, natural, least = _widths(titles, rows)
    room = width - 1 - BORDER * len(titles)
    if sum(natural) <= room or sum(map(min, natural, least)) > room:
        return rows
    widths, most = natural, max(natural)  # the widest columns get the same width
    while sum(widths) > room:
        most -= 1
        widths = [min(wide, max(most, small)) for wide, small in zip(natural, least, strict=True)]
    fitted = [list(row) for row in rows]
    for number, wide in enumerate(widths):
        if wide < natural[number]:
            for row, text in zip(fitted, columns[number], strict=True):
                row[number] = _fold(text, wide)
    return fitted


def _widths(titles: Sequence[str], rows: Rows) -> tuple[list[list[str]], list[int], list[int]]:
    """Return the texts of each column, and the lengths of its longest line and longest word."""
    columns = [[_filled(str(row[number])) for row in rows] for number in range(len(titles))]
    natural = [_longest(title, cells, "\n") for title, cells in zip(titles, columns, strict=True)]
    least = [_longest(title, cells, None) for title, cells in zip(titles, columns, strict=True)]
    return columns, natural, least


def _filled(text: str) -> str:
    """Return a text with a character for each column of a terminal that it takes."""
    if text.isascii():
        return text
    wide = (_FILL if unicodedata.east_asian_width(char) in "WF" else "" for char in text)
    return "".join(map("".join, zip(text, wide, strict=True)))


def table_width(titles: Sequence[str], rows: Rows, *, is_broken: bool = False) -> int:
    """Return the width of a table, or its smallest width, with every cell broken between words."""
    _, natural, least = _widths(titles, rows)
    cells = map(min, natural, least) if is_broken else natural
    return sum(cells) + BORDER * len(titles) + 1


def _record(titles: Sequence[str], row: Sequence[Any], width: int) -> str:
    """Return a row as lines with a title and a value each; empty cells are left out."""
    titles = [*map(_filled, titles)]
    indent = max(map(len, titles)) + len(_INDENT)
    fold = textwrap.TextWrapper(max(width, 2 * indent), " " * indent, " " * indent, **_WHOLE_WORDS)
    lines = []
    for title, cell in zip(titles, row, strict=True):
        if text := str(cell):
            folded = "\n".join(map(fold.fill, _filled(text).split("\n")))
            lines.append(f"{title:{indent}}{folded[indent:]}\n")
    return "".join(lines).replace(_FILL, "")


def is_of_numbers(cells: Iterable[Any]) -> bool:
    """Return whether all cells of a column are numbers or unknown, at least one a number."""
    kinds = {type(machine_value(cell)) for cell in cells} - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _right_aligned(titles: Sequence[str], rows: Rows, cells: Rows) -> Rows:
    """Align columns of numbers right, including numbers that are shown as text, such as 2 GiB."""
    aligned = [list(row) for row in rows]
    for number, (title, column) in enumerate(zip(titles, zip(*cells, strict=True), strict=False)):
        if is_of_numbers(column) and any(isinstance(cell, FormattableColumn) for cell in column):
            texts = [str(row[number]) for row in rows]
            width = _longest(title, texts, "\n")
            for row, text in zip(aligned, texts, strict=True):
                lines = text.split("\n")
                pads = (" " * (width - len(_COLOUR.sub("", line))) for line in lines)
                row[number] = "\n".join(map("".join, zip(pads, lines, strict=True)))
    return aligned


def _brief(cell: Any) -> Any:
    """Return the short form of a cell, if it has one, for a table that is too wide."""
    brief: Callable[[], str] | None = getattr(getattr(cell, "_value", None), "brief", None)
    return brief() if brief else cell


def _longest(title: str, cells: Sequence[str], separator: str | None) -> int:
    """Return the length of the longest line, or of the longest word with its indentation."""
    shown = (_AGE.sub(f"{_GLUE}ago", _COLOUR.sub("", cell)) for cell in cells)
    if separator:
        parts = [len(part) for cell in shown for part in cell.split(separator)]
    else:
        lines = (line for cell in shown for line in cell.replace(f"\n{_INDENT}", " ").split("\n"))
        words = (pair for line in lines for pair in enumerate(line.split()))
        parts = [len(word) + (len(_INDENT) if number else 0) for number, word in words]
    return max(len(_filled(title)), *parts, 0)


def _fold(text: str, width: int) -> str:
    text = _AGE.sub(f"{_GLUE}ago", text.replace(f"\n{_INDENT}", " "))  # undo an earlier fold
    lines = text.split("\n")
    indent = _INDENT if len(lines) > 1 else ""
    fold = textwrap.TextWrapper(width, subsequent_indent=indent, **_WHOLE_WORDS)
    return "\n".join(map(fold.fill, lines)).replace(_GLUE, " ").replace(_FILL, "")


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters that a spreadsheet evaluates
FLAT = ("csv", "shell", "value")  # formats without lists and maps in cells
STRUCTURED = ("json", "yaml")
MACHINE = (*FLAT, *STRUCTURED, "tsv")  # formats that programs read

#: Short titles for people, who see the unit in each cell. Programs get the full titles.
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


def _shown(value: Any, text: str) -> Shown[Any]:
    return Shown(value, lambda _: text, machine_value)


class PreparedFormatter:
    """Adapts cells to a format before printing: escapes, flattens, folds and colours them.

    Characters that the encoding of ``stream`` does not have are escaped before widths are computed.
    The output goes to ``target``, else to the stream that the caller passes.
    """

    def __init__(
        self,
        formatter: Any,
        name: str,
        stream: Any = None,
        target: Any = None,
        *,
        colour: bool = False,
    ) -> None:
        self._formatter, self._name, self._target = formatter, name, target
        self._colour = colour and name == "table"
        self._titles = {} if name in MACHINE else SHORT_TITLES
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._narrow = None if encoding.casefold().startswith("utf") else stream

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        stdout = self._target or stdout
        if self._name == "yaml":
            stdout.write(_yaml([_values(names, row) for row in data]))
        elif self._name == "json":
            self._formatter.emit_list(names, data, stdout, parsed_args)
        else:
            titles = self._named(names)
            rows: Any = (tuple(map(self._cell, row)) for row in data)
            if self._name == "csv" and getattr(parsed_args, "escape_formulas", False):
                rows = (tuple(map(_without_formula, row)) for row in rows)
            if self._name == "table":
                shown, width = list(rows), _width(parsed_args)
                rows = fit_rows(titles, shown, width)
                if rows is not shown or (
                    width and table_width(titles, rows, is_broken=True) > width
                ):
                    rows = fit_rows(titles, [list(map(_brief, row)) for row in shown], width)
                if width and table_width(titles, rows, is_broken=True) > width:
                    stdout.write("\n".join(_record(titles, row, width) for row in shown))
                    return
                rows = _right_aligned(titles, rows, shown)
            self._emit(self._formatter.emit_list, titles, rows, stdout, parsed_args)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        stdout = self._target or stdout
        if self._name == "yaml":
            stdout.write("".join(_yaml({name: one}) for name, one in _values(names, data).items()))
        elif self._name == "json":
            self._formatter.emit_one(names, data, stdout, parsed_args)
        else:
            titles, cells = self._named(names), tuple(map(self._cell, data))
            if self._name == "table":
                pairs = list(zip(titles, cells, strict=True))
                rows = fit_rows(("Field", "Value"), pairs, _width(parsed_args))
                cells = tuple(cell for _name, cell in rows)
            self._emit(self._formatter.emit_one, titles, cells, stdout, parsed_args)

    def _emit(self, emit: Any, names: Any, cells: Any, stdout: Any, parsed_args: Any) -> None:
        if self._name == "table":  # keep cliff from folding again
            parsed_args = copy.copy(parsed_args)
            parsed_args.max_width = sys.maxsize
        emit(names, cells, stdout, parsed_args)

    def _named(self, names: Sequence[str]) -> list[str]:
        return [escape(self._titles.get(name, name)) for name in names]

    def _cell(self, value: Any) -> Any:
        cell = _flat_cell(value) if self._name in FLAT else _printable_cell(value, self._colour)
        if self._narrow is None or not isinstance(cell, str | FormattableColumn):
            return cell
        text = encodable(str(cell), self._narrow)
        return text if isinstance(cell, str) else _shown(value, text)


def _values(names: Sequence[str], cells: Any) -> dict[str, Any]:
    return dict(zip(names, map(machine_value, cells), strict=True))


def _yaml(value: object) -> str:
    return model.codec.dump_yaml(msgspec.to_builtins(value))  # escapes line ends in text


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = map(_escaped, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if fields := getattr(type(value), "__struct_fields__", ()):
        value = copy.copy(value)
        for name in fields:
            msgspec.structs.force_setattr(value, name, _escaped(getattr(value, name)))
    return value


def _printable_cell(cell: Any, colour: bool) -> Any:
    """Return a cell without control characters; ``colour`` adds its colours."""
    coloured: Callable[..., str] | None = getattr(cell, "coloured", None)
    if isinstance(cell, FormattableColumn):
        bare = copy.copy(cell)
        bare._value = _escaped(bare._value)
        text = escape(bare.human_readable(), keep="\n")
        return _shown(cell, coloured(text) if colour and coloured else text)
    if coloured:
        # without colours the cell stays a number, which cliff aligns right
        return _shown(cell, coloured()) if colour else int(cell)
    return escape(cell) if isinstance(cell, str) else cell


def machine_value(cell: Any) -> Any:
    return cell.machine_readable() if isinstance(cell, FormattableColumn) else cell


def _flat_cell(cell: Any) -> Any:
    """Return a flat cell: lists and maps as JSON, null as an empty cell."""
    value = machine_value(cell)
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return escape(value)
    return "" if value is None else value


def _without_formula(cell: Any) -> Any:
    """Return a CSV cell that no spreadsheet evaluates: an apostrophe before a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def in_order(row: Any, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return the cells of a row in the order of the columns, without extra cells."""
    is_map = isinstance(row, Mapping)
    cells = [row[column] for column in columns] if is_map else tuple(row)[: len(columns)]
    return tuple(Absent() if cell is None else cell for cell in cells)


#: By column of a decision, a text that gives no information; None if a line near the rows has it.
REDUNDANT = {"Rank": "1", "Amounts": "", "Seed": None, "Request ID": None}


def telling_columns(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    parsed_args: Any,
    redundant: Mapping[str, str | None] = REDUNDANT,
) -> list[str]:
    """Return the columns that give information; programs get all, and selected columns stay.

    ``redundant`` has, by title, a text that gives no information. It is None for a column that is
    shown only with ``--long`` or by name.
    """
    if parsed_args.formatter in MACHINE:
        return list(columns)
    sorts = (word.partition(":")[0] for word in getattr(parsed_args, "sort", ()))
    words = (*parsed_args.columns, *parsed_args.sort_columns, *sorts)
    named, shows_all = {word.casefold() for word in words}, getattr(parsed_args, "long", False)
    silent = set()
    for name in redundant.keys() & set(columns):
        if (nothing := redundant[name]) is None:
            is_silent = not (parsed_args.columns or shows_all)
        else:
            texts = ("" if row[name] is None else str(row[name]) for row in rows)
            is_silent = all(text == nothing for text in texts)
        silent |= {name} if is_silent else set()
    return [name for name in columns if name not in silent or name.casefold() in named]


#: From 0 to 1: high, because a list of all titles helps more than a poor guess.
MIN_SIMILARITY = 0.6


def full_titles(names: Sequence[str], columns: Sequence[str], option: str) -> list[str]:
    """Replace short titles in names of columns by full titles; UsageError for an unknown name."""
    known = set(map(column_key, columns))
    full = {column_key(short): title for title, short in SHORT_TITLES.items()}
    titles = [name if (key := column_key(name)) in known else full.get(key, name) for name in names]
    for name in titles:
        if column_key(name) not in known:
            hint = suggest(name, dict.fromkeys(columns), MIN_SIMILARITY)
            raise UsageError(f"{option}: no column named {name!r} ({hint})")
    return titles


def name_columns(args: argparse.Namespace, known: Sequence[str]) -> None:
    """Replace short column titles by full titles; UsageError if one is unknown."""
    for name, option in (("columns", "--column"), ("sort_columns", "--sort-column")):
        if hasattr(args, name):
            setattr(args, name, full_titles(getattr(args, name), known, option))


def column_key(name: str) -> str:
    """Return the form of a column name in which cliff compares names."""
    return name.lower().strip().replace(" ", "_")


# Commands of this project load these by entry points, in addition to cliff's formatters. Other
# commands of OpenStackClient do not have them. Tabulate is imported when a style is used.


class TableStyle(base.ListFormatter, base.SingleFormatter):
    """A table in a style of tabulate, with patterns and their replacements in cells."""

    tablefmt: ClassVar[str]
    escapes: ClassVar[tuple[tuple[str, str], ...]] = ()

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: a style has no options."""

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        """Print a row per object; a column that holds only numbers is aligned right."""
        rows = [list(row) for row in data]
        columns = zip(*rows, strict=True)
        alignment = ["right" if is_of_numbers(column) else "left" for column in columns]
        self._print(names, rows, alignment, stdout)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        self._print(("Field", "Value"), zip(names, data, strict=True), ["left", "left"], stdout)

    def _print(self, headers: Any, rows: Any, alignment: Sequence[str], stdout: Any) -> None:
        table = tabulate.tabulate(
            [[self._cell(value) for value in row] for row in rows],
            headers=[self._cell(name) for name in headers],
            tablefmt=self.tablefmt,
            # tabulate must not convert text to numbers: an ID may be 0007 or 1e5
            disable_numparse=True,
            colalign=alignment or None,
        )
        stdout.write(table + "\n")

    def _cell(self, value: Any) -> str:
        text = str(value).replace("\r\n", "\n").replace("\r", "\n")
        for pattern, replacement in self.escapes:
            text = re.sub(pattern, replacement, text)
        return text


def table_style(tablefmt: str, *escapes: tuple[str, str]) -> type[TableStyle]:
    name = tablefmt.title().replace("_", "")
    return type(name, (TableStyle,), {"tablefmt": tablefmt, "escapes": escapes})


# The patterns double backslashes before a pipe: they would escape the backslash that is added.
_BACKSLASHED_PIPE = (r"(\\*)\|", r"\1\1\\|")
_PIPE_ENTITY = (r"\|", "&#124;")
_LESS_ENTITY = (r"<", "&lt;")
_MARKDOWN = (_BACKSLASHED_PIPE, _LESS_ENTITY, (r"\n", "<br>"))

Asciidoc = table_style("asciidoc", _PIPE_ENTITY)
FancyGrid = table_style("fancy_grid")
Github = table_style("github", *_MARKDOWN)
Grid = table_style("grid")
Html = table_style("html")  # tabulate escapes its cells
Jira = table_style("jira", (r"([|{}\[\]])", r"\\\1"), (r"\n", r" \\\\ "))
Latex = table_style("latex", (r"\n", " "))  # tabulate escapes its cells
Markdown = table_style("pipe", *_MARKDOWN)  # as GitHub, GitLab and Gitea render it
Mediawiki = table_style("mediawiki", _PIPE_ENTITY, _LESS_ENTITY, (r"\n", "<br>"))
Orgtbl = table_style("orgtbl", (r"\|", r"\\vert{}"), (r"\n", " "))
Outline = table_style("outline")
Plain = table_style("plain")
Pretty = table_style("pretty")
Psql = table_style("psql")
RoundedGrid = table_style("rounded_grid")
Rst = table_style("rst", (r"([\\*`|]|_(?!\w))", r"\\\1"))
Simple = table_style("simple")
SimpleGrid = table_style("simple_grid")
Textile = table_style("textile", _PIPE_ENTITY, _LESS_ENTITY, (r"\n", "<br />"))
Tsv = table_style("tsv", (r"[\t\n]", " "))
