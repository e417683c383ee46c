# SPDX-License-Identifier: Apache-2.0
"""Conditions on attributes of a pod manager, in the operators of Nova's extra specs.

======================================  =======================================================
``= 3``, ``>= 3``                       the number is 3 or more; ``=`` is as old as ``>=``
``== 3``, ``!= 3``, ``<= 3``            the number is 3, is not 3, is 3 or less
``s== x``, ``s!= x``                    the text is x, is not x
``s< x``, ``s<= x``, ``s> x``, ...      the text stands before x, after x, character by character
``<in> x``                              x is a part of the text
``<all-in> x y``                        every word is a part of the text
``<or> x <or> y``                       the text is one of these
``x``                                   no operator: the text is x
======================================  =======================================================

What holds is what Nova's ``extra_specs_ops.match`` answers. Four things differ on purpose, since
a mistake there passes in silence or raises while a host is judged: an operator that does not
exist is an error and no text to be equal to; so are an operator without a value, more values than
it takes, and a value that is no number where numbers are compared.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from valence_sched.errors import one_line, suggest

NUMBER_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXT_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}
WORD_OPERATORS = ("<in>", "<all-in>", "<or>")
OPERATORS = (*NUMBER_OPERATORS, *TEXT_OPERATORS, "<all-in>", "<or>")

#: Attributes with names below them, and attributes of their own.
NAMESPACES = ("facts", "capabilities")
PLAIN_ATTRIBUTES = ("zone", "status", "driver", "id", "name")

_OPERATOR_LIKE = re.compile(r"<[A-Za-z][\w-]*>?|s?[=<>!~]+")
_EXACT = 1e15  # whole numbers below this print as they were written


class AttributeCondition(Struct, frozen=True):
    """An operator, empty for plain equality, and the values it compares with."""

    operator: str
    values: tuple[str, ...]

    def holds(self, value: object) -> bool:
        """Return whether a value fulfils this: a number, a text, several of them, or None.

        What is missing (None) and what is no number (NaN) fulfil nothing, ``!=`` included, and
        text that is no number fulfils no comparison of numbers. Of several values one is
        enough; of ``<all-in>`` each word may be a part of another one of them.
        """
        several = isinstance(value, (list, tuple, set, frozenset))
        items: Iterable[object] = value if several else (value,)  # type: ignore[assignment]
        told = [item for item in items if item is not None and item == item]
        if self.operator == "<all-in>":
            texts = [as_text(item) for item in told]
            return all(any(word in text for text in texts) for word in self.values)
        return any(map(self._holds, told))

    def _holds(self, item: Any) -> bool:
        if self.operator in NUMBER_OPERATORS:
            found, bound = as_number(item), float(self.values[0])
            return not math.isnan(found) and NUMBER_OPERATORS[self.operator](found, bound)
        if self.operator in TEXT_OPERATORS:
            return TEXT_OPERATORS[self.operator](as_text(item), self.values[0])
        return as_text(item) in self.values


def parse_condition(text: str) -> AttributeCondition:
    """Parse an operator and its values; without an operator the text itself is the value.

    Raises:
        ValueError: an unknown operator, naming the nearest; no value, too many, or no number.
    """
    words = text.split()
    if not words:
        raise ValueError("an empty expression: what must the attribute be?")
    name, *values = words
    if name not in OPERATORS:
        if found := _OPERATOR_LIKE.match(name):
            raise ValueError(_unknown_operator(name, found[0]))
        return AttributeCondition("", (text,))
    if not values:
        raise ValueError(f"operator {name!r} without a value")
    if name == "<or>":
        return AttributeCondition(name, _or_values(values))
    if name != "<all-in>" and len(values) > 1:
        hint = "without an operator the whole text must be equal"
        raise ValueError(one_line(f"{name!r} takes one word, {values[1]!r} is a second ({hint})"))
    if name in NUMBER_OPERATORS and math.isnan(as_number(values[0])):
        other = f"s{name}" if f"s{name}" in TEXT_OPERATORS else "s=="
        shown = one_line(values[0], 60)
        raise ValueError(f"{name!r} compares numbers, {shown!r} is none ({other!r} compares text)")
    return AttributeCondition(name, tuple(values))


def split_attribute(path: str) -> tuple[str, str]:
    """Return where an attribute stands and its name there: ``facts.year`` is ("facts", "year").

    A name alone is an attribute of its own (``zone``), else a fact.

    Raises:
        ValueError: the first word names no place, naming the nearest; or the name is missing.
    """
    place, dot, name = qualify(path).partition(".")
    if place in NAMESPACES and name:
        return place, name
    if place in PLAIN_ATTRIBUTES and not dot:
        return place, ""
    if place in NAMESPACES:
        raise ValueError(f"{path!r} names no attribute: write {place}.NAME")
    if place in PLAIN_ATTRIBUTES:
        raise ValueError(one_line(f"{place!r} has no attributes below it: {path!r}"))
    hint = suggest(place, (*NAMESPACES, *PLAIN_ATTRIBUTES))
    raise ValueError(one_line(f"no place {place!r} for attributes in {path!r} ({hint})"))


def qualify(path: str) -> str:
    """Return a path with its place: a name alone that is no attribute of its own is a fact."""
    alone = "." not in path and path not in (*NAMESPACES, *PLAIN_ATTRIBUTES)
    return f"facts.{path}" if alone and path else path


def condition_problem(path: str, text: str) -> str | None:
    """Return what is wrong with a condition on an attribute, None when nothing is."""
    try:
        split_attribute(path)
        parse_condition(text)
    except ValueError as error:
        return str(error)
    return None


def as_text(value: object) -> str:
    """Return a value as people write it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)


def as_number(value: Any) -> float:
    """Return a value as a number, NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _or_values(words: list[str]) -> tuple[str, ...]:
    """Return the values between ``<or>`` and ``<or>``."""
    values, between = words[::2], words[1::2]
    if "<or>" in (*values, words[-1]):
        raise ValueError("operator '<or>' without a value")
    for word in between:
        if word != "<or>":
            raise ValueError(one_line(f"{word!r} stands where '<or>' is expected"))
    return tuple(values)


def _unknown_operator(word: str, sign: str) -> str:
    if sign in OPERATORS:
        return one_line(f"no space between operator {sign!r} and its value in {word!r}")
    if sign.startswith("<") and len(sign) > 2:
        return one_line(f"no operator named {sign!r} ({suggest(sign.lower(), WORD_OPERATORS)})")
    family = (
        [known for known in TEXT_OPERATORS if known[0] == "s"]
        if sign[0] == "s"
        else [*NUMBER_OPERATORS]
    )
    best = max(family, key=lambda known: _similarity(sign, known))
    return one_line(f"no operator named {sign!r} (did you mean {best!r}?)")


def _similarity(sign: str, known: str) -> tuple[bool, float, bool]:
    """Return how near an operator is to what was written; turned around is nearest."""
    ratio = difflib.SequenceMatcher(None, sign, known).ratio()
    return sorted(sign) == sorted(known), ratio, known.startswith(sign)
