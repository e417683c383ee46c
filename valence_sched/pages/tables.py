# SPDX-License-Identifier: Apache-2.0
"""Tables of a page with their cells, and texts: numbers, and words of others made harmless."""

from collections.abc import Iterable, Sequence

from valence_sched.errors import escape
from valence_sched.model.page import PageTable, Row, TableCell

MOST_CHARACTERS = 2000  # a name has at most 1024
MOST_ROWS = 500  # of a table

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
    """Return a table; ``numbers`` are the columns of numbers.

    It has at most so many rows, which a ``noun`` names where the text says that some are left out.
    """
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
    """Return a number with a bar of its share of a whole, without where that is 0."""
    return TableCell(text=f"{number:,}", share=number / whole if whole else None)


def first_of(most: int, number: int, noun: str = "") -> str:
    """Return that a table has the first ``most`` of so many, empty where it has all."""
    return f"The first {most:,} of {number:,} {noun}".rstrip() + "." if number > most else ""


def sentence(phrase: str) -> str:
    """Return a phrase as the begin of a sentence."""
    return phrase[:1].upper() + phrase[1:]


def in_sentence(title: str) -> str:
    """Return a title as it stands within a sentence; an abbreviation keeps its capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def shown_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text, cut, with what hides or turns it as in JSON; it is no markup yet."""
    text = escape(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def measured_text(value: float, unit: str) -> str:
    """Return a number as :func:`amount_text` does, with its unit where it has one."""
    return f"{amount_text(value)} {unit}".rstrip()


def amount_text(value: float) -> str:
    """Return a number with at most two digits behind the point, and none that says nothing."""
    whole = f"{value:,.2f}"
    return whole.rstrip("0").rstrip(".")
