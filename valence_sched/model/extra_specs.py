# SPDX-License-Identifier: Apache-2.0
"""Conditions on attributes of a pod manager, in the operators of Nova's extra specs.

The results equal those of Nova's ``extra_specs_ops.match``, but an unknown operator, a wrong number
of values and text in place of a number are errors. ``=`` means ``>=`` here, as in Nova.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from valence_sched.errors import is_not, one_line, suggest
from valence_sched.model import quantity
from valence_sched.model.base import as_text
from valence_sched.model.quantity import as_number

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
OPERATORS = (*NUMBER_OPERATORS, *TEXT_OPERATORS, "<all-in>", "<or>")
NAMESPACES = ("facts", "capabilities")
PLAIN_ATTRIBUTES = ("zone", "status", "driver", "id", "name")
_OPERATOR_LIKE = re.compile(r"<[A-Za-z][\w-]*>?|s?[=<>!~]+")


class AttributeCondition(Struct, frozen=True):
    """An operator, empty for equality, and its values."""

    operator: str
    values: tuple[str, ...]

    def holds(self, value: object) -> bool:
        """Return whether one of the values fulfils the condition; None and NaN never do."""
        multiple = isinstance(value, (list, tuple, set, frozenset))
        items: Iterable[object] = value if multiple else (value,)  # type: ignore[assignment]
        known_items = [item for item in items if item is not None and item == item]
        if self.operator == "<all-in>":
            texts = [as_text(item) for item in known_items]
            return all(any(word in text for text in texts) for word in self.values)
        return any(map(self._holds, known_items))

    def _holds(self, item: Any) -> bool:
        if self.operator in NUMBER_OPERATORS:
            number, bound = as_number(item), float(self.values[0])
            return not math.isnan(number) and NUMBER_OPERATORS[self.operator](number, bound)
        if self.operator in TEXT_OPERATORS:
            return TEXT_OPERATORS[self.operator](as_text(item), self.values[0])
        return as_text(item) in self.values


def parse_condition(text: str, attribute: str = "") -> AttributeCondition:
    """Parse an operator and its values, in the unit of the ``attribute``; ValueError if invalid."""
    words = text.split()
    if not words:
        raise ValueError("an empty condition: give a value, as in == 3")
    name, *values = words
    if name not in OPERATORS:
        if match := _OPERATOR_LIKE.match(name):
            raise ValueError(_unknown_operator(name, match[0]))
        return AttributeCondition("", (text,))
    if not values:
        raise ValueError(f"operator {name!r} without a value")
    if name == "<or>":
        if "<or>" in (*values[::2], values[-1]):
            raise ValueError("operator '<or>' without a value")
        if wrong := [word for word in values[1::2] if word != "<or>"]:
            raise ValueError(one_line(f"expected '<or>', got {wrong[0]!r}"))
        return AttributeCondition(name, tuple(values[::2]))
    if name != "<all-in>" and len(values) > 1:
        hint = "without an operator the whole text must be equal"
        raise ValueError(one_line(f"{name!r} takes one word, got also {values[1]!r} ({hint})"))
    unit = quantity.unit_of(attribute)
    if name in NUMBER_OPERATORS and unit and quantity.is_quantity(values[0]):
        return AttributeCondition(name, (str(quantity.quantity_in(values[0], unit)),))
    if name in NUMBER_OPERATORS and math.isnan(as_number(values[0])):
        other = f"s{name}" if f"s{name}" in TEXT_OPERATORS else "s=="
        shown = one_line(values[0], 60)
        raise ValueError(f"{name!r} needs a number, got {shown!r} ({other!r} compares text)")
    return AttributeCondition(name, tuple(values))


def split_attribute(path: str) -> tuple[str, str]:
    """Split ``facts.year`` into namespace and name; ValueError if it is not an attribute."""
    namespace, dot, name = qualify(path).partition(".")
    if namespace in NAMESPACES and name:
        return namespace, name
    if namespace in PLAIN_ATTRIBUTES and not dot:
        return namespace, ""
    if namespace in NAMESPACES:
        raise ValueError(f"{path!r} has no name: write {namespace}.NAME")
    if namespace in PLAIN_ATTRIBUTES:
        raise ValueError(one_line(f"{namespace!r} has no attributes below it: {path!r}"))
    hint = suggest(namespace, (*NAMESPACES, *PLAIN_ATTRIBUTES))
    raise ValueError(one_line(f"no namespace {namespace!r} of attributes in {path!r} ({hint})"))


def qualify(path: str) -> str:
    """Return a path with its namespace: a single word is a plain attribute or else a fact."""
    alone = "." not in path and path not in (*NAMESPACES, *PLAIN_ATTRIBUTES)
    return f"facts.{path}" if alone and path else path


def parse_attribute(text: str) -> tuple[str, str]:
    """Parse ``NAME=EXPRESSION``, whose operator follows the first ``=``; else ValueError."""
    name, equals, expression = text.partition("=")
    if not equals or not name.strip() or len(name.split()) > 1 or name.endswith(tuple("<>!")):
        raise is_not("NAME=EXPRESSION, as in facts.year='>= 2022'", text)
    return name.strip(), expression.strip()


def condition_problem(path: str, text: str) -> str | None:
    """Return the problem of a condition on an attribute, None if it is valid."""
    try:
        split_attribute(path)
        parse_condition(text, path)
    except ValueError as error:
        return str(error)
    return None


def _unknown_operator(word: str, sign: str) -> str:
    if sign in OPERATORS:
        return one_line(f"no space between operator {sign!r} and its value in {word!r}")
    if sign.startswith("<") and len(sign) > 2:
        hint = suggest(sign.lower(), ("<in>", "<all-in>", "<or>"))
        return one_line(f"no operator named {sign!r} ({hint})")
    import difflib  # only for an unknown operator

    def similarity(known: str) -> tuple[bool, float, bool]:
        ratio = difflib.SequenceMatcher(None, sign, known).ratio()
        return sorted(sign) == sorted(known), ratio, known.startswith(sign)

    texts = [known for known in TEXT_OPERATORS if known[0] == "s"]
    best = max(texts if sign[0] == "s" else NUMBER_OPERATORS, key=similarity)
    return one_line(f"no operator named {sign!r} (did you mean {best!r}?)")
