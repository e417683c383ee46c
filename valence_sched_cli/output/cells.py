# SPDX-License-Identifier: Apache-2.0
"""Cells that read well in a table and stay what they are in JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cliff.columns import FormattableColumn

if TYPE_CHECKING:
    from valence_sched.model.decision import GrantRef, Reason
    from valence_sched.model.need import Ask, Bond, Need

T = TypeVar("T")

WIDTH = 80  # of a cell that holds sentences
GIB = 1 << 30


class Cell(FormattableColumn[T]):
    """A cell that sorts by what people see."""

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other) and not isinstance(other, Absent)


class Absent(Cell[None]):
    """A value that nobody told: people see nothing, machines see null; sorts last."""

    def __init__(self) -> None:
        super().__init__(None)

    def human_readable(self) -> str:
        return ""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Absent)


def maybe(value: Any) -> Any:
    """Return the cell of a value that may be None."""
    return Absent() if value is None else value


class Age(Cell[float]):
    """How long ago: a number and its unit for people, whole seconds for machines."""

    def human_readable(self) -> str:
        from valence_sched.model.age import print_age

        return print_age(self._value)

    def machine_readable(self) -> int:
        return int(self._value)

    def __lt__(self, other: object) -> bool:
        return self._value < other._value if isinstance(other, Age) else isinstance(other, Absent)


class Words(Cell[Sequence[str]]):
    """A list: words side by side for people, a list for machines."""

    between = ", "

    def human_readable(self) -> str:
        return self.between.join(str(item) for item in self._value)

    def machine_readable(self) -> list[str]:
        return list(self._value)


class Stack(Words):
    """A list: a word a line for people, a list for machines."""

    between = "\n"


class Tails(Stack):
    """A list of URIs: people see the last part of each, a line each."""

    def human_readable(self) -> str:
        return "\n".join(map(_tail, self._value))


class Sentences(Words):
    """A list of sentences: folded and one below the other for people, a list for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_folded, self._value))


class Sentence(Cell[str]):
    """A sentence, folded for people."""

    def human_readable(self) -> str:
        return _folded(self._value)


class Pairs(Cell[Mapping[str, Any]]):
    """A map: ``key=value, key=value`` for people, a map for machines."""

    between = ", "

    def human_readable(self) -> str:
        return self.between.join(f"{key}={text(value)}" for key, value in self._value.items())

    def machine_readable(self) -> dict[str, Any]:
        return dict(self._value)


class PairStack(Pairs):
    """A map: a ``key=value`` a line for people, a map for machines."""

    between = "\n"


class Lines(Cell[Sequence[Mapping[str, Any]]]):
    """A list of maps: one line each for people, the structure for machines."""

    def human_readable(self) -> str:
        return "\n".join(Pairs(item).human_readable() for item in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [dict(item) for item in self._value]


class Grants(Cell[Sequence["GrantRef"]]):
    """Amounts of stocks: a line each for people, the structure for machines."""

    def human_readable(self) -> str:
        return "\n".join(
            (f"{times} x " if times > 1 else "")
            + " ".join(filter(None, [text(amount), unit, resource, "of", _tail(uri)]))
            for (uri, resource, amount, unit), times in Counter(
                (grant.uri, grant.resource, grant.amount, grant.unit) for grant in self._value
            ).items()
        )

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


class Why(Cell["str | None"]):
    """A reason in one line; people see what it adds in brackets on a line of its own."""

    def human_readable(self) -> str:
        return (self._value or "").replace(" (", "\n  (")


class Reasons(Cell[Sequence["Reason"]]):
    """Every reason: a line each for people, the structure for machines."""

    def __init__(self, value: Sequence[Reason], otherwise: str | None = None) -> None:
        super().__init__(value)
        self._otherwise = otherwise

    def human_readable(self) -> str:
        texts = [reason.text for reason in self._value] or [self._otherwise or ""]
        return "\n".join(Why(text).human_readable() for text in texts)

    def machine_readable(self) -> list[Any]:
        pairs = zip(plain(self._value), self._value, strict=True)
        return [{**words, "text": reason.text} for words, reason in pairs]


class Alternatives(Cell[Sequence[Sequence[str]]]):
    """Lists of names of which one each must be: a list a line, the lists for machines."""

    def human_readable(self) -> str:
        return "\n".join(" or ".join(names) for names in self._value)

    def machine_readable(self) -> list[list[str]]:
        return [list(names) for names in self._value]


class Condition(Cell[Any]):
    """An expression: a line for each that must hold, the lists it is written in for machines."""

    def human_readable(self) -> str:
        from valence_sched.model.expression import conjuncts, parse

        return "\n".join(map(str, conjuncts(parse(self._value))))

    def machine_readable(self) -> Any:
        return self._value


def plain(nouns: Sequence[Any]) -> list[Any]:
    """Return nouns as lists and maps."""
    import msgspec

    return [msgspec.to_builtins(noun) for noun in nouns]


def text(value: Any) -> str:
    """Print a value inside a cell: lists with semicolons, numbers without needless zeros."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        return "{" + Pairs(value).human_readable() + "}"
    if isinstance(value, (list, tuple)):
        return ";".join(text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def _tail(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]


def _folded(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


class Needs(Cell[Sequence["Need"]]):
    """What a flavor asks for: a phrase a line for people, the needs for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_phrase, self._value))

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


class Bonds(Cell[Sequence["Bond"]]):
    """How the devices of needs stand together: a phrase a line, the bonds for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_bond, self._value))

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


class Asks(Cell[Sequence["Ask"]]):
    """Other ways to make a node: a line each with its needs and bonds, those for machines."""

    def human_readable(self) -> str:
        return "\n".join(
            "; ".join([*map(_phrase, ask.needs), *map(_bond, ask.bonds)]) for ask in self._value
        )

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


def _bond(bond: Bond) -> str:
    return f"{bond.relation} {bond.place}: {', '.join(bond.of)}"


def _phrase(need: Need) -> str:
    times = f"{need.count} x" if need.count > 1 else ""
    least = []
    for test in need.tests:
        if test.operator == "at_least":
            name, value = test.attribute, float(test.value)
            if name == "capacity_bytes":
                name, value = "capacity_gib", value / GIB
            least.append(f"{name} >= {text(value)}")
    amount = " ".join(filter(None, [times, text(need.amount), need.unit, need.label]))
    return ", ".join([amount, *least])
