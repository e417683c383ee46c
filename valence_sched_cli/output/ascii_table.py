# SPDX-License-Identifier: Apache-2.0
"""Tables of plain ASCII, as cliff prints them by prettytable.

prettytable loads what knows how wide each character of Unicode is, which takes a tenth of a
command's time. A table of ASCII, which is most of them, needs none of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cliff import utils
from cliff.columns import FormattableColumn


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
