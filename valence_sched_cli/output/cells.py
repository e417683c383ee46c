# SPDX-License-Identifier: Apache-2.0
"""Cells: values with one form for people and one for machines."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from cliff.columns import FormattableColumn

from valence_sched.errors import escape
from valence_sched.streams import moves_cursor
from valence_sched_cli.late import model, msgspec, rich, words

T = TypeVar("T")

WIDTH = 80  # of a cell that holds sentences


class Cell(FormattableColumn[T]):
    """A cell that sorts by its text for people."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or str(self) < str(other)


class Absent(Cell[None]):
    """An unknown value, None in a row: empty for people, null for machines; it sorts last."""

    def __init__(self) -> None:
        super().__init__(None)

    def human_readable(self) -> str:
        return ""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Absent)


class Shown(Cell[T]):
    """A value for machines; a function makes the text for people."""

    def __init__(self, value: T, people: Callable[[T], str]) -> None:
        super().__init__(value)
        self._people = people

    def human_readable(self) -> str:
        return self._people(self._value)


class Amount(Shown[T]):
    """A value that sorts by itself; a function makes the text for people."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or FormattableColumn.__lt__(self, other)


def format_count(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun, as ``quantity`` does, which is imported on demand."""
    return model.quantity.format_count(number, noun, plural)


def format_time(seconds: float | None) -> str | None:
    """Return a time of the database as a person reads it."""
    return None if seconds is None else words.phrases.format_instant(seconds)


def hang(text: str, indent: int, first: str = "", width: int = 79) -> list[str]:
    """Return the lines of a text, ``first`` before the first and the others indented."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def warning_lines(warnings: Iterable[str]) -> Iterator[str]:
    """Yield each warning as a line."""
    yield from map("warning: {}".format, warnings)


def time_cell(at: float | str | None, age_s: float | None, *, both: bool = False) -> Any:
    """Return the cell of a time: its age for people, also the time with ``both``; else UTC."""
    text = model.quantity.format_utc(at) if isinstance(at, str) else format_time(at)
    if text is None:
        return None
    age = "" if age_s is None else f"{model.quantity.format_age(age_s)} ago"
    return Amount(text, lambda time: f"{time} ({age})" if age and both else age or time)


def state_cell(state: str) -> Shown[str]:
    """Return the cell of the state of a claim or node."""
    return Shown(state, words.phrases.state_text)


class Words(Cell[Sequence[str]]):
    """A list: words side by side for people, a list for machines."""

    between = ", "

    def human_readable(self) -> str:
        return self.between.join(map(str, self._value))


class WordLines(Words):
    """A list: one word per line for people, a list for machines."""

    between = "\n"


def tail(uri: str) -> str:
    """Return the last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2]


class UriTails(WordLines):
    """A list of URIs: people see the last part of each, one per line."""

    def human_readable(self) -> str:
        return "\n".join(map(tail, self._value))


class Sentences(Words):
    """A list of sentences: folded, each on its own lines for people, a list for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_fold, self._value))


class Sentence(Cell[str]):
    """A sentence, folded for people; it omits a name that another column shows."""

    def __init__(self, text: str, name: str = "", width: int = WIDTH) -> None:
        super().__init__(text)
        self._name, self._width = name, width

    def human_readable(self) -> str:
        return _fold(self._value.removeprefix(f"{self._name}: "), self._width)


def _fold(text: str, width: int = WIDTH) -> str:
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


class Pairs(Cell[Mapping[str, Any]]):
    """A map: ``key=value, key=value`` for people, a map for machines."""

    between = ", "
    assignment = "="
    absent = "unset"

    def human_readable(self) -> str:
        values = self._value.values()
        texts = (self.absent if value is None else format_value(value) for value in values)
        pairs = zip(self._value, texts, strict=True)
        return self.between.join(f"{key}{self.assignment}{text}" for key, text in pairs)

    def machine_readable(self) -> dict[str, Any]:
        return dict(self._value)


class PairLines(Pairs):
    """A map: one ``key=value`` per line for people, a map for machines."""

    between = "\n"


class ClaimLines(PairLines):
    """A map of block URIs to claims: one ``URI claim ID`` per line for people, which can wrap."""

    assignment = " claim "


class AmountLines(PairLines):
    """A map of amounts, some of which may be unknown: one per line for people."""

    absent = "unknown"


def fields(
    noun: Any, *titles: str, lists: type[Words] = WordLines, maps: type[Pairs] = PairLines
) -> dict[str, Any]:
    """Return the cells of the fields that titles name: ``Created At`` is ``noun.created_at``."""
    row = {title: getattr(noun, title.lower().replace(" ", "_")) for title in titles}
    for title, value in row.items():
        if isinstance(value, Mapping):
            row[title] = maps(value)
        elif isinstance(value, (list, tuple)):
            row[title] = lists(value)
    return row


class NounLines(Shown[Any]):
    """Nouns: one line each, made by a function, for people; lists and maps for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(self._people, self._value))

    def machine_readable(self) -> list[Any]:
        return to_builtins(self._value)


class GrantsCell(Cell[Sequence[Any]]):
    """Amounts of stocks: one per line for people, lists and maps for machines."""

    def human_readable(self) -> str:
        counts = Counter((one.amount, one.unit, one.resource, one.uri) for one in self._value)
        lines = []
        for (amount, unit, resource, uri), times in counts.items():
            words = [format_value(amount), unit, resource, "of", tail(uri)]
            lines.append((f"{times} x " * (times > 1)) + " ".join(filter(None, words)))
        return "\n".join(lines)

    def machine_readable(self) -> list[Any]:
        return to_builtins(self._value)


def to_builtins(nouns: Sequence[Any]) -> list[Any]:
    """Return nouns as lists and maps."""
    return [msgspec.to_builtins(noun) for noun in nouns]


def format_value(value: Any) -> str:
    """Print a value inside a cell: lists with semicolons, numbers without needless zeros."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return "{" + Pairs(value).human_readable() + "}"
    if isinstance(value, (list, tuple)):
        return ";".join(map(format_value, value))
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


class HeatCell:
    """A cell of a table with colours, with a temperature within 0..1."""

    def __init__(self, text: str, heat: float) -> None:
        self.text, self.heat = text, heat

    def __str__(self) -> str:
        return self.text


def supports_colour(stream: Any) -> bool:
    """Return whether to use colours: on a terminal that supports them, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and moves_cursor(stream)


def heat_table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, colour: bool = True) -> str:
    """Return columns of text; with ``colour`` cells have escape codes for their temperature."""
    import tabulate  # imported late; its padding is changed and restored

    def shown(cell: Any) -> str:
        is_hot = colour and isinstance(cell, HeatCell)
        return painted(cell.text, cell.heat) if is_hot else escape(str(cell))

    texts = [list(map(shown, row)) for row in rows]
    titles = list(map(escape, names))
    padding, tabulate.MIN_PADDING = tabulate.MIN_PADDING, 0  # columns as wide as their titles
    try:
        return tabulate.tabulate(texts, headers=titles, tablefmt="plain", disable_numparse=True)
    finally:
        tabulate.MIN_PADDING = padding


def painted(text: str, heat: float) -> str:
    """Return a text on a colour from red (0) over yellow to green (1), safe for a terminal."""
    many = os.environ.get("COLORTERM", "").casefold() in ("truecolor", "24bit")
    system = rich.color.ColorSystem.TRUECOLOR if many else rich.color.ColorSystem.EIGHT_BIT
    heat = min(1.0, max(0.0, heat))
    red, green = min(1.0, 2.0 - 2.0 * heat), min(1.0, 2.0 * heat)
    style = rich.style.Style.parse(
        f"black on #{round(60 + 180 * red):02x}{round(60 + 150 * green):02x}3c"
    )
    return style.render(escape(text), color_system=system)
