# SPDX-License-Identifier: Apache-2.0
"""Boolean expressions over what pod managers tell, written as JSON lists.

===========================================  ==================================================
``["and", e, …]``, ``["or", e, …]``          all of them hold, one of them holds
``["not", e]``                               it does not hold
``["=", a, b, …]``                           the first is each of the others
``["!=", a, b]``                             it is not: the contrary of ``=``
``["<", a, b]``, also ``<= > >=``            it is less, ...
``["in", a, v, …]``                          the first is one of the others
===========================================  ==================================================

An argument is a text, a number, true or false; a text that begins with ``$`` is a path, as in
``$facts.year``, and ``$$`` at the front stands for the character itself. How they compare is
told in :mod:`valence_sched.view.evaluate`.

The language is that of the JSON filter of Nova's zone-aware scheduler of 2011, with ``!=`` added
and two of its mistakes left out: its ``not`` answered with a list, and its 0 was a missing value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import json

from valence_sched.errors import InputError, nearest, one_line
from valence_sched.model.base import Noun
from valence_sched.model.extra_specs import number, written

JOINTS = ("and", "or", "not")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "in")
OPERATORS = (*JOINTS, *COMPARISONS)
_BARE = re.compile(r"[^\W\d][\w./:-]*")


class Path(Noun, frozen=True):
    """Where a value stands: ``$facts.year`` is the place ``facts`` and the name ``year``."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.place}.{self.name}" if self.name else self.place


Scalar = str | float | bool
Argument = Path | Scalar


class Comparison(Noun, frozen=True):
    """An operator between the first argument and each of the others."""

    operator: str
    arguments: tuple[Argument, ...]

    @property
    def paths(self) -> Iterator[Path]:
        """Yield the paths in it, from left to right."""
        return (argument for argument in self.arguments if isinstance(argument, Path))

    def __str__(self) -> str:
        first, *others = map(_printed, self.arguments)
        if self.operator == "in":
            return f"{first} in {', '.join(others)}"
        return f" {self.operator} ".join((first, *others))


class Joint(Noun, frozen=True):
    """``and``, ``or``, or ``not`` of the one part."""

    operator: str
    parts: tuple[Comparison | Joint, ...]

    @property
    def paths(self) -> Iterator[Path]:
        """Yield the paths in it, from left to right."""
        return (path for part in self.parts for path in part.paths)

    def __str__(self) -> str:
        if self.operator == "not":
            return f"not ({self.parts[0]})"
        between = f" {self.operator} "
        return between.join(
            f"({part})" if isinstance(part, Joint) and part.operator != "not" else str(part)
            for part in self.parts
        )


Expression = Comparison | Joint


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Yield the expressions that must all hold: itself, or the parts of its ``and``."""
    if isinstance(expression, Joint) and expression.operator == "and":
        for part in expression.parts:
            yield from conjuncts(part)
    else:
        yield expression


def _printed(argument: Argument) -> str:
    """Print an argument for a person; a text that could be taken for something else in quotes."""
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, str):
        clear = _BARE.fullmatch(argument) and math.isnan(number(argument))
        clear = clear and argument not in ("true", "false", *OPERATORS)
        return argument if clear else json.encode(argument).decode()
    return written(argument) if isinstance(argument, (int, float)) else str(argument)


MAX_NODES = 256  # operations and arguments together
MAX_DEPTH = 16
MAX_TEXT = 1024  # characters
MAX_WHOLE = 1 << 63

#: Places of their own, and places with names below them.
SINGLE = ("aggregates", "driver", "enabled", "id", "name", "status", "traits", "zone")
GROUPS = ("capabilities", "facts", "free", "total")

_ANY_NUMBER = ("=", "in")  # of arguments, from two on; the other comparisons take two
_MEANT = {"==": "=", "===": "=", "<>": "!=", "=<": "<=", "=>": ">=", "&&": "and", "||": "or"}
_MEANT |= {"&": "and", "|": "or", "!": "not"}


def parse(value: object, file: str = "where", place: str = "$") -> Expression:
    """Parse an expression of lists and scalars, as JSON or YAML gives them.

    Raises:
        InputError: naming the place in the expression: no list, an unknown operator or path with
            the nearest, too few or too many arguments, too long, too deep, or no scalar.
    """
    return _Parser(file).expression(value, place, 1)


class _Parser:
    """Counts the nodes of one expression while it reads them."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = MAX_NODES

    def expression(self, value: object, place: str, depth: int) -> Expression:
        self._count(place)
        if not isinstance(value, (list, tuple)):
            raise self._wrong(place, _shown(value), "a list", 'as in ["=", "$zone", "east-1"]')
        if not value:
            raise self._wrong(place, "an empty list", "an operator and what it takes")
        if depth > MAX_DEPTH:
            raise self._wrong(place, f"more than {MAX_DEPTH} lists one in another", "fewer")
        operator, *rest = value
        if not isinstance(operator, str):
            hint = "known: " + ", ".join(OPERATORS)
            raise self._wrong(f"{place}[0]", _shown(operator), "an operator", hint)
        if operator in JOINTS:
            return self._joint(operator, rest, place, depth)
        if operator in COMPARISONS:
            return self._comparison(operator, rest, place)
        hint = _operator_meant(operator.lower())
        raise self._wrong(f"{place}[0]", f"no operator {_shown(operator)}", hint=hint)

    def _joint(self, operator: str, rest: Sequence[Any], place: str, depth: int) -> Joint:
        if not rest or (operator == "not" and len(rest) > 1):
            expected = "one expression" if operator == "not" else "at least one expression"
            raise self._wrong(place, f"{operator!r} of {len(rest)}", expected)
        parts = (
            self.expression(part, f"{place}[{number}]", depth + 1)
            for number, part in enumerate(rest, 1)
        )
        return Joint(operator, tuple(parts))

    def _comparison(self, operator: str, rest: Sequence[Any], place: str) -> Comparison:
        several = operator in _ANY_NUMBER
        if len(rest) < 2 or (len(rest) > 2 and not several):
            expected = "two or more arguments" if several else "two arguments"
            raise self._wrong(place, f"{operator!r} of {len(rest)}", expected)
        arguments = tuple(
            self._argument(item, f"{place}[{number}]") for number, item in enumerate(rest, 1)
        )
        if not any(isinstance(argument, Path) for argument in arguments):
            raise self._wrong(place, "no path", "a text that begins with $", _forgotten(arguments))
        return Comparison(operator, arguments)

    def _argument(self, item: object, place: str) -> Argument:
        self._count(place)
        if isinstance(item, str):
            return self._text(item, place)
        if isinstance(item, bool):
            return item
        if isinstance(item, (int, float)):
            if abs(item) < MAX_WHOLE if isinstance(item, int) else math.isfinite(item):
                return item
            raise self._wrong(place, one_line(str(item)[:40]), "a finite number of 64 bits")
        hint = "what is not told is unknown, and no comparison with it holds"
        expected = "a text, a number, true or false"
        raise self._wrong(place, _shown(item), expected, hint if item is None else "")

    def _text(self, text: str, place: str) -> Argument:
        if len(text) > MAX_TEXT:
            raise self._wrong(place, f"{len(text):,} characters", f"at most {MAX_TEXT:,}")
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise self._wrong(place, "half a character", "a text that UTF-8 can hold")
        if text.startswith("$$") or not text.startswith("$"):
            return text[1:] if text.startswith("$$") else text
        where, dot, name = text[1:].partition(".")
        if where in GROUPS:
            if not name:
                raise self._wrong(place, _shown(text), f"${where}.NAME")
            return Path(where, name)
        if where not in SINGLE:
            raise self._wrong(place, f"no path {_shown(text)}", hint=_place_meant(where, dot))
        if dot:
            raise self._wrong(place, _shown(text), f"${where}, which has nothing below it")
        return Path(where)

    def _count(self, place: str) -> None:
        self._left -= 1
        if self._left < 0:
            hint = "operations and arguments together"
            raise self._wrong(place, f"more than {MAX_NODES} parts", "fewer", hint)

    def _wrong(self, place: str, found: str, expected: str = "", hint: str = "") -> InputError:
        return InputError(self._file, place, found, expected, hint)


def _operator_meant(word: str) -> str:
    meant = word if word in JOINTS else _MEANT.get(word)
    return f"did you mean {meant!r}?" if meant else nearest(word, OPERATORS)


def _place_meant(where: str, dot: str) -> str:
    """Return the hint for a path whose first word is no place: the nearest, else a fact."""
    hint = nearest(where, (*SINGLE, *GROUPS))
    if hint.startswith("did you mean") or dot or not where:
        return hint.replace("'", "'$", 1)
    return f"a fact is $facts.{one_line(where, 40)}; {hint}"


def _forgotten(arguments: Sequence[Argument]) -> str:
    """Return the hint where nothing is a path but a text looks like one without its ``$``."""
    for text in arguments:
        if isinstance(text, str) and text.partition(".")[0] in (*SINGLE, *GROUPS):
            return f"did you mean '${one_line(text, 60)}'?"
    return "what does not look at a pod manager is the same for all"


def _shown(value: object) -> str:
    """Show a value as JSON, shortened; what JSON cannot hold as its kind."""
    if isinstance(value, (list, tuple, dict)):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return one_line(json.encode(value).decode(), 60)
    except (TypeError, OverflowError, UnicodeEncodeError):
        return f"a {type(value).__name__}"
