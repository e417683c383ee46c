# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal: folds cells of several words, and leaves names whole."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from cliff.columns import FormattableColumn

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


def _text(cell: Any) -> str:
    return cell.human_readable() if isinstance(cell, FormattableColumn) else str(cell)


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
