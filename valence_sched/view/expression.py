# SPDX-License-Identifier: Apache-2.0
"""Evaluates expressions on the rows of a View in Kleene's three-valued logic.

The truth value of a row is 1 (the expression holds), -1 (it does not hold) or 0 (unknown: it
compares with a value that was not reported). ``and`` is the minimum of its parts, ``or`` the
maximum, ``not`` the negation; so the result is unknown only if the known parts do not decide it.

``doc/source/reference/requests.rst`` has the rules for pairs of values. Beyond these: no comparison
with an empty list holds. Without traits or aggregates, the list is empty; a missing stock has 0
free. For cores and memory, the reported amounts count. Any other missing value is unknown.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.errors import UnknownName
from valence_sched.model.base import as_text
from valence_sched.model.expression import Argument, AttributePath, Comparison, Expression
from valence_sched.model.need import MEASURES, need_for_measure
from valence_sched.model.quantity import as_number
from valence_sched.view.view import Floats, Labels, View

TruthValues = npt.NDArray[np.int8]
RowValues = Labels | Floats
Inherited = Mapping[str, tuple[str, ...]]  # capabilities of the zones above

NO_CAPABILITIES: Inherited = MappingProxyType({})

COMPARATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth_values(
    view: View, expression: Expression, inherited: Inherited = NO_CAPABILITIES
) -> TruthValues:
    """Return 1 per row where the expression holds, -1 where not, 0 where unknown."""
    if isinstance(expression, Comparison):
        return _compare(view, expression, inherited)
    parts = [truth_values(view, part, inherited) for part in expression.parts]
    if expression.operator == "not":
        return np.negative(parts[0])
    joined = np.minimum if expression.operator == "and" else np.maximum
    return joined.reduce(parts)  # type: ignore[no-any-return]


def reported_values(
    view: View, expression: Expression, inherited: Inherited = NO_CAPABILITIES
) -> Labels:
    """Return the values per row, formatted when read: of one path, or by path if several."""
    paths = list(dict.fromkeys(expression.paths))
    return Labels(_PathValues(view, paths, inherited), np.arange(len(view)))


def check_amounts(view: View, expression: Expression) -> None:
    """Raise UnknownName for an amount that no pool has and whose name resembles a known one.

    Any other name is a stock that the site may not have now.
    """
    names = {*MEASURES, *view.resources}
    for path in (path for path in expression.paths if path.root in ("free", "total")):
        if path.name not in names and any(_is_typo(path.name, name) for name in names):
            raise UnknownName("amount", path.name, names, f"where: ${path}")


def argument_values(
    view: View, argument: Argument, inherited: Inherited = NO_CAPABILITIES
) -> RowValues:
    """Return an argument per row: amounts as numbers, other values as labels; None is unknown."""
    if not isinstance(argument, AttributePath):
        return Labels((argument,), np.zeros(len(view), dtype=np.int64))
    root, name = argument.root, argument.name
    if root == "free":
        return view.free(need_for_measure(name))
    if root == "total":
        return view.total(need_for_measure(name))
    if root == "facts":
        return view.text(name)
    if root == "capabilities":
        labels = view.capabilities
        return Labels([has.get(name, inherited.get(name)) for has in labels.values], labels.codes)
    if root == "enabled":
        return Labels((False, True), view.enabled.astype(np.int64))
    if root in ("zone", "status", "aggregates", "traits"):
        return getattr(view, root)  # type: ignore[no-any-return]
    return Labels([getattr(podm, root) for podm in view.podms], view.podm_of)


def _is_typo(name: str, known: str) -> bool:
    import difflib  # only for an unknown name

    alike = difflib.SequenceMatcher(None, name, known).ratio() >= 0.8
    return known.startswith(name) or (alike and abs(len(name) - len(known)) <= 1)


def _compare(view: View, comparison: Comparison, inherited: Inherited) -> TruthValues:
    arguments = comparison.arguments
    first, *others = (argument_values(view, argument, inherited) for argument in arguments)
    if comparison.operator == "!=":
        return np.negative(_compare_columns("=", first, others[0]))
    if comparison.operator == "in":
        return np.maximum.reduce([_compare_columns("=", first, other) for other in others])  # type: ignore[no-any-return]
    compared = [_compare_columns(comparison.operator, first, other) for other in others]
    return np.minimum.reduce(compared)  # type: ignore[no-any-return]


def _compare_columns(sign: str, left: RowValues, right: RowValues) -> TruthValues:
    if not (isinstance(left, Labels) and isinstance(right, Labels)):
        amounts, others = _numbers(left), _numbers(right)
        if amounts is not None and others is not None:
            holds = COMPARATORS[sign](amounts, others)
            return np.where(holds, 1, -1).astype(np.int8)
    first, second = _labels(left), _labels(right)
    width = len(second.values)
    pairs, codes = np.unique(first.codes * width + second.codes, return_inverse=True)
    indexes = (divmod(pair, width) for pair in pairs.tolist())
    answers = (_compare_values(sign, first.values[i], second.values[j]) for i, j in indexes)
    values: TruthValues = np.fromiter(answers, dtype=np.int8)
    return values.take(np.asarray(codes))


def _numbers(column: RowValues) -> Floats | float | None:
    if not isinstance(column, Labels):
        return column
    value = column.values[0] if len(column.values) == 1 else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


def _labels(column: RowValues) -> Labels:
    if isinstance(column, Labels):
        return column
    values, codes = np.unique(column, return_inverse=True)
    return Labels(values.tolist(), codes)


def _compare_values(sign: str, left: Any, right: Any) -> int:
    """Compare two values: 1 if the comparison holds, -1 if not, 0 if a value is unknown."""
    if left is None or right is None:
        return 0
    return 1 if any(_holds(sign, x, y) for x in _members(left) for y in _members(right)) else -1


def _members(value: Any) -> Sequence[Any] | frozenset[Any]:
    return value if isinstance(value, (tuple, list, frozenset)) else (value,)


def _holds(sign: str, left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return sign == "=" and left is right
    if isinstance(left, str) and isinstance(right, str):
        return bool(COMPARATORS[sign](left, right))
    # a text that is not a number is NaN
    return bool(COMPARATORS[sign](as_number(left), as_number(right)))


class _PathValues(Sequence[Any]):
    """The values of rows at some paths, formatted when a row is read."""

    def __init__(self, view: View, paths: list[AttributePath], inherited: Inherited) -> None:
        self._view, self._paths, self._inherited = view, paths, inherited

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, row: Any) -> Any:
        view, inherited = self._view, self._inherited
        values = {str(path): argument_values(view, path, inherited)[row] for path in self._paths}
        if len(values) == 1:
            (value,) = values.values()
            # an amount is printed with thousands separators, a year is not
            amount = isinstance(value, np.generic)
            return _text(value) if isinstance(value, (int, float)) and not amount else value
        return {path: _words(value) for path, value in values.items()}


def _words(value: Any) -> list[str]:
    if value is None:
        return ["unknown"]
    return sorted(map(_text, _members(value))) or ["none"]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else as_text(value)
