# SPDX-License-Identifier: Apache-2.0
"""Colours of temperature for people at a terminal: cells, and tables of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from valence_sched.errors import escape
from valence_sched.streams import moves_cursor


class HeatCell:
    """A cell with a temperature within 0..1."""

    def __init__(self, text: str, heat: float) -> None:
        self.text, self.heat = text, heat

    def __str__(self) -> str:
        return self.text


def supports_colour(stream: Any) -> bool:
    """Return whether to use colours: on a terminal that has them, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and moves_cursor(stream)


def heat_table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, colour: bool = True) -> str:
    """Return columns of text; with ``colour`` cells have escape codes for their temperature."""
    import tabulate

    texts = [[_cell_text(cell, colour=colour) for cell in row] for row in rows]
    titles = [escape(name) for name in names]
    padding, tabulate.MIN_PADDING = tabulate.MIN_PADDING, 0  # columns as wide as their titles
    try:
        return tabulate.tabulate(texts, headers=titles, tablefmt="plain", disable_numparse=True)
    finally:
        tabulate.MIN_PADDING = padding


def painted(text: str, heat: float) -> str:
    """Return a text on the colour of its temperature, as the terminal can show it.

    0 is red, 0.5 yellow, 1 green; beyond is no more. What of the text does not print is escaped.
    """
    from rich.color import ColorSystem
    from rich.style import Style

    many = os.environ.get("COLORTERM", "").casefold() in ("truecolor", "24bit")
    system = ColorSystem.TRUECOLOR if many else ColorSystem.EIGHT_BIT
    heat = min(1.0, max(0.0, heat))
    red, green = min(1.0, 2.0 - 2.0 * heat), min(1.0, 2.0 * heat)
    style = Style.parse(f"black on #{round(60 + 180 * red):02x}{round(60 + 150 * green):02x}3c")
    return style.render(escape(text), color_system=system)


def _cell_text(cell: Any, *, colour: bool) -> str:
    is_hot = colour and isinstance(cell, HeatCell)
    return painted(cell.text, cell.heat) if is_hot else escape(str(cell))
