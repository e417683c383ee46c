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
told in :mod:`valence_sched.model.logic`.

The language is that of the JSON filter of Nova's zone-aware scheduler of 2011, with ``!=`` added
and two of its mistakes left out: its ``not`` answered with a list, and its 0 was a missing value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec import json

from valence_sched.model.noun import Noun
from valence_sched.model.operators import number, written

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
