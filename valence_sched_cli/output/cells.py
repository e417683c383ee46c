# SPDX-License-Identifier: Apache-2.0
"""Cells: values with one form for people and one for machines."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cliff.columns import FormattableColumn

from valence_sched.errors import escape
from valence_sched.streams import moves_cursor

if TYPE_CHECKING:
    from valence_sched.model.need import TopologyConstraint

T = TypeVar("T")

WIDTH = 80  # of a cell that holds sentences


class Cell(FormattableColumn[T]):
    """A cell that sorts by what people see."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or str(self) < str(other)


class Absent(Cell[None]):
    """An unknown value: people see nothing, machines see null; sorts last."""

    def __init__(self) -> None:
        super().__init__(None)

    def human_readable(self) -> str:
        return ""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Absent)


class Amount(Cell[T]):
    """A cell that sorts by its value."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or FormattableColumn.__lt__(self, other)


def format_count(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun, as ``quantity`` does, which is imported on demand."""
    from valence_sched.model import quantity

    return quantity.format_count(number, noun, plural)


def format_time(seconds: float | None) -> str | None:
    """Return a time of the database as a person reads it."""
    from valence_sched.words.phrases import format_instant

    return None if seconds is None else format_instant(seconds)


def hang(text: str, indent: int, first: str = "", width: int = 79) -> list[str]:
    """Return the lines of a text, ``first`` before the first and the others indented."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def or_absent(value: Any) -> Any:
    """Return the cell of a value that may be None."""
    return Absent() if value is None else value


class TimeCell(Amount[str]):
    """When something was: how long ago for people, the time for machines (RFC 3339, UTC).

    With ``both`` people see the time, too; where the age is not known they see the time alone.
    """

    def __init__(self, at: str, age_s: float | None, *, both: bool = False) -> None:
        super().__init__(at)
        self._age_s, self._both = age_s, both

    def human_readable(self) -> str:
        from valence_sched.model.quantity import format_age

        if self._age_s is None:
            return self._value
        age = f"{format_age(self._age_s)} ago"
        return f"{self._value} ({age})" if self._both else age


def time_cell(at: float | str | None, age_s: float | None, *, both: bool = False) -> Any:
    """Return the cell of a time of the database or of a document, which may be unknown."""
    from valence_sched.model.quantity import format_utc

    text = format_utc(at) if isinstance(at, str) else format_time(at)
    return Absent() if text is None else TimeCell(text, age_s, both=both)


class Words(Cell[Sequence[str]]):
    """A list: words side by side for people, a list for machines."""

    between = ", "

    def human_readable(self) -> str:
        return self.between.join(str(item) for item in self._value)

    def machine_readable(self) -> list[str]:
        return list(self._value)


class WordLines(Words):
    """A list: a word a line for people, a list for machines."""

    between = "\n"


class UriTails(WordLines):
    """A list of URIs: people see the last part of each, a line each."""

    def human_readable(self) -> str:
        return "\n".join(map(_tail, self._value))


class Sentences(Words):
    """A list of sentences: folded and one below the other for people, a list for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_fold, self._value))


class Sentence(Cell[str]):
    """A sentence, folded for people, who do not see the name that another column has."""

    width = WIDTH

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(text)
        self._name = name

    def human_readable(self) -> str:
        return _fold(self._value.removeprefix(f"{self._name}: "), self.width)


class Pairs(Cell[Mapping[str, Any]]):
    """A map: ``key=value, key=value`` for people, a map for machines."""

    between = ", "
    absent = "unset"

    def human_readable(self) -> str:
        values = self._value.values()
        texts = (self.absent if value is None else format_value(value) for value in values)
        return self.between.join(map("{}={}".format, self._value, texts))

    def machine_readable(self) -> dict[str, Any]:
        return dict(self._value)


class PairLines(Pairs):
    """A map: a ``key=value`` a line for people, a map for machines."""

    between = "\n"


class Amounts(Pairs):
    """A map of amounts, some of which may be unknown."""

    absent = "unknown"


class AmountLines(Amounts):
    """A map of amounts: one a line for people."""

    between = "\n"


class LinesCell(Cell[Sequence[Mapping[str, Any]]]):
    """A list of maps: one line each for people, the structure for machines."""

    def human_readable(self) -> str:
        return "\n".join(Pairs(item).human_readable() for item in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [dict(item) for item in self._value]


class _Nouns(Cell[Sequence[Any]]):
    def machine_readable(self) -> list[Any]:
        return to_builtins(self._value)


class GrantsCell(_Nouns):
    """Amounts of stocks: a line each for people, the structure for machines."""

    def human_readable(self) -> str:
        counts = Counter((one.uri, one.resource, one.amount, one.unit) for one in self._value)
        return "\n".join(
            (f"{times} x " if times > 1 else "")
            + " ".join(filter(None, [format_value(amount), unit, resource, "of", _tail(uri)]))
            for (uri, resource, amount, unit), times in counts.items()
        )


class AnyOfCell(Cell[Sequence[Sequence[str]]]):
    """Lists of names of which one each must be: a list a line, the lists for machines."""

    def human_readable(self) -> str:
        return "\n".join(" or ".join(names) for names in self._value)

    def machine_readable(self) -> list[list[str]]:
        return [list(names) for names in self._value]


class ExpressionCell(Cell[Any]):
    """An expression: a line for each that must hold, the lists it is written in for machines."""

    def human_readable(self) -> str:
        from valence_sched.model.expression import conjuncts, parse_expression

        return "\n".join(map(str, conjuncts(parse_expression(self._value))))


def to_builtins(nouns: Sequence[Any]) -> list[Any]:
    """Return nouns as lists and maps."""
    import msgspec

    return [msgspec.to_builtins(noun) for noun in nouns]


def format_value(value: Any) -> str:
    """Print a value inside a cell: lists with semicolons, numbers without needless zeros."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return "{" + Pairs(value).human_readable() + "}"
    if isinstance(value, (list, tuple)):
        return ";".join(format_value(item) for item in value)
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def _tail(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]


def _fold(text: str, width: int = WIDTH) -> str:
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


class NeedsCell(_Nouns):
    """What a flavor asks for: a phrase a line for people, the needs for machines."""

    def human_readable(self) -> str:
        from valence_sched.words.phrases import need_phrase

        return "\n".join(map(need_phrase, self._value))


class TopologyConstraintsCell(_Nouns):
    """How the devices of needs stand together: a phrase a line, the bonds for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_constraint_phrase, self._value))


class AlternativesCell(_Nouns):
    """Other ways to make a node: a line each with its needs and bonds, those for machines."""

    def human_readable(self) -> str:
        from valence_sched.words.phrases import need_phrase

        return "\n".join(
            "; ".join([*map(need_phrase, ask.needs), *map(_constraint_phrase, ask.bonds)])
            for ask in self._value
        )


def _constraint_phrase(bond: TopologyConstraint) -> str:
    return f"{bond.relation} {bond.place}: {', '.join(bond.of)}"


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

    texts = [[painted(cell.text, cell.heat) if colour and isinstance(cell, HeatCell)
              else escape(str(cell)) for cell in row] for row in rows]  # fmt: skip
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
