# SPDX-License-Identifier: Apache-2.0
"""Tables of a page with their cells, numbers, and escaped texts."""

from collections.abc import Iterable, Sequence

from valence_sched.errors import escape
from valence_sched.model.page import PageTable, Row, TableCell

MOST_CHARACTERS = 2000  # of a cell: a name has at most 1,024
MOST_ROWS = 500  # rows of a table

Facts = tuple[tuple[str, str], ...]


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Row],
    numbers: Iterable[str] = (),
    text: str = "",
    *,
    opened: bool = False,
    most: int | None = None,
    noun: str = "",
) -> PageTable:
    """Return a table of at most ``most`` rows; a note gives the number of all rows, as ``noun``."""
    every = tuple(rows)
    text = text if most is None else f"{text} {first_of(most, len(every), noun)}"
    return PageTable(
        title=title,
        columns=tuple(columns),
        rows=every[:most],
        numbers=frozenset(numbers),
        text=text.strip(),
        opened=opened,
    )


def bar(number: float, whole: float) -> TableCell:
    return TableCell(text=f"{number:,}", share=number / whole if whole else None)


def first_of(most: int, number: int, noun: str = "") -> str:
    return f"The first {most:,} of {number:,} {noun}".rstrip() + "." if number > most else ""


def sentence(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def in_sentence(title: str) -> str:
    """Return a title in lower case for use within a sentence; an abbreviation stays in capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def shown_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Cut a text, and escape unsafe characters as in JSON; the result is not markup yet."""
    text = escape(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def measured_text(value: float, unit: str) -> str:
    return f"{amount_text(value)} {unit}".rstrip()


def amount_text(value: float) -> str:
    """Return a number with at most two decimals, without trailing zeros."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")
