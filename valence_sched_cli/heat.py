# SPDX-License-Identifier: Apache-2.0
"""A table in colours on a terminal, from red for 0 to green for 1; elsewhere nothing but text."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from valence_sched_cli.output import printable


@dataclass(frozen=True)
class Warm:
    """A cell with a temperature within 0..1."""

    text: str
    heat: float

    def __str__(self) -> str:
        return self.text


def colourful(stream: Any) -> bool:
    """Return whether colours are welcome: a terminal that has them, and nobody who objects."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def heat_table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 0) -> str:
    """Return a table with escape codes, as wide as the terminal at most, or as ``width``."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ASCII, highlight=False)
    for name in names:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell)), style=_style(cell)) for cell in row))
    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=width or None, highlight=False)
    console.print(table)
    return page.getvalue().rstrip("\n")


def _style(cell: Any) -> str:
    """Return black on red, through yellow, to green; nothing for a cell without temperature."""
    if not isinstance(cell, Warm):
        return ""
    heat = min(1.0, max(0.0, cell.heat))
    red, green = min(1.0, 2.0 - 2.0 * heat), min(1.0, 2.0 * heat)
    return f"black on #{round(60 + 180 * red):02x}{round(60 + 150 * green):02x}3c"
