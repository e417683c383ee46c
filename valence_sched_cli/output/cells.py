# SPDX-License-Identifier: Apache-2.0
"""Cells: values with a text for people and a value for programs."""

import functools
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cliff.columns import FormattableColumn

from valence_sched.errors import escape
from valence_sched.streams import moves_cursor
from valence_sched_cli.late import model, msgspec, rich, words

T = TypeVar("T")

WIDTH = 80  # characters of a cell with sentences


class Shown(FormattableColumn[T]):
    """A value that is converted to text for people, to data for programs; it sorts by text."""

    def __init__(
        self, value: T, people: Callable[[T], str], machine: Callable[[T], Any] | None = None
    ) -> None:
        super().__init__(value)
        self._people, self._machine = people, machine

    def human_readable(self) -> str:
        return self._people(self._value)

    def machine_readable(self) -> Any:
        return self._machine(self._value) if self._machine else self._value

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or str(self) < str(other)


class Absent(Shown[None]):
    """An unknown value, None in a row: empty for people, null for machines; it sorts last."""

    def __init__(self) -> None:
        super().__init__(None, lambda _: "")

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Absent)


class Amount(Shown[T]):
    """A value that sorts by its own order, not by the text for people."""

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Absent) or FormattableColumn.__lt__(self, other)


class Sentence(Shown[str]):
    """A sentence, folded for people; omits a leading name, which another column shows."""

    def __init__(self, text: str, name: str = "", width: int = WIDTH) -> None:
        super().__init__(text, lambda text: _fold(text.removeprefix(f"{name}: "), width))


def _fold(text: str, width: int = WIDTH) -> str:
    return "\n".join(hang(text, 2, width=width, break_long_words=False))


def hang(text: str, indent: int, first: str = "", width: int = 79, **options: Any) -> list[str]:
    """Fold a text into lines: the first begins with ``first``, the others are indented."""
    return textwrap.TextWrapper(width, first, " " * indent, break_on_hyphens=False, **options).wrap(
        text
    )


def _joined(between: str, people: Callable[[Any], str] = str) -> Callable[[Iterable[Any]], str]:
    return lambda items: between.join(map(people, items))


def tail(uri: str) -> str:
    """Return the last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2]


#: Cells of lists. People see words side by side, words on a line each, folded sentences, or the
#: last parts of URIs.
Words = functools.partial(Shown[Any], people=_joined(", "))
WordLines = functools.partial(Shown[Any], people=_joined("\n"))
Sentences = functools.partial(Shown[Any], people=_joined("\n", _fold))
UriTails = functools.partial(Shown[Any], people=_joined("\n", tail))


def pairs(
    between: str,
    assignment: str = "=",
    absent: str = "unset",
    shown: Callable[[Any], str] | None = None,
) -> functools.partial[Shown[Any]]:
    """Return the type of cells of maps; people see each name and value as text."""

    def people(values: Mapping[str, Any]) -> str:
        text = shown or format_value
        texts = (absent if value is None else text(value) for value in values.values())
        return between.join(map(f"{{}}{assignment}{{}}".format, values, texts))

    return functools.partial(Shown[Any], people=people, machine=dict)


#: Cells of maps. People see ``key=value`` side by side, or on a line each.
Pairs, PairLines = pairs(", "), pairs("\n")
ClaimLines = pairs("\n", " claim ")  # from block URI to claim; the space lets a line wrap
AmountLines = pairs("\n", absent="unknown")


def noun_lines(nouns: Sequence[Any], people: Callable[[Any], str]) -> Shown[Any]:
    """Return the cell of nouns: people see a line each, programs lists and maps."""
    return Shown(nouns, _joined("\n", people), msgspec.to_builtins)


def grants_cell(grants: Sequence[Any]) -> Shown[Any]:
    """Return the cell of amounts of stocks: people see a line each, programs lists and maps."""

    def lines(grants: Sequence[Any]) -> str:
        counts = Counter((one.amount, one.unit, one.resource, one.uri) for one in grants)
        found = []
        for (amount, unit, resource, uri), times in counts.items():
            words = [format_value(amount), unit, resource, "of", tail(uri)]
            found.append((f"{times} x " * (times > 1)) + " ".join(filter(None, words)))
        return "\n".join(found)

    return Shown(grants, lines, msgspec.to_builtins)


def fields(
    noun: Any, *titles: str, lists: Callable[[Any], Any] = WordLines, maps: Any = PairLines
) -> dict[str, Any]:
    """Return cells of a noun by title: the cell ``Created At`` shows ``noun.created_at``."""
    row = {title: getattr(noun, title.lower().replace(" ", "_")) for title in titles}
    for title, value in row.items():
        if isinstance(value, Mapping):
            row[title] = maps(value)
        elif isinstance(value, (list, tuple)):
            row[title] = lists(value)
    return row


def format_time(seconds: float | None) -> str | None:
    return None if seconds is None else words.phrases.format_instant(seconds)


def warning_lines(warnings: Iterable[str]) -> Iterable[str]:
    return map("warning: {}".format, warnings)


def time_cell(at: float | str | None, age_s: float | None, *, both: bool = False) -> Any:
    """Return the cell of a time: people see its age (with ``both`` also UTC), programs UTC."""
    text = model.quantity.format_utc(at) if isinstance(at, str) else format_time(at)
    if text is None:
        return None
    age = "" if age_s is None else f"{model.quantity.format_age(age_s)} ago"
    return Amount(text, lambda time: f"{time} ({age})" if age and both else age or time)


def state_cell(state: str) -> Shown[str]:
    return Shown(state, words.phrases.state_text)


def format_value(value: Any) -> str:
    """Return the text of a value in a cell: lists with semicolons, numbers without extra zeros."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return f"{{{Pairs(value)}}}"
    if isinstance(value, (list, tuple)):
        return ";".join(map(format_value, value))
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


class HeatCell(NamedTuple):
    """A cell of a coloured table; ``heat`` is from 0 (red) to 1 (green)."""

    text: str
    heat: float

    def __str__(self) -> str:
        return self.text


def supports_colour(stream: Any) -> bool:
    """Return whether to use colours: on a terminal that supports them, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and moves_cursor(stream)


def heat_table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, colour: bool = True) -> str:
    """Return columns of text; with ``colour``, each cell is coloured by its heat."""
    import tabulate  # imported late; its padding is changed below, and restored

    texts = [
        [
            painted(*cell)
            if colour and isinstance(cell, HeatCell)
            else escape(str(cell), keep="\n")
            for cell in row
        ]
        for row in rows
    ]
    titles = list(map(escape, names))
    padding, tabulate.MIN_PADDING = tabulate.MIN_PADDING, 0  # columns as wide as their titles
    try:
        return tabulate.tabulate(texts, headers=titles, tablefmt="plain", disable_numparse=True)
    finally:
        tabulate.MIN_PADDING = padding


def painted(text: str, heat: float) -> str:
    """Return a text without control characters, on red (0), yellow or green (1)."""
    many = os.environ.get("COLORTERM", "").casefold() in ("truecolor", "24bit")
    system = rich.color.ColorSystem.TRUECOLOR if many else rich.color.ColorSystem.EIGHT_BIT
    heat = min(1.0, max(0.0, heat))
    red, green = (
        round(top * min(1.0, share)) for top, share in ((180, 2 - 2 * heat), (150, 2 * heat))
    )
    # not Style.parse: its styles are cached together with the codes of their first terminal
    style = rich.style.Style(color="black", bgcolor=f"#{60 + red:02x}{60 + green:02x}3c")
    return style.render(escape(text), color_system=system)
