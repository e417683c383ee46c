# SPDX-License-Identifier: Apache-2.0
"""Boolean expressions over pod managers: their syntax tree and the parser of their JSON lists.

The language of Nova's JsonFilter (2011), with ``!=`` added and two mistakes corrected: ``not``
returned a list, and 0 counted as a missing value. ``$$`` escapes the ``$`` of a path.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import json

from valence_sched.errors import InputError, one_line, suggest
from valence_sched.model import quantity
from valence_sched.model.base import Noun, as_text
from valence_sched.model.quantity import as_number, format_count

LOGICAL_OPERATORS = ("and", "or", "not")
COMPARISON_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in")
OPERATORS = (*LOGICAL_OPERATORS, *COMPARISON_OPERATORS)
_BARE_WORD = re.compile(r"[^\W\d][\w./:-]*")
MAX_NODES = 256  # operations and arguments together
MAX_DEPTH = 16
MAX_TEXT = 1024  # characters
MAX_INTEGER = 1 << 63
#: Paths without a name, and paths with one.
PLAIN_PATHS = ("aggregates", "driver", "enabled", "id", "name", "status", "traits", "zone")
NAMESPACES = ("capabilities", "facts", "free", "total")
_VARIADIC = ("=", "in")  # take two or more arguments; the other comparisons take two
_OPERATOR_ALIASES = {"==": "=", "===": "=", "<>": "!=", "=<": "<=", "=>": ">="}
_OPERATOR_ALIASES |= {"&&": "and", "||": "or", "&": "and", "|": "or", "!": "not"}


class AttributePath(Noun, frozen=True):
    """The path of a value: ``$facts.year`` has the root ``facts`` and the name ``year``."""

    root: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.root}.{self.name}" if self.name else self.root


Argument = AttributePath | str | float | bool


class Comparison(Noun, frozen=True):
    """An operator between the first argument and each of the others."""

    operator: str
    arguments: tuple[Argument, ...]

    @property
    def paths(self) -> Iterator[AttributePath]:
        return (argument for argument in self.arguments if isinstance(argument, AttributePath))

    def __str__(self) -> str:
        first, *others = map(_format_argument, self.arguments)
        if self.operator == "in":
            return f"{first} in {', '.join(others)}"
        return f" {self.operator} ".join((first, *others))


class LogicalOperation(Noun, frozen=True):
    """``and`` or ``or`` of several parts, or ``not`` of one."""

    operator: str
    parts: tuple["Comparison | LogicalOperation", ...]

    @property
    def paths(self) -> Iterator[AttributePath]:
        return (path for part in self.parts for path in part.paths)

    def __str__(self) -> str:
        if self.operator == "not":
            return f"not ({self.parts[0]})"
        grouped = (
            isinstance(one, LogicalOperation) and one.operator != "not" for one in self.parts
        )
        pairs = zip(self.parts, grouped, strict=True)
        return f" {self.operator} ".join(f"({it})" if inner else f"{it}" for it, inner in pairs)


Expression = Comparison | LogicalOperation


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Yield the expressions that must all hold: the parts of an ``and``, else the expression."""
    if isinstance(expression, LogicalOperation) and expression.operator == "and":
        for part in expression.parts:
            yield from conjuncts(part)
    else:
        yield expression


def _format_argument(argument: Argument) -> str:
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, str):
        clear = _BARE_WORD.fullmatch(argument) and math.isnan(as_number(argument))
        clear = clear and argument not in ("true", "false", *OPERATORS)
        return argument if clear else json.encode(argument).decode()
    return as_text(argument) if isinstance(argument, (int, float)) else str(argument)


def parse_expression(value: object, file: str = "where", document_path: str = "$") -> Expression:
    """Parse an expression of lists and scalars; InputError names the document path."""
    return _Parser(file).expression(value, document_path, 1)


class _Parser:
    def __init__(self, file: str) -> None:
        self._file = file
        self._nodes_left = MAX_NODES

    def expression(self, value: object, path: str, depth: int) -> Expression:
        self._count(path)
        if not isinstance(value, (list, tuple)):
            hint = 'as in ["=", "$zone", "east-1"]'
            raise self._wrong(path, _format_found(value), "a list", hint)
        if not value:
            raise self._wrong(path, "an empty list", "an operator and its arguments")
        if depth > MAX_DEPTH:
            raise self._wrong(path, f"more than {MAX_DEPTH} nested lists", "fewer")
        operator, *arguments = value
        if not isinstance(operator, str):
            hint = "known: " + ", ".join(OPERATORS)
            raise self._wrong(f"{path}[0]", _format_found(operator), "an operator", hint)
        if operator in LOGICAL_OPERATORS:
            if not arguments or (operator == "not" and len(arguments) > 1):
                expected = "one expression" if operator == "not" else "at least one expression"
                raise self._wrong(path, f"{operator!r} with {len(arguments)}", expected)
            parts = enumerate(arguments, 1)
            parsed = (self.expression(part, f"{path}[{n}]", depth + 1) for n, part in parts)
            return LogicalOperation(operator, tuple(parsed))
        if operator in COMPARISON_OPERATORS:
            return self._comparison(operator, arguments, path)
        word = operator.lower()
        meant = word if word in LOGICAL_OPERATORS else _OPERATOR_ALIASES.get(word)
        hint = f"did you mean {meant!r}?" if meant else suggest(word, OPERATORS)
        raise self._wrong(f"{path}[0]", f"unknown operator {_format_found(operator)}", hint=hint)

    def _comparison(self, operator: str, items: Sequence[Any], path: str) -> Comparison:
        variadic = operator in _VARIADIC
        if len(items) < 2 or (len(items) > 2 and not variadic):
            expected = "two or more arguments" if variadic else "two arguments"
            raise self._wrong(path, f"{operator!r} with {len(items)}", expected)
        arguments = tuple(self._argument(item, f"{path}[{n}]") for n, item in enumerate(items, 1))
        if not any(isinstance(argument, AttributePath) for argument in arguments):
            roots = (*PLAIN_PATHS, *NAMESPACES)
            texts = (one for one in arguments if isinstance(one, str))
            meant = next((one for one in texts if one.partition(".")[0] in roots), None)
            hint = "without a path the result is the same for all pod managers"
            hint = hint if meant is None else f"did you mean '${one_line(meant, 60)}'?"
            raise self._wrong(path, "no path", "a text that begins with $", hint)
        names = (one.name for one in arguments if isinstance(one, AttributePath))
        unit = next(filter(None, map(quantity.unit_of, names)), None)
        return Comparison(operator, tuple(self._in_unit(one, unit, path) for one in arguments))

    def _in_unit(self, argument: Argument, unit: str | None, path: str) -> Argument:
        if unit is None or not isinstance(argument, str) or not quantity.is_quantity(argument):
            return argument
        try:
            return quantity.quantity_in(argument, unit)
        except ValueError as error:
            raise self._wrong(path, str(error)) from None

    def _argument(self, item: object, path: str) -> Argument:
        self._count(path)
        if isinstance(item, str):
            return self._text(item, path)
        if isinstance(item, bool):
            return item
        if isinstance(item, (int, float)):
            if abs(item) < MAX_INTEGER if isinstance(item, int) else math.isfinite(item):
                return item
            raise self._wrong(path, one_line(str(item)[:40]), "a finite number of 64 bits")
        hint = "a comparison with an unknown value is never true"
        expected = "a text, a number, true or false"
        raise self._wrong(path, _format_found(item), expected, hint if item is None else "")

    def _text(self, text: str, path: str) -> Argument:
        if len(text) > MAX_TEXT:
            raise self._wrong(path, format_count(len(text), "character"), f"at most {MAX_TEXT:,}")
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise self._wrong(path, "an unpaired surrogate", "a text that UTF-8 can hold")
        if text.startswith("$$") or not text.startswith("$"):
            return text[1:] if text.startswith("$$") else text
        root, dot, name = text[1:].partition(".")
        if root in NAMESPACES:
            if not name:
                raise self._wrong(path, _format_found(text), f"${root}.NAME")
            return AttributePath(root, name)
        if root not in PLAIN_PATHS:
            hint = suggest(root, (*PLAIN_PATHS, *NAMESPACES))
            if hint.startswith("did you mean") or dot or not root:
                hint = hint.replace("'", "'$", 1)
            else:
                hint = f"write a fact as $facts.{one_line(root, 40)}; {hint}"
            raise self._wrong(path, f"unknown path {_format_found(text)}", hint=hint)
        if dot:
            raise self._wrong(path, _format_found(text), f"${root}, which has no attributes")
        return AttributePath(root)

    def _count(self, path: str) -> None:
        self._nodes_left -= 1
        if self._nodes_left < 0:
            hint = "operations and arguments together"
            raise self._wrong(path, f"more than {MAX_NODES} parts", "fewer", hint)

    def _wrong(self, path: str, found: str, expected: str = "", hint: str = "") -> InputError:
        return InputError(self._file, path, found, expected, hint)


def _format_found(value: object) -> str:
    if isinstance(value, (list, tuple, dict)):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return one_line(json.encode(value).decode(), 60)
    except (TypeError, OverflowError, UnicodeEncodeError):
        return f"a {type(value).__name__}"
